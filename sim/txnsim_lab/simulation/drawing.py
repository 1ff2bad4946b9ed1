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
    RunSetup,
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
from txnsim_lab.simulation.plan import Plan, StepBody, Track, World

STREAM_NAME: Final = "plan"


class SimulationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The user's choices; all else is drawn."""

    as_version: str | None = None
    """The release of Kafka; the reference unless given."""
    rules: Mapping[str, bool] = {}
    """Switches of releases that the user has set."""
    workload: str | None = None
    """A user's coroutine, as ``package.module:name``, which replaces our clients."""


def draw(seed: int, options: SimulationOptions = SimulationOptions()) -> Plan:  # noqa: B008 - a frozen value
    dice = Dice(seed, STREAM_NAME)
    drawn_features = dice.left_in({**defaults.CLIENT_FEATURES, **defaults.CLUSTER_FEATURES})
    modes = modes_of(options.as_version)
    mode = dice.pick(modes)
    brokers = dice.pick_weighted(defaults.BROKER_COUNTS)
    topics = {
        f"t{topic_number}": _draw_topic(dice, brokers)
        for topic_number in range(1, dice.pick_weighted(defaults.TOPIC_COUNTS) + 1)
    }
    settings = _draw_settings(dice, brokers)
    features_left = drawn_features - (
        frozenset()
        if _survives_power_failure(topics, settings, drawn_features)
        else {POWER_FAILURE}
    )
    run_setup = RunSetup(
        features=features_left,
        partitions=tuple(
            f"{topic_name}-{partition_index}"
            for topic_name, topic in topics.items()
            for partition_index in range(topic["partitions"])
        ),
        broker_count=brokers,
        is_v2=mode.startswith("TV2"),
        ids=("a1", "a2", "x1", "x2"),
        inputs=tuple(topics),
    )
    latency_us, peer_latency = (dice.pick_weighted(defaults.LATENCIES_US) for _ in range(2))
    world = World(
        mode=mode,
        brokers=brokers,
        settings=settings,
        topics=topics,
        latency_us=latency_us,
        peer_latency_us=peer_latency,
        as_version=options.as_version,
        rules=dict(options.rules),
    )
    client_tracks = (
        () if options.workload is not None else tuple(_draw_client_tracks(dice, run_setup))
    )
    plan = Plan(
        seed=seed,
        world=world,
        tracks=(*client_tracks, *_draw_other_tracks(dice, run_setup)),
        features=tuple(sorted(features_left)),
        workload=options.workload,
    )
    return with_amid(
        with_further_features(plan, older_releases=_older_releases(options.as_version, mode))
    )


def _survives_power_failure(
    topic_by_name: Mapping[str, StepBody], settings: StepBody, features: frozenset[str]
) -> bool:
    """Whether the cluster must lose nothing if one machine loses its power: every acknowledged
    record is on two other brokers, and no other broker is out of service.
    """
    internal_topics = ("transaction.state.log", "offsets.topic")
    replication_factors = [topic["replication-factor"] for topic in topic_by_name.values()]
    replication_factors += [
        settings[f"{internal_name}.replication.factor"] for internal_name in internal_topics
    ]
    min_in_sync_replicas = [
        topic.get("configs", {}).get("min.insync.replicas", 1) for topic in topic_by_name.values()
    ]
    min_in_sync_replicas.append(settings["transaction.state.log.min.isr"])
    fails_alone = features.isdisjoint(("kill", "stop", "isolate", "full-disk", "reassign"))
    return fails_alone and min(replication_factors) > 2 and min(min_in_sync_replicas) > 1


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


def _older_releases(as_version: str | None, mode: str) -> list[str]:
    """Older releases whose brokers can run the same mode."""
    release_names = [*RELEASES]
    own_release = REFERENCE.name if as_version is None else as_version
    return [
        release_name
        for release_name in release_names[: release_names.index(own_release)]
        if mode in modes_of(release_name)
    ]


def _draw_topic(dice: Dice, broker_count: int) -> StepBody:
    replicas = min(broker_count, dice.pick_weighted(defaults.REPLICA_COUNTS))
    partition_count = dice.pick_weighted(defaults.PARTITION_COUNTS)
    first_leader = dice.pick(range(broker_count))
    topic: StepBody = {
        "partitions": partition_count,
        "replication-factor": replicas,
        "leaders": [
            (first_leader + partition_index) % broker_count + 1
            for partition_index in range(partition_count)
        ],
    }
    configs: StepBody = {}
    if dice.happens(0.2):
        configs["cleanup.policy"] = "compact"
    if replicas > 1 and dice.happens(0.4):
        configs["min.insync.replicas"] = 2
    return {**topic, "configs": configs} if configs else topic


def _draw_settings(dice: Dice, broker_count: int) -> StepBody:
    """Draw the settings of the cluster, mainly of its internal topics."""
    settings: StepBody = {
        "broker.session.timeout.ms": dice.pick((4_000, 6_000, 9_000)),
        "group.initial.rebalance.delay.ms": 0,
    }
    for topic in ("transaction.state.log", "offsets.topic"):
        replicas = min(broker_count, dice.pick_weighted(defaults.REPLICA_COUNTS))
        settings[f"{topic}.replication.factor"] = replicas
        settings[f"{topic}.num.partitions"] = dice.pick_weighted(defaults.INTERNAL_PARTITION_COUNTS)
        if topic == "transaction.state.log":
            settings[f"{topic}.min.isr"] = min(replicas, dice.pick((1, 2)))
    return settings


def _draw_client_tracks(dice: Dice, run_setup: RunSetup) -> Iterator[Track]:
    for actor_number in range(1, dice.pick_weighted(defaults.APPLICATION_COUNTS) + 1):
        yield application(dice, run_setup, f"a{actor_number}", f"a{actor_number}")
    has_pool = run_setup.has("pooled")
    for actor_number in range(1, dice.pick_weighted(defaults.WIRE_ACTOR_COUNTS) + 1):
        yield wire(dice, run_setup, f"w{actor_number}", "x1" if has_pool else f"x{actor_number}")
    if run_setup.has("groups"):
        yield from group(dice, run_setup, 1)


def _draw_other_tracks(dice: Dice, run_setup: RunSetup) -> Iterator[Track]:
    """Draw the tracks of actors that are neither producers nor groups."""
    if run_setup.has("bystander"):
        yield bystander(dice, run_setup)
    if run_setup.has("reader"):
        yield reader(dice, run_setup)
    if has_operator(run_setup):
        yield operator(dice, run_setup)
    if has_disturber(run_setup):
        for disturber_number in range(1, dice.pick_weighted(defaults.DISTURBER_COUNTS) + 1):
            yield disturber(dice, run_setup, disturber_number)
