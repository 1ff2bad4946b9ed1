"""Draws the plan of a seed: the cluster, the actors, and their acts. This is swarm testing: each
seed leaves out some features at random, so that a feature can't hide a bug in all seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from txnsim.releases import REFERENCE, RELEASES, release_named
from txnsim_lab.simulation import _defaults as defaults
from txnsim_lab.simulation._client_behaviour import (
    Scene,
    application,
    bystander,
    group,
    has_operator,
    operator,
    reader,
    wire,
)
from txnsim_lab.simulation._dice import Dice
from txnsim_lab.simulation._disturbances import POWER_FAILURE, disturber, has_disturber
from txnsim_lab.simulation._further_features import with_amid, with_further_features
from txnsim_lab.simulation._plan import Body, Plan, Track, World

STREAM: Final = "plan"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The user's choices; all else is drawn."""

    as_version: str | None = None
    """The release of Kafka; the reference unless given."""
    rules: Mapping[str, bool] = {}
    """Switches of releases that the user has set."""
    workload: str | None = None
    """A user's coroutine, as ``package.module:name``, which replaces our clients."""


def draw(seed: int, options: Wanted = Wanted()) -> Plan:  # noqa: B008 - a frozen value
    """Draw the plan of a seed."""
    dice = Dice(seed, STREAM)
    drawn = dice.left_in({**defaults.CLIENT_FEATURES, **defaults.CLUSTER_FEATURES})
    modes = modes_of(options.as_version)
    mode = dice.pick(modes)
    brokers = dice.pick_weighted(defaults.BROKERS)
    topics = {
        f"t{number}": _topic(dice, brokers)
        for number in range(1, dice.pick_weighted(defaults.TOPICS) + 1)
    }
    settings = _settings(dice, brokers)
    features = drawn - (frozenset() if _survives(topics, settings, drawn) else {POWER_FAILURE})
    scene = Scene(
        features=features,
        places=tuple(
            f"{name}-{index}"
            for name, topic in topics.items()
            for index in range(topic["partitions"])
        ),
        brokers=brokers,
        is_v2=mode.startswith("TV2"),
        ids=("a1", "a2", "x1", "x2"),
        inputs=tuple(topics),
    )
    latency_us, peer_us = (dice.pick_weighted(defaults.LATENCIES_US) for _ in range(2))
    world = World(
        mode=mode,
        brokers=brokers,
        settings=settings,
        topics=topics,
        latency_us=latency_us,
        peer_latency_us=peer_us,
        as_version=options.as_version,
        rules=dict(options.rules),
    )
    clients = () if options.workload is not None else tuple(_clients(dice, scene))
    plan = Plan(
        seed=seed,
        world=world,
        tracks=(*clients, *_surroundings(dice, scene)),
        features=tuple(sorted(features)),
        workload=options.workload,
    )
    return with_amid(with_further_features(plan, older=_older(options.as_version, mode)))


def _survives(topics: Mapping[str, Body], settings: Body, features: frozenset[str]) -> bool:
    """Whether the cluster must lose nothing if one machine loses its power: every acknowledged
    record is on two other brokers, and no other broker is out of service.
    """
    internal = ("transaction.state.log", "offsets.topic")
    replicas = [topic["replication-factor"] for topic in topics.values()]
    replicas += [settings[f"{name}.replication.factor"] for name in internal]
    in_sync = [topic.get("configs", {}).get("min.insync.replicas", 1) for topic in topics.values()]
    in_sync.append(settings["transaction.state.log.min.isr"])
    alone = features.isdisjoint(("kill", "stop", "isolate", "full-disk", "reassign"))
    return alone and min(replicas) > 2 and min(in_sync) > 1


def modes_of(as_version: str | None) -> tuple[str, ...]:
    """The modes of the protocol that brokers of a release can run; verification is on, as by
    default.
    """
    rules = (REFERENCE if as_version is None else release_named(as_version)).rules
    if not rules.transactions_are_verified:
        return ("V-",)
    if not rules.client_version_is_kept:
        return ("V+",)
    return ("V+", "TV2+" if rules.v2_markers_need_higher_epoch else "TV2")


def _older(as_version: str | None, mode: str) -> list[str]:
    """Older releases whose brokers can run the same mode."""
    names = [*RELEASES]
    own = REFERENCE.name if as_version is None else as_version
    return [name for name in names[: names.index(own)] if mode in modes_of(name)]


def _topic(dice: Dice, brokers: int) -> Body:
    replicas = min(brokers, dice.pick_weighted(defaults.REPLICATION))
    count = dice.pick_weighted(defaults.PARTITIONS)
    first_leader = dice.pick(range(brokers))
    topic: Body = {
        "partitions": count,
        "replication-factor": replicas,
        "leaders": [(first_leader + index) % brokers + 1 for index in range(count)],
    }
    configs: Body = {}
    if dice.happens(0.2):
        configs["cleanup.policy"] = "compact"
    if replicas > 1 and dice.happens(0.4):
        configs["min.insync.replicas"] = 2
    return {**topic, "configs": configs} if configs else topic


def _settings(dice: Dice, brokers: int) -> Body:
    """Draw the settings of the cluster, mainly of its internal topics."""
    settings: Body = {
        "broker.session.timeout.ms": dice.pick((4_000, 6_000, 9_000)),
        "group.initial.rebalance.delay.ms": 0,
    }
    for topic in ("transaction.state.log", "offsets.topic"):
        replicas = min(brokers, dice.pick_weighted(defaults.REPLICATION))
        settings[f"{topic}.replication.factor"] = replicas
        settings[f"{topic}.num.partitions"] = dice.pick_weighted(defaults.INTERNAL_PARTITIONS)
        if topic == "transaction.state.log":
            settings[f"{topic}.min.isr"] = min(replicas, dice.pick((1, 2)))
    return settings


def _clients(dice: Dice, scene: Scene) -> Iterator[Track]:
    for number in range(1, dice.pick_weighted(defaults.APPLICATIONS) + 1):
        yield application(dice, scene, f"a{number}", f"a{number}")
    pooled = scene.has("pooled")
    for number in range(1, dice.pick_weighted(defaults.WIRES) + 1):
        yield wire(dice, scene, f"w{number}", "x1" if pooled else f"x{number}")
    if scene.has("groups"):
        yield from group(dice, scene, 1)


def _surroundings(dice: Dice, scene: Scene) -> Iterator[Track]:
    """Draw the tracks of actors that are neither producers nor groups."""
    if scene.has("bystander"):
        yield bystander(dice, scene)
    if scene.has("reader"):
        yield reader(dice, scene)
    if has_operator(scene):
        yield operator(dice, scene)
    if has_disturber(scene):
        for number in range(1, dice.pick_weighted(defaults.DISTURBERS) + 1):
            yield disturber(dice, scene, number)
