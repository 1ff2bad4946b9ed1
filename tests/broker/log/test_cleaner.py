"""A round of cleaning: what goes, what stays and why; when there is one."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.logs import NOW, LogDriver, batch, consume, replayed_log
from txnsim.log import cleaner
from txnsim.log.cleaner import (
    PAUSE_RECORDS,
    CleanedTxns,
    DirtyPart,
    clean,
    dirty_part_of,
    first_uncleanable_offset,
)
from txnsim.log.config import LogConfig
from txnsim.log.producer_state import NO_EPOCH
from txnsim.log.txn_index import AbortedTxn
from txnsim.releases import LATEST_RULES, Rules
from txnsim.wire.batch import (
    ABORT,
    COMMIT,
    GZIP,
    ZSTD,
    BatchHeader,
    ControlRecord,
    Record,
    build_batch,
    read_batch_header,
    read_records,
)
from txnsim.wire.record_walk import WALK_PIECES

LAG = 1_000


def batch_of_pairs(
    *pairs: tuple[str, str | None], compression: int = 0, timestamp_ms: int = NOW
) -> bytes:
    """A batch of records with these keys and values, without a producer id."""
    return build_batch(
        [
            Record(key=key.encode(), value=None if record_value is None else record_value.encode())
            for key, record_value in pairs
        ],
        timestamp_ms=timestamp_ms,
        compression=compression,
    )


class CompactedLog(LogDriver):
    """A log with cleanup.policy=compact; ``roll`` ends its active segment."""

    def __init__(self, **changes: int | float) -> None:
        config = LogConfig(
            rules=LATEST_RULES,
            roll_bytes=1 << 20,
            is_compacted=True,
            is_deleted=False,
            min_cleanable_dirty_ratio=float(changes.pop("ratio", 0.0)),
            min_compaction_lag_ms=int(changes.pop("min_lag", 0)),
            max_compaction_lag_ms=int(changes.pop("max_lag", 1 << 62)),
            delete_retention_ms=LAG,
        )
        assert not changes
        super().__init__(config)

    def put(self, *pairs: tuple[str, str | None], compression: int = 0) -> None:
        assert self.append(batch_of_pairs(*pairs, compression=compression)) == 0

    def send(self, sequence: int, *pairs: tuple[str, str | None], producer_id: int = 7) -> None:
        """Append a transactional batch."""
        guard = self.guard(sequence, producer_id=producer_id)
        batch_data = build_batch(
            [
                Record(
                    key=key.encode(), value=None if record_value is None else record_value.encode()
                )
                for key, record_value in pairs
            ],
            timestamp_ms=NOW,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=True,
        )
        assert self.append(batch_data, guard=guard) == 0

    def roll(self) -> None:
        roll_bytes = self.log.config.roll_bytes
        self.log.config = _with_roll_bytes(self.log.config, 1)
        self.put(("end of a segment", str(self.log.log_end_offset)))
        self.log.config = _with_roll_bytes(self.log.config, roll_bytes)

    def clean(self, now_ms: int = NOW) -> DirtyPart | None:
        dirty_part = dirty_part_of(self.log, now_ms)
        if dirty_part is not None:
            for _ in clean(self.log, dirty_part, now_ms):
                pass
        self.log.check_invariants()
        return dirty_part

    def records(self) -> list[tuple[int, str, str | None]]:
        """The offset, key and value of each record in the log, without markers."""
        return [
            (
                record.offset,
                (record.key or b"").decode(),
                None if record.value is None else record.value.decode(),
            )
            for batch_data in self.log.batches()
            if not read_batch_header(batch_data).is_control
            for record in read_records(batch_data)
            if record.key != b"end of a segment"
        ]

    def shape(self) -> list[tuple[int, int, str]]:
        """(base offset, number of records, kind) of what is stored."""
        return [
            (
                header.base_offset,
                header.records_count,
                ("marker" if header.is_control else "data")
                + ("+horizon" if header.has_delete_horizon else ""),
            )
            for header in map(read_batch_header, self.log.batches())
        ]


def _with_roll_bytes(config: LogConfig, roll_bytes: int) -> LogConfig:
    fields = {field_name: getattr(config, field_name) for field_name in config.__struct_fields__}
    return LogConfig(**{**fields, "roll_bytes": roll_bytes})


# Heavy batches


def test_the_work_on_a_heavy_batch_is_handed_out_first() -> None:
    compacted_log = CompactedLog()
    many_records = [(f"k{piece_number}", "old") for piece_number in range(WALK_PIECES + 1)]
    compacted_log.put(*many_records)
    compacted_log.put(*many_records[1:], compression=ZSTD)
    compacted_log.roll()
    dirty_part = dirty_part_of(compacted_log.log, NOW)
    assert dirty_part is not None
    parts_done = 0
    for work in clean(compacted_log.log, dirty_part, NOW):
        if work is not None:
            work.compress_in_advance()
            parts_done += 1
    assert parts_done == 4, "two batches in two passes"
    assert [key for _, key, _ in compacted_log.records()] == [
        f"k{piece_number}" for piece_number in range(WALK_PIECES + 1)
    ]


def test_a_batch_of_many_records_is_gone_through_with_pauses() -> None:
    compacted_log = CompactedLog()
    many_records = [(f"k{record_number}", "old") for record_number in range(3 * PAUSE_RECORDS)]
    compacted_log.put(*many_records)
    compacted_log.put(*many_records[1:])
    compacted_log.roll()
    dirty_part = dirty_part_of(compacted_log.log, NOW)
    assert dirty_part is not None
    pauses = [*clean(compacted_log.log, dirty_part, NOW)]
    assert len(pauses) >= 10, "three for each batch in each pass"
    assert set(pauses) == {None}
    assert [key for _, key, _ in compacted_log.records()] == [
        f"k{record_number}" for record_number in range(3 * PAUSE_RECORDS)
    ]


# Followers


def test_a_follower_is_sent_what_is_left_however_new_it_was() -> None:
    compacted_log = CompactedLog()
    compacted_log.log.local.keep_tail()
    compacted_log.put(("a", "1"))
    compacted_log.put(("a", "2"), ("b", "1"))
    compacted_log.put(("a", "3"))
    compacted_log.roll()
    compacted_log.put(("c", "1"))
    compacted_log.clean()
    handed_batches = compacted_log.log.local.batches_for_follower(
        0, max_bytes=1 << 20, max_batches=100
    )
    assert [batch.base_offset for batch in handed_batches] == [1, 3]
    assert [batch.batch_bytes for batch in handed_batches] == list(compacted_log.log.batches())[:2]
    newest_batches = compacted_log.log.local.batches_for_follower(
        4, max_bytes=1 << 20, max_batches=100
    )
    assert [batch.base_offset for batch in newest_batches] == [4, 5]
    batches_again = compacted_log.log.local.batches_for_follower(
        4, max_bytes=1 << 20, max_batches=100
    )
    assert batches_again[0] is newest_batches[0], "it stays described"


# Values


def test_of_each_key_the_last_value_remains() -> None:
    compacted_log = CompactedLog()
    compacted_log.put(("a", "1"), ("b", "1"))
    compacted_log.put(("a", "2"))
    compacted_log.put(("c", "1"), ("b", "2"), ("a", "3"))
    compacted_log.roll()
    assert compacted_log.clean() is not None
    assert compacted_log.records() == [(3, "c", "1"), (4, "b", "2"), (5, "a", "3")]
    assert compacted_log.log.log_end_offset == 7


def test_the_active_segment_is_not_touched_and_counts_not() -> None:
    compacted_log = CompactedLog()
    compacted_log.put(("a", "1"))
    compacted_log.roll()
    compacted_log.put(("a", "2"))
    compacted_log.clean()
    assert compacted_log.records() == [(0, "a", "1"), (2, "a", "2")]
    compacted_log.roll()
    compacted_log.clean()
    assert compacted_log.records() == [(2, "a", "2")]


def test_what_was_cleaned_before_is_cleaned_again_by_new_keys() -> None:
    compacted_log = CompactedLog()
    compacted_log.put(("a", "1"), ("b", "1"))
    compacted_log.roll()
    compacted_log.clean()
    compacted_log.put(("a", "2"))
    compacted_log.roll()
    dirty_part = compacted_log.clean()
    assert dirty_part is not None
    assert (dirty_part.first_dirty_offset, dirty_part.end_offset) == (2, 4)
    assert dirty_part.clean_bytes > 0
    assert compacted_log.records() == [(1, "b", "1"), (3, "a", "2")]
    assert compacted_log.clean() is None, "nothing has come since"


def test_what_is_behind_the_round_is_left_in_the_same_segment_too() -> None:
    """Whatever lies behind the end of the round is kept, should a segment reach behind it."""
    compacted_log = CompactedLog()
    compacted_log.put(("a", "1"), ("a", "2"))
    compacted_log.put(("a", "3"))
    compacted_log.roll()
    dirty_part = DirtyPart(
        first_dirty_offset=0, end_offset=2, clean_bytes=0, dirty_bytes=1, is_overdue=False
    )
    list(clean(compacted_log.log, dirty_part, NOW))
    assert [offset for offset, _, _ in compacted_log.records()] == [2]


def test_an_offset_whose_batch_was_cleaned_away_has_no_time() -> None:
    compacted_log = CompactedLog()
    compacted_log.put(("a", "1"))
    compacted_log.put(("a", "2"))
    compacted_log.roll()
    compacted_log.clean()
    times = [compacted_log.log.batch_timestamp_at(offset) for offset in range(2)]
    assert times == [None, NOW]


@pytest.mark.parametrize("compression", [0, GZIP])
def test_part_of_a_batch_goes(compression: int) -> None:
    compacted_log = CompactedLog()
    compacted_log.put(("a", "1"), ("b", "1"), compression=compression)
    compacted_log.put(("a", "2"))
    compacted_log.roll()
    compacted_log.clean()
    first_header = read_batch_header(next(iter(compacted_log.log.batches())))
    assert (first_header.records_count, first_header.last_offset, first_header.compression) == (
        1,
        1,
        compression,
    )
    assert compacted_log.records() == [(1, "b", "1"), (2, "a", "2")]


def test_records_without_key_go() -> None:
    """Such records were written before the topic was compacted."""
    compacted_log = CompactedLog()
    compacted_log.log.config = LogConfig(rules=LATEST_RULES)
    assert compacted_log.append(build_batch([Record(value=b"x")] * 2, timestamp_ms=NOW)) == 0
    compacted_log.log.config = CompactedLog().log.config
    compacted_log.put(("a", "1"))
    compacted_log.roll()
    compacted_log.clean()
    assert compacted_log.records() == [(2, "a", "1")]


def a_batch_that_goes(*, rounds_leave_no_mark: bool) -> CompactedLog:
    """A record; a batch that no round leaves a record of, at the end of a segment; an active
    segment.
    """
    compacted_log = CompactedLog()
    rules = msgspec.structs.replace(LATEST_RULES, rounds_leave_no_mark=rounds_leave_no_mark)
    compacted_config = msgspec.structs.replace(compacted_log.log.config, rules=rules)
    compacted_log.put(("a", "1"))
    compacted_log.log.config = LogConfig(rules=rules)
    assert compacted_log.append(build_batch([Record(value=b"x")] * 2, timestamp_ms=NOW)) == 0
    compacted_log.log.config = compacted_config
    return compacted_log


def test_a_round_leaves_no_mark_of_its_end() -> None:
    """The cleaner behaves so since KAFKA-20452."""
    compacted_log = a_batch_that_goes(rounds_leave_no_mark=True)
    compacted_log.roll()
    compacted_log.clean()
    assert compacted_log.shape() == [(0, 1, "data"), (3, 1, "data")]


def test_the_batch_that_ends_at_the_high_watermark_stays_without_records() -> None:
    """Otherwise a log that is loaded again would not know its end offset."""
    compacted_log = a_batch_that_goes(rounds_leave_no_mark=True)
    compacted_log.roll()
    compacted_log.log.high_watermark = 3  # the record behind has no second copy yet
    compacted_log.clean()
    assert compacted_log.shape() == [(0, 1, "data"), (1, 0, "data"), (3, 1, "data")]


def test_before_kafka_20452_the_last_batch_of_a_round_stayed_as_the_mark_of_its_end() -> None:
    compacted_log = a_batch_that_goes(rounds_leave_no_mark=False)
    compacted_log.roll()
    compacted_log.clean()
    assert compacted_log.shape() == [(0, 1, "data"), (1, 0, "data"), (3, 1, "data")]
    assert [segment.next_offset for segment in compacted_log.log.local.inactive_segments(0, 3)] == [
        3
    ]
    compacted_log.roll()
    compacted_log.clean()
    assert compacted_log.shape()[0] == (0, 1, "data")
    assert compacted_log.shape()[1] == (3, 1, "data"), "the next round ends elsewhere"


# Tombstones


def test_a_tombstone_stays_until_every_reader_has_had_time_to_see_it() -> None:
    compacted_log = CompactedLog()
    compacted_log.put(("a", "1"))
    compacted_log.put(("a", None), ("b", "1"))
    compacted_log.roll()
    compacted_log.clean()
    assert compacted_log.records() == [(1, "a", None), (2, "b", "1")]
    assert compacted_log.shape()[0] == (1, 2, "data+horizon")
    compacted_log.put(("c", "1"))
    compacted_log.roll()
    compacted_log.clean(NOW + LAG - 1)
    assert (1, "a", None) in compacted_log.records()
    compacted_log.put(("c", "2"))
    compacted_log.roll()
    compacted_log.clean(NOW + LAG)
    assert compacted_log.records() == [(2, "b", "1"), (6, "c", "2")]
    assert compacted_log.shape()[0] == (1, 1, "data+horizon"), "a horizon stays with its batch"


# Transactions


def test_aborted_records_go_and_their_marker_outlives_them() -> None:
    compacted_log = CompactedLog()
    compacted_log.put(("a", "1"))
    compacted_log.send(0, ("a", "aborted"))
    compacted_log.end(committed=False)
    compacted_log.put(("z", "1"))
    compacted_log.roll()
    compacted_log.clean()
    assert compacted_log.records() == [(0, "a", "1"), (3, "z", "1")]
    # The producer's last batch is kept, empty, for its sequence: the marker has it to end.
    assert compacted_log.shape() == [
        (0, 1, "data"),
        (1, 0, "data"),
        (2, 1, "marker"),
        (3, 1, "data"),
        (4, 1, "data"),
    ]
    assert [aborted_txn.last_offset for aborted_txn in compacted_log.log.snapshot().aborted] == [2]
    assert consume(compacted_log.log)[0] == b"1"


def test_a_marker_goes_once_its_transaction_is_empty_and_its_time_is_over() -> None:
    compacted_log = CompactedLog()
    compacted_log.send(0, ("a", "aborted"))
    compacted_log.end(committed=False)
    compacted_log.send(1, ("a", "kept"))
    compacted_log.end(committed=True)
    compacted_log.roll()
    compacted_log.clean()
    assert compacted_log.shape()[:3] == [(1, 1, "marker"), (2, 1, "data"), (3, 1, "marker")]
    assert [aborted_txn.last_offset for aborted_txn in compacted_log.log.snapshot().aborted] == [1]
    compacted_log.put(("b", "1"))
    compacted_log.roll()
    compacted_log.clean()
    assert compacted_log.shape()[0] == (1, 1, "marker+horizon"), (
        "the second round finds nothing to end"
    )
    assert compacted_log.log.snapshot().aborted == ()
    compacted_log.put(("b", "2"))
    compacted_log.roll()
    compacted_log.clean(NOW + LAG - 1)
    assert compacted_log.shape()[0] == (1, 1, "marker+horizon")
    compacted_log.put(("b", "3"))
    compacted_log.roll()
    compacted_log.clean(NOW + LAG)
    assert compacted_log.shape()[:2] == [(2, 1, "data"), (3, 1, "marker")]
    assert consume(compacted_log.log)[0] == b"kept"


def test_the_marker_that_a_producer_is_known_by_stays() -> None:
    compacted_log = CompactedLog()
    compacted_log.send(0, ("a", "1"))
    compacted_log.end(committed=True, epoch=1)
    compacted_log.put(("a", "2"))
    compacted_log.roll()
    compacted_log.clean()
    compacted_log.put(("a", "3"))
    compacted_log.roll()
    compacted_log.clean()
    assert compacted_log.shape()[0] == (1, 1, "marker+horizon")
    compacted_log.put(("a", "4"))
    compacted_log.roll()
    compacted_log.clean(NOW + LAG)
    # Emptied, because a marker without transaction says nothing; its epoch is still there.
    assert compacted_log.shape()[0] == (1, 0, "marker")
    first_header = read_batch_header(next(iter(compacted_log.log.batches())))
    assert (first_header.producer_id, first_header.producer_epoch) == (7, 1)
    # But a replica that copies the log passes over it: it knows the producer, and no epoch.
    assert epoch_of_copy(compacted_log) == NO_EPOCH
    compacted_log.log.expire_producers(NOW + compacted_log.log.config.producer_id_expiration_ms)
    compacted_log.put(("a", "5"))
    compacted_log.roll()
    compacted_log.clean(NOW + LAG)
    assert compacted_log.shape()[0][0] > 1, "nobody is known by it any more"


def test_of_a_producers_markers_only_the_newest_epochs_stays() -> None:
    compacted_log = CompactedLog()
    compacted_log.send(0, ("a", "1"))
    for epoch in (1, 2):
        compacted_log.end(committed=True, epoch=epoch)
    for generation in range(2, 5):
        compacted_log.put(("a", str(generation)))
        compacted_log.roll()
        compacted_log.clean(NOW + LAG if generation == 4 else NOW)
    headers = map(read_batch_header, compacted_log.log.batches())
    assert [header.producer_epoch for header in headers if header.is_control] == [2]


def epoch_of_copy(compacted_log: CompactedLog) -> int:
    """The producer's epoch as a replica knows it that has copied the log."""
    copied_log = replayed_log(
        compacted_log.log.batches(),
        topic_partition=compacted_log.log.topic_partition,
        config=compacted_log.log.config,
        leader_epoch=0,
    )
    entry = copied_log.producers.state.find(7)
    assert entry is not None
    return entry.producer_epoch


