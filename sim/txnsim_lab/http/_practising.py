"""A transaction that hangs, made on request, and the cure of what hangs."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from starlette.requests import Request

from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError
from txnsim.client.inspection.repair import Repair, repair
from txnsim.client.inspection.survey import ANY_AGE, survey
from txnsim.http.operation import PREFIX, ClusterNoun, Operation
from txnsim.http.replies import Body, RefusedError
from txnsim.http.topics import partition_of
from txnsim.http.wire_noun import outside_of
from txnsim.on_demand import OnDemand
from txnsim.server.cluster import SimCluster
from txnsim.server.request_trace import PAGE
from txnsim.txn.past_decision import GUESSES

if TYPE_CHECKING:
    from txnsim_lab.scenario import told_hang
else:
    told_hang = OnDemand("txnsim_lab.scenario.told_hang")

REPAIR_TIMEOUT_MS: Final = 5_000
PRACTISE_TIMEOUT_MS: Final = 10_000


class RepairPartition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """End what hangs on a partition."""

    topic: str
    partition: int
    guess: Literal["abort", "commit"] | None = None
    """Marker to write where the decision is unknown; None: write nothing there."""


class Practised(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction made for practice."""

    hangs: str
    """The partition."""
    transactional_id: str
    """Of the application."""


class PractiseRoutes(ClusterNoun):
    """The routes over one cluster."""

    def __init__(self, cluster: SimCluster) -> None:
        super().__init__(cluster)
        self._made = itertools.count(1)
        """Hanging transactions that were asked for."""

    @Operation("post", f"{PREFIX}/repairs", refusals=("404", "422", "503"))
    async def repair(self, _request: Request, body: Body[RepairPartition]) -> list[Repair]:
        """End what hangs on a partition with the marker that was decided, as `txnsim txns repair
        --yes` does. Where the decision is unknown, `guess` says which one.

        It is looked for and ended over the wire.
        """
        wanted = await body.read()
        place = partition_of(self._cluster, wanted.topic, wanted.partition)
        settings = ClientSettings(client_id=PAGE, api_timeout_ms=REPAIR_TIMEOUT_MS)
        now_ms = self._cluster.environment.clock.now_ms()
        guess = None if wanted.guess is None else GUESSES[wanted.guess]
        try:
            async with outside_of(self._cluster, settings) as outside:
                admin = Admin(outside)
                found = await survey(
                    admin, now_ms=now_ms, partitions=[place], older_than_ms=ANY_AGE
                )
                done = [
                    await repair(admin, one, now_ms=now_ms, guess=guess) for one in found.hanging
                ]
        except ClientError as error:
            raise RefusedError(503, f"the cure was not answered: {error}") from error
        return done

    @Operation("post", f"{PREFIX}/practise", refusals=("409", "503"))
    async def practise(self, _request: Request) -> Practised:
        """Make a hanging transaction on orders-0 and explain it in the trace; repeatable."""
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
        def outside(client_id: str) -> Cluster:
            settings = ClientSettings(client_id=client_id)
            return outside_of(self._cluster, settings, traced=True)

        async with outside(told_hang.CLIENT) as client:
            topic = told_hang.TARGET.topic
            admin = Admin(client)
            if topic not in {one.name for one in await admin.describe_topics(None)}:
                await admin.create_topic(topic, partitions=1)
        await told_hang.make(self._cluster, outside, transactional_id=transactional_id)
