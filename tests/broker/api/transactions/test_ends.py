"""Ends of transactions, offsets in them, and their producers."""

from __future__ import annotations

from typing import Any

from tests.support.broker_api import Api
from tests.support.group_api import GROUP, GroupApi
from txnsim.errors import ErrorCode

# ``end_txn``: EndTxn v0 to v5: refusals and the subject; the casebook has its answers.


def values(
    identity: tuple[int, int], *, committed: bool = True, transactional_id: str = "id"
) -> dict[str, object]:
    return {
        "transactional_id": transactional_id,
        "producer_id": identity[0],
        "producer_epoch": identity[1],
        "committed": committed,
    }


# ``add_partitions_to_txn``


async def test_refusals_and_the_subject(api: Api) -> None:
    fenced_error = ErrorCode.producer_fenced
    assert api.refuse("EndTxn", 2, fenced_error, **values((1, 0))).error_code is fenced_error
    old_answer = api.refuse("EndTxn", 1, fenced_error, **values((1, 0)))
    assert old_answer.error_code is ErrorCode.invalid_producer_epoch
    new_answer = api.refuse("EndTxn", 5, fenced_error, **values((1, 0)))
    assert (new_answer.producer_id, new_answer.producer_epoch) == (-1, -1)
    subject = api.subject("EndTxn", 5, **values((1, 0), committed=False))
    assert (subject.transactional_id, subject.producer_id, subject.committed) == ("id", 1, False)


# ``add_offsets_to_txn``: AddOffsetsToTxn v0 to v4: refusal and subject; the casebook has its
# answers.


E = ErrorCode


def values_of_add_offsets_to_txn(
    identity: tuple[int, int], *, transactional_id: str = "id"
) -> dict[str, Any]:
    return {
        "transactional_id": transactional_id,
        "producer_id": identity[0],
        "producer_epoch": identity[1],
        "group_id": GROUP,
    }


async def test_refusal_and_subject(groups: GroupApi) -> None:
    refusal_answer = groups.api.refuse(
        "AddOffsetsToTxn", 1, E.producer_fenced, **values_of_add_offsets_to_txn((1, 0))
    )
    assert refusal_answer.error_code is E.invalid_producer_epoch
    subject = groups.api.subject("AddOffsetsToTxn", 1, **values_of_add_offsets_to_txn((1, 0)))
    assert (subject.transactional_id, subject.producer_id) == ("id", 1)


# ``describe_producers``: DescribeProducers v0: refusal and subject; the casebook has its answers.


def values_of_describe_producers(name: str, *partitions: int) -> dict[str, Any]:
    return {"topics": [{"name": name, "partition_indexes": partitions}]}


# ``describe_transactions``


async def test_describe_producers_refusal_and_subject(api: Api) -> None:
    fields = values_of_describe_producers("orders", 0, 1)
    refusal_answer = api.refuse("DescribeProducers", 0, ErrorCode.request_timed_out, **fields)
    assert {partition.error_code for partition in refusal_answer.topics[0].partitions} == {
        ErrorCode.request_timed_out
    }
    subject = api.subject("DescribeProducers", 0, **fields)
    assert [str(partition) for partition in subject.partitions] == ["orders-0", "orders-1"]
