"""Explains what keeps records from read_committed readers: the verdict on an open transaction, and
the sentences for it. Pure.

Three commands use it: ``txnsim txns why`` with the answers of brokers, ``txnsim explain`` and the
page with a trace. All of them take verdict and sentences from here, so that they agree.

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

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Self

import msgspec

from txnsim.shell_text import ShellText, arguments, command_line, continued, option
from txnsim.txn.past_decision import Decided
from txnsim.txn.state import TIMEOUT_NEVER_MS
from txnsim.types import TopicPartition

PROGRAM: Final = command_line("txnsim", "txns")
NAMED_GROUPS_MAX: Final = 10
"""Most share groups that a sentence names."""
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


class Cause(StrEnum):
    """What holds readers back."""

    NOTHING = "nothing"
    """No open transaction; readers can read up to the high watermark."""
    HANGING = "hanging transaction"
    DECIDED = "marker outstanding"
    ALIVE = "open transaction"
    UNREPLICATED = "marker not replicated"
    """The transaction has ended at the leader, and its marker is above the high watermark."""
    WRITTEN = "not yet on all replicas"
    """No transaction is open at the leader; the high watermark is unknown."""
    UNTOLD = "open transaction that can't be judged"
    """The brokers are too old to tell how the transaction ends."""
    OFFLINE = "no leader"

    @classmethod
    def of_status(cls, verdict: OpenTxnStatus) -> Cause:
        """The cause that belongs to the verdict on an open transaction whose leader answered."""
        return {
            OpenTxnStatus.HANGING: cls.HANGING,
            OpenTxnStatus.DECIDED: cls.DECIDED,
            OpenTxnStatus.ALIVE: cls.ALIVE,
        }[verdict]


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


class BlockingTxn(msgspec.Struct, frozen=True, kw_only=True):
    """The open transaction at which readers stop."""

    producer_id: int
    producer_epoch: int
    quiet_ms: int
    """Milliseconds since the timestamp of its newest record. The producer sets timestamps, so it
    may be longer than the transaction has been open.
    """
    verdict: OpenTxnStatus
    reason: str
    """The reason of the verdict, as a sentence without its full stop."""
    transactional_id: str | None
    coordinator_id: int | None
    is_two_phase: bool = False
    decided: Decided | None = None
    """The decision about a hanging transaction; None unless a coordinator answered."""


class ReaderStanding(msgspec.Struct, frozen=True, kw_only=True):
    """How far readers of a partition get, and why not further."""

    partition: TopicPartition
    cause: Cause
    last_stable_offset: int
    high_watermark: int
    blocking_txn: BlockingTxn | None = None
    later_open_count: int = 0
    """Number of open transactions after the blocking one."""
    not_in_sync: Sequence[int] = ()
    """Ids of replicas that are not in sync."""
    share_groups: Sequence[tuple[str, int | None]] = ()
    """(name, start offset) of the share groups with read_committed."""
    program: ShellText = PROGRAM
    """The command line of ``txnsim txns`` for this cluster."""

    def sentences(self) -> tuple[str, ...]:
        """Explain why readers don't get further, and what to do."""
        if self.cause is Cause.NOTHING:
            return (
                f"No transaction holds readers back: the last stable offset is"
                f" {self.last_stable_offset}, the high watermark is {self.high_watermark}.",
                "A consumer that stands there has read everything. One that stands lower is held"
                " back by itself, by its group, or by a broker it can't reach.",
                *_delay_causes(self),
            )
        withheld_text = withheld_sentence(self.last_stable_offset, self.high_watermark)
        holder = self.blocking_txn
        if self.cause is Cause.WRITTEN:
            return (
                withheld_text,
                "No transaction is open there. What was written last is at the leader and not yet"
                " on all replicas that are in sync. It is a matter of replication.",
            )
        if holder is None or self.cause is Cause.UNREPLICATED:
            return (
                withheld_text,
                "No transaction is open there any more: the marker that ended it is written at the"
                " leader and not yet on all replicas that are in sync. It is a matter of"
                " replication.",
                *_delay_causes(self),
            )
        later_txns = (
            (f"Transactions that are open behind it: {self.later_open_count}.",)
            if self.later_open_count
            else ()
        )
        share_groups = (_share_groups_sentence(self.share_groups),) if self.share_groups else ()
        return (
            withheld_text,
            _open_txn_sentence(holder),
            _advice(self, holder),
            *later_txns,
            *share_groups,
        )


