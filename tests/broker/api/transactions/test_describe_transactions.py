"""DescribeTransactions v0: refusal and subject; the casebook has its answers."""

from __future__ import annotations

from tests.support.handlers import Api
from txnsim.errors import ErrorCode


async def test_refusal_and_subject(api: Api) -> None:
    error = ErrorCode.coordinator_not_available
    refused = api.refuse("DescribeTransactions", 0, error, transactional_ids=["a", "b"])
    assert [one.error_code for one in refused.transaction_states] == [error, error]
    about = api.subject("DescribeTransactions", 0, transactional_ids=["a", "b"])
    assert about.transactional_id == "a"
    assert [one.transactional_id for one in about.others] == ["b"]
    assert api.subject("DescribeTransactions", 0).transactional_id is None
