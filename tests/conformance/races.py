"""Where two correct brokers may answer differently for a while: the only such places in a play.

A play waits, or asks again, under one of these names, and counts how often. Everything else must be
equal at once. What is normalised in an answer (ids, addresses, times) is in
``txnsim_lab.conformance._book.transcript``.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

PATIENCE_S: Final = 20.0


class Race(Enum):
    """A difference in timing that is allowed between two brokers, with its reason."""

    PRODUCER_IDS = (
        "a broker takes producer ids in blocks and answers COORDINATOR_LOAD_IN_PROGRESS while the"
        " next one is on its way (RPCProducerIdManager): asked again"
    )
    MARKERS = (
        "markers are written after EndTxn, or the InitProducerId that fences, has been answered;"
        " until CompleteX is in the log everybody is told CONCURRENT_TRANSACTIONS"
        " (TransactionMarkerChannelManager): waited for. PrepareX that both show unchanged is no"
        " delay: a marker was refused, and the coordinator has given up"
        " (TransactionMarkerRequestCompletionHandler)"
    )
    TIME_OUT = (
        "the scan for overdue transactions runs by each broker's own clock"
        " (TransactionCoordinator.abortTimedOutTransactions): a transaction with a short time-out"
        " is waited for until both have aborted it"
    )
    TOO_LATE = (
        "between the first and the last request to a transaction with a short time-out the machine"
        " took so long that one broker may have aborted it: the play ends there"
    )
    CHANGES = (
        "a broker hears of topics, configs and feature levels after the change was answered"
        " (BrokerMetadataPublisher): waited for until both tell of it"
    )
