"""Builders for tests of one partition's log."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from tests.support.markers import append_marker
from txnsim.log.answers import Appended, LogRead
from txnsim.log.config import LogConfig
from txnsim.log.leader_append import append_client, start_verification
from txnsim.log.partition_log import PartitionLog
from txnsim.log.replicated import describe_batch
from txnsim.releases.rules import LATEST_RULES
from txnsim.types import IsolationLevel, TopicPartition
from txnsim.wire.batch import Record, build_batch, read_batch_header, read_records

NOW: Final = 1_700_000_000_000
PARTITION: Final = TopicPartition("orders", 0)
PID: Final = 7
COMMITTED: Final = IsolationLevel.READ_COMMITTED
UNCOMMITTED: Final = IsolationLevel.READ_UNCOMMITTED
ALL: Final = 1 << 30

config_of: Final = partial(LogConfig, rules=LATEST_RULES)
"""A log's configuration under the newest rules."""


def make_log(config: LogConfig | None = None, *, leader_epoch: int = 0) -> PartitionLog:
    return PartitionLog(
        topic_partition=PARTITION,
        config=config or config_of(),
        leader_epoch=leader_epoch,
    )


def batch(
    sequence: int = -1,
    *,
    count: int = 1,
    producer_id: int = PID,
    epoch: int = 0,
    is_transactional: bool = False,
    timestamp: int = NOW,
    record_value: bytes = b"v",
    key: bytes | None = b"k",
    compression: int = 0,
) -> bytes:
    return build_batch(
        [Record(key=key, value=record_value)] * count,
        timestamp_ms=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch if producer_id >= 0 else -1,
        base_sequence=sequence,
        is_transactional=is_transactional,
        compression=compression,
    )


def plain(count: int = 1, *, timestamp: int = NOW, record_value: bytes = b"v") -> bytes:
    """A batch without a producer id."""
    return batch(producer_id=-1, count=count, timestamp=timestamp, record_value=record_value)


def replayed_log(
    batches: Iterable[bytes],
    *,
    topic_partition: TopicPartition,
    config: LogConfig,
    leader_epoch: int,
    high_watermark: int | None = None,
    now_ms: int = 0,
) -> PartitionLog:
    """A log that is rebuilt from stored batches, as by a broker without a snapshot. By default all
    of it counts as replicated.
    """
    log: PartitionLog | None = None
    for batch_data in batches:
        stored_batch = describe_batch(batch_data)
        if log is None:
            log = PartitionLog(
                topic_partition=topic_partition,
                config=config,
                leader_epoch=stored_batch.leader_epoch,
                start_offset=stored_batch.base_offset,
            )
        log.append(stored_batch, now_ms=now_ms)
    if log is None:
        log = PartitionLog(
            topic_partition=topic_partition, config=config, leader_epoch=leader_epoch
        )
    log.advance_high_watermark(log.log_end_offset if high_watermark is None else high_watermark)
    log.become_leader(leader_epoch)
    return log


def follow(log: PartitionLog, batch_data: bytes) -> None:
    """Append a batch as a follower does."""
    log.append(describe_batch(batch_data), now_ms=NOW)


