"""What a group that speaks the consumer protocol can be asked, and what it answers (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from txnsim.group.commands import TimerCancelled, TimerSet
from txnsim.group.consumer_records import (
    ClassicMetadata,
    ConsumerRecord,
    TopicIdPartition,
)

MayDescribe = Callable[[str], bool] | None
"""Whether a client may describe a topic; None where every client may."""


class ConsumerHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """Join, stay, change the subscription, report owned partitions, or leave; None: as before."""

    group_id: str
    member_id: str
    member_epoch: int
    """0: join; -1: leave; -2: leave for a while, of static members."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: frozenset[TopicIdPartition] | None = None
    client_id: str
    client_host: str
    member_id_required: bool = True
    """Clients choose their id themselves (v1)."""
    may_describe: MayDescribe = None
    """Topics that the member may not describe don't belong to a regular expression."""
    classic: ClassicMetadata | None = None
    """For a member of the classic protocol that joins with JoinGroup: its metadata."""


class HeartbeatReply(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to a heartbeat."""

    member_id: str
    member_epoch: int
    assignment: tuple[TopicIdPartition, ...] | None = None
    """Sorted; None: as before."""
    heartbeat_interval_ms: int = 0


class ResolveRegexes(msgspec.Struct, frozen=True, kw_only=True):
    """Look up the topics of regular expressions, after this heartbeat."""

    regexes: tuple[str, ...]
    may_describe: MayDescribe = None
    """The rights of the member whose heartbeat led to it."""


ConsumerEffect = TimerSet | TimerCancelled | ResolveRegexes


class ConsumerOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a heartbeat, a timer or a lookup leads to."""

    records: tuple[ConsumerRecord, ...] = ()
    reply: HeartbeatReply | None = None
    effects: tuple[ConsumerEffect, ...] = ()
    classic_without: frozenset[str] = frozenset()
    """Without these members only classic ones are left: the group is to be one of those, instead of
    writing records.
    """
