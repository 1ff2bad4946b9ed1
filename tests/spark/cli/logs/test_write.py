"""``txnsim logs write``, against a running simulator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.full_disk import little_room
from tests.support.log_dirs import sound_batches, write_disk
from tests.support.logs import LogDriver, plain
from tests.support.txnsim_server import TxnsimServer
from txnsim.cli.main import main


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    arguments = ("--http", "0", "--topic", "orders:2")
    with TxnsimServer(brokers=2, arguments=arguments) as server:
        assert server.http is not None
        yield server.http


@pytest.mark.slow
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


def test_a_full_disk_leaves_no_directory_of_any_broker(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = tmp_path / "logs"
    with little_room(file_bytes_max=10):
        assert main(["logs", "write", str(logs), "--url", url]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"txnsim: {logs / 'broker-1'}: File too large; nothing of it is there")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_a_stopped_brokers_directory_as_it_was(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = their_disk(tmp_path / "theirs", 0, 1)
    before = {path: path.read_bytes() for path in disk.rglob("*") if path.is_file()}
    with little_room(file_bytes_max=60):
        assert main(["logs", "write", "--into", str(disk), "--topic", "orders", "--url", url]) == 2
    assert "File too large; make room" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


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


# Into the directories of a stopped broker


def their_disk(path: Path, *partitions: int, topic: str = "orders") -> Path:
    write_disk(path, {(topic, index): LogDriver().log for index in partitions})
    return path


def test_records_go_into_a_stopped_brokers_directory(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = their_disk(tmp_path / "a", 0, 1), their_disk(tmp_path / "b", 1)
    into = ["logs", "write", "--into", str(first), "--into", str(second), "--topic", "orders"]
    assert main([*into, "--url", url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        str(first / "orders-0"),
        str(first / "orders-1"),
        str(second / "orders-1"),
    ]
    assert lines[0].endswith("0 bytes of records, up to offset 0")
    assert main([*into, "--url", url, "--json"]) == 0
    assert [one["end_offset"] for one in json.loads(capsys.readouterr().out)] == [0, 0, 0]


def test_what_is_there_is_replaced_only_when_asked(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = LogDriver()
    driver.append(plain())
    write_disk(tmp_path, {("orders", 0): driver.log, ("orders", 1): LogDriver().log})
    into = ["logs", "write", "--into", str(tmp_path), "--topic", "orders", "--url", url]
    assert main(into) == 2
    assert f"{tmp_path / 'orders-0'}: there are records already; --replace" in (
        capsys.readouterr().err
    )
    assert main([*into, "--replace"]) == 0
    assert sound_batches(tmp_path / "orders-0" / f"{0:020d}.log") == ([], None)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "name a DIR to make, or with --into"),
        (("DIR", "--into", "DIR"), "name a DIR to make, or with --into"),
        (("--into", "DIR"), "--into: say with --topic"),
        (("--into", "DIR", "--topic", "t", "--broker", "1"), "--broker: with --into"),
        (("DIR", "--topic", "t"), "--topic: only with --into"),
        (("DIR", "--replace"), "--replace: only with --into"),
        (("--into", "DIR", "--topic", "other"), "no replica of topic other is there"),
        (("--into", "DIR", "--topic", "small"), "the simulator has the partitions []"),
        (("--into", "nowhere", "--topic", "small"), "nowhere is no log directory"),
    ],
)
def test_a_misuse_is_told(
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    told: str,
) -> None:
    disk = their_disk(tmp_path / "disk", 0, topic="small")
    argv = [str(disk) if one == "DIR" else one for one in arguments]
    assert main(["logs", "write", *argv, "--url", url]) == 2
    assert told in capsys.readouterr().err


def test_a_topic_with_other_partitions_is_refused(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = their_disk(tmp_path, 0)
    assert main(["logs", "write", "--into", str(disk), "--topic", "orders", "--url", url]) == 2
    assert "the simulator has the partitions [0, 1], the directories given [0]" in (
        capsys.readouterr().err
    )
