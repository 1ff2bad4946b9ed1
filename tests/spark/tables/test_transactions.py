"""The transaction coordinators' log, as rows."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.broker_dirs import move
from tests.support.log_tables import broker_dir, segment, table
from tests.support.logs import NOW, plain
from txnsim.releases.rules import LATEST_RULES
from txnsim.txn.log_format import encode_batch, encode_key, encode_value
from txnsim.txn.state import Tombstone, TxnRecord
from txnsim.types import TopicPartition, TransactionalId, TransactionVersion
from txnsim.wire.batch import GZIP, LZ4, SNAPPY, ZSTD, Record, build_batch, control_batch
from txnsim_spark.tables._transactions import row_of, version_of

TV_0, TV_1, TV_2 = TransactionVersion
A_0, B_2 = TopicPartition("a", 0), TopicPartition("b", 2)
FOLDER = "__transaction_state-3"


def record(*, key: bytes, record_value: bytes | None) -> Record:
    return Record(key=key, value=record_value, timestamp_ms=NOW, offset=5)


def test_every_state_that_is_written_has_kafka_s_name(tmp_path: Path) -> None:
    names = [
        *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort"),
        *("CompleteCommit", "CompleteAbort"),
    ]
    batch_data = encode_batch(
        [move(name) for name in names],
        finalized_version=TV_2,
        now_ms=NOW,
        release_rules=LATEST_RULES,
    )
    segment(broker_dir(tmp_path) / FOLDER, [batch_data])
    assert [row["state"] for row in table(tmp_path, "transactions")] == names


@pytest.mark.parametrize(("transaction_version", "version"), [(TV_0, 0), (TV_1, 1), (TV_2, 1)])
def test_an_entry_is_told_in_both_versions(
    tmp_path: Path, transaction_version: TransactionVersion, version: int
) -> None:
    transition = move(
        "Ongoing", B_2, A_0, name="pay", producer_id=9, epoch=4, previous_id=8, timeout_ms=1_000
    )
    batch_data = encode_batch(
        [transition], finalized_version=transaction_version, now_ms=NOW, release_rules=LATEST_RULES
    )
    segment(broker_dir(tmp_path) / FOLDER, [batch_data], base_offset=6)
    (row,) = table(tmp_path, "transactions", has_times=False)
    del row["log_dir"], row["broker"]
    assert row == {
        "topic": "__transaction_state",
        "partition": 3,
        "segment_base_offset": 6,
        "offset": 6,
        "timestamp_ms": NOW,
        "transactional_id": "pay",
        "is_tombstone": False,
        "value_version": version,
        "state": "Ongoing",
        "producer_id": 9,
        "producer_epoch": 4,
        "previous_producer_id": 8 if version else None,
        "next_producer_id": None,
        "timeout_ms": 1_000,
        "partitions": [{"topic": "a", "partition": 0}, {"topic": "b", "partition": 2}],
        "start_timestamp_ms": NOW,
        "last_update_timestamp_ms": NOW,
        "client_transaction_version": 0,
        "problem": None,
    }


def test_a_tombstone_is_a_row_of_its_id(tmp_path: Path) -> None:
    records: list[TxnRecord] = [
        move("Empty", name="a"),
        Tombstone(transactional_id=TransactionalId("a")),
    ]
    segment(
        broker_dir(tmp_path) / FOLDER,
        [encode_batch(records, finalized_version=TV_2, now_ms=NOW, release_rules=LATEST_RULES)],
    )
    empty, tombstone = table(tmp_path, "transactions")
    assert (empty["state"], empty["partitions"], empty["start_timestamp_ms"]) == ("Empty", [], None)
    assert (tombstone["transactional_id"], tombstone["is_tombstone"]) == ("a", True)
    assert (tombstone["value_version"], tombstone["state"], tombstone["problem"]) == (
        None,
        None,
        None,
    )


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_compressed_batches_are_read(tmp_path: Path, codec: int) -> None:
    transition = move("PrepareCommit", A_0, name="pay")
    pair_record = Record(
        key=encode_key(transition.transactional_id),
        value=encode_value(transition, finalized_version=TV_2, release_rules=LATEST_RULES),
    )
    batch_data = build_batch([pair_record] * 3, timestamp_ms=NOW, compression=codec)
    segment(broker_dir(tmp_path) / FOLDER, [batch_data])
    assert [row["state"] for row in table(tmp_path, "transactions")] == ["PrepareCommit"] * 3


def test_only_the_coordinators_log_is_read_and_no_control_batch(tmp_path: Path) -> None:
    marker = control_batch(
        producer_id=1, producer_epoch=0, is_commit=True, coordinator_epoch=0, base_offset=0,
        leader_epoch=0, timestamp_ms=NOW,
    )  # fmt: skip
    broker_dir(tmp_path)
    segment(tmp_path / "orders-0", [plain()])
    segment(tmp_path / FOLDER, [marker])
    assert table(tmp_path, "transactions") == []


@pytest.mark.parametrize(
    ("key", "record_value", "expected_words"),
    [
        (b"\x00\x07\x00\x01a", b"\x00\x00", "key of version 7, only 0 is known"),
        (b"\x00", b"\x00\x00", "unreadable record"),
        (b"", None, "unreadable record"),
        (encode_key(TransactionalId("a")), b"\x00\x05", "value of version 5, 0 and 1 are known"),
        (encode_key(TransactionalId("a")), b"\x00\x01\x00", "unreadable record"),
        (
            encode_key(TransactionalId("a")),
            struct.pack("!hqhib", 0, 1, 0, 1, 66) + bytes(20),
            "unknown transaction state 66",
        ),
    ],
)
def test_what_can_t_be_read_is_a_row_that_says_so(
    key: bytes, record_value: bytes | None, expected_words: str
) -> None:
    row = row_of(record(key=key, record_value=record_value))
    assert row.problem is not None
    assert expected_words in row.problem
    assert (row.offset, row.timestamp_ms) == (5, NOW)
    assert row.value_version == version_of(record_value)
    assert (row.state, row.producer_id) == (None, None)


@given(st.binary(max_size=40), st.none() | st.binary(max_size=60))
def test_any_bytes_make_a_row(key: bytes, value: bytes | None) -> None:
    for key_prefix in (b"", b"\x00\x00\x00\x01a"):
        row = row_of(record(key=key_prefix + key, record_value=value))
        assert row.is_tombstone == (value is None)
        assert (row.problem is None) == (row.transactional_id is not None)


@given(st.binary(max_size=60))
def test_any_value_of_a_sound_key_makes_a_row(value: bytes) -> None:
    for version in (b"\x00\x00", b"\x00\x01"):
        row_of(record(key=encode_key(TransactionalId("a")), record_value=version + value))
