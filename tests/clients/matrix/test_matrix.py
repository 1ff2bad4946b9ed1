"""The matrix of libraries: programs, results, verdicts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.clients.matrix.client import CHECKS, CORE, Client
from tests.clients.matrix.questions import Question, checks_at, questions
from tests.clients.matrix.results import disagreements, load, merge_results, save
from tests.clients.matrix.roster.go import CLIENTS
from tests.clients.matrix.rosters import clients
from tests.clients.matrix.verdicts import PROGRAM, CheckVerdict, Line, Output, Result, judge
from tests.support.foreign_clients import GO_PROGRAMS, GO_SOURCES

# The matrix must not acquit by mistake: what counts as passed, and what is asked at all.


CHECK_NAMES = ("commit", "abort")


def client(
    *, checks: Sequence[str] = CHECK_NAMES, limits: dict[str, str] | None = None, name: str = "some"
) -> Client:
    return Client(
        name=name,
        version="1.0",
        language="None",
        command=list,
        checks=tuple(checks),
        limits=limits or {},
    )


def judge_lines(
    *texts: str, code: int = 0, is_stopped: bool = False, checks: Sequence[str] = CHECK_NAMES
) -> list[Result]:
    lines = [Line(second, text) for second, text in enumerate(texts, start=1)]
    return judge(Question(client(), 2, tuple(checks)), Output(lines, code, is_stopped))


def verdict_by_check(results: Sequence[Result]) -> dict[str, str]:
    return {result.check: result.verdict for result in results}


def test_a_program_that_reports_every_check_is_believed() -> None:
    results = judge_lines("hello", "PASS commit", "PASS abort", "2 passed, 0 failed")
    assert verdict_by_check(results) == {"commit": "passed", "abort": "passed"}


def test_a_check_takes_the_time_since_the_one_before_it() -> None:
    results = judge_lines("PASS commit", "noise", "PASS abort", "2 passed, 0 failed")
    assert [result.seconds for result in results] == [1.0, 2.0]


def test_a_failure_keeps_its_reason() -> None:
    results = judge_lines("PASS commit", "FAIL abort: it: broke", "1 passed, 1 failed", code=1)
    assert verdict_by_check(results) == {"commit": "passed", "abort": "failed"}
    assert results[1].reason == "it: broke"
    assert results[1].is_failure


def test_a_check_that_was_not_reported_has_failed() -> None:
    results = judge_lines("PASS commit", "1 passed, 0 failed")
    assert verdict_by_check(results)["abort"] == "failed"


def test_a_program_that_was_stopped_owes_the_rest() -> None:
    results = judge_lines("PASS commit", code=-9, is_stopped=True)
    assert verdict_by_check(results) == {"commit": "passed", "abort": "failed"}
    assert "time was over" in results[1].reason


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        (("PASS commit", "PASS abort"), 0),
        (("PASS commit", "PASS abort", "1 passed, 0 failed"), 0),
        (("PASS commit", "PASS abort", "2 passed, 0 failed"), 1),
        (("PASS commit", "FAIL abort: so", "1 passed, 1 failed"), 0),
        (("PASS commit", "PASS commit", "PASS abort", "2 passed, 0 failed"), 0),
        (("PASS commit", "PASS abort", "PASS fence", "2 passed, 0 failed"), 0),
    ],
    ids=["no count", "wrong count", "wrong status", "status 0", "twice", "unasked"],
)
def test_a_program_that_contradicts_itself_has_failed(texts: Sequence[str], code: int) -> None:
    assert verdict_by_check(judge_lines(*texts, code=code))[PROGRAM] == "failed"


def test_a_line_that_only_begins_like_a_report_is_none() -> None:
    results = judge_lines("PASS commit now", "PASSED abort", "0 passed, 2 failed", code=1)
    assert verdict_by_check(results) == {"commit": "failed", "abort": "failed"}


def test_a_missing_toolchain_is_a_failure_and_a_limit_is_none() -> None:
    by_verdict = {verdict: Result("c", "1", "l", 2, "abort", verdict) for verdict in CheckVerdict}
    assert [verdict for verdict, result in by_verdict.items() if result.is_failure] == [
        CheckVerdict.FAILED,
        CheckVerdict.MISSING,
    ]


def test_the_core_is_asked_at_every_level_and_the_rest_at_the_newest() -> None:
    library = client(checks=(*CORE, "admin", "some-own", "some-deep"))
    library = library._replace(everywhere=("some-deep",))
    assert checks_at(library, 0) == (*CORE, "some-deep")
    assert checks_at(library, 2) == (*CORE, "admin", "some-own", "some-deep")


def test_a_limit_is_told_instead_of_asked() -> None:
    library = client(checks=("commit", "fence"), limits={"admin": "no API", "fence@1": "a bug"})
    selected, limits = questions([library])
    assert [(question.level, question.checks) for question in selected] == [
        (0, ("commit", "fence")),
        (1, ("commit",)),
        (2, ("commit", "fence")),
    ]
    assert [(limit.level, limit.check, limit.reason) for limit in limits] == [
        (1, "fence", "a bug"),
        (2, "admin", "no API"),
    ]


def test_clients_levels_and_checks_can_be_chosen() -> None:
    selected, limits = questions(
        [client()], transaction_versions=[1], only=["abort", "fence"], excluded=["fence"]
    )
    assert [(question.level, question.checks) for question in selected] == [(1, ("abort",))]
    assert limits == []


def test_a_client_that_has_nothing_left_is_not_asked() -> None:
    selected, _limits = questions([client(checks=("admin",))], transaction_versions=[0])
    assert selected == []


# What is kept of the matrix: whole, current, and passed.


def client_of_results(name: str = "some", version: str = "1.0") -> Client:
    return Client(
        name=name,
        version=version,
        language="None",
        command=list,
        checks=("commit", "sasl"),
        limits={"tls": "no API", "commit@0": "a bug"},
    )


def passed_result(name: str, check_name: str, transaction_version: int) -> Result:
    return Result(
        name, "1.0", "None", transaction_version, check_name, CheckVerdict.PASSED, "", 1.5
    )


RESULTS = [
    passed_result("some", "commit", 1),
    passed_result("some", "commit", 2),
    passed_result("some", "sasl", 2),
]


def test_names_in_the_roster_are_unique() -> None:
    names = [library.name for library in clients()]
    assert len(set(names)) == len(names)


def test_what_is_kept_is_every_check_of_the_roster_and_passed() -> None:
    """To correct the file: ``python -m tests.clients.matrix.run --client NAME --write``."""
    assert disagreements(load(), clients()) == []


def test_further_checks_begin_with_words_of_the_client() -> None:
    for library in clients():
        further_checks = set(library.checks) - set(CHECKS)
        assert set(library.everywhere) <= further_checks, library.name
        stems = {check_name.partition("-")[0] for check_name in further_checks}
        assert len(stems) <= 2, f"{library.name}: {stems}"


def test_results_come_back_as_they_were_kept(tmp_path: Path) -> None:
    stored_clients = merge_results({}, [client_of_results()], RESULTS)
    save(stored_clients, tmp_path / "results.json")
    assert load(tmp_path / "results.json") == stored_clients
    assert stored_clients["some"].verdicts == {
        "commit": {0: CheckVerdict.LIMIT, 1: CheckVerdict.PASSED, 2: CheckVerdict.PASSED},
        "tls": {2: CheckVerdict.LIMIT},
        "sasl": {2: CheckVerdict.PASSED},
    }


def test_nothing_is_kept_where_nothing_is(tmp_path: Path) -> None:
    assert load(tmp_path / "results.json") == {}


def test_a_new_run_replaces_its_clients_and_no_other() -> None:
    stored_clients = merge_results({}, [client_of_results(), client_of_results("other")], RESULTS)
    updated = merge_results(stored_clients, [client_of_results(version="2.0")], [])
    assert updated["other"] == stored_clients["other"]
    assert updated["some"].version == "2.0"
    assert "sasl" not in updated["some"].verdicts


def test_a_whole_run_agrees_with_the_roster() -> None:
    assert (
        disagreements(merge_results({}, [client_of_results()], RESULTS), [client_of_results()])
        == []
    )


def test_every_disagreement_is_told() -> None:
    stored_clients = merge_results(
        {}, [client_of_results(), client_of_results("gone")], RESULTS[:2]
    )
    stored_clients["some"].verdicts["commit"][2] = CheckVerdict.FAILED  # type: ignore[index]
    stored_clients["some"].verdicts["fence"] = {2: CheckVerdict.PASSED}  # type: ignore[index]
    assert disagreements(
        stored_clients, [client_of_results(version="1.1"), client_of_results("new")]
    ) == [
        "gone: not in the roster",
        "new: never run",
        "some: commit@2 is stored as failed",
        "some: fence@2 is not asked",
        "some: run as 1.0, is 1.1",
        "some: sasl@2 was not asked",
    ]


# The Go clients' versions in the roster are the ones that are compiled in.


_MODULES = {
    "franz-go": "github.com/twmb/franz-go",
    "Sarama": "github.com/IBM/sarama",
    "confluent-kafka-go": "github.com/confluentinc/confluent-kafka-go/v2",
}


@pytest.mark.parametrize("client", CLIENTS, ids=[client.name for client in CLIENTS])
def test_a_version_is_that_of_the_module(client: Client) -> None:
    required = dict(re.findall(r"^\t(\S+) v(\S+)$", (GO_SOURCES / "go.mod").read_text(), re.M))
    assert required[_MODULES[client.name]] == client.version


def test_every_program_has_its_package() -> None:
    assert all((GO_SOURCES / program_name / "main.go").exists() for program_name in GO_PROGRAMS)
