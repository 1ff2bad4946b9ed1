"""Later features. Each draws from its own random stream, so that seeds without it keep their
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from txnsim.releases import REFERENCE
from txnsim.types import PRODUCER_EPOCH_MAX
from txnsim_lab.simulation import _defaults as defaults
from txnsim_lab.simulation._client_behaviour import OPERATOR_NAME, READER_NAME, RunSetup, monitor
from txnsim_lab.simulation._curious_requests import CURIOUS_FEATURE, curious, with_small_groups
from txnsim_lab.simulation._dice import Dice
from txnsim_lab.simulation._disturbances import (
    DISTURBANCE_MAKERS,
    POWER_FAILURE,
    TimedSteps,
    trouble,
)
from txnsim_lab.simulation._share_groups import SHARE_GROUPS_FEATURE, with_share_groups
from txnsim_lab.simulation.plan import CLUSTER_TRACK, Act, Plan, StepBody, Track, World

STREAM_NAME: Final = "later"
HELD_FEATURE: Final = "moves-while-held"
KEYED_FEATURE: Final = "keyed-records"
JOINT_PRODUCE_FEATURE: Final = "partitions-together"
MONITORED_FEATURE: Final = "monitored-groups"
REPLACED_FEATURE: Final = "replaced-members"
TROUBLED_FEATURE: Final = "troubled-brokers"
MEMBER_COMMITS_FEATURE: Final = "commits-both-ways"
LATE_FOLLOWERS_FEATURE: Final = "late-followers"
STREAMS_FEATURE: Final = "streams-groups"
"""Name of the feature and of its random stream, like the names above."""
MONITOR_ACTOR: Final = "monitor"
SHORT_EXPIRATIONS_FEATURE: Final = "short-expirations"
INTERNAL_TOPIC_PREFIXES: Final = ("transaction.state.log", "offsets.topic")
EXPIRATION_SETTINGS: Final = (
    "transactional.id.expiration.ms",
    "producer.id.expiration.ms",
    "offsets.retention.minutes",
)
"""The settings that the feature changes."""
AMID_FAULTS_FEATURE: Final = "amid-faults"
AMID_TRANSACTIONS_FEATURE: Final = "amid-transactions"
LEAVING_FEATURE: Final = "members-leave-amid"
INTERNAL_TOPICS_HABIT: Final = "internal-topics"
"""Habit of acts on partitions of internal topics."""
_LASTING_DISTURBANCES: Final = (
    *(
        "kill",
        "stop",
        "isolate",
        "full-disk",
        "clock-jumps",
        "lagging-replica",
        TROUBLED_FEATURE,
        TROUBLED_FEATURE,
    ),
    *("slow-peers", "slow-peers", "lossy-peers", "lossy-peers", "slow-clients", "lossy-clients"),
    *("slow-logs", "slow-loading"),
)
"""Disturbances that last for some time."""
_SHORT_DISTURBANCES: Final = (
    *("kill", "stop", "isolate", "move-leader", "move-coordinator", "reassign", "remake-topic"),
    *("grow-topic", "care-for-logs", "time-passes", INTERNAL_TOPICS_HABIT, INTERNAL_TOPICS_HABIT),
)
"""Short acts on the cluster while a lasting disturbance goes on."""
_WRITING_CALLS: Final = ("produce", "send", "commit-offsets")
_DisturbanceMaker = Callable[[Dice, RunSetup, str], TimedSteps]


def with_further_features(plan: Plan, *, older_releases: Sequence[str]) -> Plan:
    """Add to a plan the further features that its seed has.

    Args:
        plan: The plan without them.
        older_releases: The releases from which its cluster can be upgraded.
    """
    dice = Dice(plan.seed, STREAM_NAME)
    features = dice.left_in(defaults.FURTHER_FEATURES)
    world, tracks = plan.world, plan.tracks
    if SHORT_EXPIRATIONS_FEATURE in features:
        settings = {**world.settings, **dict(_short_expirations(dice))}
        world = msgspec.structs.replace(world, settings=settings)
    if "long-lived-ids" in features:
        tracks = tuple(_long_lived(dice, track, tracks) for track in tracks)
    if "move-groups" in features and plan.groups:
        group_moves = tuple(_group_moves(dice, world.brokers, plan.groups))
        tracks = (*tracks, Track(CLUSTER_TRACK, group_moves))
    else:
        features -= {"move-groups"}
    if "rolling-upgrade" in features and older_releases:
        world, upgrade_track = _with_rolling_upgrade(dice, world, older_releases)
        tracks = (*tracks, upgrade_track)
    else:
        features -= {"rolling-upgrade"}
    dice = Dice(plan.seed, HELD_FEATURE)
    partitions = [*_replicated_partitions(world, tracks, plan.groups)]
    if world.brokers > 2 and partitions and dice.happens(defaults.MOVES_WHILE_HELD_SHARE):
        features |= {HELD_FEATURE}
        world = _fully_replicated(dice, world)
        partitions = [*_replicated_partitions(world, tracks, plan.groups)]
        moves_while_held = tuple(_moves_while_held(dice, world.brokers, partitions))
        tracks = (*tracks, Track(CLUSTER_TRACK, moves_while_held))
    dice = Dice(plan.seed, KEYED_FEATURE)
    if (compacted_topics := [*_compacted_topics(world)]) and dice.happens(
        defaults.KEYED_RECORDS_SHARE
    ):
        features |= {KEYED_FEATURE}
        world = _soon_forgotten(dice, world, compacted_topics)
        tracks = tuple(_with_keys(dice, track, compacted_topics) for track in tracks)
        tracks = (*tracks, Track(CLUSTER_TRACK, tuple(_cleaner_turns(dice, compacted_topics))))
    dice = Dice(plan.seed, JOINT_PRODUCE_FEATURE)
    if any(map(_sends_by_hand, tracks)) and dice.happens(defaults.JOINT_PRODUCE_SHARE):
        leaders = dict(_first_leaders(world))
        tracks = tuple(_join_near_produces(dice, track, leaders) for track in tracks)
        features |= {JOINT_PRODUCE_FEATURE}
    dice = Dice(plan.seed, STREAMS_FEATURE)
    if plan.groups and world.as_version is None and dice.happens(defaults.STREAMS_GROUPS_SHARE):
        features |= {STREAMS_FEATURE}
        tracks = tuple(map(_with_streams_calls, tracks))
    if plan.groups:
        tracks, habits = _with_group_features(
            plan, tracks, [partition_name for partition_name, _ in _first_leaders(world)]
        )
        features |= habits
    world, late_tracks = _with_late_followers(plan, world, tracks)
    if late_tracks:
        features |= {LATE_FOLLOWERS_FEATURE}
        tracks = (*tracks, *late_tracks)
    dice = Dice(plan.seed, TROUBLED_FEATURE)
    if dice.happens(defaults.TROUBLED_BROKERS_SHARE):
        features |= {TROUBLED_FEATURE}
        tracks = (*tracks, Track(CLUSTER_TRACK, tuple(_trouble_acts(dice, world.brokers))))
    if plan.workload is None:
        world, tracks, stranger_features = _with_share_and_other_tracks(plan, world, tracks)
        features |= stranger_features
    all_features = tuple(sorted({*plan.features, *features}))
    return msgspec.structs.replace(plan, world=world, tracks=tracks, features=all_features)


def _with_rolling_upgrade(
    dice: Dice, world: World, older_releases: Sequence[str]
) -> tuple[World, Track]:
    """The world at an older release, and the acts that upgrade it."""
    newest_release = world.as_version or REFERENCE.name
    world = msgspec.structs.replace(world, as_version=dice.pick(older_releases))
    upgrade_acts = tuple(_upgrade_acts(dice, world.brokers, newest_release))
    return world, Track(CLUSTER_TRACK, upgrade_acts)


def _with_late_followers(
    plan: Plan, world: World, tracks: tuple[Track, ...]
) -> tuple[World, tuple[Track, ...]]:
    """The world and the track of late followers; no track if the seed has none of them."""
    dice = Dice(plan.seed, LATE_FOLLOWERS_FEATURE)
    if world.brokers > 2 and dice.happens(defaults.LATE_FOLLOWERS_SHARE):
        world = _soon_out_of_sync(dice, world)
        if partitions := [*_replicated_partitions(world, tracks, plan.groups)]:
            late_acts = _late_followers(dice, world.brokers, partitions)
            return world, (Track(CLUSTER_TRACK, tuple(late_acts)),)
    return world, ()


def _with_share_and_other_tracks(
    plan: Plan, world: World, tracks: tuple[Track, ...]
) -> tuple[World, tuple[Track, ...], frozenset[str]]:
    """Add clients with tracks of their own: a curious client, and share groups."""
    features: set[str] = set()
    dice = Dice(plan.seed, CURIOUS_FEATURE)
    if dice.happens(defaults.CURIOUS_CLIENT_SHARE):
        features.add(CURIOUS_FEATURE)
        world = with_small_groups(dice, world)
        tracks = (*tracks, curious(dice, msgspec.structs.replace(plan, world=world)))
    dice = Dice(plan.seed, SHARE_GROUPS_FEATURE)
    if world.as_version is None and dice.happens(defaults.SHARE_GROUPS_PROBABILITY):
        features.add(SHARE_GROUPS_FEATURE)
        world, share_tracks = with_share_groups(
            dice, world, [partition_name for partition_name, _ in _first_leaders(world)]
        )
        tracks = (*tracks, *share_tracks)
    return world, tracks, frozenset(features)


def _with_streams_calls(track: Track) -> Track:
    """Change a member of a group into a thread of Kafka Streams."""
    if track.actor is None or track.actor["plays"] != "member":
        return track
    actor = {**track.actor, "group-protocol": "streams"}
    return msgspec.structs.replace(track, actor=actor)


def _with_group_features(
    plan: Plan, tracks: tuple[Track, ...], read: Sequence[str]
) -> tuple[tuple[Track, ...], frozenset[str]]:
    """Add further acts with groups; returns the features that they belong to."""
    features: set[str] = set()
    dice = Dice(plan.seed, MONITORED_FEATURE)
    if dice.happens(defaults.MONITORED_GROUPS_SHARE):
        tracks = (*tracks, monitor(dice, MONITOR_ACTOR, plan.groups, read, habit=MONITORED_FEATURE))
        features.add(MONITORED_FEATURE)
    dice = Dice(plan.seed, REPLACED_FEATURE)
    if dice.happens(defaults.REPLACED_MEMBERS_SHARE):
        tracks = tuple(_as_replaced_member(dice, track) for track in tracks)
        features.add(REPLACED_FEATURE)
    dice = Dice(plan.seed, MEMBER_COMMITS_FEATURE)
    if dice.happens(defaults.MEMBER_COMMITS_SHARE):
        tracks = tuple(_both_ways(dice, track, read) for track in tracks)
        features.add(MEMBER_COMMITS_FEATURE)
    return tracks, frozenset(features)


def _short_expirations(dice: Dice) -> Iterator[tuple[str, object]]:
    """Settings with short expirations of unused ids, producers or positions."""
    setting_groups: tuple[StepBody, ...] = (
        {
            EXPIRATION_SETTINGS[0]: dice.pick_weighted(defaults.EXPIRATIONS_MS),
            "transaction.remove.expired.transaction.cleanup.interval.ms": 5_000,
        },
        {
            EXPIRATION_SETTINGS[1]: dice.pick_weighted(defaults.EXPIRATIONS_MS),
            "producer.id.expiration.check.interval.ms": 5_000,
        },
        {EXPIRATION_SETTINGS[2]: 1, "offsets.retention.check.interval.ms": 5_000},
    )
    for setting_group in setting_groups:
        if dice.happens(0.5):
            yield from setting_group.items()


def _long_lived(dice: Dice, track: Track, tracks: tuple[Track, ...]) -> Track:
    """Give a track's transactional id an epoch near its end, as after very many transactions."""
    own_id = (track.actor or {}).get("transactional-id")
    user_count = sum(actor.get("transactional-id") == own_id for actor in _actors_of(tracks))
    if own_id is None or user_count > 1 or not dice.happens(0.5):
        return track
    epoch = PRODUCER_EPOCH_MAX - 1 - dice.up_to(((8, 1),))
    step: StepBody = {"cluster": {"do": "age", "transactional-id": own_id, "epoch": epoch}}
    unit_number = max((act.unit for act in track.acts), default=0) + 1
    acts = (Act(step, 0, unit_number, "long-lived-ids"), *track.acts)
    return msgspec.structs.replace(track, acts=acts)


