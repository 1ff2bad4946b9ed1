"""Transactional ids that may not be seen are left out; a client learns no topics from them."""

from __future__ import annotations

import pytest

from tests.support.security import GuardedApi, acl
from txnsim.security.acls import Operation, ResourceType

DESCRIBE = acl(ResourceType.TRANSACTIONAL_ID, "tx", Operation.DESCRIBE)


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
