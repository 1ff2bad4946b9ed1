"""Files, mistakes and variables: what the ground offers, and how it refuses."""

from __future__ import annotations

import argparse
import errno
import io
import os
import tomllib
import uuid
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

from tests.support.full_disk import full_device, little_room
from txnsim import VERSION, files
from txnsim.cli import serve
from txnsim.cli.main import main
from txnsim.cli.parsing import CommandParser
from txnsim.environment_variables import (
    ARRANGED,
    BOOTSTRAP,
    HTTP,
    OPTIONS,
    unknown_variables,
    words_of,
)
from txnsim.errors import ConfigError
from txnsim.faults.plan import FaultRule
from txnsim.files import (
    TO_DO,
    append,
    lines_of,
    place_when_whole,
    problem_of,
    read_given,
    read_whole,
    working_in,
    write_all,
    write_whole,
)
from txnsim.value_errors import WrongValueError, convert_value

# Files are written whole or not at all, and read up to a bound. Links: cli/test_running_server.py.


MUCH = b"x" * 2_000
NO_ROOM = r": File too large; nothing of it is there; make room, or name another place"


def write_folder(target_path: Path, content: bytes, *, reads: Path | None = None) -> None:
    with place_when_whole(target_path) as part_directory:
        part_directory.mkdir()
        (part_directory / "file").write_bytes(content)
        if reads is not None:
            reads.read_bytes()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_that_has_no_room_is_not_left_in_part(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with little_room(), pytest.raises(ConfigError, match=f"--to .*out{NO_ROOM}"):
        write_whole(path, MUCH, error_prefix="--to ")
    assert names(tmp_path) == []
    path.write_text("of before")
    with little_room(), pytest.raises(ConfigError):
        write_whole(path, MUCH)
    assert path.read_text() == "of before"
    assert names(tmp_path) == ["out"]


def test_a_device_that_is_full_is_named(tmp_path: Path) -> None:
    device_file = full_device(tmp_path)
    with pytest.raises(ConfigError, match=r"/full: No space left on device; nothing"):
        write_whole(device_file, MUCH)
    assert device_file.is_char_device()


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe_file = tmp_path / "pipe"
    os.mkfifo(pipe_file)
    reader = os.open(pipe_file, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe_file, "text")
        assert os.read(reader, 10) == b"text"
    finally:
        os.close(reader)
    assert pipe_file.is_fifo()


def test_a_place_that_is_not_there_is_said_without_advice(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere/out: No such file or directory$"):
        write_whole(tmp_path / "nowhere" / "out", "text")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file/out: Not a directory$"):
        write_all(tmp_path / "file", {"out": b""})


@pytest.mark.parametrize(
    ("error", "problem_text"),
    [
        pytest.param(
            UnicodeDecodeError("utf-8", b"ab\xff", 2, 3, "invalid start byte"),
            "byte 2 is no UTF-8: this is no text file",
            id="no text",
        ),
        pytest.param(
            OSError(errno.ENOENT, "No such file or directory"),
            f"No such file or directory; {TO_DO[errno.ENOENT]}",
            id="nothing there",
        ),
        pytest.param(
            OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"),
            f"Connection refused; {TO_DO[errno.ECONNREFUSED]}",
            id="nobody listens",
        ),
        pytest.param(OSError(errno.EIO, "Input/output error"), "Input/output error", id="a disk"),
        pytest.param(OSError("no number"), "no number", id="no number"),
        pytest.param(ValueError("a line is too long"), "a line is too long", id="not of a system"),
    ],
)
def test_a_problem_is_told_with_what_to_do_and_without_numbers(
    error: Exception, problem_text: str
) -> None:
    assert problem_of(error) == problem_text


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
    target_path = tmp_path / "out"
    for content in ("old", "new"):
        with place_when_whole(target_path) as part_directory:
            part_directory.mkdir()
            (part_directory / content).write_text(content)
            assert not (target_path / content).exists()
    assert names(target_path) == ["new"]
    with little_room(), pytest.raises(ConfigError, match=f"out{NO_ROOM}"):
        write_folder(target_path, MUCH)
    assert (names(tmp_path), names(target_path)) == (["out"], ["new"])


def test_what_a_killed_run_has_left_goes(tmp_path: Path) -> None:
    (tmp_path / ".out.part").mkdir()
    (tmp_path / ".out.part" / "half").write_text("")
    with place_when_whole(tmp_path / "out") as part_directory:
        assert not part_directory.exists()
        part_directory.write_text("whole")
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
        pytest.raises(OSError, match="File too large") as error_info,
    ):
        append(file, b"a line that has more bytes than there is room for\n")
    assert error_info.value.filename == str(path)
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
    with (
        little_room(),
        pytest.raises(OSError, match="too large") as error_info,
        working_in(tmp_path),
    ):
        (tmp_path / "file").write_bytes(MUCH)
    assert (error_info.value.errno, error_info.value.filename) == (errno.EFBIG, str(tmp_path))
    with pytest.raises(FileNotFoundError), working_in(tmp_path):
        (tmp_path / "nothing").read_bytes()


# Commands


@pytest.mark.parametrize(
    ("arguments", "expected_text"),
    [
        (("--ready-file", "ready.json"), "--ready-file ready.json: "),
        (("--security", "demo", "--security-dir", "demo"), "/demo/ca.pem: "),
    ],
)
def test_a_command_names_the_file_says_what_to_do_and_leaves_nothing(
    arguments: tuple[str, ...],
    expected_text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with little_room(100):
        assert main(["serve", "--port", "0", *arguments]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("txnsim: ")
    assert expected_text in complaint
    assert "File too large" in complaint
    assert "make room, or name another place, and run the command again" in complaint
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


# Files that people name: so much of one is read, and no more


def test_a_file_within_the_bound_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_given(file, bytes_max=5) == b"12345"
    with pytest.raises(OSError, match="too large") as error_info:
        read_given(file, bytes_max=4)
    assert error_info.value.errno == errno.EFBIG


def test_where_no_file_is_named_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"12345")))
    assert read_given(None) == b"12345"


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


