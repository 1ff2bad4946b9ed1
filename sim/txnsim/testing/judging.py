"""Verdicts on a cluster as assertions, with messages that say what to look at; observations of a
test, and the verdict of the judges of scenarios (docs/checkers.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.inspection.complaints import about_exactly_once, about_hanging
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.testing.event_loop import in_cluster_loop
from txnsim.testing.faults import FaultState
from txnsim.testing.rebuilt_cluster import ClusterPart, RebuiltCluster
from txnsim.types import TopicPartition
from txnsim_lab.check.history import History
from txnsim_lab.check.judge import Verdict, judge
from txnsim_lab.check.observations import Deleted, Seen
from txnsim_lab.scenario.onlooker import look
from txnsim_lab.scenario.recorder import Recorder


def no_hanging_transactions(found: Sequence[JudgedTransaction], *, bootstrap: str) -> None:
    """Nothing hangs.

    Args:
        found: What does.
        bootstrap: Where the cluster is, for the commands that end it.

    Raises:
        AssertionError: Something does.
    """
    __tracebackhide__ = True
    told = about_hanging(found, bootstrap=bootstrap)
    if told is not None:
        raise AssertionError(told)


def all_faults_struck(states: Iterable[FaultState]) -> None:
    """Every rule that should has struck.

    Raises:
        AssertionError: One has not.
    """
    __tracebackhide__ = True
    idle = [state for state in states if state.struck == 0 and not state.may_miss]
    if not idle:
        return
    lines = ["armed, but never struck:"]
    for state in idle:
        fields = msgspec.json.encode(state.rule).decode()
        concerned = f"{state.matched} crossings matched" if state.matched else "nothing matched"
        lines.append(f"  {state.rule.id}: {concerned}: {fields}")
        if state.doubt is not None:
            lines.append(f"    {state.doubt}")
    raise AssertionError("\n".join(lines))


async def exactly_once(
    admin: Admin,
    source: str | Iterable[Any],
    target: str | Iterable[Any],
    *,
    derive: Callable[[Any], Any] | None,
    settle_ms: int,
) -> None:
    """Assert that the target has exactly the values that the source leads to.

    Args:
        admin: The cluster.
        source: A topic or values.
        target: A topic or values.
        derive: From a value of the source to one of the target, or to several.
        settle_ms: How long to wait for open transactions.

    Raises:
        AssertionError: It is not.
        ClientError: A topic can't be read.
    """
    __tracebackhide__ = True
    told = await about_exactly_once(admin, source, target, derive=derive, settle_ms=settle_ms)
    if told is not None:
        raise AssertionError(told)


TEST: Final = "test"
"""The test itself, as an actor of the history."""


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
