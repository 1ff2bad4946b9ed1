"""What a trace says of the cluster after an event: the state, why each last stable offset stands
where it stands, which producers two brokers disagree about; and the cure of what hangs.

Read from the trace alone, by the functions of ``txnsim explain``, in a thread beside the brokers.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.requests import Request

from txnsim.client.admin import Admin
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError
from txnsim.client.inspection.repair import Repair, repair
from txnsim.client.inspection.survey import ANY_AGE, survey
from txnsim.errors import BadInputError
from txnsim.http.events import CURSOR_MAX
from txnsim.http.judging import outside_of
from txnsim.http.operation import PREFIX, ClusterNoun, Operation, Query
from txnsim.http.replies import Body, RefusedError, number_of
from txnsim.http.topics import partition_of
from txnsim.http.work_thread import WorkThread
from txnsim.on_demand import OnDemand
from txnsim.server.cluster import SimCluster
from txnsim.server.request_trace import PAGE
from txnsim.trace.explain import LsoExplanation, Mismatch, lso_of, mismatches
from txnsim.trace.faults_and_decisions import Remembered
from txnsim.trace.reading import recording
from txnsim.trace.state import TraceState, state_at
from txnsim.txn.open_txn_verdict import program_at
from txnsim.txn.past_decision import Decision

if TYPE_CHECKING:
    from txnsim.scenario import told_hang
else:
    told_hang = OnDemand("txnsim.scenario.told_hang")

PARTITIONS_MAX: Final = 200
"""So many are explained at once, unless one is named."""
REPAIR_TIMEOUT_MS: Final = 5_000
PRACTISE_TIMEOUT_MS: Final = 10_000

RunTrace = Callable[[Request], bytes | None]
"""The trace of the run that a request names; None where it asks for the cluster's own."""


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """A trace after one of its events."""

    at: int
    """Position of the event."""
    partitions: tuple[LsoExplanation, ...]
    open: tuple[Mismatch, ...]
    """Open transactions as leader and coordinator see them."""
    state: TraceState


class RepairPartition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """End what hangs on a partition."""

    topic: str
    partition: int


class Practised(msgspec.Struct, frozen=True, kw_only=True):
    """What was made."""

    hangs: str
    """The partition."""
    transactional_id: str
    """Of the application."""


class ExplainRoutes(ClusterNoun):
    """The routes over one cluster."""

    def __init__(self, cluster: SimCluster, run_trace: RunTrace) -> None:
        super().__init__(cluster)
        self._run_trace = run_trace
        self._thread = WorkThread("explain")
        self._is_closed = False
        self._made = itertools.count(1)
        """Hanging transactions that were asked for."""

    def close(self) -> None:
        """The control port closes."""
        self._is_closed = True
        self._thread.close()

    @Operation(
        "get",
        f"{PREFIX}/explain",
        query=(
            Query("at", "Position of the event; the last one unless given"),
            Query("partition", "Only this one, as orders-0", "string"),
            Query(
                "of", "Id of a request to run a scenario; the cluster itself unless given", "string"
            ),
            Query("run", "Label of that run; the only one unless given", "string"),
            Query("take", "armed unless given", "string"),
        ),
        refusals=("404", "409", "422", "503"),
    )
    async def explain(self, request: Request) -> Explained:
        """What the trace says after an event: why each last stable offset stands where it does,
        open transactions with both views, the whole state.
        """
        at = number_of(request, "at", default=CURSOR_MAX, least=0, most=CURSOR_MAX)
        wanted = request.query_params.get("partition")
        run = self._run_trace(request)
        tracer = self._cluster.environment.tracer
        if run is None and len(tracer) == 0:
            raise RefusedError(
                409, f'nothing is recorded: POST {PREFIX}/trace {{"level": "brief"}}'
            )
        pieces = tracer.pieces() if run is None else iter([run])
        program = program_at(self._cluster.bootstrap if run is None else None)
        reading = partial(_explained, pieces, None if at == CURSOR_MAX else at, wanted, program)
        if self._is_closed:
            raise RefusedError(503, "the control port is closing")
        try:
            return await self._thread.do(reading)
        except BadInputError as error:
            raise RefusedError(404, str(error)) from error

    @Operation("post", f"{PREFIX}/repairs", refusals=("404", "422", "503"))
    async def repair(self, _request: Request, body: Body[RepairPartition]) -> list[Repair]:
        """End what hangs on a partition, as `txnsim txns repair` does.

        It is looked for and ended over the wire.
        """
        wanted = await body.read()
        place = partition_of(self._cluster, wanted.topic, wanted.partition)
        settings = ClientSettings(client_id=PAGE, api_timeout_ms=REPAIR_TIMEOUT_MS)
        now_ms = self._cluster.environment.clock.now_ms()
        try:
            async with outside_of(self._cluster, settings) as outside:
                admin = Admin(outside)
                found = await survey(
                    admin, now_ms=now_ms, partitions=[place], older_than_ms=ANY_AGE
                )
                done = [
                    await repair(admin, one, now_ms=now_ms, guess=Decision.ABORTED)
                    for one in found.hanging
                ]
        except ClientError as error:
            raise RefusedError(503, f"the cure was not answered: {error}") from error
        return done

    @Operation("post", f"{PREFIX}/practise", refusals=("409", "503"))
    async def practise(self, _request: Request) -> Practised:
        """Make a transaction that hangs on orders-0, with its story told into the trace; again and
        again, if that is wanted.
        """
        if self._cluster.injector.get(told_hang.RULE) is not None:
            raise RefusedError(409, "one is being made: wait until it hangs")
        number = next(self._made)
        id_ = "billing" if number == 1 else f"billing-{number}"
        try:
            async with asyncio.timeout(PRACTISE_TIMEOUT_MS / 1_000):
                await self._make_hang(id_)
        except (ClientError, TimeoutError) as error:
            why = str(error) or f"no answer within {PRACTISE_TIMEOUT_MS // 1_000} s"
            raise RefusedError(
                503,
                f"it could not be made: {why}; are brokers stopped, links cut or faults armed?",
            ) from error
        return Practised(hangs=str(told_hang.TARGET), transactional_id=id_)

    async def _make_hang(self, transactional_id: str) -> None:
        settings = ClientSettings(client_id=told_hang.CLIENT)
        async with outside_of(self._cluster, settings, traced=True) as outside:
            topic = told_hang.TARGET.topic
            admin = Admin(outside)
            if topic not in {one.name for one in await admin.describe_topics(None)}:
                await admin.create_topic(topic, partitions=1)
            await told_hang.make(self._cluster, outside, transactional_id=transactional_id)


def _explained(
    pieces: Iterator[bytes], at: int | None, wanted: str | None, program: str
) -> Explained:
    run = recording("the trace", b"".join(pieces).splitlines())
    events = run.through(at)
    state = state_at(events, run.nodes, level=run.level)
    position = events[-1].i if events else -1
    remembered = Remembered.of(events)
    names = [wanted] if wanted is not None else _shown(state)
    return Explained(
        at=position,
        partitions=tuple(
            lso_of(state, name, at=position, remembered=remembered, program=program)
            for name in names
        ),
        open=tuple(mismatches(state, remembered, wanted)),
        state=state,
    )


def _shown(state: TraceState) -> list[str]:
    """The partitions of users, as many as a page can show."""
    return [name for name in state.logs if not name.startswith("__")][:PARTITIONS_MAX]
