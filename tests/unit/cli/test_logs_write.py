"""``txnsim logs write``, against a running simulator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.cli.main import main
from tests.support.log_dirs import sound_batches
from tests.support.txnsim_server import TxnsimServer


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    arguments = ("--http", "0", "--topic", "orders:2")
    with TxnsimServer(brokers=2, arguments=arguments) as server:
        assert server.http is not None
        yield server.http


def test_each_broker_gets_a_folder(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "write", str(tmp_path / "logs"), "--url", url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        str(tmp_path / "logs" / "broker-1"),
        str(tmp_path / "logs" / "broker-2"),
    ]
    stored = tmp_path / "logs" / "broker-1" / "orders-0" / "00000000000000000000.log"
    assert sound_batches(stored) == ([], None)


def test_one_broker_as_json(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "write", str(tmp_path), "--url", url, "--broker", "2", "--json"]) == 0
    (written,) = json.loads(capsys.readouterr().out)
    assert (written["broker"], written["directory"]) == (2, str(tmp_path / "broker-2"))
    files = [path for path in (tmp_path / "broker-2").rglob("*") if path.is_file()]
    assert written["files"] == len(files)
    assert written["bytes"] == sum(path.stat().st_size for path in files)


def test_nothing_is_written_over(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broker-1").mkdir()
    assert main(["logs", "write", str(tmp_path), "--url", url]) == 2
    assert "is there already; name another directory" in capsys.readouterr().err


def test_what_is_wrong_is_told(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write = ["logs", "write", str(tmp_path)]
    assert main([*write, "--url", url, "--broker", "9"]) == 2
    assert "there is no broker 9" in capsys.readouterr().err
    assert main([*write, "--url", "http://127.0.0.1:1"]) == 2
    assert "start one with `serve --http`" in capsys.readouterr().err
    assert main([*write, "--url", "127.0.0.1:9080"]) == 2
    assert "expected http://HOST:PORT" in capsys.readouterr().err
