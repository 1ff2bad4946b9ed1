"""Messages to bytes and back."""

from __future__ import annotations

import contextlib
import tracemalloc
from dataclasses import FrozenInstanceError
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader

from tests.support.old_messages import old_message
from txnsim.errors import BadInputError, MalformedFrameError, UnsupportedRequestError
from txnsim.wire import registry
from txnsim.wire._codegen import CodeSource, twin_of
from txnsim.wire.apis import API_VERSIONS, APIS
from txnsim.wire.codec import (
    HEADER_TAGS_MAX,
    REQUEST_ELEMENTS_MAX,
    RequestHeader,
    build,
    builder,
    decode_request,
    encode_body,
    encode_in_steps,
    encode_request,
    frame_message,
    frame_response,
    read_request_header,
    read_response,
    request_class,
    request_schema,
    response_class,
    response_head,
    response_schema,
    run_to_end,
)
from txnsim.wire.decoder import COPIED_RECORDS_MAX, DecodeFaultError, read_in_steps, reader
from txnsim.wire.encoder import STEP_ELEMENTS, STEP_STRINGS, maker
from txnsim.wire.old_messages import OldMessage
from txnsim.wire.plain_values import message_from
from txnsim.wire.varint import read_uvarint, uvarint

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


@pytest.mark.parametrize(("api_key", "version"), [(END_TXN, 6), (0, 2), (999, 0)])
def test_unknown_request_is_refused(api_key: int, version: int) -> None:
    header = RequestHeader(api_key, version, 0, None, 0)
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
    old_message = build(response_class(END_TXN, 1), **values)
    new_message = build(response_class(END_TXN, 5), **values)
    assert not hasattr(old_message, "producer_id")
    assert (new_message.producer_id, new_message.producer_epoch) == (5, 1)


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
    plain_message = build(cls, throttle_time=1500, error_code=51)
    kio = build(cls, throttle_time=timedelta(seconds=1.5), error_code=51)
    assert encode_body(plain_message) == encode_body(kio) == bytes.fromhex("000005dc0033")


def test_messages_made_by_their_own_constructor_are_encoded_too() -> None:
    request = request_class(END_TXN, 5)(
        transactional_id="tid", producer_id=1000, producer_epoch=3, committed=True
    )
    assert encode_body(request) == encode_body(end_txn(5))


def test_schemas_hold_the_parts_of_a_message() -> None:
    assert request_schema(0, 12).PartitionProduceData.__name__ == "PartitionProduceData"
    assert response_schema(0, 12).TopicProduceResponse.__name__ == "TopicProduceResponse"


# Responses


@pytest.mark.parametrize(
    ("api_key", "version", "header"),
    [(END_TXN, 1, "00000007"), (END_TXN, 5, "0000000700"), (API_VERSIONS, 4, "00000007")],
)
def test_response_header_follows_the_version_except_for_api_versions(
    api_key: int, version: int, header: str
) -> None:
    expected = bytes.fromhex(header) + b"body"
    framed = len(expected).to_bytes(4, "big") + expected
    assert frame_response(api_key, version, 7, b"body") == framed
    assert response_head(api_key, version, 7, 4) + b"body" == framed


def test_response_comes_back_as_it_was_sent() -> None:
    message = build(
        response_class(END_TXN, 5),
        throttle_time=timedelta(0),
        error_code=0,
        producer_id=7,
        producer_epoch=2,
    )
    frame = frame_message(END_TXN, 5, -1, message)
    assert frame == frame_response(END_TXN, 5, -1, encode_body(message))
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
    body_again = encode_body(message)
    assert encode_body(decode_request(header, body_again)) == body_again


@pytest.mark.slow
@settings(max_examples=200)
@given(api=st.sampled_from(KEYS_AND_VERSIONS), body=BODIES)
def test_arbitrary_responses_are_messages_or_refused(api: tuple[int, int], body: bytes) -> None:
    with contextlib.suppress(MalformedFrameError):
        read_response(*api, bytes(5) + body)


