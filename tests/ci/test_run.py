"""The gate and the nightly run: parts, programs, verdicts, what has passed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from packaging.requirements import Requirement

from tests.check import SEEDS_FULL
from tests.ci import gate, nightly, patience, run
from tests.ci.audit import (
    AuditResult,
    installed_distributions,
    is_permissive,
    judge_licences,
    judge_vulnerabilities,
    licences,
    requirements,
    unbounded_requirements,
)
from tests.ci.parts import CORES, GATE, NIGHTLY, PLANS, CiPlan, Part
from tests.ci.passed import DIRTY
from tests.ci.patience import Load, ask_under_load, main
from tests.ci.process import Deadline, PartOutcome
from tests.ci.run import PARTS_MAX, in_budget, next_part
from tests.clients.matrix.rosters import clients

# Every part has a budget, and together they keep that of CI.


of_each_plan = pytest.mark.parametrize("plan", PLANS, ids=[plan.name for plan in PLANS])


def play_plan(plan: CiPlan) -> tuple[float, list[tuple[Part, ...]]]:
    """The minutes of all parts if each takes its budget, and the sets of parts that ran
    together.
    """
    waiting_parts, running_parts = list(plan.parallel_parts), dict[str, tuple[float, Part]]()
    minutes, running_sets = 0.0, []
    while waiting_parts or running_parts:
        while (
            part := next_part(
                waiting_parts, [running_part for _, running_part in running_parts.values()]
            )
        ) is not None:
            waiting_parts.remove(part)
            running_parts[part.name] = minutes + part.minutes, part
        running_sets.append(tuple(part for _, part in running_parts.values()))
        minutes, first_name = min((ends, part.name) for ends, part in running_parts.values())
        del running_parts[first_name]
    return minutes, running_sets


@of_each_plan
def test_the_budgets_of_all_parts_are_those_of_their_plan(plan: CiPlan) -> None:
    assert all(part.minutes > 0 for part in plan.parts)
    assert sum(part.minutes for part in plan.serial_parts) + play_plan(plan)[0] <= plan.minutes
    assert plan.minutes < plan.minutes_max


@of_each_plan
def test_parts_that_run_together_have_cores_for_each(plan: CiPlan) -> None:
    _, running_sets = play_plan(plan)
    assert {part.name for parts in running_sets for part in parts} == {
        part.name for part in plan.parallel_parts
    }
    assert all(sum(part.cores for part in parts) <= CORES for parts in running_sets)
    assert max(map(len, running_sets)) <= PARTS_MAX


def test_each_part_is_asked_in_one_plan() -> None:
    names = [part.name for plan in PLANS for part in plan.parts]
    assert len(names) == len(set(names))
    questions = [part.ask for plan in PLANS for part in plan.parts]
    assert len(questions) == len(set(questions))


@pytest.mark.parametrize(("module", "plan"), [(gate, GATE), (nightly, NIGHTLY)])
def test_each_question_that_is_written_is_asked(module: ModuleType, plan: CiPlan) -> None:
    public = {
        attribute_name
        for attribute_name, member in vars(module).items()
        if belongs_to(module, member) and attribute_name[0] != "_"
    }
    assert public == {part.ask.__qualname__.partition(".")[0] for part in plan.parts}


def belongs_to(module: ModuleType, member: object) -> bool:
    return isinstance(member, FunctionType) and member.__module__ == module.__name__


def test_the_gate_asks_one_client_per_language() -> None:
    language = {client.name: client.language for client in clients()}
    assert sorted(language[client_name] for client_name in gate.CLIENTS) == sorted(
        set(language.values())
    )


def test_a_part_that_needs_programs_waits_for_them() -> None:
    asks = Part("asks", 1, lambda _: PartOutcome(1, 0))
    part_without_programs = asks._replace(needs_programs=False)
    makes = asks._replace(needs_programs=False, makes_programs=True)
    assert next_part([asks], [makes]) is None
    assert next_part([asks, makes], []) is makes
    assert next_part([asks, part_without_programs], [makes]) is part_without_programs
    assert next_part([asks], []) is asks


def test_a_part_that_is_too_large_runs_alone() -> None:
    large_part = Part("large", 1, lambda _: PartOutcome(1, 0), cores=CORES + 1)
    assert next_part([large_part], [large_part._replace(name="another", cores=0.5)]) is None
    assert next_part([large_part], []) is large_part


@pytest.mark.parametrize(
    ("seconds", "expected_text"),
    [(90, "  1.5  of  6.0 min"), (360, "  6.0  of  6.0 min"), (480, "  8.0! of  6.0 min")],
)
def test_what_takes_longer_than_its_budget_is_marked(seconds: float, expected_text: str) -> None:
    assert in_budget(seconds, 6) == expected_text


def test_seeds_go_on_where_make_test_ends() -> None:
    assert min(nightly.SEEDS) == SEEDS_FULL


def test_a_part_that_failed_reports_at_once_and_is_named_again_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def second(_: Deadline) -> PartOutcome:
        assert capsys.readouterr().out.splitlines()[1:] == ["", *report, ""]
        return PartOutcome(2, 0)

    report = ["tests: exit status 1", "FAILED test_one - 1 != 2"]
    serial_parts = (
        Part("first", 1, lambda _: PartOutcome(0, 1, "\n".join(report))),
        Part("second", 1, second),
    )
    plan = CiPlan("nightly", minutes=2, minutes_max=3, serial_parts=serial_parts, parallel_parts=())
    monkeypatch.setattr(run, "NIGHTLY", plan)
    monkeypatch.setattr(run, "commit", lambda: f"abc{DIRTY}")  # keeps nothing
    assert run.main(["--nightly"]) == 1
    printed_lines = capsys.readouterr().out.splitlines()
    assert printed_lines[0].startswith("ok ")
    assert printed_lines[1] == "FAILED test_one - 1 != 2"
    assert printed_lines[-1] == "txnsim: 2 passed, 1 failed"


@pytest.mark.parametrize(("commit_after", "expected_commits"), [("abc", ["abc"]), ("def", [])])
def test_a_part_whose_commit_moved_meanwhile_has_passed_at_neither(
    monkeypatch: pytest.MonkeyPatch, commit_after: str, expected_commits: list[str]
) -> None:
    commits, noted_commits = iter(("abc", commit_after)), list[str]()
    monkeypatch.setattr(run, "commit", lambda: next(commits))
    monkeypatch.setattr(
        run, "keep", lambda _part, commit_name, **_: noted_commits.append(commit_name)
    )
    run._ask(Part("any", 1, lambda _: PartOutcome(1, 0)), Deadline(1))
    assert noted_commits == expected_commits


# A run under load is told as it was.


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(patience, "KEPT", tmp_path)
    programs = {"well": "print('fine')", "badly": "print('because'); raise SystemExit(1)"}
    asks = {
        program_name: (sys.executable, "-c", program_text)
        for program_name, program_text in programs.items()
    }
    monkeypatch.setattr(patience, "QUESTIONS", asks)
    return tmp_path


def test_each_run_is_kept_and_the_first_that_fails_ends_them(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["well", "badly", "--times", "2", "--load", "0"]) == 1
    runs = [json.loads(line) for line in (run_folder / "runs.jsonl").read_text().splitlines()]
    assert [(row["question"], row["ok"]) for row in runs] == [
        ("well", True),
        ("well", True),
        ("badly", False),
    ]
    assert runs[0]["commit"] == patience.commit()
    assert Path(runs[-1]["output"]).read_text() == "because\n"
    assert "badly: FAILED" in capsys.readouterr().out


def test_runs_side_by_side_are_all_kept(run_folder: Path) -> None:
    assert main(["well", "--times", "4", "--load", "0", "--at-once", "2"]) == 0
    assert len((run_folder / "runs.jsonl").read_text().splitlines()) == 4


def test_a_run_that_takes_an_hour_fails(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "MINUTES_MAX", 0)
    assert not ask_under_load("well", Load(0))["ok"]


@pytest.mark.slow
def test_the_load_that_is_lacking_is_made_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    processes: list[subprocess.Popen[bytes]] = []

    class NotedProcess(subprocess.Popen[bytes]):
        def __init__(self, command: list[str]) -> None:
            super().__init__(command)
            processes.append(self)

    monkeypatch.setattr(subprocess, "Popen", NotedProcess)
    monkeypatch.setattr(patience, "_LOOKS_EVERY_S", 0.01)
    loads = iter([0.0] * 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (next(loads, 9.0), 0.0, 0.0))
    with Load(2) as load:
        while len(load._seen) < 4:
            load._over.wait(0.01)
        assert len(processes) == 2
        while load._burning:
            load._over.wait(0.01)
    assert all(process.poll() is not None for process in processes)


# The audit fails where it must, and says where it could not ask.


def test_what_has_no_bound_is_found() -> None:
    requirement_samples = [
        Requirement(text) for text in ("a", "b>=1", "c==2", "d<3", "e~=1.0; os_name=='x'")
    ]
    assert unbounded_requirements(requirement_samples) == ["a", "d<3"]
    assert unbounded_requirements(requirements()) == []


@pytest.mark.parametrize(
    ("metadata", "classifiers", "is_allowed"),
    [
        ({"License-Expression": "MIT"}, [], True),
        ({"License-Expression": "Apache-2.0 OR GPL-3.0"}, [], True),
        ({"License-Expression": "MIT AND GPL-3.0"}, [], False),
        ({"License-Expression": "BSD-3-Clause AND Apache-2.0 WITH LLVM-exception"}, [], True),
        ({"License": "MIT"}, ["License :: OSI Approved :: GNU GPL v3"], False),
        ({"License": "whatever"}, ["License :: OSI Approved :: BSD License"], True),
        ({}, [], False),
    ],
)
def test_a_licence_is_on_the_list_or_not(
    metadata: dict[str, object], classifiers: list[str], is_allowed: bool
) -> None:
    assert all(map(is_permissive, licences(metadata, classifiers))) is is_allowed


def test_all_that_is_installed_has_one_of_the_list() -> None:
    distributions = installed_distributions(requirements())
    assert {"kio", "msgspec", "annotated-types"} <= set(distributions), "with what those need"
    assert [
        line for line in judge_licences(distributions) if line.word is not AuditResult.PASS
    ] == []


def test_a_vulnerability_fails_and_what_was_not_asked_is_open() -> None:
    flaw = {"id": "PYSEC-1", "fix_versions": ["2.1"]}
    report = {
        "dependencies": [
            {"name": "good", "version": "1", "vulns": []},
            {"name": "bad", "version": "2", "vulns": [flaw]},
            {"name": "unknown", "skip_reason": "not found"},
        ]
    }
    assert judge_vulnerabilities(json.dumps(report)) == [
        (AuditResult.FAIL, "bad 2: PYSEC-1, mended in 2.1"),
        (AuditResult.OPEN, "unknown: not found"),
    ]
    del report["dependencies"][1]
    assert (AuditResult.PASS, "no known vulnerability in 1 distributions") in judge_vulnerabilities(
        json.dumps(report)
    )
