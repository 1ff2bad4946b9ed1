"""The same tests on other brokers: ``--txnsim-bootstrap`` or ``TXNSIM_BOOTSTRAP``.

A running cluster, started outside of the test, replaces ``SimulatedKafka``: its topics, its
transactions and the judges that observe clients work there as well. A test that uses a feature that
only a simulator has (the clock, starting and stopping brokers, the trace) is skipped with the
reason. Faults need a simulator too, unless a fault proxy runs in front of that cluster
(``--txnsim-proxy``, ``TXNSIM_PROXY``): then the clients of a test connect through it.

Topics of a test are created before it and deleted after it. If one exists already, it is left alone
and the test is refused: its records are not the test's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec
import pytest

from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError
from txnsim.client.inspection.txn_views import TransactionDescription
from txnsim.client.requests import NewTopic
from txnsim.errors import ConfigError
from txnsim.files import problem_of
from txnsim.injection.injector import Injector
from txnsim.on_demand_imports import borrowed
from txnsim.runtime.environment import Environment
from txnsim.runtime.real_world import real_environment
from txnsim.server.cluster import SimCluster
from txnsim.server.views.waiting_transactions import WAIT_MS
from txnsim.testing import _blocking as blocking
from txnsim.testing._members import AsyncMembers
from txnsim.testing._topics import AsyncTopics, AsyncTransactions
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.event_loop import ClusterLoop, LoopThread, in_cluster_loop
from txnsim.testing.event_loop import blocking as twin
from txnsim.testing.faults import AsyncFaults
from txnsim.testing.options import SimulatedClusterOptions
from txnsim.testing.rebuilt_cluster import ONLOOKER, RebuiltCluster

if TYPE_CHECKING:
    from txnsim_lab.proxy.fault_proxy import FaultProxy

PROXY_OPTION: Final = "--txnsim-proxy"
BOOTSTRAP_OPTION: Final = "--txnsim-bootstrap"
BOOTSTRAP_VARIABLE: Final = "TXNSIM_BOOTSTRAP"
SIMULATED_ONLY_FEATURES: Final = (
    "faults", "clock", "brokers", "leaders", "trace", "history", "cluster", "reset",
)  # fmt: skip
SIMULATED_ONLY_OPTIONS: Final = (
    "brokers", "first_broker_id", "racks", "transaction_version", "settings", "as_version", "rules",
    "virgin",
)  # fmt: skip
"""Options of the pytest marker that only a simulated cluster can have."""


def skip_test(missing_feature: str) -> Any:
    """Skip the test, because it needs a feature that only the simulator has.

    Raises:
        pytest.skip.Exception: Always.
    """
    pytest.skip(
        f"needs {missing_feature}, which only a simulated cluster has"
        f" ({BOOTSTRAP_OPTION}, {BOOTSTRAP_VARIABLE})"
    )


class ForeignCluster(RebuiltCluster):
    """A connection to a cluster that was started outside of the test."""

    def __init__(
        self,
        cluster_loop: ClusterLoop,
        cluster_options: SimulatedClusterOptions,
        bootstrap: str,
        *,
        has_proxy: bool = False,
    ) -> None:
        super().__init__(cluster_loop, cluster_options)
        self.bootstrap = bootstrap
        self.has_proxy = has_proxy
        """Whether a fault proxy runs in front of the cluster."""
        self.proxy: FaultProxy | None = None
        self._client: Cluster | None = None
        self._environment: Environment | None = None
        self._created_topics: list[str] = []

    @property
    def sim(self) -> SimCluster:
        """Skips the test: there is no simulated cluster.

        Raises:
            pytest.skip.Exception: Always.
        """
        raise skip_test("the cluster itself")

    @property
    def injector(self) -> Injector:
        """The fault injector of the proxy.

        Raises:
            pytest.skip.Exception: There is no proxy.
        """
        if self.proxy is None:
            raise skip_test("`faults`")
        return self.proxy.injector

    @property
    def client_bootstrap(self) -> str:
        """Address for the clients of a test: the proxy's, if there is one."""
        return self.bootstrap if self.proxy is None else self.proxy.bootstrap

    @property
    def environment(self) -> Environment:
        """The environment of this process; its clock gives the ages of transactions."""
        assert self._environment is not None, "it was started"
        return self._environment

    @property
    def is_running(self) -> bool:
        """Whether the client is connected."""
        return self._client is not None

    async def start(self) -> None:
        """Connect, and create the topics of the test.

        Raises:
            ConfigError: No broker answers, or a topic exists already.
        """
        client = Cluster(self.bootstrap, settings=ClientSettings(client_id=ONLOOKER))
        try:
            await client.connect()
        except (ClientError, OSError) as error:
            raise ConfigError(
                f"{BOOTSTRAP_OPTION} {self.bootstrap}: {problem_of(error)}"
            ) from error
        self._client = client
        self._environment = real_environment()
        try:
            if self.has_proxy:
                proxy_module = borrowed("txnsim_lab.proxy.fault_proxy", PROXY_OPTION)
                proxy_options = proxy_module.ProxyOptions(bootstrap=self.bootstrap, port=0)
                proxy: FaultProxy = proxy_module.FaultProxy(self._environment, proxy_options)
                await proxy.start()
                self.proxy = proxy
            for topic_name, partitions in self.requested_options.topics.items():
                await self.create(topic_name, partitions, replication_factor=-1, configs={})
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Delete the topics that were created, and disconnect."""
        client, self._client = self._client, None
        if client is None:
            return
        await self._end_guests()
        if self.proxy is not None:
            await self.proxy.stop()
        created_topics, self._created_topics = self._created_topics, []
        if created_topics:
            await Admin(client).delete_topics(created_topics)
        await client.close()

    async def onlooker(self) -> Cluster:
        """The connected client."""
        assert self._client is not None, "it was started"
        return self._client

    async def create(
        self,
        topic_name: str,
        partitions: int,
        *,
        replication_factor: int,
        configs: Mapping[str, str],
    ) -> None:
        """Create a topic, to be deleted at the end.

        Raises:
            ConfigError: The broker refuses.
        """
        admin = await self.admin()
        topic = NewTopic(
            name=topic_name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=tuple(configs.items()),
        )
        outcome = (await admin.create_topics([topic]))[topic_name]
        if isinstance(outcome, ClientError):
            raise ConfigError(
                f"topic {topic_name} on {self.bootstrap}: {outcome}; a test makes its topics and "
                "deletes them: choose another name, or delete what is there"
            )
        self._created_topics.append(topic_name)
        await admin.wait_for_topic(topic_name)


class ForeignTopics(AsyncTopics):
    """The topics of a cluster that was started outside of the test."""

    _rebuilt: ForeignCluster

    @in_cluster_loop
    async def create(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """See ``AsyncTopics.create``; by default with the broker's number of replicas."""
        effective_factor = -1 if replication_factor is None else replication_factor
        await self._rebuilt.create(
            name, partitions, replication_factor=effective_factor, configs=configs or {}
        )

    @in_cluster_loop
    async def names(self) -> tuple[str, ...]:
        """See ``AsyncTopics.names``."""
        admin = await self._rebuilt.admin()
        topics = await admin.describe_topics(None)
        return tuple(sorted(topic.name for topic in topics if not topic.internal))