def test_a_marker_that_stays_whole_tells_its_epoch_to_a_copy() -> None:
    compacted_log = CompactedLog()
    rules = msgspec.structs.replace(LATEST_RULES, last_markers_stay_whole=True)
    compacted_log.log.config = msgspec.structs.replace(compacted_log.log.config, rules=rules)
    compacted_log.send(0, ("a", "1"))
    compacted_log.end(committed=True, epoch=1)
    for value, now_ms in (("2", NOW), ("3", NOW), ("4", NOW + LAG)):
        compacted_log.put(("a", value))
        compacted_log.roll()
        compacted_log.clean(now_ms)
    assert compacted_log.shape()[0] == (1, 1, "marker+horizon")
    assert epoch_of_copy(compacted_log) == 1


def test_an_open_transaction_ends_the_round_before_its_segment() -> None:
    compacted_log = CompactedLog()
    compacted_log.put(("a", "1"))
    compacted_log.roll()
    compacted_log.put(("a", "2"))
    compacted_log.roll()
    compacted_log.send(0, ("b", "open"))
    compacted_log.put(("a", "3"))
    compacted_log.roll()
    dirty_part = compacted_log.clean()
    assert dirty_part is not None
    assert dirty_part.end_offset == 3
    assert compacted_log.records() == [(2, "a", "2"), (4, "b", "open"), (5, "a", "3")]