class LogDriver:
    """A log with short calls. Invariants are checked after each call, and the high watermark
    follows.
    """

    def __init__(
        self, config: LogConfig | None = None, *, follows: bool = True, leader_epoch: int = 0
    ) -> None:
        self.log = make_log(config, leader_epoch=leader_epoch)
        self.follow = follows
        self.now = NOW

    def settle(self) -> None:
        if self.follow:
            self.log.advance_high_watermark(self.log.log_end_offset)
        self.log.check_invariants()

    def guard(
        self, sequence: int = 0, *, producer_id: int = PID, epoch: int = 0, is_tv2: bool = False
    ) -> int:
        guard = start_verification(
            self.log,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            supports_epoch_bump=is_tv2,
            now_ms=self.now,
        )
        assert isinstance(guard, int)
        return guard

    def append(self, batch_data: bytes, *, guard: int = 0) -> int:
        """Append a batch; return 0 or the error's number."""
        state_before = self.log.snapshot()
        size_bytes = self.log.local.segments.size_bytes
        answer = append_client(self.log, batch_data, guard=guard, now_ms=self.now)
        if not isinstance(answer, Appended):
            assert self.log.snapshot() == state_before, "a refused batch leaves no trace"
            assert self.log.local.segments.size_bytes == size_bytes
            return int(answer.error)
        self.settle()
        return 0

    def data(
        self,
        sequence: int,
        *,
        count: int = 1,
        producer_id: int = PID,
        epoch: int = 0,
        timestamp: int = NOW,
        record_value: bytes = b"v",
    ) -> int:
        """Append a batch of an idempotent producer, outside of transactions."""
        return self.append(
            batch(
                sequence,
                count=count,
                producer_id=producer_id,
                epoch=epoch,
                timestamp=timestamp,
                record_value=record_value,
            )
        )

    def txn(
        self,
        sequence: int,
        *,
        count: int = 1,
        producer_id: int = PID,
        epoch: int = 0,
        is_tv2: bool = False,
        timestamp: int = NOW,
        record_value: bytes = b"v",
    ) -> int:
        """Append a transactional batch that the coordinator has verified."""
        guard = start_verification(
            self.log,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            supports_epoch_bump=is_tv2,
            now_ms=self.now,
        )
        if not isinstance(guard, int):
            return int(guard.error)
        batch_data = batch(
            sequence,
            count=count,
            producer_id=producer_id,
            epoch=epoch,
            is_transactional=True,
            timestamp=timestamp,
            record_value=record_value,
        )
        return self.append(batch_data, guard=guard)

    def end(
        self,
        *,
        committed: bool,
        producer_id: int = PID,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
        start_offset: int = -1,
    ) -> int:
        """Append a marker; return 0 or the error's number."""
        state_before = self.log.snapshot()
        answer = append_marker(
            self.log,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=committed,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
            now_ms=self.now,
            start_offset=start_offset,
        )
        if not isinstance(answer, Appended):
            assert self.log.snapshot() == state_before, "a refused marker leaves no trace"
            return int(answer.error)
        self.settle()
        return 0

    def offsets(self, start: int = 0) -> list[int]:
        """Offsets of the batches that a read_committed read returns."""
        read = self.log.read(start, max_bytes=ALL, isolation=COMMITTED)
        assert not hasattr(read, "error"), read
        return [read_batch_header(record_data).base_offset for record_data in read.records]

    def values(self, start: int = 0) -> list[bytes]:
        """Values that a read_committed consumer delivers (KafkaConsumer's CompletedFetch)."""
        return consume(self.log, start)


def driven_log() -> LogDriver:
    """Several segments: two transactions that end, one of producer 7 that does not, and plain
    records.
    """
    driver = LogDriver(config_of(roll_bytes=200))
    driver.txn(0)
    driver.end(committed=True)
    driver.txn(1)
    driver.end(committed=False)
    driver.txn(2, count=2)
    driver.append(plain())
    driver.txn(4)
    return driver


def consume(log: PartitionLog, start: int = 0) -> list[bytes]:
    """The values that a read_committed consumer gets: fetch by fetch, each with its own list of
    aborted transactions.
    """
    values: list[bytes] = []
    position = start
    while True:
        read = log.read(position, max_bytes=ALL, isolation=COMMITTED)
        assert isinstance(read, LogRead), read
        if not read.records:
            return values
        values += _delivered_values(read, start)
        position = read_batch_header(read.records[-1]).last_offset + 1


def _delivered_values(read: LogRead, start: int) -> list[bytes]:
    """Skip batches of aborted transactions and markers (KafkaConsumer's CompletedFetch)."""
    assert read.aborted is not None
    pending_aborts = sorted(
        (aborted_txn.first_offset, aborted_txn.producer_id) for aborted_txn in read.aborted
    )
    skipped: set[int] = set()
    values: list[bytes] = []
    for batch_data in read.records:
        header = read_batch_header(batch_data)
        while pending_aborts and pending_aborts[0][0] <= header.last_offset:
            skipped.add(pending_aborts.pop(0)[1])
        if header.is_control:
            if header.records_count and read_records(batch_data)[0].key == b"\0\0\0\0":
                skipped.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in skipped:
            continue
        values.extend(
            record.value or b"" for record in read_records(batch_data) if record.offset >= start
        )
    return values