# What is wrong with what people have written.


HELD = {"id": "late", "point": "peer.request", "action": {"do": "hold"}}


class Odd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rows: tuple[int, ...] = ()
    word: Literal["a", "b"] = "a"
    size: Annotated[int, msgspec.Meta(ge=1)] = 1
    many: dict[str, int] = {}
    either: int | bool | None = None
    raw: uuid.UUID | None = None
    stamp: object = None
    inner: FaultRule | None = None


def said(value: object, kind: type = FaultRule) -> list[str]:
    with pytest.raises(WrongValueError) as error_info:
        convert_value(value, kind)
    return str(error_info.value).splitlines()


def test_what_is_right_is_converted() -> None:
    assert convert_value(HELD, FaultRule).id == "late"


def test_all_mistakes_are_named_at_once_with_what_was_meant() -> None:
    first_mistake, second_mistake, third_mistake, fourth_mistake = said(
        {"id": 7, "point": "peer.reqest", "transactionalId": "x", "action": {"do": "dropp"}}
    )
    assert first_mistake.startswith(
        "transactionalId: no field 'transactionalId'; did you mean transactional_id?"
    )
    assert second_mistake == "id: expected a text, found 7"
    assert third_mistake.startswith(
        "point: no value 'peer.reqest'; did you mean peer.request? there are: "
    )
    assert fourth_mistake.startswith("action.do: no action 'dropp'; did you mean drop? there are: ")


@pytest.mark.parametrize(
    ("change", "expected_text"),
    [
        ({"action": {}}, "action: do is missing; there are: "),
        ({"action": {"do": "delay"}}, "action: delay_ms is missing"),
        (
            {"action": {"do": "delay", "delay_ms": 0.5}},
            "action.delay_ms: expected a whole number, found 0.5",
        ),
        ({"action": {"do": "delay", "delay_ms": -1}}, "action: delay_ms"),
        (
            {"action": {"do": "error", "error": "FENCED_PRODUCER"}},
            "action: no Kafka error 'FENCED_PRODUCER'; did you mean PRODUCER_FENCED?",
        ),
        ({"action": "hold"}, 'action: \'hold\' is a name alone: say {"do": "hold"}'),
        ({"occurrences": [1, "x"]}, "occurrences.2: expected a whole number, found 'x'"),
        ({"occurrences": 3}, "occurrences: expected a list, found 3"),
        ({"api": []}, "api: expected a text or a whole number, found []"),
        ({"committed": "yes"}, "committed: expected true or false, found 'yes'"),
        ({"probability": 2}, "probability is 2"),
    ],
)
def test_each_kind_of_mistake(change: dict[str, object], expected_text: str) -> None:
    (line,) = said({**HELD, **change})
    assert line.startswith(expected_text), line


@pytest.mark.parametrize(
    ("value", "expected_text"),
    [
        ({"word": "c"}, "word: no value 'c'; there are: a, b"),
        ({"word": 1}, "word: "),
        ({"size": 0}, "size: expected a whole number >= 1, found 0"),
        ({"many": 1}, "many: expected fields, as NAME: VALUE, found 1"),
        ({"either": "x"}, "either: expected a whole number or true or false, found 'x'"),
        ({"raw": 1}, "raw: Expected `uuid | null`, got `int`"),
        ({"inner": {}}, "inner: id is missing"),
        ([], "expected fields, as NAME: VALUE, found []"),
    ],
)
def test_other_types(value: object, expected_text: str) -> None:
    assert said(value, Odd)[0].startswith(expected_text)


