"""The verdict on the cluster through the control port (``txnsim.verdict``).

It is what brokers have in memory at this moment, so no fault delays it, and it needs no recording.
What an application was answered stands in no broker: while the cluster is recorded, the lab's
reader of its trace adds where that contradicts the data.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import msgspec
from starlette.requests import Request

from txnsim.http.operation import PREFIX, ClusterNoun, Operation, Query
from txnsim.http.replies import LargeObject, RefusedError, number_of
from txnsim.server.cluster import SimCluster
from txnsim.server.views.cluster_facts import ClusterFactsReader
from txnsim.txn.open_txn_verdict import program_at
from txnsim.verdict.facts import ClusterFacts, WrongData
from txnsim.verdict.judge import Verdict, judging_steps


class TracedCluster(Protocol):
    """What the lab's reader of the cluster's trace adds."""

    async def facts_at(self, position: int) -> ClusterFacts:
        """The facts after the event at a position.

        Raises:
            RefusedError: There is no such event.
        """

    async def wrong_data(self) -> tuple[WrongData, ...]:
        """Where records have another end than was decided or answered."""


class VerdictView(Verdict, frozen=True, kw_only=True):
    """The verdict on the cluster, and how it stands to the trace."""

    position: int | None
    """Position of the trace's last event that it considers; null if nothing is recorded."""
    age_ms: int
    """Time since that moment; 0 for the present one."""
    is_recording: bool
    """Whether the trace goes on."""


class VerdictRoutes(ClusterNoun):
    """The route of the verdict on one cluster."""

    def __init__(
        self,
        cluster: SimCluster,
        facts_reader: ClusterFactsReader | None = None,
        traced_cluster: TracedCluster | None = None,
    ) -> None:
        """Args:
        cluster: The cluster.
        facts_reader: Reads its facts; another one unless given.
        traced_cluster: Reads its trace; None without the lab.
        """
        super().__init__(cluster)
        self._facts_reader: Final = facts_reader or ClusterFactsReader(cluster)
        self._traced = traced_cluster
        self._past_verdict_lock: Final = asyncio.Lock()
        """Held while a past moment is judged: the facts of a large cluster are in memory then."""

    @Operation(
        "get",
        f"{PREFIX}/verdict",
        query=(Query("at", "After this event of the trace; the present moment unless given"),),
        refusals=("404", "409", "422", "503"),
    )
    async def verdict(self, request: Request) -> LargeObject[VerdictView]:
        """The verdict on the cluster: its state in a word, and for each partition where readers
        stand, who holds them, who waits, and what will end it.
        """
        position = number_of(request, "at", default=-1, minimum=0)
        if position >= 0:
            if self._traced is None:
                raise RefusedError(404, "verdicts on past events need txnsim's lab; leave out at=")
            return self._large_object(await self._past_verdict(self._traced, position))
        return self._large_object(await self._present_verdict())

    async def _past_verdict(self, traced: TracedCluster, position: int) -> VerdictView:
        async with self._past_verdict_lock:
            cluster_facts = await traced.facts_at(position)
            now_ms = self._cluster.environment.clock.now_ms()
            return await self._judge(
                cluster_facts, position=position, age_ms=max(0, now_ms - cluster_facts.now_ms)
            )

    async def _present_verdict(self) -> VerdictView:
        tracer = self._cluster.environment.tracer
        wrong_data: tuple[WrongData, ...] = ()
        if self._traced is not None and tracer.on:
            wrong_data = await self._traced.wrong_data()
        cluster_facts = await self._facts_reader.read(self._pace())
        known_places = {
            (contradiction.partition, contradiction.offset)
            for contradiction in cluster_facts.wrong_data
        }
        traced_contradictions = tuple(
            contradiction
            for contradiction in wrong_data
            if (contradiction.partition, contradiction.offset) not in known_places
        )
        cluster_facts = msgspec.structs.replace(
            cluster_facts, wrong_data=(*cluster_facts.wrong_data, *traced_contradictions)
        )
        newest_position = len(tracer) - 1
        return await self._judge(
            cluster_facts, position=None if newest_position < 0 else newest_position, age_ms=0
        )

    async def _judge(
        self, cluster_facts: ClusterFacts, *, position: int | None, age_ms: int
    ) -> VerdictView:
        program = program_at(self._cluster.bootstrap)
        verdict = await self._pace().run(judging_steps(cluster_facts, program=program))
        return VerdictView(
            state=verdict.state,
            headline=verdict.headline,
            at_ms=verdict.at_ms,
            partitions=verdict.partitions,
            unfinished=verdict.unfinished,
            position=position,
            age_ms=age_ms,
            is_recording=self._cluster.environment.tracer.on,
        )