def _actors_of(tracks: Iterable[Track]) -> Iterator[StepBody]:
    return (track.actor for track in tracks if track.actor is not None)


def _group_moves(dice: Dice, broker_count: int, groups: Sequence[str]) -> Iterator[Act]:
    """Move the coordinators of groups between brokers."""
    for unit_number in range(1, dice.pick_weighted(defaults.DISTURBANCE_COUNTS) + 1):
        partition = f"__consumer_offsets@{dice.pick(groups)}"
        new_leader = dice.pick(range(1, broker_count + 1))
        step: StepBody = {
            "cluster": {"do": "move-leader", "partition": partition, "to": new_leader}
        }
        yield Act(step, dice.up_to(defaults.DISTURBANCE_PAUSES_MS), unit_number, "move-groups")


def _replicated_partitions(
    world: World, tracks: Iterable[Track], groups: Iterable[str]
) -> Iterator[str]:
    """Partitions whose leader can move to any broker with a replica."""
    transactional_ids = {
        actor["transactional-id"] for actor in _actors_of(tracks) if "transactional-id" in actor
    }
    yield from (
        f"__transaction_state@{transactional_id}" for transactional_id in sorted(transactional_ids)
    )
    yield from (f"__consumer_offsets@{group}" for group in groups)
    topics = world.topics.items()
    yield from (
        f"{topic_name}-0" for topic_name, topic in topics if topic["replication-factor"] > 1
    )


