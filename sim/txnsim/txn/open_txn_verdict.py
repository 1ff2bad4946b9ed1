"""The causes that keep records from read_committed readers: the verdict on an open transaction, and
its explanation. Pure.

Three commands use it: ``txnsim txns why`` on the answers of brokers, ``txnsim explain`` and the
page on a trace. All of them take verdict and sentences from here, so that they agree.

KIP-664 asks to compare what the partition's leader knows (DescribeProducers) with what the
coordinator knows (DescribeTransactions), epochs included. Kafka's tool compares only whether the
coordinator lists the partition; here the comparison is whole:

- no coordinator has the producer, or its coordinator does not list the partition: no marker will
  ever come, the transaction **hangs**;
- the coordinator has decided (PrepareCommit, PrepareAbort) and lists the partition: **decided**,
  the marker is owed and its coordinator keeps sending it, whatever the epochs say, as the marker's
  may be one higher than the records';
- the coordinator's transaction is Ongoing there under another epoch: it is another transaction, and
  this one **hangs**;
- else it is **alive**: it ends with its producer or by ``transaction.timeout.ms``.

Every command that ends an open transaction is made here from its verdict, too. Only what hangs has
one: what is decided or alive ends by itself, and a marker that is written by hand would tear it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Self

import msgspec

from txnsim.txn.past_decision import Decided
from txnsim.txn.state import TIMEOUT_NEVER_MS
from txnsim.types import TopicPartition

PROGRAM: Final = "txnsim txns"
NAMED_MAX: Final = 10
"""Share groups that a sentence names."""
DISCARDS: Final = (
    "that discards its records on every partition, also those that a checkpoint of Flink, a"
    " connector or a two-phase commit may count as committed"
)
"""What fencing a producer does to its open transaction: an abort."""
DECIDED_STATES: Final = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""Markers are owed to every partition that is still listed."""


class OpenTxnStatus(StrEnum):
    """What becomes of an open transaction. A leader that is asked knows the first three; files of
    log directories may leave the others.
    """

    HANGING = "hanging"
    DECIDED = "decided"
    ALIVE = "alive"
    REPLICAS_DISAGREE = "replicas_disagree"
    RECENT = "recent"
    """Too young to be judged at the time of the report."""
    UNKNOWN = "unknown"

    @classmethod
    def judge(
        cls,
        producer_id: int,
        producer_epoch: int,
        transactional_id: str | None,
        entry: CoordinatedTxn | None,
    ) -> tuple[Self, str]:
        """What becomes of a transaction that is open on a partition, and why: a sentence without
        its full stop.

        Args:
            producer_id: As the leader has it.
            producer_epoch: As the leader has it.
            transactional_id: Id with that producer id, as *all* coordinators list them; None
                for none.
            entry: Its coordinator's answer about that id; None where it has forgotten it.
        """
        if transactional_id is None:
            return cls.HANGING, f"no coordinator knows producer id {producer_id}"
        if entry is None:
            return (
                cls.HANGING,
                f"its coordinator has forgotten transactional id {transactional_id}",
            )
        id_text = f"transactional id {entry.transactional_id}"
        if entry.producer_id != producer_id:
            return cls.HANGING, (
                f"{id_text} goes on with producer id {entry.producer_id}; the coordinator no longer"
                f" has a transaction of {producer_id}"
            )
        if not entry.lists_partition:
            return cls.HANGING, (
                f"{id_text} is {entry.state} without this partition, so its coordinator will send"
                " no marker here"
            )
        if entry.state in DECIDED_STATES:
            return cls.DECIDED, (
                f"{id_text} is {entry.state}: the outcome stands and its coordinator, broker"
                f" {entry.coordinator_id}, has yet to get the marker written here"
            )
        if entry.producer_epoch != producer_epoch:
            return cls.HANGING, (
                f"{id_text} is {entry.state} with epoch {entry.producer_epoch}; this transaction is"
                f" of epoch {producer_epoch}, which no marker will end"
            )
        if entry.is_two_phase:
            return cls.ALIVE, (
                f"{id_text} is Ongoing with this partition and without a timeout, as two-phase"
                " commit has it (KIP-939): prepared, it waits for its external coordinator"
            )
        return cls.ALIVE, (
            f"{id_text} is {entry.state} with this partition: it ends with its producer, or when"
            f" its coordinator has had it for transaction.timeout.ms={entry.timeout_ms}"
        )

    def repair_command(self, partition: TopicPartition, *, program: str = PROGRAM) -> str | None:
        """What ends such a transaction; None unless it hangs. ``repair`` judges again right before
        it writes, and writes the marker that was decided, COMMIT or ABORT. Kafka's own tool writes
        an ABORT only.
        """
        if self is not OpenTxnStatus.HANGING:
            return None
        where = f"--topic {partition.topic} --partition {partition.partition}"
        return f"{program} repair {where} --yes"


class Cause(StrEnum):
    """The obstacle that holds readers back."""

    NOTHING = "nothing"
    """No open transaction; the end is where the high watermark is."""
    HANGING = "hanging transaction"
    DECIDED = "marker outstanding"
    ALIVE = "open transaction"
    UNREPLICATED = "marker not replicated"
    """The transaction has ended at the leader, and its marker is above the high watermark."""
    WRITTEN = "not yet on all replicas"
    """No transaction is open at the leader; nobody told where the high watermark is."""
    UNTOLD = "open transaction that can't be judged"
    """The brokers are too old to tell how it ends."""
    OFFLINE = "no leader"

    @classmethod
    def of_status(cls, verdict: OpenTxnStatus) -> Cause:
        """What an open transaction is to readers; its leader was asked."""
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
        """It takes part in two-phase commit (KIP-939). A broker does not know whether it is
        prepared yet; only its external coordinator knows its outcome.
        """
        return is_two_phase(self.state, self.timeout_ms)


