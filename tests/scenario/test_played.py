"""Anomalies as they happen to client libraries, over TCP: a late Produce that joins the next
transaction, a late EndTxn that tears it. The stories are those of the matrix, told of applications.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.stories import seen, sentences
from txnsim.check.observations import Ended, Wrote
from txnsim.scenario import catalog
from txnsim.scenario.model import Scenario
from txnsim.scenario.players.casting import Casting
from txnsim.scenario.runner import RunResult, Telling, tell_real, tell_virtual

PLAYED = Path(__file__).parent / "played"
KAFKA_PYTHON = Casting(player="kafka-python")
OWN = Casting(player="own")


def confluent() -> Casting:
    from tests.support.confluent_player import ConfluentPlayer

    return Casting(make=ConfluentPlayer)


def story(name: str) -> Scenario:
    return catalog.load(PLAYED / f"{name}.yaml")


def check(result: RunResult) -> None:
    assert result.as_declared, (result.run, result.take, result.verdict, result.remarks)


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.parametrize("run", ["V-", "V+"])
async def test_kafka_python_commits_a_record_that_it_has_aborted(run: str) -> None:
    """z02: verification lets it through, as the partition is part of the next transaction."""
    late = story("late-produce")
    armed = await tell_real(Telling(scenario=late, run=run), KAFKA_PYTHON)
    check(armed)
    assert armed.players == ("kafka-python",)
    outcomes = {wrote.value: wrote.outcome for wrote in seen(armed, Wrote)}
    assert outcomes == {"r1": "unknown", "r2": "ok"}
    assert [(end.transaction, end.commit, end.outcome) for end in seen(armed, Ended)] == [
        ("T1", False, "ok"), ("T2", True, "ok"),
    ]  # fmt: skip
    assert "the released batch" in sentences(armed)
    check(await tell_real(Telling(scenario=late, run=run, take="disarmed"), KAFKA_PYTHON))


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.parametrize("run", ["V-", "V+"])
async def test_librdkafka_has_its_next_transaction_torn_by_its_first_commit(run: str) -> None:
    """z05: it loses patience, commits again on another connection, and is told of two successes."""
    late = story("late-commit")
    armed = await tell_real(Telling(scenario=late, run=run), confluent())
    check(armed)
    assert armed.players == ("confluent-kafka",)
    assert {wrote.outcome for wrote in seen(armed, Wrote)} == {"ok"}
    assert {end.outcome for end in seen(armed, Ended)} == {"ok"}
    check(await tell_real(Telling(scenario=late, run=run, take="disarmed"), confluent()))


RUNS = [
    pytest.param(name, run, id=f"{name} {run}")
    for name in ("late-produce", "late-commit")
    for run, world in story(name).runs.items()
    if world.players is None or "own" in world.players
]


OVER_TCP = "late-produce"
"""Of the other story, whose client waits for half a minute, time is virtual."""


@pytest.mark.slow
@pytest.mark.parametrize("run", [one.values[1] for one in RUNS if one.values[0] == OVER_TCP])
async def test_our_client_fares_likewise_and_is_protected_by_transactions_v2(run: str) -> None:
    telling = Telling(scenario=story(OVER_TCP), run=run)
    if run == "V-":
        # It raises its epoch after the abort, which the partition has not heard of (z02b).
        assert telling.scenario.runs[run].verdict == ("aborted-read",)
    check(await tell_real(telling, OWN))
    check(await tell_real(Telling(scenario=story(OVER_TCP), run=run, take="disarmed"), OWN))


@pytest.mark.slow
@pytest.mark.parametrize("take", ["armed", "disarmed"])
@pytest.mark.parametrize(("name", "run"), RUNS)
def test_it_fares_likewise_in_virtual_time(name: str, run: str, take: str) -> None:
    check(tell_virtual(Telling(scenario=story(name), run=run, take=take)))
