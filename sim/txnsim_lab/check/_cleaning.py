"""Compacted logs that can't be cleaned any more.

The cleaner never passes the last stable offset (``LogCleanerManager.cleanableOffsets``). If the
transaction is live, the cleaner only waits. If it has no owner, the log grows forever: this is the
problem of KIP-664.
"""

from __future__ import annotations

from txnsim_lab.check._hanging import Hanging, hanging
from txnsim_lab.check.anomaly import Anomaly, Kind, convict
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import Cleaned


def uncleanable_logs(history: History) -> tuple[Anomaly, ...]:
    """The cleaner has run, but readers still get several records of one key from after the start of
    a hanging transaction, and the transaction still hangs at the end.
    """
    anomalies = []
    for transaction in hanging(history):
        proof = _find_uncleaned_key(history, transaction)
        if proof is not None:
            cleaning_index, read_index, key = proof
            reason = (
                f"{transaction.topic_partition}: the cleaner had its turn and left several"
                f" records of key {key!r} "
                f"behind {transaction.start_offset}, where a transaction hangs"
            )
            evidence_indexes = (cleaning_index, read_index, *transaction.evidence)
            anomalies.append(convict(Kind.UNCLEANABLE_LOG, reason, *evidence_indexes))
    return tuple(anomalies)


def _find_uncleaned_key(history: History, transaction: Hanging) -> tuple[int, int, str] | None:
    """The cleaner's last run, the Read that showed two records of one key that are older than the
    run, and the key; None if there is no such key.
    """
    cleaning_indexes = [
        index
        for index, cleaning in history.all_of(Cleaned)
        if cleaning.place == transaction.topic_partition
    ]
    if not cleaning_indexes:
        return None
    last_cleaning = cleaning_indexes[-1]
    high_watermarks = [
        read.high_watermark
        for index, read in history.reads(transaction.topic_partition)
        if index < last_cleaning
    ]
    candidates = range(transaction.start_offset, max(high_watermarks, default=0))
    offset_by_key: dict[str, int] = {}
    for index, read in history.reads(transaction.topic_partition):
        for record in read.records if index > last_cleaning else ():
            if record.key is None or record.offset not in candidates:
                continue
            if offset_by_key.setdefault(record.key, record.offset) != record.offset:
                return last_cleaning, index, record.key
    return None
