"""Finds transactions in the text that Kafka's ``kafka-dump-log`` prints. Pure.

People post this text, or have nothing else of a cluster. It knows batches, markers where records
were printed, the producers of snapshots, and the entries of the transaction log where that was
decoded. It does not know high watermarks, other replicas or partitions that were not dumped: what
is missing for an answer is named, and a text that says nothing of transactions is never an answer.
A verdict holds as far as the text goes: a replica that lags has an old state. Kafka's counterpart:
DumpLogSegments; for a snapshot and the log after it, ProducerStateManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, assert_never

import msgspec

from txnsim.client.inspection.hanging import MAX_TRANSACTION_TIMEOUT_MS
from txnsim.txn.open_txn_verdict import CoordinatedTxn, OpenTxnStatus
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition
from txnsim_spark.forensics._dump_lines import (
    DumpedBatch,
    DumpedEntry,
    DumpedFile,
    DumpedProducer,
    DumpedRecord,
    DumpedStart,
    DumpLine,
    DumpLineReader,
    IncompleteLine,
    OtherLine,
    ToolError,
    entry_of,
    unwrap_lines,
)

UNKNOWN_BROKER: Final = -1
_NAMED_LINES_MAX: Final = 5
_WRAPPED_LINES_MAX: Final = 12
"""Limit of the lines into which a narrow terminal wraps one line of the tool."""


class DumpedOpenTxn(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction without an end in the text."""

    producer_id: int
    producer_epoch: int
    start_offset: int
    first_timestamp_ms: int
    """CreateTime of the first batch; of the newest batch if only a snapshot has the transaction."""
    last_timestamp_ms: int
    verdict: OpenTxnStatus = OpenTxnStatus.UNKNOWN
    reason: str = ""
    """Why it is judged so: a sentence without its full stop."""
    transactional_id: str | None = None


class DumpedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """What the text says of a partition, by its longest dumped replica."""

    partition: TopicPartition
    replicas: int
    first_offset: int | None
    last_offset: int | None
    batches: int
    commits: int
    aborts: int
    unread_markers: int
    """How many control batches have no printed record: each may be COMMIT or ABORT."""
    open: tuple[DumpedOpenTxn, ...]
    snapshot_offset: int | None = None
    """Offset of the newest dumped ``.snapshot``, which has the producers before it."""


class DumpedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All results for a dump: partitions, entries of coordinators, and what is missing."""

    partitions: tuple[DumpedPartition, ...]
    entries: tuple[DumpedEntry, ...]
    missing: tuple[str, ...]
    """What is missing for an answer, as sentences."""
    understood: bool = True
    """False if the text says nothing about transactions, or if lines about them could not be
    parsed: then there may be open transactions that were not found.
    """

    @property
    def worst(self) -> OpenTxnStatus | None:
        """The worst verdict on an open transaction: hanging, not judged, or None."""
        statuses = {txn.verdict for partition in self.partitions for txn in partition.open}
        for status in (OpenTxnStatus.HANGING, OpenTxnStatus.UNKNOWN, OpenTxnStatus.RECENT):
            if status in statuses:
                return status
        return None


class _DumpedSegment:
    """The dumped part of one ``.log`` file. For each producer it keeps whether a marker ended
    earlier transactions, and which transaction the producer has begun since: segments may be dumped
    in any order, and are joined in order of their offsets.
    """

    __slots__ = (
        "_marker_due",
        "abort_count",
        "batch_count",
        "commit_count",
        "ended_producer_ids",
        "first_offset",
        "invalid_offset",
        "is_dumped",
        "last_offset",
        "open_by_producer",
        "unread_marker_count",
    )

    def __init__(self) -> None:
        self.first_offset: int | None = None
        self.last_offset = -1
        self.batch_count = self.commit_count = self.abort_count = self.unread_marker_count = 0
        self.ended_producer_ids: set[int] = set()
        self.open_by_producer: dict[int, DumpedOpenTxn] = {}
        self.is_dumped = False
        """Whether any line of it was read besides the line with its name."""
        self.invalid_offset: int | None = None
        """Offset of the first batch whose checksum is wrong."""
        self._marker_due: tuple[int, int] | None = None
        """Offsets of a control batch whose record has not come yet."""

    def add_batch(self, batch: DumpedBatch) -> None:
        self.is_dumped = True
        self.first_offset = (
            batch.first_offset
            if self.first_offset is None
            else min(self.first_offset, batch.first_offset)
        )
        self.last_offset = max(self.last_offset, batch.last_offset)
        self.batch_count += 1
        self._marker_due = None
        if not batch.is_valid and self.invalid_offset is None:
            self.invalid_offset = batch.first_offset
        if not batch.is_transactional:
            return
        if batch.is_control:
            self.open_by_producer.pop(batch.producer_id, None)
            self.ended_producer_ids.add(batch.producer_id)
            self.unread_marker_count += 1
            self._marker_due = (batch.first_offset, batch.last_offset)
            if batch.marker is not None:
                self.mark(batch.first_offset, batch.marker)
            return
        open_txn = DumpedOpenTxn(
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            start_offset=batch.first_offset,
            first_timestamp_ms=batch.timestamp_ms,
            last_timestamp_ms=batch.timestamp_ms,
        )
        self.open_by_producer[batch.producer_id] = _continue_txn(
            self.open_by_producer.get(batch.producer_id), open_txn
        )

    def mark(self, offset: int, marker: str) -> None:
        """Take the printed record of a control batch. A data record may contain the same words."""
        if self._marker_due is None or not self._marker_due[0] <= offset <= self._marker_due[1]:
            return
        self._marker_due = None
        self.unread_marker_count -= 1
        if marker == "COMMIT":
            self.commit_count += 1
        else:
            self.abort_count += 1


class _DumpedReplica:
    """The dumped part of one replica's folder."""

    __slots__ = ("segments", "snapshots")

    def __init__(self) -> None:
        self.segments: dict[str, _DumpedSegment] = {}
        """Path -> segment."""
        self.snapshots: dict[int, dict[int, DumpedOpenTxn]] = {}
        """Offset -> open transactions before it, by producer."""

    @property
    def segments_in_order(self) -> list[_DumpedSegment]:
        """Segments that have batches, by first offset."""
        filled_segments = [
            segment for segment in self.segments.values() if segment.first_offset is not None
        ]
        return sorted(
            filled_segments, key=lambda segment: (segment.first_offset, segment.last_offset)
        )

    @property
    def snapshot_offset(self) -> int | None:
        """Offset of the newest snapshot."""
        return max(self.snapshots, default=None)

    @property
    def end_offset(self) -> int:
        """The first offset behind all that the text speaks of."""
        end_offsets = [segment.last_offset + 1 for segment in self.segments.values()]
        return max([*end_offsets, self.snapshot_offset or 0])

    @property
    def is_dumped(self) -> bool:
        """Whether the text has more of it than names of files."""
        return bool(self.snapshots) or any(segment.is_dumped for segment in self.segments.values())

    @property
    def segments_after_snapshot(self) -> list[_DumpedSegment]:
        """Segments with offsets at or above the newest snapshot's; all without a snapshot."""
        offset = self.snapshot_offset
        return [
            segment
            for segment in self.segments_in_order
            if offset is None or segment.last_offset >= offset
        ]

    def open_transactions(self) -> list[DumpedOpenTxn]:
        """Open transactions by the newest snapshot and the log after it, as a starting broker reads
        them.
        """
        snapshot_offset = self.snapshot_offset
        open_by_producer = {} if snapshot_offset is None else dict(self.snapshots[snapshot_offset])
        for producer_id, txn in open_by_producer.items():
            # The log before it has the time of the first batch, which a snapshot has not.
            for segment in self.segments_in_order:
                earlier_txn = segment.open_by_producer.get(producer_id)
                if earlier_txn is not None and earlier_txn.start_offset == txn.start_offset:
                    open_by_producer[producer_id] = _continue_txn(earlier_txn, txn)
        for segment in self.segments_after_snapshot:
            for producer_id in segment.ended_producer_ids:
                open_by_producer.pop(producer_id, None)
            for producer_id, txn in segment.open_by_producer.items():
                open_by_producer[producer_id] = _continue_txn(
                    open_by_producer.get(producer_id), txn
                )
        return sorted(open_by_producer.values(), key=lambda txn: txn.start_offset)

    @property
    def begins_late(self) -> bool:
        """Whether a snapshot or segments before the first dumped batch are missing."""
        segments = self.segments_after_snapshot
        if not segments:
            return False
        return (segments[0].first_offset or 0) > (self.snapshot_offset or 0)


def _continue_txn(earlier_txn: DumpedOpenTxn | None, later_txn: DumpedOpenTxn) -> DumpedOpenTxn:
    """A transaction, extended by a later part of it."""
    if earlier_txn is None:
        return later_txn
    return DumpedOpenTxn(
        producer_id=later_txn.producer_id,
        producer_epoch=later_txn.producer_epoch,
        start_offset=min(earlier_txn.start_offset, later_txn.start_offset),
        first_timestamp_ms=earlier_txn.first_timestamp_ms,
        last_timestamp_ms=max(earlier_txn.last_timestamp_ms, later_txn.last_timestamp_ms),
    )


