"""Compaction against a simpler model, and logs that were cleaned."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.logs import ALL, COMMITTED, NOW, PARTITION, make_log, replayed_log
from tests.support.markers import append_marker
from txnsim.group.log_format import encode_batch
from txnsim.group.records import (
    ClassicGroupDeleted,
    ClassicGroupStored,
    GroupRecord,
    OffsetCommitted,
    OffsetDeleted,
)
from txnsim.group.shard import GroupShard
from txnsim.log.answers import Appended, LogRead
from txnsim.log.cleaner import clean, dirty_part_of
from txnsim.log.config import LogConfig
from txnsim.log.leader_append import append_client, append_coordinator, start_verification
from txnsim.log.partition_log import PartitionLog
from txnsim.releases.rules import LATEST_RULES
from txnsim.types import CONSUMER_OFFSETS_TOPIC, TopicPartition
from txnsim.wire.batch import GZIP, LZ4, NONE, Record, build_batch, read_batch_header, read_records

# Cleaning against a ten-line model, and against the log that was never cleaned. The model walks
# over what was written: of each key the last committed value, from the last round's end on
# everything. A reader must see the same before and after a round, and a replica that replays the
# cleaned log must know what the living one knows.


HORIZON_MS = 50
CONFIG = LogConfig(
    rules=LATEST_RULES,
    roll_bytes=600,
    segment_bytes=2_000,
    is_compacted=True,
    is_deleted=False,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=HORIZON_MS,
)
PIDS = st.sampled_from([1, 2])
KEYS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4)


class WrittenRecord(NamedTuple):
    """A record in the model's log."""

    offset: int
    key: str
    value: bytes | None
    pid: int


