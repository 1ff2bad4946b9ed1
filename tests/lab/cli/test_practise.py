from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.txnsim_server import TxnsimServer
from txnsim.cli.main import main

Typed = Callable[[str], tuple[int, str]]


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typed:
    """What a printed command does, from an empty folder; a remark in brackets is not part of it."""
    monkeypatch.chdir(tmp_path)

    def type_it(line: str) -> tuple[int, str]:
        capsys.readouterr()
        program, *words = line.partition(" (")[0].split()
        assert program == "txnsim"
        status = main(words)
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return type_it


@pytest.mark.costly
@pytest.mark.slow
def test_the_printed_commands_find_and_repair_what_hangs(typed: Typed) -> None:
    with TxnsimServer(practise=True, arguments=("--http", "0", "--json")) as server:
        exercise = json.loads(server.wait_for_output('"exercise"'))["exercise"]
        assert exercise == server.ready["exercise"]
        with urllib.request.urlopen(f"{server.http}/api/v1/report", timeout=60) as answer:
            assert "nothing was recorded" not in answer.read().decode()
        with urllib.request.urlopen(f"{server.http}/", timeout=60) as answer:
            assert b"<title>txnsim" in answer.read()
        commands = [line.strip() for line in exercise if line.startswith("  txnsim txns ")]
        outcomes = [typed(line) for line in commands]
        assert [status for status, _ in outcomes] == [3, 3, 3, 0]
        assert "hanging: 1; decided and not yet marked: 1; old and alive: 1" in outcomes[0][1]
        assert "It hangs. It was not committed: end it with ABORT" in outcomes[1][1]
        assert " To end it: txnsim txns " in outcomes[1][1]
        assert "would be repaired" in outcomes[2][1]
        assert "0 -> 2" in outcomes[3][1]
        (release,) = (line.partition(": ")[2] for line in exercise if "faults release" in line)
        assert typed(release) == (0, "let go 1\n")


@pytest.mark.costly
@pytest.mark.slow
def test_it_goes_on_with_copies_of_disks(tmp_path: Path, typed: Typed) -> None:
    disks = tmp_path / "disks"
    with TxnsimServer(practise=True, arguments=("--http", "0")) as made:
        assert main(["logs", "write", str(disks), "--url", str(made.http)]) == 0
    directories = sorted(map(str, disks.iterdir()))
    assert len(directories) == 3
    with TxnsimServer(practise=True, arguments=("--http", "0", *directories)) as server:
        printed = server.wait_for_output("docs/practise.md")
        assert "loaded " in printed
        found = [line for line in printed.splitlines() if "find-hanging" in line]
        status, told = typed(found[0])
    assert status == 3
    assert "orders-0 at offset 0: transactional id billing is Empty" in told


def test_what_is_no_directory_of_a_broker_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["practise", "--port", "0", "--http", "0", str(tmp_path)]) == 2
    assert "meta.properties" in capsys.readouterr().err
