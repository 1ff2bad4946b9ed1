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
from sim.faults.armed import ArmedRule
from sim.runtime.env import Environment
from sim.scenario.model import Mode, Scenario
from sim.scenario.players.base import Part, Player
from sim.scenario.players.casting import Cast
from sim.server.cluster import ClusterOptions, SimCluster
from sim.settings import DEFAULTS
from sim.trace.story import NARRATOR
from sim.types import TopicPartition


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
        """What find-hanging named, as the abort needs it."""
        self.armed: dict[str, ArmedRule] = {}
        """Every fault of the story, also those that are not in force any more."""
        self.onlookers: dict[str, str] = {}
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

    def tell(self, text: str, *, who: str = NARRATOR) -> None:
        """Put a sentence into the trace: the story's own, or what somebody saw."""
        tracer = self.environment.tracer
        if tracer.on:
            tracer.emit("note", who, data={"text": text})


@contextlib.asynccontextmanager
async def stage(
    scenario: Scenario, mode: str, *, facts: Facts, cast: Cast, environment: Environment
) -> AsyncIterator[Stage]:
    """Build the stage of one run and take it down again.

    Args:
        scenario: The story.
        mode: The world it is told in.
        facts: Where what is seen is kept.
        cast: Who plays the producer.
        environment: The run's world.
    """
    cluster = SimCluster(environment, _options(scenario, scenario.modes[mode]))
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
        player = cast.make(_part(scenario, cluster))
        stack.push_async_callback(player.close)
        facts.player = player.name
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


def _part(scenario: Scenario, cluster: SimCluster) -> Part:
    role = scenario.producer
    return Part(
        bootstrap=cluster.bootstrap,
        transactional_id=role.transactional_id,
        client_id=role.client_id,
        topic=role.topic,
        partition=role.partition,
        now_ms=cluster.environment.clock.now_ms(),
    )
