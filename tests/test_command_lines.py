"""What all commands have in common: unknown words, files that they write, errors of the system."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.alone import ROOT
from txnsim.cli.commands import commands
from txnsim.cli.main import main, parser_of
from txnsim.cli.parsing import new_file, new_folder, new_folder_or_address
from txnsim.files import TO_DO, problem_of
from txnsim_lab.scenario import catalog

WRITES: Final = re.compile(r"\bwrit(?:e|es|ten|ing)\b|^where to \(")
READ_READY_FILE: Final = "the ready file of `txnsim serve`"


WORDS_OF_LIBRARIES: Final = {
    "sim/txnsim_spark/stores/_native.py": "pyarrow's own sentence, with the address in front",
    "sim/txnsim_spark/streaming/stream.py": "why the connection to Spark's JVM ended",
}


STRERROR: Final = {
    "sim/txnsim/cli/_serve_load.py": "a file inside a folder that people named: no advice fits",
    "sim/txnsim/cli/main.py": "a full disk",
    "sim/txnsim/cli/output.py": "any error, with the advice for a full disk",
    "sim/txnsim/cli/serve.py": "a port, with advice of its own",
    "sim/txnsim/client/connection.py": "why a connection could not be had",
    "sim/txnsim/files.py": "the shared place",
    "sim/txnsim/runtime/real_world.py": "raised again as OSError",
    "sim/txnsim/storage/regular_file.py": "damage of a disk that is loaded",
    "sim/txnsim_spark/describe.py": "passed by, and said in a list",
    "sim/txnsim_spark/embedded.py": "raised again as OSError",
    "sim/txnsim_spark/empty_reads.py": "a row of errors",
    "sim/txnsim_spark/file_faults.py": "a row of errors, or an error of its own class",
    "sim/txnsim_spark/forensics/_coordinator_log.py": "passed by, and said in a list",
    "sim/txnsim_spark/forensics/_read_compiled.py": "passed by, and said in a list",
    "sim/txnsim_spark/forensics/find_hanging.py": "passed by, and said in a list",
    "sim/txnsim_spark/forensics/replica_state.py": "passed by, and said in a list",
    "sim/txnsim_spark/planning.py": "passed by, and said in a list",
    "sim/txnsim_spark/questions/_positions.py": "passed by, and said in a list",
    "sim/txnsim_spark/scan/log_dirs.py": "passed by, and said in a list",
    "sim/txnsim_spark/scan/segments.py": "passed by, and said in a list",
    "sim/txnsim_spark/soundness/verify.py": "a part that was not read",
    "sim/txnsim_spark/soundness/violations.py": "a violation",
    "sim/txnsim_spark/stores/_native.py": "raised as OSError",
    "sim/txnsim_spark/tables/_errors.py": "a row of errors",
    "sim/txnsim_spark/traces/tables.py": "raised as OSError",
}
"""Modules that name the words of an error of the system, and why ``problem_of`` is not theirs."""


def options_of(
    parser: argparse.ArgumentParser, path: tuple[str, ...]
) -> Iterator[tuple[str, argparse.Action]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, branch in action.choices.items():
                yield from options_of(branch, (*path, name))
        elif action.option_strings:
            yield f"{' '.join(path)} {action.option_strings[-1]}", action


FOLDERS_WRITTEN: Final = re.compile(
    r"\b(?:write|where|the table's folder|a folder for each|must not be there)\b"
)


def test_every_folder_that_a_command_writes_is_looked_at_before_its_work() -> None:
    late_names = []
    checked_count = 0
    for command in commands():
        for name, action in arguments_of(parser_of(command), ()):
            if action.metavar == "DIR" and FOLDERS_WRITTEN.search(str(action.help or "")):
                is_early = action.type in (new_folder, new_folder_or_address)
                checked_count += is_early
                if not is_early:
                    late_names.append(name)
    assert late_names == []
    assert checked_count == 15


def arguments_of(
    parser: argparse.ArgumentParser, path: tuple[str, ...]
) -> Iterator[tuple[str, argparse.Action]]:
    """Options and arguments, also of commands below."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, branch in action.choices.items():
                yield from arguments_of(branch, (*path, name))
        else:
            yield " ".join((*path, *action.option_strings[-1:])), action


