"""Workloads of the user's."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.support.plans import leaderless_plan
from txnsim.client.producer import Producer
from txnsim.errors import ConfigError
from txnsim_lab.simulation._plan import Plan
from txnsim_lab.simulation.guests import Guest
from txnsim_lab.simulation.play import CRASH, Cell, play


async def orders(guest: Guest) -> None:
    async with guest.client("mine") as client, Producer(client, transactional_id="mine") as mine:
        await mine.init_transactions()
        mine.begin()
        await mine.send("u", 0, b"order")
        await mine.commit()


async def wrong(guest: Guest) -> None:
    await asyncio.sleep(1)
    raise AssertionError("two orders for one")


class BrokerResponseError(Exception):
    """As a library has it."""


async def refused(_guest: Guest) -> None:
    raise BrokerResponseError


async def unreachable(_guest: Guest) -> None:
    raise ConnectionRefusedError


def with_workload(name: str) -> Plan:
    plan = leaderless_plan(as_version="4.2")
    return msgspec.structs.replace(plan, tracks=(), workload=f"{__name__}:{name}")


def test_a_coroutine_of_the_users_takes_part() -> None:
    played = play(with_workload("orders"))
    assert played.kinds == ()
    assert b'"value":"order"' in played.history
    assert played.cells == {Cell("", "workload", "NONE"): 1}
    assert played.guest_commits == 1


def test_what_it_asserts_is_a_finding() -> None:
    played = play(with_workload("wrong"))
    assert played.kinds == (CRASH,)
    assert "two orders for one" in played.findings[0].because


@pytest.mark.parametrize(
    ("name", "error"),
    [("refused", "BrokerResponseError"), ("unreachable", "ConnectionRefusedError")],
)
def test_what_its_library_raises_ends_it_and_is_no_finding(name: str, error: str) -> None:
    played = play(with_workload(name))
    assert played.kinds == ()
    assert played.cells == {Cell("", "workload", error): 1}
    assert played.guest_commits == 0


def test_a_workload_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="workload"):
        play(with_workload("nothing"))
