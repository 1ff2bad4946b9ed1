"""Who waits behind an open transaction."""

from __future__ import annotations

from pathlib import Path

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import NOW, LogDriver
from tests.support.no_spark import no_session
from tests.support.position_logs import HERE, at, offsets_log, sent
from txnsim.types import TopicPartition
from txnsim_spark.forensics.find_hanging import Search
from txnsim_spark.questions.waiting_groups import WaitingGroups, find_waiting_groups

HOUR = 3_600_000


def looked(log_dir: Path) -> WaitingGroups:
    search = Search(paths=(log_dir,), as_of_ms=NOW + HOUR)
    return find_waiting_groups(search, new_session=no_session, progress=lambda _: None)


def broker(tmp_path: Path) -> BrokerDir:
    """A transaction that ended at offset 0, one that is open from 2 on, its last record at 3."""
    driver = LogDriver()
    driver.txn(0)
    driver.end(committed=True)
    driver.txn(1, count=2)
    made = BrokerDir(tmp_path / "broker-1")
    made.replica(driver)
    made.coordinator(move("Ongoing", HERE))
    return made


def test_each_group_is_told_how_far_it_comes(tmp_path: Path) -> None:
    made = broker(tmp_path)
    offsets_log(made.path, sent(at(0, "far"), at(2, "there"), at(3, "inside"), at(4, "through")))
    found = looked(made.stop())
    told = [(one.group, one.committed_offset, one.to_read, one.withheld) for one in found.waiters]
    assert told == [("far", 0, 2, 2), ("inside", 3, 0, 1), ("there", 2, 0, 2)]
    one = found.waiters[0]
    assert (one.last_stable_offset, one.high_watermark, one.start_offset) == (2, 4, 2)
    assert (one.producer_id, one.transactional_id, one.verdict) == (7, "app", "alive")
    assert (one.since_ms, one.for_ms) == (NOW, HOUR)
    assert (found.unread, found.offsets_partitions, found.problems) == ((), (0,), ())


def test_a_partition_that_no_group_reads_is_named(tmp_path: Path) -> None:
    found = looked(broker(tmp_path).stop())
    assert (found.waiters, found.unread) == ((), (TopicPartition("orders", 0),))
    assert found.offsets_partitions == ()
