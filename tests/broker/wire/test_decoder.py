"""What golden bytes can't show: broken input. The values are compared in tests/broker/wire."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.raw_wire import message_from
from txnsim.wire.codec import (
    at_once,
    build,
    encode_body,
    request_class,
    response_class,
    response_schema,
)
from txnsim.wire.decoder import COPIED_RECORDS_MAX, DecodeFaultError, read_in_steps, reader


def fault_of(key: int, version: int, body: bytes) -> DecodeFaultError:
    with pytest.raises(DecodeFaultError) as caught:
        reader(request_class(key, version))(body, 0, len(body))
    return caught.value


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
    found, end = reader(cls)(padded, 2, len(padded))
    assert found == reader(cls)(encoded, 0, len(encoded))[0]
    assert end == len(padded)


def test_known_tag_is_read() -> None:
    body = bytes.fromhex("0000 01 00000000 02 03 01 01 01 08 0000000000000009")
    message, end = reader(response_class(18, 4))(body, 0, len(body))
    assert message.zk_migration_ready is True
    assert message.finalized_features_epoch == 9
    assert end == len(body)


@pytest.mark.parametrize("present", [False, True])
def test_struct_that_may_be_null_has_a_byte_before_it(*, present: bool) -> None:
    struct = "01 0274 00000001 00" if present else "ff"
    body = bytes.fromhex(f"01 00000009 {struct} 00")
    message, end = reader(request_class(75, 0))(body, 0, len(body))
    assert (message.cursor is not None) == present
    assert end == len(body)


def counted(key: int, version: int, body: bytes, *, allowed: int) -> object:
    return at_once(read_in_steps(request_class(key, version), body, 0, elements=allowed))


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
    assert counted(24, 0, body, allowed=5) == reader(request_class(24, 0))(body, 0, len(body))[0]
    with pytest.raises(DecodeFaultError, match="more elements than a request may have"):
        counted(24, 0, body, allowed=4)


def test_tags_count_as_elements() -> None:
    body = b"\x01\x01\x02" + b"\x64\x00\x65\x00"  # ListGroups v5, two tags that are not known
    counted(16, 5, body, allowed=2)
    with pytest.raises(DecodeFaultError):
        counted(16, 5, body, allowed=1)


def test_a_large_message_is_read_with_breaks() -> None:
    cls = request_class(24, 0)
    topics = [{"name": f"t-{number}", "partitions": [number]} for number in range(1_000)]
    values = {"v3_and_below_transactional_id": "a", "v3_and_below_topics": topics}
    body = encode_body(message_from(cls, values))
    steps = read_in_steps(cls, body, 0, elements=2_000)
    other = read_in_steps(cls, body, 0, elements=1_999)
    done = [next(steps) for _ in range(5) if next(other)]  # by turns: each counts its own
    assert done == [64] * 5
    with pytest.raises(DecodeFaultError, match="more elements"):
        list(other)
    assert at_once(steps) == reader(cls)(body, 0, len(body))[0]


@pytest.mark.parametrize("has_steps", [False, True])
@pytest.mark.parametrize("version", [8, 9, 13])
@pytest.mark.parametrize("over", [0, 1])
def test_large_records_of_a_request_are_a_view_of_its_frame(
    over: int, version: int, *, has_steps: bool
) -> None:
    """A copy of the largest frame took 50 ms and as much memory again."""
    records = bytes(COPIED_RECORDS_MAX + over)
    key = {"topic_id": UUID(int=7)} if version == 13 else {"name": "t"}
    part = {"index": 0, "records": records}
    topic = {**key, "partition_data": [part]}
    values = {"transactional_id": None, "acks": 1, "timeout": 1, "topic_data": [topic]}
    cls = request_class(0, version)
    body = encode_body(message_from(cls, values))
    if has_steps:
        message = at_once(read_in_steps(cls, body, 0, elements=10))
    else:
        message, _ = reader(cls)(body, 0, len(body))
    found = message.topic_data[0].partition_data[0].records
    assert found == records
    assert isinstance(found, memoryview if over else bytes)


def test_records_of_an_answer_are_bytes() -> None:
    cls = response_class(1, 12)
    part = {"partition_index": 0, "records": bytes(COPIED_RECORDS_MAX + 1)}
    answer = message_from(cls, {"responses": [{"topic": "t", "partitions": [part]}]})
    body = encode_body(answer)
    message, _ = reader(cls)(body, 0, len(body))
    assert isinstance(message.responses[0].partitions[0].records, bytes)
