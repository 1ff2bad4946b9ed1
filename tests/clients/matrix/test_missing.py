"""On a machine without toolchains every client that needs one is told missing, and none passes."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Final

import pytest

from tests.clients.matrix import run
from tests.clients.matrix.bench import Bench
from tests.clients.matrix.client import Client
from tests.clients.matrix.matrix import Matrix
from tests.clients.matrix.questions import questions
from tests.clients.matrix.rosters import clients
from tests.clients.matrix.verdicts import CheckVerdict
from tests.support import apache_kafka, foreign_clients, package_clients
from tests.support.apache_kafka import ApacheKafkaError
from tests.support.foreign_clients import ForeignClientError

TOOLCHAINS: Final = {"Go": "go", "Java": "mvn", "Node.js": "node", "Rust": "cargo"}
"""What is looked for first; clients in Python come with the project's own environment."""
FOREIGN: Final = [client for client in clients() if client.language in TOOLCHAINS]


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing on the path, and nothing that was built before."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    for module in (apache_kafka, foreign_clients, package_clients):
        monkeypatch.setattr(module, "CACHE", tmp_path / "cache")


def test_every_language_needs_a_toolchain_or_is_our_own() -> None:
    assert {client.language for client in clients()} == {*TOOLCHAINS, "Python"}


@pytest.mark.parametrize("client", FOREIGN, ids=[client.name for client in FOREIGN])
def test_a_program_without_its_toolchain_says_which_one_is_not_there(client: Client) -> None:
    with pytest.raises((ForeignClientError, ApacheKafkaError)) as error_info:
        client.command()
    assert f"{TOOLCHAINS[client.language]} not found" in str(error_info.value)


def test_every_check_of_a_missing_client_is_missing() -> None:
    selected, _limits = questions(FOREIGN)
    results = Matrix(Bench()).ask(selected, lane_count=2)
    assert len(results) == sum(len(question.checks) for question in selected)
    assert {check_result.verdict for check_result in results} == {CheckVerdict.MISSING}
    assert all("not found" in check_result.reason for check_result in results)


def test_a_run_without_toolchains_fails_and_counts_them_as_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    names = ("franz-go", "kafka-clients", "kafkajs", "rdkafka")
    status = run.main(["--client", *names, "--level", "2", "--check", "commit"])
    *lines, note, count = capsys.readouterr().out.splitlines()
    assert status == 1
    assert count == f"0 passed, {len(names)} failed"
    assert note == f"{len(names)} of the failed ones could not be asked: no toolchain"
    for name in names:
        assert any(line.startswith(f"FAIL {name}@2 missing: ") for line in lines), lines


def test_building_without_toolchains_fails_for_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert run.main(["--build", "--client", "franz-go", "rdkafka"]) == 1
    printed_lines = capsys.readouterr().out.splitlines()
    assert printed_lines[-1] == "0 passed, 2 failed"
    assert {line.partition(":")[0] for line in printed_lines[:-1]} == {
        "FAIL franz-go",
        "FAIL rdkafka",
    }
