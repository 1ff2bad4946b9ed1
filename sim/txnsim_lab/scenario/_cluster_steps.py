"""What a story does to the cluster itself: leaders, brokers, replicas, configs, care of logs."""

from __future__ import annotations

from typing import Final

from txnsim.client.admin import TOPIC_RESOURCE
from txnsim.client.errors import ClientError, code_name
from txnsim.client.partition_requests import alter_partition_reassignments
from txnsim.client.requests import ConfigChange, incremental_alter_configs
from txnsim.controller import growth
from txnsim.errors import InvariantViolation, Rejection
from txnsim.metadata.image import TopicImage
from txnsim.server.cluster import SimCluster
from txnsim.server.inputs import input_event
from txnsim.types import (
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    ProducerEpoch,
    TopicPartition,
    TransactionalId,
    partition_for,
)
from txnsim_lab.scenario._cluster_options import new_topic, replicas_from, topic_of
from txnsim_lab.scenario._conditions import poll
from txnsim_lab.scenario.actors._operator import TIMEOUT_MS
from txnsim_lab.scenario.answers import StoryFailedError
from txnsim_lab.scenario.stage import LOOKER, Stage
from txnsim_lab.scenario.steps_model import ClusterAct, needed

HEARD_MAX_MS: Final = 1_000
"""Until brokers have heard that a topic is deleted; an isolated one does not."""


async def act_on_cluster(stage: Stage, act: ClusterAct, cluster: SimCluster) -> None:
    """Do what a step says.

    Raises:
        ConfigError: There is no such broker or partition, or it can't do that.
        StoryFailedError: The cluster did not follow.
    """
    match act.do:
        case "move-leader":
            await _move_leader(stage, cluster, await _place(stage, cluster, act), needed(act.to))
        case "reload-coordinator":
            await _reload(stage, cluster, await _place(stage, cluster, act))
        case "stop":
            await cluster.stop_broker(_broker(act))
        case "kill":
            await cluster.kill_broker(_broker(act), lose_unflushed=bool(act.lose_unflushed))
        case "start":
            await cluster.start_broker(_broker(act), as_version=act.as_version)
        case "restart":
            if act.kill or act.lose_unflushed:
                await cluster.kill_broker(_broker(act), lose_unflushed=bool(act.lose_unflushed))
            else:
                await cluster.stop_broker(_broker(act))
            await cluster.start_broker(_broker(act))
        case "isolate":
            cluster.isolate(_broker(act), from_clients=bool(act.from_clients))
        case "heal":
            cluster.heal(_broker(act))
        case "reassign":
            await _reassign(stage, cluster, act)
        case "configure":
            await _configure(stage, act)
        case "age":
            await _age(stage, cluster, act)
        case "create-topic":
            _create_topic(stage, cluster, act)
        case "delete-topic":
            await _delete_topic(stage, cluster, needed(act.topic))
        case "grow-topic":
            _grow_topic(stage, cluster, act)
        case "roll" | "clean" | "delete-old":
            _care_for_log(stage, cluster, act)
        case unknown:
            raise InvariantViolation(f"the cluster can't {unknown!r}, and the file was accepted")


def _broker(act: ClusterAct) -> BrokerId:
    return BrokerId(needed(act.broker))


async def _place(stage: Stage, cluster: SimCluster, act: ClusterAct) -> TopicPartition:
    """The partition of the act; for a transactional id, that of its coordinator's log."""
    if act.partition is not None:
        return act.partition
    admin, owner = await stage.operator.admin(), needed(act.coordinator_of)
    await admin.cluster.coordinator(owner)  # makes the topic where there is none
    topic = cluster.metadata.image.topics[TRANSACTION_STATE_TOPIC]
    index = partition_for(TransactionalId(owner), len(topic.partitions))
    return TopicPartition(TRANSACTION_STATE_TOPIC, index)


async def _age(stage: Stage, cluster: SimCluster, act: ClusterAct) -> None:
    """Let an idle transactional id go on at an epoch; an unknown one is initialised first."""
    name, epoch = TransactionalId(act.transactional_id or ""), needed(act.epoch)
    admin = await stage.operator.admin()
    described = (await admin.describe_transactions([name]))[name]
    if isinstance(described, ClientError):
        await admin.fence_producers([name])
    home = BrokerId(await admin.cluster.coordinator(name))
    broker = cluster.brokers.get(home)
    if broker is None:  # it has died since it answered
        raise StoryFailedError(f"broker {home}, which coordinates {name}, is down")
    with input_event(stage.environment, "age", transactional_id=name, epoch=epoch):
        refused = await broker.coordinator.age(name, ProducerEpoch(epoch))
    if refused is not None:
        raise StoryFailedError(f"{refused.error.name.upper()}: {refused.reason}")
    stage.say(LOOKER, f"{name} is at epoch {epoch}, as after so many transactions")


# Topics


