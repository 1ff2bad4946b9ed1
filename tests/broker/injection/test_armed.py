"""A rule in force: what it counts, who waits for it, when it is spent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from txnsim.faults.actions import CrossingAction, Hold, Pass, Reorder
from txnsim.faults.crossings import Crossing
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.injection.armed import ArmedRule, Held


def armed(action: CrossingAction | None = None, **when: Any) -> ArmedRule:
    return ArmedRule(
        FaultRule(id="f", point=FaultPoint.CLIENT_REQUEST, action=action or Hold(), **when)
    )


def crossing() -> Crossing:
    return Crossing(
        point="client.request", source="client/app", target="broker/1", api_key=0, api_version=11,
        correlation_id=1, subject=Subject(),
    )  # fmt: skip


async def test_who_waits_for_strikes_is_woken_by_the_last_of_them() -> None:
    state = armed(Pass())
    once, twice = state.until_struck(1), state.until_struck(2)
    given_up = state.until_struck(1)
    given_up.cancel()
    state.count_strike()
    assert (once.done(), twice.done()) == (True, False)
    state.count_strike()
    assert twice.done()
    assert state.until_struck(2).done()


async def test_a_wait_in_vain_says_why() -> None:
    state = armed()
    waiting, cancelled = state.until_struck(2), state.until_struck(1)
    cancelled.cancel()
    state.give_up("it was disarmed")
    with pytest.raises(LookupError, match="0 of 2 strikes; it was disarmed"):
        await waiting


async def test_a_limit_of_likely_strikes_counts_strikes() -> None:
    state = armed(Pass(), limit=2, probability=0.5)
    state.matched = 10
    assert not state.spent
    state.begun = 2
    assert state.spent


async def test_a_rule_that_waits_for_others_to_pass_is_not_spent() -> None:
    state = armed(Reorder(), limit=1)
    state.matched = 1
    assert state.spent
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    state.held[future] = Held(crossing=crossing(), hit=-1)
    assert not state.spent