def test_aborted_keys_do_not_outlive_committed_ones() -> None:
    compacted_log = CompactedLog()
    compacted_log.put(("a", "1"))
    compacted_log.send(0, ("a", "aborted"))
    compacted_log.roll()
    compacted_log.end(committed=False)
    compacted_log.roll()
    compacted_log.clean()
    assert [record_entry for record_entry in compacted_log.records() if record_entry[1] == "a"] == [
        (0, "a", "1")
    ]


def test_the_last_batch_of_a_producer_keeps_its_sequence() -> None:
    compacted_log = CompactedLog()
    compacted_log.send(4, ("a", "1"), ("b", "1"))
    compacted_log.end(committed=True)
    compacted_log.put(("a", "2"), ("b", "2"))
    compacted_log.roll()
    compacted_log.clean()
    copy_of_log = replayed_log(
        compacted_log.log.batches(),
        topic_partition=compacted_log.log.topic_partition,
        config=compacted_log.log.config,
        leader_epoch=0,
    )
    assert copy_of_log.producers.all_producers() == compacted_log.log.producers.all_producers()
    assert compacted_log.shape()[0] == (0, 0, "data")


# When


def test_there_is_nothing_to_clean_while_there_is_one_segment() -> None:
    compacted_log = CompactedLog()
    compacted_log.put(("a", "1"), ("a", "2"))
    assert compacted_log.clean() is None


