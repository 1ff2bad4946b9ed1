"""Our batches against those that Kafka's own classes wrote (``golden/batches.jsonl``)."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pytest

from tests.broker.codec.golden.record import HERE
from txnsim.wire.batch import (
    Record,
    build_batch,
    control_batch,
    crc_is_valid,
    iter_batches,
    read_batch_header,
    read_control_record,
    read_records,
)
from txnsim.wire.compression import NAMES

Line = dict[str, Any]

LINES: list[Line] = [json.loads(line) for line in (HERE / "batches.jsonl").read_text().splitlines()]
has_cramjam = importlib.util.find_spec("cramjam") is not None
needs_cramjam = pytest.mark.skipif(not has_cramjam, reason="cramjam has snappy, lz4 and zstd")
golden = pytest.mark.parametrize("line", [pytest.param(line, id=line["name"]) for line in LINES])
decodable = pytest.mark.parametrize(
    "line",
    [
        pytest.param(
            line, id=line["name"], marks=[needs_cramjam] if line["compression"] > 1 else []
        )
        for line in LINES
    ],
)


def raw(line: Line) -> bytes:
    return bytes.fromhex(line["hex"])


def records_of(line: Line) -> list[Record]:
    return [
        Record(
            offset=record["offset"],
            timestamp_ms=record["timestamp"],
            key=unhex(record["key"]),
            value=unhex(record["value"]),
            headers=tuple((key, unhex(value)) for key, value in record["headers"]),
        )
        for record in line["records"]
    ]


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@golden
def test_header_reads_as_kafka_reads_it(line: Line) -> None:
    header = read_batch_header(raw(line))
    assert {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "leaderEpoch": header.leader_epoch,
        "size": header.size,
        "crc": header.crc,
        "maxTimestamp": header.max_timestamp_ms,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "count": header.records_count,
        "compression": header.compression,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "logAppendTime": header.is_log_append_time,
    }.items() <= line.items()
    assert header.has_producer_id == (line["producerId"] >= 0)
    assert not header.has_delete_horizon
    assert header.magic == 2
    assert crc_is_valid(raw(line), header)


def test_batches_end_to_end_are_walked_in_order() -> None:
    log = b"".join(raw(line) for line in LINES)
    found = list(iter_batches(log))
    assert [header.crc for _, header in found] == [line["crc"] for line in LINES]
    assert all(crc_is_valid(log, header, position) for position, header in found)


@decodable
def test_records_read_as_kafka_reads_them(line: Line) -> None:
    assert read_records(raw(line)) == records_of(line)
    header = read_batch_header(raw(line))
    assert max(record.timestamp_ms or 0 for record in records_of(line)) == header.max_timestamp_ms


@decodable
def test_records_are_found_in_the_middle_of_a_log(line: Line) -> None:
    log = raw(LINES[0]) + raw(line) + raw(LINES[1])
    assert read_records(log, len(raw(LINES[0]))) == records_of(line)


@pytest.mark.parametrize(
    "line", [pytest.param(line, id=line["name"]) for line in LINES if line["name"][:4] == "none"]
)
def test_built_batch_has_the_same_bytes(line: Line) -> None:
    header = read_batch_header(raw(line))
    records = records_of(line)
    if header.is_log_append_time:
        # The deltas still hold the producer's times, which reading does not show.
        times = [record.timestamp_ms for record in records_of(LINES[0])]
        records = [
            Record(key=r.key, value=r.value, headers=r.headers, timestamp_ms=time)
            for r, time in zip(records, times, strict=True)
        ]
    built = build_batch(
        records,
        timestamp_ms=header.max_timestamp_ms,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        log_append_time=header.is_log_append_time,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
    )
    assert built == raw(line)


@pytest.mark.parametrize(
    "line",
    [pytest.param(line, id=line["name"]) for line in LINES if line["name"].endswith("marker")],
)
def test_marker_has_the_same_bytes(line: Line) -> None:
    committed = line["name"].startswith("commit")
    built = control_batch(
        producer_id=4711,
        producer_epoch=32766,
        committed=committed,
        coordinator_epoch=21,
        base_offset=12345,
        leader_epoch=7,
        timestamp_ms=1700000000123,
    )
    assert built == raw(line)
    assert len(built) == 78
    control = read_control_record(built)
    assert control is not None
    assert control.is_marker
    assert (control.type, control.coordinator_epoch) == (int(committed), 21)


def test_every_codec_was_recorded() -> None:
    assert {line["compression"] for line in LINES} == set(NAMES)
