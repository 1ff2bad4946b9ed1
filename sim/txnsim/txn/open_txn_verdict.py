"""The verdict on one open transaction of a partition: it hangs, its marker is owed, or it is alive.
Pure.

The verdict on a cluster (``txnsim.verdict``) is made of these.

KIP-664 asks for a comparison of what the partition's leader knows (DescribeProducers) with what the
coordinator knows (DescribeTransactions), epochs included. Kafka's tool compares only whether the
coordinator lists the partition; here the comparison is complete:

- No coordinator has the producer, or its coordinator does not list the partition: no marker will
  ever come, the transaction **hangs**.
- The coordinator has decided (PrepareCommit, PrepareAbort) and lists the partition: **decided**.
  The marker is owed and the coordinator keeps sending it, whatever the epochs say: the marker's may
  be one higher than the records'.
- The coordinator's transaction is Ongoing there with another epoch: it is another transaction, and
  this one **hangs**.
- Otherwise it is **alive**: it ends with its producer or by ``transaction.timeout.ms``.

This module also makes every command that ends an open transaction, from its verdict. Only a hanging
transaction has one: a decided or live transaction ends by itself, and a marker written by hand
would tear it apart.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self

import msgspec

from txnsim.shell_text import ShellText, arguments, command_line, continued, option
from txnsim.txn.state import TIMEOUT_NEVER_MS
from txnsim.types import TopicPartition

PROGRAM: Final = command_line("txnsim", "txns")
DISCARD_WARNING: Final = (
    "that discards its records on every partition, also those that a checkpoint of Flink, a"
    " connector or a two-phase commit may count as committed"
)
"""The effect of fencing a producer on its open transaction: an abort."""
DECIDED_STATES: Final = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""States of a coordinator that still owes a marker to every listed partition."""


class OpenTxnStatus(StrEnum):
    """The verdict on an open transaction. A leader's answer leads to one of the first three; the
    files of log directories may lead to the others.
    """

    HANGING = "hanging"
    DECIDED = "decided"
    ALIVE = "alive"
    REPLICAS_DISAGREE = "replicas_disagree"
    RECENT = "recent"
    """Too young to be judged when the report was made."""
    UNKNOWN = "unknown"

    @classmethod
    def judge(
        cls,
        producer_id: int,
        producer_epoch: int,
        transactional_id: str | None,
        txn: CoordinatedTxn | None,
    ) -> tuple[Self, str]:
        """The verdict on an open transaction of a partition, and the reason as a sentence without
        its full stop.

        Args:
            producer_id: Producer id, from the leader.
            producer_epoch: Producer epoch, from the leader.
            transactional_id: Transactional id that *all* coordinators list for that producer id;
                None if there is none.
            txn: Its coordinator's answer about that id; None if the coordinator has forgotten it.
        """
        if transactional_id is None:
            return cls.HANGING, f"no coordinator knows producer id {producer_id}"
        if txn is None:
            return (
                cls.HANGING,
                f"its coordinator has forgotten transactional id {transactional_id}",
            )
        id_text = f"transactional id {txn.transactional_id}"
        if txn.producer_id != producer_id:
            return cls.HANGING, (
                f"{id_text} goes on with producer id {txn.producer_id}; the coordinator no longer"
                f" has a transaction of {producer_id}"
            )
        if not txn.lists_partition:
            return cls.HANGING, (
                f"{id_text} is {txn.state} without this partition, so its coordinator will send"
                " no marker here"
            )
        if txn.state in DECIDED_STATES:
            return cls.DECIDED, (
                f"{id_text} is {txn.state}: the outcome stands and its coordinator, broker"
                f" {txn.coordinator_id}, has yet to get the marker written here"
            )
        if txn.producer_epoch != producer_epoch:
            return cls.HANGING, (
                f"{id_text} is {txn.state} with epoch {txn.producer_epoch}; this transaction is"
                f" of epoch {producer_epoch}, which no marker will end"
            )
        if txn.is_two_phase:
            return cls.ALIVE, (
                f"{id_text} is Ongoing with this partition and without a timeout, as two-phase"
                " commit has it (KIP-939): prepared, it waits for its external coordinator"
            )
        return cls.ALIVE, (
            f"{id_text} is {txn.state} with this partition: it ends with its producer, or when"
            f" its coordinator has had it for transaction.timeout.ms={txn.timeout_ms}"
        )

    def repair_command(
        self, partition: TopicPartition, *, program: ShellText = PROGRAM
    ) -> ShellText | None:
        """The command that ends a hanging transaction; None with any other verdict. ``repair``
        checks again right before it writes, and writes the marker of the decision, COMMIT or ABORT.
        Kafka's own tool writes an ABORT only.
        """
        if self is not OpenTxnStatus.HANGING:
            return None
        return continued(program, "repair", *partition_options(partition), "--yes")


class CoordinatedTxn(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction as its coordinator describes it."""

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    lists_partition: bool
    timeout_ms: int

    @property
    def is_two_phase(self) -> bool:
        """Whether the transaction takes part in two-phase commit (KIP-939). A broker does not know
        whether it is prepared yet; only its external coordinator knows its outcome.
        """
        return is_two_phase(self.state, self.timeout_ms)


def is_two_phase(state: str, timeout_ms: int) -> bool:
    """Whether a transaction takes part in two-phase commit (KIP-939): it has no timeout."""
    return state == "Ongoing" and timeout_ms == TIMEOUT_NEVER_MS


def program_at(bootstrap: str | None, *options: str) -> ShellText:
    """The command line of ``txnsim txns`` for a cluster."""
    server_option = () if bootstrap is None else option("--bootstrap-server", bootstrap)
    return continued(PROGRAM, *server_option, *options)


def why_command(partition: TopicPartition, program: ShellText = PROGRAM) -> ShellText:
    """The command that tells what holds readers of a partition back."""
    return continued(program, "why", *arguments(partition.topic, str(partition.partition)))


def partition_options(partition: TopicPartition) -> tuple[str, ...]:
    """The options that name a partition, as Kafka's and our commands have them."""
    return *option("--topic", partition.topic), *option("--partition", partition.partition)
