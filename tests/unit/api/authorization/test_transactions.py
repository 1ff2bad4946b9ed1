"""Transactional ids that may not be seen are left out; a client learns no topics from them."""

from __future__ import annotations

import pytest

from tests.support.security import GuardedApi, acl
from txnsim.errors import ErrorCode
from txnsim.security.acls import Operation, ResourceType

DESCRIBE = acl(ResourceType.TRANSACTIONAL_ID, "tx", Operation.DESCRIBE)
FORBIDDEN = ErrorCode.transactional_id_authorization_failed


@pytest.fixture
async def open_transaction(api: GuardedApi) -> GuardedApi:
    """``tx`` has a transaction on ``orders``."""
    producer_id, epoch = await api.api.producer("tx")
    await api.api.ask(
        "AddPartitionsToTxn",
        3,
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[{"name": "orders", "partitions": [0]}],
    )
    return api


async def test_transactions_are_listed_with_the_right_to_see_them(
    open_transaction: GuardedApi,
) -> None:
    assert (await open_transaction.ask("ListTransactions", 1)).transaction_states == ()
    open_transaction.grant(DESCRIBE)
    answer = await open_transaction.ask("ListTransactions", 1)
    assert [state.transactional_id for state in answer.transaction_states] == ["tx"]


async def test_a_transaction_does_not_tell_its_topics(open_transaction: GuardedApi) -> None:
    ids = {"transactional_ids": ["tx", "other"]}
    answer = await open_transaction.ask("DescribeTransactions", 0, **ids)
    assert [state.error_code for state in answer.transaction_states] == [FORBIDDEN, FORBIDDEN]
    open_transaction.grant(DESCRIBE)
    answer = await open_transaction.ask("DescribeTransactions", 0, **ids)
    found = {state.transactional_id: state for state in answer.transaction_states}
    assert (found["tx"].error_code, found["tx"].topics) == (ErrorCode.none, ())
    assert found["other"].error_code is FORBIDDEN
    open_transaction.grant(acl(ResourceType.TOPIC, "orders", Operation.DESCRIBE))
    answer = await open_transaction.ask("DescribeTransactions", 0, transactional_ids=["tx"])
    assert [topic.topic for topic in answer.transaction_states[0].topics] == ["orders"]


async def test_a_forbidden_partition_keeps_the_others_out_of_the_transaction(
    api: GuardedApi,
) -> None:
    api.grant(
        acl(ResourceType.TRANSACTIONAL_ID, "tx", Operation.WRITE),
        acl(ResourceType.TOPIC, "orders", Operation.WRITE),
    )
    answer = await api.ask(
        "AddPartitionsToTxn",
        3,
        v3_and_below_transactional_id="tx",
        v3_and_below_topics=[
            {"name": name, "partitions": [0]} for name in ("orders", "hidden", "missing")
        ],
    )
    errors = {
        topic.name: topic.results_by_partition[0].partition_error_code
        for topic in answer.results_by_topic_v3_and_below
    }
    assert errors == {
        "orders": ErrorCode.operation_not_attempted,
        "hidden": ErrorCode.topic_authorization_failed,
        "missing": ErrorCode.topic_authorization_failed,
    }


@pytest.mark.parametrize(
    ("kind", "resource", "error"),
    [
        (0, ResourceType.GROUP, ErrorCode.group_authorization_failed),
        (1, ResourceType.TRANSACTIONAL_ID, FORBIDDEN),
    ],
)
async def test_a_coordinator_is_found_with_the_right_to_see_what_it_coordinates(
    api: GuardedApi, kind: int, resource: ResourceType, error: ErrorCode
) -> None:
    api.grant(acl(resource, "tx", Operation.DESCRIBE))
    answer = await api.ask("FindCoordinator", 4, key_type=kind, coordinator_keys=["tx", "other"])
    errors = {one.key: one.error_code for one in answer.coordinators}
    assert errors["tx"] is not error
    assert errors["other"] is error
    answer = await api.ask("FindCoordinator", 3, key_type=kind, key="other")
    assert answer.error_code is error
