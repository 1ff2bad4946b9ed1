"""The exam on real brokers, behind the fault proxy: ``--on HOST:PORT`` or ``--on apache-RELEASE``.

Brokers that are started for it may die, and reach each other through the proxy, so markers can be
held; those that were there already may not. Each situation has topics, ids and groups of its own,
which are taken away afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

from txnsim.client.admin import Admin
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError
from txnsim.injection.injector import Injector
from txnsim.runtime.env import Environment
from txnsim.runtime.real import new_token, real_environment
from txnsim.runtime.trace import TraceLevel
from txnsim.settings import DEFAULTS
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.event_loop import ClusterLoop
from txnsim.testing.faults import AsyncFaults
from txnsim.testing.options import Wanted
from txnsim.testing.rebuilt_cluster import RebuiltCluster
from txnsim.trace.story import story
from txnsim.types import INTERNAL_TOPICS, TopicPartition
from txnsim_lab.exam.hall import TOPICS, Hall
from txnsim_lab.exam.results import NotAskedError
from txnsim_lab.scenario.answers import StoryFailedError
from txnsim_lab.scenario.ground.apache import ApacheOptions
from txnsim_lab.scenario.ground.cleaning import Left
from txnsim_lab.scenario.ground.comparison import SHORT_SETTINGS
from txnsim_lab.scenario.ground.generation import generation_of
from txnsim_lab.scenario.ground.jars import fetch, version_of
from txnsim_lab.scenario.ground.kafka import KafkaGround, kafka_ground
from txnsim_lab.scenario.ground.started import RealCluster, apache_cluster, cluster_there
from txnsim_lab.scenario.model import Actor, Scenario, Topic
from txnsim_lab.scenario.steps_model import ClusterAct

APACHE: Final = "apache-"
IDS: Final = ("shop", "till", "stall")
GROUPS: Final = ("g", "readers")
EXPIRING_MS: Final = 16_000
"""Timeout of a transaction that is to time out: a library may want it to be longer than what a
record may take to be delivered (``room.PATIENCE_MS``).
"""


class _Proxied(RebuiltCluster):
    """What faults need of a cluster: the proxy's injector."""

    def __init__(self, loop: ClusterLoop, injector: Injector) -> None:
        super().__init__(loop, Wanted())
        self._proxys = injector

    @property
    def injector(self) -> Injector:
        """The proxy's."""
        return self._proxys


class RealHall:
    """Some names on a real cluster."""

    expiring_ms: Final = EXPIRING_MS

    def __init__(self, ground: KafkaGround, faults: AsyncFaults, *, has_brokers: bool) -> None:
        self._ground = ground
        self._has_brokers = has_brokers
        self._since = len(ground.environment.tracer)
        self.prefix = ground.prefix
        self.bootstrap = ground.bootstrap
        self.faults = faults

    async def admin(self) -> Admin:
        """See ``Hall``."""
        return self._ground.admin

    async def move_leader(self, place: TopicPartition, *, to: int | None = None) -> None:
        """See ``Hall``."""
        if place.topic in INTERNAL_TOPICS and not self._has_brokers:
            raise NotAskedError(f"it moves a leader of {place.topic}, and these brokers are yours")
        led = await (await self.admin()).describe_partition(place)
        others = [one for one in led.isr if one != led.leader_id and to in (one, None)]
        if not others:
            raise NotAskedError(f"no other replica of {place} is in sync")
        await self._do("move-leader", partition=str(place), to=self._ground.number_of(others[0]))

    async def kill(self, broker: int) -> None:
        """See ``Hall``."""
        if not self._has_brokers:
            raise NotAskedError("it kills a broker, and these brokers are yours")
        await self._do("kill", broker=self._ground.number_of(broker))

    async def _do(self, verb: str, **more: object) -> None:
        try:
            await self._ground.act(None, ClusterAct.model_validate({"do": verb, **more}))
        except StoryFailedError as error:
            raise NotAskedError(str(error)) from None

    async def create_topic(self, name: str, configs: Mapping[str, str]) -> None:
        """See ``Hall``."""
        await self._ground.create_topic(name, Topic(partitions=1, configs=dict(configs)))

    async def roll(self, place: TopicPartition) -> None:
        """See ``Hall``."""
        await self._care_for("roll", place)

    async def clean(self, place: TopicPartition) -> None:
        """See ``Hall``; a real cleaner is waited for."""
        await self._care_for("clean", place)

    async def _care_for(self, verb: str, place: TopicPartition) -> None:
        if not self._has_brokers:
            raise NotAskedError(f"{verb}: it needs the cleaner, and these brokers are yours")
        await self._do(verb, partition=str(place))

    async def pass_time(self) -> None:
        """Wait until the coordinator has ended what takes too long."""
        await self._ground.wait_out(EXPIRING_MS)

    def simulator(self) -> AsyncSimulatedKafka:
        """There is none.

        Raises:
            NotAskedError: Always.
        """
        raise NotAskedError("only a simulated cluster can do that")

    async def story(self) -> list[str]:
        """Faults, as the proxy knows them."""
        tracer = self._ground.environment.tracer
        return [str(line.text) for line in story(tracer.events(self._since), tracer.nodes)]

    async def recording(self) -> bytes:
        """None: a proxy sees no broker's state."""
        return b""


