"""Files are written whole or not at all, and read up to a bound. Links: cli/test_ready_file.py."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest

from tests.support.full_disk import full_device, little_room
from txnsim import files
from txnsim.cli.main import main
from txnsim.errors import ConfigError
from txnsim.files import (
    append,
    lines_of,
    read_given,
    read_whole,
    whole,
    working_in,
    write_all,
    write_whole,
)

MUCH = b"x" * 2_000
"""More than there is room for."""
NO_ROOM = r": File too large; nothing of it is there; make room, or name another place"


def write_folder(target: Path, content: bytes, *, reads: Path | None = None) -> None:
    with whole(target) as part:
        part.mkdir()
        (part / "file").write_bytes(content)
        if reads is not None:
            reads.read_bytes()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_that_has_no_room_is_not_left_in_part(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with little_room(), pytest.raises(ConfigError, match=f"--to .*out{NO_ROOM}"):
        write_whole(path, MUCH, what="--to ")
    assert names(tmp_path) == []
    path.write_text("of before")
    with little_room(), pytest.raises(ConfigError):
        write_whole(path, MUCH)
    assert path.read_text() == "of before"
    assert names(tmp_path) == ["out"]


def test_a_device_that_is_full_is_named(tmp_path: Path) -> None:
    device = full_device(tmp_path)
    with pytest.raises(ConfigError, match=r"/full: No space left on device; nothing"):
        write_whole(device, MUCH)
    assert device.is_char_device()


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, "text")
        assert os.read(reader, 10) == b"text"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_place_that_is_not_there_is_said_without_advice(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere/out: No such file or directory$"):
        write_whole(tmp_path / "nowhere" / "out", "text")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file/out: Not a directory$"):
        write_all(tmp_path / "file", {"out": b""})


def test_a_folder_that_can_t_be_made_is_no_bug() -> None:
    with pytest.raises(ConfigError, match=r"^/proc/none/out/a: "):
        write_all(Path("/proc/none/out"), {"a": b""})
    with pytest.raises(ConfigError, match=r"^/proc/none/out: "):
        write_folder(Path("/proc/none/out"), b"")


def test_files_are_written_all_or_none(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "out"
    with little_room(), pytest.raises(ConfigError, match=f"out/b{NO_ROOM}"):
        write_all(folder, {"a": b"small", "b": MUCH, "c": b"small"})
    assert names(tmp_path) == []
    assert write_all(folder, {"a": b"1", "b": b"2"}) == (folder / "a", folder / "b")
    (folder / "other").write_text("stays")
    with little_room(), pytest.raises(ConfigError):
        write_all(folder, {"a": b"new", "c": MUCH})
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "a": "1",
        "b": "2",
        "other": "stays",
    }


def test_a_folder_appears_whole_and_replaces_another_one(tmp_path: Path) -> None:
    target = tmp_path / "out"
    for content in ("old", "new"):
        with whole(target) as part:
            part.mkdir()
            (part / content).write_text(content)
            assert not (target / content).exists()
    assert names(target) == ["new"]
    with little_room(), pytest.raises(ConfigError, match=f"out{NO_ROOM}"):
        write_folder(target, MUCH)
    assert (names(tmp_path), names(target)) == (["out"], ["new"])


def test_what_a_killed_run_has_left_goes(tmp_path: Path) -> None:
    (tmp_path / ".out.part").mkdir()
    (tmp_path / ".out.part" / "half").write_text("")
    with whole(tmp_path / "out") as part:
        assert not part.exists()
        part.write_text("whole")
    assert (tmp_path / "out").read_text() == "whole"


def test_what_can_t_be_read_meanwhile_is_no_error_of_the_target(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="given"):
        write_folder(tmp_path / "out", b"begun", reads=tmp_path / "given")
    assert names(tmp_path) == []


def test_a_line_that_has_no_room_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"x" * 990 + b"\n")
    with (
        little_room(),
        path.open("ab", buffering=0) as file,
        pytest.raises(OSError, match="File too large") as caught,
    ):
        append(file, b"a line that has more bytes than there is room for\n")
    assert caught.value.filename == str(path)
    assert path.stat().st_size == 991
    with path.open("ab", buffering=0) as file:
        append(file, b"more\n")
    assert path.read_bytes().endswith(b"x\nmore\n")


def test_what_has_no_end_to_cut_is_named_too() -> None:
    with (
        open("/dev/full", "ab", buffering=0) as device,
        pytest.raises(OSError, match="No space left on device: '/dev/full'"),
    ):
        append(device, b"line\n")
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb", buffering=0) as pipe, pytest.raises(BrokenPipeError):
        append(pipe, b"line\n")


def test_a_temporary_folder_without_room_is_named(tmp_path: Path) -> None:
    with little_room(), pytest.raises(OSError, match="too large") as caught, working_in(tmp_path):
        (tmp_path / "file").write_bytes(MUCH)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path))
    with pytest.raises(FileNotFoundError), working_in(tmp_path):
        (tmp_path / "nothing").read_bytes()


# Commands


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--ready-file", "ready.json"), "--ready-file ready.json: "),
        (("--security", "demo", "--security-dir", "demo"), "/demo/ca.pem: "),
    ],
)
def test_a_command_names_the_file_says_what_to_do_and_leaves_nothing(
    arguments: tuple[str, ...],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with little_room(100):
        assert main(["serve", "--port", "0", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("txnsim: ")
    assert named in said
    assert "File too large" in said
    assert "make room, or name another place, and run the command again" in said
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


# Files that people name: so much of one is read, and no more


def test_a_file_within_the_bound_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_given(file, at_most=5) == b"12345"
    with pytest.raises(OSError, match="too large") as caught:
        read_given(file, at_most=4)
    assert caught.value.errno == errno.EFBIG


def test_a_device_has_no_end_and_is_not_read_to_it() -> None:
    for read in (lambda file: read_whole(file), lambda file: list(lines_of(file))):
        with open("/dev/zero", "rb") as endless, pytest.raises(OSError, match="too large"):
            read(endless)


def test_lines_are_bounded_each_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LINE_BYTES_MAX", 4)
    monkeypatch.setattr(files, "LINES_BYTES_MAX", 8)
    assert list(lines_of(io.BytesIO(b"abc\n\nde"))) == [b"abc\n", b"\n", b"de"]
    for data in (b"abcd\n", b"abc\nabc\nd"):
        with pytest.raises(OSError, match="too large"):
            list(lines_of(io.BytesIO(data)))
