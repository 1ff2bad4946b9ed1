from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sim.check.verdicts import ABORTED_IN_TIME, HANGING_AND_REPAIRED
from sim.errors import ConfigError, InvariantViolation
from sim.scenario import runner, steps
from sim.scenario.players.own import OwnPlayer
from sim.scenario.runner import FAILED, run
from tests.support.stories import OWN, late_produce


async def test_armed_and_disarmed_runs_come_to_different_verdicts() -> None:
    armed = await run(late_produce(), "V-", armed=True, casting=OWN)
    disarmed = await run(late_produce(), "V-", armed=False, casting=OWN)
    assert (armed.verdict.name, disarmed.verdict.name) == (HANGING_AND_REPAIRED, ABORTED_IN_TIME)
    assert armed.as_declared
    assert disarmed.as_declared
    assert armed.player == disarmed.player == armed.facts.player == "own client"
    assert armed.facts.struck == armed.facts.handled > 0 == disarmed.facts.struck
    assert 0 < disarmed.duration_ms < armed.duration_ms


async def test_the_trace_is_a_file_of_the_schema_with_the_verdict_at_its_end() -> None:
    result = await run(late_produce(), "V-", armed=False, casting=OWN)
    header, *events, trailer = map(msgspec.json.decode, result.trace.splitlines())
    assert (header["k"], header["schema"], header["clock"]) == ("run", 1, "real")
    assert (header["scenario"], header["sim"] != "") == ("late-produce-after-abort", True)
    assert header["set"] == {
        "transaction.version": 0,
        "transaction.partition.verification.enable": False,
        "mode": "V-",
        "armed": False,
    }
    assert [event["i"] for event in events] == list(range(len(events)))
    assert (trailer["k"], trailer["events"]) == ("end", len(events))
    assert trailer["verdict"] == ABORTED_IN_TIME
    assert trailer["hash"].startswith("sha256:")


async def test_a_fault_that_never_strikes_fails_its_run() -> None:
    def miss(document: dict[str, Any]) -> None:
        document["steps"] = [
            step for step in document["steps"] if not {"release", "wait-until"} & step.keys()
        ]
        for step in document["steps"]:
            if "hold" in step:
                step["hold"]["api"] = "EndTxn"
                step["hold"]["nth"] = 5
            if step.get("call", {}).get("do") == "give-up":
                step["call"]["do"] = "await-ack"

    result = await run(late_produce(miss), "V-", armed=True, casting=OWN)
    assert result.verdict.name == FAILED
    assert result.verdict.because == "the fault late-produce never struck: the story was not told"
    assert not result.as_declared


async def test_a_story_that_stops_says_where_and_keeps_its_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "PATIENCE_MS", 20)

    def miss(document: dict[str, Any]) -> None:
        document["steps"][3]["hold"]["transactional_id"] = "nobody"

    result = await run(late_produce(miss), "V+", armed=True, casting=OWN)
    assert result.verdict.name == FAILED
    assert "0 of 1 strikes within 20 ms" in result.verdict.because
    assert b'"verdict":"story-failed"' in result.trace.splitlines()[-1]
    assert result.story[-1].text.endswith("opens a transaction at offset 0")


async def test_a_bug_of_ours_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: OwnPlayer) -> None:
        raise InvariantViolation("broken")

    monkeypatch.setattr(OwnPlayer, "begin", broken)
    with pytest.raises(InvariantViolation, match="broken"):
        await run(late_produce(), "V-", armed=True, casting=OWN)


async def test_who_can_not_play_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "stage", None)
    with pytest.raises(ConfigError, match="no player 'nobody'"):
        await run(late_produce(), "V-", armed=True, casting=runner.Casting(player="nobody"))