class RealHalls:
    """Real clusters, started for the exam or there already."""

    def __init__(
        self,
        on: str,
        *,
        level: int | None,
        say: Callable[[str], object],
        settings: ClientSettings,
    ) -> None:
        self._on = on
        self._say = say
        self._settings = settings
        self._cluster: tuple[int, RealCluster, Environment] | None = None
        self._closing = contextlib.AsyncExitStack()
        self._left: list[Left] = []
        self._number = 0
        self._token = "".join(one for one in new_token().lower() if one.isalnum())[:6]
        self.is_ours = on.startswith(APACHE)
        self.about = f"Apache Kafka {on.removeprefix(APACHE)}" if self.is_ours else on
        self.levels: tuple[int, ...] = (0, 1, 2) if level is None else (level,)

    @classmethod
    async def at(
        cls, on: str, *, say: Callable[[str], object], settings: ClientSettings | None = None
    ) -> RealHalls:
        """Look at what is named; releases are started when a situation wants them.

        Args:
            on: ``HOST:PORT``, or ``apache-RELEASE``.
            say: Gets lines of progress, and what could not be cleaned.
            settings: How a cluster is reached that is there.

        Raises:
            ConfigError: It is no release that can be started.
            ClientError: No broker answers there.
        """
        settings = settings or ClientSettings()
        if on.startswith(APACHE):
            version_of(on)
            return cls(on, level=None, say=say, settings=settings)
        found = await generation_of(on, settings)
        return cls(on, level=found.transaction_version, say=say, settings=settings)

    @contextlib.asynccontextmanager
    async def open(self, level: int, *, begins_as: str = "") -> AsyncIterator[Hall]:
        """See ``Halls``.

        Raises:
            NotAskedError: The situation wants a release at its beginning.
            ConfigError: A broker did not come up.
        """
        if begins_as:
            raise NotAskedError(f"only a simulated cluster: it begins as {begins_as}")
        cluster, environment = await self._running(level)
        self._number += 1
        prefix = f"txnsim-{self._token}-{self._number}-"
        ground = KafkaGround(
            environment,
            cluster.proxy,
            _belongings(prefix),
            prefix=prefix,
            settings=DEFAULTS,
            hands=cluster.brokers,
        )
        loop = ClusterLoop(asyncio.get_running_loop())
        faults = AsyncFaults(_Proxied(loop, cluster.proxy.injector))
        left: list[Left] = []
        try:
            if cluster.brokers is not None:
                await cluster.brokers.mend()
            async with kafka_ground(ground, left=left.extend):
                for name, partitions in TOPICS.items():
                    await ground.create_topic(prefix + name, Topic(partitions=partitions))
                yield RealHall(ground, faults, has_brokers=self.is_ours)
        except (StoryFailedError, ClientError) as error:  # brokers that did not come back whole
            await self.close()
            raise NotAskedError(f"the cluster: {error}") from None
        for one in left if not self.is_ours else ():
            self._say(f"left behind: {one}")

    async def close(self) -> None:
        """See ``Halls``."""
        self._cluster = None
        await self._closing.aclose()

    async def _running(self, level: int) -> tuple[RealCluster, Environment]:
        """The cluster at a level; one at another level ends first."""
        if self._cluster is not None and self._cluster[0] == level:
            return self._cluster[1:]
        await self.close()
        environment = real_environment(trace_level=TraceLevel.BRIEF)
        if not self.is_ours:
            context = cluster_there(environment, self._on, self._settings)
        else:
            version = version_of(self._on)
            self._say(f"starting {self.about} at transaction.version {level} …")
            options = ApacheOptions(
                version=version,
                libs=fetch(version, say=self._say),
                brokers=3,
                transaction_version=level,
                properties={**SHORT_SETTINGS, "transaction.state.log.num.partitions": "6"},
            )
            context = apache_cluster(environment, options)
        cluster = await self._closing.enter_async_context(context)
        self._cluster = (level, cluster, environment)
        return cluster, environment


def _belongings(prefix: str) -> Scenario:
    """What a situation may leave behind, in the form in which the ground knows it."""
    owners = [Actor(plays="wire", transactional_id=prefix + one) for one in IDS]
    owners += [Actor(plays="wire", group=prefix + one) for one in GROUPS]
    return Scenario(
        name="exam",
        title="A situation of the exam",
        goal="",
        method="",
        topics={},
        actors={f"owner{number}": one for number, one in enumerate(owners)},
        runs={},
        steps=(),
    )
