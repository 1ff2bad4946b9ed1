"""Two small files of properties: ``meta.properties``, with the owner of a log directory, and
``partition.metadata``, with the topic of a folder.

Kafka's counterparts: MetaProperties (version 1), PartitionMetadataFile. A topic's id is written as
Kafka's Uuid, 22 characters of base64.
"""

from __future__ import annotations

import uuid
from typing import Final

import msgspec

from txnsim.errors import CorruptLogRecordError
from txnsim.storage.checkpoints import DIGITS_MAX
from txnsim.types import uuid_from, uuid_text

_PARTITION_METADATA_VERSION: Final = "0"
_META_VERSION: Final = "1"


class MetaProperties(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a log directory."""

    cluster_id: str
    node_id: int
    directory_id: uuid.UUID | None = None

    @classmethod
    def decode(cls, text: str, *, error_prefix: str) -> MetaProperties:
        """Decode ``meta.properties``; version 0, of brokers with ZooKeeper, has ``broker.id``.

        Raises:
            CorruptLogRecordError: A value is missing or invalid; the message begins with
                ``error_prefix``.
        """
        properties = _properties(text)
        node_id_text = properties.get("node.id", properties.get("broker.id", ""))
        if (
            not node_id_text.isascii()
            or not node_id_text.isdigit()
            or len(node_id_text) > DIGITS_MAX
        ):
            raise CorruptLogRecordError(
                f"{error_prefix}: node.id is {node_id_text!r}, expected a number"
            )
        directory_id_text = properties.get("directory.id")
        return cls(
            cluster_id=properties.get("cluster.id", ""),
            node_id=int(node_id_text),
            directory_id=None
            if directory_id_text is None
            else _uuid_of(directory_id_text, error_prefix),
        )


def encode_meta_properties(meta: MetaProperties) -> str:
    lines = [f"cluster.id={meta.cluster_id}", f"node.id={meta.node_id}", f"version={_META_VERSION}"]
    if meta.directory_id is not None:
        lines.insert(1, f"directory.id={uuid_text(meta.directory_id)}")
    return "".join(f"{line}\n" for line in lines)


def encode_partition_metadata(topic_id: uuid.UUID) -> str:
    return f"version: {_PARTITION_METADATA_VERSION}\ntopic_id: {uuid_text(topic_id)}\n"


def decode_partition_metadata(text: str, *, error_prefix: str) -> uuid.UUID:
    """Decode the topic id of ``partition.metadata``.

    Raises:
        CorruptLogRecordError: The version is another one, or there is no topic id; the message
            begins with ``error_prefix``.
    """
    properties = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if properties.get("version") != _PARTITION_METADATA_VERSION:
        raise CorruptLogRecordError(
            f"{error_prefix}: version {properties.get('version')!r}, expected 0"
        )
    return _uuid_of(properties.get("topic_id", ""), error_prefix)


def _uuid_of(id_text: str, error_prefix: str) -> uuid.UUID:
    try:
        return uuid_from(id_text)
    except ValueError as error:
        raise CorruptLogRecordError(f"{error_prefix}: {error}") from error


def _properties(text: str) -> dict[str, str]:
    lines = (line.strip() for line in text.splitlines())
    return {
        key.strip(): value.strip()
        for key, _, value in (line.partition("=") for line in lines if not line.startswith("#"))
    }
