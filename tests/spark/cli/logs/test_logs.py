"""``txnsim logs``: what is written, collected, exported and described."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.full_disk import little_room
from tests.support.log_dirs import sound_batches, write_disk
from tests.support.logs import NOW, LogDriver, plain
from tests.support.position_logs import ORDERS, commit_record, offsets_log, position_batch
from tests.support.txnsim_server import TxnsimServer
from txnsim.cli.main import main
from txnsim.errors import BadInputError
from txnsim_spark.cli.logs import _command as logs
from txnsim_spark.cli.logs import _describe as describe
from txnsim_spark.cli.logs._stores import with_local_copies
from txnsim_spark.cli.logs._waiting_groups import COLUMNS
from txnsim_spark.cli.logs.spark import add_directory_arguments, add_master_argument
from txnsim_spark.questions.waiting_groups import Waiter, WaitingGroups

pytest.importorskip("duckdb", reason="the extra spark is not installed")

# ``write``: ``txnsim logs write``, against a running simulator.


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
    printed_lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in printed_lines] == [
        str(tmp_path / "logs" / "broker-1"),
        str(tmp_path / "logs" / "broker-2"),
    ]
    stored_segment_file = tmp_path / "logs" / "broker-1" / "orders-0" / "00000000000000000000.log"
    assert sound_batches(stored_segment_file) == ([], None)


def test_one_broker_as_json(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "write", str(tmp_path), "--url", url, "--broker", "2", "--json"]) == 0
    (broker_row,) = json.loads(capsys.readouterr().out)
    assert (broker_row["broker"], broker_row["directory"]) == (2, str(tmp_path / "broker-2"))
    files = [path for path in (tmp_path / "broker-2").rglob("*") if path.is_file()]
    assert broker_row["files"] == len(files)
    assert broker_row["bytes"] == sum(path.stat().st_size for path in files)


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
    errors = capsys.readouterr().err
    assert errors.startswith(f"txnsim: {logs / 'broker-1'}: File too large; nothing of it is there")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_a_stopped_brokers_directory_as_it_was(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_directory = their_disk(tmp_path / "theirs", 0, 1)
    content_before_by_path = {
        path: path.read_bytes() for path in log_directory.rglob("*") if path.is_file()
    }
    with little_room(file_bytes_max=60):
        assert (
            main(["logs", "write", "--into", str(log_directory), "--topic", "orders", "--url", url])
            == 2
        )
    assert "File too large; make room" in capsys.readouterr().err
    assert {
        path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    } == content_before_by_path


def test_what_is_wrong_is_told(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write = ["logs", "write", str(tmp_path)]
    assert main([*write, "--url", url, "--broker", "9"]) == 2
    assert "there is no broker 9" in capsys.readouterr().err
    assert main([*write, "--url", "http://127.0.0.1:1"]) == 2
    assert "start one with `txnsim serve --http`" in capsys.readouterr().err
    assert main([*write, "--url", "ftp://127.0.0.1:9080"]) == 2
    assert "expected http://HOST:PORT" in capsys.readouterr().err


def test_the_control_port_is_where_the_other_commands_look_for_it(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = ["logs", "write", "--broker", "1"]
    assert main([*write, str(tmp_path / "a"), "--http", url.removeprefix("http://")]) == 0
    monkeypatch.setenv("TXNSIM_HTTP", url)
    assert main([*write, str(tmp_path / "b")]) == 0
    assert main([*write, str(tmp_path / "c"), "--http", "1"]) == 2


# Into the directories of a stopped broker


def their_disk(path: Path, *partitions: int, topic: str = "orders") -> Path:
    write_disk(path, {(topic, partition_index): LogDriver().log for partition_index in partitions})
    return path


def test_records_go_into_a_stopped_brokers_directory(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first_log_directory, second_log_directory = (
        their_disk(tmp_path / "a", 0, 1),
        their_disk(tmp_path / "b", 1),
    )
    into = [
        "logs",
        "write",
        "--into",
        str(first_log_directory),
        "--into",
        str(second_log_directory),
        "--topic",
        "orders",
    ]
    assert main([*into, "--url", url]) == 0
    printed_lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in printed_lines] == [
        str(first_log_directory / "orders-0"),
        str(first_log_directory / "orders-1"),
        str(second_log_directory / "orders-1"),
    ]
    assert printed_lines[0].endswith("0 bytes of records, up to offset 0")
    assert main([*into, "--url", url, "--json"]) == 0
    assert [replica["end_offset"] for replica in json.loads(capsys.readouterr().out)] == [0, 0, 0]


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
    ("arguments", "message"),
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
    message: str,
) -> None:
    log_directory = their_disk(tmp_path / "disk", 0, topic="small")
    argv = [str(log_directory) if argument == "DIR" else argument for argument in arguments]
    assert main(["logs", "write", *argv, "--url", url]) == 2
    assert message in capsys.readouterr().err


def test_a_topic_with_other_partitions_is_refused(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_directory = their_disk(tmp_path, 0)
    assert (
        main(["logs", "write", "--into", str(log_directory), "--topic", "orders", "--url", url])
        == 2
    )
    assert "the simulator has the partitions [0, 1], the directories given [0]" in (
        capsys.readouterr().err
    )


# ``collect``: ``txnsim logs collect``.


AS_OF = ["--as-of", str(NOW + 3_600_000)]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    driver = LogDriver()
    driver.txn(0)
    broker_dir = BrokerDir(tmp_path / "broker-1")
    broker_dir.replica(driver)
    broker_dir.coordinator(move("Empty"))
    return broker_dir.kill()


def test_a_misuse_has_its_status(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "taken"
    file.write_text("")
    assert main(["logs", "find-hanging", str(file)]) == 2
    assert main(["logs", "find-hanging", str(file), str(log_dir)]) == 2
    assert "taken is no directory" in capsys.readouterr().err


# ``txnsim logs waiting``.


WAITING_GROUPS_AS_OF = str(NOW + 60_000)


def words(tmp_path: Path, *, is_open: bool = True, has_positions: bool = True) -> list[str]:
    driver = LogDriver()
    driver.txn(0)
    if not is_open:
        driver.end(committed=True)
    broker_dir = BrokerDir(tmp_path / "broker-1")
    broker_dir.replica(driver)
    broker_dir.coordinator(move("Ongoing", ORDERS))
    if has_positions:
        offsets_log(broker_dir.path, position_batch(commit_record(0, "readers")))
    return ["logs", "waiting", str(broker_dir.stop()), "--as-of", WAITING_GROUPS_AS_OF]


def test_a_line_per_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(tmp_path)) == 3
    headers, row = capsys.readouterr().out.splitlines()
    assert tuple(headers.split()) == tuple(COLUMNS)
    assert row.split() == [
        *("readers", "orders", "0", "0", "0", "1", "0", "1", "7", "app"),
        *("2023-11-14T22:13:20Z", "alive"),
    ]


def test_waiting_groups_json_has_the_documented_fields(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words(tmp_path), "--json"]) == 3
    waiting_groups = json.loads(capsys.readouterr().out)
    assert tuple(waiting_groups) == WaitingGroups.__struct_fields__
    assert tuple(waiting_groups["waiters"][0]) == Waiter.__struct_fields__
    documented_text = Path("docs/logs-reference.md").read_text()
    assert all(
        f"`{name}`" in documented_text for name in (*waiting_groups, *waiting_groups["waiters"][0])
    )


def test_nobody_waits_and_nobody_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(tmp_path / "a", is_open=False)) == 0
    assert main(words(tmp_path / "b", has_positions=False)) == 4
    output = capsys.readouterr()
    assert "No partition of __consumer_offsets is among the directories" in output.err
    assert "orders-0: records are withheld, and no group has a position there" in output.out


def test_waiting_groups_a_misuse_has_its_status(tmp_path: Path) -> None:
    assert main(["logs", "waiting", str(tmp_path / "nothing")]) == 2


# ``txnsim logs``: its actions.


@pytest.mark.parametrize("action_name", logs.ACTIONS)
def test_each_action_says_what_it_takes(
    action_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", action_name, "--help"]) == 0
    output = capsys.readouterr().out
    assert output.startswith(f"usage: txnsim logs {action_name} ")
    assert "--json" in output


def test_an_action_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs"]) == 2
    assert "ACTION" in capsys.readouterr().err


@pytest.mark.parametrize("error", [BadInputError("no log"), FileNotFoundError(2, "gone", "x")])
def test_what_can_not_be_read_is_said(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_args: argparse.Namespace) -> int:
        raise error

    monkeypatch.setattr(describe, "run", run)
    assert main(["logs", "describe", "d"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("no log" in captured.err) or ("x: gone" in captured.err)


def test_a_reader_that_goes_away_is_no_misuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_args: argparse.Namespace) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(describe, "run", run)
    with pytest.raises(BrokenPipeError):
        logs.run(argparse.Namespace(action="describe"))


# Arguments that name no store are left as they are; stores: tests/spark/pipeline/test_stores.


def test_directories_of_this_machine_start_nothing() -> None:
    args = argparse.Namespace(directory=[Path("a")], master=None)
    with ExitStack() as stack:
        with_local_copies(args, stack)
    assert args.directory == [Path("a")]
    assert args.master is None


def test_what_hadoop_reads_stays_text() -> None:
    parser = argparse.ArgumentParser()
    add_directory_arguments(parser)
    args = parser.parse_args(["file:///a%20b", "s3a://b/x", "--spark-conf", "spark.a=b=c"])
    assert args.directory == [Path("/a b"), "s3a://b/x"]
    assert args.spark_conf == [("spark.a", "b=c")]


# What actions on Spark have in common; their sessions are judged in tests/spark/pipeline.


def test_directories_topics_and_a_master_are_taken() -> None:
    parser = argparse.ArgumentParser()
    add_directory_arguments(parser)
    add_master_argument(parser)
    args = parser.parse_args(["a", "b", "--topic", "t", "--topic", "u", "--master", "local[2]"])
    assert args.directory == [Path("a"), Path("b")]
    assert (args.topic, args.master) == (["t", "u"], "local[2]")
