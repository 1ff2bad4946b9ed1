"""DescribeTransactions v1 exists in the text of KIP-994 only: the bytes are written out here."""

from __future__ import annotations

from txnsim.wire.codec import (
    build,
    decode_request,
    encode_body,
    encode_request,
    read_request_header,
    read_response,
    request_class,
    response_class,
    response_schema,
)

KEY = 65


def test_request_is_that_of_version_zero() -> None:
    message = build(request_class(KEY, 1), transactional_ids=("a", "b"))
    assert encode_body(message) == bytes.fromhex("03 0261 0262 00")
    frame = encode_request(KEY, 1, 1, "me", message)[4:]
    assert decode_request(read_request_header(frame), frame) == message


def test_response_tells_the_last_update_after_the_start() -> None:
    schema = response_schema(KEY, 1)
    topic = build(schema.TopicData, topic="t", partitions=(5,))
    state = build(
        schema.TransactionState,
        error_code=0,
        transactional_id="a",
        transaction_state="Ongoing",
        transaction_timeout=60000,
        transaction_start_time=1,
        transaction_last_update_time=2,
        producer_id=3,
        producer_epoch=4,
        topics=(topic,),
    )
    message = build(response_class(KEY, 1), throttle_time=0, transaction_states=(state,))
    body = bytes.fromhex(
        "00000000 02 0000 0261 084f6e676f696e67 0000ea60"
        "0000000000000001 0000000000000002 0000000000000003 0004"
        "02 0274 02 00000005 00 00 00"
    )
    assert encode_body(message) == body
    _, decoded = read_response(KEY, 1, bytes(5) + body)
    assert encode_body(decoded) == body


def test_version_zero_leaves_the_last_update_out() -> None:
    schema = response_schema(KEY, 0)
    state = build(
        schema.TransactionState,
        error_code=0,
        transactional_id="a",
        transaction_state="Empty",
        transaction_timeout=0,
        transaction_start_time=None,
        transaction_last_update_time=2,
        producer_id=3,
        producer_epoch=4,
        topics=(),
    )
    assert encode_body(state).hex().endswith("ffffffffffffffff" + "0000000000000003" + "00040100")
