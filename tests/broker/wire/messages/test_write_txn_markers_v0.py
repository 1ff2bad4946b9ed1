"""WriteTxnMarkers v0: the bytes were written by the classes of Kafka 3.9.2, the last to have it."""

from __future__ import annotations

from typing import Final

from txnsim.errors import ErrorCode
from txnsim.wire.codec import (
    build,
    decode_request,
    encode_body,
    encode_request,
    read_request_header,
    read_response,
    request_class,
    request_schema,
)

KEY: Final = 27
REQUEST: Final = (
    "00000001 0000000000000fa0 0007 00 00000001 0006 6f7264657273 00000002 00000000 00000005"
    " 00000003"
)
RESPONSE: Final = (
    "00000001 0000000000000fa0 00000001 0006 6f7264657273 00000002 00000000 0000 00000005 0006"
)


def test_request_is_kafkas() -> None:
    schema = request_schema(KEY, 0)
    message = build(
        request_class(KEY, 0),
        markers=(
            build(
                schema.WritableTxnMarker,
                producer_id=4000,
                producer_epoch=7,
                transaction_result=False,
                coordinator_epoch=3,
                topics=(
                    build(schema.WritableTxnMarkerTopic, name="orders", partition_indexes=(0, 5)),
                ),
            ),
        ),
    )
    assert encode_body(message) == bytes.fromhex(REQUEST)
    frame = encode_request(KEY, 0, 1, "me", message)[4:]
    assert decode_request(read_request_header(frame), frame) == message


def test_response_is_kafkas() -> None:
    _, message = read_response(KEY, 0, bytes.fromhex("00000001" + RESPONSE.replace(" ", "")))
    (marker,) = message.markers
    (topic,) = marker.topics
    assert (marker.producer_id, topic.name) == (4000, "orders")
    assert [(row.partition_index, row.error_code) for row in topic.partitions] == [
        (0, ErrorCode.none),
        (5, ErrorCode.not_leader_or_follower),
    ]
    assert encode_body(message) == bytes.fromhex(RESPONSE)
