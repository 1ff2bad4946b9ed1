"""Small files of properties."""

from __future__ import annotations

import uuid

import pytest

from txnsim.errors import CorruptLogRecordError
from txnsim.storage.metadata_files import (
    MetaProperties,
    decode_meta_properties,
    decode_partition_metadata,
    encode_meta_properties,
    encode_partition_metadata,
    uuid_text,
)

TOPIC_ID = uuid.UUID(int=0xFB1234567890ABCDEF0011223344556F)


def test_the_id_of_a_topic_is_written_as_kafka_writes_it_and_read_back() -> None:
    text = encode_partition_metadata(TOPIC_ID)
    assert text == f"version: 0\ntopic_id: {uuid_text(TOPIC_ID)}\n"
    assert len(uuid_text(TOPIC_ID)) == 22
    assert decode_partition_metadata(text, place="f") == TOPIC_ID


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "f: version None, expected 0"),
        ("version: 1\ntopic_id: x\n", "f: version '1', expected 0"),
        ("version: 0\n", "f: '' is no id of 22 characters"),
        (f"version: 0\ntopic_id: {'é' * 22}\n", "is no id of 22 characters"),
    ],
)
def test_partition_metadata_that_can_not_be_read_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(CorruptLogRecordError, match=complaint):
        decode_partition_metadata(text, place="f")


@pytest.mark.parametrize("directory", [None, TOPIC_ID])
def test_meta_properties_are_read_back(directory: uuid.UUID | None) -> None:
    meta = MetaProperties(cluster_id="abc", node_id=3, directory_id=directory)
    assert decode_meta_properties(encode_meta_properties(meta), place="f") == meta


def test_meta_properties_of_a_broker_with_zookeeper_are_read() -> None:
    text = "#\n#Fri Nov 20\nbroker.id=2\nversion=0\ncluster.id=abc\n"
    assert decode_meta_properties(text, place="f") == MetaProperties(cluster_id="abc", node_id=2)


@pytest.mark.parametrize("text", ["", "node.id=x\n", "node.id=-1\n", f"node.id={'9' * 5_000}\n"])
def test_meta_properties_without_a_node_are_refused(text: str) -> None:
    with pytest.raises(CorruptLogRecordError, match=r"f: node.id is .*, expected a number"):
        decode_meta_properties(text, place="f")
