"""The share coordinators' log, as rows."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.log_tables import Row, broker_dir, segment, share_states, table
from tests.support.logs import NOW, plain
from txnsim.interbroker.share_state import ShareKey
from txnsim.share_state.log_format import encode_record
from txnsim.share_state.records import ShareDeleted, ShareUpdate
from txnsim.wire.batch import Record, build_batch
from txnsim_spark.tables._share_states import row_of

FOLDER: Final = "__share_group_state-3"
KEY, UPDATE = encode_record(
    ShareUpdate(
        key=ShareKey("g", "A" * 22, 1),
        snapshot_epoch=1,
        leader_epoch=2,
        start_offset=3,
        delivery_complete_count=4,
    )
)


def rows_of(tmp_path: Path, log_bytes: bytes) -> list[Row]:
    segment(broker_dir(tmp_path) / FOLDER, [log_bytes], base_offset=6)
    rows = table(tmp_path, "share_states", has_times=False)
    for row in rows:
        del row["log_dir"], row["broker"]
    return rows


def test_what_kafka_wrote_is_told_with_where_it_stands(tmp_path: Path) -> None:
    first_row, _, snapshot, update, tombstone = rows_of(tmp_path, share_states())
    log_position = {
        "topic": "__share_group_state",
        "partition": 3,
        "segment_base_offset": 6,
        "timestamp_ms": NOW,
        "group_id": "g",
        "shared_topic_id": "qHBm7qF0QeCvHxCmWtCZ2w",
        "shared_partition": 3,
        "problem": None,
    }
    state = {
        "value_version": 0,
        "is_tombstone": False,
        "snapshot_epoch": 3,
        "leader_epoch": 7,
        "start_offset": 5,
        "delivery_complete_count": 6,
        "state_batches": [
            dict(
                zip(
                    ("first_offset", "last_offset", "delivery_state", "delivery_count"),
                    batch,
                    strict=True,
                )
            )
            for batch in ((5, 9, 2, 1), (12, 12, 0, 300), (2**40, 2**40 + 1, 4, 5))
        ],
    }
    times = {"create_timestamp_ms": 1_700_000_000_000, "write_timestamp_ms": 1_700_000_300_000}
    record_fields = {"kind": "snapshot", "key_version": 0, "state_epoch": 2}
    assert snapshot == {**log_position, **state, **times, **record_fields, "offset": 8}
    null_fields = dict.fromkeys((*times, "state_epoch"))
    assert update == {
        **log_position, **state, **null_fields, "kind": "update", "key_version": 1, "offset": 9,
    }  # fmt: skip
    assert tombstone == {
        **log_position, **dict.fromkeys(state), **null_fields, "kind": "snapshot", "key_version": 0,
        "offset": 10, "is_tombstone": True,
    }  # fmt: skip
    assert (first_row["start_offset"], first_row["delivery_complete_count"]) == (None, None)
    assert first_row["state_batches"] == []


@pytest.mark.parametrize(
    ("key", "record_value", "kind", "expected_words"),
    [
        (b"\0\2" + KEY[2:], UPDATE, "unknown", "a key of version 2, which is no kind that is"),
        (b"", UPDATE, "unknown", "unreadable record of __share_group_state"),
        (KEY[:-1], UPDATE, "update", "unreadable record of __share_group_state"),
        (KEY, None, "update", "update: a tombstone, which only a snapshot has"),
        (KEY, b"\0\1" + (UPDATE or b"")[2:], "update", "update: a value of version 1, only 0 is"),
        (KEY, (UPDATE or b"")[:-1], "update", "unreadable record of __share_group_state"),
    ],
)
def test_a_record_that_cannot_be_read_has_a_problem(
    key: bytes, record_value: bytes | None, kind: str, expected_words: str
) -> None:
    row = row_of(Record(key=key, value=record_value, offset=4))
    assert row.problem is not None
    assert row.problem.startswith(expected_words)
    assert (row.kind, row.group_id, row.state_batches, row.offset) == (kind, None, None, 4)


@given(st.integers(0, 3), st.binary(max_size=40), st.none() | st.binary(max_size=60))
def test_any_bytes_make_a_row(kind: int, key: bytes, value: bytes | None) -> None:
    row = row_of(Record(key=struct.pack("!h", kind) + key, value=value))
    assert (row.problem is None) == (row.group_id is not None)


def test_only_the_share_coordinators_log_is_read(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain()])
    assert table(tmp_path, "share_states") == []


def test_a_state_that_was_deleted_names_its_partition(tmp_path: Path) -> None:
    key, record_value = encode_record(ShareDeleted(key=ShareKey("h", "A" * 22, 2)))
    batch_data = build_batch([Record(key=key, value=record_value)], timestamp_ms=NOW)
    (row,) = rows_of(tmp_path, batch_data)
    assert (row["group_id"], row["shared_partition"], row["is_tombstone"]) == ("h", 2, True)