def _moves_while_held(dice: Dice, broker_count: int, partitions: Sequence[str]) -> Iterator[Act]:
    """Moves leaders, as in a rolling restart, while one background step is held."""
    broker_ids = range(1, broker_count + 1)
    for unit_number in range(1, dice.pick_weighted(defaults.DISTURBANCE_COUNTS) + 1):
        rule_id, partition, new_leader = f"held.{unit_number}", dice.pick(partitions), 0
        held_step = _held_match(
            dice, dice.pick(broker_ids), dice.pick_weighted(defaults.HELD_STEPS)
        )
        step: StepBody = {"arm": {"id": rule_id, **held_step, "action": {"do": "hold"}}}
        yield Act(step, dice.up_to(defaults.DISTURBANCE_PAUSES_MS), unit_number, HELD_FEATURE)
        for _ in range(dice.pick_weighted(defaults.LEADER_MOVE_COUNTS)):
            new_leader = dice.pick([broker for broker in broker_ids if broker != new_leader])
            move_act: StepBody = {
                "cluster": {"do": "move-leader", "partition": partition, "to": new_leader}
            }
            yield Act(move_act, dice.up_to(defaults.MOVE_PAUSES_MS), unit_number, HELD_FEATURE)
        yield Act(
            {"disarm": rule_id}, dice.up_to(defaults.MOVE_PAUSES_MS), unit_number, HELD_FEATURE
        )


