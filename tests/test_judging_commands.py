"""A command that judges never says that all is well of an input in which it understood nothing.

The table has every command whose help explains its exit status, and what it is given instead of
what it expects. The rest judge nothing that they are given, for the reason beside them.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tarfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.support.alone import ROOT
from tests.support.clusters import VirtualCluster, begin_transaction, run_cluster
from tests.support.hostile_brokers import HOSTILE_BROKERS, hostile_broker
from txnsim.cli.main import main
from txnsim.runtime.trace import TraceLevel
from txnsim.server.log_dirs import log_dir_of
from txnsim.storage.stored_file import tar_of
from txnsim.types import BrokerId

FILES: Final = ("empty", "blank", "words", "binary", "object", "list", "missing", "a folder")
DIRECTORIES: Final = ("missing", "empty folder", "strange folder", "no segment", "binary segment")
NO_FILES: Final[dict[str, Callable[[Path], None]]] = {
    "a named pipe": os.mkfifo,
    "a device without an end": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("gone"),
}
"""What somebody may leave in the place of a file; none is waited for."""
FILE_ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "badge": ("badge", "{}"),
    "check": ("check", "{}"),
    "check-hypothesis": ("check-hypothesis", "{}"),
    "diff": ("diff", "{}", "{}"),
    "explain": ("explain", "lso", "orders-0", "{}"),
    "explore": ("explore", "{}"),
    "logs dumped": ("logs", "dumped", "{}"),
    "scenario": ("scenario", "check", "{}"),
    "trace analyse": ("trace", "analyse", "{}"),
    "trace brief": ("trace", "brief", "{}"),
    "trace convert": ("trace", "convert", "{}", "--as", "mermaid"),
    "trace open": ("trace", "open", "{}"),
}
"""Commands that are given a file."""
DIRECTORY_ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "logs decisions": ("logs", "decisions", "{}"),
    "logs find-hanging": ("logs", "find-hanging", "{}"),
    "logs timeline": ("logs", "timeline", "shop", "{}"),
    "logs verify": ("logs", "verify", "{}"),
    "logs waiting": ("logs", "waiting", "{}"),
}
"""Commands that are given log directories."""
IMPATIENT: Final = "request.timeout.ms=300\ndefault.api.timeout.ms=900\n"
IMPATIENT_CLIENT: Final = ("--command-config", "impatient.properties")
ASKING: Final = ("--bootstrap-server", "{}", *IMPATIENT_CLIENT)
ELSEWHERE: Final = {
    "conformance": "a broker that answers nothing: tests/lab/conformance/test_conformance.py",
    "explain error": "looks a name or a message up in a page; nothing found is 1",
    "lesson": "plays its own story",
    "logs describe": "says what lies there, and judges nothing",
    "logs sql": "answers a question of yours, whatever it is",
    "referee": "plays its own runs of two designs; a wrong plug-in is refused",
    "simulate": "makes its own runs",
    "stream": "has no end of its own; it needs Spark",
    "trace export": "copies, and judges nothing; it needs Spark",
    "txns commit": "asks brokers: tests/broker/cli/txns",
    "txns decisions": "asks brokers: tests/broker/client/inspection/test_decisions.py",
    "txns find-hanging": "asks brokers: tests/broker/cli/txns",
}


@pytest.fixture
def input_files(tmp_path: Path) -> dict[str, Path]:
    """Each kind of input, with the ending that a story has."""
    texts = {
        "empty": b"",
        "blank": b"\n\n",
        "words": b'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n',
        "binary": bytes(range(256)) * 4,
        "object": b"{}\n",
        "list": b"[]\n",
    }
    paths = {name: tmp_path / f"{name}.yaml" for name in (*texts, "missing")}
    for file_name, text in texts.items():
        paths[file_name].write_bytes(text)
    for file_name in ("a folder", "empty folder"):
        paths[file_name] = tmp_path / file_name
        paths[file_name].mkdir()
    paths["strange folder"] = tmp_path / "strange"
    (paths["strange folder"] / "photos").mkdir(parents=True)
    paths["no segment"] = tmp_path / "none"
    (paths["no segment"] / "orders-0").mkdir(parents=True)
    (paths["no segment"] / "orders-0" / "readme.txt").write_text("gone")
    paths["binary segment"] = tmp_path / "damaged"
    (paths["binary segment"] / "orders-0").mkdir(parents=True)
    segment = paths["binary segment"] / "orders-0" / "00000000000000000000.log"
    segment.write_bytes(b"\xff" * 3_000)
    return paths


@pytest.mark.parametrize("input_file_kind", FILES)
@pytest.mark.parametrize("command", FILE_ARGUMENTS)
def test_a_file_that_says_nothing_is_not_all_well(
    command: str,
    input_file_kind: str,
    input_files: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    refuse(FILE_ARGUMENTS[command], input_files[input_file_kind], capsys)


@pytest.mark.parametrize("input_file_kind", DIRECTORIES)
@pytest.mark.parametrize("command", DIRECTORY_ARGUMENTS)
def test_directories_without_a_log_are_not_all_well(
    command: str,
    input_file_kind: str,
    input_files: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    refuse(DIRECTORY_ARGUMENTS[command], input_files[input_file_kind], capsys)


@pytest.mark.parametrize("command", DIRECTORY_ARGUMENTS)
def test_a_topic_that_no_directory_has_is_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = tmp_path / "orders-0" / "00000000000000000000.log"
    segment.parent.mkdir()
    segment.write_bytes(b"")
    status = main([*fill_words(DIRECTORY_ARGUMENTS[command], tmp_path), "--topic", "ordes"])
    assert status == 2
    assert "no replica of 'ordes'; did you mean orders?" in capsys.readouterr().err


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("command", DIRECTORY_ARGUMENTS)
def test_a_log_of_which_a_part_is_no_file_is_not_all_well(
    command: str,
    kind: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    sound_log_dir: Callable[[], Path],
) -> None:
    log_dir = sound_log_dir()
    folder = log_dir / "orders-1"
    segment = folder / "00000000000000000000.log"
    for path in sorted(folder.iterdir()):
        path.unlink()
    NO_FILES[kind](segment)
    status = main(fill_words(DIRECTORY_ARGUMENTS[command], log_dir))
    output = capsys.readouterr()
    assert status != 0
    assert "orders-1" in output.out + output.err
    assert "Traceback" not in output.err
    assert "[Errno" not in output.err


@pytest.mark.parametrize("command", DIRECTORY_ARGUMENTS)
def test_a_sound_log_is_all_well(
    command: str,
    sound_log_dir: Callable[[], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without damage the same commands find nothing, so the other tests' statuses come from the
    damage.
    """
    status = main(fill_words(DIRECTORY_ARGUMENTS[command], sound_log_dir()))
    assert status == (4 if command == "logs waiting" else 0), capsys.readouterr()


