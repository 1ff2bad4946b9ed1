"""Makes pages with outputs of commands: each output stands below a comment with its name, the text
in between is written by hand. The durations of the commands are an output like the others.
"""

from __future__ import annotations

import os
import re
import resource
import shlex
import subprocess
import sys
import time  # noqa: TID251 - processes on the real machine
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.process_tree import run_command
from txnsim.errors import BadInputError

BLOCK: Final = re.compile(r"(<!-- output: ([\w-]+) -->\n```(?:console)?\n)(.*?)(```\n)", re.DOTALL)


class Desk:
    """Runs commands of ``txnsim`` in a folder, and notes how long each takes.

    Args:
        scratch: The working folder.
        shown: Texts of this machine → the texts that the page shows instead.
    """

    def __init__(self, scratch_folder: Path, shown_paths: Mapping[str, str]) -> None:
        self.scratch = scratch_folder
        self._shown = shown_paths
        self._times: list[tuple[str, float, float]] = []
        self._load = os.getloadavg()[0]

    def tell_command(self, *arguments: str, title: str = "", status: int = 0) -> str:
        """Note a command with its output on both streams."""
        output = self.run(*arguments, title=title, status=status)
        return self.as_shown(f"$ txnsim {shlex.join(arguments)}\n{output.stderr}{output.stdout}")

    def run(
        self, *arguments: str, title: str = "", status: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of ``txnsim``; notes its time if there is a title."""
        began_s, before_s = time.monotonic(), _cpu_s()
        process = subprocess.run(
            [sys.executable, "-m", "txnsim.cli.main", *arguments],
            cwd=self.scratch,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if title:
            self._times.append((title, time.monotonic() - began_s, _cpu_s() - before_s))
        assert process.returncode == status, (
            arguments,
            process.returncode,
            process.stdout,
            process.stderr,
        )
        return process

    def run_program(self, program: str, title: str) -> str:
        """The output of a Python program. The noted time includes Spark's processes."""
        output = run_command([sys.executable, "-c", program], working_directory=self.scratch)
        assert output.status == 0, (program, output.stdout)
        self._times.append((title, output.seconds, output.cpu_s))
        return self.as_shown(output.stdout.decode())

    def as_shown(self, text: str) -> str:
        """An output with the paths that the page shows instead of the real paths."""
        for real_path, shown_path in self._shown.items():
            text = text.replace(real_path, shown_path)
        return "".join(f"{line.rstrip()}\n" for line in text.splitlines())

    def times(self) -> str:
        """A table of the noted times, with the machine's cores and load."""
        title_width = max(len(title) for title, *_ in self._times)
        rows = "".join(
            f"{title:{title_width}}  {s:7.1f}  {cpu:6.1f}\n" for title, s, cpu in self._times
        )
        cores = f"{os.cpu_count()} cores, load {self._load:.1f} before"
        return f"{'':{title_width}}  seconds  CPU, s\n{rows}{cores}\n"


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def names_in(page_file: Path) -> set[str]:
    """The names of the outputs in a page."""
    return {match[2] for match in BLOCK.finditer(page_file.read_text("utf-8"))}


def hand_over(page_file: Path, outputs: Mapping[str, str], arguments: list[str]) -> None:
    """Write the outputs into the page if ``--write`` says so, or print them.

    Raises:
        BadInputError: The page names an output that is not made.
    """
    if missing := names_in(page_file) - set(outputs):
        raise BadInputError(f"{page_file.name} wants {', '.join(sorted(missing))}")
    if arguments == ["--write"]:
        page_text = page_file.read_text("utf-8")
        page_file.write_text(
            BLOCK.sub(lambda match: match[1] + outputs[match[2]] + match[4], page_text), "utf-8"
        )
    else:
        for name, page_text in outputs.items():
            sys.stdout.write(f"── {name}\n{page_text}\n")