class CompactionAgainstModel(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.log = make_log(CONFIG)
        self.now = NOW
        self.written: list[WrittenRecord] = []
        self.ended: list[tuple[int, int, bool]] = []
        """(producer, offset of the marker, committed)."""
        self.sequences = {1: 0, 2: 0}
        self.open: set[int] = set()
        self.number = 0
        self.rounds = 0

    # Writing

    def records(self, keys: list[str], *, are_tombstones: bool) -> list[Record]:
        self.number += 1
        value = None if are_tombstones else b"%d" % self.number
        return [Record(key=key.encode(), value=value) for key in keys]

    def remember(self, answer: object, records: list[Record], producer_id: int) -> None:
        assert isinstance(answer, Appended), answer
        for offset, record in enumerate(records, start=answer.base_offset):
            assert record.key is not None
            self.written.append(
                WrittenRecord(offset, record.key.decode(), record.value, producer_id)
            )
        self.log.advance_high_watermark(self.log.log_end_offset)

    @rule(keys=KEYS, are_tombstones=st.booleans(), codec=st.sampled_from([NONE, GZIP, LZ4]))
    def put(self, keys: list[str], are_tombstones: bool, codec: int) -> None:
        records = self.records(keys, are_tombstones=are_tombstones)
        batch_data = build_batch(records, timestamp_ms=NOW, compression=codec)
        self.remember(append_client(self.log, batch_data, guard=0, now_ms=self.now), records, -1)

    @rule(keys=KEYS, producer_id=PIDS, are_tombstones=st.booleans())
    def send(self, keys: list[str], producer_id: int, are_tombstones: bool) -> None:
        records = self.records(keys, are_tombstones=are_tombstones)
        guard = start_verification(
            self.log,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=self.sequences[producer_id],
            supports_epoch_bump=False,
            now_ms=self.now,
        )
        assert isinstance(guard, int)
        batch_data = build_batch(
            records,
            timestamp_ms=NOW,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=self.sequences[producer_id],
            is_transactional=True,
        )
        self.sequences[producer_id] += len(records)
        self.open.add(producer_id)
        self.remember(
            append_client(self.log, batch_data, guard=guard, now_ms=self.now), records, producer_id
        )

    @rule(producer_id=PIDS, committed=st.booleans())
    def end(self, producer_id: int, committed: bool) -> None:
        answer = append_marker(
            self.log,
            producer_id=producer_id,
            producer_epoch=0,
            committed=committed,
            coordinator_epoch=0,
            transaction_version=0,
            now_ms=self.now,
        )
        self.remember(answer, [], producer_id)
        assert isinstance(answer, Appended)
        self.ended.append((producer_id, answer.base_offset, committed))
        self.open.discard(producer_id)

    @rule(ms=st.integers(1, 2 * HORIZON_MS))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    # Cleaning

    @rule()
    def clean(self) -> None:
        dirty_part = dirty_part_of(self.log, self.now)
        if dirty_part is None:
            return
        records_before = self.read(COMMITTED)
        for _ in clean(self.log, dirty_part, self.now):
            pass
        self.rounds += 1
        assert self.log.local.cleaned_until == dirty_part.end_offset
        records_after = self.read(COMMITTED)
        assert latest(records_after) == latest(records_before), "no reader misses a value"
        assert set(records_after) <= set(records_before), "and none sees one that was not there"
        records_below = [
            record for record in records_after if record.offset < dirty_part.end_offset
        ]
        assert [record for record in records_below if record.value is not None] == self.expected(
            dirty_part.end_offset
        )
        assert dirty_part_of(self.log, self.now) is None, "a second round finds nothing"

    def expected(self, end: int) -> list[WrittenRecord]:
        """The last committed record of each key below ``end``, without tombstones."""
        decided_records = [record for record in self.written if self.is_committed(record)]
        last_by_key = {record.key: record for record in decided_records if record.offset < end}
        return sorted(record for record in last_by_key.values() if record.value is not None)

    def is_committed(self, record: WrittenRecord) -> bool:
        if record.pid < 0:
            return True
        later_commits = [
            committed
            for producer_id, offset, committed in self.ended
            if producer_id == record.pid and offset > record.offset
        ]
        return bool(later_commits) and later_commits[0]

    # Reading

    def read(self, isolation: object) -> list[WrittenRecord]:
        records_read: list[WrittenRecord] = []
        position = self.log.log_start_offset
        skipped: set[int]
        while True:
            read = self.log.read(position, max_bytes=ALL, isolation=COMMITTED)
            assert isinstance(read, LogRead)
            assert isolation is COMMITTED
            if not read.records:
                return records_read
            open_transactions = sorted(
                (txn.first_offset, txn.producer_id) for txn in read.aborted or ()
            )
            skipped = set()
            for batch_data in read.records:
                header = read_batch_header(batch_data)
                while open_transactions and open_transactions[0][0] <= header.last_offset:
                    skipped.add(open_transactions.pop(0)[1])
                if header.is_control:
                    if header.records_count and read_records(batch_data)[0].key == b"\0\0\0\0":
                        skipped.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in skipped):
                    records_read += [
                        written_record(record, header.producer_id)
                        for record in read_records(batch_data)
                    ]
            position = read_batch_header(read.records[-1]).last_offset + 1

    @invariant()
    def a_reader_sees_the_last_value_of_each_key(self) -> None:
        self.log.check_invariants()
        stable_offset = self.log.last_stable_offset
        decided_records = [
            record
            for record in self.written
            if record.offset < stable_offset and self.is_committed(record)
        ]
        assert latest(self.read(COMMITTED)) == latest(decided_records)

    @invariant()
    def a_replica_that_replays_it_knows_the_same(self) -> None:
        reread_log = replayed_log(
            self.log.batches(),
            topic_partition=PARTITION,
            config=CONFIG,
            leader_epoch=0,
            now_ms=self.now,
        )
        reread_log.advance_high_watermark(self.log.high_watermark)
        replayed_by_id = {
            producer.producer_id: producer for producer in reread_log.producers.all_producers()
        }
        for living_producer in self.log.producers.all_producers():
            # Who is known by markers alone may be forgotten: the last one is kept, emptied, and an
            # empty control batch tells a reload nothing (ProducerAppendInfo.append).
            if living_producer.last_sequence >= 0 or living_producer.producer_id in replayed_by_id:
                replayed_producer = replayed_by_id[living_producer.producer_id]
                if replayed_producer.coordinator_epoch < 0:
                    # Its markers are emptied or gone: who reloads learns no coordinator epoch.
                    living_producer = replace(
                        living_producer, coordinator_epoch=replayed_producer.coordinator_epoch
                    )
                assert replayed_producer.last_sequence == living_producer.last_sequence
                assert replace(replayed_producer, batches=()) == replace(
                    living_producer, batches=()
                )
        assert reread_log.last_stable_offset == self.log.last_stable_offset
        assert reread_log.snapshot().ongoing == self.log.snapshot().ongoing

    @invariant()
    def sequences_go_on(self) -> None:
        """A producer's next batch is accepted after any number of rounds."""
        for producer_id, sequence in self.sequences.items():
            producer_by_id = {
                entry.producer_id: entry for entry in self.log.producers.all_producers()
            }
            if producer_id in producer_by_id and sequence:
                assert producer_by_id[producer_id].last_sequence == sequence - 1


def written_record(record: Record, producer_id: int) -> WrittenRecord:
    assert record.key is not None
    return WrittenRecord(record.offset, record.key.decode(), record.value, producer_id)


def latest(records: list[WrittenRecord]) -> dict[str, bytes]:
    """Key to value, as a reader that applies them in order has it."""
    table: dict[str, bytes | None] = {}
    for record in records:
        table[record.key] = record.value
    return {key: value for key, value in table.items() if value is not None}


TestCompactionAgainstModel = pytest.mark.slow(CompactionAgainstModel.TestCase)
TestCompactionAgainstModel.settings = settings(max_examples=25, stateful_step_count=50)


