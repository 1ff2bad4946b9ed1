"""Records of the metadata log: the bytes were written by a controller of Apache Kafka 4.3.1."""

from __future__ import annotations

import uuid
from typing import Any, Final

import pytest

from txnsim.wire.decoder import reader
from txnsim.wire.encoder import writer
from txnsim.wire.messages import metadata_records as schema

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
    assert {name: getattr(record, name) for name in fields} == fields
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