class ForeignTransactions(AsyncTransactions):
    """The transactions of a cluster that was started outside of the test."""

    @in_cluster_loop
    async def wait_for_state(
        self, transactional_id: str, *states: str, timeout_ms: int = WAIT_MS
    ) -> TransactionDescription:
        """See ``AsyncTransactions.wait_for_state``; the error does not say what the transaction
        waits for.

        Raises:
            TimeoutError: The transaction did not get into the state in time.
        """
        try:
            return await super().wait_for_state(transactional_id, *states, timeout_ms=timeout_ms)
        except pytest.skip.Exception:
            raise TimeoutError(
                f"{transactional_id} is not {' or '.join(states)} within {timeout_ms} ms"
            ) from None


class _KafkaFeaturesOnly:
    """Skips a test that uses a feature that only a simulated cluster has."""

    def __getattr__(self, name: str) -> Any:
        if name in SIMULATED_ONLY_FEATURES:
            skip_test(f"`{name}`")
        raise AttributeError(name)


class AsyncForeignKafka(_KafkaFeaturesOnly, AsyncSimulatedKafka):
    """A cluster that was started outside of the test, for coroutines."""

    @classmethod
    def at_address(
        cls,
        bootstrap: str,
        cluster_options: SimulatedClusterOptions,
        cluster_loop: ClusterLoop,
        *,
        has_proxy: bool = False,
    ) -> Self:
        """The cluster at an address, with or without a fault proxy in front of it."""
        if not has_proxy:  # and so no faults
            cluster_options = msgspec.structs.replace(cluster_options, faults_may_miss=True)
        self = cls.from_description(cluster_options, cluster_loop=cluster_loop)
        self._foreign = ForeignCluster(
            cluster_loop, cluster_options, bootstrap, has_proxy=has_proxy
        )
        return self

    _foreign: ForeignCluster

    async def start(self) -> None:
        """Connect, and create the topics of the test.

        Raises:
            ConfigError: No broker answers, or a topic exists already.
        """
        await self._foreign.cluster_loop.run(self._foreign.start())
        self._rebuilt = self._foreign
        self.topics = ForeignTopics(self._foreign)
        self.transactions = ForeignTransactions(self._foreign)
        self.members = AsyncMembers(self._foreign)
        if self._foreign.has_proxy:
            self.faults = AsyncFaults(self._foreign)

    @property
    def bootstrap(self) -> str:
        """Address of the cluster, or the proxy's."""
        return self._foreign.client_bootstrap

    async def reset(self) -> None:
        """Skip the test: only a simulated cluster can be reset.

        Raises:
            pytest.skip.Exception: Always.
        """
        skip_test("`reset`")