@pytest.mark.parametrize(("ratio", "is_due"), [(0.6, True), (0.7, False), (1.0, False)])
def test_a_log_is_cleaned_when_enough_of_it_is_dirty(ratio: float, is_due: bool) -> None:
    compacted_log = CompactedLog(ratio=0.0)
    compacted_log.put(("a", "1"))
    compacted_log.roll()
    compacted_log.clean()
    compacted_log.put(("b", "1"))
    compacted_log.roll()
    compacted_log.log.config = CompactedLog(ratio=ratio).log.config
    dirty_part = compacted_log.clean()
    assert (dirty_part is not None) == is_due


def test_a_log_is_cleaned_when_something_has_waited_too_long() -> None:
    compacted_log = CompactedLog(ratio=1.0, max_lag=100)
    compacted_log.put(("a", "1"))
    compacted_log.roll()
    assert compacted_log.clean(NOW + 100) is None
    dirty_part = compacted_log.clean(NOW + 101)
    assert dirty_part is not None
    assert dirty_part.is_overdue
    assert dirty_part.ratio == 1.0


def test_records_are_left_alone_while_they_are_young() -> None:
    compacted_log = CompactedLog(min_lag=100)
    compacted_log.put(("a", "1"))
    compacted_log.roll()
    compacted_log.log.config = CompactedLog(min_lag=100).log.config
    compacted_log.append(batch_of_pairs(("a", "2"), timestamp_ms=NOW + 50))
    compacted_log.roll()
    assert first_uncleanable_offset(compacted_log.log, NOW + 99) == 0
    assert compacted_log.clean(NOW + 99) is None
    assert first_uncleanable_offset(compacted_log.log, NOW + 149) == 1
    dirty_part = compacted_log.clean(NOW + 149)
    assert dirty_part is not None
    assert dirty_part.end_offset == 1
    assert compacted_log.clean(NOW + 150) is not None
    assert [record_entry[1] for record_entry in compacted_log.records()] == ["a"]


