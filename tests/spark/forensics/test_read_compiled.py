"""Replicas and coordinators' logs are read alike wherever that is done; damaged directories are in
tests/spark/pipeline/test_damaged.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.engines import here
from tests.support.logs import PID, LogDriver, batch, plain
from txnsim.storage import names
from txnsim.txn.state import Tombstone
from txnsim.types import TopicPartition, TransactionalId
from txnsim.wire.batch import assign, read_batch_header
from txnsim_spark.engine import Way
from txnsim_spark.forensics._coordinator_log import replayed
from txnsim_spark.forensics._read_compiled import ReplicaRead, log_job, replica_job
from txnsim_spark.forensics._read_notes import NOTES_MAX, Gap
from txnsim_spark.forensics.replica_state import ReplicaState, state_of
from txnsim_spark.scan.segments import replicas_in


def read_at_once(state: ReplicaState) -> ReplicaRead:
    return here().done(replica_job([state], cores=1), Way.HERE)[state.replica.path]


def test_it_finds_the_same(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0, count=2)
    driver.end(committed=True, coordinator_epoch=4)
    driver.txn(2)
    driver.txn(0, pid=99)
    made = BrokerDir(tmp_path / "broker-1", 1)
    made.replica(driver)
    made.stop()
    (replica,) = replicas_in([tmp_path])
    state = state_of(replica, use_snapshots=False)
    found = read_at_once(state)
    for way in (Way.HERE, Way.PROCESSES):
        read = here().done(replica_job([state], cores=2), way)
        assert read == {state.replica.path: found}
    assert sorted(found.opened) == [PID, 99]
    assert found.opened[PID].coordinator_epoch == 4


def test_records_without_a_time_are_read(tmp_path: Path) -> None:
    """-1 is Kafka's NO_TIMESTAMP. Damaged directories have other negative times
    (``record-time-negative``).
    """
    driver = LogDriver()
    driver.txn(0, timestamp=-1)
    driver.txn(1, timestamp=-1)
    made = BrokerDir(tmp_path / "broker-1", 1)
    made.replica(driver)
    made.kill()
    (replica,) = replicas_in([tmp_path])
    state = state_of(replica, use_snapshots=False)
    found = read_at_once(state)
    open_txn = found.opened[PID]
    assert (open_txn.start_timestamp_ms, open_txn.last_timestamp_ms) == (-1, -1)


def test_coordinators_logs_are_replayed_in_processes_as_here(tmp_path: Path) -> None:
    orders = TopicPartition("orders", 0)
    made = BrokerDir(tmp_path / "broker-1", 1)
    made.coordinator(
        move("Ongoing", orders, pid=7),
        move("PrepareCommit", orders, pid=7),
        move("CompleteCommit", pid=7),
        move("PrepareAbort", orders, name="other", pid=8),
        move("Ongoing", orders, name="gone", pid=9),
        Tombstone(transactional_id=TransactionalId("gone")),
    )
    log_dir = made.kill()
    (segment,) = log_dir.glob("__transaction_state-0/*.log")
    with segment.open("ab") as file:
        file.write(b"torn")
    (replica,) = replicas_in([log_dir])
    state = state_of(replica)
    (found,) = here().done(log_job([state], {7, 8, 9}), Way.PROCESSES).values()
    problems: list[str] = []
    assert found.replayed == replayed(state, problems.append).concerning({7, 8, 9})
    assert found.problems == tuple(problems)
    committed = next(one for one in found.replayed.entries if one.newest.producer_id == 7)
    assert committed.decision is found.replayed.decisions[7][0]
    assert found.replayed.cut_off


@pytest.mark.parametrize("batches_per_segment", [1, 1_000])
def test_many_gaps_do_not_hide_the_last_one(tmp_path: Path, batches_per_segment: int) -> None:
    """A cleaned log is full of them, and only one behind the transaction's beginning counts."""
    count = 2 * NOTES_MAX
    data = [assign(plain(), base_offset=2 * number, leader_epoch=0) for number in range(count)]
    begins = 2 * count - 1
    open_txn = batch(0, transactional=True)
    data.append(assign(open_txn, base_offset=begins, leader_epoch=0))
    data.append(assign(plain(), base_offset=begins + 9, leader_epoch=0))
    folder = tmp_path / "broker-1" / "orders-0"
    BrokerDir(tmp_path / "broker-1", 1).kill()
    folder.mkdir()
    for first in range(0, len(data), batches_per_segment):
        share = data[first : first + batches_per_segment]
        path = folder / names.file_name(read_batch_header(share[0]).base_offset, names.LOG_SUFFIX)
        path.write_bytes(b"".join(share))
    (replica,) = replicas_in([tmp_path])
    state = state_of(replica)
    found = read_at_once(state)
    assert len(found.notes.gaps) == NOTES_MAX
    assert found.notes.gaps[-1] == Gap(first_offset=begins + 1, next_offset=begins + 9)
    assert found.opened[PID].start_offset == begins