@pytest.fixture
def sound_log_dir(tmp_path: Path) -> Callable[[], Path]:
    """Writes a log directory of one broker with a transaction of ``shop`` over two partitions."""

    def write() -> Path:
        with tarfile.open(fileobj=io.BytesIO(sound_log_archive())) as archive:
            archive.extractall(tmp_path / "broker", filter="data")
        return tmp_path / "broker"

    return write


@cache
def sound_log_archive() -> bytes:
    async def commit(cluster: VirtualCluster) -> bytes:
        async with cluster.client() as client:
            producer = await begin_transaction(client, "shop")
            for partition in (0, 1):
                await producer.send("orders", partition, b"v")
            await producer.commit()
        log_files = log_dir_of(cluster.sim, BrokerId(1))
        return b"".join(tar_of(log_files, modified_ms=cluster.env.clock.now_ms()))

    return run_cluster(commit, brokers=1)


def test_a_replica_of_which_no_batch_can_be_read_is_not_sound(
    input_files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The finding is a notice and not an error, because a broker recovers such a replica."""
    assert main(["logs", "verify", str(input_files["binary segment"])]) == 4
    assert "notice no-batch: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "has_end"),
    [
        (("diff", "{0}", "{0}"), True),
        (("diff", "{1}", "{1}"), False),
        (("diff", "{0}", "{1}"), None),
        (("explain", "lso", "orders-0", "{0}"), True),
        (("explain", "lso", "orders-0", "{1}"), False),
        (("explain", "lso", "orders-0", "{1}", "--at", "{2}"), True),
    ],
)
def test_of_a_trace_that_was_cut_off_nothing_is_said_of_its_end(
    arguments: tuple[str, ...],
    has_end: bool | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = _trace_of_a_transaction()
    paths = [tmp_path / "whole.jsonl", tmp_path / "half.jsonl"]
    paths[0].write_bytes(b"".join(lines))
    paths[1].write_bytes(b"".join(lines[: len(lines) // 2]))
    status = main([argument.format(*paths, len(lines) // 2 - 2) for argument in arguments])
    assert status == {True: 0, False: 4, None: 1}[has_end]
    assert ("has no trailer" in capsys.readouterr().err) == (has_end is not True)


def _trace_of_a_transaction() -> list[bytes]:
    async def commit(cluster: VirtualCluster) -> bytes:
        async with cluster.client() as client:
            producer = await begin_transaction(client, "t")
            await producer.send("orders", 0, b"v")
            await producer.commit()
        return b"".join(cluster.env.tracer.pieces())

    trace = run_cluster(commit, brokers=1, trace_level=TraceLevel.FULL)
    return trace.splitlines(keepends=True)


BROKER_ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "conformance": ("conformance", "{}", "--patience", "1", "--only", "leader/metadata"),
    "groups describe": ("groups", *ASKING, "describe", "shop"),
    "scenario run": ("scenario", "run", "z01", "--on", "{}", "--yes", *IMPATIENT_CLIENT),
    "txns decisions": ("txns", *ASKING, "decisions"),
    "txns describe": ("txns", *ASKING, "describe", "--transactional-id", "shop"),
    "txns describe-producers": (
        *("txns", *ASKING, "describe-producers"),
        *("--topic", "orders", "--partition", "0"),
    ),
    "txns find-hanging --all": ("txns", *ASKING, "find-hanging", "--all"),
    "txns find-hanging --broker-id": ("txns", *ASKING, "find-hanging", "--broker-id", "1"),
    "txns find-hanging --topic": ("txns", *ASKING, "find-hanging", "--topic", "orders"),
    "txns repair": ("txns", *ASKING, "repair", "--audit-file", "audit.jsonl"),
    "txns why": ("txns", *ASKING, "why", "orders", "0"),
}
"""Commands that ask a cluster, and judge it."""


@pytest.mark.slow
@pytest.mark.parametrize("broker_kind", ["missing", *HOSTILE_BROKERS])
@pytest.mark.parametrize("command", BROKER_ARGUMENTS)
def test_a_cluster_that_answers_nothing_of_use_is_not_all_well(
    command: str,
    broker_kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "impatient.properties").write_text(IMPATIENT)
    with contextlib.ExitStack() as stack:
        if broker_kind == "missing":
            address = "127.0.0.1:1"
        else:
            address = stack.enter_context(hostile_broker(HOSTILE_BROKERS[broker_kind]))
        status = main([argument.format(address) for argument in BROKER_ARGUMENTS[command]])
    output = capsys.readouterr()
    assert status != 0, output
    assert output.err.strip()
    assert "Traceback" not in output.err
    assert "[Errno" not in output.err


def refuse(arguments: Sequence[str], path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(fill_words(arguments, path))
    output = capsys.readouterr()
    assert status != 0
    assert output.err.strip() or "missing: " in output.out
    assert "Traceback" not in output.err
    assert "[Errno" not in output.err


def fill_words(arguments: Sequence[str], path: Path) -> list[str]:
    return [argument.format(path) for argument in arguments]


def test_every_command_with_an_exit_status_of_its_own_is_in_the_table() -> None:
    sections = re.split(r"^## txnsim ", (ROOT / "docs/cli.md").read_text(), flags=re.MULTILINE)[1:]
    judging = {
        section.splitlines()[0]
        for section in sections
        if re.search(r"exit\s+status:?\s+\d", section, re.IGNORECASE)
    }
    assert judging == {*FILE_ARGUMENTS, *DIRECTORY_ARGUMENTS, *ELSEWHERE}
