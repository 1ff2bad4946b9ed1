"""The exam on real brokers, behind the fault proxy: ``--on HOST:PORT`` or ``--on apache-RELEASE``.

Brokers that are started for the exam may be killed, and their traffic with each other goes through
the proxy, so markers can be held. Neither is possible for brokers that ran already. Each situation
has its own topics, ids and groups, which are removed afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from txnsim.client.connection import ClientSettings
from txnsim.errors import ClientError
from txnsim.injection.injector import Injector
from txnsim.runtime.environment import Environment
from txnsim.runtime.real_world import new_token, real_environment
from txnsim.runtime.trace import TraceLevel
from txnsim.settings import Settings
from txnsim.testing.event_loop import ClusterLoop
from txnsim.testing.faults import AsyncFaults
from txnsim.testing.options import SimulatedClusterOptions
from txnsim.testing.rebuilt_cluster import RebuiltCluster
from txnsim_lab.exam.results import NotAskedError
from txnsim_lab.exam.targets import TOPICS, OpenedTarget, create_topic
from txnsim_lab.target.apache import ApacheOptions
from txnsim_lab.target.cleaning import Leftover
from txnsim_lab.target.cluster import TargetError
from txnsim_lab.target.generation import generation_of
from txnsim_lab.target.jars import fetch, version_of
from txnsim_lab.target.real import RealTarget, real_target
from txnsim_lab.target.real_clusters import (
    SHORT_SETTINGS,
    RealCluster,
    apache_cluster,
    running_cluster,
)

APACHE_PREFIX: Final = "apache-"
TRANSACTIONAL_IDS: Final = ("shop", "till", "stall")
GROUPS: Final = ("g", "readers", "sharers")


class _ProxiedTarget(RebuiltCluster):
    """A real cluster behind the proxy, with the operations that faults need."""

    def __init__(self, loop: ClusterLoop, injector: Injector) -> None:
        super().__init__(loop, SimulatedClusterOptions())
        self._proxy_injector = injector

    @property
    def injector(self) -> Injector:
        """The injector of the proxy's faults."""
        return self._proxy_injector


class RealTargets:
    """Real clusters: started for the exam, or running already."""

    def __init__(
        self,
        cluster_name: str,
        *,
        level: int | None,
        report_progress: Callable[[str], object],
        settings: ClientSettings,
    ) -> None:
        self._cluster_name = cluster_name
        self._say = report_progress
        self._settings = settings
        self._cluster: tuple[int, RealCluster, Environment] | None = None
        self._exit_stack = contextlib.AsyncExitStack()
        self._leftovers: list[Leftover] = []
        self._situation_number = 0
        self._token = "".join(
            character for character in new_token().lower() if character.isalnum()
        )[:6]
        self.is_ours = cluster_name.startswith(APACHE_PREFIX)
        self.about = (
            f"Apache Kafka {cluster_name.removeprefix(APACHE_PREFIX)}"
            if self.is_ours
            else cluster_name
        )
        self.levels: tuple[int, ...] = (0, 1, 2) if level is None else (level,)

    @classmethod
    async def connect(
        cls,
        cluster_name: str,
        *,
        report_progress: Callable[[str], object],
        settings: ClientSettings | None = None,
    ) -> RealTargets:
        """Inspect the cluster; brokers of a release are started when a situation needs them.

        Args:
            cluster_name: ``HOST:PORT``, or ``apache-RELEASE``.
            report_progress: Takes lines of progress, and the names of what could not be removed.
            settings: The settings of clients of a running cluster.

        Raises:
            ConfigError: The release can't be started.
            ClientError: No broker answers.
        """
        settings = settings or ClientSettings()
        if cluster_name.startswith(APACHE_PREFIX):
            version_of(cluster_name)
            return cls(cluster_name, level=None, report_progress=report_progress, settings=settings)
        generation = await generation_of(cluster_name, settings)
        return cls(
            cluster_name,
            level=generation.transaction_version,
            report_progress=report_progress,
            settings=settings,
        )

    @contextlib.asynccontextmanager
    async def open(self, level: int, *, begins_as: str = "") -> AsyncIterator[OpenedTarget]:
        """See ``Targets``.

        Raises:
            NotAskedError: The situation begins with another release.
            ConfigError: A broker did not come up.
        """
        if begins_as:
            raise NotAskedError(f"only a simulated cluster: it begins as {begins_as}")
        cluster, environment = await self._ensure_cluster(level)
        self._situation_number += 1
        prefix = f"txnsim-{self._token}-{self._situation_number}-"
        target = RealTarget(
            environment,
            cluster.proxy,
            prefix=prefix,
            settings=Settings(),
            processes=cluster.brokers,
            groups=[prefix + suffix for suffix in GROUPS],
            transactional_ids=[prefix + suffix for suffix in TRANSACTIONAL_IDS],
        )
        loop = ClusterLoop(asyncio.get_running_loop())
        faults = AsyncFaults(_ProxiedTarget(loop, cluster.proxy.injector))
        first_event = len(environment.tracer)
        leftovers: list[Leftover] = []
        try:
            if cluster.brokers is not None:
                await cluster.brokers.mend()
            async with real_target(target, on_leftovers=leftovers.extend):
                for topic_name, partitions in TOPICS.items():
                    await create_topic(target, prefix + topic_name, partitions=partitions)
                yield OpenedTarget(target=target, faults=faults, since=first_event)
        except (TargetError, ClientError) as error:  # brokers that did not come back whole
            await self.close()
            raise NotAskedError(f"the cluster: {error}") from None
        for leftover in leftovers if not self.is_ours else ():
            self._say(f"left behind: {leftover}")

    async def close(self) -> None:
        self._cluster = None
        await self._exit_stack.aclose()

    async def _ensure_cluster(self, level: int) -> tuple[RealCluster, Environment]:
        """The running cluster at a level; a cluster at another level is stopped first."""
        if self._cluster is not None and self._cluster[0] == level:
            return self._cluster[1:]
        await self.close()
        environment = real_environment(trace_level=TraceLevel.BRIEF)
        if not self.is_ours:
            cluster_context = running_cluster(environment, self._cluster_name, self._settings)
        else:
            version = version_of(self._cluster_name)
            self._say(f"starting {self.about} at transaction.version {level} …")
            options = ApacheOptions(
                version=version,
                libs=fetch(version, say=self._say),
                brokers=3,
                transaction_version=level,
                properties={**SHORT_SETTINGS, "transaction.state.log.num.partitions": "6"},
            )
            cluster_context = apache_cluster(environment, options)
        cluster = await self._exit_stack.enter_async_context(cluster_context)
        self._cluster = (level, cluster, environment)
        return cluster, environment
