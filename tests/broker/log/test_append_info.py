"""The rules of ProducerAppendInfo, row by row, allowed and refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.logs import batch
from tests.support.markers import marker_of
from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.replication import ReplicatedBatch
from txnsim.log.answers import Appended, AppendRejection
from txnsim.log.config import LogConfig
from txnsim.log.leader_append import (
    admit_marker,
    check_data,
    check_gate,
    check_marker,
    data_rule,
    marker_rule,
)
from txnsim.log.producer_state import SEQUENCE_MAX, BatchMetadata, PartitionProducers, ProducerEntry
from txnsim.log.verification import SENTINEL, VerificationEntries, VerificationEntry
from txnsim.releases.rules import LATEST_RULES
from txnsim.wire.batch import BatchHeader, read_batch_header

NOT_IN_ORDER = 45
STALE = 47
WRONG_STATE = 48
FENCED = 52


def entry(
    epoch: int = 3,
    *,
    last_sequence: int | None = None,
    open_since_ms: int = -1,
    coordinator_epoch: int = -1,
) -> ProducerEntry:
    producer_entry = ProducerEntry(7)
    producer_entry.producer_epoch = epoch
    producer_entry.coordinator_epoch = coordinator_epoch
    producer_entry.txn_first_offset = open_since_ms
    if last_sequence is not None:
        producer_entry.batches = (
            BatchMetadata(last_sequence=last_sequence, last_offset=10, offset_delta=0, timestamp=1),
        )
    return producer_entry


def verification_entry(lowest: int = 0, *, is_tv2: bool = False) -> VerificationEntry:
    return VerificationEntry(
        guard=1, created_ms=0, producer_epoch=3, lowest_sequence=lowest, supports_epoch_bump=is_tv2
    )


@pytest.mark.parametrize(
    ("producer_entry", "epoch", "is_verified", "error"),
    [
        (None, 0, True, None),
        (None, 0, False, WRONG_STATE),
        (entry(3), 3, True, None),
        (entry(3), 3, False, WRONG_STATE),
        # The transaction is open: nobody had to be asked.
        (entry(3, open_since_ms=5), 3, False, None),
        # Another epoch's transaction is open: that says nothing about this one.
        (entry(3, open_since_ms=5), 4, False, WRONG_STATE),
        (entry(3, open_since_ms=5), 4, True, None),
        # KAFKA-19690: fenced comes before unverified, and even a valid guard does not help.
        (entry(3), 2, False, STALE),
        (entry(3), 2, True, STALE),
        (entry(3, open_since_ms=5), 2, False, STALE),
    ],
)
def test_gate(
    producer_entry: ProducerEntry | None, epoch: int, is_verified: bool, error: int | None
) -> None:
    refusal = check_gate(
        producer_entry,
        producer_id=7,
        producer_epoch=epoch,
        is_verified=is_verified,
        release_rules=LATEST_RULES,
    )
    assert (refusal.error if refusal else None) == error


@pytest.mark.parametrize(
    (
        "row",
        "producer_entry",
        "verification",
        "epoch",
        "sequence",
        "is_transactional",
        "is_client",
        "error",
    ),
    [
        ("D1 lower epoch", entry(3, last_sequence=0), None, 2, 1, False, True, STALE),
        ("D1 holds for coordinators", entry(3, last_sequence=0), None, 2, -1, True, False, STALE),
        (
            "D2 v2, unknown, starts at 3",
            None,
            verification_entry(3, is_tv2=True),
            0,
            3,
            True,
            True,
            NOT_IN_ORDER,
        ),
        (
            "D2 v2, unknown, starts at 0",
            None,
            verification_entry(0, is_tv2=True),
            0,
            0,
            True,
            True,
            None,
        ),
        (
            "D2 v2, no batches",
            entry(3),
            verification_entry(3, is_tv2=True),
            3,
            3,
            True,
            True,
            NOT_IN_ORDER,
        ),
        (
            "D2 v2, cached batches",
            entry(3, last_sequence=2),
            verification_entry(3, is_tv2=True),
            3,
            3,
            True,
            True,
            None,
        ),
        ("D2 not under v1", None, verification_entry(3), 0, 3, True, True, None),
        (
            "D3 above the lowest",
            entry(3, last_sequence=0),
            verification_entry(1),
            3,
            2,
            True,
            True,
            NOT_IN_ORDER,
        ),
        (
            "D3 even if next",
            entry(3, last_sequence=1),
            verification_entry(1),
            3,
            2,
            True,
            True,
            NOT_IN_ORDER,
        ),
        (
            "D3 the lowest itself",
            entry(3, last_sequence=0),
            verification_entry(1),
            3,
            1,
            True,
            True,
            None,
        ),
        ("D3 not for coordinators", None, verification_entry(-1), 0, -1, True, False, None),
        ("D4 new epoch at 1", entry(3, last_sequence=9), None, 4, 1, False, True, NOT_IN_ORDER),
        ("D4 new epoch at 0", entry(3, last_sequence=9), None, 4, 0, False, True, None),
        ("D4 not if no epoch is known", entry(-1), None, 4, 6, False, True, None),
        ("D4 not for coordinators", entry(3, last_sequence=9), None, 4, -1, True, False, None),
        ("D5 next", entry(3, last_sequence=9), None, 3, 10, False, True, None),
        ("D5 gap", entry(3, last_sequence=9), None, 3, 11, False, True, NOT_IN_ORDER),
        ("D5 again", entry(3, last_sequence=9), None, 3, 9, False, True, NOT_IN_ORDER),
        ("D5 wraps", entry(3, last_sequence=SEQUENCE_MAX), None, 3, 0, False, True, None),
        ("D5 no wrap early", entry(3, last_sequence=5), None, 3, 0, False, True, NOT_IN_ORDER),
        ("D5 only markers, at 0", entry(3), None, 3, 0, False, True, None),
        ("D5 only markers, at 1", entry(3), None, 3, 1, False, True, NOT_IN_ORDER),
        ("D5 unknown anywhere", None, None, 0, 4711, False, True, None),
        ("D5 no epoch", entry(-1), None, -1, 5, False, True, None),
        ("D5 not for coordinators", entry(3, last_sequence=9), None, 3, -1, True, False, None),
        (
            "D6 outside",
            entry(3, last_sequence=9, open_since_ms=5),
            None,
            3,
            10,
            False,
            True,
            WRONG_STATE,
        ),
        ("D6 inside", entry(3, last_sequence=9, open_since_ms=5), None, 3, 10, True, True, None),
        (
            "D5 before D6",
            entry(3, last_sequence=9, open_since_ms=5),
            None,
            3,
            12,
            False,
            True,
            NOT_IN_ORDER,
        ),
        (
            "joins the ghost",
            entry(3, last_sequence=9, open_since_ms=5),
            verification_entry(0),
            4,
            0,
            True,
            True,
            None,
        ),
    ],
)
def test_data(
    row: str,
    producer_entry: ProducerEntry | None,
    verification: VerificationEntry | None,
    epoch: int,
    sequence: int,
    is_transactional: bool,
    is_client: bool,
    error: int | None,
) -> None:
    refusal = check_data(
        producer_entry,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
        is_client=is_client,
        verification=verification,
        release_rules=LATEST_RULES,
    )
    assert (refusal.error if refusal else None) == error, row


@pytest.mark.parametrize(
    ("row", "producer_entry", "epoch", "coordinator_epoch", "transaction_version", "error"),
    [
        ("unknown producer", None, 2, 0, 0, None),
        ("unknown producer, v2", None, 2, 0, 2, None),
        ("unknown producer, -1", None, 2, -1, 0, None),
        ("M1 lower", entry(3), 2, 0, 0, STALE),
        ("M1 lower, v1", entry(3, open_since_ms=5), 2, 0, 1, STALE),
        ("M1 equal", entry(3, open_since_ms=5), 3, 0, 1, None),
        ("M1 higher", entry(3, open_since_ms=5), 4, 0, 0, None),
        ("M2 lower", entry(3, open_since_ms=5), 2, 0, 2, STALE),
        ("M3 equal, nothing open", entry(3), 3, 0, 2, None),
        ("M4 equal, open, exhausted", entry(32767, open_since_ms=5), 32767, 0, 2, None),
        ("M5 equal, open", entry(3, open_since_ms=5), 3, 0, 2, STALE),
        ("M5 one below exhausted", entry(32766, open_since_ms=5), 32766, 0, 2, STALE),
        ("v2 higher", entry(3, open_since_ms=5), 4, 0, 2, None),
        ("M6 lower coordinator", entry(3, coordinator_epoch=4), 3, 3, 0, FENCED),
        ("M6 lower coordinator, v2", entry(3, coordinator_epoch=4), 4, 3, 2, FENCED),
        ("M6 equal coordinator", entry(3, coordinator_epoch=4), 3, 4, 0, None),
        ("M6 higher coordinator", entry(3, coordinator_epoch=4), 3, 5, 0, None),
        ("M6 -1 once one is known", entry(3, coordinator_epoch=0), 3, -1, 0, FENCED),
        ("M6 -1 while none is known", entry(3), 3, -1, 0, None),
        ("M1 before M6", entry(3, coordinator_epoch=4), 2, 3, 0, STALE),
    ],
)
def test_marker(
    row: str,
    producer_entry: ProducerEntry | None,
    epoch: int,
    coordinator_epoch: int,
    transaction_version: int,
    error: int | None,
) -> None:
    refusal = check_marker(
        producer_entry,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
        release_rules=LATEST_RULES,
    )
    assert (refusal.error if refusal else None) == error, row


def test_a_refusal_names_what_was_expected_and_found() -> None:
    refusal = check_data(
        entry(3, last_sequence=9),
        producer_epoch=3,
        base_sequence=12,
        is_transactional=False,
        is_client=True,
        verification=None,
        release_rules=LATEST_RULES,
    )
    assert refusal is not None
    assert "expected sequence 10, found 12" in refusal.reason


# Which row of docs/rules.md explains it


@pytest.mark.parametrize(
    ("producer_entry", "verification", "epoch", "sequence", "is_transactional", "rule"),
    [
        (entry(3, last_sequence=0), None, 2, 1, False, "producer.stale-epoch"),
        (None, verification_entry(3, is_tv2=True), 0, 3, True, "producer.v2-starts-at-zero"),
        (entry(3, last_sequence=0), verification_entry(1), 3, 2, True, "producer.lowest-sequence"),
        (entry(3, last_sequence=9), None, 4, 1, False, "producer.new-epoch-starts-at-zero"),
        (entry(3, last_sequence=9), None, 3, 11, False, "producer.next-sequence"),
        (entry(3, last_sequence=9), None, 3, 9, False, "producer.out-of-cache"),
        (entry(3), None, 3, 1, False, "producer.known-from-marker"),
        (
            entry(3, last_sequence=9, open_since_ms=5),
            None,
            3,
            10,
            False,
            "producer.plain-in-open-txn",
        ),
    ],
)
def test_a_refused_batch_names_its_rule(
    producer_entry: ProducerEntry | None,
    verification: VerificationEntry | None,
    epoch: int,
    sequence: int,
    is_transactional: bool,
    rule: str,
) -> None:
    refusal = check_data(
        producer_entry,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
        is_client=True,
        verification=verification,
        release_rules=LATEST_RULES,
    )
    assert refusal is not None
    assert refusal.rule == rule


@pytest.mark.parametrize(
    ("producer_entry", "rule"), [(entry(3), "producer.gate-epoch"), (None, "verify.guard-gone")]
)
def test_a_batch_that_does_not_pass_the_gate_names_its_rule(
    producer_entry: ProducerEntry | None, rule: str
) -> None:
    refusal = check_gate(
        producer_entry,
        producer_id=7,
        producer_epoch=2,
        is_verified=False,
        release_rules=LATEST_RULES,
    )
    assert refusal is not None
    assert refusal.rule == rule


@pytest.mark.parametrize(
    ("entry", "producer_id", "epoch", "sequence", "is_transactional", "rule"),
    [
        (None, -1, -1, -1, False, "batch.written-fields"),
        (None, 7, 0, 4711, False, "producer.unknown-starts-anywhere"),
        (entry(-1), 7, 3, 5, False, "producer.unknown-starts-anywhere"),
        (entry(3, last_sequence=9), 7, 3, 9, False, "producer.duplicate"),
        (
            entry(3, last_sequence=9, open_since_ms=5),
            7,
            3,
            9,
            True,
            "producer.duplicate-in-open-txn",
        ),
        (entry(3, last_sequence=9), 7, 3, 10, False, "producer.next-sequence"),
        (entry(3), 7, 3, 0, False, "producer.next-sequence"),
        (entry(3, last_sequence=SEQUENCE_MAX), 7, 3, 0, False, "producer.sequence-wraps"),
        (entry(3, last_sequence=9), 7, 4, 0, False, "producer.new-epoch"),
        (entry(3, last_sequence=9), 7, 3, 10, True, "producer.txn-opens-at-first-batch"),
        (entry(3, last_sequence=9, open_since_ms=5), 7, 3, 10, True, "producer.gate-open"),
        (None, 7, 0, 0, True, "producer.txn-opens-at-first-batch"),
    ],
)
def test_what_explains_a_batch_that_is_taken(
    entry: ProducerEntry | None,
    producer_id: int,
    epoch: int,
    sequence: int,
    is_transactional: bool,
    rule: str,
) -> None:
    header = read_batch_header(
        batch(sequence, producer_id=producer_id, epoch=epoch, is_transactional=is_transactional)
    )
    is_there = entry is not None and entry.find_batch(sequence, header.last_sequence) is not None
    appended = answer(entry, is_duplicate=is_there)
    partition_producers = PartitionProducers()
    if entry is not None:
        partition_producers.by_id[producer_id] = replace(entry, producer_id=producer_id)
    if not is_there:
        partition_producers.apply(replicated_batch_of(header))
    assert data_rule(header, appended, partition_producers.find(producer_id)) == rule


@pytest.mark.parametrize(
    ("producer_entry", "epoch", "transaction_version", "rule"),
    [
        (entry(3), 2, 1, "marker.v1-lower-epoch"),
        (entry(3), 2, 2, "marker.v2-lower-epoch"),
        (entry(3, open_since_ms=5), 3, 2, "marker.v2-same-epoch"),
        (entry(3, coordinator_epoch=4), 3, 0, "marker.coordinator-fenced"),
    ],
)
def test_a_refused_marker_names_its_rule(
    producer_entry: ProducerEntry, epoch: int, transaction_version: int, rule: str
) -> None:
    refusal = check_marker(
        producer_entry,
        producer_epoch=epoch,
        coordinator_epoch=0,
        transaction_version=transaction_version,
        release_rules=LATEST_RULES,
    )
    assert refusal is not None
    assert refusal.rule == rule


@pytest.mark.parametrize(
    ("entry", "epoch", "is_v2", "rule"),
    [
        (None, 3, True, "marker.unknown-producer"),
        (entry(3), 3, True, "marker.v2-repeated"),
        (entry(3), 4, True, "marker.nothing-open"),
        (entry(3), 3, False, "marker.nothing-open"),
        (entry(3, open_since_ms=5), 3, False, "marker.v1-same-epoch"),
        (entry(3, open_since_ms=5), 4, False, "marker.v1-higher-epoch"),
        (entry(3, open_since_ms=5), 4, True, "marker.v2-higher-epoch"),
        (entry(32767, open_since_ms=5), 32767, True, "marker.v2-top-epoch"),
    ],
)
def test_what_explains_a_marker_that_is_written(
    entry: ProducerEntry | None, epoch: int, is_v2: bool, rule: str
) -> None:
    marker = marker_of(producer_epoch=epoch, transaction_version=2 if is_v2 else 1)
    assert marker_rule(marker, answer(entry)) == rule


def answer(entry: ProducerEntry | None, *, is_duplicate: bool = False) -> Appended:
    return Appended(
        base_offset=20,
        last_offset=20,
        log_append_time_ms=-1,
        log_start_offset=0,
        epoch_before=-1 if entry is None else entry.producer_epoch,
        open_txn_before=-1 if entry is None else entry.txn_first_offset,
        duplicate=is_duplicate,
    )


def replicated_batch_of(header: BatchHeader) -> ReplicatedBatch:
    return ReplicatedBatch(
        batch_bytes=b"",
        base_offset=20,
        last_offset=20 + header.last_offset_delta,
        leader_epoch=0,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        last_sequence=header.last_sequence,
        timestamp_ms=header.max_timestamp_ms,
        is_transactional=header.is_transactional,
        is_control=False,
    )


# The text of KIP-664


@pytest.mark.parametrize(
    ("producer_entry", "start_offset", "epoch", "coordinator_epoch", "error"),
    [
        # Nobody says since when: the shipped rules, whatever the coordinator epoch.
        (entry(3, coordinator_epoch=5), -1, 3, 5, None),
        (entry(3, coordinator_epoch=5), -1, 3, -1, FENCED),
        (entry(3), -1, 2, 5, STALE),
        # An operator: this epoch, this transaction, and no question about coordinators.
        (entry(3, open_since_ms=7, coordinator_epoch=5), 7, 3, -1, None),
        (entry(3, open_since_ms=7), 7, 2, -1, STALE),
        (entry(3, open_since_ms=7), 7, 4, -1, STALE),
        (entry(3, open_since_ms=7), 8, 3, -1, WRONG_STATE),
        (entry(3), 7, 3, -1, WRONG_STATE),
        (None, 7, 3, -1, WRONG_STATE),
        # A coordinator that says since when: both rules.
        (entry(3, open_since_ms=7, coordinator_epoch=5), 7, 3, 5, None),
        (entry(3, open_since_ms=7, coordinator_epoch=5), 7, 3, 4, FENCED),
        (entry(3, open_since_ms=7, coordinator_epoch=5), 6, 3, 5, WRONG_STATE),
        (None, 7, 3, 5, WRONG_STATE),
    ],
)
def test_a_marker_that_names_the_transaction(
    producer_entry: ProducerEntry | None,
    start_offset: int,
    epoch: int,
    coordinator_epoch: int,
    error: int | None,
) -> None:
    marker = marker_of(
        start_offset=start_offset, producer_epoch=epoch, coordinator_epoch=coordinator_epoch
    )
    admitted = admit_marker(producer_entry, LogConfig(rules=LATEST_RULES), marker)
    assert (None if isinstance(admitted, int) else admitted.error) == error


# KIP-890's guard: every event that makes, keeps, changes or removes an entry.


def start(
    verification: VerificationEntries,
    *,
    producer_id: int = 7,
    epoch: int = 0,
    sequence: int = 0,
    is_tv2: bool = False,
    now_ms: int = 0,
) -> int:
    return verification.start(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        supports_epoch_bump=is_tv2,
        now_ms=now_ms,
    )


def has_guard(verification: VerificationEntries, producer_id: int, guard: int) -> bool:
    pending_entry = verification.find(producer_id)
    return pending_entry is not None and pending_entry.guard == guard


def test_a_guard_is_never_the_sentinel_and_never_used_twice() -> None:
    verification = VerificationEntries()
    guards = [start(verification, producer_id=producer_id) for producer_id in range(3)]
    verification.clear()
    guards += [start(verification, producer_id=producer_id) for producer_id in range(3)]
    assert SENTINEL not in guards
    assert len(set(guards)) == 6


def test_the_sentinel_is_no_guard() -> None:
    verification = VerificationEntries()
    assert not has_guard(verification, 7, SENTINEL)
    guard = start(verification)
    assert not has_guard(verification, 7, SENTINEL)
    assert has_guard(verification, 7, guard)
    assert not has_guard(verification, 8, guard)


@pytest.mark.parametrize(
    ("epoch", "sequence", "lowest", "epoch_then"),
    [
        (3, 4, 4, 3),  # same epoch, lower: lowered
        (3, 6, 5, 3),  # same epoch, higher: kept
        (4, 9, 9, 4),  # higher epoch: replaced, even by a higher sequence
        (2, 0, 5, 3),  # lower epoch: kept
    ],
)
def test_joining_an_entry_keeps_the_guard(
    epoch: int, sequence: int, lowest: int, epoch_then: int
) -> None:
    verification = VerificationEntries()
    guard = start(verification, epoch=3, sequence=5)
    assert start(verification, epoch=epoch, sequence=sequence, is_tv2=True) == guard
    entry = verification.find(7)
    assert entry is not None
    assert (entry.lowest_sequence, entry.producer_epoch) == (lowest, epoch_then)
    assert not entry.supports_epoch_bump  # fixed when the entry is made


@pytest.mark.parametrize(
    ("is_tv2", "marker_epoch", "is_kept"),
    [(True, 6, True), (True, 7, False), (True, 5, False), (False, 6, False)],
)
def test_a_marker_removes_the_entry_unless_it_is_a_retry_of_the_previous_one(
    is_tv2: bool, marker_epoch: int, is_kept: bool
) -> None:
    """Since KAFKA-18575 the repetition of a marker keeps the verification entry."""
    verification = VerificationEntries()
    guard = start(verification, epoch=6, is_tv2=is_tv2)
    verification.on_marker(7, marker_epoch)
    assert has_guard(verification, 7, guard) is is_kept


def test_a_marker_of_a_producer_that_waits_for_nothing_changes_nothing() -> None:
    verification = VerificationEntries()
    guard = start(verification)
    verification.on_marker(8, 0)
    assert has_guard(verification, 7, guard)


def test_entries_expire_by_their_own_age() -> None:
    verification = VerificationEntries()
    start(verification, producer_id=1, now_ms=0)
    start(verification, producer_id=2, now_ms=1)
    start(verification, producer_id=1, now_ms=5)  # joining does not make it younger
    verification.expire(now_ms=10, expiration_ms=10)
    assert verification.find(1) is None
    assert verification.find(2) is not None


# A refused append can be handled like every other refusal, and says more.


def test_an_append_rejection_is_a_rejection() -> None:
    answer = AppendRejection(error=ErrorCode.corrupt_message, reason="crc")
    match answer:
        case Rejection(error=error, reason=reason):
            assert (error, reason) == (ErrorCode.corrupt_message, "crc")


def test_without_more_it_shows_no_log_start_and_blames_no_record() -> None:
    answer = AppendRejection(error=ErrorCode.corrupt_message, reason="crc")
    assert answer.log_start_offset == -1
    assert answer.record_errors == ()
