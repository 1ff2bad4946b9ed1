"""Lessons on the cluster itself, by the control port: what is refused, and what begins anew."""

from __future__ import annotations

import pytest

from tests.lab.control_port.test_answers import control_port
from txnsim_lab.http._runs.own_cluster import NOTED_MAX

NOTED = {"seen": "began", "at_ms": 1, "who": "a", "transaction": "T1", "transactional_id": "shop"}


async def test_a_lesson_begins_anew_with_new_topics_and_without_its_rules() -> None:
    async with control_port() as (sim, checked_client):
        await checked_client("POST", "/api/v1/lessons/L10/begin", 200, {})
        rule = {"id": "l10-answer", "point": "client.response", "action": {"do": "hold"}}
        await checked_client("POST", "/api/v1/faults", 201, rule)
        first_topic = await checked_client("GET", "/api/v1/topics/l10-first", 200)
        assert (await checked_client("POST", "/api/v1/lessons/L10/seen", 200, [NOTED]))[
            "observations"
        ] == 1
        await checked_client("POST", "/api/v1/lessons/L10/begin", 200, {"part": 2})  # it goes on
        assert await checked_client("GET", "/api/v1/topics/l10-first", 200) == first_topic
        assert sim.injector.get("l10-answer") is not None
        await checked_client("POST", "/api/v1/lessons/L10/begin", 200, {})
        assert (await checked_client("GET", "/api/v1/topics/l10-first", 200)) != first_topic
        assert sim.injector.get("l10-answer") is None
        assert (await checked_client("POST", "/api/v1/lessons/L10/seen", 200, [NOTED]))[
            "observations"
        ] == 1


async def test_what_a_part_comes_to_is_told() -> None:
    async with control_port() as (_, checked_client):
        await checked_client("POST", "/api/v1/lessons/L10/begin", 200, {})
        goal_now = await checked_client("GET", "/api/v1/lessons/L10/parts/0/now", 200)
        assert goal_now["answer"] is None
        assert not goal_now["met"]
        assert {goal["fact"]: goal["found"] for goal in goal_now["goal"]} == {
            "what txnsim check says of l10-first-0": "healthy",
            "what a consumer reads of l10-first-0": "nothing",
        }
        goal_now = await checked_client("GET", "/api/v1/lessons/L10/parts/1/now", 200)
        assert goal_now["answer"] == {"key": "nothing", "text": "nothing"}
        goal_now = await checked_client("GET", "/api/v1/lessons/L10/parts/3/now", 200)
        assert "no rule l10-answer is armed" in {goal["found"] for goal in goal_now["goal"]}


async def test_what_can_not_be_played_here_is_refused_with_its_reason() -> None:
    async with control_port() as (_, checked_client):
        refusal = await checked_client("POST", "/api/v1/lessons/L11/begin", 409, {})
        assert "`txnsim lesson L11` starts one" in refusal["error"]
        assert "what holds readers back on orders-0: hanging transaction" in refusal["error"]
        refusal = await checked_client("POST", "/api/v1/lessons/L1/begin", 409, {})
        assert "in a run of its story" in refusal["error"]
        await checked_client("POST", "/api/v1/lessons/L99/begin", 404, {})
        await checked_client("GET", "/api/v1/lessons/L10/parts/99/now", 404)
        refusal = await checked_client(
            "GET", "/api/v1/lessons/L10/parts/0/now", 404
        )  # it has not begun
        assert "l10-first" in refusal["error"]
        await checked_client("GET", "/api/v1/lessons/L10/parts/1/answer", 404)


@pytest.mark.costly
async def test_a_client_that_notes_without_end_is_stopped() -> None:
    async with control_port() as (_, checked_client):
        await checked_client("POST", "/api/v1/lessons/L10/begin", 200, {})
        half_notes = [NOTED] * (NOTED_MAX // 2)
        await checked_client("POST", "/api/v1/lessons/L10/seen", 200, half_notes)
        await checked_client("POST", "/api/v1/lessons/L10/seen", 200, half_notes)
        await checked_client("POST", "/api/v1/lessons/L10/seen", 413, [NOTED])


async def test_a_history_that_can_not_be_judged_says_why() -> None:
    async with control_port() as (_, checked_client):
        await checked_client("POST", "/api/v1/lessons/L10/begin", 200, {})
        place_fields = {"at_ms": 1, "who": "a", "topic": "l10-first", "partition": 0}
        write_fields = {"seen": "wrote", "value": "x", **place_fields}
        two_writes = [{**write_fields, "transaction": "T1"}, {**write_fields, "transaction": "T2"}]
        await checked_client("POST", "/api/v1/lessons/L10/seen", 200, two_writes)
        refusal = await checked_client("GET", "/api/v1/lessons/L10/parts/0/now", 422)
        assert "names two records of l10-first-0" in refusal["error"]
