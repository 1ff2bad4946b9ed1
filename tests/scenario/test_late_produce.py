"""The story of the late produce, told: by every player in every mode, from an installed wheel, and
so often that a race would show.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sim.check.verdicts import ABORTED_IN_TIME, HANGING_AND_REPAIRED, REFUSED_BY_VERIFICATION
from sim.scenario import catalog
from sim.scenario.players.casting import Casting
from sim.scenario.runner import RunResult, run
from tests.support.stories import late_produce

ROOT = Path(__file__).resolve().parents[2]
STORY = catalog.find("late-produce-after-abort")[1]
DEMOS = 50
AT_ONCE = 3
"""Stories told at the same time: more, and on two cores kafka-python's timeouts strike by
themselves."""
ROUNDS = 5
"""Parts of the fifty that are a test each: one that takes two minutes counts as hanging."""


def castings() -> Iterator[object]:
    for mode, world in STORY.modes.items():
        for player in world.players:
            marks = [pytest.mark.clients] if player != "own" else []
            yield pytest.param(mode, player, marks=marks, id=f"{mode} {player}")


def check(result: RunResult) -> None:
    assert result.as_declared, (result.mode, result.armed, result.verdict, result.remarks)


def texts(result: RunResult) -> str:
    return "\n".join(sentence.text for sentence in result.story)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "player"), list(castings()))
async def test_armed_and_disarmed_come_to_the_declared_verdicts(mode: str, player: str) -> None:
    casting = Casting(player=player)
    armed = await run(STORY, mode, armed=True, casting=casting)
    disarmed = await run(STORY, mode, armed=False, casting=casting)
    check(armed)
    check(disarmed)
    assert armed.verdict.name != disarmed.verdict.name == ABORTED_IN_TIME
    assert {armed.player, disarmed.player} == {player if player != "own" else "own client"}
    assert armed.facts.handled == armed.facts.struck > 0 == disarmed.facts.struck
    assert "hold Produce of late-producer" in texts(armed)
    assert "Produce" not in texts(disarmed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "fate", "reader"),
    [
        (
            "V-",
            "the released batch (producer 0, epoch 0) opens a transaction at offset 1",
            "a read_committed Fetch at 1 brings nothing, though the high watermark is 4: the last "
            "stable offset stands at 1",
        ),
        (
            "V+",
            # Our client bumps its epoch behind the abort (KIP-360), and only the coordinator knows.
            "for payments-0 is refused: asked, the coordinator says INVALID_PRODUCER_EPOCH",
            "a read_committed Fetch at 1 brings after-1, after-2; the last stable offset is 3, the "
            "high watermark 3",
        ),
        (
            "TV2",
            "the released batch (producer 0, epoch 0) is refused with INVALID_PRODUCER_EPOCH",
            "a read_committed Fetch at 2 brings after-1, after-2; the last stable offset is 4, the "
            "high watermark 4",
        ),
    ],
)
async def test_the_story_tells_what_became_of_the_record_and_of_the_reader(
    mode: str, fate: str, reader: str
) -> None:
    result = await run(STORY, mode, armed=True, casting=Casting(player="own"))
    check(result)
    told = texts(result)
    hangs = mode == "V-"
    assert fate in told
    assert reader in told
    assert f"PartitionsWithLateTransactionsCount was 0 and is {int(hangs)}" in told
    assert ("find-hanging names payments-0" in told) is hangs
    assert ("the same Fetch now brings after-1, after-2" in told) is hangs
    assert ("the same Fetch still brings after-1, after-2" in told) is not hangs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "broken", "verdict"),
    [
        ("V+", {"verification": False}, HANGING_AND_REPAIRED),
        ("V-", {"verification": True}, REFUSED_BY_VERIFICATION),
        ("TV2", {"transaction-version": 1}, REFUSED_BY_VERIFICATION),
        ("TV2", {"transaction-version": 1, "verification": False}, HANGING_AND_REPAIRED),
    ],
)
async def test_a_defence_that_is_missing_or_another_one_is_noticed(
    mode: str, broken: dict[str, Any], verdict: str
) -> None:
    scenario = late_produce(lambda document: document["modes"][mode].update(broken))
    result = await run(scenario, mode, armed=True, casting=Casting(player="own"))
    assert (result.verdict.name, result.as_declared) == (verdict, False), result.verdict


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(STORY.modes))
async def test_a_program_of_somebody_else_can_play_the_producer(mode: str) -> None:
    """It does everything in one go: under transactions v2 its partition never joins, so that no
    marker but the coordinator itself stands against the late record.
    """
    casting = Casting(program=f"'{sys.executable}' '{ROOT / 'tests/support/late_program.py'}'")
    armed = await run(STORY, mode, armed=True, casting=casting)
    disarmed = await run(STORY, mode, armed=False, casting=casting)
    check(armed)
    check(disarmed)
    assert armed.player == disarmed.player == "a program"
    assert (armed.facts.marker_epoch is None) is (mode == "TV2")
    assert "first" not in texts(armed)


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.parametrize("round_number", range(ROUNDS))
async def test_the_demo_comes_to_the_same_verdicts_fifty_times(round_number: int) -> None:
    """As a user runs it, each in a process of its own: in this one the collector of a long test run
    would stop kafka-python for longer than its timeouts.
    """
    del round_number  # nothing differs
    turn = asyncio.Semaphore(AT_ONCE)

    async def demo() -> tuple[int | None, bytes]:
        async with turn:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "sim.cli.main", "scenario", "run", STORY.name, "--json",
                cwd=ROOT,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            told, _ = await process.communicate()
            return process.returncode, told

    outcomes = await asyncio.gather(*(demo() for _ in range(DEMOS // ROUNDS)))
    differing = []
    for status, told in outcomes:
        runs = msgspec.json.decode(told)
        assert len(runs) == len(STORY.modes) * 2
        differing += [run for run in runs if not run["as_declared"]]
        assert differing or status == 0
    assert not differing, [(one["mode"], one["armed"], one["verdict"]) for one in differing]


@pytest.mark.slow
def test_it_is_told_without_leaving_anything_behind() -> None:
    """Under ``-X dev`` Python tells of every task that was not awaited and every socket left open.

    What asyncio's debug mode says of steps that took long is no leak.
    """
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-m", "sim.cli.main",
         "scenario", "run", "z01", "--quiet"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )  # fmt: skip
    lines = done.stderr.splitlines()
    odd = [line for line in lines if not line.startswith("Executing ") and "/6 late-" not in line]
    assert (done.returncode, odd) == (0, []), done.stdout


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The files of the wheel where pip would put them (``python -m tests.ci.run`` builds one)."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    layout = wheel["targets"]["wheel"]
    site = tmp_path / "site"
    without_caches = shutil.ignore_patterns("__pycache__")
    for package in layout["packages"]:
        shutil.copytree(ROOT / package, site / package, ignore=without_caches)
    for source, target in layout["force-include"].items():
        shutil.copytree(ROOT / source, site / target)
    return site


@pytest.mark.slow
def test_an_installed_wheel_has_its_scenarios_and_runs_in_an_empty_directory(
    installed: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()

    def txnsim(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "sim.cli.main", *words],
            cwd=empty,
            env={**os.environ, "PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    shown = txnsim("scenario", "show", "z01")
    assert f"File: {installed / 'sim' / 'scenarios' / STORY.name}.yaml" in shown.stdout
    done = txnsim("scenario", "run", "z01", "--mode", "TV2", "--quiet")
    assert done.returncode == 0, done.stderr
