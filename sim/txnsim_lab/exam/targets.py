"""The target of each situation: a simulated cluster of its own, or a real one behind the proxy
(``real_targets``).

Operations that only the simulated cluster has go through ``Opened.kafka``; on a real cluster,
situations that need them do not apply.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Final, Protocol

import msgspec

from txnsim.client.admin import Admin
from txnsim.controller.controller import TopicToCreate
from txnsim.releases import REFERENCE
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.faults import AsyncFaults
from txnsim.trace.story import story
from txnsim_lab.exam.results import NotAskedError
from txnsim_lab.target.cluster import Target, replicas_from
from txnsim_lab.target.simulated import SimulatedTarget

SETTINGS: Final = {
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 300,
    "group.share.min.record.lock.duration.ms": 1_000,
}
"""A dead broker is noticed after three seconds, and locks of a share group may be short."""
TOPICS: Final = {"t": 2, "input": 2}
REPLICAS_MAX: Final = 3


class OpenedTarget(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The target of one situation, and what the exam can observe of it."""

    target: Target
    faults: AsyncFaults
    simulator: AsyncSimulatedKafka | None = None
    since: int = 0
    """Number of the event in the trace at which the situation begins."""

    @property
    def kafka(self) -> AsyncSimulatedKafka:
        """The simulated cluster itself.

        Raises:
            NotAskedError: The cluster is real.
        """
        if self.simulator is None:
            raise NotAskedError("only a simulated cluster can do that")
        return self.simulator

    def story(self) -> list[str]:
        """What happened, in sentences; for a real cluster, the faults that the proxy made."""
        tracer = self.target.environment.tracer
        return [str(sentence.text) for sentence in story(tracer.events(self.since), tracer.nodes)]

    async def recording(self) -> bytes:
        """The trace of the cluster; empty for a real one, since a proxy does not see a broker's
        state.
        """
        return b"" if self.simulator is None else await self.simulator.trace.export()


class Targets(Protocol):
    """Opens a target for each situation."""

    about: str
    """Description of the Kafka under test."""
    levels: tuple[int, ...]
    """Possible values of ``transaction.version``."""

    def open(
        self, level: int, *, begins_as: str = ""
    ) -> contextlib.AbstractAsyncContextManager[OpenedTarget]:
        """Open the target of one situation.

        Args:
            level: Level of ``transaction.version``.
            begins_as: The release of Kafka at the beginning, if the situation needs one.
        """
        ...

    async def close(self) -> None: ...


async def create_topic(
    target: Target, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    """Create a topic, and wait until it has leaders.

    Raises:
        TargetError: The topic exists already, or the cluster refuses it.
    """
    brokers = target.brokers
    replicas = min(REPLICAS_MAX, brokers)
    assignments = tuple(
        (index, replicas_from(index % brokers + 1, replicas, broker_count=brokers))
        for index in range(partitions)
    )
    await target.create_topic(
        TopicToCreate(name=name, assignments=assignments, configs=configs or {})
    )
    await (await target.admin()).wait_for_topic(name)


class _Onlooker:
    """``target.cluster.Operator`` with the simulated cluster's own client."""

    def __init__(self, kafka: AsyncSimulatedKafka) -> None:
        self._kafka = kafka

    async def admin(self) -> Admin:
        return await self._kafka.rebuilt.admin()

    def say(self, text: str) -> None:
        """Do nothing: the trace has these lines already."""


def simulated_target(kafka: AsyncSimulatedKafka) -> SimulatedTarget:
    """A running simulated cluster as a target."""
    return SimulatedTarget(kafka.cluster, _Onlooker(kafka))


class SimulatedTargets:
    """A fresh cluster of three brokers for each situation."""

    def __init__(self, as_version: str | None = None) -> None:
        """Start nothing yet.

        Args:
            as_version: The release of Kafka to simulate; the newest unless given.
        """
        self._as_version = as_version
        self.about = f"txnsim as Kafka {as_version or REFERENCE.name}"
        self.levels: tuple[int, ...] = (0, 1, 2)

    @contextlib.asynccontextmanager
    async def open(self, level: int, *, begins_as: str = "") -> AsyncIterator[OpenedTarget]:
        """See ``Targets``.

        Raises:
            ConfigError: There is no such release, or it has no such level.
            NotAskedError: The situation begins with another release.
        """
        if begins_as and self._as_version:
            raise NotAskedError(f"it begins as {begins_as}; --as-version is another release")
        async with AsyncSimulatedKafka(
            topics=TOPICS,
            transaction_version=None if begins_as else level,
            settings=SETTINGS,
            as_version=begins_as or self._as_version or (),
            trace="brief",
            faults_may_miss=True,  # the exam asks for those that must strike
        ) as kafka:
            yield OpenedTarget(target=simulated_target(kafka), faults=kafka.faults, simulator=kafka)

    async def close(self) -> None:
        """Do nothing: no cluster runs between two situations."""
