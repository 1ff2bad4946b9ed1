"""What each transactional id takes of ``__transaction_state``."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import NOW
from txnsim.storage import names
from txnsim.txn.state import Tombstone
from txnsim.types import TransactionalId
from txnsim.wire.batch import Record, assign, build_batch
from txnsim_spark.questions import growth as asked
from txnsim_spark.questions.growth import Growth, PartitionSize, growth, reasons_of

GONE = Tombstone(transactional_id=TransactionalId("gone"))


def broker(tmp_path: Path) -> Path:
    made = BrokerDir(tmp_path / "broker-1")
    made.coordinator(*[move("Empty", name="busy", pid=1)] * 5, move("Empty", name="calm", pid=2))
    made.coordinator(move("Empty", name="gone", pid=3), GONE, partition=1)
    return made.stop()


def looked(log_dir: Path, top: int = 10) -> Growth:
    return growth([log_dir], top=top, on_progress=lambda _: None)


def test_every_byte_is_some_ids(tmp_path: Path) -> None:
    log_dir = broker(tmp_path)
    found = looked(log_dir)
    size = sum(one.stat().st_size for one in log_dir.rglob(f"*{names.LOG_SUFFIX}"))
    assert (found.bytes, found.records, found.ids, found.tombstones) == (size, 8, 3, 1)
    assert sum(one.bytes for one in found.largest) == size
    by_id = {one.transactional_id: one for one in found.largest}
    busy, calm, gone = (by_id[name] for name in ("busy", "calm", "gone"))
    assert (busy.records, busy.live_bytes * 5) == (5, busy.bytes)
    assert (calm.records, calm.live_bytes) == (1, calm.bytes)
    assert (gone.records, gone.tombstones, gone.live_bytes) == (2, 1, 0)
    assert gone.is_forgotten
    assert not busy.is_forgotten
    live = busy.live_bytes + calm.live_bytes
    assert found.live_bytes == live
    assert found.dead_share == pytest.approx(1 - live / size)
    assert found.problems == ()


def test_only_the_largest_ids_are_told(tmp_path: Path) -> None:
    found = looked(broker(tmp_path), top=1)
    assert [one.transactional_id for one in found.largest] == ["busy"]
    assert found.ids == 3


def test_sums_in_between_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_dir = broker(tmp_path)
    whole = looked(log_dir)
    monkeypatch.setattr(asked, "MERGE_ROWS", 1)
    assert looked(log_dir) == whole


def segments(log_dir: Path) -> Path:
    """The same log in two segments, cleaned up to offset 2."""
    folder = log_dir / "__transaction_state-0"
    first = folder / names.file_name(0, names.LOG_SUFFIX)
    data = first.read_bytes()
    at = len(data) // 6 * 4
    first.write_bytes(data[:at])
    (folder / names.file_name(4, names.LOG_SUFFIX)).write_bytes(data[at:])
    (log_dir / names.CLEANER_OFFSETS_NAME).write_text("0\n1\n__transaction_state 0 2\n")
    return log_dir


def test_the_cleaner_is_told_with_what_waits_for_it(tmp_path: Path) -> None:
    found = looked(segments(broker(tmp_path))).partitions[0]
    each = found.bytes // 6
    assert (found.segments, found.cleaned_to, found.end_offset) == (2, 2, 6)
    assert (found.dirty_bytes, found.active_bytes) == (2 * each, 2 * each)


def test_a_torn_end_is_told(tmp_path: Path) -> None:
    log_dir = broker(tmp_path)
    with (log_dir / "__transaction_state-0" / names.file_name(0, names.LOG_SUFFIX)).open("ab") as f:
        f.write(b"torn")
    assert any("byte" in one for one in looked(log_dir).problems)


def test_keys_of_no_id_are_told_as_what_they_are(tmp_path: Path) -> None:
    log_dir = broker(tmp_path)
    with (log_dir / "__transaction_state-0" / names.file_name(0, names.LOG_SUFFIX)).open("ab") as f:
        for offset, key in enumerate((None, b"\0\1\0\1x", b"k" * 40_000), 6):
            batch = build_batch([Record(key=key, value=b"v")], timestamp_ms=NOW)
            f.write(assign(batch, base_offset=offset, leader_epoch=0))
    assert {one.transactional_id for one in looked(log_dir).largest} == {
        *("busy", "calm", "gone"),
        *("(no key)", "(an unknown key of 5 bytes)", "(a key of more than 32768 bytes)"),
    }


SIZE = PartitionSize(
    partition=0,
    broker=1,
    segments=2,
    bytes=100,
    records=10,
    ids=3,
    live_bytes=10,
    tombstones=0,
    log_start_offset=0,
    end_offset=10,
    cleaned_to=0,
    dirty_bytes=0,
    active_bytes=0,
    unread_bytes=0,
)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"bytes": 0}, "nothing is in it"),
        (
            {"cleaned_to": None, "dirty_bytes": 1},
            "the cleaner has noted no position for partition 0",
        ),
        ({"dirty_bytes": 60}, "60 % of 100 bytes waits for the cleaner"),
        ({"active_bytes": 60}, "60 % of 100 bytes is in newest segments"),
        ({"live_bytes": 60}, "60 % of 100 bytes is alive: 3 transactional ids"),
    ],
)
def test_numbers_have_their_reason(changes: dict[str, int | None], told: str) -> None:
    (reason,) = reasons_of([msgspec.structs.replace(SIZE, **changes)])
    assert reason.startswith(told)
