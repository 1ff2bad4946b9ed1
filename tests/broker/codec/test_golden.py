"""Our codec against bytes that Kafka's own classes or brokers wrote (``golden/``)."""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import json
import re
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from _pytest.mark import ParameterSet
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.broker.codec.golden.record import API_KEYS, HERE
from txnsim.api.registry import shipped_apis
from txnsim.errors import BadInputError, ErrorCode, MalformedFrameError
from txnsim.group.log_format import decode_record, encode_record
from txnsim.group.record_kinds import PARTITION_METADATA
from txnsim.releases import REFERENCE, RELEASES
from txnsim.wire import registry
from txnsim.wire.apis import APIS, api_name, is_flexible
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
from txnsim.wire.codec import (
    build,
    decode_request,
    encode_body,
    encode_request,
    frame_response,
    read_request_header,
    read_response,
    request_class,
    response_class,
)
from txnsim.wire.compression import CODEC_NAMES
from txnsim.wire.values import duration_ms, time_ms

# Our codec against the bytes that Kafka's own classes wrote (``golden/``).


CORRELATION_ID = 4242
CUTS = 10
"""Places at which a body of an older version is cut off, at least."""

Line = dict[str, Any]


def read_lines(file_name: str) -> list[Line]:
    return [json.loads(line) for line in (HERE / file_name).read_text().splitlines()]


LINES = read_lines("messages.jsonl")


def name_of(line: Line) -> str:
    return "-".join(
        (api_name(line["api"]), f"v{line['version']}", line["direction"], line["variant"])
    )


def by_api() -> Iterator[ParameterSet]:
    """All versions and variants of one request or response are one case."""
    for (api_key, direction), lines in groupby(
        LINES, lambda line: (line["api"], line["direction"])
    ):
        yield pytest.param(list(lines), id=f"{api_name(api_key)}-{direction}")


golden = pytest.mark.parametrize("lines", list(by_api()))


def frame_of(line: Line) -> bytes:
    """The golden frame without its size field."""
    if line["direction"] == "request":
        return bytes.fromhex(line["header"] + line["hex"])
    tags = "00" if line["headerVersion"] == 1 else ""
    return CORRELATION_ID.to_bytes(4, "big") + bytes.fromhex(tags + line["hex"])


def decode(line: Line) -> Any:
    frame = frame_of(line)
    if line["direction"] == "request":
        return decode_request(read_request_header(frame), frame)
    correlation_id, message = read_response(line["api"], line["version"], frame)
    assert correlation_id == CORRELATION_ID
    return message


# Comparing with Kafka's JSON


RENAMED = {
    "acceptable_recovery_lag_legacy": "acceptable_recovery_lag",
    "generation_id_or_member_epoch": "generation_id",
}
"""Fields of kio's whose name is that of an older release."""


