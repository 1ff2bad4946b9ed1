"""A whole cluster for a test, asynchronous: ``async with AsyncSimulatedKafka() as kafka``.

It runs in the event loop that starts it, real or virtual. ``_blocking`` has the form for blocking
clients, which runs in its own thread.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from txnsim.client.inspection.topic_reading import SETTLE_MS
from txnsim.on_demand_imports import borrowed
from txnsim.runtime.environment import Environment
from txnsim.server.cluster import SimCluster
from txnsim.testing import _verdict_assertions as judging
from txnsim.testing._clock_and_brokers import AsyncBrokers, AsyncClock, AsyncLeaders
from txnsim.testing._members import AsyncMembers
from txnsim.testing._recording import AsyncTrace
from txnsim.testing._topics import AsyncTopics, AsyncTransactions
from txnsim.testing.event_loop import ClusterLoop, in_cluster_loop
from txnsim.testing.faults import AsyncFaults
from txnsim.testing.options import SimulatedClusterOptions, Topics, options_from_keywords
from txnsim.testing.rebuilt_cluster import RebuiltCluster

if TYPE_CHECKING:
    from txnsim_lab.testing.history import AsyncHistory

DEFAULT_OPTIONS: Final = SimulatedClusterOptions()
HISTORY_FEATURE: Final = "`history`, with its judges,"


class AsyncSimulatedKafka:
    """A cluster of brokers in this process."""

    def __init__(
        self,
        *,
        brokers: int = DEFAULT_OPTIONS.brokers,
        first_broker_id: int = DEFAULT_OPTIONS.first_broker_id,
        racks: Sequence[str] = (),
        topics: Topics = (),
        transaction_version: int | None = None,
        virgin: bool = False,
        settings: Mapping[str, Any] | None = None,
        as_version: str | Sequence[str] = (),
        rules: Mapping[str, bool] | None = None,
        port: int = DEFAULT_OPTIONS.port,
        trace: str = DEFAULT_OPTIONS.trace,
        seed: int | None = None,
        faults_may_miss: bool = DEFAULT_OPTIONS.faults_may_miss,
    ) -> None:
        """Set the options; the cluster does not run yet: use it as a context manager, or ``start``
        it.

        Args:
            brokers: Number of brokers.
            first_broker_id: Id of the first broker; the other ids follow.
            racks: The rack of each broker; none has one unless given.
            topics: Name -> partitions, or names of topics with one partition; replicated to up to
                three brokers. Other topics are created when a client asks for them, as Kafka does.
            transaction_version: Level of the feature at start; the newest unless given.
            virgin: Start without Kafka's internal topics: the first client waits until they are
                created and loaded, as on a real cluster that was never used.
            settings: Settings by Kafka's names or ours (docs/settings.md).
            as_version: Kafka release to emulate; ``1=3.9`` for one broker.
            rules: Rule name -> whether it is on, to have a bug before its fix (docs/releases.md).
            port: First of consecutive ports; 0 picks free ones.
            trace: How much is recorded: ``off``, ``brief`` or ``full``.
            seed: Seed of all random numbers; a random one unless given.
            faults_may_miss: Whether a fault that never struck is no error when the cluster stops.

        Raises:
            ConfigError: The options are invalid.
        """
        cluster_options = options_from_keywords(
            brokers=brokers,
            first_broker_id=first_broker_id,
            racks=tuple(racks),
            topics=topics,
            transaction_version=transaction_version,
            virgin=virgin,
            settings=settings or {},
            as_version=as_version,
            rules=rules or {},
            port=port,
            trace=trace,
            seed=seed,
            faults_may_miss=faults_may_miss,
        )
        self.requested_options = cluster_options
        """The requested options."""
        self._loop_and_environment: tuple[ClusterLoop | None, Environment | None] = (None, None)
        self._rebuilt: RebuiltCluster | None = None

    @classmethod
    def from_description(
        cls,
        cluster_options: SimulatedClusterOptions,
        *,
        cluster_loop: ClusterLoop | None = None,
        environment: Environment | None = None,
    ) -> Self:
        """Make a cluster with these options.

        Args:
            cluster_options: Topics, brokers and settings of the cluster.
            cluster_loop: The event loop to run in; the one that is running at the start unless
                given.
            environment: The environment to run in; its own real one unless given.
        """
        self = cls()
        self.requested_options = cluster_options
        self._loop_and_environment = (cluster_loop, environment)
        return self

    # Life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, error_type: object, error: BaseException | None, *_: object) -> None:
        __tracebackhide__ = True
        rebuilt_cluster = self._rebuilt
        if rebuilt_cluster is None or not rebuilt_cluster.is_running:
            return
        checks_faults = error is None and not self.requested_options.faults_may_miss
        states = self.faults.states_now() if checks_faults else ()
        await rebuilt_cluster.cluster_loop.run(rebuilt_cluster.stop())
        judging.all_faults_struck(states)

    async def start(self) -> None:
        """Start the cluster; every broker serves clients when this returns.

        Raises:
            ConfigError: The options are invalid.
            OSError: A port is in use.
            RuntimeError: The cluster runs already.
        """
        if self._rebuilt is not None and self._rebuilt.is_running:
            raise RuntimeError("the cluster runs already")
        cluster_loop, environment = self._loop_and_environment
        rebuilt_cluster = RebuiltCluster(
            cluster_loop or ClusterLoop(asyncio.get_running_loop()),
            self.requested_options,
            environment,
        )
        await rebuilt_cluster.cluster_loop.run(rebuilt_cluster.start())
        self._rebuilt = rebuilt_cluster
        self.faults = AsyncFaults(rebuilt_cluster)
        """Arms and releases faults, and waits until one has struck."""
        self.clock = AsyncClock(rebuilt_cluster)
        """The cluster's clock."""
        self.brokers = AsyncBrokers(rebuilt_cluster)
        """Stops, starts, kills and isolates brokers."""
        self.leaders = AsyncLeaders(rebuilt_cluster)
        """The leaders of partitions."""
        self._history: AsyncHistory | None = None
        self.topics = AsyncTopics(rebuilt_cluster)
        """Creates and reads topics."""
        self.transactions = AsyncTransactions(rebuilt_cluster)
        """Transactions as an operator sees them."""
        self.members = AsyncMembers(rebuilt_cluster)
        """Consumers in groups: join, poll, commit, stand still, leave, die."""
        self.trace = AsyncTrace(rebuilt_cluster)
        """The trace of the cluster."""

    async def stop(self) -> None:
        """Stop the cluster; do nothing if it does not run.

        Raises:
            AssertionError: An armed fault has never struck, and no other exception is being raised.
        """
        __tracebackhide__ = True
        await self.__aexit__(None, sys.exception())

    @in_cluster_loop
    async def reset(self) -> None:
        """Start the cluster again with the same addresses, and only with its initial topics:
        without records, faults and advanced clock. Clients lose their connections. A fault that has
        not struck by then still counts at the end.

        Raises:
            ConfigError: The cluster runs in virtual time.
        """
        self.faults.forget_struck()
        await self.rebuilt.reset()

    # Looking

    @property
    def was_started(self) -> bool:
        """Whether the cluster runs or has run."""
        return self._rebuilt is not None

    @property
    def rebuilt(self) -> RebuiltCluster:
        """The running cluster and its environment.

        Raises:
            RuntimeError: The cluster was never started.
        """
        if self._rebuilt is None:
            raise RuntimeError("the cluster does not run: start it, or use it as a context manager")
        return self._rebuilt

    @property
    def cluster_loop(self) -> ClusterLoop:
        """The event loop of the cluster."""
        return self.rebuilt.cluster_loop

    @property
    def cluster(self) -> SimCluster:
        """The cluster itself, for features that are missing here; use it in its own event loop
        only.
        """
        return self.rebuilt.sim

    @property
    def bootstrap(self) -> str:
        """``host:port`` of every broker, for a client's ``bootstrap.servers``."""
        return self.rebuilt.sim.bootstrap

    @property
    def bootstrap_servers(self) -> list[str]:
        """``host:port`` of every broker as a list, for kafka-python, FastStream and the like."""
        return self.bootstrap.split(",")

    # Judging

    @property
    def history(self) -> AsyncHistory:
        """Observations of the cluster's clients, for the judges.

        Raises:
            MissingExtraError: ``txnsim_lab`` is not installed.
        """
        if self._history is None:
            history_module = borrowed("txnsim_lab.testing.history", HISTORY_FEATURE)
            self._history = history_module.AsyncHistory(self.rebuilt, self.topics.deletions)
        return self._history

    @in_cluster_loop
    async def assert_no_hanging_transactions(self) -> None:
        """Asserts that every open transaction will still get its marker.

        Raises:
            AssertionError: A transaction hangs; the message names each, why it hangs, and how to
                end it.
        """
        findings = await self.transactions.hanging()
        judging.no_hanging_transactions(findings, bootstrap=self.bootstrap)

    @in_cluster_loop
    async def assert_exactly_once(
        self,
        input: str | Iterable[Any],
        output: str | Iterable[Any],
        *,
        derive: Callable[[Any], Any] | None = None,
        settle_ms: int = SETTLE_MS,
    ) -> None:
        """Asserts that everything in the input is in the output once, and nothing else is.

        Args:
            input: A topic, whose committed records count; or the expected values.
            output: A topic, as a ``read_committed`` reader sees it; or values that were read.
            derive: Input value -> output value, or several in a list; the same value unless given.
            settle_ms: Longest wait for open transactions to end.

        Raises:
            AssertionError: The message names missing values, duplicates, and values of aborted
                input.
            ClientError: A topic can't be read.
        """
        admin = await self.rebuilt.admin()
        await judging.exactly_once(admin, input, output, derive=derive, settle_ms=settle_ms)

    @in_cluster_loop
    async def assert_all_faults_struck(self) -> None:
        """Asserts that every armed fault has struck, except those that may miss.

        Raises:
            AssertionError: A fault has not struck; the message names it.
        """
        judging.all_faults_struck(self.faults.states_now())
