from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from txnsim.runtime.forked_processes import HAS_FORK, EndedError, ForkServer
from txnsim_lab.http._runs.replayed import Replayed
from txnsim_lab.scenario import driven
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.commands import (
    MODULE,
    Back,
    Command,
    Drive,
    Failed,
    Go,
    Order,
    RunEnded,
    State,
    Stopped,
    encode,
    to_state,
)

HOLD: Final = {
    "arm": {"id": "mine", "point": "client.request", "api": "EndTxn", "action": {"do": "hold"}}
}
COMMANDS: Final[tuple[Command, ...]] = (
    Go(steps=2),
    Go(steps=1),
    Drive(step={"advance": "5s"}),
    Back(count=2),
    Drive(step={"no": "such step"}),  # refused: it is as before
    Drive(step={"release": "no-such-rule"}),  # fails: taken back
    Back(count=9),  # more than there are
    Drive(step={"advance": "1s"}),
    Go(),
    Go(),  # it has ended
    Back(count=1),
    Go(steps=1),
    Drive(step=HOLD),
    Go(),
    Back(count=1),
)


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    if not HAS_FORK:
        pytest.skip(reason="nothing to compare with: this system has no fork")
    one = ForkServer(MODULE)
    yield one
    one.close()


def an_order(**given: object) -> Order:
    return Order(
        **{  # type: ignore[arg-type]
            "yaml": find("z01")[0].read_text("utf-8"),
            "run": "V-",
            "take": "armed",
            "seed": 3,
            "paused": True,
            **given,
        }
    )


async def in_a_process(fork_server: ForkServer, messages: list[bytes]) -> list[State]:
    """What a process tells: of each message the last answer, and the failures before it."""
    child = await asyncio.to_thread(fork_server.begin)
    found = []
    try:
        for message in messages:
            await child.send(message)
            found.append(to_state(await child.hear()))
            while isinstance(found[-1], Failed):
                try:
                    found.append(to_state(await child.hear()))
                except EndedError:
                    break
    finally:
        child.kill()
    return found


def players(messages: list[bytes]) -> list[State]:
    run = Replayed()
    return [to_state(answer) for message in messages for answer in run.tell(message)]


async def test_a_run_told_again_answers_what_a_process_answers(fork_server: ForkServer) -> None:
    messages = [encode(an_order()), *(encode(one) for one in COMMANDS)]
    expected = await in_a_process(fork_server, messages)
    found = await asyncio.to_thread(players, messages)
    assert [type(one).__name__ for one in found] == [type(one).__name__ for one in expected]
    assert found == expected
    kinds = {type(one) for one in found}
    assert kinds == {Stopped, RunEnded, Failed}
    refused = [one.error for one in found if isinstance(one, Stopped | RunEnded) and one.error]
    assert len(refused) == 3


async def test_a_run_that_is_not_paused_takes_its_inputs(fork_server: ForkServer) -> None:
    step = encode(an_order())
    (stopped,) = await asyncio.to_thread(players, [step])
    assert isinstance(stopped, Stopped)
    messages = [encode(an_order(paused=False, inputs=({"before": 2, "step": {"advance": "2s"}},)))]
    found = await asyncio.to_thread(players, messages)
    assert found == await in_a_process(fork_server, messages)


async def test_a_story_that_is_none_fails(fork_server: ForkServer) -> None:
    messages = [encode(an_order(yaml="name: none"))]
    (failed,) = await asyncio.to_thread(players, messages)
    assert isinstance(failed, Failed)
    assert [failed] == await in_a_process(fork_server, messages)


@pytest.mark.costly
async def test_only_so_many_stops_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a process, and whoever drives could make any number of them."""
    monkeypatch.setattr(driven, "BACK_MAX", 2)
    wait = Drive(step={"advance": "1ms"})
    commands: list[Command] = [wait, wait, wait, Go(steps=1), Back(count=1), wait, Go()]
    messages = [encode(an_order()), *(encode(one) for one in commands)]
    *stopped, ended = await asyncio.to_thread(players, messages)
    assert isinstance(ended, RunEnded)
    assert [one.back for one in stopped if isinstance(one, Stopped)] == [0, 1, 2, 2, 2, 1, 2]
    refused = [one.error for one in stopped if isinstance(one, Stopped) and one.error]
    assert len(refused) == 2
    assert all("2 stops to return to" in error for error in refused)
