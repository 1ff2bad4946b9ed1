from __future__ import annotations

import contextlib
import tracemalloc
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txnsim.errors import BadInputError, MalformedFrameError, UnsupportedRequestError
from txnsim.wire import registry
from txnsim.wire.apis import API_VERSIONS, APIS
from txnsim.wire.codec import (
    HEADER_TAGS_MAX,
    REQUEST_ELEMENTS_MAX,
    RequestHeader,
    build,
    builder,
    decode_request,
    encode_body,
    encode_request,
    frame_response,
    read_request_header,
    read_response,
    request_class,
    request_schema,
    response_class,
    response_head,
    response_schema,
)
from txnsim.wire.varint import uvarint

END_TXN = 26


def end_txn(version: int) -> Any:
    return build(
        request_class(END_TXN, version),
        transactional_id="tid",
        producer_id=1000,
        producer_epoch=3,
        committed=True,
    )


# Headers


@pytest.mark.parametrize("client_id", [None, "", "me", "größe", "x" * 32767])
@pytest.mark.parametrize("version", [0, 5])
def test_request_comes_back_as_it_was_sent(client_id: str | None, version: int) -> None:
    frame = encode_request(END_TXN, version, -7, client_id, end_txn(version))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header = read_request_header(frame[4:])
    assert header == RequestHeader(END_TXN, version, -7, client_id, header.body_offset)
    assert decode_request(header, frame[4:]) == end_txn(version)


def test_tagged_fields_of_a_header_are_skipped() -> None:
    frame = bytes.fromhex("001a0005 00000007 ffff 02 00020102 ac020101".replace(" ", ""))
    assert read_request_header(frame).body_offset == len(frame)


