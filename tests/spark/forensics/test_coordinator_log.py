"""Coordinators' logs, read on the driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import NOW, LogDriver
from txnsim.storage import names
from txnsim.txn.state import Tombstone
from txnsim.types import TopicPartition, TransactionalId
from txnsim.wire.batch import Record, assign, build_batch
from txnsim_spark.forensics import _coordinator_log as coordinator_log
from txnsim_spark.forensics._coordinator_entries import Coordinators
from txnsim_spark.forensics._coordinator_log import (
    coordinator_logs_of,
    read_coordinators,
    replay_log,
)
from txnsim_spark.forensics.replica_state import ReplicaState, state_of
from txnsim_spark.scan.segments import replicas_in

HERE = TopicPartition("orders", 0)


def states_in(*log_dirs: Path) -> list[ReplicaState]:
    return [state_of(replica) for replica in replicas_in(log_dirs)]


def read_entries(*log_dirs: Path) -> tuple[Coordinators, list[str]]:
    """The coordinators' entries in the logs, and the complaints about unreadable parts."""
    problems: list[str] = []
    return read_coordinators(coordinator_logs_of(states_in(*log_dirs)), problems.append), problems


@pytest.fixture
def broker(tmp_path: Path) -> BrokerDir:
    return BrokerDir(tmp_path / "b1")


def log_in(folder: Path) -> Path:
    return folder / names.Suffix.LOG.file_name(0)


def test_the_newest_records_are_the_entries(broker: BrokerDir) -> None:
    broker.replica(LogDriver())
    broker.coordinator(
        move("Empty"),
        move("Ongoing", HERE),
        move("PrepareCommit", HERE, at_ms=NOW + 5),
        move("Ongoing", HERE, name="gone", producer_id=8),
        Tombstone(transactional_id=TransactionalId("gone")),
        move("CompleteCommit", name="rotated", producer_id=10, previous_id=9),
    )
    coordinators, problems = read_entries(broker.stop())
    assert problems == []
    entry = coordinators.entry_by_producer[7]
    assert (entry.newest_record.state, entry.newest_record.partitions) == (
        "PrepareCommit",
        frozenset({HERE}),
    )
    assert entry.decision is entry.newest_record
    assert (entry.newest_record.timeout_ms, entry.newest_record.start_timestamp_ms) == (
        60_000,
        NOW + 5,
    )
    assert coordinators.forgotten_id_by_producer == {8: "gone"}
    assert coordinators.entry_by_other_producer[9].newest_record.transactional_id == "rotated"
    assert coordinators.newest_timestamp_ms == NOW


def test_of_several_replicas_the_furthest_one_is_read(tmp_path: Path) -> None:
    lagging_broker, dir_ahead = BrokerDir(tmp_path / "b1", 1), BrokerDir(tmp_path / "b2", 2)
    lagging_broker.coordinator(move("Empty"))
    dir_ahead.coordinator(move("Empty"), move("Ongoing", HERE))
    logs = coordinator_logs_of(states_in(lagging_broker.stop(), dir_ahead.stop()))
    assert [state.replica.broker for state in logs[0]] == [2, 1]
    assert read_coordinators(logs, print).entry_by_producer[7].newest_record.state == "Ongoing"


def test_the_torn_tail_of_a_kill_is_no_damage(broker: BrokerDir) -> None:
    log = log_in(broker.coordinator(move("Empty"), move("Ongoing", HERE)))
    log.write_bytes(log.read_bytes()[:-1])
    coordinators, problems = read_entries(broker.kill())
    assert (coordinators.damaged_partitions, problems) == (frozenset(), [])
    assert coordinators.entry_by_producer[7].newest_record.state == "Empty"


def test_a_log_that_is_shorter_than_its_broker_noted_has_lost_its_end(broker: BrokerDir) -> None:
    log_in(broker.coordinator(move("Empty"), move("Ongoing", HERE))).write_bytes(b"")
    coordinators, _ = read_entries(broker.stop())
    assert (coordinators.damaged_partitions, coordinators.is_complete) == (frozenset({0}), False)
    assert "ends at offset 0, below its high watermark 2" in coordinators.cut_off_by_partition[0]


