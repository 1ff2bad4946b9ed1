"""Observations from outside of the cluster: one frozen value for each, in the order in which their
answers came. They are the vocabulary of a history.

An observation is a request of a client or an operator and its answer. It holds nothing that only a
broker can know, so histories of a real Kafka have the same vocabulary. The JSON form of each (one
object, ``seen`` names the kind) is in docs/histories.md, which is made from the types and texts
here.

The writer chooses the labels. ``transaction`` names one transaction of one program (not a
transactional id, which has many). ``value`` names one record and is used once in a partition.
``item`` names the unit of work that a record stands for, once per topic.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from txnsim.types import TopicPartition

UNKNOWN_OFFSET: Final = -1


class Outcome(StrEnum):
    """What the client knows about the effect of its request."""

    OK = "ok"
    """Acknowledged."""
    FAILED = "failed"
    """The request was refused: it has no effect, and will have none."""
    UNKNOWN = "unknown"
    """There was no answer, or the answer does not say whether an earlier attempt took effect."""


class Isolation(StrEnum):
    """What a reader asks to see."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Observation(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="seen",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """Base of all observations: when, and by which client. A client makes one request after the
    other.
    """

    at_ms: int
    """When it was seen."""
    who: str
    """Name of the client. A client makes one request after the other: each thread of a program is a
    client.
    """
    event: int | None = None
    """Index of the trace event that caused the observation; None without a trace."""
    asked_ms: int | None = None
    """Time of the first attempt of the request; None if unknown."""


class PartitionObservation(Observation, frozen=True, kw_only=True):
    """An observation about one partition."""

    topic: str
    partition: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


# What producers see


class Initialised(Observation, frozen=True, kw_only=True, tag="initialised"):
    """An InitProducerId was answered: this client owns the transactional id now. An operator who
    fences the id (``Admin.fenceProducers``) does the same.
    """

    transactional_id: str
    producer_id: int = -1
    producer_epoch: int = -1
    timeout_ms: int | None = None
    """``transaction.timeout.ms``; None where it isn't known."""
    outcome: Outcome = Outcome.OK
    error: str = ""


class Began(Observation, frozen=True, kw_only=True, tag="began"):
    """A program began a transaction. No request is sent."""

    transaction: str
    """The writer's label of one transaction of one program."""
    transactional_id: str


class Added(Observation, frozen=True, kw_only=True, tag="added"):
    """An AddPartitionsToTxn or AddOffsetsToTxn was answered."""

    transaction: str
    partitions: tuple[TopicPartition, ...] = ()
    outcome: Outcome = Outcome.OK
    error: str = ""
    producer_id: int | None = None
    producer_epoch: int | None = None
    """The identity in the request; None if unknown."""


class Wrote(PartitionObservation, frozen=True, kw_only=True, tag="wrote"):
    """One record that a producer sent, and the outcome."""

    transaction: str | None = None
    """None outside of a transaction."""
    value: str | None
    """The record's value, which is unique in its partition; None for a tombstone."""
    key: str | None = None
    item: str | None = None
    """The unit of work that the record stands for; unique in its topic."""
    of: tuple[Position, ...] = ()
    """The input records whose output it is. All outputs of an input partition have this field, or
    none.
    """
    outcome: Outcome = Outcome.OK
    error: str = ""
    offset: int = UNKNOWN_OFFSET
    producer_id: int | None = None
    producer_epoch: int | None = None
    sequence: int | None = None


class SentOffsets(PartitionObservation, frozen=True, kw_only=True, tag="sent-offsets"):
    """A group's position on an input partition was sent: TxnOffsetCommit, or OffsetCommit outside
    of a transaction.
    """

    transaction: str | None = None
    group: str
    position: int = msgspec.field(name="offset")
    outcome: Outcome = Outcome.OK
    error: str = ""
    producer_id: int | None = None
    producer_epoch: int | None = None
    """The identity in the request; None if unknown."""
    member: str | None = None
    """The group member that has read up to here, if it is not ``who``."""


class Ended(Observation, frozen=True, kw_only=True, tag="ended"):
    """An EndTxn was answered, or given up. All attempts of one call are one observation. Its
    outcome is unknown if that of any attempt is.
    """

    transaction: str
    commit: bool
    outcome: Outcome = Outcome.OK
    error: str = ""
    producer_id: int | None = None
    producer_epoch: int | None = None
    """The identity in the request; None if unknown."""
    next_producer_id: int | None = None
    next_producer_epoch: int | None = None
    """The producer's next identity. In transactions v2 it is in the response; otherwise it is that
    of the request. None if unknown.
    """


# What readers see