def test_a_request_with_too_many_elements_can_not_be_read() -> None:
    header = RequestHeader(16, 4, 1, None, 0)
    most_elements = REQUEST_ELEMENTS_MAX

    def body(count: int) -> bytes:
        return uvarint(count + 1) + b"\x02x" * count + b"\0"

    assert len(decode_request(header, body(most_elements)).states_filter) == most_elements
    with pytest.raises(MalformedFrameError, match="more elements than a request may have"):
        decode_request(header, body(most_elements + 1))


def test_a_header_with_too_many_tags_can_not_be_read() -> None:
    def frame(tag_count: int) -> bytes:
        return b"\0\x10\0\4\0\0\0\1\xff\xff" + uvarint(tag_count) + b"\x64\0" * tag_count

    assert read_request_header(frame(HEADER_TAGS_MAX)).api_key == 16
    with pytest.raises(MalformedFrameError, match="tagged fields"):
        read_request_header(frame(HEADER_TAGS_MAX + 1))


def test_a_long_api_versions_of_the_future_decodes_as_one_without_a_body() -> None:
    header = RequestHeader(
        api_key=18, api_version=99, correlation_id=1, client_id="app", body_offset=0
    )
    assert decode_request(header, b"\xff" * (REQUEST_ELEMENTS_MAX + 1)) is not None


# What golden bytes can't show: broken input. The values are compared in tests/broker/wire.


def fault_of(api_key: int, version: int, body: bytes) -> DecodeFaultError:
    with pytest.raises(DecodeFaultError) as error_info:
        reader(request_class(api_key, version))(body, 0, len(body))
    return error_info.value


def test_null_where_none_is_allowed() -> None:
    fault = fault_of(26, 5, b"\0" + bytes(12))
    assert str(fault) == "transactional_id may not be null"
    assert fault.position == 1


def test_string_that_ends_after_the_frame() -> None:
    fault = fault_of(26, 5, b"\x7fabc")
    assert str(fault) == "transactional_id of 126 bytes ends after the frame"
    assert fault.position == 1


def test_old_string_that_ends_after_the_frame() -> None:
    assert fault_of(26, 0, b"\x7f\xffabc").position == 2


def test_negative_length_is_null() -> None:
    assert str(fault_of(26, 0, b"\x80\x00" + bytes(20))) == "transactional_id may not be null"


def test_length_of_too_many_bytes() -> None:
    assert "more than five bytes" in str(fault_of(26, 5, b"\xff" * 6 + bytes(20)))


def test_fault_in_a_part_names_the_part() -> None:
    # AddPartitionsToTxn v3: the one topic has a name and then nothing.
    fault = fault_of(24, 3, b"\x02a" + bytes(10) + b"\x02\x02t")
    assert str(fault) == "AddPartitionsToTxnTopic is cut off"
    assert fault.position == 15


def test_invalid_utf8_is_replaced_as_java_does() -> None:
    body = b"\x03\xffa" + bytes(11) + b"\0"
    message, _ = reader(request_class(26, 5))(body, 0, len(body))
    assert message.transactional_id == "\ufffda"


def test_any_byte_but_zero_is_true() -> None:
    body = b"\x02a" + bytes(10) + b"\x05\0"
    message, end = reader(request_class(26, 5))(body, 0, len(body))
    assert message.committed is True
    assert end == len(body)


def test_unknown_tags_are_skipped() -> None:
    body = b"\x02a" + bytes(11) + b"\x02\x05\x03abc\xac\x02\x00"
    message, end = reader(request_class(26, 5))(body, 0, len(body))
    assert message.transactional_id == "a"
    assert end == len(body)


def test_tag_that_ends_after_the_frame() -> None:
    fault = fault_of(26, 5, b"\x02a" + bytes(11) + b"\x01\x05\x09abc")
    assert str(fault) == "EndTxnRequest: tag 5 ends after the frame"


def test_tags_that_are_cut_off() -> None:
    assert "cut off" in str(fault_of(26, 5, b"\x02a" + bytes(11) + b"\x7f"))


def test_array_may_not_claim_more_elements_than_bytes() -> None:
    fault = fault_of(24, 0, b"\0\1a" + bytes(10) + b"\x7f\xff\xff\xff" + bytes(5))
    assert str(fault) == "v3_and_below_topics claims 2147483647 elements in 5 bytes"


