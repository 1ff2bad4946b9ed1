"""TxnOffsetCommit v6 (KIP-1319): topic ids instead of names, and member epochs."""

from typing import Any, Final

from kio.schema.txn_offset_commit.v5 import request, response

from txnsim.wire._declared_messages import message, remake_class

_REQUEST_VARIABLES: Final = {
    "__version__": 6,
    "__api_key__": request.TxnOffsetCommitRequest.__api_key__,
    "__header_schema__": request.TxnOffsetCommitRequest.__header_schema__,
}
_RESPONSE_VARIABLES: Final = {
    **_REQUEST_VARIABLES,
    "__header_schema__": response.TxnOffsetCommitResponse.__header_schema__,
}

TxnOffsetCommitRequestPartition: Final[Any] = remake_class(
    request.TxnOffsetCommitRequestPartition, version=6
)
TxnOffsetCommitRequestTopic: Final[Any] = message(
    "TxnOffsetCommitRequestTopic",
    "Positions in one topic.",
    "topic_id uuid",
    "partitions []Partition",
    types={"Partition": TxnOffsetCommitRequestPartition},
    class_attributes=_REQUEST_VARIABLES,
)
TxnOffsetCommitRequest: Final[Any] = message(
    "TxnOffsetCommitRequest",
    "Positions of a group, as part of a transaction.",
    "transactional_id string",
    "group_id string",
    "producer_id int64",
    "producer_epoch int16",
    "generation_id_or_member_epoch int32 = -1",
    'member_id string = ""',
    "group_instance_id string? = None",
    "topics []Topic",
    types={"Topic": TxnOffsetCommitRequestTopic},
    class_attributes=_REQUEST_VARIABLES,
)
TxnOffsetCommitResponsePartition: Final[Any] = remake_class(
    response.TxnOffsetCommitResponsePartition, version=6
)
TxnOffsetCommitResponseTopic: Final[Any] = message(
    "TxnOffsetCommitResponseTopic",
    "What came of one topic.",
    "topic_id uuid",
    "partitions []Partition",
    types={"Partition": TxnOffsetCommitResponsePartition},
    class_attributes=_RESPONSE_VARIABLES,
)
TxnOffsetCommitResponse: Final[Any] = remake_class(
    response.TxnOffsetCommitResponse, TxnOffsetCommitResponseTopic, version=6
)
