"""A heartbeat of a streams group (KIP-1071), its answer, and its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from txnsim.errors import Rejection
from txnsim.group.commands import TimerCancelled, TimerSet
from txnsim.group.streams._records import StreamsRecord
from txnsim.group.streams.group import UnrecordedState
from txnsim.group.streams.tasks import Task, Tasks
from txnsim.group.streams.topology import StatusMessage, Subtopology, TopicInfo

CLIENT_TAGS_FROM: Final = 1
"""First version of the heartbeat whose clients know the status "missing client tags"."""


class StreamsHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """Join, stay, report tasks, or leave; None means unchanged."""

    group_id: str
    member_id: str
    member_epoch: int
    """0: join; -1: leave; -2: static member leaves for a while."""
    endpoints_epoch: int = 0
    """Endpoint epoch of the member's last answer."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: tuple[int, tuple[Subtopology, ...]] | None = None
    """Its epoch and subtopologies; only of a member that joins."""
    active: frozenset[Task] | None = None
    standby: frozenset[Task] | None = None
    warmup: frozenset[Task] | None = None
    process_id: str | None = None
    endpoint: tuple[str, int] | None = None
    client_tags: Mapping[str, str] | None = None
    task_offsets: tuple[tuple[Task, int], ...] | None = None
    task_end_offsets: tuple[tuple[Task, int], ...] | None = None
    shutdown: bool = False
    """Whether all members are asked to shut down."""
    client_id: str
    client_host: str
    api_version: int = CLIENT_TAGS_FROM

    @property
    def owned_tasks(self) -> Tasks | None:
        """The tasks that the member reports; None means unchanged."""
        if self.active is None or self.standby is None or self.warmup is None:
            return None
        return Tasks(active=self.active, standby=self.standby, warmup=self.warmup)


class EndpointPartitions(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions that can be queried at a member's endpoint: topic -> partitions."""

    endpoint: tuple[str, int]
    active: tuple[tuple[str, tuple[int, ...]], ...] = ()
    standby: tuple[tuple[str, tuple[int, ...]], ...] = ()


class StreamsReply(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to a heartbeat."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    task_offset_interval_ms: int = 0
    acceptable_recovery_lag: int = -1
    statuses: tuple[StatusMessage, ...] = ()
    tasks: Tasks | None = None
    """None means unchanged."""
    endpoints_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    """None means unchanged."""
    topics_to_make: Mapping[str, TopicInfo] = {}
    """Missing internal topics."""


class StreamsOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a heartbeat or a timer."""

    records: tuple[StreamsRecord, ...] = ()
    reply: StreamsReply | None = None
    refusal: Rejection | None = None
    """The answer if the heartbeat is refused: nothing is written, but in-memory state may have
    changed.
    """
    effects: tuple[TimerSet | TimerCancelled, ...] = ()
    memory: UnrecordedState | None = None
    """The group's in-memory state afterwards; None means unchanged."""
    is_rebalance: bool = False
    """Whether a heartbeat has raised the group's epoch."""
