"""WriteTxnMarkers v1 of KIP-664 exists in its text only: the bytes are written out here."""

from __future__ import annotations

import pytest

from tests.support.raw_wire import message_from
from txnsim.errors import MalformedFrameError
from txnsim.wire.codec import (
    at_once,
    decode_in_steps,
    encode_body,
    encode_request,
    read_request_header,
    request_class,
)
from txnsim.wire.messages.write_txn_markers_kip_664 import WriteTxnMarkersRequest

KEY = 27

VALUES = {
    "markers": [
        {
            "producer_id": 3,
            "producer_epoch": 4,
            "transaction_result": False,
            "coordinator_epoch": -1,
            "topics": [
                {
                    "name": "t",
                    "partition_indexes": [5, 6],
                    "partitions": [
                        {"partition_index": 5, "txn_start_offset": 9},
                        {"partition_index": 6},
                    ],
                }
            ],
        }
    ]
}


def test_a_start_offset_is_a_tag_of_its_partition() -> None:
    message = message_from(WriteTxnMarkersRequest, VALUES)
    body = bytes.fromhex(
        "02 0000000000000003 0004 00"
        "02 0274 03"
        "00000005 01 00 08 0000000000000009"
        "00000006 00"
        "00 ffffffff 00 00"
    )
    assert encode_body(message) == body
    frame = encode_request(KEY, 1, 1, "me", message)[4:]
    assert (
        at_once(decode_in_steps(read_request_header(frame), frame, WriteTxnMarkersRequest))
        == message
    )


def test_the_shipped_layout_is_another_one() -> None:
    frame = encode_request(KEY, 1, 1, "me", message_from(request_class(KEY, 1), VALUES))[4:]
    with pytest.raises(MalformedFrameError, match="WriteTxnMarkers v1 request"):
        at_once(decode_in_steps(read_request_header(frame), frame, WriteTxnMarkersRequest))
