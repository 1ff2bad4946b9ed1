"""AddPartitionsToTxn v0 to v5: one transaction up to v3, a batch from v4 on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api, handlers, transaction
from txnsim.api.request import NoResponse
from txnsim.errors import ErrorCode

NONE, UNKNOWN, SKIPPED = (
    ErrorCode.none,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.operation_not_attempted,
)


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


@pytest.mark.parametrize("version", range(6))
async def test_every_version_adds(api: Api, version: int) -> None:
    identity = await api.producer("id")
    wanted = transaction("id", identity, {"orders": [2, 0]})
    for _ in range(2):  # what is added already is added again without a word
        answer = await api.ask("AddPartitionsToTxn", version, **wanted)
        assert errors(answer) == {("orders", 2): NONE, ("orders", 0): NONE}
    found = await api.state("id", "Ongoing")
    assert sorted(found.topics[0].partitions) == [0, 2]


@pytest.mark.parametrize("version", range(6))
async def test_unknown_partitions_keep_all_others_out(api: Api, version: int) -> None:
    identity = await api.producer("id")
    wanted = transaction("id", identity, {"missing": [0], "orders": [0, 9]})
    answer = await api.ask("AddPartitionsToTxn", version, **wanted)
    assert errors(answer) == {
        ("missing", 0): UNKNOWN,
        ("orders", 0): SKIPPED,
        ("orders", 9): UNKNOWN,
    }
    await api.state("id", "Empty")


@pytest.mark.parametrize("version", range(6))
async def test_internal_topics_are_refused_to_clients_but_not_to_brokers(
    api: Api, version: int
) -> None:
    identity = await api.producer("id")
    wanted = transaction("id", identity, {"__transaction_state": [0], "orders": [0]})
    answer = await api.ask("AddPartitionsToTxn", version, **wanted)
    refused = version < 4
    assert errors(answer) == {
        ("__transaction_state", 0): ErrorCode.topic_authorization_failed if refused else NONE,
        ("orders", 0): SKIPPED if refused else NONE,
    }


@pytest.mark.parametrize("version", range(6))
async def test_checks_in_their_order(api: Api, version: int) -> None:
    pid, epoch = await api.producer("id")
    fenced = ErrorCode.producer_fenced if version >= 2 else ErrorCode.invalid_producer_epoch
    for name, identity, error in (
        ("", (pid, epoch), ErrorCode.invalid_request),
        ("nobody", (pid, epoch), ErrorCode.invalid_producer_id_mapping),
        ("id", (pid + 9, epoch), ErrorCode.invalid_producer_id_mapping),
        ("id", (pid, epoch + 1), fenced),
        ("id", (pid, epoch - 1), fenced),
    ):
        wanted = transaction(name, identity, {"orders": [0, 1]})
        answer = await api.ask("AddPartitionsToTxn", version, **wanted)
        assert set(errors(answer).values()) == {error}, (name, identity)
        assert len(errors(answer)) == 2


async def test_an_empty_list_opens_a_transaction_with_nothing_in_it(api: Api) -> None:
    identity = await api.producer("id")
    answer = await api.ask("AddPartitionsToTxn", 3, **transaction("id", identity, {}))
    assert answer.results_by_topic_v3_and_below == ()
    assert (await api.state("id", "Ongoing")).topics == ()


@pytest.mark.parametrize("version", [0, 3, 4, 5])
async def test_topics_come_back_as_they_were_asked(api: Api, version: int) -> None:
    identity = await api.producer("id")
    wanted = transaction("id", identity, {"orders": [0]})
    topic = wanted["v3_and_below_topics"][0]
    wanted["v3_and_below_topics"] += [{**topic, "partitions": [1]}]
    answer = await api.ask("AddPartitionsToTxn", version, **wanted)
    topics = (
        answer.results_by_topic_v3_and_below
        if version < 4
        else answer.results_by_transaction[0].topic_results
    )
    assert [one.name for one in topics] == ["orders", "orders"]


@pytest.mark.parametrize("version", [4, 5])
async def test_verifying_tells_each_partition_by_itself(api: Api, version: int) -> None:
    identity = await api.producer("id")
    await api.ask("AddPartitionsToTxn", 3, **transaction("id", identity, {"orders": [0]}))
    wanted = transaction("id", identity, {"orders": [0, 1]}, verify=True)
    answer = await api.ask("AddPartitionsToTxn", version, **wanted)
    assert errors(answer) == {
        ("orders", 0): NONE,
        ("orders", 1): ErrorCode.transaction_abortable,
    }
    stale = transaction("id", (identity[0], 9), {"orders": [0]}, verify=True)
    answer = await api.ask("AddPartitionsToTxn", version, **stale)
    assert errors(answer) == {("orders", 0): ErrorCode.producer_fenced}


@pytest.mark.parametrize(("version", "verify_only"), [(3, False), (4, False), (4, True)])
async def test_a_partition_named_twice_is_answered_twice_only_where_all_share_one_error(
    api: Api, version: int, verify_only: bool
) -> None:
    identity = await api.producer("id")

    async def told(partitions: list[int]) -> list[int]:
        wanted = transaction("id", identity, {"orders": partitions}, verify=verify_only)
        answer = await api.ask("AddPartitionsToTxn", version, **wanted)
        (topic,) = (
            answer.results_by_topic_v3_and_below
            if version < 4
            else answer.results_by_transaction[0].topic_results
        )
        return [one.partition_index for one in topic.results_by_partition]

    assert await told([1, 1]) == ([1] if verify_only else [1, 1])
    assert await told([1, 9, 1]) == [1, 9]


@pytest.mark.parametrize("version", [4, 5])
async def test_transactions_of_a_batch_are_answered_each(api: Api, version: int) -> None:
    one, other = await api.producer("one"), await api.producer("other")
    batch = (
        transaction("one", one, {"orders": [0]})["transactions"]
        + transaction("other", (other[0], 7), {"orders": [1]})["transactions"]
    )
    answer = await api.ask("AddPartitionsToTxn", version, transactions=batch)
    assert answer.error_code is NONE
    assert [
        (one.transactional_id, one.topic_results[0].results_by_partition[0].partition_error_code)
        for one in answer.results_by_transaction
    ] == [("one", NONE), ("other", ErrorCode.producer_fenced)]


@pytest.mark.parametrize("version", [4, 5])
async def test_an_empty_batch_is_never_answered(api: Api, version: int) -> None:
    assert await api.ask("AddPartitionsToTxn", version, transactions=[]) is NoResponse.NEVER


@pytest.mark.parametrize("version", [4, 5])
async def test_at_level_zero_a_new_add_fails_the_batch(version: int) -> None:
    async with handlers(level=0) as api:
        identity = await api.producer("id")
        wanted = transaction("id", identity, {"orders": [0]})
        answer = await api.ask("AddPartitionsToTxn", version, **wanted)
        assert answer.error_code is ErrorCode.unsupported_version
        assert answer.results_by_transaction == ()


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
