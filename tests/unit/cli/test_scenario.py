from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sim.check.verdicts import Verdict
from sim.cli import scenario as scenario_module
from sim.cli.main import main
from sim.scenario import catalog, runner
from sim.scenario.model import Scenario
from sim.scenario.players.casting import Casting
from sim.scenario.runner import RunResult
from sim.trace.story import Sentence
from tests.support.histories import hanging
from tests.support.stories import late_produce

Fake = Callable[..., None]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool, Casting]]:
    """Stories are not told, but come to what is declared."""
    seen: list[tuple[str, bool, Casting]] = []

    async def fake(scenario: Scenario, mode: str, *, armed: bool, casting: Casting) -> RunResult:
        seen.append((mode, armed, casting))
        expected = scenario.modes[mode].verdict if armed else scenario.disarmed_verdict
        return RunResult(
            scenario=scenario.name,
            mode=mode,
            armed=armed,
            player=casting.player or "somebody",
            expected=expected,
            verdict=Verdict(name=WRONG.get(mode, expected), because="so it is"),
            facts=hanging(),
            story=(Sentence(at_ms=0, who="scenario", text=f"It was in {mode}.", told=True),),
            remarks=(),
            duration_ms=5,
            trace=f"{mode} {armed}\n".encode(),
        )

    monkeypatch.setattr(runner, "run", fake)
    return seen


WRONG: dict[str, str] = {}
Z01 = ["scenario", "run", "z01"]


