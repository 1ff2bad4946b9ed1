"""DescribeTransactions v1, as the text of KIP-994 has it.

Kafka never shipped it (4.4 has only version 0), so no broker advertises it; it is here for
clusters that are set to follow the KIP. It adds to each transaction the time of its last update,
-1 (None) when unknown; the request is that of version 0. The new field follows the start time.
"""

from typing import Any, Final

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest as RequestV0
from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse as ResponseV0
from kio.schema.describe_transactions.v0.response import TopicData
from kio.schema.response_header.v1.header import ResponseHeader

from txnsim.wire._declared_messages import message, remake_class

DescribeTransactionsRequest: Final[Any] = remake_class(RequestV0, version=1)
TransactionState: Final[Any] = message(
    "TransactionState",
    "What the coordinator knows of one transactional id.",
    "error_code error_code",
    "transactional_id string",
    "transaction_state string",
    "transaction_timeout timedelta_i32",
    "transaction_start_time datetime_i64?",
    "transaction_last_update_time datetime_i64? = None",
    "producer_id int64",
    "producer_epoch int16",
    "topics []Topic",
    types={"Topic": TopicData},
    class_attributes={"__version__": 1, "__api_key__": 65, "__header_schema__": ResponseHeader},
)
DescribeTransactionsResponse: Final[Any] = remake_class(ResponseV0, TransactionState, version=1)