def snake(name: str) -> str:
    """``throttleTimeMs`` -> ``throttle_time_ms``; kio's own irregular names are not reproduced."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def fields_by_json_name(message: Any, values: Line) -> dict[str, str]:
    """JSON name -> field name; kio drops the unit: ``throttleTimeMs`` is ``throttle_time``."""
    names = {field.name for field in fields(message)}
    names_by_json_name = {}
    for json_name in values:
        name = snake(json_name)
        if name not in names:
            name = RENAMED.get(name) or name.removesuffix("_ms")
        assert name in names, f"{type(message).__name__} has no field for {json_name}"
        names_by_json_name[json_name] = name
    return names_by_json_name


def assert_same(value: Any, expected: Any, field_path: str) -> None:
    match value:
        case timedelta():
            assert duration_ms(value) == expected, field_path
        case datetime():
            assert time_ms(value) == expected, field_path
        case UUID():
            assert value.bytes == base64.urlsafe_b64decode(expected + "=="), field_path
        case bytes():
            assert value == base64.b64decode(expected), field_path
        case tuple():
            assert len(value) == len(expected), field_path
            for index, (item, expected_item) in enumerate(zip(value, expected, strict=True)):
                assert_same(item, expected_item, f"{field_path}[{index}]")
        case ErrorCode():
            assert int(value) == expected, field_path
        case bool() | int() | float() | str():
            assert (type(value), value) == (type(expected), expected), field_path
        case None:
            # kio has None for no time and no id, too.
            assert expected in (None, -1, "AAAAAAAAAAAAAAAAAAAAAA"), field_path
        case _:
            assert_message(value, expected, field_path)


def assert_message(message: Any, values: Line, field_path: str) -> None:
    names = fields_by_json_name(message, values)
    for json_name, field_name in names.items():
        assert_same(getattr(message, field_name), values[json_name], f"{field_path}.{json_name}")
    for field in fields(message):
        if field.name not in names.values():
            assert "tag" in field.metadata, f"{field_path}: no value for {field.name}"


@golden
def test_decodes_to_the_values_that_kafka_wrote(lines: list[Line]) -> None:
    for line in lines:
        assert_message(decode(line), line["values"], name_of(line))


@golden
def test_encodes_to_the_same_bytes(lines: list[Line]) -> None:
    for line in lines:
        message = decode(line)
        body = bytes.fromhex(line["hex"])
        assert encode_body(message) == body, name_of(line)
        api = line["api"], line["version"]
        frame = frame_of(line)
        if line["direction"] == "request":
            client_id = read_request_header(frame).client_id
            written_bytes = encode_request(*api, CORRELATION_ID, client_id, message)
        else:
            written_bytes = frame_response(*api, CORRELATION_ID, body)
        assert written_bytes == len(frame).to_bytes(4, "big") + frame, name_of(line)


@golden
def test_built_message_equals_the_decoded_one(lines: list[Line]) -> None:
    for line in lines:
        message = decode(line)
        values = {field.name: getattr(message, field.name) for field in fields(message)}
        built = build(type(message), **values)
        assert type(built) is type(message)
        assert built == message == type(message)(**values), name_of(line)


@pytest.mark.costly
@golden
def test_a_body_that_is_cut_off_is_refused(lines: list[Line]) -> None:
    """The newest version is cut off at every byte, older versions at some bytes."""
    newest_version = max(line["version"] for line in lines)
    for line in lines:
        frame = frame_of(line)
        header_size = len(frame) - len(line["hex"]) // 2
        is_newest = line["version"] == newest_version
        step = 1 if is_newest else max(1, (len(frame) - header_size) // CUTS)
        for size in range(header_size, len(frame), step):
            with pytest.raises(
                MalformedFrameError, match=rf"v{line['version']} {line['direction']}"
            ):
                decode({**line, "hex": frame[header_size:size].hex()})


@golden
def test_bytes_after_the_body_are_tolerated(lines: list[Line]) -> None:
    for line in lines:
        assert decode({**line, "hex": line["hex"] + "0102"}) == decode(line), name_of(line)


def test_request_headers_are_read_as_kafka_writes_them() -> None:
    for line in LINES:
        if line["direction"] != "request":
            continue
        header = read_request_header(frame_of(line))
        assert (header.api_key, header.api_version) == (line["api"], line["version"])
        assert header.correlation_id == CORRELATION_ID
        assert header.client_id == (None if line["variant"] == "bare" else "client-ü")
        assert header.body_offset == len(line["header"]) // 2
        assert is_flexible(line["api"], line["version"]) == (line["headerVersion"] == 2)


def unreleased_versions() -> set[tuple[int, int]]:
    """Versions of APIs that only an unreleased Kafka has."""
    return {
        (key, version)
        for release in RELEASES.values()
        if not release.is_released
        for key, (_, highest) in release.api_versions.items()
        for version in range(REFERENCE.highest_version(key) + 1, highest + 1)
    }


def test_golden_bytes_cover_every_version_that_we_have_a_schema_for() -> None:
    recorded_schemas = {(line["api"], line["version"]) for line in LINES}
    schemas = {(api_key, version) for api_key in API_KEYS for version in registry.versions(api_key)}
    # DescribeTransactions v1 exists in the text of KIP-994 only; Kafka never wrote one. v0 of
    # WriteTxnMarkers is gone since 4.0: its bytes are in a test of its own.
    assert schemas - recorded_schemas - unreleased_versions() == {(27, 0), (65, 1)}
    # All that the reference has is here, unstable versions included: nothing is excepted.
    assert recorded_schemas - schemas == set()


@pytest.mark.slow
def test_table_of_apis_agrees_with_the_schemas() -> None:
    for api_key, (name, flexible_from) in APIS.items():
        for version in registry.versions(api_key):
            request = request_class(api_key, version)
            response = response_class(api_key, version)
            assert request.__name__ == name + "Request"
            assert response.__name__ == name + "Response"
            assert request.__api_key__ == api_key
            is_flexible = flexible_from is not None and version >= flexible_from
            assert request.__flexible__ == response.__flexible__ == is_flexible


# Our batches against those that Kafka's own classes wrote (``golden/batches.jsonl``).


GOLDEN_BATCHES_LINES: list[Line] = [
    json.loads(line) for line in (HERE / "batches.jsonl").read_text().splitlines()
]
has_cramjam = importlib.util.find_spec("cramjam") is not None
needs_cramjam = pytest.mark.skipif(not has_cramjam, reason="cramjam has snappy, lz4 and zstd")
golden_of_golden_batches = pytest.mark.parametrize(
    "line",
    [pytest.param(golden_line, id=golden_line["name"]) for golden_line in GOLDEN_BATCHES_LINES],
)
decodable = pytest.mark.parametrize(
    "line",
    [
        pytest.param(
            golden_line,
            id=golden_line["name"],
            marks=[needs_cramjam] if golden_line["compression"] > 1 else [],
        )
        for golden_line in GOLDEN_BATCHES_LINES
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
            headers=tuple((key, unhex(header_value)) for key, header_value in record["headers"]),
        )
        for record in line["records"]
    ]


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@golden_of_golden_batches
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
    log = b"".join(raw(golden_line) for golden_line in GOLDEN_BATCHES_LINES)
    positions_and_headers = list(iter_batches(log))
    assert [header.crc for _, header in positions_and_headers] == [
        golden_line["crc"] for golden_line in GOLDEN_BATCHES_LINES
    ]
    assert all(crc_is_valid(log, header, position) for position, header in positions_and_headers)


@decodable
def test_records_read_as_kafka_reads_them(line: Line) -> None:
    assert read_records(raw(line)) == records_of(line)
    header = read_batch_header(raw(line))
    assert max(record.timestamp_ms or 0 for record in records_of(line)) == header.max_timestamp_ms


@decodable
def test_records_are_found_in_the_middle_of_a_log(line: Line) -> None:
    log = raw(GOLDEN_BATCHES_LINES[0]) + raw(line) + raw(GOLDEN_BATCHES_LINES[1])
    assert read_records(log, len(raw(GOLDEN_BATCHES_LINES[0]))) == records_of(line)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, id=line["name"])
        for line in GOLDEN_BATCHES_LINES
        if line["name"][:4] == "none"
    ],
)
def test_built_batch_has_the_same_bytes(line: Line) -> None:
    header = read_batch_header(raw(line))
    records = records_of(line)
    if header.is_log_append_time:
        # The deltas still hold the producer's times, which reading does not show.
        times = [record.timestamp_ms for record in records_of(GOLDEN_BATCHES_LINES[0])]
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
        is_transactional=header.is_transactional,
        has_log_append_time=header.is_log_append_time,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
    )
    assert built == raw(line)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, id=line["name"])
        for line in GOLDEN_BATCHES_LINES
        if line["name"].endswith("marker")
    ],
)
def test_marker_has_the_same_bytes(line: Line) -> None:
    committed = line["name"].startswith("commit")
    built = control_batch(
        producer_id=4711,
        producer_epoch=32766,
        is_commit=committed,
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
    assert {golden_line["compression"] for golden_line in GOLDEN_BATCHES_LINES} == set(CODEC_NAMES)


# Golden bytes with a few of them changed: read, or refused; nothing else, and nothing huge.


MESSAGES = [json.loads(line) for line in (HERE / "messages.jsonl").read_text().splitlines()]
REQUESTS = [
    bytes.fromhex(line["header"] + line["hex"])
    for line in MESSAGES
    if line["direction"] == "request"
]
RESPONSES = [
    (line["api"], line["version"], bytes(4 + line["headerVersion"]) + bytes.fromhex(line["hex"]))
    for line in MESSAGES
    if line["direction"] == "response"
]
BATCHES = [
    bytes.fromhex(line["hex"])
    for file_text in (HERE / "batches.jsonl").read_text().splitlines()
    if (line := json.loads(file_text))["compression"] < 2
]

DAMAGES = st.lists(
    st.tuples(
        st.integers(min_value=0, max_value=5000),
        st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]),
    ),
    min_size=1,
    max_size=4,
)


def damage(frame_bytes: bytes, damages: list[tuple[int, int]]) -> bytes:
    changed_bytes = bytearray(frame_bytes)
    for position, value in damages:
        changed_bytes[position % len(changed_bytes)] = value
    return bytes(changed_bytes)


@pytest.mark.slow
@settings(max_examples=200)
@given(frame=st.sampled_from(REQUESTS), damages=DAMAGES)
def test_damaged_request_is_read_or_refused(frame: bytes, damages: list[tuple[int, int]]) -> None:
    damaged_frame = damage(frame, damages)
    tracemalloc.start()
    try:
        with contextlib.suppress(BadInputError):
            message = decode_request(read_request_header(damaged_frame), damaged_frame)
            encode_body(message)
        # A schema that is imported on the way takes most of this.
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@settings(max_examples=200)
@given(response=st.sampled_from(RESPONSES), damages=DAMAGES)
def test_damaged_response_is_read_or_refused(
    response: tuple[int, int, bytes], damages: list[tuple[int, int]]
) -> None:
    api_key, api_version, frame = response
    with contextlib.suppress(BadInputError):
        read_response(api_key, api_version, damage(frame, damages))


@pytest.mark.slow
@settings(max_examples=300)
@given(batch=st.sampled_from(BATCHES), damages=DAMAGES)
def test_damaged_batch_is_read_or_refused(batch: bytes, damages: list[tuple[int, int]]) -> None:
    damaged_batch = damage(batch, damages)
    # Compressions that need a library are not asked for here.
    damaged_batch = (
        damaged_batch[:22]
        + bytes([damaged_batch[22] & 0xF8 | batch[22] & 0x07])
        + damaged_batch[23:]
    )
    readers: list[Callable[[bytes], object]] = [
        lambda batch_data: list(iter_batches(batch_data)),
        read_records,
        read_control_record,
    ]
    for read in readers:
        with contextlib.suppress(BadInputError):
            read(damaged_batch)


# Release data against what the classes of the reference say (``golden/release.json``).


GOLDEN = json.loads((HERE / "release.json").read_text())

CLIENT_METRICS = {"71", "72"}
"""Listed by a broker only with a metrics reporter that takes client metrics."""


def test_api_versions_are_those_of_a_broker() -> None:
    version_ranges = {str(key): list(versions) for key, versions in REFERENCE.api_versions.items()}
    broker = {key: value for key, value in GOLDEN["broker"].items() if key not in CLIENT_METRICS}
    assert version_ranges == broker
    assert list(version_ranges) == list(broker)


def test_versions_between_the_advertised_and_the_oldest_real_one_are_refused() -> None:
    for key, (lowest, highest) in REFERENCE.api_versions.items():
        oldest_version = GOLDEN["oldest"][str(key)]
        accepted = [v for v in range(lowest - 1, highest + 2) if REFERENCE.accepts(key, v)]
        assert accepted == list(range(oldest_version, highest + 1))


def test_controller_versions_are_those_of_a_controller() -> None:
    for key, versions in REFERENCE.controller_api_versions.items():
        assert list(versions) == GOLDEN["controller"][str(key)]


def test_features_are_those_of_the_release() -> None:
    assert GOLDEN["features"] == {
        feature_name: [feature.min_level, feature.max_level, feature.new_cluster_level]
        for feature_name, feature in REFERENCE.features.items()
    }


def test_every_accepted_version_has_a_schema() -> None:
    for key, (lowest, highest) in shipped_apis(REFERENCE).accepted.items():
        assert set(range(lowest, highest + 1)) <= set(registry.versions(key))


# Records of ``__consumer_offsets`` as Apache Kafka 4.3.1 wrote them, read and written again. They
# are of one session with a real broker: positions (also with a retention, and in a transaction), a
# classic group with a dynamic and with a static member, a group of the consumer protocol with
# static members and a regular expression, and the tombstones of all that.


FILE: Final = Path(__file__).with_name("golden") / "group_records.jsonl"
GOLDEN_GROUP_RECORDS_LINES: Final = [
    json.loads(line) for line in FILE.read_text("utf-8").splitlines()
]


@pytest.mark.parametrize("line", GOLDEN_GROUP_RECORDS_LINES, ids=lambda line: line["key"][:4])
def test_a_record_is_written_as_it_was_read(line: dict[str, str | None]) -> None:
    key = bytes.fromhex(line["key"] or "")
    record_value = None if line["value"] is None else bytes.fromhex(line["value"])
    record = decode_record(key, record_value)
    if int.from_bytes(key[:2], "big") == PARTITION_METADATA:
        assert record is None  # what coordinators of before 4.1 kept
        return
    assert record is not None
    assert encode_record(record) == (key, record_value)
