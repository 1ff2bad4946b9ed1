"""Positions of groups that were visible before the transaction that sent them was committed.

The coordinator keeps the positions of a TxnOffsetCommit apart until the marker comes (KIP-98,
KIP-447). A reader that sees them earlier and starts there skips input, and the output of that input
may still be aborted.
"""

from __future__ import annotations

from collections.abc import Mapping

from txnsim.types import TopicPartition
from txnsim_lab.check.anomaly import Anomaly, Kind, convict
from txnsim_lab.check.history import History, Transaction
from txnsim_lab.check.observations import Outcome, PositionsRead, SentOffsets


def positions_before_decision(history: History) -> tuple[Anomaly, ...]:
    """An OffsetFetch returned a position that was sent only in transactions that never committed,
    or whose commit had not been requested by then.
    """
    sent_offsets_by_position: dict[
        tuple[str, TopicPartition, int], list[tuple[int, SentOffsets]]
    ] = {}
    for index, sent_offsets in history.all_of(SentOffsets):
        sent_offsets_by_position.setdefault(
            (sent_offsets.group, sent_offsets.place, sent_offsets.position), []
        ).append((index, sent_offsets))
    transaction_by_label = history.transactions()
    anomalies = []
    for index, read in history.all_of(PositionsRead):
        for position in () if read.error else read.positions:
            sent_offsets_of_position = sent_offsets_by_position.get(
                (read.group, position.place, position.offset), []
            )
            uncommitted_labels = [
                _sent_before_decision(transaction_by_label, sent_offsets_of_sender, read)
                for _, sent_offsets_of_sender in sent_offsets_of_position
            ]
            if not sent_offsets_of_position or None in uncommitted_labels:
                continue
            reason = (
                f"{read.who} got {position.offset} as the position of {read.group} on "
                f"{position.place}, which {uncommitted_labels[0]} had sent and not committed"
            )
            evidence_indexes = [index, *(sent_index for sent_index, _ in sent_offsets_of_position)]
            anomalies.append(convict(Kind.POSITIONS_BEFORE_DECISION, reason, *evidence_indexes))
    return tuple(anomalies)


def _sent_before_decision(
    transaction_by_label: Mapping[str, Transaction], sent_offsets: SentOffsets, read: PositionsRead
) -> str | None:
    """The transaction if it was still uncommitted at the read; None if it was committed, or if
    there is none.
    """
    if sent_offsets.transaction is None:
        return None
    transaction = transaction_by_label[sent_offsets.transaction]
    if transaction.fate.is_aborted:
        return transaction.label
    commit_requests = [
        end_observation
        for _, end_observation in transaction.ends
        if end_observation.commit and end_observation.outcome is not Outcome.FAILED
    ]
    commits_asked_ms = [
        end_observation.asked_ms
        for end_observation in commit_requests
        if end_observation.asked_ms is not None
    ]
    if (
        commit_requests
        and len(commits_asked_ms) == len(commit_requests)
        and read.at_ms < min(commits_asked_ms)
    ):
        return transaction.label
    return None