def test_missing_tags_leave_the_defaults() -> None:
    body = bytes.fromhex("0000 01 00000000 00".replace(" ", ""))
    message, _ = reader(response_class(18, 4))(body, 0, len(body))
    assert message.finalized_features_epoch == -1
    assert message.supported_features == ()


def test_reading_starts_at_the_given_place() -> None:
    cls, schema = response_class(61, 0), response_schema(61, 0)
    message = build(
        cls, throttle_time=0, topics=(build(schema.TopicResponse, name="t", partitions=()),)
    )
    encoded = encode_body(message)
    padded = b"??" + encoded
    read_value, end = reader(cls)(padded, 2, len(padded))
    assert read_value == reader(cls)(encoded, 0, len(encoded))[0]
    assert end == len(padded)


def test_known_tag_is_read() -> None:
    body = bytes.fromhex("0000 01 00000000 02 03 01 01 01 08 0000000000000009")
    message, end = reader(response_class(18, 4))(body, 0, len(body))
    assert message.zk_migration_ready is True
    assert message.finalized_features_epoch == 9
    assert end == len(body)


@pytest.mark.parametrize("is_present", [False, True])
def test_struct_that_may_be_null_has_a_byte_before_it(*, is_present: bool) -> None:
    struct = "01 0274 00000001 00" if is_present else "ff"
    body = bytes.fromhex(f"01 00000009 {struct} 00")
    message, end = reader(request_class(75, 0))(body, 0, len(body))
    assert (message.cursor is not None) == is_present
    assert end == len(body)


