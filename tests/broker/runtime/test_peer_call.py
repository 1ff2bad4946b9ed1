"""One request between brokers: its caller waits for the answer, or does not."""

from __future__ import annotations

import asyncio

import pytest

from txnsim.errors import PeerTimeoutError
from txnsim.runtime.peer_call import PeerCall
from txnsim.runtime.tasks import LoopTasks, Pending
from txnsim.types import BrokerId


def make() -> PeerCall:
    tasks = LoopTasks(asyncio.get_running_loop())
    pending: dict[int, PeerCall] = {}
    call = pending[7] = PeerCall(
        link=(BrokerId(1), BrokerId(2)), api_key=27, api_version=1, command="x",
        correlation_id=7, asked_ns=0, timeout_ms=5, answer=Pending(tasks), pending=pending,
    )  # fmt: skip
    return call


async def test_the_first_answer_counts() -> None:
    call = make()
    before = call.is_awaited
    call.succeed("reply")
    call.fail(PeerTimeoutError("late"))
    assert (before, call.is_awaited) == (True, False)
    assert call.answer.result() == "reply"
    assert str(call) == "request 7 of API 27 v1, broker 1 -> 2"


async def test_who_has_given_up_hears_nothing_more() -> None:
    call = make()
    call.fail(PeerTimeoutError("late"))
    call.succeed("reply")
    with pytest.raises(PeerTimeoutError, match="late"):
        call.answer.result()


async def test_the_end_of_an_unheard_call_is_not_reported() -> None:
    call = make()
    call.sent = 3
    copy = call.unheard(is_copy=True)
    assert (copy.is_copy, copy.is_awaited, copy.sent) == (True, False, 3)
    copy.succeed("of the copy")
    copy.fail(PeerTimeoutError("of the copy"))
    assert call.is_awaited
    assert not call.unheard().is_copy
    call.succeed("reply")
    assert call.answer.result() == "reply"
