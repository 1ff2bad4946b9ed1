"""Changes of one partition: a new ISR, or the election of a leader. Pure.

A change is built in Kafka's order: first a reassignment completes if its replicas are in sync
(KIP-455), then the eligible leader replicas are derived from the ISR (KIP-966), then a leader is
elected, then the epochs are raised. The partition epoch grows with every change, the leader epoch
only with a new leader or a removed replica: since metadata version 3.6 a smaller ISR does not raise
it (KAFKA-15021). Kafka's counterparts: PartitionChangeBuilder, PartitionReassignmentReplicas,
PartitionRegistration.merge.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec

from txnsim.metadata.image import NO_LEADER, PartitionImage
from txnsim.types import BrokerId, LeaderEpoch

Brokers = tuple[BrokerId, ...]


class Election(Enum):
    """How far an election may go (PartitionChangeBuilder.Election)."""

    PREFERRED = "the first replica if it may lead, else any that may"
    ONLINE = "stay with the leader if it may lead, else any that may"
    UNCLEAN = "the same, and if none may, any live replica: records that it lacks are lost"


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas of a partition during a reassignment."""

    replicas: Brokers
    """All replicas; those to be removed come last."""
    removing: Brokers = ()
    adding: Brokers = ()


class PartitionChange(msgspec.Struct, frozen=True, kw_only=True):
    """A requested change, and the rules of the partition's topic."""

    target_isr: Brokers
    is_acceptable: Callable[[BrokerId], bool]
    """Returns whether a broker may lead: unfenced, and not in controlled shutdown."""
    min_isr: int
    """The topic's ``min.insync.replicas``, limited to its replication factor."""
    has_elr: bool
    """Whether the feature ``eligible.leader.replicas.version`` is on."""
    election: Election = Election.ONLINE
    unclean_shutdown: BrokerId | None = None
    """A replica that may have lost records, and is no longer eligible."""
    has_recovered: bool = False
    """Whether the leader reports its recovery after an unclean election."""
    placement: Placement | None = None
    """The new replicas; None to keep the current ones."""


class _ElectionResult(msgspec.Struct, frozen=True, kw_only=True):
    leader: BrokerId
    is_unclean: bool = False


def changed_partition(
    partition: PartitionImage, partition_change: PartitionChange
) -> PartitionImage | None:
    """The partition after the change; None if nothing changes."""
    placement, isr = _finish_reassignment(
        _placement(partition, partition_change), partition_change.target_isr
    )
    partition_change = msgspec.structs.replace(partition_change, target_isr=isr)
    elr = _eligible_leader_replicas(partition, partition_change)
    election_result = _elect(partition, partition_change, elr, placement.replicas)
    has_new_leader = election_result.leader != partition.leader
    # A replica that is gone must hear of it even if the leader stays (PartitionChangeBuilder,
    # triggerLeaderEpochBumpForReplicaReassignmentIfNeeded).
    has_new_epoch = has_new_leader or not set(partition.replicas) <= set(placement.replicas)
    is_recovering = partition.is_recovering and not partition_change.has_recovered
    if has_new_leader and election_result.is_unclean:
        # The new leader may lack records of the others; its log is the truth from now on.
        isr, elr, is_recovering = (election_result.leader,), (), True
    elif has_new_leader and election_result.leader in elr:
        isr = (election_result.leader,)
        elr = tuple(replica for replica in elr if replica != election_result.leader)
    if not partition_change.has_elr:
        elr = ()
        if not isr:
            isr = partition.isr  # without ELR an ISR never gets empty
    partition_after = msgspec.structs.replace(
        partition,
        leader=election_result.leader,
        isr=isr,
        elr=elr,
        last_known_elr=_last_known_leaders(partition, partition_change, election_result.leader),
        is_recovering=is_recovering,
        replicas=placement.replicas,
        removing=placement.removing,
        adding=placement.adding,
    )
    if partition_after == partition:
        return None
    return msgspec.structs.replace(
        partition_after,
        leader_epoch=LeaderEpoch(partition.leader_epoch + has_new_epoch),
        partition_epoch=partition.partition_epoch + 1,
    )


