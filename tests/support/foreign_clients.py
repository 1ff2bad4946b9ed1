"""The programs under ``tests/clients`` in other languages: compiled once, run against any address.

What is compiled lands in the ignored ``.cache/``, named after its sources, so that nothing stale is
ever run. Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import (
    CACHE,
    KAFKA_VERSION,
    REPOSITORY,
    ToolResult,
    java_command,
    kafka_libs,
    locked,
)

JAVA_SOURCES: Final = REPOSITORY / "tests" / "clients" / "java"
GO_SOURCES: Final = REPOSITORY / "tests" / "clients" / "go"
GO_PROGRAMS: Final = ("franzgo", "sarama", "confluent")
"""Packages of the one Go module, each a program for one library."""


class ForeignClientError(Exception):
    """A toolchain is missing, a program does not compile, or it did not end."""


def run_java(main_class: str, *args: str, timeout_s: float = 300.0) -> ToolResult:
    """Run one of the Java programs.

    Raises:
        ForeignClientError: It can't be compiled, or did not end in time.
        ApacheKafkaError: Kafka's jars can't be had.
    """
    return _run([*java_program(main_class), *args], timeout_s=timeout_s)


def run_go(*args: str, timeout_s: float = 300.0) -> ToolResult:
    """Run the Go program of franz-go.

    Raises:
        ForeignClientError: It can't be built, or did not end in time.
    """
    return _run([str(go_program()), *args], timeout_s=timeout_s)


def java_program(main_class: str, *, version: str = KAFKA_VERSION) -> list[str]:
    """Command line of one of the Java programs with kafka-clients of that version, no arguments."""
    libs = kafka_libs(version)
    classes = _java_classes(
        libs, JAVA_SOURCES / ("kafka3" if version.startswith("3.") else "kafka4")
    )
    options = [
        "-XX:TieredStopAtLevel=1",
        "-Xmx256m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
    ]
    java, *_ = java_command(libs)
    return [java, *options, "-cp", f"{classes}{os.pathsep}{libs}/*", main_class]


def go_program(name: str = "franzgo") -> Path:
    """Path of one of the Go programs, built on first use.

    Raises:
        ForeignClientError: It can't be built.
    """
    sources = sorted([*GO_SOURCES.rglob("*.go"), GO_SOURCES / "go.mod", GO_SOURCES / "go.sum"])
    target = CACHE / "go" / _digest(sources) / name
    # Asked for even where it is built: what a machine can do must not depend on what it did before.
    go = _toolchain("go", "Go 1.26")
    with locked(CACHE / "go.lock"):
        if not target.exists():
            command = [go, "build", "-trimpath", "-buildvcs=false", "-o", str(target), f"./{name}"]
            _build(command, directory=GO_SOURCES)
    return target


def _java_classes(libs: Path, generation: Path) -> Path:
    """Classes of the common sources and of those for this generation of kafka-clients."""
    sources = sorted([*JAVA_SOURCES.glob("*.java"), *generation.glob("*.java")])
    classes = CACHE / "java" / f"{libs.parent.name}-{_digest(sources)}"
    with locked(CACHE / "java.lock"):
        if not classes.is_dir():
            javac = _toolchain("javac", "a JDK 17")
            fresh = classes.with_name("partial")
            shutil.rmtree(fresh, ignore_errors=True)
            command = [javac, "-d", str(fresh), "-cp", f"{libs}/*", *map(str, sources)]
            _build(command, directory=JAVA_SOURCES)
            fresh.rename(classes)
    return classes


def _digest(files: Iterable[Path]) -> str:
    sha = hashlib.sha256()
    for file in files:
        sha.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return sha.hexdigest()[:12]


def _toolchain(command: str, what: str) -> str:
    found = shutil.which(command)
    if found is None:
        raise ForeignClientError(f"{command} not found: these checks need {what}")
    return found


def _build(command: Sequence[str], *, directory: Path) -> None:
    done = subprocess.run(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ForeignClientError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")


def _run(command: Sequence[str], *, timeout_s: float) -> ToolResult:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        seen = expired.stdout or b""
        raise ForeignClientError(
            f"{' '.join(command[-4:])}: no end in {timeout_s} s; so far:\n"
            f"{seen.decode(errors='replace') if isinstance(seen, bytes) else seen}"
        ) from expired
    return ToolResult(done.returncode, done.stdout, done.stderr)
