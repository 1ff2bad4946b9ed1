"""Golden bytes with a few of them changed: read, or refused; nothing else, and nothing huge."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.broker.codec.golden.record import HERE
from txnsim.errors import BadInputError
from txnsim.wire.batch import (
    iter_batches,
    read_control_record,
    read_records,
)
from txnsim.wire.codec import (
    decode_request,
    encode_body,
    read_request_header,
    read_response,
)

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
    for text in (HERE / "batches.jsonl").read_text().splitlines()
    if (line := json.loads(text))["compression"] < 2
]

DAMAGES = st.lists(
    st.tuples(
        st.integers(min_value=0, max_value=5000),
        st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]),
    ),
    min_size=1,
    max_size=4,
)


def damage(data: bytes, damages: list[tuple[int, int]]) -> bytes:
    changed = bytearray(data)
    for position, value in damages:
        changed[position % len(changed)] = value
    return bytes(changed)


@pytest.mark.slow
@settings(max_examples=200)
@given(frame=st.sampled_from(REQUESTS), damages=DAMAGES)
def test_damaged_request_is_read_or_refused(frame: bytes, damages: list[tuple[int, int]]) -> None:
    damaged = damage(frame, damages)
    tracemalloc.start()
    try:
        with contextlib.suppress(BadInputError):
            message = decode_request(read_request_header(damaged), damaged)
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
    damaged = damage(batch, damages)
    # Compressions that need a library are not asked for here.
    damaged = damaged[:22] + bytes([damaged[22] & 0xF8 | batch[22] & 0x07]) + damaged[23:]
    readers: list[Callable[[bytes], object]] = [
        lambda data: list(iter_batches(data)),
        read_records,
        read_control_record,
    ]
    for read in readers:
        with contextlib.suppress(BadInputError):
            read(damaged)