@pytest.mark.parametrize(
    "arguments",
    [
        ("simulate", "--seed", "1", "--out"),
        ("campaign", "run", "--seeds", "1..2", "--out"),
        ("exam", "run", "--driver", "none", "--misses"),
        ("exam", "readers", "write"),
        ("scenario", "run", "z01", "--trace"),
        ("scenario", "run", "z01", "--history"),
        ("trace", "export", "none", "--to"),
        ("trace", "analyse", "none", "--work"),
        ("stream", "--topic", "t", "--checkpoint", "c", "--sink"),
        ("stream", "--topic", "t", "--sink", "s", "--checkpoint"),
        ("site", "build"),
        ("logs", "write"),
        ("serve", "--security-dir"),
    ],
)
def test_a_file_in_the_place_of_a_folder_is_named_before_anything_is_done(
    arguments: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for path in (file, file / "below"):
        assert main([*arguments, str(path)]) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert f"{file} is a file; name a folder" in output.err
    assert file.read_text() == "mine"


def test_every_file_that_a_command_writes_is_looked_at_before_its_work() -> None:
    late_names = []
    checked_count = 0
    for command in commands():
        for name, action in options_of(parser_of(command), ()):
            help_text = str(action.help or "")
            if action.metavar not in ("FILE", "STATE") or help_text.startswith(READ_READY_FILE):
                continue
            if WRITES.search(help_text) or help_text.startswith("keep a row"):
                checked_count += action.type is new_file
                if action.type is not new_file:
                    late_names.append(name)
    assert late_names == []
    assert checked_count >= 10


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("trace", "convert", "FILE", "--as", "html", "--to", "LINK"), "--to"),
        (("trace", "convert", "--as", "chrome", "--to", "FILE", "FILE"), "--to"),
        (("badge", "FILE", "--shields", "FILE"), "--shields"),
        (("scenario", "run", "FILE", "--html", "LINK"), "--html"),
        (("conformance", "127.0.0.1:1", "--command-config", "FILE", "--junit", "FILE"), "--junit"),
    ],
)
def test_no_command_writes_over_the_file_that_it_reads(
    arguments: tuple[str, ...],
    option: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, link_path = tmp_path / "a.jsonl", tmp_path / "link"
    path.write_text("kept")
    link_path.symlink_to(path)
    named_paths = {"FILE": str(path), "LINK": str(link_path)}
    assert main([named_paths.get(word, word) for word in arguments]) == 2
    assert f"{option} {tmp_path}" in (error := capsys.readouterr().err)
    assert "would write over the file that" in error
    assert path.read_text() == "kept"


@pytest.mark.parametrize(
    "arguments",
    [
        ("scenario", "run", "z01", "--html"),
        ("conformance", "127.0.0.1:1", "--junit"),
        ("lesson", "L1", "--hand-in"),
        ("simulate", "--seeds", "0..1", "--rows"),
    ],
)
def test_a_folder_that_is_not_there_is_named_before_anything_is_done(
    arguments: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, str(tmp_path / "gone" / "file.html")]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert f"there is no directory {tmp_path / 'gone'}; make it first" in output.err
    assert main([*arguments, str(tmp_path)]) == 2
    assert "is a folder; name a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command_text", "says"),
    [
        ("txns --bootstrap-server a:1 finish --transactional-id x", "no command 'finish'; there"),
        ("txns --bootstrap-server a:1 descibe --transactional-id x", "did you mean describe?"),
        ("txns --bootstrap-server=a:1 descibe --transactional-id x", "did you mean describe?"),
        ("txns --bootstrap-server a:1 finish", "no command 'finish'; there are: list"),
        ("logs find-hangin --topic x dir", "did you mean find-hanging?"),
        ("scenario shw z01 --run V-", "did you mean show?"),
        ("servee --topic x", "did you mean serve?"),
        ("txns --bootstrap-sever a:1 list", "no option '--bootstrap-sever'; did you mean"),
        ("logs --topic x verify", "--topic belongs behind 'verify'"),
    ],
)
def test_an_unknown_word_is_named_and_not_the_options_behind_it(
    command_text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command_text.split()) == 2
    assert says in capsys.readouterr().err.splitlines()[0]


def test_a_search_without_bounds_names_the_option_that_searches_everywhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["txns", "--bootstrap-server", "127.0.0.1:1", "find-hanging"]) != 0
    assert "--all searches every leader" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["z1", "Z1", "z01", "Z001"])
def test_a_story_is_known_by_its_number(name: str) -> None:
    story = catalog.scenario_of_name(name)
    assert story is not None
    assert "z01" in story[1].aliases
    assert catalog.scenario_of_name("z0") is None
    assert catalog.scenario_of_name("z1x") is None


@pytest.mark.costly
def test_the_rehearsal_of_an_upgrade_is_told_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["practise", "upgrade", "--from", "4.3", "--to", "4.4", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["from"], report["to"], report["is_well"], report["hanging"]) == (
        "4.3",
        "4.4",
        True,
        0,
    )
    assert report["committed"] == report["read"] > 0
    assert any("4.3" in line for line in report["text"])


def test_an_error_of_the_system_is_told_without_its_number() -> None:
    for number, advice in TO_DO.items():
        text = problem_of(OSError(number, "No such thing", "file"))
        assert advice in text
        assert "Errno" not in text
    assert problem_of(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "start")).startswith("byte 0")
    assert problem_of(ValueError("words")) == "words"


def test_errors_of_the_system_get_their_advice_in_one_place() -> None:
    used_names = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "sim").glob("**/*.py")
        if "strerror" in path.read_text()
    }
    assert used_names == {*STRERROR}


def test_a_file_that_is_not_there_is_named_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing_path = str(tmp_path / "gone.yaml")
    for arguments in (
        ("check", missing_path),
        ("diff", missing_path, missing_path),
        ("scenario", "run", missing_path),
        ("serve", "--config", missing_path),
        ("txns", "--bootstrap-server", "a:1", "--command-config", missing_path, "list"),
        ("faults", "arm", "--file", missing_path),
        ("exam", "run", "--driver", "true", "--known", missing_path),
    ):
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert f"{missing_path}: " in error
        assert "No such file or directory; check how it is spelt" in error


def test_no_command_prints_an_error_of_the_system_with_its_number() -> None:
    """What ``str(OSError)`` gives begins with [Errno 2]; ``problem_of`` and ``strerror`` do not."""
    raw_paths = []
    handler = re.compile(r"except [^\n]*OSError[^\n]* as (\w+):\n((?:(?! +except)[^\n]*\n){1,4})")
    for path in sorted((ROOT / "sim").glob("**/*.py")):
        for name, body in handler.findall(path.read_text()):
            if str(path.relative_to(ROOT)) not in WORDS_OF_LIBRARIES and re.search(
                rf"raise \w+\(f?\"[^\"]*\{{{name}\}}", body
            ):
                raw_paths.append(str(path.relative_to(ROOT)))
    assert raw_paths == []
