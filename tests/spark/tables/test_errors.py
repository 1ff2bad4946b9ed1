"""Damage of every kind of file: its place, its size, whether a broker would cut it off."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.log_tables import (
    Row,
    broker_dir,
    busy_log,
    cut,
    logs_of,
    overwrite,
    replica,
    segment,
    table,
)
from tests.support.logs import plain
from tests.support.old_messages import old_message
from txnsim.storage import names
from txnsim.storage.txn_index import ENTRY_BYTES
from txnsim_spark.options import KafkaLogOptions
from txnsim_spark.scan.segments import replicas_in
from txnsim_spark.tables._errors import read_replica
from txnsim_spark.tables.rows import Job

BATCH = len(plain())


def short(row: Row) -> tuple[str, str, int, int, bool]:
    """Which file, and what is wrong where."""
    return (
        Path(row["file"]).name,
        row["kind"],
        row["position"],
        row["size_bytes"],
        row["is_cut"],
    )


def errors(path: Path, **options: str) -> list[tuple[str, str, int, int, bool]]:
    return [short(row) for row in table(path, "errors", options=options)]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_sound_directory_has_none(tmp_path: Path, is_clean: bool) -> None:
    replica(broker_dir(tmp_path, is_clean=is_clean), busy_log())
    assert errors(tmp_path, checkCrc="true", checkRecords="true") == []


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(
    ("damage", "kind", "position"),
    [
        (lambda path: cut(path, 2 * BATCH - 1), "torn", BATCH),
        (lambda path: cut(path, BATCH + 30), "torn", BATCH),
        (lambda path: overwrite(path, BATCH + 8, b"\x7f\xff\xff\xff"), "length", BATCH),
        (lambda path: overwrite(path, BATCH + 8, b"\xff\xff\xff\xff"), "length", BATCH),
        (lambda path: overwrite(path, BATCH + 16, b"\x07"), "format", BATCH),
        (lambda path: overwrite(path, BATCH, bytes(BATCH)), "length", BATCH),
    ],
)
def test_a_segment_that_stops_making_sense_is_told_with_its_place(
    tmp_path: Path, is_clean: bool, damage: object, kind: str, position: int
) -> None:
    path = segment(broker_dir(tmp_path, is_clean=is_clean) / "orders-0", [plain(), plain()])
    assert callable(damage)
    damage(path)
    left = path.stat().st_size - position
    assert errors(tmp_path) == [(path.name, kind, position, left, not is_clean)]
    (row,) = table(tmp_path, "errors")
    assert (row["topic"], row["partition"], row["segment_base_offset"]) == ("orders", 0, 0)
    assert row["reason"]
    assert len(table(tmp_path, "batches")) == 1


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_told_and_not_cut(tmp_path: Path, magic: int) -> None:
    data = old_message(magic, offset=3)
    path = segment(broker_dir(tmp_path, is_clean=False) / "orders-0", [])
    path.write_bytes(data)
    assert errors(tmp_path) == [(path.name, "format", 0, len(data), False)]


def test_what_lies_behind_a_cut_segment_goes_with_it(tmp_path: Path) -> None:
    broker_dir(tmp_path, is_clean=False)
    first = segment(tmp_path / "orders-0", [plain(), plain()])
    second = segment(tmp_path / "orders-0", [plain()], base_offset=2)
    overwrite(first, BATCH + 40, b"!")
    assert errors(tmp_path) == [
        (first.name, "crc", BATCH, BATCH, True),
        (second.name, "behind", 0, BATCH, True),
    ]
    assert [row["base_offset"] for row in table(tmp_path, "batches")] == [0]
    assert errors(tmp_path, checkCrc="false") == []


def test_every_wrong_crc_is_told_where_all_are_computed(tmp_path: Path) -> None:
    path = segment(broker_dir(tmp_path) / "orders-0", [plain()] * 4)
    for number in (1, 3):
        overwrite(path, number * BATCH + 50, b"!")
    assert errors(tmp_path) == []
    assert errors(tmp_path, checkCrc="true") == [
        (path.name, "crc", BATCH, BATCH, False),
        (path.name, "crc", 3 * BATCH, BATCH, False),
    ]


def test_records_that_can_t_be_decoded_are_told_where_batches_are_looked_into(
    tmp_path: Path,
) -> None:
    damaged = bytearray(plain(3))
    damaged[60] = 9
    path = segment(broker_dir(tmp_path) / "orders-0", [plain(), bytes(damaged), plain()])
    assert errors(tmp_path) == []
    assert errors(tmp_path, checkRecords="true") == [
        (path.name, "records", BATCH, len(damaged), False)
    ]


def test_indexes_of_aborted_transactions_are_told_at_the_entry(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    index = folder / names.file_name(0, names.TXN_INDEX_SUFFIX)
    size = index.stat().st_size
    overwrite(index, ENTRY_BYTES, b"\x00\x09")
    left = size - ENTRY_BYTES
    assert errors(tmp_path) == [(index.name, "txn_index", ENTRY_BYTES, left, False)]
    cut(index, ENTRY_BYTES + 5)
    assert errors(tmp_path) == [(index.name, "txn_index", ENTRY_BYTES, 5, False)]


def test_snapshots_are_told(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    offset, path = names.numbered_files(folder, names.SNAPSHOT_SUFFIX)[0]
    size = path.stat().st_size
    overwrite(path, 20, b"!!!!")
    assert errors(tmp_path) == [(path.name, "snapshot", 0, size, False)]
    assert table(tmp_path, "errors")[0]["segment_base_offset"] == offset


@pytest.mark.parametrize(
    ("folder", "name", "data", "kind"),
    [
        ("orders-0", names.LEADER_EPOCHS_NAME, b"0\n2\n0 0\n", "checkpoint"),
        ("orders-0", names.LEADER_EPOCHS_NAME, b"\xff", "checkpoint"),
        ("orders-0", names.PARTITION_METADATA_NAME, b"version: 1\n", "metadata"),
        *(("", name, b"nonsense\n", "checkpoint") for name in names.CHECKPOINTS),
        ("", names.META_PROPERTIES_NAME, b"nonsense\n", "metadata"),
    ],
)
def test_small_files_are_told_and_those_at_the_top_of_no_replica(
    tmp_path: Path, folder: str, name: str, data: bytes, kind: str
) -> None:
    replica(broker_dir(tmp_path), busy_log())
    (tmp_path / folder / name).write_bytes(data)
    assert errors(tmp_path) == [(name, kind, 0, len(data), False)]
    (row,) = table(tmp_path, "errors")
    place = ("orders", 0) if folder else (None, None)
    assert (row["topic"], row["partition"], row["segment_base_offset"]) == (*place, None)
    assert row["log_dir"] == str(tmp_path)


def test_what_can_t_be_read_at_all_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    """A folder instead of a file stands for everything that the system refuses to open."""
    folder = replica(broker_dir(tmp_path), busy_log())
    logs = logs_of(folder)
    snapshot = names.numbered_files(folder, names.SNAPSHOT_SUFFIX)[0][1]
    index = folder / names.file_name(0, names.TXN_INDEX_SUFFIX)
    for path in (logs[1], snapshot, index):
        path.unlink()
        path.mkdir()
    told = {(name, kind) for name, kind, *_ in errors(tmp_path)}
    assert told == {(path.name, "unreadable") for path in (logs[1], snapshot, index)}
    bases = {row["segment_base_offset"] for row in table(tmp_path, "batches")}
    assert len(bases) == len(logs) - 1


def test_a_file_whose_size_can_t_be_had_is_told(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    loop = folder / names.file_name(999, names.LOG_SUFFIX)
    loop.symlink_to(loop)
    assert errors(tmp_path) == [(loop.name, "unreadable", 0, 0, False)]
    assert len(table(tmp_path, "batches")) == 90


def test_a_folder_that_can_t_be_listed_is_told(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    (found,) = replicas_in([tmp_path])
    folder.rename(tmp_path / "elsewhere")
    job = Job(options=KafkaLogOptions.of({"path": str(tmp_path), "table": "errors"}), columns=())
    (rows,) = read_replica(found, job)
    kinds = pa.schema([("kind", pa.string()), ("file", pa.string())])
    assert rows.in_schema(kinds).to_pylist() == [{"kind": "unreadable", "file": str(folder)}]
