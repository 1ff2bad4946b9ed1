"""The state of an open transaction on a partition: it hangs, its marker is on its way, or it is
alive. Pure.

The rules are in ``txn.open_txn_verdict``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from txnsim.client.inspection.hanging import OpenTransaction
from txnsim.client.inspection.txn_views import TransactionDescription
from txnsim.shell_text import ShellText
from txnsim.txn.open_txn_verdict import CoordinatedTxn, OpenTxnStatus
from txnsim.txn.past_decision import DecisionEvidence, NewestTxn
from txnsim.types import TopicPartition


class JudgedTransaction(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An open transaction, with its coordinator's view of it."""

    transaction: OpenTransaction
    verdict: OpenTxnStatus
    reason: str
    """A sentence without its full stop."""
    transactional_id: str | None = None
    """None if no coordinator knows the producer id."""
    state: str | None = None
    coordinator_id: int | None = None
    is_two_phase: bool = False
    """Whether it is prepared and has no timeout, because an external coordinator will decide it
    (KIP-939).
    """
    decided: DecisionEvidence | None = None
    """The missing marker of a hanging transaction; None for all others."""

    def command(self, program: ShellText) -> ShellText | None:
        """The repair command for the cluster, as called by ``program``; None unless hanging."""
        return self.verdict.repair_command(self.transaction.partition, program=program)


def judge(
    open_transactions: Iterable[OpenTransaction],
    transactional_ids: Mapping[int, str],
    descriptions: Mapping[str, TransactionDescription | None],
) -> tuple[JudgedTransaction, ...]:
    """Judge each open transaction.

    Args:
        open_transactions: Open transactions, as leaders describe them.
        transactional_ids: Producer id -> transactional id, as *all* coordinators list them.
        descriptions: Transactional id -> description; None if the coordinator has forgotten it.
    """
    return tuple(judging(open_transactions, transactional_ids, descriptions))


def judging(
    open_transactions: Iterable[OpenTransaction],
    transactional_ids: Mapping[int, str],
    descriptions: Mapping[str, TransactionDescription | None],
) -> Iterator[JudgedTransaction]:
    """The judgements, computed one at a time."""
    listed_partitions: dict[str, frozenset[TopicPartition]] = {}
    for transaction in open_transactions:
        transactional_id = transactional_ids.get(transaction.producer.producer_id)
        description = None if transactional_id is None else descriptions.get(transactional_id)
        coordinator_view = None
        if description is not None:
            partitions = listed_partitions.get(description.transactional_id)
            if partitions is None:
                partitions = listed_partitions[description.transactional_id] = frozenset(
                    description.partitions
                )
            coordinator_view = _coordinator_view(
                description, lists_partition=transaction.partition in partitions
            )
        verdict, reason = OpenTxnStatus.judge(
            transaction.producer.producer_id,
            transaction.producer.producer_epoch,
            transactional_id,
            coordinator_view,
        )
        yield JudgedTransaction(
            transaction=transaction,
            verdict=verdict,
            reason=reason,
            transactional_id=transactional_id,
            state=None if description is None else description.state,
            coordinator_id=None if description is None else description.coordinator_id,
            is_two_phase=verdict is OpenTxnStatus.ALIVE
            and coordinator_view is not None
            and coordinator_view.is_two_phase,
            decided=_decision_on(transaction, description)
            if verdict is OpenTxnStatus.HANGING
            else None,
        )


def _decision_on(
    transaction: OpenTransaction, description: TransactionDescription | None
) -> DecisionEvidence:
    producer = transaction.producer
    return DecisionEvidence.from_newest_txn(
        producer.producer_id,
        producer.producer_epoch,
        producer.last_timestamp_ms,
        None
        if description is None
        else NewestTxn(
            state=description.state,
            producer_id=description.producer_id,
            producer_epoch=description.producer_epoch,
            start_time_ms=description.start_time_ms,
        ),
    )


def _coordinator_view(
    description: TransactionDescription, *, lists_partition: bool
) -> CoordinatedTxn:
    return CoordinatedTxn(
        transactional_id=description.transactional_id,
        coordinator_id=description.coordinator_id,
        state=description.state,
        producer_id=description.producer_id,
        producer_epoch=description.producer_epoch,
        lists_partition=lists_partition,
        timeout_ms=description.timeout_ms,
    )
