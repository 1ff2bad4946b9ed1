"""The vocabulary: frozen values that every layer may speak, without behaviour.

Ids and offsets are ``NewType``s so that mypy tells them apart. Values are frozen ``msgspec``
structs: hashable, comparable and an order of magnitude cheaper to make than frozen dataclasses.
Errors appear here as Kafka's numbers (``int``); the names live in ``txnsim.errors``.

This module imports nothing of ``txnsim``.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Final, Generic, NewType, TypeVar

import msgspec

BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
CoordinatorEpoch = NewType("CoordinatorEpoch", int)
LeaderEpoch = NewType("LeaderEpoch", int)
Offset = NewType("Offset", int)
TransactionalId = NewType("TransactionalId", str)

NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = ProducerEpoch(-1)
PRODUCER_EPOCH_MAX: Final = ProducerEpoch(32767)
"""Highest value of an int16; an epoch at or above 32766 is called exhausted
(TransactionMetadata.isEpochExhausted).
"""

TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
CONSUMER_OFFSETS_TOPIC: Final = "__consumer_offsets"
INTERNAL_TOPICS: Final = frozenset(
    {TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC, "__share_group_state"}
)


class TransactionVersion(IntEnum):
    """Level of the feature ``transaction.version`` (KIP-890; Kafka's TransactionVersion)."""

    TV_0 = 0
    TV_1 = 1
    TV_2 = 2


class IsolationLevel(IntEnum):
    """What a reader may see: up to the high watermark, or up to the last stable offset."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class TopicPartition(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """One partition of a topic. Positional on purpose: ``TopicPartition("orders", 0)`` can't be
    swapped.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ProducerIdAndEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """A producer's identity as the broker hands it out."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch


RecordT = TypeVar("RecordT")
ReplyT = TypeVar("ReplyT")
EffectT = TypeVar("EffectT")


class Decision(
    msgspec.Struct, Generic[RecordT, ReplyT, EffectT], frozen=True, kw_only=True, gc=False
):
    """What a core wants done: records to append first, then the reply to release, then effects to
    follow up.

    ``records`` are typed transitions; the service encodes them with its ``log_format``.
    """

    records: tuple[RecordT, ...] = ()
    reply: ReplyT
    effects: tuple[EffectT, ...] = ()
    rule: str = ""
    """Row of docs/rules.md that explains it, for the trace."""


# Inter-broker commands. They travel through ``node.peers`` with their API key and version;
# ``api.peers.peer_codec`` turns them into Kafka's bytes where a link is real.


class TxnPartitions(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One transaction of an AddPartitionsToTxn v4+ request between brokers (KIP-890)."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    verify_only: bool
    partitions: tuple[TopicPartition, ...]


class AddPartitionsToTxnCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """AddPartitionsToTxn v4+ from a partition leader to the coordinator: verify, or add."""

    transactions: tuple[TxnPartitions, ...]


class AddPartitionsToTxnReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """``error`` is the top-level code; ``results`` hold (transactional id, ((partition, error),
    ...)) in request order.
    """

    error: int = 0
    results: tuple[tuple[TransactionalId, tuple[tuple[TopicPartition, int], ...]], ...] = ()


class TxnMarker(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One marker of a WriteTxnMarkers request: end the transaction of this producer on these
    partitions.
    """

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    committed: bool
    coordinator_epoch: CoordinatorEpoch
    transaction_version: int
    """0 unless WriteTxnMarkers v2 carried one (KIP-1228)."""
    partitions: tuple[TopicPartition, ...]
    start_offset: int = -1
    """Where the transaction must have begun (text of KIP-664); -1 where nobody says."""


class WriteTxnMarkersCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """WriteTxnMarkers from a coordinator (or an admin) to a partition leader."""

    markers: tuple[TxnMarker, ...]


class WriteTxnMarkersReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """``results`` hold (producer id, ((partition, error), ...)); markers of one producer id are
    merged.
    """

    results: tuple[tuple[ProducerId, tuple[tuple[TopicPartition, int], ...]], ...] = ()
    is_forgotten: bool = False
    """Whether Kafka would never send this answer."""


class AllocateProducerIdsCommand(msgspec.Struct, frozen=True, kw_only=True):
    """AllocateProducerIds from a broker to the controller."""

    broker_id: BrokerId
    broker_epoch: int


class AllocateProducerIdsReply(msgspec.Struct, frozen=True, kw_only=True):
    """A block of producer ids: ``first`` … ``first + length - 1``."""

    error: int = 0
    first: int = -1
    length: int = 0


class ReplicatedBatch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One stored batch on its way to a follower: the leader's bytes, not a copy of them, and what
    a log has to know of them, so that nobody reads the header again.
    """

    data: bytes
    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    timestamp_ms: int
    """The batch's largest timestamp."""
    is_transactional: bool
    is_control: bool
    committed: bool = False
    """What a marker says; of no meaning without ``is_marker``."""
    coordinator_epoch: int = -1
    is_marker: bool = False
    """A control batch that ends a transaction."""


class ReplicaFetchPartition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a follower stands in one partition: its offset is the acknowledgement of all below."""

    topic_id: uuid.UUID
    topic_partition: TopicPartition
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    """-1 while the follower's log knows no epoch (KIP-595)."""
    log_start_offset: int
    high_watermark: int = -1
    """What the follower knows of it (Fetch v18, KIP-1166); -1 where it does not tell."""
    max_bytes: int = 1_048_576
    """``replica.fetch.max.bytes``."""


class ReplicaFetchCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Fetch from a follower to the leader of partitions, within a session of its own (KIP-227)."""

    replica_id: BrokerId
    replica_epoch: int
    """The follower's broker epoch (KIP-903)."""
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    session_id: int
    session_epoch: int
    """0 asks for a new session with exactly these partitions; then it counts the requests."""
    partitions: tuple[ReplicaFetchPartition, ...] = ()
    """Those whose state has changed since the last request of the session."""
    forgotten: tuple[tuple[uuid.UUID, TopicPartition], ...] = ()
    followed: tuple[TopicPartition, ...] = ()
    """All that the session is about, for fault plans: it does not travel."""


class ReplicaFetchedPartition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the leader has to tell of one partition."""

    topic_id: uuid.UUID
    topic_partition: TopicPartition
    error: int = 0
    high_watermark: int = -1
    log_start_offset: int = -1
    last_stable_offset: int = -1
    diverging: tuple[int, int] | None = None
    """(leader epoch, end offset): the follower's log parts from the leader's (KIP-595)."""
    current_leader: tuple[int, int] | None = None
    """(leader id, leader epoch) with errors that mean "ask somebody else" (KIP-951)."""
    batches: tuple[ReplicatedBatch, ...] = ()


class ReplicaFetchReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer to a follower; of a session only the partitions with news."""

    error: int = 0
    session_id: int = 0
    partitions: tuple[ReplicaFetchedPartition, ...] = ()


class ReplicaOffsetCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """ListOffsets from a follower that finds itself outside of its leader's log."""

    replica_id: BrokerId
    topic_partition: TopicPartition
    current_leader_epoch: int
    timestamp_ms: int
    """-1 for the log end, -2 for the log start."""


class ReplicaOffsetReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The leader's answer; of no meaning with an error."""

    topic_partition: TopicPartition
    error: int = 0
    offset: int = -1


class IsrChange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The ISR that a leader asks for, with all that the controller needs to see whether the leader
    is still up to date.
    """

    topic_id: uuid.UUID
    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    new_isr: tuple[tuple[BrokerId, int], ...]
    """(broker id, broker epoch as the leader knows it, -1 where it does not), by broker id; the
    epoch keeps a restarted broker from being taken for the old one (KIP-903).
    """
    partition_epoch: int


class AlterPartitionCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """AlterPartition from a leader to the controller (KIP-497)."""

    broker_id: BrokerId
    broker_epoch: int
    partitions: tuple[IsrChange, ...]


class AlteredPartition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the controller made of one change: an error, or the partition as it is from now on."""

    topic_id: uuid.UUID
    topic_partition: TopicPartition
    error: int = 0
    leader: BrokerId = BrokerId(-1)
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    isr: tuple[BrokerId, ...] = ()
    partition_epoch: int = -1


class AlterPartitionReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """``error`` is the top-level code (STALE_BROKER_EPOCH, NOT_CONTROLLER)."""

    error: int = 0
    partitions: tuple[AlteredPartition, ...] = ()


class BrokerRegistrationCommand(msgspec.Struct, frozen=True, kw_only=True):
    """BrokerRegistration from a broker that starts to the controller (KIP-631)."""

    broker_id: BrokerId
    cluster_id: str
    incarnation_id: uuid.UUID
    """Drawn at every start: by it a restart is told from a repeated request."""
    host: str
    port: int
    addresses: Mapping[str, tuple[str, int]] = {}
    """Host and port of listeners besides the first, by their names."""
    rack: str | None = None
    previous_broker_epoch: int = -1
    """The epoch that a clean shutdown has left behind; -1 after a crash (KIP-966)."""


class BrokerRegistrationReply(msgspec.Struct, frozen=True, kw_only=True):
    """The broker epoch of this incarnation, or why there is none."""

    error: int = 0
    broker_epoch: int = -1


class BrokerHeartbeatCommand(msgspec.Struct, frozen=True, kw_only=True):
    """BrokerHeartbeat: a broker is there, how far it has followed the metadata, what it wants."""

    broker_id: BrokerId
    broker_epoch: int
    metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    has_failed_directory: bool = False
    """Its log directory is among those that are offline (KIP-858)."""


class BrokerHeartbeatReply(msgspec.Struct, frozen=True, kw_only=True):
    """What the controller makes of a broker."""

    error: int = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


# What an interceptor is shown (see ``runtime.env.Interceptor``).


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a request is about, as far as a fault plan may want to match it."""

    transactional_id: str | None = None
    producer_id: int | None = None
    partitions: tuple[TopicPartition, ...] = ()
    committed: bool | None = None
    """Result carried by EndTxn or by the markers, where there is one."""
    others: tuple[Subject, ...] = ()
    """Further subjects of a batched request (several transactions, several markers); a plan matches
    any of them.
    """


class Crossing(msgspec.Struct, frozen=True, kw_only=True):
    """A request or response passing a named fault point (``faults.points.FaultPoint`` values are
    such names).
    """

    point: str
    source: str
    """``client/<client id>`` or ``broker/<id>``."""
    target: str
    """``broker/<id>``; on a response point source and target stay those of the request."""
    api_key: int
    api_version: int
    correlation_id: int
    subject: Subject
    line: str = ""
    """The connection or link on which it travels, unique among those that are open; empty inside a
    broker.
    """
    is_copy: bool = False
    """A request that arrives once more (``SubmitOutcome.DUPLICATE``)."""
    carries_batches: bool = False
    """A client's request or answer with record batches in it."""
    role: str = ""
    """``leader`` or ``follower``, where a replica does something."""
    kind: str = ""
    """What is done at a point inside a broker (``faults.meanings.KINDS``)."""


class SubmitOutcome(IntEnum):
    """How an interceptor lets a crossing go on."""

    PASS = 0
    DROP = 1
    """Request: never handled. Response: handled, the answer is lost."""
    ERROR = 2
    """Answered with ``error`` instead of being handled (request) or instead of the true answer
    (response).
    """
    DROP_ANSWER = 3
    """Handled; the answer is lost."""
    DUPLICATE = 4
    """Handled, and ``times`` more, the further answers being thrown away."""
    THROTTLE = 5
    """The answer tells ``throttle_ms``, and the connection is muted for as long."""
    CORRUPT = 6
    """Goes on with the bytes damaged (``damage``)."""
    DISCONNECT = 7
    """Its connection or link breaks."""


class DamagedPart(StrEnum):
    """What of a message on a connection is damaged."""

    LENGTH = "length"
    CRC = "crc"
    BYTES = "bytes"


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """How the bytes of a message are to be damaged."""

    part: DamagedPart
    noise: bytes
    """Drawn from the run's seed: decides where and how."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """An interceptor's word on one crossing."""

    outcome: SubmitOutcome
    error: int = 0
    times: int = 0
    throttle_ms: int = 0
    damage: Damage | None = None
