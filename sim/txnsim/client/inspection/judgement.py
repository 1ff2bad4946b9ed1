"""What becomes of an open transaction on a partition: it hangs, its marker is on its way, or it is
alive. Pure.

KIP-664 asks to compare what the partition's leader knows (DescribeProducers) with what the
coordinator knows (DescribeTransactions), epochs included. Kafka's tool compares only whether the
coordinator lists the partition (``hanging`` does the same); here the comparison is whole:

- nobody coordinates the producer, or its coordinator does not list the partition: nobody will ever
  write the marker, the transaction **hangs**;
- the coordinator has decided (PrepareCommit, PrepareAbort) and lists the partition: **decided**,
  the marker is owed and its coordinator keeps sending it, whatever the epochs say, as the marker's
  may be one higher than the records';
- the coordinator's transaction is Ongoing there under another epoch: it is another transaction, and
  this one **hangs**;
- else it is **alive**: it ends with its producer or by ``transaction.timeout.ms``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from txnsim.client.inspection.hanging import OpenTransaction
from txnsim.client.inspection.txn_views import TransactionDescription

DECIDED_STATES: Final = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""Markers are owed to every partition that is still listed."""


class Verdict(StrEnum):
    """What becomes of it."""

    HANGING = "hanging"
    DECIDED = "decided"
    ALIVE = "alive"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """An open transaction with what its coordinator says of it."""

    transaction: OpenTransaction
    verdict: Verdict
    reason: str
    """One sentence without its full stop."""
    transactional_id: str | None = None
    """None: no coordinator knows the producer id."""
    state: str | None = None
    coordinator_id: int | None = None

    @property
    def abort_command(self) -> str:
        """Arguments of ``txnsim txns`` that abort it, and no other transaction."""
        where = self.transaction.partition
        start = self.transaction.producer.txn_start_offset
        return f"abort --topic {where.topic} --partition {where.partition} --start-offset {start}"


def judge(
    open_transactions: Iterable[OpenTransaction],
    transactional_ids: Mapping[int, str],
    descriptions: Mapping[str, TransactionDescription | None],
) -> tuple[Finding, ...]:
    """Judge each of them.

    Args:
        open_transactions: As leaders tell of them.
        transactional_ids: Producer id -> transactional id, as *all* coordinators list them.
        descriptions: Transactional id -> description; None where the coordinator has forgotten it.
    """
    findings = []
    for one in open_transactions:
        transactional_id = transactional_ids.get(one.producer.producer_id)
        known = None if transactional_id is None else descriptions.get(transactional_id)
        if transactional_id is None:
            verdict = Verdict.HANGING
            reason = f"no coordinator knows producer id {one.producer.producer_id}"
        elif known is None:
            verdict = Verdict.HANGING
            reason = f"its coordinator has forgotten transactional id {transactional_id}"
        else:
            verdict, reason = _compare(one, known)
        findings.append(
            Finding(
                transaction=one,
                verdict=verdict,
                reason=reason,
                transactional_id=transactional_id,
                state=None if known is None else known.state,
                coordinator_id=None if known is None else known.coordinator_id,
            )
        )
    return tuple(findings)


def _compare(one: OpenTransaction, known: TransactionDescription) -> tuple[Verdict, str]:
    producer = one.producer
    whose = f"transactional id {known.transactional_id}"
    if known.producer_id != producer.producer_id:
        return Verdict.HANGING, (
            f"{whose} goes on with producer id {known.producer_id}; the coordinator no longer has"
            f" a transaction of {producer.producer_id}"
        )
    if one.partition not in known.partitions:
        return Verdict.HANGING, (
            f"{whose} is {known.state} without this partition, so its coordinator will send no"
            " marker here"
        )
    if known.state in DECIDED_STATES:
        return Verdict.DECIDED, (
            f"{whose} is {known.state}: the outcome stands and its coordinator, broker"
            f" {known.coordinator_id}, has yet to get the marker written here"
        )
    if known.producer_epoch != producer.producer_epoch:
        return Verdict.HANGING, (
            f"{whose} is {known.state} with epoch {known.producer_epoch}; this transaction is of"
            f" epoch {producer.producer_epoch}, which no marker will end"
        )
    return Verdict.ALIVE, (
        f"{whose} is {known.state} with this partition: it ends with its producer, or after"
        f" transaction.timeout.ms={known.timeout_ms}"
    )
