"""AddPartitionsToTxn v0 to v5: refusals and the subject; the casebook has its answers."""

from __future__ import annotations

from typing import Any

from tests.support.handlers import Api, transaction
from txnsim.errors import ErrorCode


def errors(answer: Any) -> dict[tuple[str, int], ErrorCode]:
    """By topic and partition, whatever the version."""
    topics = (
        answer.results_by_topic_v3_and_below
        if hasattr(answer, "results_by_topic_v3_and_below")
        else answer.results_by_transaction[0].topic_results
    )
    return {
        (topic.name, one.partition_index): one.partition_error_code
        for topic in topics
        for one in topic.results_by_partition
    }


async def test_refusals_and_the_subject(api: Api) -> None:
    wanted = transaction("id", (5, 0), {"orders": [0, 1]})
    error = ErrorCode.producer_fenced
    old = api.refuse("AddPartitionsToTxn", 1, error, **wanted)
    assert set(errors(old).values()) == {ErrorCode.invalid_producer_epoch}
    new = api.refuse("AddPartitionsToTxn", 4, error, **wanted)
    assert (new.error_code, new.results_by_transaction) == (error, ())
    for version in (3, 5):
        about = api.subject("AddPartitionsToTxn", version, **wanted)
        assert (about.transactional_id, about.producer_id) == ("id", 5)
        assert [str(one) for one in about.partitions] == ["orders-0", "orders-1"]