def test_client_id_of_invalid_utf8_is_mended_as_java_does() -> None:
    frame = bytes.fromhex("001a0000 00000007 0002 ff61".replace(" ", ""))
    assert read_request_header(frame).client_id == "\ufffda"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "0 bytes are fewer"),
        ("001a0000000000070", "8 bytes are fewer"),
        ("001a000000000007000361", "client id of 3 bytes"),
        ("001a000500000007ffff", "tagged fields at byte 10"),
        ("001a000500000007ffff808080808001", "more than five bytes"),
        ("001a000500000007ffff01000501", "end at byte 18"),
        ("001a000500000007ffffffffffff0f", "tagged fields"),
    ],
)
def test_broken_header_is_refused_with_its_place(data: str, reason: str) -> None:
    with pytest.raises(MalformedFrameError, match=reason):
        read_request_header(bytes.fromhex(data[: len(data) // 2 * 2]))


def test_the_header_of_an_unknown_api_is_read_to_name_the_client() -> None:
    header = read_request_header(bytes.fromhex("03e7000000000007000161"))
    assert (header.api_key, header.client_id, header.body_offset) == (999, "a", 11)


# Requests


@pytest.mark.parametrize("version", [6, 99, 32767])
def test_api_versions_of_an_unknown_version_is_read_without_its_body(version: int) -> None:
    frame = bytes.fromhex(f"0012{version:04x}00000007ffff00") + b"\xff\xff\xff"
    header = read_request_header(frame)
    assert header.api_version == version
    assert decode_request(header, frame) == request_class(API_VERSIONS, 0)()


@pytest.mark.parametrize(("key", "version"), [(END_TXN, 6), (0, 2), (999, 0)])
def test_unknown_request_is_refused(key: int, version: int) -> None:
    header = RequestHeader(key, version, 0, None, 0)
    with pytest.raises(UnsupportedRequestError):
        decode_request(header, b"")


def test_fault_in_a_body_names_api_version_and_byte() -> None:
    frame = encode_request(END_TXN, 5, 0, "me", end_txn(5))[4:-3]
    header = read_request_header(frame)
    # Header 13 bytes, the id 4; the numbers after it are cut off.
    with pytest.raises(
        MalformedFrameError, match=r"^EndTxn v5 request, byte 17 of 26: EndTxnRequest is cut off$"
    ):
        decode_request(header, frame)


@pytest.mark.parametrize("length", ["ffffffff0f", "ffffffff07", "80808010", "7f"])
def test_array_that_claims_too_much_is_refused_without_reserving_for_it(length: str) -> None:
    # AddPartitionsToTxn v3: id, producer id and epoch, then the topics.
    body = b"\x02a" + bytes(10) + bytes.fromhex(length)
    header = RequestHeader(24, 3, 0, None, 0)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedFrameError, match=r"topics claims \d+ elements in 0 bytes"):
            decode_request(header, body)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# Building


def test_values_for_other_versions_are_left_out() -> None:
    values = {"throttle_time": 0, "error_code": 0, "producer_id": 5, "producer_epoch": 1}
    old = build(response_class(END_TXN, 1), **values)
    new = build(response_class(END_TXN, 5), **values)
    assert not hasattr(old, "producer_id")
    assert (new.producer_id, new.producer_epoch) == (5, 1)


def test_builder_of_a_class_is_always_the_same() -> None:
    cls = response_class(END_TXN, 5)
    assert builder(cls) is builder(cls)
    assert builder(cls)(throttle_time=0, error_code=0) == build(cls, throttle_time=0, error_code=0)


def test_unknown_name_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="'produer_id'"):
        build(response_class(END_TXN, 5), throttle_time=0, error_code=0, produer_id=5)


def test_field_without_default_is_needed() -> None:
    with pytest.raises(TypeError, match="error_code"):
        build(response_class(END_TXN, 5), throttle_time=0)


def test_milliseconds_and_numbers_are_as_good_as_durations_and_enumerations() -> None:
    cls = response_class(END_TXN, 1)
    plain = build(cls, throttle_time=1500, error_code=51)
    kio = build(cls, throttle_time=timedelta(seconds=1.5), error_code=51)
    assert encode_body(plain) == encode_body(kio) == bytes.fromhex("000005dc0033")


def test_messages_made_by_their_own_constructor_are_encoded_too() -> None:
    made = request_class(END_TXN, 5)(
        transactional_id="tid", producer_id=1000, producer_epoch=3, committed=True
    )
    assert encode_body(made) == encode_body(end_txn(5))


def test_schemas_hold_the_parts_of_a_message() -> None:
    assert request_schema(0, 12).PartitionProduceData.__name__ == "PartitionProduceData"
    assert response_schema(0, 12).TopicProduceResponse.__name__ == "TopicProduceResponse"


# Responses


@pytest.mark.parametrize(
    ("key", "version", "header"),
    [(END_TXN, 1, "00000007"), (END_TXN, 5, "0000000700"), (API_VERSIONS, 4, "00000007")],
)
def test_response_header_follows_the_version_except_for_api_versions(
    key: int, version: int, header: str
) -> None:
    expected = bytes.fromhex(header) + b"body"
    framed = len(expected).to_bytes(4, "big") + expected
    assert frame_response(key, version, 7, b"body") == framed
    assert response_head(key, version, 7, 4) + b"body" == framed


def test_response_comes_back_as_it_was_sent() -> None:
    message = build(
        response_class(END_TXN, 5),
        throttle_time=timedelta(0),
        error_code=0,
        producer_id=7,
        producer_epoch=2,
    )
    frame = frame_response(END_TXN, 5, -1, encode_body(message))
    assert read_response(END_TXN, 5, frame[4:]) == (-1, message)


def test_short_response_is_refused() -> None:
    with pytest.raises(MalformedFrameError, match="no correlation id"):
        read_response(END_TXN, 5, b"\0\0\0")


def test_broken_response_names_its_api_and_byte() -> None:
    with pytest.raises(MalformedFrameError, match=r"EndTxn v5 response, byte 5 of 6"):
        read_response(END_TXN, 5, b"\0\0\0\7\0\0")


# Whatever comes


@given(data=st.binary(max_size=60))
def test_arbitrary_frames_are_requests_or_refused(data: bytes) -> None:
    with contextlib.suppress(BadInputError):
        decode_request(read_request_header(data), data)


BODIES = st.one_of(
    st.binary(max_size=80),
    # Lengths are small numbers: bodies of these get further.
    st.lists(st.sampled_from([0, 0, 0, 1, 2, 3, 255]), max_size=80).map(bytes),
)
KEYS_AND_VERSIONS = sorted((key, version) for key in APIS for version in registry.versions(key))


@pytest.mark.slow
@settings(max_examples=400)
@given(
    api=st.sampled_from(KEYS_AND_VERSIONS),
    body=BODIES,
)
def test_arbitrary_bodies_are_messages_or_refused(api: tuple[int, int], body: bytes) -> None:
    header = RequestHeader(*api, 0, None, 0)
    try:
        message = decode_request(header, body)
    except MalformedFrameError:
        return
    # Compared as bytes: a float may be no number.
    again = encode_body(message)
    assert encode_body(decode_request(header, again)) == again


@pytest.mark.slow
@settings(max_examples=200)
@given(api=st.sampled_from(KEYS_AND_VERSIONS), body=BODIES)
def test_arbitrary_responses_are_messages_or_refused(api: tuple[int, int], body: bytes) -> None:
    with contextlib.suppress(MalformedFrameError):
        read_response(*api, bytes(5) + body)


def test_a_request_with_too_many_elements_can_not_be_read() -> None:
    header = RequestHeader(16, 4, 1, None, 0)
    most = REQUEST_ELEMENTS_MAX

    def body(count: int) -> bytes:
        return uvarint(count + 1) + b"\x02x" * count + b"\0"

    assert len(decode_request(header, body(most)).states_filter) == most
    with pytest.raises(MalformedFrameError, match="more elements than a request may have"):
        decode_request(header, body(most + 1))


def test_a_header_with_too_many_tags_can_not_be_read() -> None:
    def frame(tags: int) -> bytes:
        return b"\0\x10\0\4\0\0\0\1\xff\xff" + uvarint(tags) + b"\x64\0" * tags

    assert read_request_header(frame(HEADER_TAGS_MAX)).api_key == 16
    with pytest.raises(MalformedFrameError, match="tagged fields"):
        read_request_header(frame(HEADER_TAGS_MAX + 1))


def test_a_long_api_versions_of_the_future_decodes_as_one_without_a_body() -> None:
    header = RequestHeader(
        api_key=18, api_version=99, correlation_id=1, client_id="app", body_offset=0
    )
    assert decode_request(header, b"\xff" * (REQUEST_ELEMENTS_MAX + 1)) is not None
