"""What is kept of the suites of peers: it survives the file, and agrees with suites and reasons."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.record import Found, Stored, load, merged, save, unexplained_failures
from tests.peers.suite import Outcome, Result, Suite, Target
from tests.peers.suites import ecosystems, shown

_STORED = {suite.name: load().get(suite.name) for suite in shown()}


def _suite(version: str = "2") -> Suite:
    return Suite(
        name="some",
        project="Some",
        version=version,
        source="Its tests.",
        cluster="One broker.",
        ask=lambda _target, _names: (),
    )


def _merged(
    before: Stored | None,
    *outcomes: Outcome,
    version: str = "2",
    target: Target = Target.TXNSIM,
    whole: bool = True,
) -> Stored:
    stored = {"some": before} if before else {}
    return merged(stored, _suite(version), target, outcomes, whole=whole)


def test_results_survive_their_file(tmp_path: Path) -> None:
    stored = Stored(
        "2",
        {
            "TestA": Found({Target.TXNSIM: Result.PASSED}),
            "TestB[é]": Found(
                {Target.TXNSIM: Result.FAILED, Target.APACHE: Result.PASSED}, "“no” | yes"
            ),
        },
    )
    save("some", stored, tmp_path)
    assert load(tmp_path) == {"some": stored}


def test_nothing_is_stored_without_a_file(tmp_path: Path) -> None:
    assert load(tmp_path / "results") == {}


def test_a_real_broker_s_answer_is_kept_beside_ours() -> None:
    ours = _merged(None, Outcome("TestA", Result.FAILED, "no"))
    both = _merged(ours, Outcome("TestA", Result.FAILED, "not"), target=Target.APACHE)
    expected = Found({Target.TXNSIM: Result.FAILED, Target.APACHE: Result.FAILED}, "no")
    assert both.tests == {"TestA": expected}


def test_a_whole_run_forgets_tests_that_are_gone() -> None:
    before = _merged(None, Outcome("TestGone", Result.PASSED))
    outcome = Outcome("TestA", Result.PASSED)
    assert sorted(_merged(before, outcome, whole=False).tests) == ["TestA", "TestGone"]
    assert sorted(_merged(before, outcome).tests) == ["TestA"]


def test_another_version_starts_afresh() -> None:
    before = _merged(None, Outcome("TestA", Result.PASSED), version="1")
    after = _merged(before, Outcome("TestB", Result.PASSED), whole=False)
    assert after == Stored("2", {"TestB": Found({Target.TXNSIM: Result.PASSED})})


def test_the_most_exact_reason_stands_for_a_test() -> None:
    suite = _suite()._replace(reasons={"TestA*": "all", "TestAB*": "some", "TestABC": "one"})
    tests = ("TestABC", "TestABD", "TestAX", "TestB")
    assert [suite.why(test) for test in tests] == ["one", "some", "all", ""]


def test_a_failure_is_explained_by_a_reason_or_a_real_broker_that_fails_too() -> None:
    suite = _suite()._replace(reasons={"TestA": "a reason"})
    failed, passed = Result.FAILED, Result.PASSED
    stored = Stored(
        "2",
        {
            "TestB": Found({Target.TXNSIM: failed, Target.APACHE: failed}),
            "TestC": Found({Target.TXNSIM: failed, Target.APACHE: passed}),
        },
    )
    asked = ["TestA", "TestB", "TestC", "TestD"]
    assert unexplained_failures(suite, stored, asked) == ["TestC", "TestD"]
    assert unexplained_failures(suite, stored._replace(version="1"), asked) == asked[1:]
    assert unexplained_failures(suite, None, asked) == asked[1:]


def test_every_ecosystem_has_suites_of_different_names() -> None:
    assert ecosystems()
    names = [suite.name for suite in shown()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("suite", shown(), ids=[suite.name for suite in shown()])
def test_what_is_stored_is_of_this_version_and_explained(suite: Suite) -> None:
    stored = _STORED[suite.name]
    assert stored is not None, "python -m tests.peers.run --write"
    assert stored.version == suite.version
    assert unexplained_failures(suite, stored, _not_passed(stored)) == []


@pytest.mark.parametrize("suite", shown(), ids=[suite.name for suite in shown()])
def test_where_we_fail_a_real_broker_was_asked(suite: Suite) -> None:
    stored = _STORED[suite.name]
    assert stored is not None
    failed = [
        name
        for name, test in stored.tests.items()
        if test.by_target.get(Target.TXNSIM) is Result.FAILED
    ]
    unasked = [name for name in failed if Target.APACHE not in stored.tests[name].by_target]
    assert unasked == UNASKED.get(suite.name, [])


UNASKED = {
    # Tests of 4.3.1 with clients of 4.4.0: a real 4.4.0 does not start with these jars.
    "kafka-streams-newest": [
        "RestoreIntegrationTest.shouldRecycleStateFromStandbyTaskPromotedToActiveTaskAndNotRestore"
    ]
}


@pytest.mark.parametrize("suite", shown(), ids=[suite.name for suite in shown()])
def test_no_reason_stands_beside_a_test_that_passes(suite: Suite) -> None:
    stored = _STORED[suite.name]
    assert stored is not None
    others = _not_passed(stored)
    patterns = {key for key in suite.reasons if key.endswith("*")}
    assert suite.reasons.keys() - patterns - set(others) == set()
    idle = [key for key in patterns if not any(name.startswith(key[:-1]) for name in others)]
    assert idle == []


def _not_passed(stored: Stored) -> list[str]:
    return [
        name
        for name, test in stored.tests.items()
        if test.by_target.get(Target.TXNSIM) is not Result.PASSED
    ]
