"""How replicas were left: what snapshots tell, and what is left to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker_dirs import BrokerDir, forget_the_end
from tests.support.logs import LogDriver, plain
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST
from txnsim.storage import names
from txnsim_spark.forensics.replica_state import ReplicaState, state_of
from txnsim_spark.scan.segments import replicas_in


@pytest.fixture
def driver() -> LogDriver:
    """Several segments; producer 7 has a transaction open since offset 4, the one before ended."""
    made = LogDriver(LogConfig(rules=LATEST, roll_bytes=300))
    made.txn(0)
    made.txn(0, pid=8)
    made.end(committed=True)
    made.end(committed=True, pid=8)
    made.txn(1)
    for _ in range(6):
        made.append(plain())
    return made


@pytest.fixture
def broker(tmp_path: Path) -> BrokerDir:
    """Without a replica."""
    return BrokerDir(tmp_path / "b")


class Looked:
    """The state of the only replica of a log directory."""

    def __init__(self, log_dir: Path, *, use_snapshots: bool = True) -> None:
        self.problems: list[str] = []
        (replica,) = replicas_in([log_dir])
        self.state: ReplicaState = state_of(
            replica, None, self.problems.append, use_snapshots=use_snapshots
        )

    @property
    def unread(self) -> list[int]:
        return [segment.base_offset for segment in self.state.unread]

    @property
    def segments(self) -> list[int]:
        return [segment.base_offset for segment in self.state.segments]


def test_after_a_stop_in_order_nothing_is_left_to_read(
    broker: BrokerDir, driver: LogDriver
) -> None:
    broker.replica(driver)
    found = Looked(broker.stop())
    state = found.state
    assert (found.unread, state.unread_bytes, found.problems) == ([], 0, [])
    assert state.ends.end_offset == state.seeded_from == driver.log.log_end_offset
    assert state.ends.high_watermark == driver.log.high_watermark
    assert state.ends.epochs == ((0, 0),)
    assert {one: entry.txn_first_offset for one, entry in state.seeds.items()} == {7: 4}
    assert state.is_clean
    assert state.newest_ms == 0  # as the archive has it


def test_after_a_kill_the_segments_behind_the_last_snapshot_are_left(
    broker: BrokerDir, driver: LogDriver
) -> None:
    forget_the_end(broker.replica(driver))
    found = Looked(broker.kill())
    assert found.unread == found.segments[-1:]
    assert found.state.seeded_from == found.segments[-1]
    assert found.state.ends.end_offset == driver.log.log_end_offset
    assert set(found.state.seeds) == {7, 8}
    assert not found.state.is_clean


def test_after_a_kill_what_a_broker_would_recover_is_read_whatever_snapshots_say(
    broker: BrokerDir, driver: LogDriver
) -> None:
    broker.replica(driver)
    assert Looked(broker.kill()).unread == [8]


def test_a_mark_without_a_snapshot_at_the_end_says_nothing(
    broker: BrokerDir, driver: LogDriver
) -> None:
    forget_the_end(broker.replica(driver))
    found = Looked(broker.stop())
    assert found.unread == found.segments[-1:]
    assert found.state.ends.end_offset == driver.log.log_end_offset


def test_a_snapshot_inside_a_segment_is_of_no_use_after_a_kill(broker: BrokerDir) -> None:
    driver = LogDriver()
    driver.txn(0)
    replica = broker.replica(driver)
    driver.append(plain())
    (log, *_) = names.numbered_files(replica, names.LOG_SUFFIX)
    log[1].write_bytes(b"".join(driver.log.batches()))
    found = Looked(broker.kill())
    assert (found.unread, found.state.seeded_from) == ([0], None)
    assert found.state.ends.end_offset == 2


def test_a_snapshot_that_can_not_be_read_is_passed_over_and_told(
    broker: BrokerDir, driver: LogDriver
) -> None:
    replica = broker.replica(driver)
    *_, (_, last) = names.numbered_files(replica, names.SNAPSHOT_SUFFIX)
    last.write_bytes(b"\0\1nonsense...")
    found = Looked(broker.stop())
    assert found.unread == found.segments[-1:]
    (problem,) = found.problems
    assert problem.startswith(f"{last}: a producer snapshot with CRC")
    assert problem.endswith("; an older one is taken")


def test_without_snapshots_every_segment_is_left(broker: BrokerDir, driver: LogDriver) -> None:
    broker.replica(driver)
    found = Looked(broker.stop(), use_snapshots=False)
    assert found.unread == found.segments
    assert (found.state.seeds, found.state.seeded_from) == ({}, None)


def test_an_empty_replica_is_read_to_its_end(broker: BrokerDir) -> None:
    broker.replica(LogDriver())
    found = Looked(broker.stop())
    assert (found.unread, found.state.ends.end_offset) == ([], 0)


def test_a_replica_without_segments_is_empty(broker: BrokerDir) -> None:
    (broker.path / "orders-0").mkdir()
    found = Looked(broker.stop())
    assert (found.segments, found.state.ends.end_offset, found.state.newest_ms) == ([], 0, -1)
    assert (found.state.ends.epochs, found.state.ends.high_watermark) == ((), None)


def test_the_log_starts_where_the_broker_noted_it(broker: BrokerDir, driver: LogDriver) -> None:
    broker.replica(driver)
    (broker.path / names.LOG_STARTS_NAME).write_text("0\n1\norders 0 3\n")
    assert Looked(broker.stop()).state.ends.log_start_offset == 3


@pytest.mark.parametrize("data", [b"nonsense\n", b"\xff\xfe"])
def test_notes_that_make_no_sense_are_told_and_left_out(
    broker: BrokerDir, driver: LogDriver, data: bytes
) -> None:
    replica = broker.replica(driver)
    broker.stop()
    (broker.path / names.HIGH_WATERMARKS_NAME).write_bytes(data)
    (replica / names.LEADER_EPOCHS_NAME).write_bytes(data)
    found = Looked(broker.path)
    assert len(found.problems) == 2
    assert (found.state.ends.epochs, found.state.ends.high_watermark) == ((), None)
