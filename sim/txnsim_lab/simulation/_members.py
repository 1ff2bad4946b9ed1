"""What members of groups are promised, looked at while they act: what clients hold against what the
coordinator knows at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from txnsim.client.group_requests import GroupMetadata
from txnsim.errors import Rejection
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.consumer_group import ConsumerGroup
from txnsim.group.state import Group
from txnsim.releases.rules import LATEST, Rules
from txnsim.server.cluster import SimCluster
from txnsim.types import TopicPartition
from txnsim_lab.scenario.actors.base import Surroundings, group_metadata
from txnsim_lab.scenario.steps_model import Call
from txnsim_lab.simulation._promises import Broken

TWO_MEMBERS: Final = "partition-of-two-members"
OLD_GENERATION: Final = "granted-to-old-generation"
NOT_FENCED: Final = "replaced-member-is-not-told"
UNFENCED: Final = ("NONE", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION")
"""Answers that do not tell a member of its replacement."""
SAME_GENERATION: Final = "two-assignments-of-one-generation"

Told = dict[tuple[str, int], frozenset[TopicPartition]]
"""(member id, generation) -> what the member had."""


def of_two_members(around: Surroundings, cluster: SimCluster) -> Iterator[Broken]:
    """Partitions that two members of a group have at once, both of which their coordinator knows:
    neither protocol gives a partition away before it was let go. One that has not polled for too
    long has left, and takes notice with its next poll. Partitions go by name, so this
    can't be asked where a topic is deleted and made again: its new partition is another one.
    """
    holders: dict[tuple[str, TopicPartition], str] = {}
    for name, member in sorted(around.members.items()):
        group_id = member.options.group_id
        group, _ = _group(cluster, group_id)
        if not member.takes_part or not isinstance(group, ClassicGroup | ConsumerGroup):
            continue
        if member.metadata.member_id not in group.members:
            continue
        for place in sorted(member.assigned):
            other = holders.setdefault((group_id, place), name)
            if other != name:
                yield TWO_MEMBERS, f"{other} and {name} of group {group_id} both have {place}"


def told_otherwise(around: Surroundings, told: Told) -> Iterator[Broken]:
    """A member of a classic group has other partitions than before, at the same generation.

    Args:
        around: The members as they are now.
        told: What each one had, which is brought up to date.
    """
    for name, member in around.members.items():
        if not member.is_joined or member.options.protocol != "classic" or not member.assigned:
            continue
        metadata = member.metadata
        had = told.setdefault((metadata.member_id, metadata.generation), member.assigned)
        if had != member.assigned:
            yield (
                SAME_GENERATION,
                f"{name} had {_shown(had)} at generation {metadata.generation} of group"
                f" {member.options.group_id}, and has {_shown(member.assigned)} at the same",
            )


def _shown(places: frozenset[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(places)))


class Asked(NamedTuple):
    """A commit of positions in the name of a member, and the group as it is."""

    who: str
    member: GroupMetadata
    places: tuple[TopicPartition, ...]
    group: ClassicGroup | ConsumerGroup
    rules: Rules
    """Of its coordinator."""


def asked_of_group(around: Surroundings, cluster: SimCluster, call: Call | None) -> Asked | None:
    """A call's request to a group in a member's name; None for other calls."""
    if call is None or call.do != "commit-offsets":
        return None
    member = around.members.get(call.member or call.who)
    if member is None or not member.is_joined:
        return None
    places = member.positions if call.offsets is None else call.offsets
    label = call.generation
    if not places or (isinstance(label, str) and label not in around.generations):
        return None  # without positions nothing is asked for
    metadata = group_metadata(call, member.metadata, around)
    group, rules = _group(cluster, member.options.group_id)
    if metadata is None or not isinstance(group, ClassicGroup | ConsumerGroup):
        return None
    return Asked(call.who, metadata, tuple(places), group, rules)


def old_generation(asked: Asked | None, cluster: SimCluster) -> str:
    """Why a commit must be refused: it comes from a generation of a classic group that is over; or
    in the name of a member that is none, at an epoch that it has not, or for a partition that it
    has not had since the epoch of the commit. Empty if it may be granted.
    """
    if asked is None:
        return ""
    who, member, places, group, rules = asked
    said = f"{who} committed positions of {group.group_id}"
    if isinstance(group, ClassicGroup):
        if not 0 <= member.generation < group.generation:
            return ""
        return (
            f"{said} at generation {member.generation}, after generation {group.generation} had"
            " begun"
        )
    if member.generation < 0:
        return ""
    known = group.members.get(member.member_id)
    if known is None:
        return f"{said} as {member.member_id}, which is no member"
    behind_may = rules.members_behind_may_commit
    if member.generation > known.member_epoch or (
        member.generation < known.member_epoch and not behind_may
    ):
        return f"{said} at epoch {member.generation} of a member at epoch {known.member_epoch}"
    if member.generation == known.member_epoch:
        return ""
    topics = cluster.metadata.image.topics
    for place in places:
        topic = topics.get(place.topic)
        since = None if topic is None else known.assigned.get((topic.topic_id, place.partition))
        if topic is not None and (since is None or since > member.generation):
            return (
                f"{said} on {place} at epoch {member.generation} of a member at epoch"
                f" {known.member_epoch}, which has not had the partition since"
            )
    return ""


def replaced(asked: Asked | None) -> str:
    """Why a commit must be answered FENCED_INSTANCE_ID, so that a program that was replaced by
    another with its instance id stops, and does not join again (KIP-345); empty if it need not.
    """
    if asked is None or asked.member.instance_id is None or asked.member.generation < 0:
        return ""
    group, member = asked.group, asked.member
    holder = group.static_members.get(member.instance_id or "")
    if not isinstance(group, ClassicGroup) or holder in (None, member.member_id):
        return ""
    return (
        f"{asked.who} committed positions of {group.group_id} as {member.member_id}, though"
        f" instance {member.instance_id} had come to {holder}"
    )


def _group(cluster: SimCluster, group_id: str) -> tuple[Group | None, Rules]:
    """The group as its newest coordinator has it, and the rules of that; None where no broker has
    loaded it.
    """
    newest: tuple[int, Group | None, Rules] = (-1, None, LATEST)
    for broker in cluster.brokers.values():
        for shard in broker.groups.shards():
            found = shard.find(group_id)
            if shard.coordinator_epoch > newest[0] and not isinstance(found, Rejection):
                newest = shard.coordinator_epoch, found, broker.release.rules
    return newest[1:]