def test_every_mode_is_run_armed_and_disarmed_and_only_the_armed_stories_are_told(
    runs: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(Z01) == 0
    assert [run[:2] for run in runs] == [
        (mode, armed) for mode in ("V-", "V+", "TV2") for armed in (True, False)
    ]
    out, err = capsys.readouterr()
    assert [out.count(f"It was in {mode}.") for mode in ("V-", "V+", "TV2")] == [1, 1, 1]
    assert out.count("as declared") == 6
    assert err == ""


def test_a_verdict_that_differs_is_exit_status_1(
    runs: list[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WRONG, "V+", "hanging")
    assert main([*Z01, "--quiet", "--armed"]) == 1
    out, err = capsys.readouterr()
    assert "V+, armed: so it is" in out
    assert "2/3 late-produce-after-abort V+ armed: hanging, not declared" in err
    assert "It was in" not in out


@pytest.mark.parametrize(
    ("options", "which"),
    [
        (["--armed"], [("TV2", True)]),
        (["--disarmed"], [("TV2", False)]),
        ([], [("TV2", True), ("TV2", False)]),
    ],
)
def test_one_mode_and_one_kind_of_run_can_be_asked_for(
    options: list[str],
    which: list[tuple[str, bool]],
    runs: list[Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*Z01, "--mode", "TV2", *options]) == 0
    assert [run[:2] for run in runs] == which
    assert "It was in TV2." in capsys.readouterr().out


def test_json_gives_the_facts_on_standard_output_and_progress_elsewhere(
    runs: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenario", "matrix", "--json"]) == 0
    out, err = capsys.readouterr()
    rows = json.loads(out)
    assert [row["as_declared"] for row in rows] == [True] * len(rows)
    assert rows[0]["facts"]["late_epoch"] == 0
    assert len(err.splitlines()) == len(rows) == len(runs)


def test_a_matrix_shows_progress_and_the_table_only(
    runs: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenario", "matrix", "--mode", "V-"]) == 0
    out, err = capsys.readouterr()
    assert len(err.splitlines()) == len(runs) == 2
    assert out.startswith("Scenario")


def test_traces_are_written_one_file_per_run(runs: list[Any], tmp_path: Path) -> None:
    directory = tmp_path / "new" / "traces"
    assert main([*Z01, "--mode", "V-", "--trace", str(directory), "--quiet"]) == 0
    assert {path.name: path.read_text("utf-8") for path in directory.iterdir()} == {
        "late-produce-after-abort.V-.armed.jsonl": "V- True\n",
        "late-produce-after-abort.V-.disarmed.jsonl": "V- False\n",
    }


def test_a_player_plays_where_it_can_and_the_modes_left_out_are_named(
    runs: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("kafka", reason="the extra `demo` is not installed")
    assert main([*Z01, "--player", "kafka-python", "--armed"]) == 0
    assert [run[0] for run in runs] == ["V-", "V+"]
    assert capsys.readouterr().err == (
        "late-produce-after-abort TV2: left out, kafka-python can't play there\n"
    )


def test_a_program_is_passed_on(runs: list[Any]) -> None:
    assert main([*Z01, "--program", f"{sys.executable} x", "--quiet"]) == 0
    assert {run[2].program for run in runs} == {f"{sys.executable} x"}


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["run", "z02"], "no scenario 'z02'; did you mean z01?"),
        (["show", "late-produce"], "did you mean late-produce-after-abort?"),
        (["run", "missing.yaml"], "missing.yaml: can't be read: No such file"),
        (["run", "z01", "--mode", "TV1"], "no mode 'TV1'; did you mean TV2?"),
        (["run", "z01", "--player", "kafka"], "no player 'kafka'; did you mean kafka-python"),
        (["run", "z01", "--program", "no-such-program"], "there is no such program"),
        (["run", "z01", "--mode", "TV2", "--player", "kafka-python"], "can't play in mode TV2"),
        (["run", "z01", "--trace", "/dev/null/x"], "--trace /dev/null/x: Not a directory"),
        (["run", "z01", "--armed", "--disarmed"], "not allowed with argument"),
        (["run", "z01", "--player", "own", "--program", "x"], "not allowed with argument"),
        (["run"], "required: name"),
        ([], "required: ACTION"),
    ],
)
def test_what_can_not_be_done_is_exit_status_2_and_nothing_is_run(
    argv: list[str], complaint: str, runs: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenario", *argv]) == 2
    out, err = capsys.readouterr()
    assert complaint in err
    assert (out, runs) == ("", [])


def test_a_matrix_runs_the_scenarios_that_have_the_mode(
    runs: list[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_first(document: dict[str, Any]) -> None:
        document["modes"] = {"V-": document["modes"]["V-"]}
        document["steps"] = [one for one in document["steps"] if "modes" not in one]

    both = {Path("a.yaml"): late_produce(), Path("b.yaml"): late_produce(only_first)}
    monkeypatch.setattr(scenario_module, "scenarios", lambda: both)
    assert main(["scenario", "matrix", "--mode", "TV2"]) == 0
    assert len(runs) == 2
    assert main(["scenario", "matrix"]) == 0
    assert len(runs) == 2 + 6 + 2
    capsys.readouterr()
    assert main(["scenario", "matrix", "--mode", "TV9"]) == 2
    assert capsys.readouterr().err == "txnsim: no scenario has a mode TV9\n"


def test_a_trace_that_can_not_be_written_is_told(
    runs: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "late-produce-after-abort.V-.armed.jsonl").mkdir()
    assert main([*Z01, "--mode", "V-", "--armed", "--quiet", "--trace", str(tmp_path)]) == 2
    assert "Is a directory" in capsys.readouterr().err


def test_scenarios_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "list"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["Scenario", "Alias", "Title"]
    assert "late-produce-after-abort\tz01" in out
    assert main(["scenario", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == [one.name for one in catalog.scenarios().values()]
    assert rows[0]["modes"] == ["V-", "V+", "TV2"]


def test_a_scenario_is_shown_with_its_steps_and_the_verdicts_it_expects(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["scenario", "show", "Z01"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("late-produce-after-abort (z01): A produce that arrives after the abort")
    for part in ("\n1. The producer opens", "[TV2]", "refused-by-epoch", "Source: KIP-890"):
        assert part in out
    assert f"File: {catalog.find('z01')[0]}" in out
    copied = tmp_path / "mine.yaml"
    copied.write_text(catalog.find("z01")[0].read_text("utf-8").replace("aliases", "#"), "utf-8")
    assert main(["scenario", "show", str(copied)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("late-produce-after-abort: A produce")
    assert f"File: {copied}" in out


def test_a_scenario_is_shown_as_json_with_its_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "show", "z01", "--json"]) == 0
    shown = msgspec.json.decode(capsys.readouterr().out)
    assert shown["modes"]["TV2"]["verdict"] == "refused-by-epoch"
    assert shown["roles"]["producer"]["transactional-id"] == "app"
    (hold,) = [step["hold"] for step in shown["steps"] if "hold" in step]
    assert hold["id"] == "late-produce"
    assert {"advance": 1_260_000, "say": "Twenty-one minutes pass."} in shown["steps"]