def test_a_mark_outside_of_the_log_is_not_believed() -> None:
    compacted_log = CompactedLog()
    compacted_log.put(("a", "1"), ("a", "2"))
    compacted_log.roll()
    compacted_log.log.local.cleaned_until = 99
    dirty_part = dirty_part_of(compacted_log.log, NOW)
    assert dirty_part is not None
    assert dirty_part.first_dirty_offset == 0
    assert (
        DirtyPart(
            first_dirty_offset=0, end_offset=0, clean_bytes=0, dirty_bytes=0, is_overdue=True
        ).ratio
        == 0.0
    )


# How


def test_small_segments_become_one() -> None:
    compacted_log = CompactedLog()
    for key_number in range(6):
        compacted_log.put((f"k{key_number}", "1"))
        compacted_log.roll()
    assert len(compacted_log.log.local.segments) == 7
    compacted_log.clean()
    assert len(compacted_log.log.local.segments) == 2


def test_a_cleaned_segment_is_no_larger_than_any_other() -> None:
    compacted_log = CompactedLog()
    for key_number in range(4):
        compacted_log.put((f"k{key_number}", "1"))
        compacted_log.roll()
    size_bytes = max(
        segment.size_bytes for segment in compacted_log.log.local.inactive_segments(0, 99)
    )
    fields = {
        field_name: getattr(compacted_log.log.config, field_name)
        for field_name in LogConfig.__struct_fields__
    }
    compacted_log.log.config = LogConfig(**{**fields, "segment_bytes": 2 * size_bytes})
    compacted_log.clean()
    assert len(compacted_log.log.local.segments) == 3


