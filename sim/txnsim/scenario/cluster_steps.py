"""What a story does to the cluster itself: leaders, brokers, replicas, configs, care of logs."""

from __future__ import annotations

from typing import Final

from txnsim.client.partition_requests import alter_partition_reassignments
from txnsim.client.requests import ConfigChange, incremental_alter_configs
from txnsim.errors import InvariantViolation
from txnsim.placement import partition_for
from txnsim.scenario.answers import StoryFailedError
from txnsim.scenario.conditions import poll
from txnsim.scenario.stage import LOOKER, Stage
from txnsim.scenario.steps_model import ClusterAct
from txnsim.server.inputs import told
from txnsim.types import (
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    TopicPartition,
    TransactionalId,
)

TIMEOUT_MS: Final = 30_000
TOPIC_RESOURCE: Final = 2


async def act_on_cluster(stage: Stage, act: ClusterAct) -> None:
    """Do what a step says.

    Raises:
        ConfigError: There is no such broker or partition, or it can't do that.
        StoryFailedError: The cluster did not follow.
    """
    cluster = stage.cluster
    match act.do:
        case "move-leader":
            await _move_leader(stage, await _place(stage, act), _number(act.to))
        case "reload-coordinator":
            await _reload(stage, await _place(stage, act))
        case "stop":
            await cluster.stop_broker(_broker(act))
        case "kill":
            await cluster.kill_broker(_broker(act), lose_unflushed=bool(act.lose_unflushed))
        case "start":
            await cluster.start_broker(_broker(act))
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
            await _reassign(stage, act)
        case "configure":
            await _configure(stage, act)
        case "roll" | "clean" | "delete-old":
            _care_for_log(stage, act)
        case unknown:
            raise InvariantViolation(f"the cluster can't {unknown!r}, and the file was accepted")


def _number(value: int | None) -> int:
    assert value is not None, "the file was accepted"
    return value


def _broker(act: ClusterAct) -> BrokerId:
    return BrokerId(_number(act.broker))


async def _place(stage: Stage, act: ClusterAct) -> TopicPartition:
    """The partition that is meant; of a transactional id, the one that keeps it."""
    if act.partition is not None:
        return act.partition
    assert act.coordinator_of is not None, "the file was accepted"
    admin = await stage.operator.admin()
    await admin.cluster.coordinator(act.coordinator_of)  # makes the topic where there is none
    topic = stage.cluster.metadata.image.topics[TRANSACTION_STATE_TOPIC]
    index = partition_for(TransactionalId(act.coordinator_of), len(topic.partitions))
    return TopicPartition(TRANSACTION_STATE_TOPIC, index)


# Leaders


async def _move_leader(stage: Stage, place: TopicPartition, to: int) -> None:
    partition = stage.cluster.metadata.image.partition(place)
    if partition is not None and partition.leader == to:
        return
    stage.cluster.move_leader(place, BrokerId(to))
    stage.say(LOOKER, f"broker {to} is made the leader of {place}")
    await _followed(stage, place, to)


async def _reload(stage: Stage, place: TopicPartition) -> None:
    """Let the coordinator lose its partition and have it back, in a higher epoch."""
    partition = stage.cluster.metadata.image.partition(place)
    assert partition is not None
    home = partition.leader
    away = next(broker for broker in partition.isr if broker != home)
    await _move_leader(stage, place, away)
    await _move_leader(stage, place, home)


async def _followed(stage: Stage, place: TopicPartition, leader: int) -> None:
    """Wait until clients are told of the new leader."""

    async def holds() -> bool:
        admin = await stage.operator.admin()
        found = (await admin.cluster.refresh((place.topic,))).leader(place)
        return found is not None and found.leader_id == leader

    await poll(stage, holds, f"broker {leader} leads {place}")


async def _reassign(stage: Stage, act: ClusterAct) -> None:
    place, replicas = act.partition, act.replicas
    assert place is not None, "the file was accepted"
    assert replicas is not None, "the file was accepted"
    admin = await stage.operator.admin()
    request = alter_partition_reassignments({place: replicas}, timeout_ms=TIMEOUT_MS)
    message = await admin.cluster.ask_any(request)
    errors = [row.error_code for topic in message.responses for row in topic.partitions]
    if any(errors):
        raise StoryFailedError(f"{place} is not given to {replicas}: error {errors[0]}")

    async def holds() -> bool:
        partition = stage.cluster.metadata.image.partition(place)
        return partition is not None and tuple(partition.replicas) == replicas

    await poll(stage, holds, f"the replicas of {place} are {replicas}")


async def _configure(stage: Stage, act: ClusterAct) -> None:
    assert act.topic is not None, "the file was accepted"
    assert act.name is not None, "the file was accepted"
    admin = await stage.operator.admin()
    change = ConfigChange(
        resource_type=TOPIC_RESOURCE, resource_name=act.topic, name=act.name, value=act.value
    )
    message = await admin.cluster.ask_any(incremental_alter_configs([change], validate_only=False))
    (row,) = message.responses
    if row.error_code:
        raise StoryFailedError(f"{act.topic}: {act.name}: {row.error_message}")


# Logs


def _care_for_log(stage: Stage, act: ClusterAct) -> None:
    """What a broker does from time to time, now: on every replica, as each cares for its own."""
    place = act.partition
    assert place is not None, "the file was accepted"
    with told(stage.environment, act.do, tp=str(place)):
        for broker in stage.cluster.brokers.values():
            care = broker.log_maintenance
            match act.do:
                case "roll":
                    care.roll_now(place)
                case "clean":
                    care.clean_now(place)
                case _:
                    care.delete_old_now(place)
    if act.do == "clean":
        stage.recorder.cleaned(LOOKER, place)
