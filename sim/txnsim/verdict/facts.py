"""What is known of a cluster at a moment, as plain values. The judge knows nothing else.

An adapter makes them: ``server.views.cluster_facts`` from brokers in memory, the lab from a trace
at an event, ``client.inspection.waiting_readers`` from answers over the wire. What an adapter can't
know is None, never a guess.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.txn.markers import MarkerSending as MarkerSending
from txnsim.txn.open_txn_verdict import CoordinatedTxn
from txnsim.txn.past_decision import DecisionEvidence
from txnsim.types import TopicPartition

NO_LEADER: Final = -1
"""Leader of a partition that has none."""


class OwedMarkerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A marker that a coordinator has decided and that is not acknowledged."""

    transactional_id: str
    partition: TopicPartition
    is_commit: bool
    sending: MarkerSending
    held_by: str | None = None
    """Id of the fault rule that holds it."""
    sent_again_ms: int | None = None
    """Wall clock time of the next attempt, as far as it is known."""


class TransactionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction as its coordinator has it."""

    transactional_id: str
    coordinator_id: int
    state: str
    """The state's name in DescribeTransactions."""
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    timeout_ms: int
    started_ms: int | None
    """Start of the transaction by the coordinator's clock; None without one."""
    is_ending: bool = False
    """Whether its coordinator is writing its end, or has failed to: a fence raises the epoch before
    that is written. Brokers don't tell clients.
    """

    def view_of(self, partition: TopicPartition, open_epoch: int) -> CoordinatedTxn:
        """The transaction with regard to one partition, where ``open_epoch`` is open."""
        is_being_fenced = self.is_ending and self.producer_epoch == open_epoch + 1
        return CoordinatedTxn(
            transactional_id=self.transactional_id,
            coordinator_id=self.coordinator_id,
            state=self.state,
            producer_id=self.producer_id,
            producer_epoch=open_epoch if is_being_fenced else self.producer_epoch,
            lists_partition=partition in self.partitions,
            timeout_ms=self.timeout_ms,
        )


class OpenTxnFacts(msgspec.Struct, frozen=True, kw_only=True):
    """An open transaction as the leader of a partition has it."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_write_ms: int
    """Timestamp of its newest record, set by the producer."""
    since_ms: int | None = None
    """Timestamp of its first batch; None if that is deleted or unknown."""
    decided: DecisionEvidence | None = None
    """Its past decision, if it hangs and the adapter has looked for one."""


class ShareGroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A share group with ``share.isolation.level=read_committed`` on a partition."""

    group_id: str
    start_offset: int | None
    """None if no state was written for the share partition yet."""


class PartitionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A partition, as its leader has it; offsets and transactions are only told with a leader that
    is up.
    """

    partition: TopicPartition
    leader_id: int = NO_LEADER
    is_leader_up: bool = True
    """Whether that broker runs and has taken the leadership."""
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    log_start: int = 0
    last_stable_offset: int = 0
    high_watermark: int = 0
    is_watermark_known: bool = True
    """Whether that is the high watermark; else it is the end of the log, which may be higher."""
    open_txns: tuple[OpenTxnFacts, ...] = ()
    readers: tuple[str, ...] | None = None
    """Clients with a read_committed Fetch that waits at the last stable offset; None if unknown."""
    share_groups: tuple[ShareGroupFacts, ...] | None = None
    """None if unknown."""

    @property
    def is_led(self) -> bool:
        """Whether it has a leader that is up."""
        return self.leader_id >= 0 and self.is_leader_up


class WrongData(msgspec.Struct, frozen=True, kw_only=True):
    """Records of a transaction whose end on a partition is not how the transaction ended."""

    partition: TopicPartition
    offset: int
    """Offset of the marker that ended the records."""
    producer_id: int
    producer_epoch: int
    transactional_id: str | None
    is_commit: bool
    """Whether the transaction was committed."""
    is_by_application: bool = False
    """Whether that is what the application was answered; else what its coordinator decided."""


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a cluster at a moment."""

    now_ms: int
    """Wall clock time."""
    partitions: tuple[PartitionFacts, ...] = ()
    transactions: tuple[TransactionFacts, ...] = ()
    """Transactions of the coordinators that serve."""
    owed_markers: tuple[OwedMarkerFacts, ...] = ()
    unserved_coordinators: tuple[int, ...] = ()
    """Partitions of ``__transaction_state`` whose coordinator does not serve: without a leader that
    is up, or not loaded yet.
    """
    wrong_data: tuple[WrongData, ...] = ()
    ignorance: str | None = None
    """Why nothing is known of the present, as a sentence without its full stop; None if it is
    known.
    """
