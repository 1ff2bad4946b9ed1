"""Each rule: one damaged replica in which it is found, and a sound one beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

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
from txnsim.storage import names, producer_snapshot, txn_index
from txnsim.storage.checkpoints import encode_leader_epochs
from txnsim.types import TopicPartition
from txnsim.wire.codec import run_to_end
from txnsim_spark.soundness.violations import Invariant, Severity

Damage = Callable[[Path], object]
T = TypeVar("T", bound=msgspec.Struct)
BEGIN, SECOND, THIRD, LAST = (f"{base:020}" for base in (0, 25, 48, 96))


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two replicas; the second one stays sound."""
    write_log_dir(tmp_path, 1, {"orders-0": busy_log(), "orders-1": busy_log()})
    return tmp_path


def test_nothing_is_found_in_what_a_broker_leaves(log_dir: Path) -> None:
    assert found_in(log_dir) == []


def _flip(path: Path, position: int) -> None:
    file_bytes = bytearray(path.read_bytes())
    file_bytes[position] ^= 0xFF
    path.write_bytes(file_bytes)


def _crc(replica: Path) -> None:
    log = replica / f"{SECOND}.log"
    _flip(log, len(batches_of(log)[0]) - 1)


def _torn_at_the_end(replica: Path) -> None:
    log = replica / f"{LAST}.log"
    log.write_bytes(log.read_bytes() + b"\0" * 30)


def _batch_gone(replica: Path) -> None:
    """Remove the plain record in the middle of a segment."""
    log = replica / f"{SECOND}.log"
    batches = batches_of(log)
    log.write_bytes(b"".join(batches[:9] + batches[10:]))


def _segment_gone(replica: Path) -> None:
    for path in replica.glob(f"{SECOND}.*"):
        if path.suffix != ".snapshot":
            path.unlink()


def _outside(replica: Path) -> None:
    """Clear the transactional flag of a batch in an open transaction."""
    log = replica / f"{BEGIN}.log"
    file_bytes = bytearray(log.read_bytes())
    file_bytes[sum(map(len, batches_of(log)[:14])) + 22] &= ~0x10
    log.write_bytes(file_bytes)
    patch(log, 14, producer_id=9, base_sequence=6)


def _patch_bytes(name: str, number: int, **changes: int) -> Damage:
    return lambda replica: patch(replica / f"{name}.log", number, **changes)


def _write_file(file_name: str, log_bytes: bytes) -> Damage:
    return lambda replica: (replica / file_name).write_bytes(log_bytes)


def _change_file(file_name: str, change: Callable[[bytes], bytes]) -> Damage:
    return lambda replica: (replica / file_name).write_bytes(
        change((replica / file_name).read_bytes())
    )


def _aborted_index(change: Callable[[tuple[AbortedTxn, ...]], tuple[AbortedTxn, ...]]) -> Damage:
    return _change_file(
        f"{SECOND}.txnindex",
        lambda index_bytes: txn_index.encode(
            change(tuple(txn_index.decode(index_bytes, error_prefix="")))
        ),
    )


def _snapshot(change: Callable[[tuple[SnapshotEntry, ...]], tuple[SnapshotEntry, ...]]) -> Damage:
    return _change_file(
        f"{THIRD}.snapshot",
        lambda data: run_to_end(
            producer_snapshot.encode_in_steps(change(producer_snapshot.decode(data)))
        ),
    )


def _epochs(*epochs: tuple[int, int]) -> Damage:
    return _write_file(names.FileName.LEADER_EPOCHS, encode_leader_epochs(epochs).encode())


def _replace_entry(entry: T, **changes: int) -> T:
    changed_entry: T = msgspec.structs.replace(entry, **changes)
    return changed_entry


