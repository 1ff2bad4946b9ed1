"""DescribeTransactions v1, as the text of KIP-994 has it.

Kafka never shipped it (4.4 still stops at version 0), so no release advertises it; it is here for
clusters that are told to follow the KIP. It adds to each transaction the time of its last update,
-1 (None) when unknown; the request is that of version 0. The new field follows the start time.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.describe_transactions.v0.response import TopicData
from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import ProducerId, TransactionalId
from kio.static.constants import EntityType
from kio.static.primitive import TZAware, i16, i32Timedelta

__all__ = [
    "DescribeTransactionsRequest",
    "DescribeTransactionsResponse",
    "TopicData",
    "TransactionState",
]

_VERSION = i16(1)
_API_KEY = i16(65)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsRequest:
    """Which transactional ids to describe."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = _API_KEY
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    transactional_ids: tuple[TransactionalId, ...] = field(
        metadata={"kafka_type": "string"}, default=()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """What the coordinator knows of one transactional id."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = _API_KEY
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    transactional_id: TransactionalId = field(metadata={"kafka_type": "string"})
    transaction_state: str = field(metadata={"kafka_type": "string"})
    transaction_timeout: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    transaction_start_time: TZAware | None = field(metadata={"kafka_type": "datetime_i64"})
    transaction_last_update_time: TZAware | None = field(
        metadata={"kafka_type": "datetime_i64"}, default=None
    )
    producer_id: ProducerId = field(metadata={"kafka_type": "int64"})
    producer_epoch: i16 = field(metadata={"kafka_type": "int16"})
    topics: tuple[TopicData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponse:
    """The described transactions."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = _VERSION
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = _API_KEY
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    transaction_states: tuple[TransactionState, ...]
