from __future__ import annotations

import pytest

from tests.broker.client.fake_broker import Asked
from txnsim.client.inspection.txn_views import (
    AbortSpec,
    parse_description,
    parse_listing,
    parse_producer,
)
from txnsim.types import TopicPartition


@pytest.mark.parametrize(("name", "shown"), [("Ongoing", "Ongoing"), ("Dancing", "Unknown")])
def test_states_never_heard_of_are_unknown(name: str, shown: str) -> None:
    row = Asked(66, 2, None).part(
        "TransactionState", transactional_id="a", producer_id=1, transaction_state=name
    )
    listing = parse_listing(3, row)
    assert (listing.coordinator_id, listing.state) == (3, shown)


@pytest.mark.parametrize(("start", "shown"), [(1_700_000_000_123, 1_700_000_000_123), (None, None)])
def test_times_keep_their_milliseconds_and_none_is_none(
    start: int | None, shown: int | None
) -> None:
    asked = Asked(65, 0, None)
    row = asked.part(
        "TransactionState",
        error_code=0,
        transactional_id="a",
        transaction_state="Empty",
        transaction_timeout=1_234,
        transaction_start_time=start,
        producer_id=1,
        producer_epoch=2,
        topics=(asked.part("TopicData", topic="t", partitions=(0, 2)),),
    )
    description = parse_description(1, row)
    assert (description.timeout_ms, description.start_time_ms) == (1_234, shown)
    assert description.partitions == (TopicPartition("t", 0), TopicPartition("t", 2))


def test_minus_one_means_none_in_a_producers_state() -> None:
    values = {"producer_id": 1, "producer_epoch": 2, "last_sequence": 3, "last_timestamp": 4}
    asked = Asked(61, 0, None)
    none = parse_producer(
        asked.part("ProducerState", coordinator_epoch=-1, current_txn_start_offset=-1, **values)
    )
    assert (none.coordinator_epoch, none.txn_start_offset) == (None, None)
    some = parse_producer(
        asked.part("ProducerState", coordinator_epoch=0, current_txn_start_offset=0, **values)
    )
    assert (some.coordinator_epoch, some.txn_start_offset) == (0, 0)


def test_an_abort_is_described_as_java_does() -> None:
    spec = AbortSpec(
        partition=TopicPartition("t", 0), producer_id=1, producer_epoch=2, coordinator_epoch=3
    )
    assert str(spec) == (
        "AbortTransactionSpec(topicPartition=t-0, producerId=1, producerEpoch=2,"
        " coordinatorEpoch=3)"
    )
