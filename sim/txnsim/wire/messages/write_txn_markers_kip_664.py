"""WriteTxnMarkers v1, as the text of KIP-664 has it.

Kafka's own version 1 is version 0 made flexible; in the text each partition is an element of its
own, with a tagged field that says since which offset the transaction to be ended is open, -1 where
nobody says. The answer is that of Kafka's version 1.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.types import ProducerId, TopicName
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i64

__all__ = [
    "WritableTxnMarker",
    "WritableTxnMarkerPartition",
    "WritableTxnMarkerTopic",
    "WriteTxnMarkersRequest",
]

_VERSION = i16(1)
_API_KEY = i16(27)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerPartition:
    """A partition, and the transaction that is to end there."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = _API_KEY
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    txn_start_offset: i64 = field(metadata={"kafka_type": "int64", "tag": 0}, default=i64(-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerTopic:
    """The partitions of one topic."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = _API_KEY
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    name: TopicName = field(metadata={"kafka_type": "string"})
    partitions: tuple[WritableTxnMarkerPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarker:
    """The end of one producer's transaction; coordinator epoch -1 says that an operator asks."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = _API_KEY
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    producer_id: ProducerId = field(metadata={"kafka_type": "int64"})
    producer_epoch: i16 = field(metadata={"kafka_type": "int16"})
    transaction_result: bool = field(metadata={"kafka_type": "bool"})
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: i32 = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkersRequest:
    """The markers to be written."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = _API_KEY
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    markers: tuple[WritableTxnMarker, ...]
