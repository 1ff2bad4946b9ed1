"""Reads of records that a read_committed reader must not see: records of transactions that did not
commit (G1a), or that had not ended yet (G1b). Readers that asked for read_uncommitted may see both.

Adya: PL-2, proscribed phenomena G1a and G1b; Kafka: KIP-98, "Consumers with read_committed only see
committed transactional messages".
"""

from __future__ import annotations

from txnsim_lab.check._visibility import Visibility, visibility
from txnsim_lab.check.anomaly import Anomaly, Kind, convict
from txnsim_lab.check.history import History, Transaction
from txnsim_lab.check.observations import Wrote


def aborted_reads(history: History) -> tuple[Anomaly, ...]:
    """G1a: a read_committed reader got a record of a transaction that can't have committed.

    Its producer asked for an abort, or got an error for the commit, and has no commit that took
    effect or may have. If several transactions have written the same value, this must hold for all
    of them.
    """
    record_visibility = visibility(history)
    anomalies = []
    for (partition, value), sights in record_visibility.sights.items():
        writing_transactions = [
            history.transaction_of(write)
            for _, write in record_visibility.writers.get((partition, value), ())
        ]
        if not writing_transactions or not all(
            writing_transaction and writing_transaction.fate.is_aborted
            for writing_transaction in writing_transactions
        ):
            continue
        writing_transaction = writing_transactions[0]
        assert writing_transaction is not None, "all of them are transactions"
        anomalies.append(
            convict(
                Kind.ABORTED_READ,
                f"{history[sights[0].index].who} read {value!r} at"
                f" {partition}@{sights[0].offset}, but "
                f"{writing_transaction.label} was not committed",
                sights[0].index,
                *(index for index, _ in record_visibility.writers[partition, value]),
                *(index for index, _ in writing_transaction.ends),
            )
        )
    return tuple(anomalies)


def intermediate_reads(history: History) -> tuple[Anomaly, ...]:
    """G1b: a read_committed reader got a record of a transaction that later wrote to the same
    partition.

    "Later" is the order of the answers. The reader had its record before the later record was
    acknowledged, and a producer asks for the end only after all its records are acknowledged. Where
    the producer did not wait, ``asked_ms`` tells when it asked for the end. A last stable offset
    between two records of a transaction proves nothing: another transaction may have begun there.
    """
    record_visibility = visibility(history)
    anomalies = []
    for transaction in history.transactions().values():
        writes_around_read = _find_read_amid_writes(transaction, history, record_visibility)
        if writes_around_read is None:
            continue
        (early_index, early_write), read_index, (late_index, late_write) = writes_around_read
        reason = (
            f"{history[read_index].who} read {early_write.value!r} of {transaction.label} at"
            f" {early_write.place}, and "
            f"afterwards it wrote {late_write.value!r} there"
        )
        anomalies.append(
            convict(Kind.INTERMEDIATE_READ, reason, early_index, read_index, late_index)
        )
    return tuple(anomalies)


def _find_read_amid_writes(
    transaction: Transaction, history: History, record_visibility: Visibility
) -> tuple[tuple[int, Wrote], int, tuple[int, Wrote]] | None:
    """A write of a transaction, the index of a Read that returned it, and a later write of the
    transaction; None if each Read came after all writes, or after the request for the end.
    """
    for index, write in transaction.writes:
        for sight in record_visibility.sights_of(write):
            for later_write in transaction.acknowledged:
                follows_write = later_write[0] > sight.index and later_write[1].place == write.place
                if follows_write and not _end_asked(
                    transaction, history, sight.index, later_write[0]
                ):
                    return (index, write), sight.index, later_write
    return None


def _end_asked(
    transaction: Transaction, history: History, read_index: int, later_index: int
) -> bool:
    return any(
        end_observation.asked_ms <= history[read_index].at_ms
        if end_observation.asked_ms is not None
        else index < later_index
        for index, end_observation in transaction.ends
    )
