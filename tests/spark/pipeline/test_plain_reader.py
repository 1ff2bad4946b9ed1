"""The tables ``batches`` and ``records``, compared field by field with a reader that shares no code
with them (``tests.support.plain_reader``).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import plain_reader
from tests.support.log_tables import Row, broker_dir, busy_log, replica, segment, table
from tests.support.logs import NOW, batch
from txnsim.types import TopicPartition
from txnsim.wire.batch import GZIP, LZ4, NONE, SNAPPY, ZSTD, Record, build_batch

if TYPE_CHECKING:
    from tests.spark.pipeline.corpus.made import Corpus

pytest.importorskip("duckdb", reason="the extra spark is not installed")

CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
LARGE = b"a value that is worth packing " * 400
ODD = [
    Record(key=None, value=None, headers=(("h", b"1"), ("h", None))),
    Record(key=b"", value=b"\x00\xff", timestamp_ms=NOW - 3),
    Record(key=b"k" * 200, value=LARGE, timestamp_ms=NOW + 7, headers=(("é", b""),)),
]


def compare_logs(log_dirs: list[Path]) -> Counter[str]:
    """Compare all fields of batches and records; returns the number of equal ones per codec.

    Args:
        log_dirs: Log directories without damage.
    """
    equal: Counter[str] = Counter()
    for log_dir in log_dirs:
        for name in ("batches", "records"):
            by_file: dict[str, list[Row]] = {}
            for row in table(log_dir, name, options={"checkCrc": "false"}):
                folder_path = f"{row['topic']}-{row['partition']}"
                file = f"{log_dir}/{folder_path}/{row['segment_base_offset']:020}.log"
                by_file.setdefault(file, []).append(row)
            for log in sorted(log_dir.glob("*/*.log")):
                expected = [
                    (batch["codec"], record)
                    for batch, records in plain_reader.batches_in(log)
                    for record in ([batch] if name == "batches" else records)
                ]
                rows = by_file.pop(str(log), [])
                assert len(rows) == len(expected), log
                for row, (codec, record) in zip(rows, expected, strict=True):
                    assert {key: row[key] for key in record} == record, log
                    equal[f"{name} {codec}"] += 1
            assert not by_file, "rows of files that are not there"
    return equal


@pytest.fixture
def log_dirs(tmp_path: Path) -> list[Path]:
    """Four directories: with transactions and markers, and with batches of every codec and odd
    records.
    """
    log_dirs_made = []
    for broker in range(1, 5):
        log_dir = broker_dir(tmp_path / f"broker-{broker}", broker=broker)
        replica(log_dir, busy_log(roll_bytes=500 * broker))
        replica(log_dir, busy_log(), TopicPartition("payments", broker))
        stored_batches = [
            record
            for codec in CODECS
            for record in (
                build_batch(ODD, timestamp_ms=NOW, compression=codec),
                build_batch(
                    ODD * broker,
                    timestamp_ms=NOW + broker,
                    producer_id=broker,
                    producer_epoch=1,
                    base_sequence=2**31 - 2,
                    is_transactional=True,
                    compression=codec,
                ),
                batch(0, count=50, record_value=LARGE, compression=codec),
            )
        ]
        segment(log_dir / "all-0", stored_batches, base_offset=8)
        log_dirs_made.append(log_dir)
    return log_dirs_made


def test_every_field_is_that_of_a_reader_of_its_own(log_dirs: list[Path]) -> None:
    equal = compare_logs(log_dirs)
    assert equal["batches none"] == 4 * (90 + 90 + 3)
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        assert equal[f"batches {codec}"] == 4 * 3
        assert equal[f"records {codec}"] == 4 * 53 + 3 * (1 + 2 + 3 + 4)


@pytest.mark.spark  # a real Kafka makes it
@pytest.mark.real
def test_so_is_every_field_on_directories_of_a_real_kafka(corpus: Corpus) -> None:
    equal = compare_logs([*corpus.brokers("clean")])
    assert {record.split()[1] for record in equal} == {"none", "gzip", "snappy", "lz4", "zstd"}