class _BlockingTopics(blocking.BlockingTopics):
    create = twin(ForeignTopics.create)
    names = twin(ForeignTopics.names)


class _BlockingTransactions(blocking.Transactions):
    wait_for_state = twin(ForeignTransactions.wait_for_state)


class ForeignKafka(_KafkaFeaturesOnly, blocking.SimulatedKafka):
    """A cluster that was started outside of the test, for blocking clients."""

    _has_proxy: bool

    @classmethod
    def at_address(
        cls,
        bootstrap: str,
        cluster_options: SimulatedClusterOptions,
        thread: LoopThread,
        *,
        has_proxy: bool = False,
    ) -> Self:
        """The cluster at an address, with or without a fault proxy in front of it."""
        self = cls.from_description(cluster_options, thread=thread)
        self.asynchronous = AsyncForeignKafka.at_address(
            bootstrap, cluster_options, thread.cluster_loop, has_proxy=has_proxy
        )
        self._has_proxy = has_proxy
        return self

    def start(self) -> None:
        """Connect, and create the topics of the test.

        Raises:
            ConfigError: No broker answers, or a topic exists already.
        """
        assert self._given_thread is not None, "it lives beside others"
        self._given_thread.cluster_loop.block(self.asynchronous.start())
        self._thread = self._given_thread
        self.topics = _BlockingTopics(self.asynchronous.topics)
        self.transactions = _BlockingTransactions(self.asynchronous.transactions)
        self.members = blocking.Members(self.asynchronous.members)
        if self._has_proxy:
            self.faults = blocking.Faults(self.asynchronous.faults)


def skip_unsupported(marker_options: Mapping[str, Any]) -> None:
    """Skip a test whose marker has an option that only a simulated cluster can have.

    Raises:
        pytest.skip.Exception: There is such an option.
    """
    unsupported_features = [
        f"{option_name}={marker_options[option_name]!r}"
        for option_name in SIMULATED_ONLY_OPTIONS
        if marker_options.get(option_name)
    ]
    if unsupported_features:
        skip_test(", ".join(unsupported_features))
