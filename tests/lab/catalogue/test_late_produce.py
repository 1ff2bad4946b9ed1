"""The story of the late produce, told: by every player in every mode, from an installed wheel, and
so often that a race would show.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.stories import late_produce, observations_of, sentences
from txnsim_lab.check.observations import Searched, Wrote
from txnsim_lab.scenario import catalog
from txnsim_lab.scenario.players.casting import Casting
from txnsim_lab.scenario.runner import RunResult, ScenarioRun, run_in_real_time

ROOT = Path(__file__).resolve().parents[3]
STORY = catalog.find("late-produce-after-abort")[1]
HANGS = ("stuck-last-stable-offset",)
DEMOS = 2
"""Told at the same time, beside other tests: more, and on two cores kafka-python's timeouts strike
by themselves."""


def castings() -> Iterator[object]:
    for name, run in STORY.runs.items():
        for player_name in run.players or STORY.actors["app"].players:
            marks = [pytest.mark.clients] if player_name != "own" else []
            yield pytest.param(name, player_name, marks=marks, id=f"{name} {player_name}")


def check(result: RunResult) -> None:
    assert result.as_declared, (result.run, result.take, result.verdict, result.remarks)


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.parametrize(("run_name", "player_name"), list(castings()))
async def test_every_take_comes_to_its_declared_verdict(run_name: str, player_name: str) -> None:
    casting = Casting(player=player_name)
    armed_result, disarmed_result, control_result = [
        await run_in_real_time(ScenarioRun(scenario=STORY, run=run_name, take=take_name), casting)
        for take_name in ("armed", "disarmed", "control")
    ]
    for result in (armed_result, disarmed_result, control_result):
        check(result)
    assert armed_result.verdict.observed == (HANGS if run_name == "V-" else ())
    assert (
        armed_result.players
        == disarmed_result.players
        == (player_name if player_name != "own" else "own client",)
    )
    assert "hold Produce of late-producer" in sentences(armed_result)
    assert "hold Produce of late-producer" in sentences(control_result)
    assert "Produce" not in sentences(disarmed_result)
    outcome_by_value = {
        write.value: write.outcome for write in observations_of(armed_result, Wrote)
    }
    assert outcome_by_value["late"] == "unknown"
    assert {write.outcome for write in observations_of(control_result, Wrote)} == {"ok"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run_name", "fate", "reader"),
    [
        (
            "V-",
            "the released batch (producer 0, epoch 0) opens a transaction at offset 1",
            "gets nothing, though the high watermark is 4: the last stable offset stands at 1",
        ),
        (
            "V+",
            # Our client bumps its epoch behind the abort (KIP-360), and only the coordinator knows.
            "for payments-0 is refused: asked, the coordinator says INVALID_PRODUCER_EPOCH",
            "gets after-1, after-2; the last stable offset is 3, the high watermark 3",
        ),
        (
            "TV2",
            "the released batch (producer 0, epoch 0) is refused with INVALID_PRODUCER_EPOCH",
            "gets after-1, after-2; the last stable offset is 4, the high watermark 4",
        ),
    ],
)
async def test_the_story_tells_what_became_of_the_record_and_of_the_reader(
    run_name: str, fate: str, reader: str
) -> None:
    result = await run_in_real_time(
        ScenarioRun(scenario=STORY, run=run_name), Casting(player="own")
    )
    check(result)
    story_sentences = sentences(result)
    is_hanging = run_name == "V-"
    assert fate in story_sentences
    assert reader in story_sentences
    assert ("PartitionsWithLateTransactionsCount was 0 and is 1" in story_sentences) is is_hanging
    assert ("find-hanging names payments-0" in story_sentences) is is_hanging
    assert [len(search.findings) for search in observations_of(result, Searched)] == [
        int(is_hanging)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run_name", "broken_fields", "verdict"),
    [
        ("V+", {"mode": "V-"}, HANGS),
        ("TV2", {"mode": "V-"}, HANGS),
        ("TV2+", {"mode": "V+"}, ()),
        ("V-", {"mode": "V+"}, ()),
    ],
)
async def test_a_defence_that_is_missing_or_another_one_is_noticed(
    run_name: str, broken_fields: dict[str, Any], verdict: tuple[str, ...]
) -> None:
    def edit(document: dict[str, Any]) -> None:
        document["runs"][run_name].update(broken_fields)
        document["steps"] = [step for step in document["steps"] if "reads" not in str(step)]

    scenario_run = ScenarioRun(scenario=late_produce(edit), run=run_name)
    result = await run_in_real_time(scenario_run, Casting(player="own"))
    assert result.verdict.observed == verdict, result.verdict


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.parametrize("run_name", list(STORY.runs))
async def test_a_program_of_somebody_else_can_play_the_application(run_name: str) -> None:
    """It does everything in one go: under transactions v2 its partition never joins, so that no
    marker but the coordinator itself stands against the late record.
    """
    casting = Casting(
        program=f"'{sys.executable}' '{ROOT / 'tests/lab/catalogue/late_program.py'}'"
    )
    armed_result = await run_in_real_time(ScenarioRun(scenario=STORY, run=run_name), casting)
    disarmed_result = await run_in_real_time(
        ScenarioRun(scenario=STORY, run=run_name, take="disarmed"), casting
    )
    check(armed_result)
    check(disarmed_result)
    assert armed_result.players == disarmed_result.players == ("a program",)
    assert ("ABORT marker" in sentences(armed_result)) is (run_name in ("V-", "V+"))
    assert "first" not in sentences(armed_result)


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.clients
async def test_the_demo_comes_to_the_same_verdicts_each_time() -> None:
    """As a user runs it, each in a process of its own: in this one the collector of a long test run
    would stop kafka-python for longer than its timeouts.
    """

    async def demo() -> tuple[int | None, bytes]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "txnsim.cli.main", "scenario", "run", STORY.name, "--real",
            "--json", "--mode", "V-", "--mode", "V+",
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        output, _ = await process.communicate()
        return process.returncode, output

    outcomes = await asyncio.gather(*(demo() for _ in range(DEMOS)))
    differing_verdicts = []
    for status, output in outcomes:
        runs = msgspec.json.decode(output)
        assert len(runs) == 2 * 3
        differing_verdicts += [run for run in runs if not run["as_declared"]]
        assert differing_verdicts or status == 0
    assert not differing_verdicts, [
        (run_row["run"], run_row["take"], run_row["verdict"]) for run_row in differing_verdicts
    ]


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.parametrize(
    "choice", [["--mode", "TV2"], ["--mode", "V-", "--real"]], ids=["virtual", "real"]
)
def test_it_is_told_without_leaving_anything_behind(choice: list[str]) -> None:
    """Under ``-X dev`` Python tells of every task that was not awaited and every socket left open.

    What asyncio's debug mode says of steps that took long is no leak.
    """
    process = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-m", "txnsim.cli.main",
         "scenario", "run", "z01", "--quiet", *choice],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    lines = process.stderr.splitlines()
    expected = re.compile(r"Executing |\d of 3 runs, ")
    unexpected_lines = [line for line in lines if not expected.match(line)]
    assert (process.returncode, unexpected_lines) == (0, []), process.stdout


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The files of the wheel where pip would put them (``python -m tests.ci.run`` builds one)."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    layout = wheel["targets"]["wheel"]
    site_folder = tmp_path / "site"
    without_caches = shutil.ignore_patterns("__pycache__")
    for package in layout["packages"]:
        shutil.copytree(ROOT / package, site_folder / Path(package).name, ignore=without_caches)
    for source, target in layout["force-include"].items():
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copyfile
        copy(ROOT / source, site_folder / target)
    return site_folder


@pytest.mark.costly
@pytest.mark.slow
def test_an_installed_wheel_has_its_scenarios_and_runs_in_an_empty_directory(
    installed: Path, tmp_path: Path
) -> None:
    empty_path = tmp_path / "empty"
    empty_path.mkdir()

    def txnsim(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "txnsim.cli.main", *arguments],
            cwd=empty_path,
            env={**os.environ, "PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
            check=False,
        )

    show_result = txnsim("scenario", "show", "z01")
    file = installed / "txnsim_lab" / "scenarios" / f"{STORY.name}.yaml"
    assert show_result.stdout.startswith(f"# {file}\n")
    run_result = txnsim("scenario", "run", "z01", "--mode", "TV2", "--quiet")
    assert run_result.returncode == 0, run_result.stderr
