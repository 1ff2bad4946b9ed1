"""What a trace says of the cluster after an event: the state, why each last stable offset stands
where it stands, which producers two brokers disagree about.

Read from the trace alone, by the functions of ``txnsim explain``, in a thread beside the brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import msgspec
from starlette.requests import Request

from txnsim.errors import BadInputError
from txnsim.http.operation import PREFIX, Noun, Operation, Query
from txnsim.http.replies import CURSOR_MAX, RefusedError, number_of
from txnsim.http.work_thread import WorkThread
from txnsim.runtime.trace import Tracer
from txnsim.trace.explain import LsoExplanation, Mismatch, lso_of, mismatches
from txnsim.trace.faults_and_decisions import Remembered
from txnsim.trace.reading import recording
from txnsim.trace.state import TraceState, state_at
from txnsim.txn.open_txn_verdict import program_at

PARTITIONS_MAX: Final = 200
"""So many are explained at once, unless one is named."""

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


class ExplainRoutes(Noun):
    """The route over one cluster's trace, and those of runs."""

    def __init__(self, tracer: Tracer, bootstrap: str, run_trace: RunTrace) -> None:
        """Args:
        tracer: Of the cluster.
        bootstrap: Where the cluster is; advice names it.
        run_trace: Finds runs.
        """
        self._tracer = tracer
        self._bootstrap = bootstrap
        self._run_trace = run_trace
        self._thread = WorkThread("explain")
        self._is_closed = False

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
        tracer = self._tracer
        if run is None and len(tracer) == 0:
            raise RefusedError(
                409, f'nothing is recorded: POST {PREFIX}/trace {{"level": "brief"}}'
            )
        pieces = tracer.pieces() if run is None else iter([run])
        program = program_at(self._bootstrap if run is None else None)
        reading = partial(_explained, pieces, None if at == CURSOR_MAX else at, wanted, program)
        if self._is_closed:
            raise RefusedError(503, "the control port is closing")
        try:
            return await self._thread.do(reading)
        except BadInputError as error:
            raise RefusedError(404, str(error)) from error


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
