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
from txnsim.log.producer_state import SnapshotEntry
from txnsim.log.txn_index import AbortedTxn
from txnsim.pipeline.soundness.violations import Invariant, Severity, Violation
from txnsim.storage import names, producer_snapshot, txn_index
from txnsim.storage.checkpoints import encode_leader_epochs
from txnsim.types import TopicPartition

Damage = Callable[[Path], object]
T = TypeVar("T", bound=msgspec.Struct)
SECOND = "00000000000000000025"
THIRD = "00000000000000000048"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two replicas; the second one stays sound."""
    write_log_dir(tmp_path, 1, {"orders-0": busy_log(), "orders-1": busy_log()})
    return tmp_path


def test_nothing_is_found_in_what_a_broker_leaves(log_dir: Path) -> None:
    assert found_in(log_dir) == []


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def _crc(replica: Path) -> None:
    log = replica / f"{SECOND}.log"
    _flip(log, len(batches_of(log)[0]) - 1)


def _torn_in_the_middle(replica: Path) -> None:
    log = replica / f"{SECOND}.log"
    log.write_bytes(log.read_bytes()[:-5])


def _torn_at_the_end(replica: Path) -> None:
    _, log = names.numbered_files(replica, ".log")[-1]
    log.write_bytes(log.read_bytes() + b"\0" * 30)


def _offset_twice(replica: Path) -> None:
    log = replica / f"{SECOND}.log"
    patch(log, 9, base_offset=headers_of(log)[9].base_offset - 3)


def _segment_twice(replica: Path) -> None:
    log = replica / f"{THIRD}.log"
    patch(log, 0, base_offset=47)


def _batch_gone(replica: Path) -> None:
    """The plain record in the middle of a segment; indexes are as they would be."""
    log = replica / f"{SECOND}.log"
    batches = batches_of(log)
    log.write_bytes(b"".join(batches[:9] + batches[10:]))
    for suffix in (".index", ".timeindex"):
        (replica / f"{SECOND}{suffix}").unlink()


def _segment_gone(replica: Path) -> None:
    for path in replica.glob(f"{SECOND}.*"):
        if path.suffix != ".snapshot":
            path.unlink()


def _sequence(replica: Path) -> None:
    patch(replica / f"{SECOND}.log", 5, base_sequence=11)


def _sequence_at_the_seam(replica: Path) -> None:
    patch(replica / f"{THIRD}.log", 0, base_sequence=3)


def _epoch_up_and_back(replica: Path) -> None:
    patch(replica / f"{SECOND}.log", 5, producer_epoch=5, base_sequence=0)


def _outside(replica: Path) -> None:
    """A batch of a transaction that is open, without the flag."""
    log = replica / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[sum(map(len, batches_of(log)[:14])) + 22] &= ~0x10
    log.write_bytes(data)
    patch(log, 14, producer_id=9, base_sequence=6)


def _aborted_index(change: Callable[[tuple[AbortedTxn, ...]], tuple[AbortedTxn, ...]]) -> Damage:
    def damage(replica: Path) -> None:
        path = replica / f"{SECOND}.txnindex"
        path.write_bytes(txn_index.encode(change(txn_index.decode(path.read_bytes(), place=""))))

    return damage


def _snapshot(change: Callable[[tuple[SnapshotEntry, ...]], tuple[SnapshotEntry, ...]]) -> Damage:
    def damage(replica: Path) -> None:
        path = replica / f"{THIRD}.snapshot"
        path.write_bytes(
            producer_snapshot.encode(change(producer_snapshot.decode(path.read_bytes())))
        )

    return damage


def _written(name: str, data: bytes) -> Damage:
    def damage(replica: Path) -> None:
        (replica / name).write_bytes(data)

    return damage


def _epochs(*epochs: tuple[int, int]) -> Damage:
    return _written(names.LEADER_EPOCHS_NAME, encode_leader_epochs(epochs).encode())


def _leader_epoch_back(replica: Path) -> None:
    patch(replica / "00000000000000000096.log", 0, leader_epoch=2)


def _with(entry: T, **changes: int) -> T:
    changed: T = msgspec.structs.replace(entry, **changes)
    return changed


BEGIN = "00000000000000000000"
LAST = "00000000000000000096"

DAMAGES: list[tuple[str, Damage, set[str]]] = [
    ("a flipped bit", _crc, {f"crc {SECOND}.log"}),
    ("a closed segment is cut off", _torn_in_the_middle, {f"torn {SECOND}.log"}),
    ("bytes behind the last batch", _torn_at_the_end, {f"torn {LAST}.log"}),
    (
        "an offset is there twice",
        _offset_twice,
        {f"offset-order {SECOND}.log", f"offset-gap {SECOND}.log"},
    ),
    (
        "a segment begins below its number",
        _segment_twice,
        {
            f"offset-order {THIRD}.log",
            f"offset-gap {THIRD}.log",
        },
    ),
    ("a batch is gone", _batch_gone, {f"offset-gap {SECOND}.log"}),
    ("a segment is gone", _segment_gone, {f"offset-gap {THIRD}.log"}),
    ("a sequence is left out", _sequence, {f"sequence {SECOND}.log"}),
    ("a sequence goes back between segments", _sequence_at_the_seam, {f"sequence {THIRD}.log"}),
    ("an epoch goes back", _epoch_up_and_back, {f"producer-epoch {SECOND}.log"}),
    (
        "a batch outside of the open transaction",
        _outside,
        {
            f"outside-transaction {BEGIN}.log",
            f"snapshot {SECOND}.snapshot",
            f"sequence {SECOND}.log",
        },
    ),
    (
        "an aborted transaction is not listed",
        _aborted_index(lambda entries: entries[1:]),
        {f"aborted-missing {SECOND}.txnindex"},
    ),
    (
        "a committed transaction is listed",
        _aborted_index(lambda entries: (*entries, _with(entries[-1], last_offset=47))),
        {f"aborted-extra {SECOND}.txnindex"},
    ),
    (
        "a wrong last stable offset",
        _aborted_index(lambda entries: (_with(entries[0], last_stable_offset=26), *entries[1:])),
        {f"aborted-differs {SECOND}.txnindex"},
    ),
    (
        "a .txnindex that can't be read",
        _written(f"{SECOND}.txnindex", b"no"),
        {f"unreadable-file {SECOND}.txnindex"},
    ),
    (
        "a snapshot of another epoch",
        _snapshot(lambda entries: (_with(entries[0], producer_epoch=3), *entries[1:])),
        {f"snapshot {THIRD}.snapshot"},
    ),
    (
        "a snapshot without an open transaction",
        _snapshot(lambda entries: tuple(one for one in entries if one.txn_first_offset < 0)),
        {f"snapshot {THIRD}.snapshot"},
    ),
    (
        "a snapshot with a producer that never was",
        _snapshot(lambda entries: (*entries, _with(entries[0], producer_id=99))),
        {f"snapshot {THIRD}.snapshot"},
    ),
    (
        "a snapshot that can't be read",
        _written(f"{SECOND}.snapshot", b"no"),
        {f"unreadable-file {SECOND}.snapshot"},
    ),
    (
        "a snapshot behind the end",
        _written("00000000000000000200.snapshot", producer_snapshot.encode(())),
        {"snapshot 00000000000000000200.snapshot"},
    ),
    (
        "an entry of .index in disorder",
        lambda replica: _flip(replica / f"{SECOND}.index", 2),
        {f"offset-index {SECOND}.index"},
    ),
    (
        "an entry of .index that points into a batch",
        lambda replica: _flip(replica / f"{SECOND}.index", 15),
        {f"offset-index {SECOND}.index"},
    ),
    (
        "a timestamp of .timeindex in disorder",
        lambda replica: _flip(replica / f"{SECOND}.timeindex", 7),
        {f"time-index {SECOND}.timeindex"},
    ),
    (
        "an offset of .timeindex behind the end",
        lambda replica: _flip(replica / f"{LAST}.timeindex", 22),
        {f"time-index {LAST}.timeindex"},
    ),
    (
        "half an entry in .index",
        _written(f"{SECOND}.index", b"odd"),
        {f"unreadable-file {SECOND}.index"},
    ),
    (
        "half an entry in .timeindex",
        _written(f"{SECOND}.timeindex", b"odd"),
        {f"unreadable-file {SECOND}.timeindex"},
    ),
    ("another start of a leader's epoch", _epochs((0, 0), (3, 58)), {f"leader-epoch {THIRD}.log"}),
    (
        "leader epochs that can't be read",
        _written(names.LEADER_EPOCHS_NAME, b"no"),
        {f"unreadable-file {names.LEADER_EPOCHS_NAME}"},
    ),
    ("a leader epoch goes back", _leader_epoch_back, {f"leader-epoch {LAST}.log"}),
]


@pytest.mark.parametrize(
    ("damage", "expected"), [one[1:] for one in DAMAGES], ids=[one[0] for one in DAMAGES]
)
def test_damage_is_found_and_nothing_else(
    log_dir: Path, damage: Damage, expected: set[str]
) -> None:
    damage(log_dir / "orders-0")
    found = _errors(found_in(log_dir))
    assert {f"{one.rule} {one.file}" for one in found} == expected
    assert {(one.broker, one.topic, one.partition) for one in found} == {(1, "orders", 0)}


def test_every_rule_has_its_damage() -> None:
    told = {word for *_, expected in DAMAGES for word in expected}
    elsewhere = {
        Invariant.COORDINATOR_EPOCH,  # test_producer_rules
        Invariant.IDLE_MARKER,
        Invariant.UNREADABLE_MARKER,  # test_segment_walk
        Invariant.CHECKPOINT,  # test_chain
        Invariant.REPLICAS,  # test_replica_rules
    }
    assert {text.split()[0] for text in told} == {rule.value for rule in Invariant} - elsewhere


def test_what_a_broker_makes_anew_is_a_notice_after_a_stop_out_of_order(log_dir: Path) -> None:
    (log_dir / names.CLEAN_SHUTDOWN_NAME).unlink()
    _torn_at_the_end(log_dir / "orders-0")
    (log_dir / "orders-0" / f"{SECOND}.index").write_bytes(b"odd")
    note_offset(log_dir, names.RECOVERY_POINTS_NAME, TopicPartition("orders", 0), 48)
    torn, index = sorted(
        (one for one in found_in(log_dir) if one.partition == 0), key=lambda one: one.rule
    )
    assert (torn.rule, torn.severity) == (Invariant.TORN, Severity.NOTICE)
    # In front of the recovery point nothing is made anew.
    assert (index.rule, index.severity) == (Invariant.UNREADABLE_FILE, Severity.ERROR)


def test_a_young_snapshot_has_every_producer(log_dir: Path) -> None:
    _snapshot(lambda entries: entries[1:])(log_dir / "orders-0")
    assert found_in(log_dir) == []
    (found,) = found_in(log_dir, expiration_ms=1 << 60)
    assert (found.rule, found.found) == (Invariant.SNAPSHOT, "producer 7: no such producer")


def _errors(found: list[Violation]) -> list[Violation]:
    return [one for one in found if one.severity is Severity.ERROR]