def test_segments_that_span_too_many_offsets_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    compacted_log = CompactedLog()
    for key_number in range(4):
        compacted_log.put((f"k{key_number}", "1"))
        compacted_log.roll()
    monkeypatch.setattr(cleaner, "RELATIVE_OFFSET_MAX", 3)
    compacted_log.clean()
    bases_left = [
        segment.base_offset for segment in compacted_log.log.local.inactive_segments(0, 99)
    ]
    assert bases_left == [0, 3]


@pytest.mark.parametrize("pause_count", range(1, 6))
def test_a_round_pauses_and_ends_where_the_log_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, pause_count: int
) -> None:
    monkeypatch.setattr(cleaner, "PAUSE_BYTES", 1)
    compacted_log = CompactedLog()
    for number in range(2):
        compacted_log.put(("a", str(number)))
        compacted_log.put(("b", str(number)))
    compacted_log.roll()
    dirty_part = dirty_part_of(compacted_log.log, NOW)
    assert dirty_part is not None
    steps = clean(compacted_log.log, dirty_part, NOW)
    for _ in range(pause_count):
        next(steps)
    records_before = compacted_log.records()
    assert records_before == [(0, "a", "0"), (1, "b", "0"), (2, "a", "1"), (3, "b", "1")]
    compacted_log.log.truncate_to(4, now_ms=NOW)
    assert list(steps) == []
    assert compacted_log.records() == records_before
    assert compacted_log.log.local.cleaned_until is None