def test_an_element_of_a_list_is_told_by_its_id_too() -> None:
    lines = said([HELD, {**HELD, "nth": "x"}, {"id": 3}], list[FaultRule])
    assert lines[0] == "2 (late).nth: expected a whole number, found 'x'"
    assert lines[1].startswith("3: ")


def test_a_long_list_is_left_out_where_something_near_is_named() -> None:
    wide_struct = msgspec.defstruct(
        "Many", [(f"field_{index}", int, 0) for index in range(50)], forbid_unknown_fields=True
    )
    assert said({"field_x": 1}, wide_struct)[0].endswith("?")


@pytest.mark.parametrize("tag", [{}, [1], 5, None, "x" * 100_000])
def test_what_is_done_may_be_no_word_at_all(tag: object) -> None:
    (complaint,) = said({**HELD, "action": {"do": tag}}, FaultRule)
    assert complaint.startswith("action.do: no action ")
    assert len(complaint) < 500


def test_a_word_in_place_of_an_action_is_told_how_to_say_it() -> None:
    assert said({**HELD, "action": "hold"}) == [
        'action: \'hold\' is a name alone: say {"do": "hold"}'
    ]
    assert said({**HELD, "action": "dropp"})[0].startswith("action: expected ")


def test_of_many_mistakes_some_are_named() -> None:
    assert len(said({**HELD, **{f"x{index}": 1 for index in range(1_000)}}, FaultRule)) == 20
    assert len(said([{}] * 1_000, tuple[FaultRule, ...])) == 20


def parsed(environment: dict[str, str], *arguments: str) -> argparse.Namespace:
    parser = CommandParser()
    serve.add_arguments(parser)
    return parser.parse_args([*words_of(environment, arguments), *arguments])


def test_variables_are_options_of_serve() -> None:
    args = parsed({"TXNSIM_BROKERS": "2", "TXNSIM_TOPICS": "a:3,b", "TXNSIM_KIP_TEXT": "True"})
    assert (args.brokers, args.topic, args.kip_text) == (2, ["a:3", "b:1"], True)
    flags = {flag for flag, _ in OPTIONS.values() if flag}
    parser = CommandParser()
    serve.add_arguments(parser)
    assert flags <= set(parser._option_string_actions)


def test_an_option_wins_over_its_variable() -> None:
    variables = {"TXNSIM_BROKERS": "2", "TXNSIM_TOPICS": "a,b"}
    args = parsed(variables, "--brokers=5", "--topic", "c")
    assert (args.brokers, args.topic) == (5, ["c"])


def test_only_what_a_command_has_options_for() -> None:
    variables = {"TXNSIM_BROKERS": "2", "TXNSIM_PORT": "0"}
    assert words_of(variables, ["practise"], known_options=("--port",)) == ["--port", "0"]


def test_a_value_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="TXNSIM_KIP_TEXT=yes: expected true or false"):
        words_of({"TXNSIM_KIP_TEXT": "yes"}, [])


def test_what_is_off_and_what_is_read_elsewhere_comes_to_no_option() -> None:
    variables = {"TXNSIM_HTTP_PORT": "off", "TXNSIM_TOKEN": "secret", "TXNSIM_KIP_TEXT": "false"}
    assert words_of({**variables, "OTHER": "x"}, []) == []


@pytest.mark.parametrize("variable", [BOOTSTRAP, HTTP, ARRANGED, "TXNSIM_TOKEN", "TXNSIM", "PATH"])
def test_known_variables_and_those_of_others_are_no_problem(variable: str) -> None:
    assert unknown_variables({variable: "x"}) is None


def test_what_kubernetes_sets_is_not_ours() -> None:
    variables = {"TXNSIM_PORT": "tcp://10.0.0.1:9092", "TXNSIM_SERVICE_PORT_KAFKA": "9092"}
    assert unknown_variables(variables) is None
    assert words_of(variables, []) == []


def test_every_misspelt_one_is_named_with_what_was_meant() -> None:
    complaint = unknown_variables(
        {"TXNSIM_TOPIC": "a", "TXNSIM_BOOTSTRAPS": "b", "TXNSIM_WHEEL": "c"}
    )
    assert complaint is not None
    assert complaint.splitlines() == [
        "no variable 'TXNSIM_BOOTSTRAPS'; did you mean TXNSIM_BOOTSTRAP?",
        "no variable 'TXNSIM_TOPIC'; did you mean TXNSIM_TOPICS?",
    ]


@pytest.mark.parametrize("variable", ["TXNSIM_WHEEL", "TXNSIM_SASL_BOOTSTRAP", "TXNSIM_PEER_HTTP"])
def test_names_of_others_are_let_alone(variable: str) -> None:
    assert unknown_variables({variable: "x"}) is None


# The version in the code is that of the distribution.


PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_it_is_the_one_of_pyproject() -> None:
    assert tomllib.loads(PROJECT.read_text("utf-8"))["project"]["version"] == VERSION