class _TextReading:
    """The texts that were read so far."""

    def __init__(self) -> None:
        self.replicas: dict[str, tuple[TopicPartition, _DumpedReplica]] = {}
        self.entries: dict[str, tuple[int, DumpedEntry | None]] = {}
        """Transactional id -> (highest offset that speaks of it, its entry there)."""
        self.newest_ms = 0
        self.unknown_line_numbers: list[int] = []
        """Numbers of lines with an unknown form."""
        self.incomplete_line_numbers: list[int] = []
        """Numbers of lines that begin as a batch or a producer and lack fields, or that belong to
        no file that is named.
        """
        self.error_texts: list[str] = []
        """Errors that the tool printed."""
        self.undecoded_count = 0
        """How many records of the transaction log have no decoded entry."""
        self._line_number = 0
        self._begin_text()

    def read(self, text: Iterable[str]) -> None:
        """Read another file. A batch before its first ``Dumping`` line belongs to no partition."""
        self._begin_text()
        for raw_line in text:
            self._line_number += 1
            for line in unwrap_lines(raw_line):
                self._read_line(line)
        self._give_up_wrapped()

    def _begin_text(self) -> None:
        self._line_reader = DumpLineReader()
        self._partition: TopicPartition | None = None
        self._replica: _DumpedReplica | None = None
        self._segment: _DumpedSegment | None = None
        self._open_txn_by_producer: dict[int, DumpedOpenTxn] | None = None
        self._wrapped_text = ""
        self._wrapped_line_count = 0

    def _read_line(self, text: str) -> None:
        if self._wrapped_text and not self._line_reader.begins_line(text):
            # A terminal cuts within words, an editor between them.
            for joined_text in (self._wrapped_text + text, f"{self._wrapped_text} {text}"):
                line = self._line_reader.read(joined_text)
                if not isinstance(line, IncompleteLine):
                    self._wrapped_text = ""
                    self._take_line(line)
                    return
            self._wrapped_text += text
            self._wrapped_line_count += 1
            if self._wrapped_line_count > _WRAPPED_LINES_MAX:
                self._give_up_wrapped()
            return
        self._give_up_wrapped()
        line = self._line_reader.read(text)
        if isinstance(line, IncompleteLine):
            self._wrapped_text, self._wrapped_line_count = text, 1
        else:
            self._take_line(line)

    def _give_up_wrapped(self) -> None:
        if self._wrapped_text:
            self.incomplete_line_numbers.append(self._line_number)
        self._wrapped_text = ""

    def _take_line(self, line: DumpLine) -> None:
        match line:
            case DumpedFile():
                self._add_file(line)
            case DumpedStart():
                if self._segment is not None:
                    self._segment.is_dumped = True
            case DumpedBatch():
                self.newest_ms = max(self.newest_ms, line.timestamp_ms)
                if self._segment is None:
                    self.incomplete_line_numbers.append(self._line_number)
                else:
                    self._segment.add_batch(line)
            case DumpedRecord():
                self._add_record(line)
            case DumpedProducer():
                self._add_producer(line)
            case ToolError(message):
                self.error_texts.append(message)
            case OtherLine(is_known):
                if not is_known:
                    self.unknown_line_numbers.append(self._line_number)
            case IncompleteLine():
                self.incomplete_line_numbers.append(self._line_number)
            case _:
                assert_never(line)

    def _add_file(self, file: DumpedFile) -> None:
        self._segment = self._open_txn_by_producer = self._replica = None
        self._partition = file.partition
        if file.partition is None or file.suffix not in (".log", ".snapshot"):
            return
        partition_and_replica = self.replicas.setdefault(
            file.replica, (file.partition, _DumpedReplica())
        )
        self._replica = partition_and_replica[1]
        if file.suffix == ".log":
            # The same file dumped once more, with records for example, counts once.
            self._segment = self._replica.segments[file.path] = _DumpedSegment()
        elif file.offset is not None:
            self._open_txn_by_producer = self._replica.snapshots[file.offset] = {}

    def _add_record(self, record: DumpedRecord) -> None:
        if self._segment is None or self._partition is None:
            return
        if record.marker is not None:
            self._segment.mark(record.offset, record.marker)
        elif self._partition.topic == TRANSACTION_STATE_TOPIC:
            self._segment.is_dumped = True
            entry = entry_of(record.text, record.timestamp_ms)
            if entry is None:
                self.undecoded_count += 1
                return
            transactional_id = entry if isinstance(entry, str) else entry.transactional_id
            # Of several replicas the longest counts, whichever was dumped last.
            if record.offset >= self.entries.get(transactional_id, (0, None))[0]:
                self.entries[transactional_id] = (
                    record.offset,
                    None if isinstance(entry, str) else entry,
                )

    def _add_producer(self, producer: DumpedProducer) -> None:
        self.newest_ms = max(self.newest_ms, producer.timestamp_ms)
        if self._open_txn_by_producer is None:
            self.incomplete_line_numbers.append(self._line_number)
        elif producer.start_offset is not None:
            self._open_txn_by_producer[producer.producer_id] = DumpedOpenTxn(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                start_offset=producer.start_offset,
                first_timestamp_ms=producer.timestamp_ms,
                last_timestamp_ms=producer.timestamp_ms,
            )


