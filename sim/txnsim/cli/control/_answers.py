"""What the commands need of the control port's answers. Another program at the same address
answers something else, and is told by that.

Fields that no command reads are left out: a newer server may have more.
"""

from __future__ import annotations

import msgspec


class ActionAnswer(msgspec.Struct, frozen=True):
    """The action of a fault rule."""

    do: str


class RuleAnswer(msgspec.Struct, frozen=True):
    """A fault rule."""

    id: str
    point: str
    action: ActionAnswer


class FaultAnswer(msgspec.Struct, frozen=True):
    """A fault rule and what came of it."""

    rule: RuleAnswer
    matched: int
    struck: int
    held: int
    released: int


class ReleasedAnswer(msgspec.Struct, frozen=True):
    """How many held messages were released."""

    released: int


class VerifiedAnswer(msgspec.Struct, frozen=True):
    """The rules that have never struck."""

    never_struck: list[object]


class BrokerAnswer(msgspec.Struct, frozen=True):
    """A broker with its release, its address, and whether it is fenced or cut off."""

    id: int
    state: str
    release: str
    host: str
    port: int
    fenced: bool
    isolated: bool
    cut_off_from_clients: bool
    leads: int


class ClockAnswer(msgspec.Struct, frozen=True):
    """The cluster's clock."""

    now_ms: int
    advanced_ms: int
    brokers: dict[str, int]


class PartitionAnswer(msgspec.Struct, frozen=True):
    """A partition in the metadata."""

    partition: int
    leader: int
    leader_epoch: int


class TopicAnswer(msgspec.Struct, frozen=True):
    """A topic in the metadata."""

    name: str
    is_internal: bool
    partitions: list[PartitionAnswer]


class ReplicaAnswer(msgspec.Struct, frozen=True):
    """A replica with its offsets; without them if its broker does not run."""

    broker: int
    is_running: bool
    in_sync: bool
    log_start_offset: int | None
    last_stable_offset: int | None
    high_watermark: int | None
    log_end_offset: int | None


class PartitionOffsetsAnswer(msgspec.Struct, frozen=True):
    """A partition with its replicas."""

    partition: int
    leader: int
    replicas: list[ReplicaAnswer]


class TopicOffsetsAnswer(msgspec.Struct, frozen=True):
    """A topic with the offsets of its replicas."""

    name: str
    partitions: list[PartitionOffsetsAnswer]
