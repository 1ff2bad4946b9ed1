"""Runs that are driven through the control port."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import httpx
import msgspec
import pytest

from tests.support.control_port import port
from txnsim_lab.http._runs import scenarios
from txnsim_lab.http._runs.replayed_run import ReplayedRun
from txnsim_lab.scenario import driven_run
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.driver_commands import (
    MODULE,
    Back,
    Command,
    Drive,
    Go,
    Order,
    RunEnded,
    RunFailed,
    RunStopped,
    State,
    encode,
    to_state,
)
from txnsim_lab.scenario.forked_processes import HAS_FORK, ForkServer, ProcessEndedError

# Scenarios through the control port: told in a process of their own, while brokers go on.


RUNS = "/api/v1/runs"
SHORT = """
name: two-records
title: Two records are read
goal: See them.
method: Write them.
topics: {t: 1}
runs:
  V-: {mode: V-, verdict: healthy}
  TV2: {mode: TV2, verdict: aborted-read}
steps:
  - call: {who: bystander, do: append, partition: t-0, values: [a, b]}
  - call: {who: reader, do: read, partition: t-0, reads: [a, b]}
"""


async def until_done(client: httpx.AsyncClient, answer: httpx.Response) -> dict[str, Any]:
    run_state: dict[str, Any] = answer.json()
    while answer.status_code == 202:
        answer = await client.get(f"{RUNS}/{run_state['id']}?wait_ms=20000")
        run_state = answer.json()
    return run_state


async def test_shipped_scenarios_are_listed_and_shown() -> None:
    async with port() as client:
        listed_scenarios = (await client.get("/api/v1/scenarios")).json()
        late_scenario = next(
            listed_scenario
            for listed_scenario in listed_scenarios
            if "z01" in listed_scenario["aliases"]
        )
        assert late_scenario["runs"]["V-"] == "stuck-last-stable-offset"
        shown_scenario = (await client.get("/api/v1/scenarios/Z01")).json()
        assert shown_scenario["name"] == late_scenario["name"]
        assert shown_scenario["yaml"].startswith(f"name: {late_scenario['name']}")
        refusal_answer = await client.get("/api/v1/scenarios/z99")
        assert (refusal_answer.status_code, "GET /api/v1/scenarios" in refusal_answer.text) == (
            404,
            True,
        )


async def test_a_scenario_is_run_by_its_name_and_comes_to_what_it_declares() -> None:
    async with port() as client:
        answer = await client.post(f"{RUNS}?wait_ms=0", json={"name": "z01", "runs": ["V-", "TV2"]})
        assert answer.status_code == 202
        assert answer.json()["state"] == "running"
        run_state = await until_done(client, answer)
        assert (
            run_state["state"],
            run_state["as_declared"],
            run_state["done"],
            run_state["of"],
        ) == (
            "done",
            True,
            2,
            2,
        )
        hanging, refused_run = run_state["runs"]
        assert hanging["verdict"] == ["stuck-last-stable-offset"]
        assert (hanging["observed"], hanging["cured"]) == ("stuck-last-stable-offset", "healthy")
        assert (refused_run["run"], refused_run["observed"], refused_run["because"]) == (
            "TV2",
            "healthy",
            [],
        )
        run_url = f"{RUNS}/{run_state['id']}"
        history = (await client.get(f"{run_url}/history?run=V-")).text.splitlines()
        assert all("seen" in msgspec.json.decode(line) for line in history)
        verdict_answer = await client.post(
            "/api/v1/verdicts", json=[msgspec.json.decode(line) for line in history]
        )
        assert verdict_answer.json()["healthy"], "the history goes on until after the cure"
        trace = (await client.get(f"{run_url}/trace?run=V-&take=armed")).text.splitlines()
        assert msgspec.json.decode(trace[0])["k"] == "run"
        assert (await client.get(f"{run_url}/trace")).status_code == 422
        assert [listed_run["id"] for listed_run in (await client.get(RUNS)).json()] == [
            run_state["id"]
        ]


async def test_a_posted_scenario_is_run_and_what_it_declares_is_compared() -> None:
    async with port() as client:
        run_state = await until_done(client, await client.post(RUNS, json={"yaml": SHORT}))
        assert (run_state["state"], run_state["as_declared"]) == ("done", False)
        assert [(run_row["expected"], run_row["observed"]) for run_row in run_state["runs"]] == [
            ("healthy", "healthy"),
            ("aborted-read", "healthy"),
        ]


@pytest.mark.slow
async def test_a_bug_in_a_story_is_told_to_whoever_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_with_bug(*_args: object, **_options: object) -> None:
        raise ZeroDivisionError("told so")

    monkeypatch.setattr("txnsim_lab.http._runs.replayed_run.run_driven", fail_with_bug)
    monkeypatch.setattr(scenarios, "HAS_FORK", False)  # told in a thread, as on Windows
    async with port() as client:
        run_state = await until_done(client, await client.post(RUNS, json={"yaml": SHORT}))
        assert (run_state["state"], run_state["as_declared"]) == ("failed", False)
        assert run_state["error"] == "ZeroDivisionError: told so"
        refusal_answer = await client.delete(f"{RUNS}/{run_state['id']}")
        assert (refusal_answer.status_code, "in a thread" in refusal_answer.text) == (409, True)


@pytest.mark.costly
async def test_the_oldest_requests_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "RUNS_KEPT_MAX", 1)
    run_request = {"yaml": SHORT, "runs": ["V-"]}
    async with port() as client:
        first_run = (await client.post(f"{RUNS}?wait_ms=0", json=run_request)).json()
        full_answer = await client.post(RUNS, json=run_request)
        assert (full_answer.status_code, "wait for" in full_answer.json()["error"]) == (409, True)
        await client.get(f"{RUNS}/{first_run['id']}?wait_ms=20000")
        second_run = (await client.post(f"{RUNS}?wait_ms=20000", json=run_request)).json()
        assert (await client.get(f"{RUNS}/{first_run['id']}")).status_code == 404
        assert (await client.get(f"{RUNS}/{second_run['id']}")).status_code == 200


@pytest.mark.parametrize(
    ("request_body", "status", "advice"),
    [
        ({}, 422, "either the name or the yaml"),
        ({"name": "z01", "yaml": SHORT}, 422, "either the name or the yaml"),
        ({"name": "z99"}, 404, "GET /api/v1/scenarios"),
        ({"name": "../secrets.yaml"}, 404, "GET /api/v1/scenarios"),
        ({"yaml": "name: x"}, 422, "posted.yaml:1: "),
        ({"name": "z01", "runs": ["V?"]}, 422, "only V-"),
        ({"name": "z01", "takes": ["twice"]}, 422, "armed, disarmed, control"),
        ({"yaml": SHORT, "takes": ["control"]}, 422, "has no control to run"),
        ({"name": "z01", "seed": -1}, 422, "seed is -1"),
    ],
)
async def test_what_can_not_be_run_is_refused(
    request_body: dict[str, Any], status: int, advice: str
) -> None:
    async with port() as client:
        answer = await client.post(RUNS, json=request_body)
        assert answer.status_code == status
        assert advice in answer.json()["error"]


async def test_yaml_that_means_more_than_it_says_is_refused_with_its_line() -> None:
    text = "a: &a [x, x]\nb: &b [*b]\n"
    async with port() as client:
        answer = await client.post(RUNS, json={"yaml": text})
    assert answer.status_code == 422
    assert answer.json()["error"] == "posted.yaml:2: it contains itself"


@pytest.mark.slow
async def test_posted_yaml_is_read_while_brokers_go_on() -> None:
    wide_yaml = "a: [" + "x," * 19_000 + "]"
    loop = asyncio.get_running_loop()
    turns: list[asyncio.TimerHandle] = []

    def turn() -> None:
        turns.append(loop.call_later(0.001, turn))

    async with port() as client:
        turn()
        answer = await client.post(RUNS, json={"yaml": wide_yaml})
        turns[-1].cancel()
    assert answer.status_code == 422
    assert len(turns) > 20


@pytest.mark.costly
async def test_a_run_that_is_named_often_runs_once() -> None:
    async with port() as client:
        run_request = {"yaml": SHORT, "runs": ["V-"] * 1_000}
        run_state = await until_done(client, await client.post(RUNS, json=run_request))
    assert (run_state["of"], run_state["done"]) == (1, 1)


async def test_a_wait_of_thousands_of_digits_is_refused() -> None:
    async with port() as client:
        answer = await client.get(f"{RUNS}/1?wait_ms={'9' * 5_000}")
        assert answer.status_code == 400
        assert answer.json()["error"] == "a number of 5000 digits, at most 18 are read"


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
    server = ForkServer(MODULE)
    yield server
    server.close()


def an_order(**order_fields: object) -> Order:
    return Order(
        **{  # type: ignore[arg-type]
            "yaml": find("z01")[0].read_text("utf-8"),
            "run": "V-",
            "take": "armed",
            "seed": 3,
            "paused": True,
            **order_fields,
        }
    )


async def in_a_process(fork_server: ForkServer, messages: list[bytes]) -> list[State]:
    """The answers of a process: the last one to each message, and the failures before it."""
    child = await asyncio.to_thread(fork_server.begin)
    states = []
    try:
        for message in messages:
            await child.send(message)
            states.append(to_state(await child.hear()))
            while isinstance(states[-1], RunFailed):
                try:
                    states.append(to_state(await child.hear()))
                except ProcessEndedError:
                    break
    finally:
        child.kill()
    return states


def players(messages: list[bytes]) -> list[State]:
    run = ReplayedRun()
    return [to_state(answer) for message in messages for answer in run.send_message(message)]


@pytest.mark.costly
async def test_a_run_told_again_answers_what_a_process_answers(fork_server: ForkServer) -> None:
    messages = [encode(an_order()), *(encode(command) for command in COMMANDS)]
    expected = await in_a_process(fork_server, messages)
    states = await asyncio.to_thread(players, messages)
    assert [type(state).__name__ for state in states] == [
        type(state).__name__ for state in expected
    ]
    assert states == expected
    kinds = {type(state) for state in states}
    assert kinds == {RunStopped, RunEnded, RunFailed}
    refusals = [
        state.error for state in states if isinstance(state, RunStopped | RunEnded) and state.error
    ]
    assert len(refusals) == 3


async def test_a_run_that_is_not_paused_takes_its_inputs(fork_server: ForkServer) -> None:
    step = encode(an_order())
    (stop_message,) = await asyncio.to_thread(players, [step])
    assert isinstance(stop_message, RunStopped)
    messages = [encode(an_order(paused=False, inputs=({"before": 2, "step": {"advance": "2s"}},)))]
    states = await asyncio.to_thread(players, messages)
    assert states == await in_a_process(fork_server, messages)


async def test_a_story_that_is_none_fails(fork_server: ForkServer) -> None:
    messages = [encode(an_order(yaml="name: none"))]
    (run_failure,) = await asyncio.to_thread(players, messages)
    assert isinstance(run_failure, RunFailed)
    assert [run_failure] == await in_a_process(fork_server, messages)


@pytest.mark.costly
async def test_only_so_many_stops_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each checkpoint is a process, and a user could create any number of checkpoints."""
    monkeypatch.setattr(driven_run, "CHECKPOINTS_BACK_MAX", 2)
    waiting_drive = Drive(step={"advance": "1ms"})
    commands: list[Command] = [
        waiting_drive,
        waiting_drive,
        waiting_drive,
        Go(steps=1),
        Back(count=1),
        waiting_drive,
        Go(),
    ]
    messages = [encode(an_order()), *(encode(command) for command in commands)]
    *stop_messages, end_message = await asyncio.to_thread(players, messages)
    assert isinstance(end_message, RunEnded)
    assert [state.back for state in stop_messages if isinstance(state, RunStopped)] == [
        0,
        1,
        2,
        2,
        2,
        1,
        2,
    ]
    refusals = [
        state.error for state in stop_messages if isinstance(state, RunStopped) and state.error
    ]
    assert len(refusals) == 2
    assert all("2 stops to return to" in error for error in refusals)
