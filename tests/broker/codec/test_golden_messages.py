"""Our codec against the bytes that Kafka's own classes wrote (``golden/``)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any
from uuid import UUID

import pytest
from _pytest.mark import ParameterSet

from tests.broker.codec.golden.record import API_KEYS, HERE
from txnsim.errors import ErrorCode, MalformedFrameError
from txnsim.releases import REFERENCE, RELEASES
from txnsim.wire import registry
from txnsim.wire.apis import APIS, api_name, is_flexible
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
from txnsim.wire.values import duration_ms, time_ms

CORRELATION_ID = 4242
CUTS = 10
"""Places at which a body of an older version is cut off, at least."""

Line = dict[str, Any]


def read_lines(name: str) -> list[Line]:
    return [json.loads(line) for line in (HERE / name).read_text().splitlines()]


LINES = read_lines("messages.jsonl")


def name_of(line: Line) -> str:
    return "-".join(
        (api_name(line["api"]), f"v{line['version']}", line["direction"], line["variant"])
    )


def by_api() -> Iterator[ParameterSet]:
    """All versions and variants of one request or response are one case."""
    for (key, direction), lines in groupby(LINES, lambda line: (line["api"], line["direction"])):
        yield pytest.param(list(lines), id=f"{api_name(key)}-{direction}")


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


RENAMED = {"generation_id_or_member_epoch": "generation_id"}
"""Fields of kio's whose name is that of an older release."""


def snake(name: str) -> str:
    """``throttleTimeMs`` -> ``throttle_time_ms``; kio's own irregular names are not reproduced."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def fields_by_json_name(message: Any, values: Line) -> dict[str, str]:
    """JSON name -> field name; kio drops the unit: ``throttleTimeMs`` is ``throttle_time``."""
    names = {field.name for field in fields(message)}
    found = {}
    for json_name in values:
        name = snake(json_name)
        if name not in names:
            name = RENAMED.get(name) or name.removesuffix("_ms")
        assert name in names, f"{type(message).__name__} has no field for {json_name}"
        found[json_name] = name
    return found


def assert_same(value: Any, expected: Any, where: str) -> None:
    match value:
        case timedelta():
            assert duration_ms(value) == expected, where
        case datetime():
            assert time_ms(value) == expected, where
        case UUID():
            assert value.bytes == base64.urlsafe_b64decode(expected + "=="), where
        case bytes():
            assert value == base64.b64decode(expected), where
        case tuple():
            assert len(value) == len(expected), where
            for index, (item, expected_item) in enumerate(zip(value, expected, strict=True)):
                assert_same(item, expected_item, f"{where}[{index}]")
        case ErrorCode():
            assert int(value) == expected, where
        case bool() | int() | float() | str():
            assert (type(value), value) == (type(expected), expected), where
        case None:
            # kio has None for no time and no id, too.
            assert expected in (None, -1, "AAAAAAAAAAAAAAAAAAAAAA"), where
        case _:
            assert_message(value, expected, where)


def assert_message(message: Any, values: Line, where: str) -> None:
    names = fields_by_json_name(message, values)
    for json_name, name in names.items():
        assert_same(getattr(message, name), values[json_name], f"{where}.{json_name}")
    for field in fields(message):
        if field.name not in names.values():
            assert "tag" in field.metadata, f"{where}: no value for {field.name}"


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
            written = encode_request(*api, CORRELATION_ID, client_id, message)
        else:
            written = frame_response(*api, CORRELATION_ID, body)
        assert written == len(frame).to_bytes(4, "big") + frame, name_of(line)


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
    """At every place in the newest version, at some places in each older one."""
    newest = max(line["version"] for line in lines)
    for line in lines:
        frame = frame_of(line)
        header_size = len(frame) - len(line["hex"]) // 2
        is_newest = line["version"] == newest
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


def announced() -> set[tuple[int, int]]:
    """Versions that only a release brings whose jar can't be had yet."""
    return {
        (key, version)
        for release in RELEASES.values()
        if not release.is_released
        for key, (_, highest) in release.api_versions.items()
        for version in range(REFERENCE.highest(key) + 1, highest + 1)
    }


def test_golden_bytes_cover_every_version_that_we_have_a_schema_for() -> None:
    recorded = {(line["api"], line["version"]) for line in LINES}
    ours = {(key, version) for key in API_KEYS for version in registry.versions(key)}
    # DescribeTransactions v1 exists in the text of KIP-994 only; Kafka never wrote one. v0 of
    # WriteTxnMarkers is gone since 4.0: its bytes are in a test of its own.
    assert ours - recorded - announced() == {(27, 0), (65, 1)}
    # All that the reference has is here, unstable versions included: nothing is excepted.
    assert recorded - ours == set()


@pytest.mark.slow
def test_table_of_apis_agrees_with_the_schemas() -> None:
    for key, (name, flexible_from) in APIS.items():
        for version in registry.versions(key):
            request = request_class(key, version)
            response = response_class(key, version)
            assert request.__name__ == name + "Request"
            assert response.__name__ == name + "Response"
            assert request.__api_key__ == key
            flexible = flexible_from is not None and version >= flexible_from
            assert request.__flexible__ == response.__flexible__ == flexible