def _held_match(dice: Dice, broker_id: int, held_request: str) -> StepBody:
    """The match of a fault rule: a broker's loading, or its requests or responses to peers."""
    if held_request == "load":
        return {"point": "coordinator.load", "broker": broker_id}
    fault_point = (
        "peer.request" if held_request == "Fetch" or dice.happens(0.5) else "peer.response"
    )
    return {"point": fault_point, "api": held_request, "source": f"broker/{broker_id}"}


def _fully_replicated(dice: Dice, world: World) -> World:
    """The world in which every broker has a replica of the internal topics, and of some others."""
    internal_settings = {
        f"{topic_name}.replication.factor": world.brokers for topic_name in INTERNAL_TOPIC_PREFIXES
    }
    topics = {
        topic_name: {**topic, "replication-factor": world.brokers} if dice.happens(0.5) else topic
        for topic_name, topic in world.topics.items()
    }
    return msgspec.structs.replace(
        world, settings={**world.settings, **internal_settings}, topics=topics
    )


def _compacted_topics(world: World) -> Iterator[str]:
    for topic_name, topic in world.topics.items():
        if topic.get("configs", {}).get("cleanup.policy") == "compact":
            yield topic_name


def _soon_forgotten(dice: Dice, world: World, compacted: Sequence[str]) -> World:
    """The world in which compacted topics keep markers and tombstones for a short time, or for
    Kafka's default of a day.
    """
    topics = dict(world.topics)
    for topic_name in compacted:
        retention_ms = dice.pick_weighted(defaults.DELETE_RETENTIONS_MS)
        configs = {**topics[topic_name]["configs"], "delete.retention.ms": retention_ms}
        topics[topic_name] = {**topics[topic_name], "configs": configs}
    return msgspec.structs.replace(world, topics=topics)


def _with_keys(dice: Dice, track: Track, compacted: Sequence[str]) -> Track:
    """Give the records that wire actors write to a compacted topic one of a few keys: the topic
    refuses records without a key.
    """

    def with_key(act: Act) -> Act:
        call = act.step.get("call", {})
        if call.get("do") != "produce" or call["partition"].rpartition("-")[0] not in compacted:
            return act
        record_key = f"k{dice.up_to(((2, 1),))}"
        return msgspec.structs.replace(act, step={"call": {**call, "key": record_key}})

    return msgspec.structs.replace(track, acts=tuple(with_key(act) for act in track.acts))


