"""The decision of find-hanging, with now as an argument."""

from __future__ import annotations

import pytest

from txnsim.client.inspection.hanging import (
    MAX_TRANSACTION_TIMEOUT_MS,
    OpenTransaction,
    candidates,
    hanging,
)
from txnsim.client.inspection.txn_views import ProducerState, TransactionDescription
from txnsim.types import TopicPartition

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
NOW_MS = 10_000_000


def producer(pid: int = 1, *, last_ms: int = 0, start: int | None = 5) -> ProducerState:
    return ProducerState(
        producer_id=pid,
        producer_epoch=0,
        last_sequence=0,
        last_timestamp_ms=last_ms,
        coordinator_epoch=None,
        txn_start_offset=start,
    )


def description(*partitions: TopicPartition, state: str = "Ongoing") -> TransactionDescription:
    return TransactionDescription(
        coordinator_id=1,
        transactional_id="x",
        state=state,
        producer_id=1,
        producer_epoch=3,
        timeout_ms=1,
        start_time_ms=None,
        partitions=partitions,
    )


@pytest.mark.parametrize(
    ("age_ms", "found"),
    [(MAX_TRANSACTION_TIMEOUT_MS, False), (MAX_TRANSACTION_TIMEOUT_MS + 1, True)],
)
def test_only_older_than_the_limit_counts(age_ms: int, found: bool) -> None:
    rows = {P0: [producer(last_ms=NOW_MS - age_ms)]}
    assert bool(candidates(rows, now_ms=NOW_MS)) is found


def test_without_an_open_transaction_nothing_hangs() -> None:
    assert candidates({P0: [producer(start=None)]}, now_ms=NOW_MS) == ()


def test_a_transaction_at_offset_0_is_open() -> None:
    assert len(candidates({P0: [producer(start=0)]}, now_ms=NOW_MS)) == 1


ONE = OpenTransaction(partition=P0, producer=producer())


@pytest.mark.parametrize(
    ("ids", "descriptions", "hangs"),
    [
        ({}, {}, True),
        ({1: "x"}, {"x": None}, True),
        ({1: "x"}, {}, True),
        ({1: "x"}, {"x": description()}, True),
        ({1: "x"}, {"x": description(P1)}, True),
        ({1: "x"}, {"x": description(P0, P1)}, False),
        ({1: "x"}, {"x": description(P0, state="PrepareAbort")}, False),
    ],
    ids=[
        "no id",
        "id forgotten",
        "not described",
        "no partitions",
        "another partition",
        "its partition",
        "marker outstanding",
    ],
)
def test_hanging_is_what_no_coordinator_will_end(
    ids: dict[int, str],
    descriptions: dict[str, TransactionDescription | None],
    hangs: bool,
) -> None:
    assert hanging((ONE,), ids, descriptions) == ((ONE,) if hangs else ())


@pytest.mark.parametrize(
    ("elapsed_ms", "minutes"),
    [(59_999, 0), (60_000, 1), (3_659_999, 60), (-59_999, 0), (-60_000, -1)],
)
def test_durations_are_whole_minutes(elapsed_ms: int, minutes: int) -> None:
    one = OpenTransaction(partition=P0, producer=producer(last_ms=NOW_MS - elapsed_ms))
    assert one.duration_min(NOW_MS) == minutes
