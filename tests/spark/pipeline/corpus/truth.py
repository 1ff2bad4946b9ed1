"""What is known for certain of a corpus: reported by brokers while it was made, never read from
disk.

``truth.json`` is a ``Truth``: a ``Stage`` per set of directories. Keys and values of records are in
base64. A stage has everything that had happened until then.

======== ==========================================================================================
clean    both brokers had stopped in order, the second one first
killed   started again from there, gone on with, and killed with SIGKILL while programs were writing
torn     a copy of ``killed`` whose last files were damaged as an unclean stop may leave them; what
         was told is that of ``killed``, and ``damage`` says what was done
======== ==========================================================================================
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

FILE: Final = "truth.json"

OpenTxnStatus = Literal["hanging", "open", "undecided", "lagging"]
"""Status of an open transaction on a partition.

- hanging: no coordinator knows of a transaction of this producer on this partition.
- open: its coordinator has it as Ongoing, with this partition.
- undecided: its coordinator has decided (PrepareCommit, PrepareAbort), but not written the marker
  to this partition yet.
- lagging: it has ended, but a replica that stopped earlier does not have the marker.
"""


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class SentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as its producer sent it."""

    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class SentBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that a leader acknowledged, with its offset and records."""

    place: Place
    base_offset: int
    codec: str
    records: tuple[SentRecord, ...]
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False


class ReadRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as librdkafka read it shortly before the brokers stopped."""

    offset: int
    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    committed: bool = True
    """Whether ``read_committed`` showed it, too."""


class PartitionTruth(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as its leader reported it, while no request was under way."""

    place: Place
    leader: int
    replicas: tuple[int, ...]
    start: int
    end: int
    """The log end if the log did not grow afterwards; at least ListOffsets' latest."""
    last_stable: int
    records: tuple[ReadRecord, ...]


class TopicTruth(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as the brokers reported it."""

    name: str
    topic_id: str
    partitions: tuple[PartitionTruth, ...]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """The records and the marker of a transaction on one partition."""

    place: Place
    first_offset: int
    last_offset: int
    """Offset of its last record."""
    marker_offset: int | None


class FinishedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that has ended and whose markers were written."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """Epoch of its records; markers of transactions v2 and of fencing have a later one."""
    marker_epoch: int
    committed: bool
    level: int
    """Finalized ``transaction.version`` at its end."""
    spans: tuple[Span, ...]


class OpenTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction without an end on one partition."""

    place: Place
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_timestamp_ms: int
    verdict: OpenTxnStatus
    why: str
    transactional_id: str | None = None
    brokers: tuple[int, ...] = ()
    """Brokers whose replicas have it open; empty for all."""


class ListedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id as its coordinator reported it (ListTransactions,
    DescribeTransactions).
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[Place, ...]


class ActiveProducer(msgspec.Struct, frozen=True, kw_only=True):
    """A row of DescribeProducers from the leader."""

    place: Place
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    start_offset: int


class HangingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row that ``kafka-transactions find-hanging`` printed for a broker."""

    place: Place
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int


class CommittedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """A group's position from OffsetFetch."""

    group: str
    place: Place
    offset: int
    metadata: str | None


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """A deliberate damage of a broker's file."""

    place: Place
    broker: int
    file: str
    what: str
    sound_end: int
    """The offset after the last complete batch."""


class LoadedLog(msgspec.Struct, frozen=True, kw_only=True):
    """Segments and bounds that a real broker logged after it loaded a replica of the stage."""

    broker: int
    place: Place
    segments: int
    start: int
    end: int


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A set of directories, ``NAME/broker-N``, and everything that is known about it."""

    name: str
    stopped_at_ms: int
    topics: tuple[TopicTruth, ...]
    sent: tuple[SentBatch, ...]
    finished: tuple[FinishedTransaction, ...]
    open: tuple[OpenTransaction, ...]
    """Open transactions by replica group, without those of ``writers``."""
    listed: tuple[ListedTransaction, ...]
    """All transactional ids, before the second broker stopped."""
    producers: tuple[ActiveProducer, ...]
    find_hanging: tuple[HangingRow, ...]
    """Rows of Kafka's find-hanging before the second broker stopped, for transactions older than
    one minute.
    """
    offsets: tuple[CommittedOffset, ...]
    pending_offsets: tuple[CommittedOffset, ...]
    """Offsets sent in open transactions; OffsetFetch does not show them yet."""
    expired: tuple[tuple[Place, int], ...]
    """Producers that a partition has forgotten although their batches are there."""
    forgotten_ids: tuple[str, ...]
    """Transactional ids that expired: their last record is a tombstone."""
    writers: tuple[str, ...]
    """Transactional ids, and topics of the same names, that were in use when the brokers were
    killed.
    """
    damage: tuple[Damage, ...]
    loaded: tuple[LoadedLog, ...]
    """Logs that real brokers loaded, from copies of both directories; empty for ``clean``."""


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known about a corpus."""

    kafka: str
    brokers: tuple[int, ...]
    stages: dict[str, Stage]


def write_truth(directory: Path, truth: Truth) -> None:
    """Write the truth next to the directories."""
    data = msgspec.json.format(msgspec.json.encode(truth), indent=1)
    (directory / FILE).write_bytes(data)


def read_truth(directory: Path) -> Truth:
    """Read the truth of the corpus in a directory."""
    return msgspec.json.decode((directory / FILE).read_bytes(), type=Truth)
