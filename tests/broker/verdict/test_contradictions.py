"""Decisions of a coordinator against the markers of a partition: what contradicts, and what does
not.
"""

from __future__ import annotations

import pytest

from txnsim.txn.marker_payment import CoordinatorRecord
from txnsim.types import TopicPartition
from txnsim.verdict.contradictions import ProducerMarker, contradictions

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)


def decision(
    outcome: str,
    at: int,
    *,
    start_ms: int | None = None,
    epoch: int = 0,
    topic_partition: TopicPartition = HERE,
) -> CoordinatorRecord:
    """A decision, written as ``C`` or ``A``, at a time."""
    return CoordinatorRecord(
        state={"C": "PrepareCommit", "A": "PrepareAbort"}[outcome],
        producer_id=7,
        producer_epoch=epoch,
        partitions=frozenset({topic_partition}),
        is_v2=epoch > 0,
        timestamp_ms=at,
        start_timestamp_ms=at - 5 if start_ms is None else start_ms,
    )


def marker(
    outcome: str, at: int, *, offset: int = 0, epoch: int = 0, has_ended_records: bool = True
) -> ProducerMarker:
    return ProducerMarker(
        offset=offset or at,
        producer_epoch=epoch,
        is_commit=outcome == "C",
        written_at=at,
        has_ended_records=has_ended_records,
    )


@pytest.mark.parametrize(
    ("decision_records", "markers", "wrong_offsets"),
    [
        pytest.param([], [], [], id="nothing"),
        pytest.param([decision("C", 10)], [marker("C", 11)], [], id="as-decided"),
        pytest.param([decision("C", 10)], [], [], id="no-end-yet"),
        pytest.param([decision("C", 10)], [marker("A", 11)], [11], id="operator-wrote-the-other"),
        pytest.param(
            [decision("C", 10)],
            [marker("A", 11, has_ended_records=False)],
            [],
            id="it-had-no-records-there",
        ),
        pytest.param([], [marker("A", 11)], [], id="repaired-without-a-decision"),
        pytest.param(
            [decision("C", 10), decision("A", 20)], [marker("A", 21)], [21], id="lost-and-went-on"
        ),
        pytest.param(
            [decision("C", 10), decision("C", 20)],
            [marker("C", 21)],
            [],
            id="lost-with-the-same-outcome",
        ),
        pytest.param(
            [decision("C", 10), decision("A", 30, start_ms=12)],
            [marker("C", 11), marker("C", 20), marker("A", 31)],
            [20],
            id="late-marker-tears-the-next",
        ),
        pytest.param(
            [decision("C", 10), decision("A", 30, start_ms=25)],
            [marker("C", 11), marker("C", 20), marker("A", 31)],
            [],
            id="a-late-record-repaired-before-the-next",
        ),
        pytest.param(
            [decision("C", 10), decision("A", 11)],
            [marker("C", 11), marker("A", 12)],
            [],
            id="two-in-a-millisecond",
        ),
        pytest.param(
            [decision("C", 10), decision("A", 10, start_ms=10)],
            [marker("C", 10), marker("A", 10, offset=12)],
            [],
            id="all-in-a-millisecond",
        ),
        pytest.param(
            [decision("C", 10, epoch=1), decision("A", 10, epoch=2)],
            [marker("C", 10, epoch=1), marker("C", 10, offset=12, epoch=2)],
            [12],
            id="epochs-order-them",
        ),
        pytest.param(
            [decision("A", 20, start_ms=11, epoch=2)],
            [marker("C", 10, epoch=1)],
            [],
            id="of-a-forgotten-decision",
        ),
        pytest.param(
            [decision("C", 20, start_ms=1, epoch=3)],
            [marker("A", 10, epoch=1)],
            [],
            id="of-an-older-epoch",
        ),
        pytest.param(
            [decision("C", 20, start_ms=1, epoch=2)],
            [marker("A", 21, epoch=1), marker("C", 22, epoch=2)],
            [21],
            id="an-operators-with-the-epoch-of-records",
        ),
        pytest.param(
            [decision("C", 10, topic_partition=THERE)], [marker("A", 11)], [], id="another-decision"
        ),
    ],
)
def test_a_marker_contradicts_a_decision_whose_records_it_has_ended(
    decision_records: list[CoordinatorRecord],
    markers: list[ProducerMarker],
    wrong_offsets: list[int],
) -> None:
    wrong_data = list(contradictions(HERE, 7, "app", decision_records, markers))
    assert [wrong_batch.offset for wrong_batch in wrong_data] == wrong_offsets
    for wrong_batch in wrong_data:
        ended_by = next(
            ending_marker for ending_marker in markers if ending_marker.offset == wrong_batch.offset
        )
        assert wrong_batch.is_commit != ended_by.is_commit
    assert not list(contradictions(HERE, 8, "app", decision_records, markers)), "another producer"