def _cleaner_turns(dice: Dice, compacted: Sequence[str]) -> Iterator[Act]:
    """Acts that run the log cleaner at drawn times."""
    for unit_number in range(1, 2 * dice.pick_weighted(defaults.DISTURBANCE_COUNTS) + 1):
        partition = f"{dice.pick(compacted)}-0"
        for cleaning_act, after_ms in (
            ("roll", dice.up_to(defaults.DISTURBANCE_PAUSES_MS)),
            ("clean", 0),
        ):
            yield Act(
                {"cluster": {"do": cleaning_act, "partition": partition}},
                after_ms,
                unit_number,
                KEYED_FEATURE,
            )


def _first_leaders(world: World) -> Iterator[tuple[str, int]]:
    """Each partition of the topics, with its first leader."""
    for topic_name, topic in world.topics.items():
        yield from (
            (f"{topic_name}-{partition_index}", leader)
            for partition_index, leader in enumerate(topic["leaders"])
        )


def _sends_by_hand(track: Track) -> bool:
    return track.actor is not None and track.actor["plays"] == "wire"


def _join_near_produces(dice: Dice, track: Track, leader_by_partition: Mapping[str, int]) -> Track:
    """Change a client so that it collects the records of a transaction, and sends those for one
    broker in one request.
    """
    if not _sends_by_hand(track):
        return track
    acts: list[Act] = []
    for act in track.acts:
        joinable_indexes = [
            act_index
            for act_index, earlier_act in enumerate(acts)
            if _can_join_produces(earlier_act, act, leader_by_partition)
        ]
        if joinable_indexes and dice.happens(0.7):
            acts[joinable_indexes[-1]] = _join_produces(acts[joinable_indexes[-1]], act)
        else:
            acts.append(act)
    return msgspec.structs.replace(track, acts=tuple(acts))


def _can_join_produces(
    earlier_act: Act, later_act: Act, leader_by_partition: Mapping[str, int]
) -> bool:
    """Whether two calls can be joined: both write to partitions of one broker in one transaction,
    without unusual fields.
    """
    both_calls = [act.step.get("call", {}) for act in (earlier_act, later_act)]
    usual_fields = {"who", "do", "partition", "value", "key", "beside"}
    if earlier_act.unit != later_act.unit or any(
        call.get("do") != "produce" or not call.keys() <= usual_fields for call in both_calls
    ):
        return False
    first_partition, second_partition = (call["partition"] for call in both_calls)
    partitions = {first_partition, *both_calls[0].get("beside", ())}
    return (
        second_partition not in partitions
        and leader_by_partition[first_partition] == leader_by_partition[second_partition]
    )


def _join_produces(earlier_act: Act, later_act: Act) -> Act:
    """Join two calls into one request."""
    call, later_call = earlier_act.step["call"], later_act.step["call"]
    further_values = {**call.get("beside", {}), later_call["partition"]: later_call["value"]}
    joint_step = {"call": {**later_call, **call, "beside": further_values}}
    return msgspec.structs.replace(earlier_act, step=joint_step, habit=JOINT_PRODUCE_FEATURE)


def _as_replaced_member(dice: Dice, track: Track) -> Track:
    """Commit positions sometimes with the generation and member id that the member had first, as a
    replaced member would.
    """

    def with_first_identity(act: Act) -> Act:
        call = act.step.get("call", {})
        member = call.get("member")
        if call.get("do") != "commit-offsets" or member is None or not dice.happens(0.3):
            return act
        generation_name = f"{member} first"
        call_fields = {**call, "generation": generation_name, "member-id": generation_name}
        return msgspec.structs.replace(act, step={"call": call_fields}, habit=REPLACED_FEATURE)

    return msgspec.structs.replace(
        track, acts=tuple(with_first_identity(act) for act in track.acts)
    )


