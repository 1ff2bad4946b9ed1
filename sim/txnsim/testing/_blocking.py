"""The cluster for blocking clients: ``with SimulatedKafka() as kafka``.

The cluster runs in its own thread, so a client may block the test's thread as long as it likes.
Every method is the blocking form of an asynchronous one, which has the documentation.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from txnsim.faults.plan import FaultRule
from txnsim.on_demand_imports import borrowed
from txnsim.server.cluster import SimCluster
from txnsim.testing._clock_and_brokers import AsyncBrokers, AsyncClock, AsyncLeaders
from txnsim.testing._members import AsyncMember, AsyncMembers, MemberProgress
from txnsim.testing._recording import AsyncTrace
from txnsim.testing._topics import AsyncTopics, AsyncTransactions
from txnsim.testing.cluster import HISTORY_FEATURE, AsyncSimulatedKafka
from txnsim.testing.event_loop import InClusterLoop, LoopThread, blocking
from txnsim.testing.faults import AsyncFault, AsyncFaults, FaultResults
from txnsim.testing.options import SimulatedClusterOptions

if TYPE_CHECKING:
    from txnsim_lab.testing.history import History

P = ParamSpec("P")
InClusterLoopT = TypeVar("InClusterLoopT", bound=InClusterLoop)


class _BlockingPart(Generic[InClusterLoopT]):
    """The blocking form of one part of a cluster."""

    def __init__(self, asynchronous: InClusterLoopT) -> None:
        self.asynchronous = asynchronous


class Fault(FaultResults, _BlockingPart[AsyncFault]):
    """An armed rule and its results."""

    def __init__(self, async_fault: AsyncFault) -> None:
        FaultResults.__init__(self, async_fault.armed)
        _BlockingPart.__init__(self, async_fault)

    wait_until_struck = blocking(AsyncFault.wait_until_struck)
    release = blocking(AsyncFault.release)
    disarm = blocking(AsyncFault.disarm)


class Faults(_BlockingPart[AsyncFaults]):
    """The faults of one cluster."""

    def arm(
        self,
        rule: FaultRule | Mapping[str, Any] | str | None = None,
        /,
        *,
        may_miss: bool = False,
        **fields: Any,
    ) -> Fault:
        """See ``AsyncFaults.arm``."""
        __tracebackhide__ = True
        return Fault(self._arm(rule, may_miss=may_miss, **fields))

    _arm = blocking(AsyncFaults.arm)
    release = blocking(AsyncFaults.release)
    disarm = blocking(AsyncFaults.disarm)
    disarm_all = blocking(AsyncFaults.disarm_all)
    wait_until_struck = blocking(AsyncFaults.wait_until_struck)
    states = blocking(AsyncFaults.states)
    never_struck = blocking(AsyncFaults.never_struck)


class Member(MemberProgress, _BlockingPart[AsyncMember]):
    """A member of a group, from ``Members.join``."""

    def __init__(self, async_member: AsyncMember) -> None:
        MemberProgress.__init__(self, async_member.member)
        _BlockingPart.__init__(self, async_member)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    poll = blocking(AsyncMember.poll)
    seek = blocking(AsyncMember.seek)
    commit = blocking(AsyncMember.commit)
    stand_still = blocking(AsyncMember.stand_still)
    leave = blocking(AsyncMember.leave)
    die = blocking(AsyncMember.die)


class Members(_BlockingPart[AsyncMembers]):
    """Joins groups of one cluster."""

    def join(self, group: str, topics: Collection[str], **options: Any) -> Member:
        """See ``AsyncMembers.join``."""
        members = self.asynchronous
        return Member(members.cluster_loop.block(members.join(group, topics, **options)))


class Clock(_BlockingPart[AsyncClock]):
    """The cluster clock."""

    now_ms = blocking(AsyncClock.now_ms)
    advance = blocking(AsyncClock.advance)
    jump = blocking(AsyncClock.jump)


class Brokers(_BlockingPart[AsyncBrokers]):
    """Starts, stops and isolates brokers."""

    states = blocking(AsyncBrokers.states)
    stop = blocking(AsyncBrokers.stop)
    start = blocking(AsyncBrokers.start)
    kill = blocking(AsyncBrokers.kill)
    isolate = blocking(AsyncBrokers.isolate)
    heal = blocking(AsyncBrokers.heal)


class Leaders(_BlockingPart[AsyncLeaders]):
    """The leaders of partitions."""

    of = blocking(AsyncLeaders.of)
    move = blocking(AsyncLeaders.move)
    coordinator_of = blocking(AsyncLeaders.coordinator_of)


class BlockingTopics(_BlockingPart[AsyncTopics]):
    """The topics of one cluster."""

    create = blocking(AsyncTopics.create)
    delete = blocking(AsyncTopics.delete)
    grow = blocking(AsyncTopics.grow)
    of_group = blocking(AsyncTopics.of_group)
    of_transactional_id = blocking(AsyncTopics.of_transactional_id)
    names = blocking(AsyncTopics.names)
    read = blocking(AsyncTopics.read)
    committed = blocking(AsyncTopics.committed)
    offsets = blocking(AsyncTopics.offsets)


class Transactions(_BlockingPart[AsyncTransactions]):
    """The transactions of one cluster."""

    list = blocking(AsyncTransactions.list)
    describe = blocking(AsyncTransactions.describe)
    producers = blocking(AsyncTransactions.producers)
    wait_for_state = blocking(AsyncTransactions.wait_for_state)
    hanging = blocking(AsyncTransactions.hanging)
    repair = blocking(AsyncTransactions.repair)


class Trace(_BlockingPart[AsyncTrace]):
    """The trace of one cluster."""

    level = blocking(AsyncTrace.level)
    position = blocking(AsyncTrace.position)
    events = blocking(AsyncTrace.events)
    story = blocking(AsyncTrace.story)
    note = blocking(AsyncTrace.note)
    export = blocking(AsyncTrace.export)


def _with_signature_of(
    init: Callable[Concatenate[Any, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Give a constructor the signature of another one, for readers and their editors."""

    def sign(constructor: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        constructor.__signature__ = inspect.signature(init)  # type: ignore[attr-defined]  # inspect asks for it
        return constructor

    return sign


class SimulatedKafka:
    """A cluster of brokers in a thread of this process."""

    @_with_signature_of(AsyncSimulatedKafka.__init__)
    def __init__(self, **options: Any) -> None:
        """See ``AsyncSimulatedKafka``.

        Raises:
            ConfigError: The options are invalid.
        """
        self.asynchronous = AsyncSimulatedKafka(**options)
        self._requested_options = self.asynchronous.requested_options
        self._given_thread: LoopThread | None = None
        self._thread: LoopThread | None = None

    @classmethod
    def from_description(
        cls, description: SimulatedClusterOptions, *, thread: LoopThread | None = None
    ) -> Self:
        """Make a cluster with these options.

        Args:
            description: Topics, brokers and settings of the cluster.
            thread: The thread to run in, with other clusters; its own one unless given.
        """
        self = cls()
        self._requested_options = description
        self._given_thread = thread
        return self

    # Life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, error_type: object, error: BaseException | None, *_: object) -> None:
        __tracebackhide__ = True
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            thread.cluster_loop.block(self.asynchronous.__aexit__(error_type, error))
        finally:
            self._leave_thread(thread)

    def start(self) -> None:
        """Start the cluster; every broker serves clients when this returns.

        Raises:
            ConfigError: The options are invalid.
            OSError: A port is in use.
            RuntimeError: The cluster runs already.
        """
        if self._thread is not None:
            raise RuntimeError("the cluster runs already")
        thread = self._given_thread or LoopThread()
        kafka = AsyncSimulatedKafka.from_description(
            self._requested_options, cluster_loop=thread.cluster_loop
        )
        try:
            thread.cluster_loop.block(kafka.start())
        except BaseException:
            self._leave_thread(thread)
            raise
        self._thread = thread
        self.asynchronous = kafka
        """The same cluster, for coroutines of any event loop."""
        self.faults = Faults(kafka.faults)
        """Arms and releases faults, and waits until one has struck."""
        self.clock = Clock(kafka.clock)
        """The cluster's clock."""
        self.brokers = Brokers(kafka.brokers)
        """Stops, starts, kills and isolates brokers."""
        self.leaders = Leaders(kafka.leaders)
        """The leaders of partitions."""
        self.topics = BlockingTopics(kafka.topics)
        """Creates and reads topics."""
        self.transactions = Transactions(kafka.transactions)
        """Transactions as an operator sees them."""
        self.members = Members(kafka.members)
        """Consumers in groups: join, poll, commit, stand still, leave, die."""
        self.trace = Trace(kafka.trace)
        """The trace of the cluster."""

    def stop(self) -> None:
        """Stop the cluster; do nothing if it does not run.

        Raises:
            AssertionError: An armed fault has never struck, and no other exception is being raised.
        """
        __tracebackhide__ = True
        self.__exit__(None, sys.exception())

    def _leave_thread(self, thread: LoopThread) -> None:
        if thread is not self._given_thread:
            thread.stop()

    reset = blocking(AsyncSimulatedKafka.reset)

    # Looking

    @property
    def bootstrap(self) -> str:
        """``host:port`` of every broker, for a client's ``bootstrap.servers``."""
        return self.asynchronous.bootstrap

    @property
    def bootstrap_servers(self) -> list[str]:
        """``host:port`` of every broker as a list, for kafka-python, FastStream and the like."""
        return self.asynchronous.bootstrap_servers

    @property
    def history(self) -> History:
        """Observations of the cluster's clients, for the judges.

        Raises:
            MissingExtraError: ``txnsim_lab`` is not installed.
        """
        async_history = self.asynchronous.history
        history: History = borrowed("txnsim_lab.testing.history", HISTORY_FEATURE).History(
            async_history
        )
        return history

    @property
    def cluster(self) -> SimCluster:
        """The cluster itself, for features that are missing here; use it in its own event loop
        only.
        """
        return self.asynchronous.cluster

    # Judging

    assert_no_hanging_transactions = blocking(AsyncSimulatedKafka.assert_no_hanging_transactions)
    assert_exactly_once = blocking(AsyncSimulatedKafka.assert_exactly_once)
    assert_all_faults_struck = blocking(AsyncSimulatedKafka.assert_all_faults_struck)