class Record(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A record that was delivered."""

    offset: int
    value: str | None
    key: str | None = None


class Read(PartitionObservation, frozen=True, kw_only=True, tag="read"):
    """A Fetch was answered. The records are those that the application got: without markers, and
    without aborted records if the reader asked for read_committed.
    """

    transaction: str | None = None
    """The transaction in which the program read."""
    isolation: Isolation = Isolation.READ_COMMITTED
    asked: int
    """The offset of the request."""
    records: tuple[Record, ...] = ()
    next_offset: int
    """The reader's next position, after all records that were returned or filtered out."""
    whole: bool = False
    """Whether the program acted on the answer as the complete partition."""
    last_stable_offset: int = UNKNOWN_OFFSET
    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    leader_epoch: int | None = None
    """Epoch of the leader that answered. Without epochs, all answers count as those of one
    leader.
    """
    follower: int | None = None
    """The follower that answered instead of the leader (KIP-392)."""
    error: str = ""


class Position(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The position of a group on a partition."""

    topic: str
    partition: int
    offset: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class PositionsRead(Observation, frozen=True, kw_only=True, tag="positions-read"):
    """An OffsetFetch was answered."""

    transaction: str | None = None
    group: str
    positions: tuple[Position, ...] = ()
    error: str = ""


# What members of share groups see (KIP-932)


class AcquiredRecord(Record, frozen=True, kw_only=True):
    """A record that a share group's member acquired."""

    delivery_count: int = 1
    """Number of deliveries including this one, as the broker counts."""


class ShareFetched(PartitionObservation, frozen=True, kw_only=True, tag="share-fetched"):
    """A ShareFetch was answered. The records are those that the member acquired: without markers,
    and without aborted records if the group has read_committed.
    """

    group: str
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    """Isolation level of the group: its config share.isolation.level."""
    records: tuple[AcquiredRecord, ...] = ()
    lock_ms: int | None = None
    """AcquisitionLockTimeoutMs of the response; None if unknown."""
    delivery_limit: int | None = None
    """Maximum number of deliveries of a record to the group; None if unknown."""
    leader_epoch: int | None = None
    """Epoch of the leader that answered. Without epochs, all answers count as those of one
    leader.
    """
    outcome: Outcome = Outcome.OK
    error: str = ""


class AcknowledgeType(StrEnum):
    """Type of a member's acknowledgement (KIP-932, KIP-1222)."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"
    RENEW = "renew"


class ShareAcknowledged(PartitionObservation, frozen=True, kw_only=True, tag="share-acknowledged"):
    """A member's acknowledgement of the records from ``first`` to ``last`` was answered."""

    group: str
    first: int
    last: int
    type: AcknowledgeType = AcknowledgeType.ACCEPT
    outcome: Outcome = Outcome.OK
    error: str = ""


class ShareLeft(Observation, frozen=True, kw_only=True, tag="share-left"):
    """A member gave up its records: its session or its connection ended, or it left the group."""

    group: str


class ShareStart(PartitionObservation, frozen=True, kw_only=True, tag="share-start"):
    """A share group's start offset was read (DescribeShareGroupOffsets), or an operator has set it
    (Alter- and DeleteShareGroupOffsets, DeleteGroups): records from this offset on are delivered
    anew.
    """

    group: str
    start_offset: int
    is_set: bool = False


# What operators see


class Described(Observation, frozen=True, kw_only=True, tag="described"):
    """DescribeTransactions was answered for one transactional id."""

    transactional_id: str
    state: str = ""
    """State by Kafka's name, such as ``PrepareCommit``."""
    producer_id: int = -1
    producer_epoch: int = -1
    timeout_ms: int | None = None
    start_ms: int | None = None
    partitions: tuple[TopicPartition, ...] = ()
    error: str = ""


class Listing(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """One transactional id in the answer to ListTransactions."""

    transactional_id: str
    producer_id: int
    state: str


class Listed(Observation, frozen=True, kw_only=True, tag="listed"):
    """ListTransactions without a filter was answered by every broker."""

    transactions: tuple[Listing, ...] = ()


class ProducerSeen(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A producer in the answer to DescribeProducers."""

    producer_id: int
    producer_epoch: int
    start_offset: int | None = None
    """First offset of its open transaction; None without one."""
    last_timestamp_ms: int = -1


class Producers(PartitionObservation, frozen=True, kw_only=True, tag="producers"):
    """DescribeProducers was answered for one partition by its leader."""

    producers: tuple[ProducerSeen, ...] = ()
    error: str = ""


class NamedHanging(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A transaction that find-hanging has named."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int


class Searched(Observation, frozen=True, kw_only=True, tag="searched"):
    """find-hanging (KIP-664) has named these transactions, and no others."""

    findings: tuple[NamedHanging, ...] = ()


class Aborted(PartitionObservation, frozen=True, kw_only=True, tag="aborted"):
    """An operator has aborted a transaction on a partition (KIP-664)."""

    producer_id: int
    start_offset: int = UNKNOWN_OFFSET
    outcome: Outcome = Outcome.OK
    error: str = ""


class Cleaned(PartitionObservation, frozen=True, kw_only=True, tag="cleaned"):
    """The log cleaner has run on this compacted partition."""


class Deleted(Observation, frozen=True, kw_only=True, tag="deleted"):
    """A topic was deleted, and no broker knows it any more: a controller answers DeleteTopics
    before all brokers know. A new topic of the same name is another topic.
    """

    topic: str
    asked_ms: int
    """Time when DeleteTopics was sent."""
    outcome: Outcome = Outcome.OK
    error: str = ""


class Healed(Observation, frozen=True, kw_only=True, tag="healed"):
    """From now on nothing is broken on purpose: every broker is up, every link works. Before that,
    requests may never finish.
    """


class Gauge(Observation, frozen=True, kw_only=True, tag="gauge"):
    """A metric was read."""

    name: str
    value: float


Seen = (
    Initialised
    | Began
    | Added
    | Wrote
    | SentOffsets
    | Ended
    | Read
    | PositionsRead
    | ShareFetched
    | ShareAcknowledged
    | ShareLeft
    | ShareStart
    | Described
    | Listed
    | Producers
    | Searched
    | Aborted
    | Cleaned
    | Deleted
    | Healed
    | Gauge
)
"""Any observation."""
