"""The observations of a test, and the verdict of the judges on them (docs/checkers.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from txnsim.testing.event_loop import blocking, in_cluster_loop
from txnsim.testing.rebuilt_cluster import ClusterPart, RebuiltCluster
from txnsim.types import TopicPartition
from txnsim_lab.check.history import History as Observations
from txnsim_lab.check.judge import Verdict, judge
from txnsim_lab.check.observations import Deleted, Seen
from txnsim_lab.scenario.outside_view import observe_partition
from txnsim_lab.scenario.recorder import Recorder

TEST_ACTOR: Final = "test"
"""Name of the test itself as an actor in the history."""


class AsyncHistory(ClusterPart):
    """What clients of a cluster have noted, for the judges, from a running loop."""

    def __init__(self, rebuilt: RebuiltCluster, deletions: Sequence[tuple[str, int]]) -> None:
        """An empty history.

        Args:
            rebuilt: The cluster.
            deletions: The topics that the test has deleted, with their times; grows during the
                test.
        """
        super().__init__(rebuilt)
        self._history = Observations()
        self._deletions = deletions
        self._seen_deletion_count = 0

    @in_cluster_loop
    async def note(self, *observations: Seen) -> None:
        """Add an observation of an application, later than all before."""
        self._add_observations(*observations)

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
        topic_partition = TopicPartition(topic, partition)
        await observe_partition(
            await self._rebuilt.onlooker(), topic_partition, recorder, offset=offset
        )
        observations = tuple(recorder.history)
        self._add_observations(*observations)
        return observations

    @in_cluster_loop
    async def observations(self) -> tuple[Seen, ...]:
        """All observations, in order."""
        self._add_observations()
        return tuple(self._history)

    @in_cluster_loop
    async def verdict(self) -> Verdict:
        """Judge the history: ``kinds`` of anomalies, empty if nothing is wrong, and the evidence.

        Raises:
            HistoryError: A value names two records of a partition.
        """
        self._add_observations()
        return judge(self._history)

    def _add_observations(self, *observations: Seen) -> None:
        """Adds observations after the deletions that the test has made meanwhile."""
        for topic, at_ms in self._deletions[self._seen_deletion_count :]:
            self._history.add(Deleted(at_ms=at_ms, who=TEST_ACTOR, topic=topic, asked_ms=at_ms))
        self._seen_deletion_count = len(self._deletions)
        for observation in observations:
            self._history.add(observation)


class History:
    """``AsyncHistory`` for blocking clients."""

    def __init__(self, asynchronous: AsyncHistory) -> None:
        self.asynchronous = asynchronous

    note = blocking(AsyncHistory.note)
    look = blocking(AsyncHistory.look)
    observations = blocking(AsyncHistory.observations)
    verdict = blocking(AsyncHistory.verdict)
