"""Handlers of transactions; the casebook has their answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.broker_api import Api, transaction
from tests.support.group_api import GroupApi, commit_values
from txnsim.errors import ErrorCode

# ``write_txn_markers``: WriteTxnMarkers v1 and v2: what trips in the middle; the casebook has its
# answers.


NONE, STALE, FENCED, FAILED, UNKNOWN = (
    ErrorCode.none,
    ErrorCode.invalid_producer_epoch,
    ErrorCode.transaction_coordinator_fenced,
    ErrorCode.unknown_server_error,
    ErrorCode.unknown_topic_or_partition,
)


def marker(
    producer_id: int,
    epoch: int,
    *partitions: int,
    coordinator: int = 0,
    transaction_version: int = 0,
    name: str = "orders",
) -> dict[str, Any]:
    return {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "transaction_result": True,
        "coordinator_epoch": coordinator,
        "transaction_version": transaction_version,
        "topics": [{"name": name, "partition_indexes": partitions}],
    }


def results(answer: Any) -> dict[int, dict[int, ErrorCode]]:
    """The errors of a WriteTxnMarkers answer, by producer id and partition."""
    return {
        marker.producer_id: {
            part.partition_index: part.error_code
            for topic in marker.topics
            for part in topic.partitions
        }
        for marker in answer.markers
    }


async def write(api: Api, version: int, *markers: dict[str, Any]) -> Any:
    return await api.ask("WriteTxnMarkers", version, markers=markers)


@pytest.mark.parametrize("bad_producer", [(-1, 0), (73, -1)])
async def test_a_marker_without_a_producer_fails_the_request_that_it_is_in(
    api: Api, bad_producer: tuple[int, int]
) -> None:
    # KafkaApis throws in the middle: what is before it is written, what is behind it is not.
    answer = await write(
        api, 1, marker(70, 0, 0), marker(70, 0, 1), marker(*bad_producer, 0), marker(71, 0, 0)
    )
    assert results(answer) == {70: {1: FAILED}, bad_producer[0]: {0: FAILED}, 71: {0: FAILED}}
    fields = {"topics": [{"name": "orders", "partition_indexes": [0, 1]}]}
    description = await api.ask("DescribeProducers", 0, **fields)
    assert [
        [producer.producer_id for producer in partition.active_producers]
        for partition in description.topics[0].partitions
    ] == [[70], [70]]


async def test_refusal_and_subject(api: Api) -> None:
    fields = {"markers": [marker(70, 0, 0, 1), marker(71, 0, 2)]}
    refusal_answer = api.refuse("WriteTxnMarkers", 2, STALE, **fields)
    assert results(refusal_answer) == {70: {0: STALE, 1: STALE}, 71: {2: STALE}}
    subject = api.subject("WriteTxnMarkers", 1, **fields)
    assert (subject.producer_id, subject.committed) == (70, True)
    assert [other_subject.producer_id for other_subject in subject.other_subjects] == [71]


# ``txn_offset_commit``: TxnOffsetCommit v0 to v5: words for loading; the casebook has its answers.


E = ErrorCode
Identity = tuple[int, int]


def values(groups: GroupApi, identity: Identity, offset: int = 7, **fields: Any) -> dict[str, Any]:
    request_fields = {
        "transactional_id": "id",
        "producer_id": identity[0],
        "producer_epoch": identity[1],
    }
    return commit_values(groups.api, offset, **{**request_fields, **fields})


def partition_error(answer: Any) -> ErrorCode:
    error_code: ErrorCode = answer.topics[0].partitions[0].error_code
    return error_code


async def test_versions_that_do_not_know_loading_get_another_error(
    groups: GroupApi,
) -> None:
    fields = values(groups, (1, 0))
    for version, error in ((1, E.coordinator_not_available), (2, E.coordinator_load_in_progress)):
        refusal_answer = groups.api.refuse(
            "TxnOffsetCommit", version, E.coordinator_load_in_progress, **fields
        )
        assert partition_error(refusal_answer) is error
    old_refusal = groups.api.refuse("TxnOffsetCommit", 1, E.not_coordinator, **fields)
    assert partition_error(old_refusal) is E.not_coordinator
    subject = groups.api.subject("TxnOffsetCommit", 3, **fields)
    assert (subject.transactional_id, subject.producer_id) == ("id", 1)


# AddPartitionsToTxn v0 to v5: refusals and the subject; the casebook has its answers.


def errors(answer: Any) -> dict[tuple[str, int], ErrorCode]:
    """The errors of an AddPartitionsToTxn answer of any version, by topic and partition."""
    topics = (
        answer.results_by_topic_v3_and_below
        if hasattr(answer, "results_by_topic_v3_and_below")
        else answer.results_by_transaction[0].topic_results
    )
    return {
        (topic.name, result.partition_index): result.partition_error_code
        for topic in topics
        for result in topic.results_by_partition
    }


async def test_refusals_and_the_subject(api: Api) -> None:
    fields = transaction("id", (5, 0), {"orders": [0, 1]})
    error = ErrorCode.producer_fenced
    old_answer = api.refuse("AddPartitionsToTxn", 1, error, **fields)
    assert set(errors(old_answer).values()) == {ErrorCode.invalid_producer_epoch}
    new_answer = api.refuse("AddPartitionsToTxn", 4, error, **fields)
    assert (new_answer.error_code, new_answer.results_by_transaction) == (error, ())
    for version in (3, 5):
        subject = api.subject("AddPartitionsToTxn", version, **fields)
        assert (subject.transactional_id, subject.producer_id) == ("id", 5)
        assert [str(partition) for partition in subject.partitions] == ["orders-0", "orders-1"]


# ``init_producer_id``: InitProducerId v0 to v6: the first one, refusals, the subject; the casebook
# has its answers.


def values_of_init_producer_id(
    transactional_id: str | None,
    *,
    timeout_ms: int = 60_000,
    producer_id: int = -1,
    epoch: int = -1,
) -> dict[str, object]:
    return {
        "transactional_id": transactional_id,
        "transaction_timeout": timeout_ms,
        "producer_id": producer_id,
        "producer_epoch": epoch,
    }


async def test_the_first_request_after_a_start_finds_no_block_of_ids(api: Api) -> None:
    answer = await api.ask("InitProducerId", 4, **values_of_init_producer_id(None))
    assert answer.error_code is ErrorCode.coordinator_load_in_progress
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


async def test_init_producer_id_refusals_and_the_subject(api: Api) -> None:
    fenced_error = ErrorCode.producer_fenced
    assert (
        api.refuse("InitProducerId", 5, fenced_error, **values_of_init_producer_id("id")).error_code
        is fenced_error
    )
    old_answer = api.refuse("InitProducerId", 3, fenced_error, **values_of_init_producer_id("id"))
    assert old_answer.error_code is ErrorCode.invalid_producer_epoch
    subject = api.subject(
        "InitProducerId", 4, **values_of_init_producer_id("id", producer_id=7, epoch=0)
    )
    assert (subject.transactional_id, subject.producer_id) == ("id", 7)
    assert api.subject("InitProducerId", 0, **values_of_init_producer_id("id")).producer_id is None


# DescribeTransactions v0: refusal and subject; the casebook has its answers.


async def test_describe_transactions_refusal_and_subject(api: Api) -> None:
    error = ErrorCode.coordinator_not_available
    refusal_answer = api.refuse("DescribeTransactions", 0, error, transactional_ids=["a", "b"])
    assert [
        transaction_state.error_code for transaction_state in refusal_answer.transaction_states
    ] == [
        error,
        error,
    ]
    subject = api.subject("DescribeTransactions", 0, transactional_ids=["a", "b"])
    assert subject.transactional_id == "a"
    assert [other_subject.transactional_id for other_subject in subject.other_subjects] == ["b"]
    assert api.subject("DescribeTransactions", 0).transactional_id is None
