"""The process that fuzzes: ``python -m tests.fuzz.worker TARGET...``.

It imports these targets once, with counters in our code, and forks a child for each task. A task is
a line of JSON on standard input. Two lines answer it: the child's process id, and its exit status
when it has ended. A line before all of them says that everything is imported.

libFuzzer leads the child and never comes back, so what it has done stands in files: a count of
inputs that the driver reads at any time, and an input for each kind of find. A find does not end
the run. A crash, an input without an end, or memory beyond all bounds does: libFuzzer keeps those
inputs.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Never

import atheris
import msgspec

from tests.fuzz.corpus import COUNTS
from tests.fuzz.judge import Find, Judge, name_of
from tests.fuzz.roster import load
from tests.fuzz.target import Target

_KINDS_MAX: Final = 50
_FIGURES_EVERY: Final = 500


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A task for a child process: a target and libFuzzer's options."""

    target: str
    directory: str
    """Where its files are, its output among them."""
    until_s: float | None
    """On the monotonic clock; None for no end."""
    options: list[str]
    """Of libFuzzer."""


def main() -> None:
    """Import, and fork until standard input ends."""
    with atheris.instrument_imports(include=["txnsim", "txnsim_lab", "txnsim_spark"]):
        from txnsim.wire import _codegen as codegen

        compiled_function = _instrument_generated()
        targets = {name: load(name) for name in sys.argv[1:]}
    os.write(1, b"ready\n")
    decode = msgspec.json.Decoder(Task).decode
    while line := sys.stdin.buffer.readline():
        task = decode(line)
        child_pid = os.fork()
        if not child_pid:
            if not targets[task.target].counts_codec:
                codegen.CodeSource.compile_function = compiled_function  # type: ignore[method-assign]
            _fuzz(targets[task.target], task)
        os.write(1, b"%d\n" % child_pid)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(child_pid, 0)[1]))


def _fuzz(target: Target, task: Task) -> Never:
    """Fuzz until libFuzzer's options say that it is enough."""
    with Path(task.directory, "output").open("wb") as output:
        for descriptor_number in (1, 2):
            os.dup2(output.fileno(), descriptor_number)
    options = task.options
    if task.until_s is not None:
        options = [*options, f"-max_total_time={max(1, int(task.until_s - time.monotonic()))}"]
    atheris.Setup([sys.argv[0], *options], _FuzzRun(target, Path(task.directory)).play_input)
    atheris.Fuzz()
    os._exit(0)


def _instrument_generated() -> Callable[..., Any]:
    """Decoders and encoders are compiled when a class is met: no import sees them. What compiled
    them before.
    """
    from txnsim.wire import _codegen as codegen

    compiled_function = codegen.CodeSource.compile_function

    def function(self: codegen.CodeSource, name: str, *, code_name: str) -> Any:
        return atheris.instrument_func(compiled_function(self, name, code_name=code_name))

    codegen.CodeSource.compile_function = function  # type: ignore[method-assign]
    return compiled_function


class _FuzzRun:
    def __init__(self, target: Target, directory: Path) -> None:
        self._judge = Judge(target)
        self._target = target
        self._directory = directory
        self._kinds: set[str] = set()
        self._number = 0
        path = directory / "counts"
        path.write_bytes(bytes(COUNTS.size))
        with path.open("r+b") as file:
            self._counts = mmap.mmap(file.fileno(), COUNTS.size)

    def play_input(self, fuzz_bytes: bytes) -> None:
        """Play one input, count it, and keep it if it broke a property."""
        find = self._judge.play(fuzz_bytes)
        self._number += 1
        judge = self._judge
        COUNTS.pack_into(self._counts, 0, self._number, judge.slowest_ms, judge.most_mib)
        if find is not None:
            self._keep(fuzz_bytes, find)
        if self._target.figures is not None and self._number % _FIGURES_EVERY == 0:
            figures = self._target.figures()
            (self._directory / "figures.json").write_bytes(msgspec.json.encode(figures))

    def _keep(self, fuzz_bytes: bytes, find: Find) -> None:
        if find.kind in self._kinds or len(self._kinds) >= _KINDS_MAX:
            return
        self._kinds.add(find.kind)
        folder = self._directory / "finds"
        folder.mkdir(exist_ok=True)
        (folder / name_of(fuzz_bytes)).write_bytes(fuzz_bytes)
        (folder / f"{name_of(fuzz_bytes)}.txt").write_text(f"{find.kind}\n\n{find.story}\n")


if __name__ == "__main__":
    main()