def read_counted(api_key: int, version: int, body: bytes, *, allowed: int) -> object:
    return run_to_end(read_in_steps(request_class(api_key, version), body, 0, elements_max=allowed))


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"topic": []}, "FetchRequest has no field topic"),
        ({"topics": [{"name": "t"}]}, "FetchRequest.topics has no field name"),
        ({"replica_state": {"id": 1}}, "FetchRequest.replica_state has no field id"),
    ],
)
def test_a_field_that_no_version_has_is_refused_with_its_place(
    values: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(TypeError, match=f"^{complaint}; it has "):
        message_from(request_class(1, 17), values)


def test_a_field_of_one_message_is_made_of_its_fields_or_is_null() -> None:
    state = message_from(request_class(1, 17), {"replica_state": {"replica_id": 3}}).replica_state
    assert (state.replica_id, state.replica_epoch) == (3, -1)
    assert message_from(request_class(88, 0), {"topology": None}).topology is None


def test_the_elements_of_all_arrays_count() -> None:
    # AddPartitionsToTxn v0: two topics, of two partitions and of one.
    body = encode_body(
        message_from(
            request_class(24, 0),
            {
                "v3_and_below_transactional_id": "a",
                "v3_and_below_topics": [
                    {"name": "t", "partitions": [1, 2]},
                    {"name": "u", "partitions": [3]},
                ],
            },
        )
    )
    assert (
        read_counted(24, 0, body, allowed=5) == reader(request_class(24, 0))(body, 0, len(body))[0]
    )
    with pytest.raises(DecodeFaultError, match="more elements than a request may have"):
        read_counted(24, 0, body, allowed=4)


def test_tags_count_as_elements() -> None:
    body = b"\x01\x01\x02" + b"\x64\x00\x65\x00"  # ListGroups v5, two tags that are not known
    read_counted(16, 5, body, allowed=2)
    with pytest.raises(DecodeFaultError):
        read_counted(16, 5, body, allowed=1)


def test_a_large_message_is_read_with_breaks() -> None:
    cls = request_class(24, 0)
    topics = [
        {"name": f"t-{topic_number}", "partitions": [topic_number]} for topic_number in range(1_000)
    ]
    values = {"v3_and_below_transactional_id": "a", "v3_and_below_topics": topics}
    body = encode_body(message_from(cls, values))
    steps = read_in_steps(cls, body, 0, elements_max=2_000)
    other_steps = read_in_steps(cls, body, 0, elements_max=1_999)
    # Two readings take turns, and each counts its own elements.
    elements_by_step = [next(steps) for _ in range(5) if next(other_steps)]
    assert elements_by_step == [64] * 5
    with pytest.raises(DecodeFaultError, match="more elements"):
        list(other_steps)
    assert run_to_end(steps) == reader(cls)(body, 0, len(body))[0]


@pytest.mark.parametrize("has_steps", [False, True])
@pytest.mark.parametrize("version", [8, 9, 13])
@pytest.mark.parametrize("bytes_over", [0, 1])
def test_large_records_of_a_request_are_a_view_of_its_frame(
    bytes_over: int, version: int, *, has_steps: bool
) -> None:
    records = bytes(COPIED_RECORDS_MAX + bytes_over)
    key = {"topic_id": UUID(int=7)} if version == 13 else {"name": "t"}
    partition_fields = {"index": 0, "records": records}
    topic = {**key, "partition_data": [partition_fields]}
    values = {"transactional_id": None, "acks": 1, "timeout": 1, "topic_data": [topic]}
    cls = request_class(0, version)
    body = encode_body(message_from(cls, values))
    if has_steps:
        message = run_to_end(read_in_steps(cls, body, 0, elements_max=10))
    else:
        message, _ = reader(cls)(body, 0, len(body))
    message_records = message.topic_data[0].partition_data[0].records
    assert message_records == records
    assert isinstance(message_records, memoryview if bytes_over else bytes)


def test_records_of_an_answer_are_bytes() -> None:
    cls = response_class(1, 12)
    partition_fields = {"partition_index": 0, "records": bytes(COPIED_RECORDS_MAX + 1)}
    answer = message_from(cls, {"responses": [{"topic": "t", "partitions": [partition_fields]}]})
    body = encode_body(answer)
    message, _ = reader(cls)(body, 0, len(body))
    assert isinstance(message.responses[0].partitions[0].records, bytes)


# What golden bytes can't show. The bytes of every message are compared in tests/broker/wire.


def nothing_dropped(cls: Any, values: dict[str, object]) -> None:
    raise AssertionError((cls, values))


def test_constructor_fills_in_the_defaults() -> None:
    cls = response_class(26, 5)
    message = maker(cls, nothing_dropped)(throttle_time=0, error_code=0)
    assert message == cls(throttle_time=0, error_code=0)
    assert message.producer_id == -1


def test_constructor_of_a_message_without_fields() -> None:
    cls = request_class(18, 0)
    assert maker(cls, nothing_dropped)() == cls()
    assert encode_body(cls()) == b""


def test_constructor_reports_what_it_has_no_field_for() -> None:
    dropped: list[dict[str, object]] = []
    make = maker(request_class(18, 0), lambda _, values: dropped.append(values))
    make(client_software_name="x")
    assert dropped == [{"client_software_name": "x"}]


@pytest.mark.parametrize(
    ("message", "element_count"),
    [
        (build(response_class(26, 5), throttle_time=0, error_code=0), 0),
        (
            build(
                response_class(18, 0),
                error_code=0,
                api_keys=[
                    build(
                        response_schema(18, 0).ApiVersion, api_key=k, min_version=0, max_version=1
                    )
                    for k in range(100)
                ],
            ),
            100,
        ),
    ],
    ids=["no elements", "elements"],
)
def test_steps_give_the_same_bytes(message: Any, element_count: int) -> None:
    for _ in ("compiled", "found"):
        encoded_pieces: list[bytes] = []
        steps_taken = sum(encode_in_steps(message, encoded_pieces))
        assert b"".join(encoded_pieces) == encode_body(message)
        assert (steps_taken > 0) is (element_count > 0)


def test_elements_of_elements_are_steps_too() -> None:
    schema = request_schema(19, 4)
    assignments = [
        build(schema.CreatableReplicaAssignment, partition_index=assignment_index, broker_ids=(1,))
        for assignment_index in range(100)
    ]
    topic = build(
        schema.CreatableTopic,
        name="t",
        num_partitions=-1,
        replication_factor=-1,
        assignments=assignments,
        configs=(),
    )
    message = build(request_class(19, 4), topics=[topic], timeout=1)
    encoded_pieces: list[bytes] = []
    assert sum(encode_in_steps(message, encoded_pieces)) > 0
    assert b"".join(encoded_pieces) == encode_body(message)


def test_strings_are_steps_too() -> None:
    message = build(request_class(15, 0), groups=tuple(map(str, range(STEP_STRINGS + 1))))
    encoded_pieces: list[bytes] = []
    assert [*encode_in_steps(message, encoded_pieces)] == [STEP_ELEMENTS, STEP_ELEMENTS]
    assert b"".join(encoded_pieces) == encode_body(message)


def test_an_element_that_is_there_again_is_encoded_once_and_written_as_often() -> None:
    schema = request_schema(19, 4)
    first_topic, second_topic = (
        build(
            schema.CreatableTopic,
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=(),
            configs=(),
        )
        for name in ("t", "u")
    )
    message = build(
        request_class(19, 4), topics=(first_topic, second_topic, first_topic), timeout=1
    )
    encoded_pieces: list[bytes] = []
    assert sum(encode_in_steps(message, encoded_pieces)) > 0
    assert b"".join(encoded_pieces) == encode_body(message)


def test_missing_value_is_an_error() -> None:
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'error_code'"):
        maker(response_class(26, 5), nothing_dropped)(throttle_time=0)


def test_tag_at_its_default_is_left_out() -> None:
    cls, schema = response_class(18, 4), response_schema(18, 4)
    plain_message = build(cls, error_code=0, api_keys=(), throttle_time=0)
    assert encode_body(plain_message) == bytes.fromhex("0000010000000000")
    feature = build(schema.FinalizedFeatureKey, name="f", max_version_level=2, min_version_level=1)
    tagged = build(cls, error_code=0, api_keys=(), throttle_time=0, finalized_features=(feature,))
    assert encode_body(tagged) == bytes.fromhex("0000 01 00000000 01 02 08 02 0266 0002 0001 00")


@pytest.mark.parametrize("size", [126, 127, 128, 1022, 1023, 1024, 20000])
def test_lengths_around_their_limits(size: int) -> None:
    cls = request_class(26, 5)
    message = build(
        cls, transactional_id="x" * size, producer_id=1, producer_epoch=1, committed=False
    )
    assert entity_reader(cls)(encode_body(message), 0)[0] == message


@pytest.mark.parametrize("is_present", [False, True])
def test_encoder_struct_that_may_be_null_has_a_byte_before_it(*, is_present: bool) -> None:
    cls, schema = request_class(75, 0), request_schema(75, 0)
    cursor = build(schema.Cursor, topic_name="t", partition_index=1) if is_present else None
    message = build(cls, topics=(), response_partition_limit=9, cursor=cursor)
    struct = "01 0274 00000001 00" if is_present else "ff"
    assert encode_body(message) == bytes.fromhex(f"01 00000009 {struct} 00")


def test_ids_in_an_array_are_written_one_by_one() -> None:
    message = build(
        request_class(63, 1),
        broker_id=1,
        broker_epoch=2,
        current_metadata_offset=3,
        want_fence=False,
        want_shut_down=False,
        offline_log_dirs=(UUID(int=7), None),
    )
    tag = "01 00 21 03" + "00" * 15 + "07" + "00" * 16
    assert encode_body(message).endswith(bytes.fromhex(tag))


def test_tags_are_written_in_ascending_order() -> None:
    cls = request_class(1, 17)
    message = build(
        cls,
        cluster_id="c",
        max_wait=0,
        min_bytes=0,
        isolation_level=0,
        topics=(),
        forgotten_topics_data=(),
        replica_state=build(request_schema(1, 17).ReplicaState, replica_id=1, replica_epoch=2),
    )
    tags = bytes.fromhex("02 00 02 0263 01 0d 00000001 0000000000000002 00")
    assert encode_body(message).endswith(tags)


def test_source_becomes_a_function_with_bound_names() -> None:
    source = CodeSource()
    source.enter_block("def double(x):")
    source.enter_block("if x is None:")
    source.add_line(f"return {source.bind('nothing', 'value')}")
    source.leave_blocks()
    source.add_line("return 2 * x")
    double = source.compile_function("double", code_name="a test")
    assert double(21) == 42
    assert double(None) == "nothing"


def test_equal_hints_give_different_names() -> None:
    source = CodeSource()
    assert source.bind(1, "value") != source.bind(2, "value")


def test_leaving_several_blocks_at_once() -> None:
    source = CodeSource()
    source.enter_block("def first(items):")
    source.enter_block("for item in items:")
    source.enter_block("if item:")
    source.add_line("return item")
    source.leave_blocks(2)
    source.add_line("return None")
    assert source.compile_function("first", code_name="a test")([0, 3]) == 3


@pytest.mark.parametrize(("api_key", "version"), [(26, 5), (18, 0)])
def test_filled_twin_becomes_the_frozen_message(api_key: int, version: int) -> None:
    cls = request_class(api_key, version)
    twin = twin_of(cls)()
    for field_name in cls.__slots__:
        setattr(twin, field_name, 1)
    twin.__class__ = cls
    assert twin == cls(**dict.fromkeys(cls.__slots__, 1))
    assert hash(twin) == hash(cls(**dict.fromkeys(cls.__slots__, 1)))


def test_filled_twin_can_not_be_changed_any_more() -> None:
    cls = request_class(26, 5)
    twin = twin_of(cls)()
    twin.committed = True
    twin.__class__ = cls
    with pytest.raises(FrozenInstanceError):
        twin.committed = False


def test_each_class_has_one_twin() -> None:
    assert twin_of(request_class(26, 5)) is twin_of(request_class(26, 5))
    assert twin_of(request_class(26, 5)) is not twin_of(request_class(26, 4))


@pytest.mark.parametrize(
    ("encoded_int", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2**32 - 1, "ffffffff0f"),
    ],
)
def test_known_encodings(encoded_int: int, encoded: str) -> None:
    assert uvarint(encoded_int).hex() == encoded
    assert read_uvarint(bytes.fromhex(encoded), 0) == (encoded_int, len(encoded) // 2)


@given(encoded_int=st.integers(min_value=0, max_value=2**32 - 1), prefix=st.binary(max_size=3))
def test_reads_back_what_was_written(encoded_int: int, prefix: bytes) -> None:
    encoded = uvarint(encoded_int)
    assert read_uvarint(prefix + encoded + b"\xff", len(prefix)) == (
        encoded_int,
        len(prefix) + len(encoded),
    )


def test_bits_above_thirty_two_are_dropped_as_java_does() -> None:
    assert read_uvarint(b"\xff\xff\xff\xff\x7f", 0) == (2**32 - 1, 5)


def test_sixth_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="more than five bytes"):
        read_uvarint(b"\x80\x80\x80\x80\x80\x01", 0)


def test_cut_off_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        read_uvarint(b"\x80", 0)


# Messages of the formats 0 and 1.


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_message_is_known_by_its_first_bytes(magic: int) -> None:
    message = old_message(magic, 42)
    assert OldMessage.parse(message) == OldMessage(offset=42, size=len(message))
    assert OldMessage.is_sound(message)


def test_a_flipped_bit_shows() -> None:
    message = bytearray(old_message(1, 42))
    message[-1] ^= 1
    assert not OldMessage.is_sound(message)


@pytest.mark.parametrize("magic", [0, 1])
def test_what_claims_more_bytes_than_a_batch_may_have_is_no_message(magic: int) -> None:
    """Whoever checks its CRC reads all of it, and a sparse file has them without any room."""
    message = old_message(magic, 42)
    for size, is_message in ((1 << 30, True), ((1 << 30) + 1, False), (2**31 + 11, False)):
        claim = message[:8] + (size - 12).to_bytes(4, "big") + message[12:]
        assert OldMessage.parse(claim) == (OldMessage(offset=42, size=size) if is_message else None)


def test_zeros_are_no_message() -> None:
    assert OldMessage.parse(bytes(61)) is None
    assert OldMessage.parse(bytes(16)) is None
