"""The stage of a story: a cluster in this process, and everybody who acts on it from outside, over
real connections.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import msgspec

from sim.check.facts import Facts
from sim.client.admin import Admin
from sim.client.cluster import Cluster
from sim.client.connection import ClientSettings
from sim.client.hanging import OpenTransaction
from sim.client.producer import Producer
from sim.errors import ConfigError
from sim.runtime.env import Environment
from sim.scenario.model import Mode, Scenario
from sim.scenario.players.base import Part, Player
from sim.scenario.players.own import OwnPlayer
from sim.server.cluster import ClusterOptions, SimCluster
from sim.settings import DEFAULTS
from sim.types import TopicPartition


class Casting(msgspec.Struct, frozen=True, kw_only=True):
    """Who is wanted as the producer."""

    player: str | None = None
    """``own``, ``kafka-python``; the mode's first one that is installed unless given."""
    program: str | None = None
    """A command that plays the part instead (see ``players.program``)."""


class Stage:
    """A cluster and its actors."""

    def __init__(
        self,
        *,
        scenario: Scenario,
        facts: Facts,
        cluster: SimCluster,
        outside: Cluster,
        player: Player,
    ) -> None:
        self.scenario = scenario
        self.facts = facts
        self.cluster = cluster
        self.outside = outside
        """The connections of operator, bystander and readers."""
        self.admin = Admin(outside)
        self.bystander = Producer(outside, idempotent=True)
        self.player = player
        self.found: tuple[OpenTransaction, ...] = ()
        self.handled_rules: dict[str, str] = {}
        """Rule -> the rule that counts the answers to what it held."""

    @property
    def environment(self) -> Environment:
        """The run's world."""
        return self.cluster.environment

    @property
    def partition(self) -> TopicPartition:
        """The partition of the story."""
        role = self.scenario.producer
        return TopicPartition(role.topic, role.partition)

    def note(self, text: str) -> None:
        """Put a sentence into the trace."""
        self.environment.tracer.emit("note", "scenario", data={"text": text})


@contextlib.asynccontextmanager
async def stage(
    scenario: Scenario,
    mode: str,
    *,
    armed: bool,
    casting: Casting,
    environment: Environment,
) -> AsyncIterator[Stage]:
    """Build the stage of one run and take it down again."""
    world = scenario.modes[mode]
    cluster = SimCluster(environment, _options(scenario, world))
    await cluster.start()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(cluster.stop)
        outside = Cluster(
            cluster.bootstrap,
            settings=ClientSettings(client_id="onlooker"),
            clock=environment.clock,
        )
        stack.push_async_callback(outside.close)
        await outside.connect()
        player = _cast(scenario, world, casting, cluster)
        stack.push_async_callback(player.close)
        facts = Facts(scenario=scenario.name, mode=mode, armed=armed, player=player.name)
        built = Stage(
            scenario=scenario, facts=facts, cluster=cluster, outside=outside, player=player
        )
        stack.push_async_callback(built.bystander.close)
        # Whatever still waits at a fault point when the story ends must not keep its connection.
        stack.callback(cluster.injector.disarm_all)
        yield built


def _options(scenario: Scenario, world: Mode) -> ClusterOptions:
    return ClusterOptions(
        brokers=scenario.brokers,
        port=0,
        topics=tuple(scenario.topics.items()),
        settings=msgspec.structs.replace(
            DEFAULTS,
            transaction_version=world.transaction_version,
            transaction_partition_verification_enable=world.verification,
        ),
    )


def _cast(scenario: Scenario, world: Mode, casting: Casting, cluster: SimCluster) -> Player:
    role = scenario.producer
    part = Part(
        bootstrap=cluster.bootstrap,
        transactional_id=role.transactional_id,
        client_id=role.client_id,
        topic=role.topic,
        partition=role.partition,
    )
    if casting.program is not None:
        from sim.scenario.players.program import ProgramPlayer

        now_ms = cluster.environment.clock.now_ms()
        return ProgramPlayer(part, casting.program, timestamp_ms=now_ms)
    wanted = (casting.player,) if casting.player is not None else world.players
    for name in wanted:
        if name == "own":
            return OwnPlayer(part)
        if name != "kafka-python":
            raise ConfigError(f"no player {name!r}; there are: own, kafka-python")
        try:
            from sim.scenario.players.kafka_python import KafkaPythonPlayer
        except ImportError:
            continue
        return KafkaPythonPlayer(part)
    raise ConfigError(
        f"none of {', '.join(wanted)} is installed: pip install 'txnsim[demo]', or --player own"
    )
