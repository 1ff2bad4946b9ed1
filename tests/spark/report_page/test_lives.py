"""What ended on a partition."""

from __future__ import annotations

from pathlib import Path

from tests.support.broker_dirs import BrokerDir
from tests.support.logs import NOW, LogDriver
from txnsim.types import TopicPartition
from txnsim_spark.forensics.find_hanging import Reading, Search
from txnsim_spark.report_page._lives import KEPT, Ended, Life, Lives

ORDERS = TopicPartition("orders", 0)


def lives_of(*paths: Path) -> Lives:
    def none() -> None:
        raise AssertionError("Spark is not needed here")

    reading = Reading(Search(paths=paths), none, lambda _: None)  # type: ignore[arg-type]
    lives = Lives(reading.states())
    lives.read()
    return lives


def test_the_replica_that_counts_is_read_once(tmp_path: Path) -> None:
    driver = LogDriver()
    behind = BrokerDir(tmp_path / "broker-2", broker=2)
    behind.replica(driver)
    for number in range(3):
        driver.txn(number)
        driver.end(committed=number != 1)
    ahead = BrokerDir(tmp_path / "broker-1")
    ahead.replica(driver)
    lives = lives_of(behind.stop(), ahead.stop())
    life = lives.of[ORDERS]
    assert (life.ends.replica.broker, life.brokers) == (1, (1, 2))
    assert (life.commits, life.aborts) == (2, 1)
    assert [(one.first_offset, one.marker_offset) for one in life.newest] == [
        (0, 1),
        (2, 3),
        (4, 5),
    ]
    assert {one: len(times) for one, times in lives.ended_ms.items()} == {True: 2, False: 1}
    assert all(took_ms >= 0 for times in lives.took_ms.values() for took_ms in times)


def test_the_newest_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    made = BrokerDir(tmp_path / "broker-1")
    made.replica(LogDriver())
    ends = lives_of(made.stop()).of[ORDERS].ends
    life = Life(ends, [1])
    for offset in reversed(range(KEPT + 5)):
        life.take(ended(offset))
    life.take(ended(KEPT))  # damaged logs may have an offset twice
    assert life.commits == KEPT + 6
    offsets = [one.marker_offset for one in life.newest]
    assert offsets == sorted([*range(6, KEPT + 5), KEPT])


def ended(offset: int) -> Ended:
    return Ended(
        producer_id=7,
        producer_epoch=0,
        first_offset=None,
        marker_offset=offset,
        is_commit=True,
        first_timestamp_ms=None,
        timestamp_ms=NOW + offset,
        records=None,
    )