def _both_ways(dice: Dice, track: Track, read_partitions: Sequence[str]) -> Track:
    """A program that commits positions in transactions, up to what it has processed, and also
    outside of transactions, up to what it has polled.
    """
    acts: list[Act] = []
    for act in track.acts:
        call = act.step.get("call", {})
        member = call.get("member")
        if call.get("do") == "commit-offsets" and member is not None:
            acts.append(_make_commit_lower(dice, act, read_partitions))
            if dice.happens(0.5):
                acts.append(_act_by_itself(dice, member, act.unit, {"do": "commit-offsets"}))
            continue
        acts.append(act)
        if call.get("do") == "poll":
            for _ in range(dice.pick_weighted(defaults.MEMBER_COMMIT_COUNTS)):
                if dice.happens(defaults.SEEK_BACK_PROBABILITY):
                    seek_call = {"do": "seek", "partition": dice.pick(read_partitions), "from": 0}
                    acts.append(_act_by_itself(dice, track.name, act.unit, seek_call))
                for other_call in ("commit-offsets", "poll"):
                    acts.append(_act_by_itself(dice, track.name, act.unit, {"do": other_call}))
    return msgspec.structs.replace(track, acts=tuple(acts))


def _make_commit_lower(dice: Dice, act: Act, read_partitions: Sequence[str]) -> Act:
    """A commit whose position for one partition is 0, as if nothing of it was processed yet."""
    if not dice.happens(0.5):
        return act
    call = {**act.step["call"], "offsets": {dice.pick(read_partitions): 0}}
    return msgspec.structs.replace(
        act, step={"call": call}, habit=act.habit or MEMBER_COMMITS_FEATURE
    )


def _act_by_itself(dice: Dice, member: str, unit_number: int, call: StepBody) -> Act:
    step: StepBody = {"call": {"who": member, **call}}
    return Act(step, dice.up_to(defaults.PAUSES_MS), unit_number, MEMBER_COMMITS_FEATURE)


def _soon_out_of_sync(dice: Dice, world: World) -> World:
    """The world with several replicas, which soon get out of sync."""
    world = _fully_replicated(dice, world)
    lag_ms = {"replica.lag.time.max.ms": dice.pick_weighted(defaults.REPLICA_LAGS_MS)}
    return msgspec.structs.replace(world, settings={**world.settings, **lag_ms})


def _late_followers(dice: Dice, broker_count: int, partitions: Sequence[str]) -> Iterator[Act]:
    """Delay the answers to followers, to one of them so much that it leaves the ISR again and
    again. The leader moves between the others, and a former leader does not fetch for a while.
    """
    broker_ids = range(1, broker_count + 1)
    for unit_number in range(1, dice.pick_weighted(defaults.DISTURBANCE_COUNTS) + 1):
        rule_prefix, partition = f"late.{unit_number}", dice.pick(partitions)
        slow_broker = dice.pick(broker_ids)
        old_leader, new_leader = (broker for broker in broker_ids if broker != slow_broker)
        answer_delay_ms = dice.pick_weighted(defaults.LATE_ANSWER_DELAYS_MS)
        steps: list[StepBody] = [
            {"cluster": {"do": "move-leader", "partition": partition, "to": old_leader}},
            _delayed_fetch_answer(
                f"{rule_prefix}.last",
                answer_delay_ms * dice.pick((3, 10)),
                source=f"broker/{slow_broker}",
            ),
            _delayed_fetch_answer(f"{rule_prefix}.all", answer_delay_ms),
        ]
        for move_number in range(2 * dice.pick_weighted(defaults.LEADER_MOVE_COUNTS)):
            steps += [
                _held_fetch(f"{rule_prefix}.{move_number}", old_leader),
                {"cluster": {"do": "move-leader", "partition": partition, "to": new_leader}},
                {"disarm": f"{rule_prefix}.{move_number}"},
            ]
            old_leader, new_leader = new_leader, old_leader
        steps += [{"disarm": f"{rule_prefix}.last"}, {"disarm": f"{rule_prefix}.all"}]
        for step in steps:
            yield Act(
                step,
                dice.up_to(defaults.FOLLOWER_BEHIND_PAUSES_MS),
                unit_number,
                LATE_FOLLOWERS_FEATURE,
            )


def _delayed_fetch_answer(rule_id: str, delay_ms: int, **rule_match: str) -> StepBody:
    rule_fields = {"id": rule_id, "point": "peer.response", "api": "Fetch", **rule_match}
    return {"arm": {**rule_fields, "action": {"do": "delay", "delay_ms": delay_ms}}}


def _held_fetch(rule_id: str, broker_id: int) -> StepBody:
    rule_fields = {"point": "peer.request", "api": "Fetch", "source": f"broker/{broker_id}"}
    return {"arm": {"id": rule_id, **rule_fields, "action": {"do": "hold"}}}


