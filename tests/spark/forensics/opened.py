"""An open transaction, its replicas and its coordinator, for tests of one rule."""

from __future__ import annotations

from txnsim.txn.marker_payment import BEFORE_ALL_MARKERS_MS, PartitionMarkers
from txnsim.types import TopicPartition
from txnsim_spark.forensics._coordinator_entries import (
    CoordinatorEntry,
    Coordinators,
    TxnRecord,
    coordinators_of,
)
from txnsim_spark.forensics._evidence import ReplicaBasis, StartBatch
from txnsim_spark.forensics._read_notes import NOTHING_READ
from txnsim_spark.forensics.replica_state import ReplicaState
from txnsim_spark.forensics.verdicts import OpenTxn, ReplicaEnds
from txnsim_spark.scan.segments import Replica

HERE, ELSEWHERE = TopicPartition("orders", 0), TopicPartition("orders", 1)
MINUTE = 60_000
NOW = 1_700_000_000_000


def txn(
    start: int = 5, *, age_ms: int = 60 * MINUTE, coordinator_epoch: int | None = None
) -> OpenTxn:
    """Return a transaction of producer 7, epoch 3."""
    return OpenTxn(
        producer_id=7,
        producer_epoch=3,
        start_offset=start,
        start_timestamp_ms=NOW - age_ms - 1,
        last_timestamp_ms=NOW - age_ms,
        coordinator_epoch=coordinator_epoch,
    )


def record(state: str, *partitions: TopicPartition, epoch: int = 3) -> TxnRecord:
    """Return a coordinator's record of the id ``app``, which has producer 7."""
    return TxnRecord(
        log_partition=0,
        offset=9,
        transactional_id="app",
        state=state,
        producer_id=7,
        producer_epoch=epoch,
        timeout_ms=MINUTE,
        partitions=frozenset(partitions),
        start_timestamp_ms=NOW - 30_000,
        last_update_timestamp_ms=NOW - 30_000,
    )


def no_marker_since(_since_ms: int) -> PartitionMarkers:
    """Markers of a partition whose whole log has no marker of the producer."""
    return PartitionMarkers(complete_since_ms=BEFORE_ALL_MARKERS_MS)


def knowing(
    newest_record: TxnRecord | None = None, decision_record: TxnRecord | None = None
) -> Coordinators:
    """The logs of a coordinator that has this entry, or no entry."""
    coordinator_entries = (
        []
        if newest_record is None
        else [CoordinatorEntry(newest_record=newest_record, decision=decision_record)]
    )
    return coordinators_of(coordinator_entries, forgotten_id_by_producer={}, partitions_on_disk=[0])


def ends(
    broker: int = 1,
    end: int = 10,
    *epochs: tuple[int, int],
    start: int = 0,
    mark: int | None = 9,
) -> ReplicaEnds:
    """Return the ends of a replica of orders-0."""
    log_dir = f"/b{broker}"
    path = f"{log_dir}/orders-0"
    return ReplicaEnds(
        replica=Replica(log_dir=log_dir, broker=broker, topic="orders", partition=0, path=path),
        log_start_offset=start,
        end_offset=end,
        high_watermark=mark,
        epochs=epochs or ((0, 0),),
    )


FACTS = ReplicaBasis(
    state=ReplicaState(ends=ends(), segments=(), snapshot_offset=10, newest_ms=NOW),
    notes=NOTHING_READ,
    gaps=(),
    start_batch=StartBatch.THIS_PRODUCERS,
    brokers_seen=(1, 2),
)
