"""Messages that are ours, against bytes of brokers and texts of KIPs."""

from __future__ import annotations

import uuid
from typing import Any, Final

import pytest

from txnsim.errors import ErrorCode, MalformedFrameError
from txnsim.wire.codec import (
    build,
    decode_in_steps,
    decode_request,
    encode_body,
    encode_request,
    read_request_header,
    read_response,
    request_class,
    request_schema,
    response_class,
    response_schema,
    run_to_end,
)
from txnsim.wire.decoder import reader
from txnsim.wire.encoder import writer
from txnsim.wire.messages import metadata_records as schema
from txnsim.wire.messages.write_txn_markers_kip_664 import WriteTxnMarkersRequest
from txnsim.wire.plain_values import message_from

# Records of the metadata log: the bytes were written by a controller of Apache Kafka 4.3.1.


SMALL: Final = uuid.UUID("71b35792-5e3e-4619-b89c-8adb18722723")
PAYMENTS: Final = uuid.UUID("9efba4e5-b7e0-4253-af28-f1c2683e212c")
DIRECTORIES: Final = (
    uuid.UUID("6bcf9323-ed79-13a3-1c1f-061e4efc40af"),
    uuid.UUID("d4296068-d062-7ae7-5cda-f0d92c542520"),
)
GOLDEN: Final = (
    ("076f72646572736b1937bfb3904f19be13d779da0edf8500", schema.TopicRecord, {"name": "orders"}),
    (
        "000000006b1937bfb3904f19be13d779da0edf850300000002000000010300000002000000010101000000"
        "020000000000000000036bcf9323ed7913a31c1f061e4efc40afd4296068d0627ae75cdaf0d92c54252000",
        schema.PARTITION_RECORDS[2],
        {"replicas": (2, 1), "leader": 2, "leader_epoch": 0, "directories": DIRECTORIES},
    ),
    (
        "0000000171b357925e3e4619b89c8adb18722723040001010104ffffffff0605020000000207050200000002",
        schema.PartitionChangeRecord,
        {"topic_id": SMALL, "isr": (), "leader": -1, "eligible_leader_replicas": (2,)},
    ),
    (
        "000000009efba4e5b7e04253af28f1c2683e212c0200050200000001010400000001",
        schema.PartitionChangeRecord,
        {"topic_id": PAYMENTS, "isr": (1,), "leader": 1, "replicas": None},
    ),
    (
        "02076f7264657273146d696e2e696e73796e632e7265706c69636173023100",
        schema.ConfigRecord,
        {"resource_type": 2, "name": "min.insync.replicas", "value": "1"},
    ),
    (
        "116d657461646174612e76657273696f6e001e00",
        schema.FeatureLevelRecord,
        {"name": "metadata.version", "feature_level": 30},
    ),
    (
        "00000001000000000000000d00000000000003e800",
        schema.ProducerIdsRecord,
        {"broker_id": 1, "broker_epoch": 13, "next_producer_id": 1_000},
    ),
    ("076f726465727300", schema.ClearElrRecord, {"topic_name": "orders"}),
    (
        "00000001002d230f53eaab4d4cb8019711d9273e8a000000000000000d020a504c41494e544558540a313237"
        "2e302e302e31df7b000000080e6b726166742e76657273696f6e00000001000e67726f75702e76657273696f"
        "6e00000001001073747265616d732e76657273696f6e0000000100147472616e73616374696f6e2e76657273"
        "696f6e000000020021656c696769626c652e6c65616465722e7265706c696361732e76657273696f6e000000"
        "0100116d657461646174612e76657273696f6e0007001e000e73686172652e76657273696f6e000000010000"
        "010001001102d4296068d0627ae75cdaf0d92c542520",
        schema.RegisterBrokerRecordV3,
        {"broker_id": 1, "broker_epoch": 13, "fenced": True, "log_dirs": DIRECTORIES[1:]},
    ),
)


@pytest.mark.parametrize(("text", "kind", "fields"), GOLDEN)
def test_records_are_kafkas(text: str, kind: Any, fields: dict[str, object]) -> None:
    data = bytes.fromhex(text)
    record, end = reader(kind)(data, 0, len(data))
    assert end == len(data)
    assert {field_name: getattr(record, field_name) for field_name in fields} == fields
    out: list[bytes] = []
    writer(kind)(record, out.append)
    assert b"".join(out) == data


def test_older_partition_records_have_fewer_fields() -> None:
    text = GOLDEN[1][0]
    data = bytes.fromhex(text[: -2 - 66] + "00")
    record, end = reader(schema.PARTITION_RECORDS[0])(data, 0, len(data))
    assert (record.partition_epoch, end) == (0, len(data))
    data = bytes.fromhex(text)
    record, end = reader(schema.PARTITION_RECORDS[1])(data, 0, len(data))
    assert (record.directories, end) == (DIRECTORIES, len(data))


# DescribeTransactions v1 exists in the text of KIP-994 only: the bytes are written out here.


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


# WriteTxnMarkers v1 of KIP-664 exists in its text only: the bytes are written out here.


WRITE_TXN_MARKERS_KIP_664_KEY = 27

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
    frame = encode_request(WRITE_TXN_MARKERS_KIP_664_KEY, 1, 1, "me", message)[4:]
    assert (
        run_to_end(decode_in_steps(read_request_header(frame), frame, WriteTxnMarkersRequest))
        == message
    )


def test_the_shipped_layout_is_another_one() -> None:
    frame = encode_request(
        WRITE_TXN_MARKERS_KIP_664_KEY,
        1,
        1,
        "me",
        message_from(request_class(WRITE_TXN_MARKERS_KIP_664_KEY, 1), VALUES),
    )[4:]
    with pytest.raises(MalformedFrameError, match="WriteTxnMarkers v1 request"):
        run_to_end(decode_in_steps(read_request_header(frame), frame, WriteTxnMarkersRequest))


# WriteTxnMarkers v0: the bytes were written by the classes of Kafka 3.9.2, the last to have it.


WRITE_TXN_MARKERS_V0_KEY: Final = 27
REQUEST: Final = (
    "00000001 0000000000000fa0 0007 00 00000001 0006 6f7264657273 00000002 00000000 00000005"
    " 00000003"
)
RESPONSE: Final = (
    "00000001 0000000000000fa0 00000001 0006 6f7264657273 00000002 00000000 0000 00000005 0006"
)


def test_request_is_kafkas() -> None:
    schema = request_schema(WRITE_TXN_MARKERS_V0_KEY, 0)
    message = build(
        request_class(WRITE_TXN_MARKERS_V0_KEY, 0),
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
    frame = encode_request(WRITE_TXN_MARKERS_V0_KEY, 0, 1, "me", message)[4:]
    assert decode_request(read_request_header(frame), frame) == message


def test_response_is_kafkas() -> None:
    _, message = read_response(
        WRITE_TXN_MARKERS_V0_KEY, 0, bytes.fromhex("00000001" + RESPONSE.replace(" ", ""))
    )
    (marker,) = message.markers
    (topic,) = marker.topics
    assert (marker.producer_id, topic.name) == (4000, "orders")
    assert [(row.partition_index, row.error_code) for row in topic.partitions] == [
        (0, ErrorCode.none),
        (5, ErrorCode.not_leader_or_follower),
    ]
    assert encode_body(message) == bytes.fromhex(RESPONSE)
