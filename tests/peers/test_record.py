"""The recorded results of peers' suites: they survive the file, and agree with suites and
reasons.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.record import (
    StoredSuite,
    StoredTest,
    load,
    merge_outcomes,
    save,
    unexplained_failures,
)
from tests.peers.suite import PeerOutcome, PeerResult, PeerTarget, Suite
from tests.peers.suites import all_suites, ecosystems

_STORED = {suite.name: load().get(suite.name) for suite in all_suites()}


def _suite(version: str = "2") -> Suite:
    return Suite(
        name="some",
        project="Some",
        version=version,
        source="Its tests.",
        cluster="One broker.",
        ask=lambda _target, _names: (),
    )


def _merge_one(
    stored_before: StoredSuite | None,
    *outcomes: PeerOutcome,
    version: str = "2",
    target: PeerTarget = PeerTarget.TXNSIM,
    is_whole: bool = True,
) -> StoredSuite:
    stored_suites = {"some": stored_before} if stored_before else {}
    return merge_outcomes(stored_suites, _suite(version), target, outcomes, is_whole=is_whole)


def test_results_survive_their_file(tmp_path: Path) -> None:
    stored_suite = StoredSuite(
        "2",
        {
            "TestA": StoredTest({PeerTarget.TXNSIM: PeerResult.PASSED}),
            "TestB[é]": StoredTest(
                {PeerTarget.TXNSIM: PeerResult.FAILED, PeerTarget.APACHE: PeerResult.PASSED},
                "“no” | yes",
            ),
        },
    )
    save("some", stored_suite, tmp_path)
    assert load(tmp_path) == {"some": stored_suite}


def test_nothing_is_stored_without_a_file(tmp_path: Path) -> None:
    assert load(tmp_path / "results") == {}


def test_a_real_broker_s_answer_is_kept_beside_ours() -> None:
    ours = _merge_one(None, PeerOutcome("TestA", PeerResult.FAILED, "no"))
    both_sides = _merge_one(
        ours, PeerOutcome("TestA", PeerResult.FAILED, "not"), target=PeerTarget.APACHE
    )
    expected = StoredTest(
        {PeerTarget.TXNSIM: PeerResult.FAILED, PeerTarget.APACHE: PeerResult.FAILED}, "no"
    )
    assert both_sides.tests == {"TestA": expected}


def test_a_whole_run_forgets_tests_that_are_gone() -> None:
    stored_before = _merge_one(None, PeerOutcome("TestGone", PeerResult.PASSED))
    outcome = PeerOutcome("TestA", PeerResult.PASSED)
    assert sorted(_merge_one(stored_before, outcome, is_whole=False).tests) == ["TestA", "TestGone"]
    assert sorted(_merge_one(stored_before, outcome).tests) == ["TestA"]


def test_another_version_starts_afresh() -> None:
    stored_before = _merge_one(None, PeerOutcome("TestA", PeerResult.PASSED), version="1")
    stored_after = _merge_one(
        stored_before, PeerOutcome("TestB", PeerResult.PASSED), is_whole=False
    )
    assert stored_after == StoredSuite(
        "2", {"TestB": StoredTest({PeerTarget.TXNSIM: PeerResult.PASSED})}
    )


def test_the_most_exact_reason_stands_for_a_test() -> None:
    suite = _suite()._replace(reasons={"TestA*": "all", "TestAB*": "some", "TestABC": "one"})
    tests = ("TestABC", "TestABD", "TestAX", "TestB")
    assert [suite.why(test) for test in tests] == ["one", "some", "all", ""]


def test_a_failure_is_explained_by_a_reason_or_a_real_broker_that_fails_too() -> None:
    suite = _suite()._replace(reasons={"TestA": "a reason"})
    failed_result, passed_result = PeerResult.FAILED, PeerResult.PASSED
    stored_suite = StoredSuite(
        "2",
        {
            "TestB": StoredTest(
                {PeerTarget.TXNSIM: failed_result, PeerTarget.APACHE: failed_result}
            ),
            "TestC": StoredTest(
                {PeerTarget.TXNSIM: failed_result, PeerTarget.APACHE: passed_result}
            ),
        },
    )
    failed_tests = ["TestA", "TestB", "TestC", "TestD"]
    assert unexplained_failures(suite, stored_suite, failed_tests) == ["TestC", "TestD"]
    assert (
        unexplained_failures(suite, stored_suite._replace(version="1"), failed_tests)
        == failed_tests[1:]
    )
    assert unexplained_failures(suite, None, failed_tests) == failed_tests[1:]


def test_every_ecosystem_has_suites_of_different_names() -> None:
    assert ecosystems()
    names = [suite.name for suite in all_suites()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("suite", all_suites(), ids=[suite.name for suite in all_suites()])
def test_what_is_stored_is_of_this_version_and_explained(suite: Suite) -> None:
    stored_suite = _STORED[suite.name]
    assert stored_suite is not None, "python -m tests.peers.run --write"
    assert stored_suite.version == suite.version
    assert unexplained_failures(suite, stored_suite, _not_passed(stored_suite)) == []


@pytest.mark.parametrize("suite", all_suites(), ids=[suite.name for suite in all_suites()])
def test_where_we_fail_a_real_broker_was_asked(suite: Suite) -> None:
    stored_suite = _STORED[suite.name]
    assert stored_suite is not None
    failed_tests = [
        name
        for name, test in stored_suite.tests.items()
        if test.by_target.get(PeerTarget.TXNSIM) is PeerResult.FAILED
    ]
    unasked = [
        name for name in failed_tests if PeerTarget.APACHE not in stored_suite.tests[name].by_target
    ]
    assert unasked == UNASKED.get(suite.name, [])


UNASKED = {
    # Tests of 4.3.1 with clients of 4.4.0: a real 4.4.0 does not start with these jars.
    "kafka-streams-newest": [
        "RestoreIntegrationTest.shouldRecycleStateFromStandbyTaskPromotedToActiveTaskAndNotRestore"
    ]
}


@pytest.mark.parametrize("suite", all_suites(), ids=[suite.name for suite in all_suites()])
def test_no_reason_stands_beside_a_test_that_passes(suite: Suite) -> None:
    stored_suite = _STORED[suite.name]
    assert stored_suite is not None
    not_passed = _not_passed(stored_suite)
    patterns = {key for key in suite.reasons if key.endswith("*")}
    assert suite.reasons.keys() - patterns - set(not_passed) == set()
    idle_patterns = [
        key for key in patterns if not any(name.startswith(key[:-1]) for name in not_passed)
    ]
    assert idle_patterns == []


def _not_passed(stored_suite: StoredSuite) -> list[str]:
    return [
        name
        for name, test in stored_suite.tests.items()
        if test.by_target.get(PeerTarget.TXNSIM) is not PeerResult.PASSED
    ]