DAMAGES: dict[str, tuple[Damage, str]] = {
    "a flipped bit": (_crc, f"crc {SECOND}.log"),
    "a closed segment is cut off": (
        _change_file(f"{SECOND}.log", lambda data: data[:-5]),
        f"torn {SECOND}.log",
    ),
    "bytes behind the last batch": (_torn_at_the_end, f"torn {LAST}.log"),
    "an offset is there twice": (
        lambda replica: patch(
            log := replica / f"{SECOND}.log", 9, base_offset=headers_of(log)[9].base_offset - 3
        ),
        f"offset-order {SECOND}.log, offset-gap {SECOND}.log",
    ),
    "a segment begins below its number": (
        _patch_bytes(THIRD, 0, base_offset=47),
        f"offset-order {THIRD}.log, offset-gap {THIRD}.log",
    ),
    "a batch is gone": (_batch_gone, f"offset-gap {SECOND}.log"),
    "a segment is gone": (_segment_gone, f"offset-gap {THIRD}.log"),
    "a sequence is left out": (_patch_bytes(SECOND, 5, base_sequence=11), f"sequence {SECOND}.log"),
    "a sequence goes back between segments": (
        _patch_bytes(THIRD, 0, base_sequence=3),
        f"sequence {THIRD}.log",
    ),
    "an epoch goes back": (
        _patch_bytes(SECOND, 5, producer_epoch=5, base_sequence=0),
        f"producer-epoch {SECOND}.log",
    ),
    "a batch outside of the open transaction": (
        _outside,
        f"outside-transaction {BEGIN}.log, snapshot {SECOND}.snapshot, sequence {SECOND}.log",
    ),
    "an aborted transaction is not listed": (
        _aborted_index(lambda entries: entries[1:]),
        f"aborted-missing {SECOND}.txnindex",
    ),
    "a committed transaction is listed": (
        _aborted_index(lambda entries: (*entries, _replace_entry(entries[-1], last_offset=47))),
        f"aborted-extra {SECOND}.txnindex",
    ),
    "a wrong last stable offset": (
        _aborted_index(
            lambda entries: (_replace_entry(entries[0], last_stable_offset=26), *entries[1:])
        ),
        f"aborted-differs {SECOND}.txnindex",
    ),
    "a snapshot of another epoch": (
        _snapshot(lambda entries: (_replace_entry(entries[0], producer_epoch=3), *entries[1:])),
        f"snapshot {THIRD}.snapshot",
    ),
    "a snapshot without an open transaction": (
        _snapshot(lambda entries: tuple(entry for entry in entries if entry.txn_first_offset < 0)),
        f"snapshot {THIRD}.snapshot",
    ),
    "a snapshot with a producer that never was": (
        _snapshot(lambda entries: (*entries, _replace_entry(entries[0], producer_id=99))),
        f"snapshot {THIRD}.snapshot",
    ),
    "a snapshot behind the end": (
        _write_file(
            "00000000000000000200.snapshot", run_to_end(producer_snapshot.encode_in_steps(()))
        ),
        "snapshot 00000000000000000200.snapshot",
    ),
    "another start of a leader's epoch": (_epochs((0, 0), (3, 58)), f"leader-epoch {THIRD}.log"),
    "a leader epoch goes back": (_patch_bytes(LAST, 0, leader_epoch=2), f"leader-epoch {LAST}.log"),
    **{
        f"{name} can't be read": (_write_file(name, b"odd"), f"unreadable-file {name}")
        for name in (
            *(f"{SECOND}{suffix}" for suffix in (".txnindex", ".snapshot")),
            names.FileName.LEADER_EPOCHS,
        )
    },
}


