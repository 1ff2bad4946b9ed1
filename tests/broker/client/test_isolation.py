"""What a consumer shows of fetched bytes, by the rule of Kafka's CompletedFetch."""

from __future__ import annotations

from txnsim.client.isolation import AbortedTransaction, Visible, visible_records
from txnsim.types import IsolationLevel, Offset, ProducerId, TopicPartition
from txnsim.wire.batch import Record, build_batch, control_batch

P = TopicPartition("t", 0)
COMMITTED = IsolationLevel.READ_COMMITTED
UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED


def batch(
    offset: int, *record_values: bytes, producer_id: int = -1, is_transactional: bool = False
) -> bytes:
    return build_batch(
        [Record(value=record_value) for record_value in record_values],
        timestamp_ms=1,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        is_transactional=is_transactional,
        base_offset=offset,
    )


def marker(offset: int, producer_id: int, *, committed: bool = False) -> bytes:
    return control_batch(
        producer_id=producer_id,
        producer_epoch=0,
        is_commit=committed,
        coordinator_epoch=0,
        base_offset=offset,
        leader_epoch=0,
        timestamp_ms=1,
    )


def aborted_transaction(producer_id: int, first_offset: int) -> AbortedTransaction:
    return AbortedTransaction(
        producer_id=ProducerId(producer_id), first_offset=Offset(first_offset)
    )


def visible_of(
    *parts: bytes,
    aborted_transactions: tuple[AbortedTransaction, ...] = (),
    offset: int = 0,
    isolation: IsolationLevel = COMMITTED,
) -> Visible:
    return visible_records(
        P, b"".join(parts), fetch_offset=offset, isolation=isolation, aborted=aborted_transactions
    )


def offsets(visible: Visible) -> list[int]:
    return [record.offset for record in visible.records]


def test_records_before_the_fetch_offset_are_left_out() -> None:
    assert offsets(visible_of(batch(0, b"a", b"b", b"c"), offset=2)) == [2]


def test_a_partial_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    visible = visible_of(batch(0, b"a"), batch(1, b"b")[:-1])
    assert (offsets(visible), visible.next_offset) == ([0], 1)


def test_nothing_fetched_stays_where_it_was() -> None:
    assert visible_of(offset=5) == Visible(records=(), next_offset=5)


def test_aborted_records_are_hidden_until_their_marker_and_positions_go_past_them() -> None:
    parts = (
        batch(0, b"gone", producer_id=1, is_transactional=True),
        batch(1, b"kept", producer_id=2, is_transactional=True),
        batch(2, b"plain", producer_id=1),
        marker(3, 1),
        batch(4, b"next", producer_id=1, is_transactional=True),
    )
    visible = visible_of(*parts, aborted_transactions=(aborted_transaction(1, 0),))
    assert (offsets(visible), visible.next_offset) == ([1, 2, 4], 5)
    assert offsets(
        visible_of(*parts, aborted_transactions=(aborted_transaction(1, 0),), isolation=UNCOMMITTED)
    ) == [
        0,
        1,
        2,
        4,
    ]


def test_the_same_producer_may_abort_several_times() -> None:
    parts = (
        batch(0, b"x", producer_id=1, is_transactional=True),
        marker(1, 1),
        batch(2, b"kept", producer_id=1, is_transactional=True),
        marker(3, 1, committed=True),
        batch(4, b"x", producer_id=1, is_transactional=True),
        marker(5, 1),
    )
    # In order of markers, as a broker lists them; the rule wants them by first offset.
    records_read = visible_of(
        *parts, aborted_transactions=(aborted_transaction(1, 4), aborted_transaction(1, 0))
    )
    assert offsets(records_read) == [2]
    assert [
        (marker.offset, marker.producer_id, marker.committed) for marker in records_read.markers
    ] == [
        (1, 1, False),
        (3, 1, True),
        (5, 1, False),
    ]


def test_a_commit_marker_ends_no_abort() -> None:
    parts = (marker(0, 1, committed=True), batch(1, b"x", producer_id=1, is_transactional=True))
    assert offsets(visible_of(*parts, aborted_transactions=(aborted_transaction(1, 0),))) == []


def test_an_entry_counts_from_its_first_offset_on() -> None:
    parts = (
        batch(0, b"a", producer_id=1, is_transactional=True),
        batch(1, b"b", producer_id=1, is_transactional=True),
    )
    assert offsets(visible_of(*parts, aborted_transactions=(aborted_transaction(1, 1),))) == [0]


def test_what_a_batch_says_of_its_producer_is_kept() -> None:
    (record,) = visible_of(batch(7, b"v", producer_id=9, is_transactional=True), offset=7).records
    assert (record.producer_id, record.producer_epoch, record.transactional) == (9, 0, True)
    assert (record.partition, record.timestamp_ms) == (P, 1)
