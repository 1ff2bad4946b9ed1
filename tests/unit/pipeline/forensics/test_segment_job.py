"""One walk says what the tables ``fragments`` and ``errors`` say, of sound and of damaged logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.log_tables import (
    Row,
    broker_dir,
    busy_log,
    cut,
    logs_of,
    overwrite,
    replica,
    table,
)
from txnsim.pipeline.forensics.segment_job import NOTED, SCHEMA, rows_of
from txnsim.pipeline.options import KafkaLogOptions
from txnsim.pipeline.planning import Reads, shares_of
from txnsim.pipeline.wanted import Wanted
from txnsim.wire.batch import read_batch_header

SHARED = [name for name in SCHEMA.names if name not in ("markers", *NOTED)]
TOLD_KINDS = {"torn", "format", "length", "crc"}


def walked(path: Path) -> list[Row]:
    options = KafkaLogOptions(paths=(path,))
    return [
        row
        for share in shares_of(options, Wanted(), Reads(segments=True))
        for rows in rows_of(share.segments)
        for row in rows.in_schema(SCHEMA).to_pylist()
    ]


Damage = Callable[[Path, int], None]
"""Of a segment, given where its second batch begins."""


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(
    ("damage", "is_told"),
    [
        (lambda _path, _at: None, {True: False, False: False}),
        (lambda path, at: cut(path, at + 20), {True: True, False: True}),
        (lambda path, at: overwrite(path, at + 8, b"\x7f\xff\xff\xff"), {True: True, False: True}),
        (lambda path, at: overwrite(path, at + 16, b"\x07"), {True: True, False: True}),
        (lambda path, at: overwrite(path, at + 70, b"\x07"), {True: True, False: True}),
    ],
    ids=["sound", "torn", "length", "format", "crc"],
)
def test_what_two_tables_tell(
    tmp_path: Path, damage: Damage, is_told: dict[bool, bool], is_clean: bool
) -> None:
    folder = replica(broker_dir(tmp_path, is_clean=is_clean), busy_log())
    first, *_ = logs_of(folder)
    damage(first, read_batch_header(first.read_bytes()).size)
    found = walked(tmp_path)
    fragments = [row for row in found if row["note"] is None]
    expected = table(tmp_path, "fragments")
    assert [{name: row[name] for name in SHARED} for row in fragments] == [
        {name: row[name] for name in SHARED} for row in expected
    ]
    assert [row["markers"] for row in fragments] == [
        row["commits"] + row["aborts"] for row in expected
    ]
    # After an orderly stop no broker computes a CRC; only what was asked for is told.
    rows = table(tmp_path, "errors", options={"checkCrc": "true"})
    errors = [row for row in rows if row["kind"] in TOLD_KINDS]
    notes = [row for row in found if row["note"] not in (None, "gap")]
    assert [(row["file"], row["position"], row["text"], row["note"]) for row in notes] == [
        (row["file"], row["position"], row["reason"], "cut" if row["is_cut"] else "damage")
        for row in errors
    ]
    assert all(row["producer_id"] is None for row in notes)
    assert bool(errors) is is_told[is_clean]


def test_missing_offsets_are_told(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    _, second, *_ = logs_of(folder)
    second.write_bytes(b"")
    gaps = [row for row in walked(tmp_path) if row["note"] == "gap"]
    assert [(row["file"], row["from_offset"]) for row in gaps] == [(str(second), int(second.stem))]
    assert gaps[0]["to_offset"] > gaps[0]["from_offset"]


@pytest.mark.parametrize("is_clean", [True, False])
def test_offsets_behind_a_tear_are_missing_where_the_log_goes_on(
    tmp_path: Path, is_clean: bool
) -> None:
    folder = replica(broker_dir(tmp_path, is_clean=is_clean), busy_log())
    first, second, *_ = logs_of(folder)
    cut(first, first.stat().st_size - 3)
    gaps = [row for row in walked(tmp_path) if row["note"] == "gap"]
    # After a crash all behind the tear is cut off: nothing is left that a gap could lie before.
    assert [row["to_offset"] for row in gaps] == ([int(second.stem)] if is_clean else [])


def test_a_segment_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    options = KafkaLogOptions(paths=(tmp_path,))
    (share,) = shares_of(options, Wanted(), Reads(segments=True))
    for path in logs_of(folder):
        path.unlink()
    told = [row for rows in rows_of(share.segments) for row in rows.in_schema(SCHEMA).to_pylist()]
    assert len(told) == len(share.segments)
    assert {row["text"] for row in told} == {"No such file or directory; passed by"}
    assert {row["note"] for row in told} == {"damage"}