def test_a_round_that_finds_its_segments_gone_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cleaner, "PAUSE_BYTES", 1)
    compacted_log = CompactedLog()
    compacted_log.put(("a", "1"))
    compacted_log.put(("a", "2"))
    compacted_log.roll()
    dirty_part = dirty_part_of(compacted_log.log, NOW)
    assert dirty_part is not None
    steps = clean(compacted_log.log, dirty_part, NOW)
    for _ in range(3):
        next(steps)
    compacted_log.log.delete_records_before(2)
    compacted_log.log.delete_old_segments(NOW)
    assert list(steps) == [None]
    assert compacted_log.log.local.cleaned_until is None


def test_a_round_over_nothing_notes_how_far_it_has_come() -> None:
    compacted_log = CompactedLog()
    empty_part = DirtyPart(
        first_dirty_offset=0, end_offset=0, clean_bytes=0, dirty_bytes=0, is_overdue=True
    )
    assert list(clean(compacted_log.log, empty_part, NOW)) == []
    assert compacted_log.log.local.cleaned_until == 0


# A round that can't remember all keys


def two_producers(rules: Rules = LATEST_RULES) -> CompactedLog:
    """Producers 1 and 2 commit and abort by turns in one segment, and a round of cleaning has room
    for two keys: it ends in the middle.
    """
    compacted_log = CompactedLog()
    compacted_log.log.config = msgspec.structs.replace(
        compacted_log.log.config, cleaner_keys_max=2, rules=rules
    )
    compacted_log.send(0, ("a", "1"), ("b", "1"), producer_id=1)  # 0, 1
    compacted_log.end(committed=True, producer_id=1)  # 2
    compacted_log.send(2, ("a", "aborted"), producer_id=1)  # 3
    compacted_log.end(committed=False, producer_id=1)  # 4
    compacted_log.send(0, ("c", "1"), ("d", "1"), producer_id=2)  # 5, 6
    compacted_log.end(committed=True, producer_id=2)  # 7
    compacted_log.send(2, ("c", "aborted"), producer_id=2)  # 8
    compacted_log.end(committed=False, producer_id=2)  # 9
    compacted_log.roll()  # 10
    return compacted_log


def test_a_round_ends_at_the_first_key_that_it_has_no_room_for() -> None:
    compacted_log = two_producers()
    dirty_part = compacted_log.clean()
    assert dirty_part is not None
    assert dirty_part.end_offset == 10
    assert compacted_log.log.local.cleaned_until == 5
    assert compacted_log.records() == [(0, "a", "1"), (1, "b", "1"), (5, "c", "1"), (6, "d", "1")]


def test_a_segment_cleaned_in_part_keeps_all_its_aborted_transactions() -> None:
    compacted_log = two_producers()
    compacted_log.clean()
    assert [
        (aborted_txn.producer_id, aborted_txn.last_offset)
        for aborted_txn in compacted_log.log.snapshot().aborted
    ] == [
        (1, 4),
        (2, 9),
    ]
    assert b"aborted" not in consume(compacted_log.log)