def judge_dump(*lines_of_texts: Iterable[str]) -> DumpedAnswer:
    """Read the tool's output and judge each open transaction by the newest entry.

    Args:
        lines_of_texts: Lines of each text; parts of one text that was cut are read as separate
            texts.
    """
    reading = _TextReading()
    for text in lines_of_texts:
        reading.read(text)
    replicas_by_partition: dict[TopicPartition, list[_DumpedReplica]] = {}
    for partition, replica in reading.replicas.values():
        replicas_by_partition.setdefault(partition, []).append(replica)
    coordinator_entries = [
        entry for _, (_, entry) in sorted(reading.entries.items()) if entry is not None
    ]
    entry_by_producer = {entry.producer_id: entry for entry in coordinator_entries}
    longest_replicas = {
        partition: max(
            replicas_by_partition[partition],
            key=lambda replica: (replica.end_offset, bool(replica.segments)),
        )
        for partition in sorted(replicas_by_partition)
        if partition.topic != TRANSACTION_STATE_TOPIC
    }
    partitions = tuple(
        _partition(
            partition,
            replica,
            len(replicas_by_partition[partition]),
            entry_by_producer,
            reading.newest_ms,
        )
        for partition, replica in longest_replicas.items()
    )
    return DumpedAnswer(
        partitions=partitions,
        entries=tuple(coordinator_entries),
        missing=tuple(_missing_sentences(reading, longest_replicas, partitions)),
        understood=_is_understood(reading, longest_replicas),
    )


def _is_understood(
    reading: _TextReading, longest_replicas: Mapping[TopicPartition, _DumpedReplica]
) -> bool:
    if reading.incomplete_line_numbers or reading.error_texts:
        return False
    dumped_replicas = longest_replicas.values()
    if not all(replica.is_dumped for replica in dumped_replicas) or any(
        _invalid_offset(replica) is not None for replica in dumped_replicas
    ):
        return False
    return bool(longest_replicas or reading.entries)


def _invalid_offset(replica: _DumpedReplica) -> int | None:
    """Offset of the first batch whose checksum is wrong."""
    return next(
        (
            segment.invalid_offset
            for segment in replica.segments_in_order
            if segment.invalid_offset is not None
        ),
        None,
    )


def _partition(
    partition: TopicPartition,
    longest_replica: _DumpedReplica,
    replica_count: int,
    entry_by_producer: Mapping[int, DumpedEntry],
    newest_ms: int,
) -> DumpedPartition:
    segments = longest_replica.segments_in_order
    return DumpedPartition(
        partition=partition,
        replicas=replica_count,
        first_offset=segments[0].first_offset if segments else None,
        last_offset=max((segment.last_offset for segment in segments), default=None),
        batches=sum(segment.batch_count for segment in segments),
        commits=sum(segment.commit_count for segment in segments),
        aborts=sum(segment.abort_count for segment in segments),
        unread_markers=sum(segment.unread_marker_count for segment in segments),
        open=tuple(
            _judge_txn(partition, txn, entry_by_producer.get(txn.producer_id), newest_ms)
            for txn in longest_replica.open_transactions()
        ),
        snapshot_offset=longest_replica.snapshot_offset,
    )