# A group coordinator that loads a cleaned log knows the groups and positions of the whole one, also
# those that transactions have committed, aborted or left pending.


NOW_MS = 1_700_000_000_000
CLEANED_GROUPS_LOG_CONFIG = LogConfig(
    rules=LATEST_RULES,
    roll_bytes=1_500,
    is_compacted=True,
    is_deleted=False,
    min_cleanable_dirty_ratio=0.3,
    delete_retention_ms=1_000,
)
GROUPS = ("g", "h")
PARTITIONS = tuple(TopicPartition("orders", partition_number) for partition_number in range(2))
PRODUCERS = (7, 8)

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("commit"),
            st.sampled_from(GROUPS),
            st.sampled_from(PARTITIONS),
            st.sampled_from((-1, *PRODUCERS)),
        ),
        st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.booleans()),
        st.tuples(st.just("forget"), st.sampled_from(GROUPS), st.sampled_from(PARTITIONS)),
        st.tuples(st.just("store"), st.sampled_from(GROUPS)),
        st.tuples(st.just("drop"), st.sampled_from(GROUPS)),
    ),
    max_size=60,
)


class Twins:
    """Two logs with equal appends, of which only one is cleaned."""

    def __init__(self) -> None:
        self.cleaned, self.whole = (
            PartitionLog(
                topic_partition=TopicPartition(CONSUMER_OFFSETS_TOPIC, 0),
                config=CLEANED_GROUPS_LOG_CONFIG,
                leader_epoch=0,
            )
            for _ in range(2)
        )
        self.now_ms = NOW_MS
        self.number = 0

    def step(self, step: tuple[object, ...]) -> None:
        """Append the record that a step describes."""
        self.now_ms += 100
        self.number += 1
        match step:
            case ("commit", str() as group, TopicPartition() as partition, int() as producer):
                record = OffsetCommitted(
                    group_id=group,
                    topic_partition=partition,
                    position=self.number,
                    commit_timestamp_ms=self.now_ms,
                )
                self._append(record, producer)
            case ("end", int() as producer, bool() as committed):
                for log in (self.cleaned, self.whole):
                    append_marker(
                        log,
                        producer_id=producer,
                        producer_epoch=0,
                        committed=committed,
                        coordinator_epoch=0,
                        transaction_version=0,
                        now_ms=self.now_ms,
                    )
                    log.advance_high_watermark(log.log_end_offset)
            case ("forget", str() as group, TopicPartition() as partition):
                self._append(OffsetDeleted(group_id=group, topic_partition=partition))
            case ("store", str() as group):
                self._append(ClassicGroupStored(group_id=group, generation=self.number))
            case ("drop", str() as group):
                # As an administrator does it: its positions go, too.
                for partition in PARTITIONS:
                    self._append(OffsetDeleted(group_id=group, topic_partition=partition))
                self._append(ClassicGroupDeleted(group_id=group))

    def _append(self, record: GroupRecord, producer: int = -1) -> None:
        batch = encode_batch(
            [record],
            now_ms=self.now_ms,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
        )
        for log in (self.cleaned, self.whole):
            outcome = append_coordinator(
                log, batch, now_ms=self.now_ms, guard=self._guard(log, producer)
            )
            assert isinstance(outcome, Appended), outcome
            log.advance_high_watermark(log.log_end_offset)

    def _guard(self, log: PartitionLog, producer: int) -> int:
        if producer < 0:
            return 0
        guard = start_verification(
            log,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=-1,
            supports_epoch_bump=False,
            now_ms=self.now_ms,
        )
        assert isinstance(guard, int), guard
        return guard

    def clean(self) -> None:
        """Clean one of the two logs."""
        dirty_part = dirty_part_of(self.cleaned, self.now_ms)
        if dirty_part is not None:
            for _ in clean(self.cleaned, dirty_part, self.now_ms):
                pass
        self.cleaned.check_invariants()


def known_by_group(log: PartitionLog) -> dict[str, object]:
    """The positions of each group, as a coordinator loads them from the log."""
    shard = GroupShard(partition=0, coordinator_epoch=1)
    list(shard.read(log.batches()))
    assert shard.load_problem is None
    return {
        group_id: (
            sorted(shard.offsets.committed_offsets(group_id), key=repr),
            sorted(shard.offsets.pending_partitions(group_id)),
            # A group without anything is forgotten with the aborted position that made it.
            getattr(shard.groups.get(group_id), "generation", 0),
        )
        for group_id in GROUPS
    }


@pytest.mark.slow
@given(rounds=st.lists(STEPS, min_size=1, max_size=5))
@settings(max_examples=60)
def test_a_cleaned_log_loads_as_the_whole_one(rounds: list[list[tuple[object, ...]]]) -> None:
    twins = Twins()
    for steps in rounds:
        for step in steps:
            twins.step(step)
        twins.clean()
        assert known_by_group(twins.cleaned) == known_by_group(twins.whole)
