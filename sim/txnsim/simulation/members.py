"""What members of groups are promised, looked at while they act: what clients hold against what the
coordinator knows at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from txnsim.errors import Rejection
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.consumer_group import ConsumerGroup
from txnsim.group.state import Group
from txnsim.scenario.actors.base import Surroundings, group_metadata
from txnsim.scenario.steps_model import Call
from txnsim.server.cluster import SimCluster
from txnsim.simulation.promises import Broken
from txnsim.types import TopicPartition

TWO_MEMBERS: Final = "partition-of-two-members"
OLD_GENERATION: Final = "granted-to-old-generation"
SAME_GENERATION: Final = "two-assignments-of-one-generation"

Told = dict[tuple[str, int], frozenset[TopicPartition]]
"""(member id, generation) -> what the member had."""


def of_two_members(around: Surroundings, cluster: SimCluster) -> Iterator[Broken]:
    """Partitions that two members of a group have at once, both of which their coordinator knows:
    neither protocol gives a partition away before it was let go. Partitions go by name, so this
    can't be asked where a topic is deleted and made again: its new partition is another one.
    """
    holders: dict[tuple[str, TopicPartition], str] = {}
    for name, member in sorted(around.members.items()):
        group_id = member.options.group_id
        group = _group(cluster, group_id)
        if not member.is_joined or not isinstance(group, ClassicGroup | ConsumerGroup):
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


def old_generation(around: Surroundings, cluster: SimCluster, call: Call | None) -> str:
    """Why a call asks with a generation of a classic group that is over; empty if it doesn't."""
    if call is None or call.do != "commit-offsets":
        return ""
    member = around.members.get(call.member or call.who)
    if member is None or not member.is_joined:
        return ""
    if not (member.positions if call.offsets is None else call.offsets):
        return ""  # without positions nothing is asked for
    label = call.generation
    if isinstance(label, str) and label not in around.generations:
        return ""
    metadata = group_metadata(call, member.metadata, around)
    group = _group(cluster, member.options.group_id)
    if not isinstance(group, ClassicGroup) or metadata is None:
        return ""
    if not 0 <= metadata.generation < group.generation:
        return ""
    return (
        f"{call.who} committed positions of {group.group_id} at generation {metadata.generation},"
        f" after generation {group.generation} had begun"
    )


def _group(cluster: SimCluster, group_id: str) -> Group | None:
    """The group as its coordinator has it; None where no broker has loaded it."""
    for broker in cluster.brokers.values():
        for shard in broker.groups.shards():
            found = shard.find(group_id)
            if not isinstance(found, Rejection):
                return found
    return None
