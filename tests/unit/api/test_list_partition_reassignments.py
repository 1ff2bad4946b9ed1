"""ListPartitionReassignments v0: nothing is on the move."""

from __future__ import annotations

import pytest

from sim.errors import ErrorCode
from tests.support.handlers import Api


@pytest.mark.parametrize("topics", [None, [], [{"name": "orders", "partition_indexes": [0]}]])
async def test_nothing_is_on_the_move(api: Api, topics: object) -> None:
    answer = await api.ask("ListPartitionReassignments", 0, topics=topics)
    assert (answer.error_code, answer.error_message, answer.topics) == (ErrorCode.none, None, ())


async def test_refuse(api: Api) -> None:
    answer = api.refuse("ListPartitionReassignments", 0, ErrorCode.not_controller, topics=None)
    assert (answer.error_code, answer.topics) == (ErrorCode.not_controller, ())
