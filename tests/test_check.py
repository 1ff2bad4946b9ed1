"""The one command can say no."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

import hypothesis
import pytest

from tests import check
from tests.check import Outcome, Step
from tests.support.chance import DRAWN, PROFILE_DRAWN


def step(name: str, program: str) -> Step:
    return Step(name=name, asks="nothing", command=(sys.executable, "-c", program))


def test_a_failing_step_stops_no_other_and_shows_its_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcomes = check._run_all(
        [step("lint", "print('crooked'); raise SystemExit(3)"), step("rest", "print('fine')")]
    )
    assert [outcome.status for outcome in outcomes] == [3, 0]
    assert check._report(outcomes) == 1
    output = capsys.readouterr().out
    assert "FAILED lint" in output
    assert "ok     rest " in output
    assert "crooked" in output
    assert "fine" not in output
    last_line = output.splitlines()[-1]
    assert re.fullmatch(r"1 of 2 steps ok, \d+\.\d min of processor time; failed: lint", last_line)


@pytest.mark.parametrize(
    "line",
    [
        "2670 passed in 12.61s",
        "12 failed, 2670 passed, 18 skipped in 12.61s",
        "===== 3 passed, 1 deselected, 2 errors in 61.02s (0:01:01) =====",
        "1 error in 0.10s",
    ],
)
def test_pytests_own_summary_is_repeated_for_ci(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = Outcome(
        step=step("rest", ""), status=0, output=f"....\n{line}\n", seconds=1, cpu_seconds=90
    )
    assert check._report([outcome]) == 0
    output = capsys.readouterr().out
    assert f"=== {line.strip('= ')} ===" in output
    assert "1 of 1 steps ok, 1.5 min of processor time" in output


def test_what_a_step_takes_of_a_processor_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    busy_program = "import time\nwhile time.process_time() < 0.3: pass"
    in_a_child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy_program!r}])"
    outcome = check._run(step("rest", in_a_child))
    assert 0.3 <= outcome.cpu_seconds < 60
    assert f"{outcome.cpu_seconds:.1f} s of processor time" in capsys.readouterr().out


def test_an_unknown_step_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        check.main(["--only", "spelling"])
    assert "no step spelling; there are: clients, broker-shells" in capsys.readouterr().err


@pytest.mark.parametrize("product", ["broker", "lab", "spark"])
def test_a_product_is_all_that_lies_below_its_folder(
    product: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_steps: list[Step] = []

    def run(steps: list[Step], _variables: object) -> list[Outcome]:
        run_steps.extend(steps)
        return []

    monkeypatch.setattr(check, "_run_all", run)
    assert check.main(["--only", product]) == 0
    names = {step.name for step in run_steps}
    for name, (_, paths) in check.TESTS.items():
        are_below = [lies_below(path, {f"tests/{product}"}) for path in paths]
        assert set(are_below) == {name in names}, name
    left_out = [hint for name, hint in check.LEFT_OUT.items() if name in names]
    assert capsys.readouterr().out.splitlines()[2:] == left_out


@pytest.mark.parametrize(("name", "status"), [("broker-cores", 0), ("lab-rest", 1)])
def test_steps_of_the_broker_find_nothing_of_the_lab_and_of_spark(name: str, status: int) -> None:
    finds = (
        "import sys, txnsim.on_demand_imports, pytest, hypothesis;"
        "sys.exit(txnsim.on_demand_imports.missing() != ('txnsim_lab', 'txnsim_spark'))"
    )
    assert [outcome.status for outcome in check._run_all([step(name, finds)])] == [status]


def test_the_steps_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["--list", "--coverage"]) == 0
    names = [printed_line.split()[0] for printed_line in capsys.readouterr().out.splitlines()]
    assert names == [*check.TESTS, "types", "format", "lint", "layers", "measured", "coverage"]


def commands(*, is_quick: bool, with_coverage: bool = False) -> dict[str, tuple[str, ...]]:
    steps = check.all_steps(is_quick=is_quick, with_coverage=with_coverage)
    return {step.name: step.command for step in steps}


@pytest.mark.parametrize("step", sorted(check.TESTS))
def test_only_the_full_check_runs_clients_and_slow_tests(step: str) -> None:
    def markers(*, is_quick: bool) -> str:
        return next(
            argument for argument in commands(is_quick=is_quick)[step] if "not " in argument
        )

    assert "not clients" in markers(is_quick=True)
    assert "not slow" in markers(is_quick=True)
    assert all("not browser" in markers(is_quick=is_quick) for is_quick in (True, False))
    assert "clients" not in markers(is_quick=False)
    assert "slow" not in markers(is_quick=False)


def test_each_file_of_tests_belongs_to_one_step() -> None:
    of_steps = commands(is_quick=False)
    for path in (check.ROOT / "tests").rglob("test_*.py"):
        name = path.relative_to(check.ROOT).as_posix()
        takers = []
        for step in check.TESTS:
            _, paths = check.TESTS[step]
            arguments = of_steps[step]
            ignored = [argument[9:] for argument in arguments if argument.startswith("--ignore=")]
            if lies_below(name, paths) and not lies_below(name, ignored):
                takers.append(step)
        assert len(takers) == 1, (name, takers)


def lies_below(name: str, paths: Iterable[str]) -> bool:
    return any(name == path or name.startswith(f"{path}/") for path in paths)


def test_coverage_is_measured_where_it_is_wanted_and_asked_afterwards() -> None:
    def measured_steps(*, with_coverage: bool) -> list[str]:
        steps = check.all_steps(is_quick=False, with_coverage=with_coverage)
        files = [step.variables["COVERAGE_FILE"] for step in steps if step.variables]
        assert len(files) == len(set(files)), "two processes write one file"
        return [step.name for step in steps if "--cov" in step.command or step in check.AFTERWARDS]

    assert measured_steps(with_coverage=True) == [*check.COVERING, "measured", "coverage"]
    assert measured_steps(with_coverage=False) == []
    assert all((check.ROOT / path).exists() for _, paths in check.TESTS.values() for path in paths)


def test_only_a_drawn_check_leaves_anything_to_chance() -> None:
    for is_drawn in (False, True):
        steps = check.all_steps(is_quick=False, with_drawn_tests=is_drawn)
        drawn_steps = [step.name for step in steps if set(DRAWN) <= set(step.command)]
        assert drawn_steps == (list(check.TESTS) if is_drawn else [])


def test_order_and_examples_are_fixed_unless_they_are_to_be_drawn(
    pytestconfig: pytest.Config,
) -> None:
    is_drawn = pytestconfig.getoption("--hypothesis-profile") == PROFILE_DRAWN
    assert hypothesis.settings().derandomize is not is_drawn
    assert (pytestconfig.getoption("--randomly-seed") == 1) is not is_drawn


def test_hashes_of_strings_are_the_same_each_time() -> None:
    program = "import sys; sys.exit(sys.flags.hash_randomization)"
    assert [outcome.status for outcome in check._run_all([step("a", program)])] == [0]


def test_what_is_made_once_is_shared_by_all_steps() -> None:
    program = "import os, sys; sys.exit(not os.path.isdir(os.environ['TXNSIM_TOLD_ONCE']))"
    assert [
        outcome.status for outcome in check._run_all([step("a", program), step("b", program)])
    ] == [0, 0]


def test_a_process_that_is_started_often_is_compiled_once() -> None:
    assert check.with_bytecode({"PYTHONDONTWRITEBYTECODE": "1", "A": "b"}) == {"A": "b"}