def _placement(partition: PartitionImage, partition_change: PartitionChange) -> Placement:
    return partition_change.placement or Placement(
        replicas=partition.replicas, removing=partition.removing, adding=partition.adding
    )


def _finish_reassignment(placement: Placement, isr: Brokers) -> tuple[Placement, Brokers]:
    """Replicas and ISR after the reassignment has completed, or unchanged if it can't complete yet
    (PartitionReassignmentReplicas.maybeCompleteReassignment).
    """
    removing_replicas, adding_replicas = placement.removing, placement.adding
    if not removing_replicas and not adding_replicas:
        return placement, isr
    kept_isr = tuple(replica for replica in isr if replica not in removing_replicas)
    kept_replicas = tuple(
        replica for replica in placement.replicas if replica not in removing_replicas
    )
    # At least one replica has to stay in sync. New replicas may lag: all of them must be in sync.
    is_complete = (
        bool(kept_replicas)
        and (bool(kept_isr) or not removing_replicas)
        and set(adding_replicas) <= set(kept_isr)
    )
    if len(adding_replicas) < len(removing_replicas):
        # Fewer replicas than before: the ISR must not get smaller than it has to.
        is_complete = is_complete and set(kept_replicas) <= set(kept_isr)
    return (Placement(replicas=kept_replicas), kept_isr) if is_complete else (placement, isr)


def _eligible_leader_replicas(
    partition: PartitionImage, partition_change: PartitionChange
) -> Brokers:
    """The ELR that belongs to the new ISR (PartitionChangeBuilder.maybePopulateTargetElr)."""
    if not partition_change.has_elr:
        return partition.elr
    if len(partition_change.target_isr) >= partition_change.min_isr:
        return ()
    # Nothing is committed while the ISR is below its minimum: who leaves it now has everything.
    candidates = sorted({*partition.elr, *partition.isr})
    return tuple(
        replica
        for replica in candidates
        if replica not in partition_change.target_isr
        and replica != partition_change.unclean_shutdown
    )


def _elect(
    partition: PartitionImage, partition_change: PartitionChange, elr: Brokers, replicas: Brokers
) -> _ElectionResult:
    isr = partition_change.target_isr

    def may_lead(replica_id: BrokerId) -> bool:
        is_candidate = replica_id in isr or (not isr and replica_id in elr)
        return is_candidate and partition_change.is_acceptable(replica_id)

    candidates = [partition.leader, *replicas]
    if partition_change.election is Election.PREFERRED:
        candidates.insert(0, replicas[0])
    for candidate in candidates:
        if may_lead(candidate):
            return _ElectionResult(leader=candidate)
    last_known_elr = partition.last_known_elr
    if (
        partition_change.has_elr
        and not isr
        and not elr
        and len(last_known_elr) == 1
        and partition_change.is_acceptable(last_known_elr[0])
    ):
        return _ElectionResult(leader=last_known_elr[0], is_unclean=True)
    if partition_change.election is Election.UNCLEAN:
        for replica in replicas:
            if partition_change.is_acceptable(replica):
                return _ElectionResult(leader=replica, is_unclean=True)
    return _ElectionResult(leader=NO_LEADER)


def _last_known_leaders(
    partition: PartitionImage, partition_change: PartitionChange, leader_id: BrokerId
) -> Brokers:
    """The last leader of a partition that has lost its leader
    (PartitionChangeBuilder.maybeUpdateLastKnownLeader).
    """
    if not partition_change.has_elr or leader_id == partition.leader:
        return partition.last_known_elr
    if leader_id == NO_LEADER:
        return partition.last_known_elr or (partition.leader,)
    return ()