def is_two_phase(state: str, timeout_ms: int) -> bool:
    """Whether a transaction takes part in two-phase commit (KIP-939): it has no timeout."""
    return state == "Ongoing" and timeout_ms == TIMEOUT_NEVER_MS


def withheld_sentence(last_stable_offset: int, high_watermark: int) -> str:
    """Sentence about the offsets that read_committed consumers do not get."""
    offset_count = high_watermark - last_stable_offset
    last_offsets = "offset" if offset_count == 1 else f"{offset_count} offsets"
    return (
        f"read_committed consumers stop at offset {last_stable_offset}, the last stable"
        f" offset; the high watermark is {high_watermark}, so they do not get the last"
        f" {last_offsets}."
    )


def _share_groups_sentence(share_groups: Sequence[tuple[str, int | None]]) -> str:
    group_names = ", ".join(
        group_name if start_offset is None else f"{group_name} (start offset {start_offset})"
        for group_name, start_offset in share_groups[:NAMED_GROUPS_MAX]
    )
    unlisted_text = (
        f" and {len(share_groups) - NAMED_GROUPS_MAX} more"
        if len(share_groups) > NAMED_GROUPS_MAX
        else ""
    )
    return (
        "Share groups with read_committed get nothing from there on either:"
        f" {group_names}{unlisted_text}."
    )


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


def _open_txn_sentence(holder: BlockingTxn) -> str:
    return (
        f"That is where the transaction of producer id {holder.producer_id}, epoch"
        f" {holder.producer_epoch}, begins, which is open here; its newest record is stamped"
        f" {max(0, holder.quiet_ms) // 1000} s ago; {holder.reason}."
    )


def _advice(standing: ReaderStanding, holder: BlockingTxn) -> str:
    command = holder.verdict.repair_command(standing.partition, program=standing.program)
    if command is not None:
        decision_text = "" if holder.decided is None else f" {holder.decided}."
        return f"It hangs.{decision_text} To end it: {Decided.with_guess(command, holder.decided)}."
    if holder.verdict is OpenTxnStatus.DECIDED:
        return (
            "It does not hang: the marker comes as soon as its coordinator reaches the leader."
            f" Look at broker {holder.coordinator_id} and at its way to the leader."
        )
    if holder.is_two_phase:
        return (
            "It does not hang: its external coordinator ends it. Ask that one first: fencing its"
            f" producer aborts it, even if it was decided to commit, and {DISCARD_WARNING}:"
            f" {_terminate_command(standing.program, holder)}."
        )
    return (
        "It does not hang. See first whether its application runs, or will start again with this"
        " transactional id and end it itself, and what its last checkpoint says of it. To end it"
        f" now, fence its producer, which aborts it; {DISCARD_WARNING}:"
        f" {_terminate_command(standing.program, holder)}."
    )


def _terminate_command(program: ShellText, holder: BlockingTxn) -> ShellText:
    id_option = option("--transactionalId", holder.transactional_id)
    return continued(program, "forceTerminateTransaction", *id_option)


def _delay_causes(standing: ReaderStanding) -> tuple[str, ...]:
    """Other causes that may delay the end."""
    if not standing.not_in_sync:
        return ()
    return (
        f"Replicas {list(standing.not_in_sync)} are not in sync; with min.insync.replicas not met"
        " the high watermark stands still.",
    )
