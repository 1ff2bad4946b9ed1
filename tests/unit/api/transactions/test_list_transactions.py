"""ListTransactions v0 to v2: a refusal; the casebook has its answers."""

from __future__ import annotations

from tests.support.handlers import Api
from txnsim.errors import ErrorCode


async def test_refusing(api: Api) -> None:
    answer = api.refuse("ListTransactions", 0, ErrorCode.coordinator_load_in_progress)
    assert answer.error_code is ErrorCode.coordinator_load_in_progress
    assert answer.transaction_states == ()
