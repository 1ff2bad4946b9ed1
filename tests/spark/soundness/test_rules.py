"""Rules of a sound log, each with a log that breaks it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.spark.soundness.walked import facts
from tests.support.logs import LogDriver, plain
from tests.support.soundness import (
    batches_of,
    busy_log,
    found_in,
    headers_of,
    note_offset,
    patch,
    write_log_dir,
)
from txnsim.log.producer_snapshot import SnapshotEntry
from txnsim.log.txn_index import AbortedTxn
from txnsim.storage import names
from txnsim.types import TopicPartition
from txnsim.wire.batch import assign, read_batch_header
from txnsim.wire.batch_rewrite import empty_batch
from txnsim_spark.scan import kernel
from txnsim_spark.scan.segments import SegmentFile
from txnsim_spark.soundness._producer_rules import ProducerStates, Row
from txnsim_spark.soundness._segment_parts import SegmentPart
from txnsim_spark.soundness._segment_walk import epoch_and_end_at, examine, with_continuation_column
from txnsim_spark.soundness._stored_file_rules import judge_aborted, judge_snapshot
from txnsim_spark.soundness.violations import (
    MEANINGS,
    SAME_FINDINGS_MAX,
    Findings,
    Invariant,
    Severity,
)

# What producers do in a log.


DAY_MS = 86_400_000
ABORT, COMMIT = 0, 1


def data(
    offset: int,
    sequence: int,
    *,
    producer_id: int = 7,
    epoch: int = 0,
    at_ms: int = 0,
    is_transactional: bool = True,
) -> Row:
    return _row(
        offset, producer_id, epoch, at_ms, 0x10 if is_transactional else 0, sequence, -1, -1
    )


def marker(
    offset: int, kind: int = COMMIT, *, producer_id: int = 7, epoch: int = 0, coordinator: int = 0
) -> Row:
    return _row(offset, producer_id, epoch, 0, 0x30, -1, kind, coordinator)


def _row(
    offset: int, producer_id: int, epoch: int, at_ms: int, attributes: int, *last_fields: int
) -> Row:
    sequence, kind, coordinator = last_fields
    return [
        *(100 * offset, 100, offset, offset, 0, 0, attributes, at_ms, at_ms),
        *(producer_id, epoch, sequence, 1, kind, coordinator, 0),
    ]


CASES: list[tuple[str, list[Row], list[tuple[Invariant, int]]]] = [
    ("the first batch goes on from anywhere", [data(0, 17), marker(1)], []),
    ("sequences begin anew in an epoch", [data(0, 0), data(1, 1), data(2, 0, epoch=1)], []),
    ("a sequence is left out", [data(0, 0), data(1, 5)], [(Invariant.SEQUENCE, 1)]),
    (
        "a new epoch begins in the middle",
        [data(0, 0), data(1, 3, epoch=2)],
        [(Invariant.SEQUENCE, 1)],
    ),
    ("it was silent for a day", [data(0, 0), data(1, 7, at_ms=DAY_MS)], []),
    (
        "an epoch goes back",
        [data(0, 0, epoch=3), data(1, 1, epoch=2)],
        [(Invariant.PRODUCER_EPOCH, 1)],
    ),
    (
        "a marker of an older epoch",
        [data(0, 0, epoch=3), marker(1, epoch=2)],
        [(Invariant.PRODUCER_EPOCH, 1)],
    ),
    (
        "a coordinator's epoch goes back",
        [data(0, 0), marker(1, coordinator=9), data(2, 1), marker(3, coordinator=7)],
        [(Invariant.COORDINATOR_EPOCH, 3)],
    ),
    (
        "a batch outside of the open transaction",
        [data(0, 0), data(1, 1, is_transactional=False)],
        [(Invariant.OUTSIDE_TRANSACTION, 1)],
    ),
    (
        "markers that end nothing",
        [marker(0), marker(1)],
        [(Invariant.IDLE_MARKER, 0), (Invariant.IDLE_MARKER, 1)],
    ),
    (
        "behind a marker of a new epoch sequences begin at 0",
        [data(0, 0), marker(1, epoch=2), data(2, 5, epoch=2)],
        [(Invariant.SEQUENCE, 2)],
    ),
    ("behind a marker of its epoch they go on", [data(0, 0), marker(1), data(2, 1)], []),
    (
        "also where what was written before is not known",
        [marker(0), data(1, 5), data(2, 9)],
        [(Invariant.IDLE_MARKER, 0), (Invariant.SEQUENCE, 2)],
    ),
]


@pytest.mark.parametrize(
    ("rows", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_what_a_leader_would_have_refused_is_found(
    tmp_path: Path, rows: list[Row], expected: list[tuple[Invariant, int]]
) -> None:
    assert findings_of(ProducerStates(facts(tmp_path)), rows) == expected


def findings_of(producers: ProducerStates, rows: list[Row]) -> list[tuple[Invariant, int | None]]:
    findings = Findings("f.log")
    for row in rows:
        producers.take(row, findings)
    return [(broken_rule.rule, broken_rule.offset) for broken_rule in findings.all()]


def test_coordinators_write_without_sequences(tmp_path: Path) -> None:
    their_states = ProducerStates(facts(tmp_path, topic="__consumer_offsets"))
    assert findings_of(their_states, [data(0, 0), data(1, 0)]) == []


def test_where_the_past_is_not_known_a_first_marker_may_end_something(tmp_path: Path) -> None:
    blind_states = ProducerStates(facts(tmp_path), lacks_snapshot=True)
    assert findings_of(blind_states, [marker(0), marker(1)]) == [(Invariant.IDLE_MARKER, 1)]


def test_an_abort_knows_since_when_others_are_open(tmp_path: Path) -> None:
    producers = ProducerStates(facts(tmp_path))
    open_batches = [data(0, 0, producer_id=1), data(1, 0, producer_id=2)]
    findings_of(
        producers, [*open_batches, marker(2, ABORT, producer_id=1), marker(3, ABORT, producer_id=2)]
    )
    findings_of(producers, [marker(4, ABORT, producer_id=3)])
    assert producers.aborted == [
        AbortedTxn(producer_id=1, first_offset=0, last_offset=2, last_stable_offset=1),
        AbortedTxn(producer_id=2, first_offset=1, last_offset=3, last_stable_offset=4),
    ]


def test_a_state_goes_on_from_a_snapshot(tmp_path: Path) -> None:
    rows = [data(0, 0), data(1, 1), marker(2), data(3, 2), data(4, 3)]
    all_producers, first_producers = (
        ProducerStates(facts(tmp_path)),
        ProducerStates(facts(tmp_path)),
    )
    assert findings_of(all_producers, rows) == findings_of(first_producers, rows[:4]) == []
    second_producers = ProducerStates(facts(tmp_path), first_producers.state.to_snapshot())
    assert findings_of(second_producers, rows[4:]) == []
    assert second_producers.state.to_snapshot() == all_producers.state.to_snapshot()


def test_batches_that_go_on_one_after_the_other_are_known() -> None:
    rows = [
        *(
            data(0, 5),
            data(1, 0, producer_id=8),
            data(2, 6),
            data(3, 2, producer_id=8),
            data(4, 7, is_transactional=False),
        ),
        *(
            data(5, 8, epoch=1),
            marker(6),
            data(7, (1 << 31) - 1, producer_id=9),
            data(8, 0, producer_id=9),
        ),
    ]
    table = np.array([row[: kernel.BATCH_COLUMNS] for row in rows], dtype=np.int64).T
    goes_on = with_continuation_column(table)[-1]
    assert np.flatnonzero(goes_on).tolist() == [2, 8]


# One segment from its first batch to its last.


def segment(directory: Path, log_bytes: bytes) -> SegmentFile:
    path = directory / "00000000000000000000.log"
    path.write_bytes(log_bytes)
    return SegmentFile(
        replica=facts(directory).replica,
        path=str(path),
        base_offset=0,
        next_base_offset=None,
        size=len(log_bytes),
    )


@pytest.fixture
def batches(tmp_path: Path) -> list[bytes]:
    """A transaction of two batches and its marker."""
    driver = LogDriver()
    driver.txn(0)
    driver.txn(1)
    driver.end(committed=True)
    return list(driver.log.batches())


def kept_offsets(segment_part: SegmentPart) -> list[int]:
    """Offsets of the batches whose rows are kept."""
    return [int(offset) for table in segment_part.rows for offset in table[kernel.BASE_OFFSET]]


def test_of_batches_that_go_on_the_last_before_a_snapshot_is_kept(tmp_path: Path) -> None:
    driver = LogDriver()
    for number in range(9):
        driver.txn(number)
    violating_segment = segment(tmp_path, b"".join(driver.log.batches()))
    segment_part = examine(facts(tmp_path), violating_segment)
    assert (kept_offsets(segment_part), segment_part.first_offset, segment_part.end_offset) == (
        [0, 8],
        0,
        9,
    )
    assert kept_offsets(examine(facts(tmp_path), violating_segment, (5,))) == [0, 4, 8]


def test_of_an_empty_segment_nothing_is_kept(tmp_path: Path) -> None:
    segment_part = examine(facts(tmp_path), segment(tmp_path, b""), (0,))
    assert (
        segment_part.first_offset,
        segment_part.end_offset,
        segment_part.first_epoch,
        segment_part.rows,
    ) == (None, 0, -1, ())


def test_a_marker_that_cannot_be_read_is_told(tmp_path: Path, batches: list[bytes]) -> None:
    marker = bytearray(batches[2])
    marker[66:70] = b"\xff\xff\xff\xff"  # the key's version
    segment_part = examine(facts(tmp_path), segment(tmp_path, b"".join(batches[:2]) + marker))
    assert {broken_rule.rule for broken_rule in segment_part.broken_rules} == {
        Invariant.CRC,
        Invariant.UNREADABLE_MARKER,
    }


def test_an_emptied_marker_ends_nothing_and_shows_the_cleaner(
    tmp_path: Path, batches: list[bytes]
) -> None:
    batches[2] = empty_batch(read_batch_header(batches[2]))
    segment_part = examine(facts(tmp_path), segment(tmp_path, b"".join(batches)))
    assert segment_part.shows_cleaning
    assert kept_offsets(segment_part) == [0, 1]


def test_many_findings_of_one_kind_are_counted(tmp_path: Path) -> None:
    driver = LogDriver()
    for _ in range(SAME_FINDINGS_MAX + 7):
        driver.append(plain())
    broken_batches = [batch[:-1] + b"\xff" for batch in driver.log.batches()]
    violations = examine(facts(tmp_path), segment(tmp_path, b"".join(broken_batches))).broken_rules
    assert len(violations) == SAME_FINDINGS_MAX + 1
    assert violations[-1].found == "7 more of these"


def test_offsets_in_the_range_of_comparison_are_summed_up(
    tmp_path: Path, batches: list[bytes]
) -> None:
    violating_segment = segment(tmp_path, b"".join(batches))
    assert examine(facts(tmp_path), violating_segment).digests == {}
    compared_facts = msgspec.structs.replace(facts(tmp_path), compare_until=2)
    digests = examine(compared_facts, violating_segment).digests
    assert [(bucket, digest_count) for bucket, (digest_count, _) in digests.items()] == [(0, 2)]
    changed_batch = assign(batches[0], base_offset=0, leader_epoch=9)
    other_segment = segment(tmp_path, b"".join([changed_batch, *batches[1:]]))
    assert examine(compared_facts, other_segment).digests != digests


def test_a_checkpoint_tells_who_wrote_an_offset() -> None:
    epochs = ((0, 5), (3, 9))
    assert epoch_and_end_at(epochs, 4)[0] == -1
    assert epoch_and_end_at(epochs, 5) == (0, 9)
    assert epoch_and_end_at(epochs, 9)[0] == 3


# Snapshots and indexes of aborted transactions against the log.


def aborted_txn(
    first_offset: int, marker: int, stable_offset: int = 0, producer_id: int = 7
) -> AbortedTxn:
    return AbortedTxn(
        producer_id=producer_id,
        first_offset=first_offset,
        last_offset=marker,
        last_stable_offset=stable_offset or marker + 1,
    )


@pytest.mark.parametrize(
    ("aborted_txns", "expected_aborted_txns", "blind_below", "rules"),
    [
        ([aborted_txn(3, 5)], [aborted_txn(3, 5)], 0, []),
        ([], [aborted_txn(3, 5)], 0, [Invariant.ABORTED_MISSING]),
        ([aborted_txn(3, 5)], [], 0, [Invariant.ABORTED_EXTRA]),
        ([aborted_txn(3, 5, 4)], [aborted_txn(3, 5)], 0, [Invariant.ABORTED_DIFFERS]),
        ([aborted_txn(3, 5, producer_id=8)], [aborted_txn(3, 5)], 0, [Invariant.ABORTED_DIFFERS]),
        # What reaches back to where nobody knows is left alone.
        ([aborted_txn(3, 15)], [], 10, []),
        ([aborted_txn(12, 15, 9)], [aborted_txn(12, 15)], 10, []),
        ([aborted_txn(12, 15)], [], 10, [Invariant.ABORTED_EXTRA]),
    ],
)
def test_an_index_has_what_was_aborted(
    aborted_txns: list[AbortedTxn],
    expected_aborted_txns: list[AbortedTxn],
    blind_below: int,
    rules: list[Invariant],
) -> None:
    violations = judge_aborted(
        aborted_txns, expected_aborted_txns, file="f.txnindex", open_unknown_below=blind_below
    )
    assert [broken_rule.rule for broken_rule in violations] == rules


def entry(producer_id: int = 7, *, open_offset: int = -1, at_ms: int = 50) -> SnapshotEntry:
    return SnapshotEntry(
        producer_id=producer_id,
        producer_epoch=1,
        last_sequence=4,
        last_offset=20,
        offset_delta=1,
        timestamp=at_ms,
        coordinator_epoch=0,
        txn_first_offset=open_offset,
    )


EMPTIED = SnapshotEntry(
    producer_id=9,
    producer_epoch=-1,
    last_sequence=-1,
    last_offset=-1,
    offset_delta=0,
    timestamp=-1,
    coordinator_epoch=-1,
    txn_first_offset=-1,
)
NONE = "producer 7: no such producer"


@pytest.mark.parametrize(
    ("entries", "expected_entries", "judged_from", "expected_findings"),
    [
        ([entry()], [entry()], 0, []),
        ([entry(open_offset=3)], [entry()], 0, ["producer 7: txn_first_offset 3"]),
        ([entry(open_offset=3)], [entry()], 21, []),
        # A producer that is missing may have expired, unless its transaction is open.
        ([], [entry(at_ms=0)], 0, []),
        ([], [entry(at_ms=1)], 0, [NONE]),
        ([], [entry(at_ms=DAY_MS + 1)], 0, []),  # the file was copied without its time
        ([], [entry(at_ms=0, open_offset=3)], 0, [NONE]),
        # What only the snapshot knows was deleted.
        ([entry()], [], 21, []),
        ([entry()], [], 20, ["producer 7 with a batch at offset 20"]),
        ([EMPTIED], [], 0, []),
    ],
)
def test_a_snapshot_says_what_the_log_leads_to(
    tmp_path: Path,
    entries: list[SnapshotEntry],
    expected_entries: list[SnapshotEntry],
    judged_from: int,
    expected_findings: list[str],
) -> None:
    path = tmp_path / "00000000000000000030.snapshot"
    path.touch()
    os.utime(path, (DAY_MS // 1_000, DAY_MS // 1_000))
    verdict_lines = judge_snapshot(
        entries,
        expected_entries,
        {7: 20},
        offset=30,
        path=path,
        judged_from=judged_from,
        expiration_ms=DAY_MS,
    )
    assert [broken_rule.found for broken_rule in verdict_lines] == expected_findings


# ``chain``: Segments put together: what only shows between them, and what a log may lack.


ORDERS = TopicPartition("orders", 0)
BEGIN, SECOND = "00000000000000000000", "00000000000000000025"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    write_log_dir(tmp_path, 1, {"orders-0": busy_log()})
    return tmp_path


def rules(log_dir: Path) -> set[str]:
    return {f"{violation.severity} {violation.rule}" for violation in found_in(log_dir)}


def _delete_oldest(replica: Path) -> None:
    for path in replica.glob(f"{BEGIN}.*"):
        path.unlink()


def test_what_began_in_deleted_segments_is_known_from_their_snapshot(log_dir: Path) -> None:
    _delete_oldest(log_dir / "orders-0")
    assert rules(log_dir) == set()


def test_without_that_snapshot_nothing_is_made_up(log_dir: Path) -> None:
    _delete_oldest(log_dir / "orders-0")
    (log_dir / "orders-0" / f"{SECOND}.snapshot").unlink()
    assert rules(log_dir) == set()


def test_checkpoints_lie_within_the_log(log_dir: Path) -> None:
    note_offset(log_dir, names.FileName.HIGH_WATERMARKS, ORDERS, 109)
    (violations,) = found_in(log_dir)
    assert (violations.rule, violations.file) == (
        Invariant.CHECKPOINT,
        names.FileName.HIGH_WATERMARKS,
    )
    note_offset(log_dir, names.FileName.HIGH_WATERMARKS, ORDERS, 108)
    _delete_oldest(log_dir / "orders-0")
    note_offset(log_dir, names.FileName.LOG_STARTS, ORDERS, 24)
    assert rules(log_dir) == {"error checkpoint"}


def test_a_marker_for_a_partition_that_was_not_written_is_a_notice(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.end(committed=False, producer_id=3)
    driver.txn(0)
    driver.end(committed=True)
    driver.end(committed=True)
    write_log_dir(tmp_path, 1, {"orders-0": driver})
    violations = found_in(tmp_path)
    assert [(violation.rule, violation.severity, violation.offset) for violation in violations] == [
        (Invariant.IDLE_MARKER, Severity.NOTICE, 0),
        (Invariant.IDLE_MARKER, Severity.NOTICE, 3),
    ]


def _clean(replica: Path) -> None:
    """What the cleaner leaves of the first segment: every second batch of data, no aborted ones."""
    log = replica / f"{BEGIN}.log"
    batches_left = [
        batch for number, batch in enumerate(batches_of(log)) if number not in (0, 4, 6)
    ]
    log.write_bytes(b"".join(batches_left))
    for suffix in (".index", ".timeindex", ".txnindex"):
        log.with_suffix(suffix).write_bytes(b"")


def test_what_a_compacted_log_lacks_is_no_finding(log_dir: Path) -> None:
    _clean(log_dir / "orders-0")
    assert "error offset-gap" in rules(log_dir)
    note_offset(log_dir, names.FileName.CLEANER_OFFSETS, ORDERS, 25)
    assert rules(log_dir) == set()


def test_a_cleaner_shows_without_its_checkpoint(log_dir: Path) -> None:
    _clean(log_dir / "orders-0")
    log = log_dir / "orders-0" / f"{BEGIN}.log"
    batches = batches_of(log)
    batches[-1] = empty_batch(read_batch_header(batches[-1]))
    log.write_bytes(b"".join(batches))
    assert "error offset-gap" not in rules(log_dir)


def test_behind_what_was_cleaned_a_gap_is_one(log_dir: Path) -> None:
    note_offset(log_dir, names.FileName.CLEANER_OFFSETS, ORDERS, 25)
    patch(log_dir / "orders-0" / f"{SECOND}.log", 5, base_sequence=11)
    assert rules(log_dir) == {"error sequence"}


# ``replica_rules``: Replicas against one another.


LAST = "00000000000000000096.log"


@pytest.fixture
def log_dirs(tmp_path: Path) -> tuple[Path, Path]:
    for broker in (1, 2):
        write_log_dir(tmp_path / f"broker-{broker}", broker, {"orders-0": busy_log()})
    return tmp_path / "broker-1", tmp_path / "broker-2"


def test_replicas_that_hold_the_same_are_sound(log_dirs: tuple[Path, Path]) -> None:
    assert found_in(*log_dirs) == []


def test_another_batch_below_the_high_watermark_is_found(log_dirs: tuple[Path, Path]) -> None:
    log = log_dirs[1] / "orders-0" / LAST
    batches = batches_of(log)
    batches[6] = batches[6][:-2] + b"w\0"  # the value of a plain record
    log.write_bytes(b"".join(batches))
    header = patch(log, 6)
    (violations,) = found_in(*log_dirs)
    assert (violations.rule, violations.broker, violations.file) == (Invariant.REPLICAS, 2, LAST)
    assert (violations.offset, violations.position) == (106, sum(map(len, batches[:6])))
    assert f"CRC {header.crc}" in violations.found
    assert violations.expected.endswith("as broker 1 has it")


def test_a_batch_that_one_lacks_is_found(log_dirs: tuple[Path, Path]) -> None:
    log = log_dirs[1] / "orders-0" / LAST
    log.write_bytes(b"".join(batches_of(log)[:-1]))
    violations = {violation.rule: violation for violation in found_in(*log_dirs)}
    assert violations[Invariant.REPLICAS].found == "no batch"
    assert violations[Invariant.REPLICAS].offset == 107


def test_above_the_high_watermark_they_may_differ(log_dirs: tuple[Path, Path]) -> None:
    log = log_dirs[1] / "orders-0" / LAST
    note_offset(log_dirs[1], names.FileName.HIGH_WATERMARKS, ORDERS, headers_of(log)[6].base_offset)
    patch(log, 6, leader_epoch=4)
    assert Invariant.REPLICAS not in {violation.rule for violation in found_in(*log_dirs)}


def test_what_was_cleaned_is_not_compared(log_dirs: tuple[Path, Path]) -> None:
    log = log_dirs[1] / "orders-0" / LAST
    patch(log, 6, leader_epoch=4)
    assert Invariant.REPLICAS in {violation.rule for violation in found_in(*log_dirs)}
    note_offset(log_dirs[0], names.FileName.CLEANER_OFFSETS, ORDERS, 107)
    assert Invariant.REPLICAS not in {violation.rule for violation in found_in(*log_dirs)}


@pytest.mark.costly
def test_cleaning_of_unknown_reach_ends_the_comparison(log_dirs: tuple[Path, Path]) -> None:
    log = log_dirs[1] / "orders-0" / LAST
    batches = batches_of(log)
    batch = bytearray(batches[6])
    batch[57:61] = bytes(4)  # no records
    batches[6] = bytes(batch)
    log.write_bytes(b"".join(batches))
    patch(log, 6)
    assert Invariant.REPLICAS not in {violation.rule for violation in found_in(*log_dirs)}


# The rules by name.


def test_each_rule_says_what_it_demands() -> None:
    assert list(MEANINGS) == list(Invariant)
    assert all(MEANINGS.values())


def test_the_page_has_each_rule() -> None:
    page_text = Path("docs/logs-reference.md").read_text()
    assert all(
        f"| `{invariant}` | {meaning} | " in page_text for invariant, meaning in MEANINGS.items()
    )
