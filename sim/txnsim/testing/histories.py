"""What was seen of a cluster, noted by a test, and what the judges of scenarios make of it.

The same observations and the same judges as behind ``txnsim scenario`` and ``txnsim check``
(docs/checkers.md). What a client library does not tell, an onlooker sees for the test.
"""

from __future__ import annotations

from txnsim.check.history import History
from txnsim.check.judge import Verdict, judge
from txnsim.check.observations import Seen
from txnsim.scenario.onlooker import look
from txnsim.scenario.recorder import Recorder
from txnsim.testing.event_loop import in_home
from txnsim.testing.rebuilt_cluster import Inhabitant, World
from txnsim.types import TopicPartition


class AsyncHistory(Inhabitant):
    """The history of one cluster."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._history = History()

    @in_home
    async def note(self, *seen: Seen) -> None:
        """Note what an application saw, later than all before."""
        for one in seen:
            self._history.add(one)

    @in_home
    async def look(self, topic: str, partition: int = 0, *, offset: int = 0) -> tuple[Seen, ...]:
        """Note what an onlooker is told of a partition: open transactions, coordinators, readers.

        Args:
            topic: Of the partition.
            partition: Its number.
            offset: Where readers begin.

        Returns:
            What was noted.

        Raises:
            ClientError: Somebody did not answer.
        """
        recorder = Recorder(self._world.environment.clock)
        place = TopicPartition(topic, partition)
        await look(await self._world.outside(), place, recorder, offset=offset)
        seen = tuple(recorder.history)
        for one in seen:
            self._history.add(one)
        return seen

    @in_home
    async def observations(self) -> tuple[Seen, ...]:
        """Everything that was noted, in order."""
        return tuple(self._history)

    @in_home
    async def verdict(self) -> Verdict:
        """What it comes to: ``kinds`` of anomalies, none if nothing is wrong, and the evidence."""
        return judge(self._history)
