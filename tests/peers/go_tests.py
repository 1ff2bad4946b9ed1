"""Tests of Go modules, from the module proxy's zips: found, compiled once, run, and what each said.

What is compiled lands in the ignored ``.cache/``, named after module, version and what we add.
Standard library only.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.peers.suite import Outcome, PeerError, Result
from tests.support.apache_kafka import CACHE, locked
from tests.support.foreign_clients import GO_SOURCES

PEERS: Final = CACHE / "peers"

_ACTIONS: Final = {"pass": Result.PASSED, "fail": Result.FAILED, "skip": Result.SKIPPED}
_TEST: Final = re.compile(r"^func (Test\w+)\(\w+ \*testing\.T\) \{\n(.*?)^\}", re.M | re.S)
_SAID: Final = re.compile(r"^\s+\w+\.go:\d+: (.+)$")
_TOLD_MAX: Final = 160


class Module(NamedTuple):
    """A module as it is fetched."""

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
        """For names of what is made of it."""
        return f"{self.path.rpartition('/')[2]}-{self.version}"


def required(path: str, *, by: Path = GO_SOURCES / "go.mod") -> Module:
    """A module at the version that a ``go.mod`` of ours requires."""
    versions = dict(re.findall(r"^(?:\t|require )(\S+) (v\S+)", by.read_text("utf-8"), re.M))
    return Module(path, versions[path])


def go(*arguments: str, directory: Path) -> str:
    """What a command of Go prints.

    Raises:
        PeerError: There is no Go, or it failed.
    """
    found = shutil.which("go")
    if found is None:
        raise PeerError("go not found: these suites need Go 1.26")
    directory.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [found, *arguments],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise PeerError(f"go {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def compiled(name: str, package: str, *, directory: Path, tags: str = "") -> Path:
    """A package's test binary, built on first use.

    Args:
        name: Tells it from all others, versions included.
        package: As the module in ``directory`` calls it.
        directory: Where it is built.
        tags: Build constraints.
    """
    target = PEERS / f"{name}.test"
    with locked(PEERS / f"{name}.lock"):
        if not target.exists():
            go(
                "test",
                "-c",
                "-trimpath",
                "-tags",
                tags,
                "-o",
                str(target),
                package,
                directory=directory,
            )
    return target


def names_with(directory: Path, files: str, *, marks: Sequence[str] = ("",)) -> list[str]:
    """Names of the tests in these files whose text has one of the marks."""
    return sorted(
        test
        for file in directory.glob(files)
        for test, body in _TEST.findall(file.read_text("utf-8"))
        if any(mark in body for mark in marks)
    )


def run_tests(
    binary: Path,
    names: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str],
    minutes: int,
    parallel: int | None = None,
) -> Iterator[Outcome]:
    """Run these tests and tell each as it ends.

    Raises:
        PeerError: Not all of them ended, as after a panic.
    """
    command = [shutil.which("go") or "go", "tool", "test2json", "-t", str(binary)]
    command += ["-test.v=test2json", f"-test.timeout={minutes}m"]
    command += [f"-test.run=^({'|'.join(names)})$"]
    command += [f"-test.parallel={parallel}"] if parallel else []
    process = subprocess.Popen(
        command,
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    said: dict[str, list[str]] = {}
    waiting, tail = set(names), ""
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            event = _event(line)
            test = event.get("Test", "").partition("/")[0]
            if event.get("Action") == "output":
                tail = (tail + event["Output"])[-2000:]
                said.setdefault(test, []).append(event["Output"])
            elif event.get("Test") == test and event.get("Action") in _ACTIONS and test in waiting:
                waiting.discard(test)
                result = _ACTIONS[event["Action"]]
                told = "" if result is Result.PASSED else _told(said.pop(test, []))
                yield Outcome(test, result, told)
    if waiting:
        raise PeerError(f"no end of {', '.join(sorted(waiting))}:\n{tail}")


def _event(line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:  # what the test wrote past the testing package
        return {"Action": "output", "Output": line}
    return event if isinstance(event, dict) else {}


def _told(lines: Sequence[str]) -> str:
    """The last thing that the test said in its own name: where it gave up."""
    said = [match[1].strip() for line in lines if (match := _SAID.match(line))]
    return said[-1][:_TOLD_MAX] if said else ""
