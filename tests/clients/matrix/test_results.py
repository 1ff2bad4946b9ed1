"""What is kept of the matrix: whole, current, and passed."""

from __future__ import annotations

from pathlib import Path

from tests.clients.matrix.client import CHECKS, Client
from tests.clients.matrix.results import disagreements, load, merged, save
from tests.clients.matrix.rosters import clients
from tests.clients.matrix.verdicts import CheckVerdict, Result


def client(name: str = "some", version: str = "1.0") -> Client:
    return Client(
        name=name,
        version=version,
        language="None",
        command=list,
        checks=("commit", "sasl"),
        limits={"tls": "no API", "commit@0": "a bug"},
    )


def passed(name: str, check: str, level: int) -> Result:
    return Result(name, "1.0", "None", level, check, CheckVerdict.PASSED, "", 1.5)


RESULTS = [passed("some", "commit", 1), passed("some", "commit", 2), passed("some", "sasl", 2)]


def test_names_in_the_roster_are_unique() -> None:
    names = [each.name for each in clients()]
    assert len(set(names)) == len(names)


def test_what_is_kept_is_every_check_of_the_roster_and_passed() -> None:
    """Else: ``python -m tests.clients.matrix.run --client NAME --write``."""
    assert disagreements(load(), clients()) == []


def test_further_checks_begin_with_words_of_the_client() -> None:
    for each in clients():
        further = set(each.checks) - set(CHECKS)
        assert set(each.everywhere) <= further, each.name
        stems = {check.partition("-")[0] for check in further}
        assert len(stems) <= 2, f"{each.name}: {stems}"


def test_results_come_back_as_they_were_kept(tmp_path: Path) -> None:
    kept = merged({}, [client()], RESULTS)
    save(kept, tmp_path / "results.json")
    assert load(tmp_path / "results.json") == kept
    assert kept["some"].verdicts == {
        "commit": {0: CheckVerdict.LIMIT, 1: CheckVerdict.PASSED, 2: CheckVerdict.PASSED},
        "tls": {2: CheckVerdict.LIMIT},
        "sasl": {2: CheckVerdict.PASSED},
    }


def test_nothing_is_kept_where_nothing_is(tmp_path: Path) -> None:
    assert load(tmp_path / "results.json") == {}


def test_a_new_run_replaces_its_clients_and_no_other() -> None:
    kept = merged({}, [client(), client("other")], RESULTS)
    again = merged(kept, [client(version="2.0")], [])
    assert again["other"] == kept["other"]
    assert again["some"].version == "2.0"
    assert "sasl" not in again["some"].verdicts


def test_a_whole_run_agrees_with_the_roster() -> None:
    assert disagreements(merged({}, [client()], RESULTS), [client()]) == []


def test_every_disagreement_is_told() -> None:
    kept = merged({}, [client(), client("gone")], RESULTS[:2])
    kept["some"].verdicts["commit"][2] = CheckVerdict.FAILED  # type: ignore[index]
    kept["some"].verdicts["fence"] = {2: CheckVerdict.PASSED}  # type: ignore[index]
    assert disagreements(kept, [client(version="1.1"), client("new")]) == [
        "gone: not in the roster",
        "new: never run",
        "some: commit@2 is stored as failed",
        "some: fence@2 is not asked",
        "some: run as 1.0, is 1.1",
        "some: sasl@2 was not asked",
    ]
