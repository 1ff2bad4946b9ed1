"""What a story does to the cluster itself: leaders, brokers, replicas, configs, care of logs."""

from __future__ import annotations

from txnsim.errors import InvariantViolation
from txnsim.types import TopicPartition
from txnsim_lab.scenario._cluster_options import new_topic, topic_of
from txnsim_lab.scenario.answers import StoryFailedError
from txnsim_lab.scenario.stage import Stage
from txnsim_lab.scenario.steps_model import ClusterAct, needed
from txnsim_lab.target.cluster import Target, TargetError


async def act_on_cluster(stage: Stage, act: ClusterAct) -> None:
    """Do what a step says.

    Raises:
        ConfigError: There is no such broker or partition, or it can't do that.
        StoryFailedError: The cluster can't do that, or did not follow.
    """
    try:
        await _act(stage, act, stage.target)
    except TargetError as error:
        raise StoryFailedError(str(error)) from None


async def _act(stage: Stage, act: ClusterAct, target: Target) -> None:
    match act.do:
        case "move-leader":
            await target.move_leader(await _place(target, act), needed(act.to))
        case "reload-coordinator":
            await target.reload_coordinator(await _place(target, act))
        case "reassign":
            await target.reassign(needed(act.partition), needed(act.replicas))
        case "kill" | "stop" | "start" | "restart":
            await _care_for_broker(act, target)
        case "isolate":
            await target.isolate(needed(act.broker), from_clients=bool(act.from_clients))
        case "heal":
            await target.heal(needed(act.broker))
        case "age":
            await target.age(act.transactional_id or "", needed(act.epoch))
        case "configure":
            await target.configure(needed(act.topic), needed(act.name), act.value)
        case "create-topic":
            brokers = min(target.brokers, stage.scenario.brokers)
            await target.create_topic(new_topic(needed(act.topic), topic_of(act), brokers=brokers))
        case "delete-topic":
            await target.delete_topic(needed(act.topic))
        case "grow-topic":
            await target.grow_topic(needed(act.topic), needed(act.partitions), act.leaders)
        case "roll":
            await target.roll(needed(act.partition))
        case "clean":
            await target.clean(needed(act.partition))
        case "delete-old":
            await target.delete_old(needed(act.partition))
        case unknown:
            raise InvariantViolation(f"the cluster can't {unknown!r}, and the file was accepted")


async def _place(target: Target, act: ClusterAct) -> TopicPartition:
    """The partition of the act; for a transactional id, that of its coordinator's log."""
    if act.partition is not None:
        return act.partition
    return await target.home_of_id(needed(act.coordinator_of))


async def _care_for_broker(act: ClusterAct, target: Target) -> None:
    broker = needed(act.broker)
    if act.do == "kill" or (act.do == "restart" and (act.kill or act.lose_unflushed)):
        await target.kill(broker, lose_unflushed=bool(act.lose_unflushed))
    elif act.do in ("stop", "restart"):
        await target.stop(broker)
    if act.do in ("start", "restart"):
        await target.start(broker, as_version=act.as_version)
