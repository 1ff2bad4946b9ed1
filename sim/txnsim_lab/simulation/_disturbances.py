"""Draws disturbances of the cluster: outages, moves of leaders, slow and lossy links, log
maintenance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from txnsim_lab.simulation import _defaults as defaults
from txnsim_lab.simulation._client_behaviour import Scene
from txnsim_lab.simulation._dice import Dice
from txnsim_lab.simulation._plan import CLUSTER, Act, Body, Track

POWER_FAILURE: Final = "power-failure"
"""A machine loses data that is not on disk; with a single replica, data loss is then no bug."""

Steps = Iterator[tuple[int, Body]]
"""Pairs of a pause in ms and the step after it."""


def disturber(dice: Dice, scene: Scene, number: int) -> Track:
    """A track that disturbs the cluster, one disturbance after the other."""
    disturbances = [name for name in MAKERS if scene.has(name)]
    acts: list[Act] = []
    for unit in range(1, dice.pick_weighted(defaults.DISTURBANCES) + 1):
        disturbance = dice.pick(disturbances)
        rule = f"d{number}.{unit}"
        pause_ms = dice.up_to(defaults.DISTURBANCE_PAUSES_MS)
        for after_ms, step in MAKERS[disturbance](dice, scene, rule):
            acts.append(Act(step, pause_ms + after_ms, unit, disturbance))
            pause_ms = 0
    return Track(CLUSTER, tuple(acts))


def has_disturber(scene: Scene) -> bool:
    """Whether the seed has any feature that disturbs the cluster."""
    return any(scene.has(name) for name in MAKERS)


def _broker(dice: Dice, scene: Scene) -> int:
    return dice.pick(range(1, scene.brokers + 1))


def _outage(dice: Dice) -> int:
    return dice.up_to(defaults.OUTAGES_MS)


# Brokers


def _kill(dice: Dice, scene: Scene, _rule: str) -> Steps:
    yield from _down(dice, {"do": "kill", "broker": _broker(dice, scene)})


def _power_failure(dice: Dice, scene: Scene, _rule: str) -> Steps:
    act = {"do": "kill", "broker": _broker(dice, scene), "lose-unflushed": True}
    yield from _down(dice, act)


def _stop(dice: Dice, scene: Scene, _rule: str) -> Steps:
    yield from _down(dice, {"do": "stop", "broker": _broker(dice, scene)})


def _down(dice: Dice, act: Body) -> Steps:
    yield 0, {"cluster": act}
    yield _outage(dice), {"cluster": {"do": "start", "broker": act["broker"]}}


def _isolate(dice: Dice, scene: Scene, _rule: str) -> Steps:
    broker = _broker(dice, scene)
    yield 0, {"cluster": {"do": "isolate", "broker": broker, "from-clients": dice.happens(0.4)}}
    yield _outage(dice), {"cluster": {"do": "heal", "broker": broker}}


def _full_disk(dice: Dice, scene: Scene, rule: str) -> Steps:
    action = {"do": "fill-disk", "broker": _broker(dice, scene)}
    yield 0, {"arm": {"id": rule, "point": "now", "action": action}}
    yield _outage(dice), {"disarm": rule}


# Leaders and replicas


def _move_leader(dice: Dice, scene: Scene, _rule: str) -> Steps:
    for _ in range(dice.pick_weighted(((1, 0.6), (2, 0.4)))):
        act = {"do": "move-leader", "partition": dice.pick(scene.places)}
        yield (
            dice.up_to(defaults.PAUSES_MS),
            {"cluster": {**act, "to": _broker(dice, scene)}},
        )


def _move_coordinator(dice: Dice, scene: Scene, _rule: str) -> Steps:
    name = dice.pick(scene.ids)
    for _ in range(dice.pick_weighted(((1, 0.6), (2, 0.4)))):
        act = {"do": "move-leader", "coordinator-of": name, "to": _broker(dice, scene)}
        yield dice.up_to(defaults.PAUSES_MS), {"cluster": act}


def _lagging_replica(dice: Dice, scene: Scene, rule: str) -> Steps:
    source = f"broker/{_broker(dice, scene)}"
    fields = {"point": "peer.request", "api": "Fetch", "source": source}
    yield 0, {"arm": {"id": rule, **fields, "action": {"do": "hold"}}}
    yield _outage(dice), {"disarm": rule}


def _reassign(dice: Dice, scene: Scene, _rule: str) -> Steps:
    everyone = range(1, scene.brokers + 1)
    replicas = dice.pick_several(everyone, dice.pick_weighted(defaults.REPLICATION))
    partition = dice.pick((*scene.places, f"__transaction_state@{dice.pick(scene.ids)}"))
    yield 0, {"cluster": {"do": "reassign", "partition": partition, "replicas": replicas}}


# Topics and logs


def _remake_topic(dice: Dice, scene: Scene, _rule: str) -> Steps:
    topic = dice.pick(scene.places).rpartition("-")[0]
    count = sum(partition.rpartition("-")[0] == topic for partition in scene.places)
    yield 0, {"cluster": {"do": "delete-topic", "topic": topic}}
    new_topic = {"do": "create-topic", "topic": topic, "partitions": count}
    yield dice.up_to(defaults.PAUSES_MS), {"cluster": {**new_topic, "replication-factor": 1}}


def _grow_topic(dice: Dice, scene: Scene, _rule: str) -> Steps:
    topic = dice.pick(scene.places).rpartition("-")[0]
    count = sum(partition.rpartition("-")[0] == topic for partition in scene.places)
    yield 0, {"cluster": {"do": "grow-topic", "topic": topic, "partitions": count + 1}}


def _care_for_logs(dice: Dice, scene: Scene, _rule: str) -> Steps:
    internal = f"__transaction_state@{dice.pick(scene.ids)}"
    partition = dice.pick((*scene.places, internal))
    yield 0, {"cluster": {"do": "roll", "partition": partition}}
    do = "clean" if partition == internal or dice.happens(0.5) else "delete-old"
    yield dice.up_to(defaults.PAUSES_MS), {"cluster": {"do": do, "partition": partition}}


# Time


def _time_passes(dice: Dice, _scene: Scene, _rule: str) -> Steps:
    yield 0, {"advance": f"{1 + dice.up_to(defaults.TIME_JUMPS_S)}s"}


def _clock_jumps(dice: Dice, scene: Scene, rule: str) -> Steps:
    by_ms = (1 + dice.up_to(defaults.TIME_JUMPS_S)) * dice.pick((-1_000, 1_000))
    action = {"do": "clock", "by_ms": by_ms, "broker": _broker(dice, scene)}
    yield 0, {"arm": {"id": rule, "point": "now", "action": action}}
    yield _outage(dice), {"disarm": rule}


# Links and steps inside of brokers


def _slow_peers(dice: Dice, _scene: Scene, rule: str) -> Steps:
    fields = {"point": dice.pick(("peer.request", "peer.response")), **_peer_api(dice)}
    yield from slow(dice, {"id": rule, **fields})


def _lossy_peers(dice: Dice, _scene: Scene, rule: str) -> Steps:
    point = dice.pick(("peer.request", "peer.response"))
    do = dice.pick(("drop", "disconnect", *(("duplicate",) if point == "peer.request" else ())))
    fields = {"id": rule, "point": point, **_peer_api(dice), "action": {"do": do}}
    yield 0, {"arm": {**fields, "limit": dice.pick_weighted(defaults.FAULT_TIMES)}}


def _slow_clients(dice: Dice, _scene: Scene, rule: str) -> Steps:
    point = dice.pick(("client.request", "client.response"))
    yield from slow(dice, {"id": rule, "point": point, "api": dice.pick(defaults.CLIENT_APIS)})


def _lossy_clients(dice: Dice, _scene: Scene, rule: str) -> Steps:
    point = dice.pick(("client.request", "client.response"))
    loss = "drop-answer" if point == "client.request" else "drop"  # no network doubles a request
    fields = {"id": rule, "point": point, "api": dice.pick(defaults.CLIENT_APIS)}
    action = {"do": dice.pick((loss, "disconnect"))}
    limit = dice.pick_weighted(defaults.FAULT_TIMES)
    yield 0, {"arm": {**fields, "action": action, "limit": limit}}


def _slow_logs(dice: Dice, scene: Scene, rule: str) -> Steps:
    kind = dice.pick(("data", "marker", "coordinator"))
    fields = {"point": "log.append", "kind": kind, "broker": _broker(dice, scene)}
    yield from slow(dice, {"id": rule, **fields})


def _slow_loading(dice: Dice, scene: Scene, rule: str) -> Steps:
    yield from slow(dice, {"id": rule, "point": "coordinator.load", "broker": _broker(dice, scene)})


def slow(dice: Dice, rule: Body) -> Steps:
    """Hold some messages until the rule is disarmed, or delay each by a drawn time."""
    limit = dice.pick_weighted(defaults.FAULT_TIMES)
    if dice.happens(0.4):
        yield 0, {"arm": {**rule, "action": {"do": "hold"}, "limit": limit}}
        yield _outage(dice), {"disarm": rule["id"]}
        return
    delay = {"do": "delay", "delay_ms": 1 + dice.up_to(defaults.FAULT_DELAYS_MS)}
    yield 0, {"arm": {**rule, "action": delay, "limit": limit}}


def trouble(dice: Dice, rule: Body) -> Steps:
    """Delay a background step of a broker, as a slow thread or disk does; or make its log refuse an
    append.
    """
    if not dice.happens(defaults.REFUSED):
        yield from slow(dice, {**rule, "point": dice.pick(defaults.STEPS)})
        return
    rule |= {"point": "log.append", "role": "leader", "kind": dice.pick(defaults.KINDS)}
    rule |= {"action": {"do": "error", "error": defaults.REFUSAL}}
    yield 0, {"arm": {**rule, "limit": dice.pick_weighted(defaults.FAULT_TIMES)}}


def _peer_api(dice: Dice) -> Body:
    api = dice.pick(defaults.PEER_APIS)
    return {} if api == "any" else {"api": api}


MAKERS: Final[Mapping[str, Callable[[Dice, Scene, str], Steps]]] = {
    "kill": _kill,
    POWER_FAILURE: _power_failure,
    "stop": _stop,
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
