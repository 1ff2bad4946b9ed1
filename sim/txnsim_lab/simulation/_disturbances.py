"""Draws disturbances of the cluster: outages, moves of leaders, slow and lossy links, log
maintenance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from txnsim_lab.simulation import _defaults as defaults
from txnsim_lab.simulation._client_behaviour import RunSetup
from txnsim_lab.simulation._dice import Dice
from txnsim_lab.simulation.plan import CLUSTER_TRACK, Act, StepBody, Track

POWER_FAILURE: Final = "power-failure"
"""A machine loses data that is not on disk; with a single replica, data loss is then no bug."""

TimedSteps = Iterator[tuple[int, StepBody]]
"""Pairs of a pause in ms and the step after it."""


def disturber(dice: Dice, run_setup: RunSetup, track_number: int) -> Track:
    """A track that disturbs the cluster, one disturbance after the other."""
    disturbances = [
        feature_name for feature_name in DISTURBANCE_MAKERS if run_setup.has(feature_name)
    ]
    acts: list[Act] = []
    for unit in range(1, dice.pick_weighted(defaults.DISTURBANCE_COUNTS) + 1):
        disturbance = dice.pick(disturbances)
        rule_id = f"d{track_number}.{unit}"
        pause_ms = dice.up_to(defaults.DISTURBANCE_PAUSES_MS)
        for after_ms, step in DISTURBANCE_MAKERS[disturbance](dice, run_setup, rule_id):
            acts.append(Act(step, pause_ms + after_ms, unit, disturbance))
            pause_ms = 0
    return Track(CLUSTER_TRACK, tuple(acts))


def has_disturber(run_setup: RunSetup) -> bool:
    """Whether the seed has any feature that disturbs the cluster."""
    return any(run_setup.has(feature_name) for feature_name in DISTURBANCE_MAKERS)


def _pick_broker(dice: Dice, run_setup: RunSetup) -> int:
    return dice.pick(range(1, run_setup.broker_count + 1))


def _outage_ms(dice: Dice) -> int:
    return dice.up_to(defaults.OUTAGES_MS)


# Brokers


def _kill(dice: Dice, run_setup: RunSetup, _rule: str) -> TimedSteps:
    yield from _stop_and_restart(dice, {"do": "kill", "broker": _pick_broker(dice, run_setup)})


def _power_failure(dice: Dice, run_setup: RunSetup, _rule: str) -> TimedSteps:
    cluster_act = {"do": "kill", "broker": _pick_broker(dice, run_setup), "lose-unflushed": True}
    yield from _stop_and_restart(dice, cluster_act)


def _stop_broker(dice: Dice, run_setup: RunSetup, _rule: str) -> TimedSteps:
    yield from _stop_and_restart(dice, {"do": "stop", "broker": _pick_broker(dice, run_setup)})


def _stop_and_restart(dice: Dice, stop_act: StepBody) -> TimedSteps:
    yield 0, {"cluster": stop_act}
    yield _outage_ms(dice), {"cluster": {"do": "start", "broker": stop_act["broker"]}}


def _isolate(dice: Dice, run_setup: RunSetup, _rule: str) -> TimedSteps:
    broker = _pick_broker(dice, run_setup)
    yield 0, {"cluster": {"do": "isolate", "broker": broker, "from-clients": dice.happens(0.4)}}
    yield _outage_ms(dice), {"cluster": {"do": "heal", "broker": broker}}


def _full_disk(dice: Dice, run_setup: RunSetup, rule_id: str) -> TimedSteps:
    fault_action = {"do": "fill-disk", "broker": _pick_broker(dice, run_setup)}
    yield 0, {"arm": {"id": rule_id, "point": "now", "action": fault_action}}
    yield _outage_ms(dice), {"disarm": rule_id}


# Leaders and replicas


def _move_leader(dice: Dice, run_setup: RunSetup, _rule: str) -> TimedSteps:
    for _ in range(dice.pick_weighted(((1, 0.6), (2, 0.4)))):
        cluster_act = {"do": "move-leader", "partition": dice.pick(run_setup.partitions)}
        yield (
            dice.up_to(defaults.PAUSES_MS),
            {"cluster": {**cluster_act, "to": _pick_broker(dice, run_setup)}},
        )


def _move_coordinator(dice: Dice, run_setup: RunSetup, _rule: str) -> TimedSteps:
    transactional_id = dice.pick(run_setup.ids)
    for _ in range(dice.pick_weighted(((1, 0.6), (2, 0.4)))):
        cluster_act = {
            "do": "move-leader",
            "coordinator-of": transactional_id,
            "to": _pick_broker(dice, run_setup),
        }
        yield dice.up_to(defaults.PAUSES_MS), {"cluster": cluster_act}


def _lagging_replica(dice: Dice, run_setup: RunSetup, rule_id: str) -> TimedSteps:
    follower = f"broker/{_pick_broker(dice, run_setup)}"
    rule_fields = {"point": "peer.request", "api": "Fetch", "source": follower}
    yield 0, {"arm": {"id": rule_id, **rule_fields, "action": {"do": "hold"}}}
    yield _outage_ms(dice), {"disarm": rule_id}


def _reassign(dice: Dice, run_setup: RunSetup, _rule: str) -> TimedSteps:
    broker_ids = range(1, run_setup.broker_count + 1)
    replicas = dice.pick_several(broker_ids, dice.pick_weighted(defaults.REPLICA_COUNTS))
    partition = dice.pick(
        (*run_setup.partitions, f"__transaction_state@{dice.pick(run_setup.ids)}")
    )
    yield 0, {"cluster": {"do": "reassign", "partition": partition, "replicas": replicas}}


# Topics and logs


def _remake_topic(dice: Dice, run_setup: RunSetup, _rule: str) -> TimedSteps:
    topic = dice.pick(run_setup.partitions).rpartition("-")[0]
    partition_count = sum(
        partition.rpartition("-")[0] == topic for partition in run_setup.partitions
    )
    yield 0, {"cluster": {"do": "delete-topic", "topic": topic}}
    new_topic = {"do": "create-topic", "topic": topic, "partitions": partition_count}
    yield dice.up_to(defaults.PAUSES_MS), {"cluster": {**new_topic, "replication-factor": 1}}


def _grow_topic(dice: Dice, run_setup: RunSetup, _rule: str) -> TimedSteps:
    topic = dice.pick(run_setup.partitions).rpartition("-")[0]
    partition_count = sum(
        partition.rpartition("-")[0] == topic for partition in run_setup.partitions
    )
    yield 0, {"cluster": {"do": "grow-topic", "topic": topic, "partitions": partition_count + 1}}


def _care_for_logs(dice: Dice, run_setup: RunSetup, _rule: str) -> TimedSteps:
    internal_partition = f"__transaction_state@{dice.pick(run_setup.ids)}"
    partition = dice.pick((*run_setup.partitions, internal_partition))
    yield 0, {"cluster": {"do": "roll", "partition": partition}}
    care_act = "clean" if partition == internal_partition or dice.happens(0.5) else "delete-old"
    yield dice.up_to(defaults.PAUSES_MS), {"cluster": {"do": care_act, "partition": partition}}


# Time


def _time_passes(dice: Dice, _run_setup: RunSetup, _rule: str) -> TimedSteps:
    yield 0, {"advance": f"{1 + dice.up_to(defaults.TIME_JUMPS_S)}s"}


def _clock_jumps(dice: Dice, run_setup: RunSetup, rule_id: str) -> TimedSteps:
    by_ms = (1 + dice.up_to(defaults.TIME_JUMPS_S)) * dice.pick((-1_000, 1_000))
    fault_action = {"do": "clock", "by_ms": by_ms, "broker": _pick_broker(dice, run_setup)}
    yield 0, {"arm": {"id": rule_id, "point": "now", "action": fault_action}}
    yield _outage_ms(dice), {"disarm": rule_id}


# Links and steps inside of brokers


def _slow_peers(dice: Dice, _run_setup: RunSetup, rule_id: str) -> TimedSteps:
    rule_fields = {"point": dice.pick(("peer.request", "peer.response")), **_peer_api(dice)}
    yield from slow_messages(dice, {"id": rule_id, **rule_fields})


def _lossy_peers(dice: Dice, _run_setup: RunSetup, rule_id: str) -> TimedSteps:
    point = dice.pick(("peer.request", "peer.response"))
    loss_action = dice.pick(
        ("drop", "disconnect", *(("duplicate",) if point == "peer.request" else ()))
    )
    rule_fields = {"id": rule_id, "point": point, **_peer_api(dice), "action": {"do": loss_action}}
    yield 0, {"arm": {**rule_fields, "limit": dice.pick_weighted(defaults.FAULT_STRIKE_COUNTS)}}


def _slow_clients(dice: Dice, _run_setup: RunSetup, rule_id: str) -> TimedSteps:
    point = dice.pick(("client.request", "client.response"))
    yield from slow_messages(
        dice, {"id": rule_id, "point": point, "api": dice.pick(defaults.CLIENT_APIS)}
    )


def _lossy_clients(dice: Dice, _run_setup: RunSetup, rule_id: str) -> TimedSteps:
    point = dice.pick(("client.request", "client.response"))
    loss_word = (
        "drop-answer" if point == "client.request" else "drop"
    )  # no network doubles a request
    rule_fields = {"id": rule_id, "point": point, "api": dice.pick(defaults.CLIENT_APIS)}
    fault_action = {"do": dice.pick((loss_word, "disconnect"))}
    strike_limit = dice.pick_weighted(defaults.FAULT_STRIKE_COUNTS)
    yield 0, {"arm": {**rule_fields, "action": fault_action, "limit": strike_limit}}


def _slow_logs(dice: Dice, run_setup: RunSetup, rule_id: str) -> TimedSteps:
    record_kind = dice.pick(("data", "marker", "coordinator"))
    rule_fields = {
        "point": "log.append",
        "kind": record_kind,
        "broker": _pick_broker(dice, run_setup),
    }
    yield from slow_messages(dice, {"id": rule_id, **rule_fields})


def _slow_loading(dice: Dice, run_setup: RunSetup, rule_id: str) -> TimedSteps:
    yield from slow_messages(
        dice,
        {"id": rule_id, "point": "coordinator.load", "broker": _pick_broker(dice, run_setup)},
    )


def slow_messages(dice: Dice, rule_fields: StepBody) -> TimedSteps:
    """Hold some messages until the rule is disarmed, or delay each by a drawn time."""
    strike_limit = dice.pick_weighted(defaults.FAULT_STRIKE_COUNTS)
    if dice.happens(0.4):
        yield 0, {"arm": {**rule_fields, "action": {"do": "hold"}, "limit": strike_limit}}
        yield _outage_ms(dice), {"disarm": rule_fields["id"]}
        return
    delay_action = {"do": "delay", "delay_ms": 1 + dice.up_to(defaults.FAULT_DELAYS_MS)}
    yield 0, {"arm": {**rule_fields, "action": delay_action, "limit": strike_limit}}


def trouble(dice: Dice, rule_fields: StepBody) -> TimedSteps:
    """Delay a background step of a broker, as a slow thread or disk does; or make its log refuse an
    append.
    """
    if not dice.happens(defaults.APPEND_REFUSAL_PROBABILITY):
        yield from slow_messages(dice, {**rule_fields, "point": dice.pick(defaults.DELAYED_STEPS)})
        return
    rule_fields |= {
        "point": "log.append",
        "role": "leader",
        "kind": dice.pick(defaults.APPENDED_RECORD_KINDS),
    }
    rule_fields |= {"action": {"do": "error", "error": defaults.REFUSAL_ERROR}}
    yield 0, {"arm": {**rule_fields, "limit": dice.pick_weighted(defaults.FAULT_STRIKE_COUNTS)}}


def _peer_api(dice: Dice) -> StepBody:
    api = dice.pick(defaults.PEER_APIS)
    return {} if api == "any" else {"api": api}


DISTURBANCE_MAKERS: Final[Mapping[str, Callable[[Dice, RunSetup, str], TimedSteps]]] = {
    "kill": _kill,
    POWER_FAILURE: _power_failure,
    "stop": _stop_broker,
    "isolate": _isolate,
    "move-leader": _move_leader,
    "move-coordinator": _move_coordinator,
    "reassign": _reassign,
    "remake-topic": _remake_topic,
    "grow-topic": _grow_topic,
    "care-for-logs": _care_for_logs,
    "time-passes": _time_passes,
    "clock-jumps": _clock_jumps,
    "lagging-replica": _lagging_replica,
    "full-disk": _full_disk,
    "slow-peers": _slow_peers,
    "lossy-peers": _lossy_peers,
    "slow-clients": _slow_clients,
    "lossy-clients": _lossy_clients,
    "slow-logs": _slow_logs,
    "slow-loading": _slow_loading,
}
"""Feature -> function that makes its steps."""
