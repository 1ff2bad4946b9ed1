"""Reports as hypotheses: what is so, what is not, and what can't happen."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Final

import pytest

from txnsim.cli.main import main
from txnsim_lab.scenario.hypothesis import REFUSALS_MAX, FileVerdict, HypothesisVerdict, check
from txnsim_lab.scenario.scenario_reader import read

HYPOTHESES: Final = Path(__file__).with_name("hypotheses")
SO: Final = (
    "aborted-between-committed",
    "aborted-is-read-uncommitted",
    "end-trails-an-acknowledged-commit",
    "newest-version-is-fenced-by-name",
    "timed-out-without-a-rival",
)
NOT_SO: Final = (
    "aborted-late-is-read-committed",
    "never-ended-is-read-committed",
    "positions-of-a-killed-worker-are-lost",
    "rolled-back-in-the-first-transaction",
)
IMPOSSIBLE: Final = ("late-record-of-a-timed-out-transaction",)


def judge_hypothesis(name: str) -> FileVerdict:
    path = HYPOTHESES / f"{name}.yaml"
    return check(read(path.name, path.read_text("utf-8")))


def test_every_file_is_judged_here() -> None:
    assert sorted(path.stem for path in HYPOTHESES.glob("*.yaml")) == sorted(
        (*SO, *NOT_SO, *IMPOSSIBLE)
    )


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        *((name, HypothesisVerdict.REPRODUCED) for name in SO),
        *((name, HypothesisVerdict.NOT_REPRODUCED) for name in NOT_SO),
        *((name, HypothesisVerdict.IMPOSSIBLE) for name in IMPOSSIBLE),
    ],
)
def test_reports_of_others_are_judged(name: str, verdict: HypothesisVerdict) -> None:
    file_verdict = judge_hypothesis(name)
    assert file_verdict.verdict is verdict
    (run,) = file_verdict.runs
    assert run.decisive
    assert bool(run.because) is (verdict is not HypothesisVerdict.REPRODUCED)


def test_what_is_impossible_names_the_step_and_the_answer() -> None:
    (run,) = judge_hypothesis(IMPOSSIBLE[0]).runs
    assert run.answered == "INVALID_PRODUCER_EPOCH"
    step_place = "late-record-of-a-timed-out-transaction.yaml:14: steps.5.call"
    assert run.because[0].startswith(step_place)
    assert run.nearest is not None
    assert run.nearest.expects == (f"{step_place}.error: INVALID_PRODUCER_EPOCH",)
    assert run.nearest.seen == ()


def test_the_nearest_story_expects_every_refusal_and_is_none_where_that_does_not_help() -> None:
    file_text = (HYPOTHESES / f"{IMPOSSIBLE[0]}.yaml").read_text("utf-8")
    step = file_text.splitlines()[-1]
    (run,) = check(read("a.yaml", f"{file_text}{step.replace('late', 'later')}\n")).runs
    assert run.nearest is not None
    assert len(run.nearest.expects) == 2
    refused_steps = (
        step.replace("late", f"late-{refusal_number}") for refusal_number in range(REFUSALS_MAX)
    )
    (run,) = check(read("a.yaml", file_text + "\n".join(refused_steps))).runs
    assert run.nearest is None
    late_step = step.replace("value: late", "value: late, background: late")
    (run,) = check(read("a.yaml", file_text.replace(step, f"{late_step}\n- await: late"))).runs
    assert (run.verdict, run.nearest) == (HypothesisVerdict.IMPOSSIBLE, None)


def test_what_judges_see_otherwise_is_not_reproduced() -> None:
    file_text = (HYPOTHESES / "aborted-between-committed.yaml").read_text("utf-8")
    file_verdict = check(
        read("a.yaml", file_text.replace("verdict: healthy", "verdict: lost-write"))
    )
    assert file_verdict.verdict is HypothesisVerdict.NOT_REPRODUCED
    assert (file_verdict.runs[0].claimed, file_verdict.runs[0].seen) == (("lost-write",), ())


def test_the_command_has_a_verdict_for_programs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    library_file = HYPOTHESES / f"{SO[0]}.yaml"
    assert main(["check-hypothesis", str(library_file), "--json", "--seeds", "2"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["hypothesis"], report["verdict"]) == (SO[0], "reproduced")
    assert report["runs"][0]["seed"] == 1
    other_library_file = HYPOTHESES / f"{IMPOSSIBLE[0]}.yaml"
    assert main(["check-hypothesis", str(other_library_file)]) == 1
    assert "claimed: stuck-last-stable-offset; seen: nothing" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO(library_file.read_text("utf-8")))
    assert main(["check-hypothesis", "-"]) == 0


def test_a_file_without_steps_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report_file = tmp_path / "report.yaml"
    report_file.write_text(
        "name: x\ntitle: t\ngoal: g\nmethod: m\ntopics: {t: 1}\n"
        "runs: {V-: {mode: V-, verdict: healthy}}\nsteps: []\n"
    )
    assert main(["check-hypothesis", str(report_file)]) == 2
    assert f"{report_file}:7: steps: there are none" in capsys.readouterr().err


def test_a_wrong_file_has_its_line_field_and_the_nearest_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.yaml"
    file_text = (HYPOTHESES / f"{SO[0]}.yaml").read_text("utf-8")
    file.write_text(file_text.replace("do: produce", "do: produc", 1), "utf-8")
    assert main(["check-hypothesis", str(file), "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert report["verdict"] == "wrong file"
    (error,) = report["errors"]
    assert "wrong.yaml:11: steps.2.call.do" in error
    assert "mean produce?" in error
    assert main(["check-hypothesis", str(file)]) == 2
    assert main(["check-hypothesis", str(tmp_path / "none.yaml")]) == 2
    assert main(["check-hypothesis", str(file), "--seeds", "0"]) == 2