def test_before_kafka_13727_a_segment_cleaned_in_part_forgot_them() -> None:
    compacted_log = two_producers(Rules(half_cleaned_segments_are_indexed=False))
    dirty_part = dirty_part_of(compacted_log.log, NOW)
    assert dirty_part is not None
    for _ in clean(compacted_log.log, dirty_part, NOW):
        pass
    assert [
        (aborted_txn.producer_id, aborted_txn.last_offset)
        for aborted_txn in compacted_log.log.snapshot().aborted
    ] == [(1, 4)]
    assert b"aborted" in consume(compacted_log.log)


def test_room_for_one_key_more_is_enough_where_a_key_comes_again() -> None:
    compacted_log = CompactedLog()
    compacted_log.log.config = msgspec.structs.replace(compacted_log.log.config, cleaner_keys_max=2)
    compacted_log.put(("a", "1"))
    compacted_log.roll()
    compacted_log.put(("a", "2"))
    compacted_log.roll()
    compacted_log.clean()
    assert (
        compacted_log.log.local.cleaned_until == 2
    )  # "end of a segment" comes again, and would be a third key
    compacted_log.clean()
    assert compacted_log.records() == [(2, "a", "2")]


def data(offset: int, *, producer_id: int = 7, is_transactional: bool = True) -> BatchHeader:
    header = read_batch_header(batch(0, producer_id=producer_id, is_transactional=is_transactional))
    fields = {field_name: getattr(header, field_name) for field_name in header.__struct_fields__}
    return BatchHeader(**{**fields, "base_offset": offset})


def marker(kind: int) -> ControlRecord:
    return ControlRecord(type=kind, version=0, coordinator_epoch=0)


def aborted_txn(first_offset: int, last_offset: int, *, producer_id: int = 7) -> AbortedTxn:
    return AbortedTxn(
        producer_id=producer_id,
        first_offset=first_offset,
        last_offset=last_offset,
        last_stable_offset=last_offset + 1,
    )


def test_records_of_an_aborted_transaction_go_and_its_marker_stays_once() -> None:
    txns = CleanedTxns()
    entry = aborted_txn(2, 5)
    txns.expect([entry])
    assert not txns.on_data(data(1, producer_id=8))
    assert txns.on_data(data(2))
    assert txns.on_data(data(3))
    assert not txns.on_data(data(4, producer_id=8))
    assert not txns.on_control(data(5), marker(ABORT))
    assert txns.kept == [entry]
    assert not txns.on_data(data(6)), "the next transaction of the producer was committed"
    assert not txns.on_control(data(7), marker(COMMIT))


def test_the_marker_of_an_aborted_transaction_without_batches_may_go() -> None:
    txns = CleanedTxns()
    txns.expect([aborted_txn(2, 5)])
    assert txns.on_control(data(5), marker(ABORT))
    assert txns.kept == []
    assert txns.on_control(data(9), marker(ABORT)), "nobody knows of this one"


def test_the_marker_of_a_committed_transaction_stays_with_its_batches() -> None:
    txns = CleanedTxns()
    assert not txns.on_data(data(0))
    assert not txns.on_control(data(1), marker(COMMIT))
    assert txns.on_control(data(2), marker(COMMIT))


def test_batches_outside_of_transactions_belong_to_none() -> None:
    txns = CleanedTxns()
    txns.expect([aborted_txn(0, 5)])
    assert not txns.on_data(data(1, is_transactional=False))
    assert txns.on_control(data(5), marker(ABORT))


def test_an_entry_that_is_named_twice_counts_once() -> None:
    txns = CleanedTxns()
    txns.expect([aborted_txn(2, 9)])
    assert txns.on_data(data(2))
    txns.expect([aborted_txn(2, 9)])
    assert txns.on_data(data(6))
    assert not txns.on_control(data(9), marker(ABORT))
    assert len(txns.kept) == 1
    assert not txns.on_data(data(10))


def test_what_was_emptied_may_go() -> None:
    assert CleanedTxns().on_control(data(3), None)


@pytest.mark.parametrize("kind", [2, 9])
def test_control_records_that_end_nothing_stay(kind: int) -> None:
    assert not CleanedTxns().on_control(data(3), marker(kind))
