"""Whose a producer id was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import NOW, LogDriver
from txnsim.errors import BadInputError
from txnsim.types import TopicPartition
from txnsim_spark.questions.application import Application, Bump, application_of

pytest.importorskip("duckdb", reason="the extra spark is not installed")

HERE, THERE = TopicPartition("orders", 0), TopicPartition("orders", 3)


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    """``app`` (7, before that 5), its neighbours 6 and 8, one of another block; 99 has no id."""
    driver = LogDriver()
    driver.txn(0, count=2)
    driver.end(committed=True)
    driver.txn(2)
    driver.txn(0, pid=99)
    made = BrokerDir(tmp_path / "broker-1")
    made.coordinator(
        move("Empty", pid=5, epoch=3),
        move("Empty", pid=7, previous=5, at_ms=NOW + 5),
        move("Ongoing", HERE, pid=7, at_ms=NOW + 9),
        move("Ongoing", THERE, HERE, name="before", pid=6),
        move("Empty", name="after", pid=8),
        move("Empty", name="far", pid=1_008),
    )
    made.replica(driver)
    return made.stop()


def test_the_id_is_told_with_its_last_bump_and_its_neighbours(disks: Path) -> None:
    found = application_of([disks], 7)
    assert (found.transactional_id, found.state, found.producer_ids) == ("app", "Ongoing", (5, 7))
    assert found.last_bump == Bump(
        at_ms=NOW, from_producer_id=5, from_epoch=3, to_producer_id=7, to_epoch=0
    )
    (written,) = found.written
    assert (written.first_offset, written.last_offset, written.transactions) == (0, 3, 2)
    assert written.is_open
    near = [(one.transactional_id, one.producer_id, one.partitions) for one in found.neighbours]
    assert near == [("before", 6, ("orders-0", "orders-3")), ("after", 8, ())]
    assert [one.event for one in found.events if one.source == "coordinator"] == [
        *("Empty", "Empty", "Ongoing")
    ]


def test_an_earlier_producer_id_leads_to_the_same_one(disks: Path) -> None:
    found = application_of([disks], 5)
    assert (found.transactional_id, found.written) == ("app", ())


def test_unknown_is_said_plainly(disks: Path, tmp_path: Path) -> None:
    found = application_of([disks], 99)
    assert isinstance(found, Application)
    assert (found.transactional_id, found.state, found.producer_ids, found.events) == (
        *(None, None, ()),
        (),
    )
    assert found.why_unknown.startswith("none of the 1 partitions of __transaction_state that")
    alone = BrokerDir(tmp_path / "alone")
    driver = LogDriver()
    driver.txn(0)
    alone.replica(driver)
    told = application_of([alone.stop()], 7).why_unknown
    assert told == "no partition of __transaction_state is among the directories"


def test_a_producer_without_a_trace_is_refused(disks: Path) -> None:
    with pytest.raises(BadInputError, match="producer 12: nothing in these directories is of it"):
        application_of([disks], 12)