def _judge_txn(
    partition: TopicPartition, txn: DumpedOpenTxn, entry: DumpedEntry | None, newest_ms: int
) -> DumpedOpenTxn:
    if entry is None:
        reason = f"the text has no entry of the transaction log with producer id {txn.producer_id}"
        return msgspec.structs.replace(txn, reason=reason)
    verdict, reason = OpenTxnStatus.judge(
        txn.producer_id,
        txn.producer_epoch,
        entry.transactional_id,
        CoordinatedTxn(
            transactional_id=entry.transactional_id,
            coordinator_id=UNKNOWN_BROKER,
            state=entry.state,
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            lists_partition=partition in entry.partitions,
            timeout_ms=entry.timeout_ms,
        ),
    )
    reason = reason.replace(f", broker {UNKNOWN_BROKER},", "")
    if verdict is OpenTxnStatus.HANGING and txn.first_timestamp_ms > entry.written_ms:
        verdict = OpenTxnStatus.UNKNOWN
        reason += "; but that was written before the transaction's first record, so it may be old"
    elif verdict is OpenTxnStatus.HANGING and (
        newest_ms - txn.last_timestamp_ms < MAX_TRANSACTION_TIMEOUT_MS
    ):
        verdict = OpenTxnStatus.RECENT
        reason += "; but its last write is less than 15 minutes older than the newest of the text"
    return msgspec.structs.replace(
        txn, verdict=verdict, reason=reason, transactional_id=entry.transactional_id
    )


def _missing_sentences(
    reading: _TextReading,
    longest_replicas: Mapping[TopicPartition, _DumpedReplica],
    partitions: tuple[DumpedPartition, ...],
) -> Iterator[str]:
    topics = {partition.topic for partition, _ in reading.replicas.values()}
    for message in dict.fromkeys(reading.error_texts):
        yield (
            f"All that the tool had not printed when it ended with an error: {message}. A newer"
            " release reads what older ones wrote."
        )
    if not reading.replicas:
        yield (
            "No line `Dumping …/TOPIC-PARTITION/….log` or `….snapshot`: it tells which partition a"
            " batch is of. This is no text of kafka-dump-log, or its beginning is cut off."
        )
    if reading.incomplete_line_numbers:
        yield (
            f"{len(reading.incomplete_line_numbers)} lines are of a batch or a producer, but lack"
            " fields or the name of a partition:"
            f" {_line_numbers(reading.incomplete_line_numbers)}. A transaction may be open there."
        )
    if reading.unknown_line_numbers:
        yield (
            f"{len(reading.unknown_line_numbers)} lines say nothing that is known here:"
            f" {_line_numbers(reading.unknown_line_numbers)}."
        )
    if not reading.replicas:
        return
    if any(partition.open for partition in partitions) and TRANSACTION_STATE_TOPIC not in topics:
        yield (
            "What the coordinators know: dump the .log files of __transaction_state-* with"
            " --transaction-log-decoder."
        )
    if reading.entries:
        yield (
            "Whether the dumped replicas of __transaction_state are whole: one that lags has an"
            " old state. Dump the leader's, and ask the brokers once they run."
        )
    if reading.undecoded_count:
        yield (
            f"{reading.undecoded_count} records of __transaction_state are not decoded: dump them"
            " with --transaction-log-decoder."
        )
    if TRANSACTION_STATE_TOPIC in topics and not (reading.entries or reading.undecoded_count):
        yield (
            "What the coordinators know: no record of __transaction_state is in the text. Dump its"
            " .log files with --transaction-log-decoder."
        )
    if any(partition.unread_markers for partition in partitions):
        yield "Whether a marker is COMMIT or ABORT: dump with --deep-iteration."
    yield from _missing_of_partitions(longest_replicas)
    if partitions:
        yield "High watermarks, and replicas that were not dumped: the text never has them."


def _missing_of_partitions(
    longest_replicas: Mapping[TopicPartition, _DumpedReplica],
) -> Iterator[str]:
    partitions_begun_late = [
        str(topic_partition)
        for topic_partition, replica in longest_replicas.items()
        if replica.begins_late
    ]
    if partitions_begun_late:
        yield (
            f"What lies before the first dumped batch of {', '.join(partitions_begun_late)}:"
            " a transaction may have begun there. Dump the segments before, or the .snapshot"
            " beside."
        )
    partitions_of_snapshots_only = [
        str(topic_partition)
        for topic_partition, replica in longest_replicas.items()
        if replica.snapshots and not replica.segments
    ]
    if partitions_of_snapshots_only:
        yield (
            f"What lies behind the .snapshot of {', '.join(partitions_of_snapshots_only)}:"
            " a marker may have come. Dump the .log files, too."
        )
    unread_partitions = [
        str(topic_partition)
        for topic_partition, replica in longest_replicas.items()
        if not replica.is_dumped
    ]
    if unread_partitions:
        yield f"Everything of {', '.join(unread_partitions)}: only names of files are in the text."
    for topic_partition, replica in longest_replicas.items():
        if (invalid_offset := _invalid_offset(replica)) is not None:
            yield (
                f"Whether {topic_partition} goes on behind offset {invalid_offset}: the batch there"
                " is not valid, and a broker that starts may cut the log off in front of it."
            )


def _line_numbers(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:_NAMED_LINES_MAX]))
