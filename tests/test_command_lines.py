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
from txnsim.cli.parsing import new_file
from txnsim.files import TO_DO, problem_of
from txnsim_lab.scenario import catalog

WRITES: Final = re.compile(r"\bwrit(?:e|es|ten|ing)\b|^where to \(")
READ_READY_FILE: Final = "the ready file of `txnsim serve`"


WORDS_OF_LIBRARIES: Final = {
    "sim/txnsim_spark/stores/_native.py": "pyarrow's own sentence, with the address in front",
    "sim/txnsim_spark/streaming/stream.py": "why the connection to Spark's JVM ended",
}


def options_of(
    parser: argparse.ArgumentParser, path: tuple[str, ...]
) -> Iterator[tuple[str, argparse.Action]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, branch in action.choices.items():
                yield from options_of(branch, (*path, name))
        elif action.option_strings:
            yield f"{' '.join(path)} {action.option_strings[-1]}", action


def test_every_file_that_a_command_writes_is_looked_at_before_its_work() -> None:
    late = []
    looked_at = 0
    for command in commands():
        for name, action in options_of(parser_of(command), ()):
            words = str(action.help or "")
            if action.metavar not in ("FILE", "STATE") or words.startswith(READ_READY_FILE):
                continue
            if WRITES.search(words) or words.startswith("keep a row"):
                looked_at += action.type is new_file
                if action.type is not new_file:
                    late.append(name)
    assert late == []
    assert looked_at >= 10


@pytest.mark.parametrize(
    "words",
    [
        ("scenario", "run", "z01", "--html"),
        ("conformance", "127.0.0.1:1", "--junit"),
        ("lesson", "L1", "--hand-in"),
        ("simulate", "--seeds", "0..1", "--rows"),
    ],
)
def test_a_folder_that_is_not_there_is_named_before_anything_is_done(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, str(tmp_path / "gone" / "file.html")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"there is no directory {tmp_path / 'gone'}; make it first" in printed.err
    assert main([*words, str(tmp_path)]) == 2
    assert "is a folder; name a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("txns --bootstrap-server a:1 commit --transactional-id x", "no command 'commit'; there"),
        ("txns --bootstrap-server a:1 descibe --transactional-id x", "did you mean describe?"),
        ("txns --bootstrap-server=a:1 descibe --transactional-id x", "did you mean describe?"),
        ("txns --bootstrap-server a:1 commit", "no command 'commit'; there are: list"),
        ("logs find-hangin --topic x dir", "did you mean find-hanging?"),
        ("scenario shw z01 --run V-", "did you mean show?"),
        ("servee --topic x", "did you mean serve?"),
        ("txns --bootstrap-sever a:1 list", "no option '--bootstrap-sever'; did you mean"),
        ("logs --topic x verify", "--topic belongs behind 'verify'"),
    ],
)
def test_an_unknown_word_is_named_and_not_the_options_behind_it(
    words: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    assert says in capsys.readouterr().err.splitlines()[0]


def test_a_search_without_bounds_names_the_option_that_searches_everywhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["txns", "--bootstrap-server", "127.0.0.1:1", "find-hanging"]) != 0
    assert "--all searches every leader" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["z1", "Z1", "z01", "Z001"])
def test_a_story_is_known_by_its_number(name: str) -> None:
    found = catalog.of_name(name)
    assert found is not None
    assert "z01" in found[1].aliases
    assert catalog.of_name("z0") is None
    assert catalog.of_name("z1x") is None


@pytest.mark.costly
def test_the_rehearsal_of_an_upgrade_is_told_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["practise", "upgrade", "--from", "4.3", "--to", "4.4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["from"], found["to"], found["is_well"], found["hanging"]) == (
        "4.3",
        "4.4",
        True,
        0,
    )
    assert found["committed"] == found["read"] > 0
    assert any("4.3" in line for line in found["text"])


def test_an_error_of_the_system_is_told_without_its_number() -> None:
    for number, advice in TO_DO.items():
        text = problem_of(OSError(number, "No such thing", "file"))
        assert advice in text
        assert "Errno" not in text
    assert problem_of(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "start")).startswith("byte 0")
    assert problem_of(ValueError("words")) == "words"


def test_no_command_prints_an_error_of_the_system_with_its_number() -> None:
    """What ``str(OSError)`` gives begins with [Errno 2]; ``problem_of`` and ``strerror`` do not."""
    raw = []
    handler = re.compile(r"except [^\n]*OSError[^\n]* as (\w+):\n((?:(?! +except)[^\n]*\n){1,4})")
    for path in sorted((ROOT / "sim").glob("**/*.py")):
        for name, body in handler.findall(path.read_text()):
            if str(path.relative_to(ROOT)) not in WORDS_OF_LIBRARIES and re.search(
                rf"raise \w+\(f?\"[^\"]*\{{{name}\}}", body
            ):
                raw.append(str(path.relative_to(ROOT)))
    assert raw == []
