"""Observations of a cluster by a test, and the verdict of the judges of scenarios.

The same observations and the same judges as behind ``txnsim scenario`` and ``txnsim check``
(docs/checkers.md). An onlooker adds observations that a client library does not give.
"""

from __future__ import annotations

from typing import Final

from txnsim.check.history import History
from txnsim.check.judge import Verdict, judge
from txnsim.check.observations import Deleted, Seen
from txnsim.scenario.onlooker import look
from txnsim.scenario.recorder import Recorder
from txnsim.testing.event_loop import in_cluster_loop
from txnsim.testing.rebuilt_cluster import ClusterPart, RebuiltCluster
from txnsim.types import TopicPartition

TEST: Final = "test"
"""Who has done it, in the history."""


class AsyncHistory(ClusterPart):
    """The history of one cluster."""

    def __init__(self, rebuilt: RebuiltCluster) -> None:
        super().__init__(rebuilt)
        self._history = History()

    @in_cluster_loop
    async def note(self, *seen: Seen) -> None:
        """Note what an application saw, later than all before."""
        for one in seen:
            self._history.add(one)

    def deleted(self, topic: str) -> None:
        """Note that the test has deleted a topic."""
        now_ms = self._rebuilt.environment.clock.now_ms()
        self._history.add(Deleted(at_ms=now_ms, who=TEST, topic=topic, asked_ms=now_ms))

    @in_cluster_loop
    async def look(self, topic: str, partition: int = 0, *, offset: int = 0) -> tuple[Seen, ...]:
        """Observe a partition from outside: open transactions, coordinators, readers.

        Args:
            topic: Topic of the partition.
            partition: Its number.
            offset: Where readers begin.

        Returns:
            The observations.

        Raises:
            ClientError: A broker did not answer.
        """
        recorder = Recorder(self._rebuilt.environment.clock)
        place = TopicPartition(topic, partition)
        await look(await self._rebuilt.outside(), place, recorder, offset=offset)
        seen = tuple(recorder.history)
        for one in seen:
            self._history.add(one)
        return seen

    @in_cluster_loop
    async def observations(self) -> tuple[Seen, ...]:
        """Everything that was noted, in order."""
        return tuple(self._history)

    @in_cluster_loop
    async def verdict(self) -> Verdict:
        """The verdict: ``kinds`` of anomalies, none if nothing is wrong, and the evidence.

        Raises:
            HistoryError: A value names two records of a partition.
        """
        return judge(self._history)