def _create_topic(stage: Stage, cluster: SimCluster, act: ClusterAct) -> None:
    name = needed(act.topic)
    topic = topic_of(act)
    with input_event(stage.environment, "create-topic", topic=name, partitions=topic.partitions):
        created = cluster.metadata.create_topic(
            new_topic(name, topic, brokers=stage.scenario.brokers)
        )
    _refused(name, created)
    stage.say(LOOKER, f"topic {name} is created with {topic.partitions} partitions")


async def _delete_topic(stage: Stage, cluster: SimCluster, name: str) -> None:
    metadata = cluster.metadata
    if name not in metadata.image.topics:
        raise StoryFailedError(f"topic {name}: UNKNOWN_TOPIC_OR_PARTITION")
    with input_event(stage.environment, "delete-topic", topic=name):
        metadata.publish(metadata.image.without_topic(name))
    await (await stage.operator.admin()).wait_without_topics([name], timeout_ms=HEARD_MAX_MS)
    stage.say(LOOKER, f"topic {name} is deleted with all of its records")


def _grow_topic(stage: Stage, cluster: SimCluster, act: ClusterAct) -> None:
    name, count, metadata = needed(act.topic), needed(act.partitions), cluster.metadata
    brokers, there = stage.scenario.brokers, metadata.image.topics.get(name)
    replicas = None if there is None else len(there.partitions[0].replicas)
    grown = growth.grown_topic(
        metadata.image,
        name,
        count=count,
        assignments=tuple(replicas_from(one, replicas or 1, brokers=brokers) for one in act.leaders)
        or None,
    )
    _refused(name, grown)
    assert isinstance(grown, TopicImage)
    with input_event(stage.environment, "grow-topic", topic=name, partitions=count):
        metadata.publish(metadata.image.with_topics([grown]))
    stage.say(LOOKER, f"topic {name} has {count} partitions now")


def _refused(name: str, outcome: TopicImage | Rejection) -> None:
    if isinstance(outcome, Rejection):
        raise StoryFailedError(f"topic {name}: {outcome.error.name.upper()}: {outcome.reason}")


# Leaders


async def _move_leader(stage: Stage, cluster: SimCluster, place: TopicPartition, to: int) -> None:
    partition = cluster.metadata.image.partition(place)
    if partition is not None and partition.leader == to:
        return
    cluster.move_leader(place, BrokerId(to))
    stage.say(LOOKER, f"broker {to} is made the leader of {place}")
    await _followed(stage, place, to)


async def _reload(stage: Stage, cluster: SimCluster, place: TopicPartition) -> None:
    """Let the coordinator lose its partition and have it back, in a higher epoch."""
    partition = cluster.metadata.image.partition(place)
    assert partition is not None
    home = partition.leader
    away = next(broker for broker in partition.isr if broker != home)
    await _move_leader(stage, cluster, place, away)
    await _move_leader(stage, cluster, place, home)


async def _followed(stage: Stage, place: TopicPartition, leader: int) -> None:
    """Wait until clients see the new leader."""

    async def holds() -> bool:
        admin = await stage.operator.admin()
        found = (await admin.cluster.refresh((place.topic,))).leader(place)
        return found is not None and found.leader_id == leader

    await poll(stage, holds, f"broker {leader} leads {place}")


async def _reassign(stage: Stage, cluster: SimCluster, act: ClusterAct) -> None:
    place, replicas = needed(act.partition), needed(act.replicas)
    admin = await stage.operator.admin()
    request = alter_partition_reassignments({place: replicas}, timeout_ms=TIMEOUT_MS)
    message = await admin.cluster.ask_any(request)
    errors = [row.error_code for topic in message.responses for row in topic.partitions]
    if any(errors):
        raise StoryFailedError(f"{place} is not given to {replicas}: {code_name(errors[0])}")

    async def holds() -> bool:
        partition = cluster.metadata.image.partition(place)
        return partition is not None and tuple(partition.replicas) == replicas

    await poll(stage, holds, f"the replicas of {place} are {replicas}")


async def _configure(stage: Stage, act: ClusterAct) -> None:
    topic, name = needed(act.topic), needed(act.name)
    admin = await stage.operator.admin()
    change = ConfigChange(
        resource_type=TOPIC_RESOURCE, resource_name=topic, name=name, value=act.value
    )
    message = await admin.cluster.ask_any(incremental_alter_configs([change], validate_only=False))
    (row,) = message.responses
    if row.error_code:
        raise StoryFailedError(f"{topic}: {name}: {row.error_message}")


# Logs


def _care_for_log(stage: Stage, cluster: SimCluster, act: ClusterAct) -> None:
    """What a broker does from time to time, now: on every replica, as each cares for its own."""
    place = needed(act.partition)
    with input_event(stage.environment, act.do, tp=str(place)):
        for broker in cluster.brokers.values():
            care = broker.log_maintenance
            match act.do:
                case "roll":
                    care.roll_now(place)
                case "clean":
                    care.clean_now(place)
                case _:
                    care.delete_old_now(place)