@pytest.mark.costly
@pytest.mark.parametrize(("damage", "expected_text"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_found_and_nothing_else(
    log_dir: Path, damage: Damage, expected_text: str
) -> None:
    damage(log_dir / "orders-0")
    violations = [
        violation for violation in found_in(log_dir) if violation.severity is Severity.ERROR
    ]
    assert {f"{violation.rule} {violation.file}" for violation in violations} == set(
        expected_text.split(", ")
    )
    assert {
        (violation.broker, violation.topic, violation.partition) for violation in violations
    } == {(1, "orders", 0)}


def test_every_rule_has_its_damage() -> None:
    rule_names = {
        rule_name
        for _, expected_text in DAMAGES.values()
        for rule_name in expected_text.split(", ")
    }
    rules_elsewhere = {
        Invariant.COORDINATOR_EPOCH,  # test_producer_rules
        Invariant.IDLE_MARKER,
        Invariant.UNREADABLE_MARKER,  # test_segment_walk
        Invariant.CHECKPOINT,  # test_chain
        Invariant.REPLICAS,  # test_replica_rules
        Invariant.NO_BATCH,  # below
        Invariant.FOREIGN_FOLDER,  # test_verify of the command line
        Invariant.ABSENT_REPLICA,
    }
    assert {text.split()[0] for text in rule_names} == {
        invariant.value for invariant in Invariant
    } - rules_elsewhere


def test_what_a_broker_makes_anew_is_a_notice_after_a_stop_out_of_order(log_dir: Path) -> None:
    (log_dir / names.FileName.CLEAN_SHUTDOWN).unlink()
    _torn_at_the_end(log_dir / "orders-0")
    (log_dir / "orders-0" / f"{SECOND}.txnindex").write_bytes(b"odd")
    note_offset(log_dir, names.FileName.RECOVERY_POINTS, TopicPartition("orders", 0), 48)
    torn_violation, index = sorted(
        (violation for violation in found_in(log_dir) if violation.partition == 0),
        key=lambda violation: violation.rule,
    )
    assert (torn_violation.rule, torn_violation.severity) == (Invariant.TORN, Severity.NOTICE)
    # In front of the recovery point nothing is made anew.
    assert (index.rule, index.severity) == (Invariant.UNREADABLE_FILE, Severity.ERROR)


def test_a_segment_that_begins_at_the_recovery_point_is_recovered(log_dir: Path) -> None:
    (log_dir / names.FileName.CLEAN_SHUTDOWN).unlink()
    _, (base_offset, log) = names.Suffix.LOG.files_in(log_dir / "orders-0")[-2:]
    log.write_bytes(log.read_bytes()[:41])  # less than the header of its first batch
    for suffix in (".index", ".timeindex", ".txnindex"):
        log.with_suffix(suffix).unlink(missing_ok=True)
    note_offset(log_dir, names.FileName.RECOVERY_POINTS, TopicPartition("orders", 0), base_offset)
    torn_violations = [
        violation for violation in found_in(log_dir) if violation.rule is Invariant.TORN
    ]
    assert [(violation.offset, violation.severity) for violation in torn_violations] == [
        (base_offset, Severity.NOTICE)
    ]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_replica_without_one_readable_batch_is_named(log_dir: Path, is_clean: bool) -> None:
    if not is_clean:
        (log_dir / names.FileName.CLEAN_SHUTDOWN).unlink()
    for path in (log_dir / "orders-1").iterdir():
        path.unlink()
    note_offset(log_dir, names.FileName.RECOVERY_POINTS, TopicPartition("orders", 1), 0)
    note_offset(log_dir, names.FileName.HIGH_WATERMARKS, TopicPartition("orders", 1), 0)
    segment = log_dir / "orders-1" / "00000000000000000000.log"
    segment.write_bytes(b"")
    assert [violation for violation in found_in(log_dir) if violation.partition == 1] == []
    segment.write_bytes(b"\xff" * 300)
    severity = Severity.ERROR if is_clean else Severity.NOTICE
    assert [
        (violation.rule, violation.severity, violation.found)
        for violation in found_in(log_dir)
        if violation.partition == 1 and violation.rule is not Invariant.TORN
    ] == [(Invariant.NO_BATCH, severity, "no batch in 300 bytes")]


def test_a_young_snapshot_has_every_producer(log_dir: Path) -> None:
    _snapshot(lambda entries: entries[1:])(log_dir / "orders-0")
    assert found_in(log_dir) == []
    (violations,) = found_in(log_dir, expiration_ms=1 << 60)
    assert (violations.rule, violations.found) == (
        Invariant.SNAPSHOT,
        "producer 7: no such producer",
    )
