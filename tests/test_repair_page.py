"""docs/repair.md, played: `txnsim practise` makes its situation, its commands are typed in
order, and what they print is what the page shows.

``python -m tests.test_repair_page --write`` puts what is printed now into the page.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.txnsim_server import TxnsimServer

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "repair.md"
ADDRESS: Final = "127.0.0.1:9092"
AUDIT: Final = "txnsim-repairs.jsonl"
BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TYPED: Final = "$ txnsim txns "

STATUSES: Final = (3, 3, 3, 0, 0, 0, 0, 0, 0, 0, 3)
"""Of the commands, in order; the page says what each of them means."""

MASKS: Final = (
    (r"\b\d{13}\b", "1700000000000"),
    (r"\b\d+ (?:s|min|h) ago", "1 h ago"),
    (r'"cluster_id":"[^"]*"', '"cluster_id":"jZBrwHxmQ1OLy3yW0kLkTA"'),
)
"""What differs from run to run, and what stands for it on the page."""


def mask_changing_parts(text: str) -> str:
    for pattern, instead in MASKS:
        text = re.sub(pattern, instead, text)
    return text


class PlayedBlock(NamedTuple):
    """A block of the page that shows output."""

    block: re.Match[str]
    expected: str
    status: int | None


def play_blocks() -> Iterator[PlayedBlock]:
    """The blocks in order, each with what should stand there."""
    page_text = PAGE.read_text("utf-8")
    with practise_server() as server, tempfile.TemporaryDirectory() as name:
        address = server.bootstrap.split(",")[0]
        blocks = list(BLOCK.finditer(page_text))
        for block in blocks:
            language, text = block.groups()
            if language == "console" and text.startswith(TYPED):
                command, *_ = text.splitlines()
                yield PlayedBlock(block, *run_typed(command, address, Path(name)))
            elif not language and text.startswith('{"cluster_id"'):
                yield PlayedBlock(
                    block, mask_changing_parts((Path(name) / AUDIT).read_text()), None
                )


PROGRESS: Final = re.compile(r"looked at \d+ of \d+ ")
"""A line that a terminal overwrites; here standard error is a pipe, where it stays."""


def practise_server() -> TxnsimServer:
    """A server with the hanging transaction that the page repairs."""
    return TxnsimServer(is_practice=True, arguments=("--http", "0"))


def run_typed(command: str, address: str, directory: Path) -> tuple[str, int]:
    """What a terminal shows of a command, and its exit status."""
    arguments = shlex.split(command.replace(ADDRESS, address))[2:]
    finished_process = subprocess.run(
        [sys.executable, "-m", "txnsim.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=directory,
    )
    output = mask_changing_parts(finished_process.stdout).replace(address, ADDRESS)
    # No blanks at the ends of lines, which no reader sees; tables are padded there.
    printed_lines = [
        printed_line.rstrip()
        for printed_line in output.expandtabs().splitlines()
        if not PROGRESS.match(printed_line)
    ]
    return "\n".join([command, *printed_lines]) + "\n", finished_process.returncode


@pytest.mark.costly
@pytest.mark.slow
def test_the_page_shows_what_its_commands_print() -> None:
    outcomes = list(play_blocks())
    for outcome in outcomes:
        assert outcome.block[2] == outcome.expected
    assert tuple(outcome.status for outcome in outcomes if outcome.status is not None) == STATUSES


def write() -> None:
    """Write the present output of the commands into the page."""
    page_text = PAGE.read_text("utf-8")
    for block, expected_text, status in reversed(list(play_blocks())):
        sys.stdout.write(f"{status}: {expected_text.splitlines()[0]}\n")
        page_text = page_text[: block.start(2)] + expected_text + page_text[block.end(2) :]
    PAGE.write_text(page_text, "utf-8")


if __name__ == "__main__":
    assert sys.argv[1:] == ["--write"], "--write"
    write()
