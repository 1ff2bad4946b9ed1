"""Every command has its examples, and each of them is one that the command takes."""

from __future__ import annotations

import shlex

import pytest

from txnsim.cli._completion import levels
from txnsim.cli.commands import commands, examples
from txnsim.cli.main import main, parser_of

WORDS = [(path, line) for path, lines in examples().items() for line in lines]


def test_every_command_has_two_and_no_other_has_any() -> None:
    assert {path for path in levels() if path} == set(examples())
    assert {path: len(lines) for path, lines in examples().items() if len(lines) < 2} == {}


def commands_of(line: str) -> list[list[str]]:
    """The calls of txnsim in a line of a shell."""
    line = line.partition("<(")[2].rstrip(")") or line
    calls: list[list[str]] = []
    for part in line.split("&&"):
        words = shlex.split(part)
        end = next((at for at, word in enumerate(words) if word in ("<", ">", "|")), len(words))
        assert words[0] == "txnsim"
        calls.append(words[1:end])
    return calls


@pytest.mark.parametrize(("path", "line"), WORDS, ids=[line for _, line in WORDS])
def test_an_example_is_taken(path: str, line: str) -> None:
    for words in commands_of(line):
        parser = parser_of(words[0])
        parser.parse_args(words)
    given = [word for word in commands_of(line)[0] if not word.startswith("-")]
    of = path.split()
    assert all(word in given for word in of), "it is about another command"


@pytest.mark.parametrize("name", commands())
def test_help_shows_them(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    told = capsys.readouterr().out
    assert all(f"\n  {line}\n" in told for line in examples()[name])


@pytest.mark.parametrize("name", commands())
def test_options_stand_in_groups(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """More than a dozen in one heap are not found."""
    main([name, "--help"])
    heap = capsys.readouterr().out.partition("\noptions:\n")[2].partition("\n\n")[0]
    assert sum(line.startswith("  -") for line in heap.splitlines()) <= 12
