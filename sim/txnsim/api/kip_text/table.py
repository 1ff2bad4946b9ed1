"""The APIs of the listener of ``--kip-text``: those that Kafka ships, with the differences of the
texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from txnsim.api.kip_text import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    produce,
    txn_offset_commit,
    write_txn_markers,
)
from txnsim.api.records.produce import KEY as PRODUCE
from txnsim.api.registry import SHIPPED
from txnsim.api.request import ApiTable
from txnsim.api.transactions.add_offsets_to_txn import KEY as ADD_OFFSETS_TO_TXN
from txnsim.api.transactions.add_partitions_to_txn import KEY as ADD_PARTITIONS_TO_TXN
from txnsim.api.transactions.describe_transactions import KEY as DESCRIBE_TRANSACTIONS
from txnsim.api.transactions.end_txn import KEY as END_TXN
from txnsim.api.transactions.init_producer_id import KEY as INIT_PRODUCER_ID
from txnsim.api.transactions.list_transactions import KEY as LIST_TRANSACTIONS
from txnsim.api.transactions.txn_offset_commit import KEY as TXN_OFFSET_COMMIT
from txnsim.api.transactions.write_txn_markers import KEY as WRITE_TXN_MARKERS

DEVIATIONS: Final = (
    "The listener of --kip-text speaks the versions of the newest release, whatever release its "
    "broker runs.",
)

LISTENER: Final = "KIP_TEXT"
"""Name of the listener, for ``BrokerImage.address``."""

_RANGES: Final[Mapping[int, tuple[int, int]]] = {
    ADD_PARTITIONS_TO_TXN: (0, 4),
    END_TXN: (0, 4),
    DESCRIBE_TRANSACTIONS: describe_transactions.VERSIONS,
}
"""Versions where the texts count otherwise."""

_OWN: Final[Mapping[int, Mapping[str, Any]]] = {
    PRODUCE: {"handle": produce.handle, "refuse": produce.refuse},
    INIT_PRODUCER_ID: {"refuse": init_producer_id.refuse},
    ADD_PARTITIONS_TO_TXN: {
        "handle": add_partitions_to_txn.handle,
        "refuse": add_partitions_to_txn.refuse,
    },
    ADD_OFFSETS_TO_TXN: {"refuse": add_offsets_to_txn.refuse},
    TXN_OFFSET_COMMIT: {"handle": txn_offset_commit.handle, "refuse": txn_offset_commit.refuse},
    END_TXN: {"handle": end_txn.handle, "refuse": end_txn.refuse},
    WRITE_TXN_MARKERS: {
        "handle": write_txn_markers.handle,
        "refuse": write_txn_markers.refuse,
        "subject": write_txn_markers.subject,
        "decode": write_txn_markers.decode,
    },
    DESCRIBE_TRANSACTIONS: {
        "handle": describe_transactions.handle,
        "versions": describe_transactions.VERSIONS,
    },
    LIST_TRANSACTIONS: {"handle": list_transactions.handle},
}
"""API key -> the parts of the handler that follow the text."""

KIP_TEXT: Final = ApiTable(
    listener=LISTENER,
    handlers={
        key: msgspec.structs.replace(handler, **_OWN.get(key, {}))
        for key, handler in SHIPPED.handlers.items()
    },
    accepted={**SHIPPED.accepted, **_RANGES},
    advertised={**SHIPPED.advertised, **_RANGES},
)