def test_another_replica_is_read_where_one_is_damaged(tmp_path: Path) -> None:
    hurt_dir, sound_dir = BrokerDir(tmp_path / "b1", 1), BrokerDir(tmp_path / "b2", 2)
    log = log_in(hurt_dir.coordinator(move("Empty"), move("Ongoing", HERE)))
    sound_dir.coordinator(move("Empty"))
    log.write_bytes(log.read_bytes()[:-1])
    problems: list[str] = []
    replica_states = states_in(hurt_dir.stop(), sound_dir.stop())
    coordinators = read_coordinators({0: [replica_states[0], replica_states[1]]}, problems.append)
    assert coordinators.is_complete
    (problem_text,) = problems
    assert problem_text.startswith(f"{log}, byte ")


def test_damage_on_every_replica_is_told_once_each(broker: BrokerDir) -> None:
    log = log_in(broker.coordinator(move("Empty"), move("Ongoing", HERE)))
    log.write_bytes(log.read_bytes()[:-1])
    coordinators, problems = read_entries(broker.stop())
    assert (coordinators.damaged_partitions, len(problems)) == (frozenset({0}), 1)
    assert coordinators.entry_by_producer[7].newest_record.state == "Empty"


def test_a_record_that_can_not_be_understood_is_damage(broker: BrokerDir) -> None:
    folder = broker.coordinator(move("Empty"))
    keyless = build_batch([Record(key=None, value=b"?")], timestamp_ms=NOW)
    with log_in(folder).open("ab") as file:
        file.write(assign(keyless, base_offset=1, leader_epoch=0))
    coordinators, problems = read_entries(broker.stop())
    assert coordinators.damaged_partitions == {0}
    assert problems == [f"{log_in(folder)}, offset 1: record 1 has no key"]


def test_a_record_of_an_unknown_version_is_passed_over(broker: BrokerDir) -> None:
    folder = broker.coordinator(move("Empty"))
    newer_batch = build_batch([Record(key=b"\0\7\0\0", value=b"?")], timestamp_ms=NOW)
    with log_in(folder).open("ab") as file:
        file.write(assign(newer_batch, base_offset=1, leader_epoch=0))
    coordinators, _ = read_entries(broker.stop())
    assert coordinators.is_complete
    assert list(coordinators.entry_by_producer) == [7]


def test_what_concerns_some_producers(broker: BrokerDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_log, "SAMPLE_SIZE", 0)
    broker.coordinator(
        move("PrepareAbort", HERE, name="a", producer_id=1),
        move("CompleteAbort", name="a", producer_id=1),
        move("PrepareCommit", HERE, name="b", producer_id=2),
        move("CompleteCommit", name="b", producer_id=2),
        move("CompleteCommit", name="c", producer_id=4, previous_id=3),
        move("PrepareCommit", HERE, name="owing", producer_id=5),
        *(move("Ongoing", HERE, name=name, producer_id=pid) for name, pid in (("d", 6), ("e", 7))),
        *(Tombstone(transactional_id=TransactionalId(name)) for name in ("d", "e")),
    )
    (state,) = states_in(broker.stop())
    whole_log = replay_log(state, print)
    coordinators = whole_log.restricted_to({1, 3, 6})
    assert {entry.newest_record.transactional_id for entry in coordinators.entries} == {
        "a",
        "c",
        "owing",
    }
    assert set(coordinators.entries) <= set(whole_log.entries)
    assert coordinators.forgotten_id_by_producer == {6: "d"}
    assert coordinators.decisions_by_producer == {
        producer_id: whole_log.decisions_by_producer[producer_id] for producer_id in (1, 5)
    }


def test_a_sample_of_the_other_entries_is_no_larger_than_it_need_be(broker: BrokerDir) -> None:
    broker.coordinator(*(move("Empty", name=f"app-{id_number}") for id_number in range(250)))
    (state,) = states_in(broker.stop())
    assert len(replay_log(state, print).restricted_to(set()).entries) == 200
