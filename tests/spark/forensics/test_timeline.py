"""The life of a transactional id, from what its coordinator wrote and what lies in partitions."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from txnsim.types import TopicPartition
from txnsim_spark.forensics.timeline import (
    CoordinatorRecord,
    Stay,
    Timeline,
    timeline_of,
)

ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)


def record(
    offset: int,
    state: str | None,
    *partitions: TopicPartition,
    at_ms: int = 0,
    epoch: int = 0,
    pid: int = 7,
) -> CoordinatorRecord:
    return CoordinatorRecord(
        brokers=(1,),
        partition=3,
        offset=offset,
        timestamp_ms=at_ms or 10 * offset,
        state=state,
        producer_id=-1 if state is None else pid,
        producer_epoch=-1 if state is None else epoch,
        partitions=partitions,
        start_timestamp_ms=10,
    )


def stay(
    first: int | None, marker: int | None, *, at_ms: int = 0, committed: bool = True, epoch: int = 0
) -> Stay:
    """On orders-0; its marker bears the time ``at_ms``."""
    has_marker = marker is not None
    return Stay(
        brokers=(1, 2),
        topic="orders",
        partition=0,
        producer_id=7,
        producer_epoch=epoch,
        first_offset=first,
        last_offset=None if first is None else first + 1,
        first_timestamp_ms=None if first is None else 15,
        last_timestamp_ms=None if first is None else 16,
        records=0 if first is None else 2,
        marker_offset=marker,
        marker_epoch=epoch if has_marker else None,
        marker_timestamp_ms=at_ms if has_marker else None,
        committed=committed if has_marker else None,
        coordinator_epoch=4 if has_marker else None,
    )


STORY = (
    record(0, "Empty"),
    record(1, "Ongoing", ORDERS),
    record(2, "PrepareCommit", ORDERS),
    record(3, "CompleteCommit"),
)


def told(timeline: Timeline) -> list[tuple[str, str]]:
    return [(event.event, event.text) for event in timeline.events]


def test_both_sides_are_told_in_order_of_time() -> None:
    found = timeline_of("app", STORY, [stay(5, 7, at_ms=26)])
    assert told(found) == [
        ("Empty", "InitProducerId; producer 7 epoch 0"),
        ("Ongoing", "the transaction begins; added orders-0"),
        ("first", "first record (epoch 0)"),
        ("last", "last of 2 records"),
        ("PrepareCommit", "decided to commit, 10 ms after its beginning"),
        ("marker", "COMMIT, coordinator epoch 4, 6 ms after the decision"),
        ("CompleteCommit", "every partition has its marker"),
    ]
    assert found.disagreements == ()
    assert (found.producer_ids, found.coordinator_partition, found.open) == ((7,), 3, ())
    marker = found.events[5]
    assert (marker.committed, marker.coordinator_epoch, marker.after_decision_ms) == (True, 4, 6)


def test_records_of_a_log_keep_its_order_whatever_time_they_bear() -> None:
    late = msgspec.structs.replace(stay(5, 7, at_ms=26), first_timestamp_ms=99)
    names = [event.event for event in timeline_of("app", STORY, [late]).events]
    assert names.index("first") < names.index("last") < names.index("marker")


def test_partitions_epochs_and_ids_are_told_as_they_change() -> None:
    records = (
        record(0, "Empty"),
        record(1, "Ongoing", ORDERS),
        record(2, "Ongoing", ORDERS, PAYMENTS),
        record(3, "PrepareAbort", ORDERS, PAYMENTS, epoch=1),
        record(4, "CompleteAbort", epoch=1),
        record(5, "Empty", epoch=0, pid=8),
        record(6, "Empty", epoch=0, pid=8),
        record(7, None),
        record(8, "Empty", pid=9),
    )
    found = timeline_of("app", records, [])
    assert [text for _, text in told(found)][2:] == [
        "added payments-0",
        "decided to abort, 20 ms after its beginning; epoch 0 -> 1",
        "every partition has its marker",
        "InitProducerId; producer 7 -> 8, epoch 0",
        "InitProducerId",
        "the coordinator forgets the transactional id",
        "InitProducerId; producer 9 epoch 0",
    ]
    assert found.producer_ids == (7, 8, 9)
    assert found.events[2].added == (PAYMENTS,)


def test_a_record_that_changes_nothing_was_written_again() -> None:
    records = (record(0, "Ongoing", ORDERS), record(1, "Ongoing", ORDERS))
    assert told(timeline_of("app", records, []))[1] == ("Ongoing", "written again")


def test_a_marker_where_nothing_was_written_is_told() -> None:
    found = timeline_of("app", STORY, [stay(None, 7, at_ms=26)])
    (text,) = [one.text for one in found.events if one.event == "marker"]
    assert text.endswith("nothing was written here")
    assert found.disagreements == ()


def test_each_marker_of_an_epoch_has_its_own_decision() -> None:
    records = (
        record(0, "Empty"),
        record(1, "PrepareAbort", ORDERS, at_ms=50),
        record(2, "PrepareCommit", PAYMENTS, at_ms=50),
        record(3, "PrepareCommit", ORDERS, at_ms=50),
    )
    repeated = stay(None, 8, at_ms=51)
    stays = [stay(1, 3, at_ms=50, committed=False), stay(5, 7, at_ms=50), repeated]
    found = timeline_of("app", records, stays)
    assert found.disagreements == ()
    afters = [one.after_decision_ms for one in found.events if one.event == "marker"]
    assert afters == [0, 0, 1]


def test_clocks_of_brokers_may_differ_a_little() -> None:
    found = timeline_of("app", STORY, [stay(5, 7, at_ms=19)])
    assert found.disagreements == ()
    assert [one.after_decision_ms for one in found.events if one.event == "marker"] == [-1]


ONGOING = (*STORY, record(9, "Ongoing", ORDERS))
OPEN = stay(8, None)


def test_what_is_open_is_told() -> None:
    found = timeline_of("app", ONGOING, [OPEN])
    assert [(one.first_offset, one.state, one.brokers) for one in found.open] == [
        (8, "Ongoing", (1, 2))
    ]


@pytest.mark.parametrize(
    ("records", "one", "told"),
    [
        (
            STORY,
            stay(5, 7, at_ms=26, committed=False),
            ["orders-0: the marker at offset 7 aborts, the coordinator had decided to commit"],
        ),
        (
            [record(0, "Empty"), record(1, "PrepareCommit", PAYMENTS)],
            stay(5, 7, at_ms=26),
            ["the partition is not among those of the transaction"],
        ),
        # It was compacted away.
        ([record(0, "Empty", epoch=9)], stay(5, 7, at_ms=26), []),
        (
            [
                *STORY,
                record(4, "Ongoing", ORDERS, epoch=1),
                record(5, "PrepareAbort", ORDERS, epoch=1),
                record(6, "CompleteAbort", epoch=1),
            ],
            stay(5, 7, at_ms=26),
            [
                "orders-0: no marker of the transaction that the coordinator has as CompleteAbort "
                "(offset 6)"
            ],
        ),
        (ONGOING, OPEN, ["no marker of the transaction that the coordinator has as CompleteC"]),
        (STORY, OPEN, ["for the coordinator it is CompleteCommit", "no marker"]),
        ([*STORY, record(9, None)], OPEN, ["the coordinator knows nothing of it", "no marker"]),
        (
            [*STORY, record(9, "Ongoing", PAYMENTS)],
            OPEN,
            ["is not among those of the transaction (Ongoing)", "no marker"],
        ),
        (
            [*STORY, record(9, "Empty", pid=8)],
            OPEN,
            ["the coordinator has producer 8 epoch 0, Empty", "no marker"],
        ),
    ],
)
def test_disagreements(records: Sequence[CoordinatorRecord], one: Stay, told: list[str]) -> None:
    found = timeline_of("app", records, [one]).disagreements
    assert len(found) == len(told)
    assert all(words in said for words, said in zip(told, found, strict=True))


def test_how_many_records_there_are_is_told() -> None:
    texts = [
        told(timeline_of("app", [], [msgspec.structs.replace(stay(5, None), records=records)]))[1]
        for records in (0, 1, 2)
    ]
    assert [text for _, text in texts] == [
        "last record; the cleaner has taken it",
        "the only record",
        "last of 2 records",
    ]


def test_an_id_that_nobody_knows_has_no_events() -> None:
    found = timeline_of("app", [], [])
    assert (found.events, found.coordinator_partition, found.producer_ids) == ((), None, ())
