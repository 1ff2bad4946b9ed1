"""The APIs of the listener of ``--kip-text``: those that Kafka ships, with the differences of the
texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from txnsim.api._records.produce import API_KEY as PRODUCE
from txnsim.api._transactions import end_txn, init_producer_id
from txnsim.api._transactions.add_offsets_to_txn import API_KEY as ADD_OFFSETS_TO_TXN
from txnsim.api._transactions.add_partitions_to_txn import API_KEY as ADD_PARTITIONS_TO_TXN
from txnsim.api._transactions.describe_transactions import API_KEY as DESCRIBE_TRANSACTIONS
from txnsim.api._transactions.list_transactions import API_KEY as LIST_TRANSACTIONS
from txnsim.api._transactions.txn_offset_commit import API_KEY as TXN_OFFSET_COMMIT
from txnsim.api._transactions.write_txn_markers import API_KEY as WRITE_TXN_MARKERS
from txnsim.api.kip_text import _add_partitions_to_txn as add_partitions_to_txn
from txnsim.api.kip_text import _describe_transactions as describe_transactions
from txnsim.api.kip_text import _list_transactions as list_transactions
from txnsim.api.kip_text import _produce as produce
from txnsim.api.kip_text import _txn_offset_commit as txn_offset_commit
from txnsim.api.kip_text import _write_txn_markers as write_txn_markers
from txnsim.api.kip_text._errors import produce_error, server_failure
from txnsim.api.registry import SHIPPED
from txnsim.api.request import ApiTable, Handler, Reply, Request
from txnsim.errors import ErrorCode
from txnsim.wire.registry import version_range

DEVIATIONS: Final = (
    "The listener of --kip-text speaks the versions of the release that brokers run by default, "
    "also where its broker runs another one.",
)

LISTENER: Final = "KIP_TEXT"
"""The listener's name, for ``BrokerImage.address``."""

INIT_PRODUCER_ID: Final = init_producer_id.API_KEY

_RANGES: Final[Mapping[int, tuple[int, int]]] = {
    INIT_PRODUCER_ID: version_range(INIT_PRODUCER_ID),
    ADD_PARTITIONS_TO_TXN: (0, 4),
    end_txn.API_KEY: (0, 4),
    DESCRIBE_TRANSACTIONS: version_range(DESCRIBE_TRANSACTIONS),
}
"""Version ranges of APIs where the texts count versions differently."""

END_BUMPS_FROM: Final = 4
"""EndTxn v4 bumps the epoch and returns the identity to go on with. Kafka ships that as v5, and v4
only announces an error; so a stock client that uses v4 misreads the answer and goes on under an
epoch that is over. There is no v5 here.
"""

_ERROR_RENAMES: Final[Mapping[int, tuple[int, Callable[[ErrorCode], ErrorCode]]]] = {
    PRODUCE: (produce.NEW_FROM, produce_error),
    INIT_PRODUCER_ID: (5, server_failure),
    ADD_PARTITIONS_TO_TXN: (add_partitions_to_txn.NEW_FROM, server_failure),
    ADD_OFFSETS_TO_TXN: (4, server_failure),
    TXN_OFFSET_COMMIT: (txn_offset_commit.NEW_FROM, server_failure),
    end_txn.API_KEY: (END_BUMPS_FROM, server_failure),
}
"""API key -> the first version that answers a transactional request with the errors of the text,
and the function that maps an error.
"""

_TEXT_PARTS: Final[Mapping[int, Mapping[str, Any]]] = {
    PRODUCE: {"handle": produce.handle},
    INIT_PRODUCER_ID: {"handle": partial(init_producer_id.handle, comes_through_kip_text=True)},
    ADD_PARTITIONS_TO_TXN: {"handle": add_partitions_to_txn.handle},
    TXN_OFFSET_COMMIT: {"handle": txn_offset_commit.handle},
    end_txn.API_KEY: {
        "handle": partial(end_txn.handle, bumps_epoch_from=END_BUMPS_FROM),
        "refuse": partial(end_txn.refuse, bumps_epoch_from=END_BUMPS_FROM),
    },
    WRITE_TXN_MARKERS: {
        "handle": write_txn_markers.handle,
        "refuse": write_txn_markers.refuse,
        "subject": write_txn_markers.subject,
        "decode": write_txn_markers.decode,
    },
    DESCRIBE_TRANSACTIONS: {"handle": describe_transactions.handle},
    LIST_TRANSACTIONS: {"handle": list_transactions.handle},
}
"""API key -> the parts of the handler that follow the text."""


def _text_handler(handler: Handler) -> Handler:
    own_handler = handler.with_parts(**_TEXT_PARTS.get(handler.key, {}))
    if handler.key not in _ERROR_RENAMES:
        return own_handler
    first_version, rename_error = _ERROR_RENAMES[handler.key]

    def refuse(request: Request, error: ErrorCode) -> Reply:
        is_transactional = getattr(request.message, "transactional_id", "") is not None
        follows_text = request.api_version >= first_version and is_transactional
        return own_handler.refuse(request, rename_error(error) if follows_text else error)

    return own_handler.with_parts(refuse=refuse)


KIP_TEXT: Final = ApiTable(
    listener=LISTENER,
    handlers={key: _text_handler(handler) for key, handler in SHIPPED.handlers.items()},
    accepted={**SHIPPED.accepted, **_RANGES},
    advertised={**SHIPPED.advertised, **_RANGES},
)