def _trouble_acts(dice: Dice, broker_count: int) -> Iterator[Act]:
    for unit_number in range(1, dice.pick_weighted(defaults.DISTURBANCE_COUNTS) + 1):
        rule_fields: StepBody = {
            "id": f"step.{unit_number}",
            "broker": dice.pick(range(1, broker_count + 1)),
        }
        pause_ms = dice.up_to(defaults.DISTURBANCE_PAUSES_MS)
        for after_ms, step in trouble(dice, rule_fields):
            yield Act(step, pause_ms + after_ms, unit_number, TROUBLED_FEATURE)
            pause_ms = 0


def _upgrade_acts(dice: Dice, broker_count: int, newest_release: str) -> Iterator[Act]:
    """Upgrade the brokers one after the other: each stops, and starts as the newer release."""
    for broker in range(1, broker_count + 1):
        restart_act: StepBody = {"do": "start", "broker": broker, "as-version": newest_release}
        for cluster_act, pause_choices in (
            ({"do": "stop", "broker": broker}, defaults.DISTURBANCE_PAUSES_MS),
            (restart_act, defaults.OUTAGES_MS),
        ):
            yield Act(
                {"cluster": cluster_act}, dice.up_to(pause_choices), broker, "rolling-upgrade"
            )


# In the middle of something else: what two tracks do seldom falls together by itself


def with_amid(plan: Plan) -> Plan:
    """Adds to a plan the disturbances during other acts that its seed has. With a power failure
    nothing is added: then all else must be sound.
    """
    if POWER_FAILURE in plan.features:
        return plan
    tracks, features = plan.tracks, {*plan.features}
    dice = Dice(plan.seed, AMID_FAULTS_FEATURE)
    if dice.happens(defaults.OVERLAPPING_FAULTS_SHARE):
        features.add(AMID_FAULTS_FEATURE)
        tracks = (*tracks, Track(CLUSTER_TRACK, tuple(_amid_faults(dice, _run_setup(plan)))))
    dice = Dice(plan.seed, AMID_TRANSACTIONS_FEATURE)
    if _actor_fields(plan, "transactional-id") and dice.happens(defaults.MAINTENANCE_SHARE):
        features.add(AMID_TRANSACTIONS_FEATURE)
        tracks = tuple(_amid_transactions(dice, actor_track, plan) for actor_track in tracks)
    dice = Dice(plan.seed, LEAVING_FEATURE)
    if plan.groups and dice.happens(defaults.LEAVING_MEMBERS_SHARE):
        features.add(LEAVING_FEATURE)
        tracks = tuple(
            _with_leaves(dice, actor_track, [*plan.world.topics]) for actor_track in tracks
        )
    return msgspec.structs.replace(plan, tracks=tracks, features=tuple(sorted(features)))


def _actor_fields(plan: Plan, field_name: str) -> Mapping[str, str]:
    """Value of a field of each actor that has it, by the actor's name."""
    actors = {track.name: track.actor or {} for track in plan.tracks}
    return {
        actor_name: actor[field_name] for actor_name, actor in actors.items() if field_name in actor
    }


def _run_setup(plan: Plan) -> RunSetup:
    """Collect what disturbances of a plan can choose from: partitions, brokers, ids and groups."""
    partition_counts = (
        (topic_name, topic["partitions"]) for topic_name, topic in plan.world.topics.items()
    )
    return RunSetup(
        features=frozenset(),
        partitions=tuple(
            f"{topic_name}-{partition_index}"
            for topic_name, partition_count in partition_counts
            for partition_index in range(partition_count)
        ),
        broker_count=plan.world.brokers,
        is_v2=plan.world.mode.startswith("TV2"),
        ids=tuple(sorted({*_actor_fields(plan, "transactional-id").values()})) or ("nobody",),
        groups=tuple(plan.groups),
    )


# Faults


