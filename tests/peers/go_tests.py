"""Tests of Go modules, from the module proxy's zips: found, compiled once, run, and what each said.

What is compiled lands in the ignored ``.cache/``, named after module, version and what we add.
Standard library only.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.peers.suite import PeerError, PeerOutcome, PeerResult
from tests.support.apache_kafka import CACHE, hold_lock, output_of, tool
from tests.support.foreign_clients import GO_SOURCES

PEERS: Final = CACHE / "peers"

_ACTIONS: Final = {"pass": PeerResult.PASSED, "fail": PeerResult.FAILED, "skip": PeerResult.SKIPPED}
_TEST: Final = re.compile(r"^func (Test\w+)\(\w+ \*testing\.T\) \{\n(.*?)^\}", re.M | re.S)
_METHOD: Final = r"^func \(\w+ \*{}\) (Test\w+)\(\) \{{$"
_SAID: Final = re.compile(r"^\s+(?:\w+\.go:\d+|Error|Messages):\s+(\S.*)$")
"""A line that a test prints itself, or that testify prints for it."""
_TOLD_MAX: Final = 160
_TAIL_LINES: Final = 60


class Module(NamedTuple):
    """A fetched module."""

    path: str
    version: str

    def directory(self) -> Path:
        """Its sources, in Go's own cache; read-only.

        Raises:
            PeerError: It can't be had.
        """
        command = ["mod", "download", "-json", f"{self.path}@{self.version}"]
        return Path(json.loads(go(*command, directory=PEERS))["Dir"])

    def file_stem(self) -> str:
        return f"{self.path.rpartition('/')[2]}-{self.version}"


def required_module(path: str, *, by_path: Path = GO_SOURCES / "go.mod") -> Module:
    """A module at the version that a ``go.mod`` of ours requires."""
    versions = dict(re.findall(r"^(?:\t|require )(\S+) (v\S+)", by_path.read_text("utf-8"), re.M))
    return Module(path, versions[path])


def go(*arguments: str, directory: Path) -> str:
    """The output of a Go command.

    Raises:
        PeerError: There is no Go, or it failed.
    """
    program = tool("go", "these suites need Go 1.26", PeerError)
    directory.mkdir(parents=True, exist_ok=True)
    command = [program, *arguments]
    return output_of(command, f"go {' '.join(arguments)} failed", PeerError, directory=directory)


def compile_tests(name: str, package: str, *, directory: Path, tags: str = "") -> Path:
    """A package's test binary, built on first use.

    Args:
        name: Tells it from all others, versions included.
        package: As the module in ``directory`` calls it.
        directory: Where it is built.
        tags: Build constraints.
    """
    target_path = PEERS / f"{name}.test"
    with hold_lock(PEERS / f"{name}.lock"):
        if not target_path.exists():
            go(
                "test",
                "-c",
                "-trimpath",
                "-tags",
                tags,
                "-o",
                str(target_path),
                package,
                directory=directory,
            )
    return target_path


def names_with(directory: Path, files: str, *, marks: Sequence[str] = ("",)) -> list[str]:
    """Names of the tests in these files whose text contains one of the marks."""
    return sorted(
        test
        for file in directory.glob(files)
        for test, body in _TEST.findall(file.read_text("utf-8"))
        if any(mark_text in body for mark_text in marks)
    )


def methods(directory: Path, files: str, suite: str, *, parent: str) -> list[str]:
    """Test methods of a testify suite, named as subtests of the function that runs it."""
    pattern = re.compile(_METHOD.format(suite), re.M)
    texts = [file.read_text("utf-8") for file in directory.glob(files)]
    return sorted(f"{parent}/{name}" for text in texts for name in pattern.findall(text))


def run_tests(
    binary_file: Path,
    test_names: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str],
    minutes: int,
    parallel: int | None = None,
) -> Iterator[PeerOutcome]:
    """Run these tests and yield each outcome as it comes. ``Test/Sub`` is a subtest.

    A test that panics has failed, and takes the process with it: the tests that it left are run
    again without it.

    Raises:
        PeerError: Not all of them ended, and no test did in the last run.
    """
    flags = [f"-test.timeout={minutes}m", *([f"-test.parallel={parallel}"] if parallel else [])]
    pending = set(test_names)
    while pending:
        unfinished_count = len(pending)
        tail = deque[str](maxlen=_TAIL_LINES)
        for pattern in _patterns(sorted(pending)):
            command = [shutil.which("go") or "go", "tool", "test2json", "-t", str(binary_file)]
            process = subprocess.Popen(
                [*command, "-test.v=test2json", f"-test.run={pattern}", *flags],
                cwd=directory,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            with process:
                yield from _outcomes(process, pending, tail)
        if len(pending) == unfinished_count:
            raise PeerError(f"no end of {', '.join(sorted(pending))}:\n{''.join(tail)}")


def _patterns(names: Sequence[str]) -> Iterator[str]:
    """A pattern for the tests, and one for each test's subtests, as Go has no pattern for all of
    them.
    """
    by_test: dict[str, list[str]] = {}
    for name in names:
        test, _, sub = name.partition("/")
        by_test.setdefault(test if sub else "", []).append(sub or test)
    for test, test_names in sorted(by_test.items()):
        alternatives = f"^({'|'.join(map(re.escape, test_names))})$"
        yield f"^{test}$/{alternatives}" if test else alternatives


def _outcomes(
    process: subprocess.Popen[str], pending: set[str], tail: deque[str]
) -> Iterator[PeerOutcome]:
    output_by_test: dict[str, list[str]] = {}
    assert process.stdout is not None
    for printed_line in process.stdout:
        event = _event(printed_line)
        test = event.get("Test", "")
        owner = _owner(test, pending)
        if event.get("Action") == "output":
            tail.append(event["Output"])
            output_by_test.setdefault(owner, []).append(event["Output"])
        elif test in pending and event.get("Action") in _ACTIONS:
            pending.discard(test)
            result = _ACTIONS[event["Action"]]
            message = (
                "" if result is PeerResult.PASSED else _last_message(output_by_test.pop(test, []))
            )
            yield PeerOutcome(test, result, message)


def _owner(test: str, pending: set[str]) -> str:
    """The pending test that a test is, or is a part of."""
    while test and test not in pending:
        test = test.rpartition("/")[0]
    return test


def _event(line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:  # what the test wrote past the testing package
        return {"Action": "output", "Output": line}
    return event if isinstance(event, dict) else {}


def _last_message(lines: Sequence[str]) -> str:
    """The last line that the test printed, which says why it failed."""
    messages = [match[1].strip() for line in lines if (match := _SAID.match(line))]
    return messages[-1][:_TOLD_MAX] if messages else ""