class BlockingTxn(msgspec.Struct, frozen=True, kw_only=True):
    """The open transaction at which readers stop."""

    producer_id: int
    producer_epoch: int
    quiet_ms: int
    """Since the stamp of its newest record. The producer stamps, so it may be longer than the
    transaction has been open.
    """
    verdict: OpenTxnStatus
    reason: str
    """One sentence without its full stop."""
    transactional_id: str | None
    coordinator_id: int | None
    is_two_phase: bool = False
    decided: Decided | None = None
    """Marker due to a hanging transaction; None unless a coordinator answered."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as its readers meet it."""

    partition: TopicPartition
    cause: Cause
    last_stable_offset: int
    high_watermark: int
    holder: BlockingTxn | None = None
    other_holders: int = 0
    """Transactions that are open behind the holder."""
    not_in_sync: Sequence[int] = ()
    """Replicas."""
    share_groups: Sequence[tuple[str, int | None]] = ()
    """Those with read_committed, with their start offsets."""
    program: str = PROGRAM
    """How ``txnsim txns`` is called for this cluster."""

    def sentences(self) -> tuple[str, ...]:
        """Why readers don't get further, and what to do."""
        if self.cause is Cause.NOTHING:
            return (
                f"No transaction holds readers back: the last stable offset is"
                f" {self.last_stable_offset}, the high watermark is {self.high_watermark}.",
                "A consumer that stands there has read everything. One that stands lower is held"
                " back by itself, by its group, or by a broker it can't reach.",
                *_delay_causes(self),
            )
        withheld_text = withheld(self.last_stable_offset, self.high_watermark)
        holder = self.holder
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
        tail = (
            (f"Transactions that are open behind it: {self.other_holders}.",)
            if self.other_holders
            else ()
        )
        sharers = (_sharing(self.share_groups),) if self.share_groups else ()
        return withheld_text, _open(holder), _advice(self, holder), *tail, *sharers


def is_two_phase(state: str, timeout_ms: int) -> bool:
    """Whether a transaction takes part in two-phase commit (KIP-939): it has no timeout."""
    return state == "Ongoing" and timeout_ms == TIMEOUT_NEVER_MS


def withheld(last_stable_offset: int, high_watermark: int) -> str:
    """Sentence on the offsets that read_committed consumers do not get."""
    count = high_watermark - last_stable_offset
    last_offsets = "offset" if count == 1 else f"{count} offsets"
    return (
        f"read_committed consumers stop at offset {last_stable_offset}, the last stable"
        f" offset; the high watermark is {high_watermark}, so they do not get the last"
        f" {last_offsets}."
    )


def _sharing(groups: Sequence[tuple[str, int | None]]) -> str:
    names = ", ".join(
        name if start is None else f"{name} (start offset {start})"
        for name, start in groups[:NAMED_MAX]
    )
    more = f" and {len(groups) - NAMED_MAX} more" if len(groups) > NAMED_MAX else ""
    return f"Share groups with read_committed get nothing from there on either: {names}{more}."


def program_at(bootstrap: str | None, *options: str) -> str:
    """How ``txnsim txns`` is called for a cluster."""
    server = () if bootstrap is None else ("--bootstrap-server", bootstrap)
    return shlex.join((*PROGRAM.split(), *server, *options))


def _open(holder: BlockingTxn) -> str:
    return (
        f"That is where the transaction of producer id {holder.producer_id}, epoch"
        f" {holder.producer_epoch}, begins, which is open here; its newest record is stamped"
        f" {max(0, holder.quiet_ms) // 1000} s ago; {holder.reason}."
    )


def _advice(standing: Standing, holder: BlockingTxn) -> str:
    command = holder.verdict.repair_command(standing.partition, program=standing.program)
    if command is not None:
        decided = "" if holder.decided is None else f" {holder.decided}."
        return f"It hangs.{decided} To end it: {Decided.with_guess(command, holder.decided)}."
    if holder.verdict is OpenTxnStatus.DECIDED:
        return (
            "It does not hang: the marker comes as soon as its coordinator reaches the leader."
            f" Look at broker {holder.coordinator_id} and at its way to the leader."
        )
    if holder.is_two_phase:
        return (
            "It does not hang: its external coordinator ends it. Ask that one first: fencing its"
            f" producer aborts it, even if it was decided to commit, and {DISCARDS}:"
            f" {standing.program} forceTerminateTransaction --transactionalId"
            f" {holder.transactional_id}."
        )
    return (
        "It does not hang. See first whether its application runs, or will start again with this"
        " transactional id and end it itself, and what its last checkpoint says of it. To end it"
        f" now, fence its producer, which aborts it; {DISCARDS}: {standing.program}"
        f" forceTerminateTransaction --transactionalId {holder.transactional_id}."
    )


def _delay_causes(standing: Standing) -> tuple[str, ...]:
    """Other causes that may delay the end."""
    if not standing.not_in_sync:
        return ()
    return (
        f"Replicas {list(standing.not_in_sync)} are not in sync; with min.insync.replicas not met"
        " the high watermark stands still.",
    )