def _amid_faults(dice: Dice, run_setup: RunSetup) -> Iterator[Act]:
    """Begin a disturbance, make others, and end the first one."""
    makers: dict[str, _DisturbanceMaker] = {
        **DISTURBANCE_MAKERS,
        TROUBLED_FEATURE: _trouble_steps,
        INTERNAL_TOPICS_HABIT: _to_internal_topics,
    }
    for unit_number in range(1, dice.pick_weighted(defaults.OVERLAPPING_FAULT_UNITS) + 1):
        pause_ms = dice.up_to(defaults.DISTURBANCE_PAUSES_MS)
        outer_disturbance = dice.pick(_LASTING_DISTURBANCES)
        first_step, *end_steps = makers[outer_disturbance](dice, run_setup, f"amid.{unit_number}")
        timed_steps = [(outer_disturbance, *first_step)]
        for inner_number in range(dice.pick_weighted(defaults.OVERLAPPING_FAULT_COUNTS)):
            inner_disturbance = dice.pick(
                _SHORT_DISTURBANCES if dice.happens(0.7) else _LASTING_DISTURBANCES
            )
            timed_steps += (
                (inner_disturbance, *inner_step)
                for inner_step in makers[inner_disturbance](
                    dice, run_setup, f"amid.{unit_number}.{inner_number}"
                )
            )
        for disturbance, after_ms, step in (
            *timed_steps,
            *((outer_disturbance, *end_step) for end_step in end_steps),
        ):
            yield Act(step, pause_ms + after_ms, unit_number, disturbance)
            pause_ms = 0


def _trouble_steps(dice: Dice, run_setup: RunSetup, rule_id: str) -> TimedSteps:
    yield from trouble(
        dice, {"id": rule_id, "broker": dice.pick(range(1, run_setup.broker_count + 1))}
    )


def _to_internal_topics(dice: Dice, run_setup: RunSetup, _rule: str) -> TimedSteps:
    internal_partitions = [
        f"__transaction_state@{transactional_id}" for transactional_id in run_setup.ids
    ]
    internal_partitions += [f"__consumer_offsets@{group}" for group in run_setup.groups]
    yield from _care_steps(dice, dice.pick(internal_partitions), run_setup.broker_count)


def _care_steps(dice: Dice, partition: str, broker_count: int) -> TimedSteps:
    """Maintenance of a partition that loses no data."""
    broker_ids = range(1, broker_count + 1)
    care_act: StepBody = {"do": dice.pick(defaults.MAINTENANCE_ACTS), "partition": partition}
    match care_act["do"]:
        case "clean" | "delete-old":
            roll_act: StepBody = {"do": "roll", "partition": partition}
            yield dice.up_to(defaults.PAUSES_MS), {"cluster": roll_act}
        case "move-leader":
            care_act["to"] = dice.pick(broker_ids)
        case "reassign":
            care_act["replicas"] = dice.pick_several(
                broker_ids, dice.pick_weighted(defaults.REPLICA_COUNTS)
            )
        case "producers":
            yield dice.up_to(defaults.PAUSES_MS), {"call": {"who": OPERATOR_NAME, **care_act}}
            return
        case "read":
            yield dice.up_to(defaults.PAUSES_MS), {"call": {"who": READER_NAME, **care_act}}
            return
    yield dice.up_to(defaults.PAUSES_MS), {"cluster": care_act}


# Transactions


def _amid_transactions(dice: Dice, track: Track, plan: Plan) -> Track:
    """Adds maintenance of partitions that an open transaction has written to, or of its
    coordinator's partition.
    """
    actor = track.actor or {}
    if "transactional-id" not in actor:
        return track
    group_by_actor, acts = _actor_fields(plan, "group"), list[Act]()
    for act in track.acts:
        acts.append(act)
        call = act.step.get("call", {})
        if call.get("do") not in _WRITING_CALLS or not dice.happens(
            defaults.MAINTENANCE_PROBABILITY
        ):
            continue
        partition = (
            call.get("partition")
            or f"__consumer_offsets@{group_by_actor[call.get('member', call['who'])]}"
        )
        if dice.happens(0.3):
            partition = f"__transaction_state@{actor['transactional-id']}"
        for after_ms, step in _care_steps(dice, partition, plan.world.brokers):
            acts.append(Act(step, after_ms, act.unit, AMID_TRANSACTIONS_FEATURE))
    return msgspec.structs.replace(track, acts=tuple(acts))


def _with_leaves(dice: Dice, track: Track, topics: Sequence[str]) -> Track:
    """A program whose member leaves before the transaction with its positions has ended, and joins
    again.
    """
    acts: list[Act] = []
    for act in track.acts:
        acts.append(act)
        call = act.step.get("call", {})
        if call.get("do") != "commit-offsets" or "member" not in call or not dice.happens(0.4):
            continue
        for call_fields in (
            {"do": dice.pick(defaults.LEAVING_ACTS)},
            {"do": "subscribe", "topics": topics},
        ):
            step: StepBody = {"call": {"who": call["member"], **call_fields}}
            acts.append(Act(step, dice.up_to(defaults.PAUSES_MS), act.unit, LEAVING_FEATURE))
    return msgspec.structs.replace(track, acts=tuple(acts))
