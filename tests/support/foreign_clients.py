"""The programs under ``tests/clients`` in other languages: compiled once, run against any address.

What is compiled lands in the ignored ``.cache/``, named after its sources, so that nothing stale is
ever run. Standard library only.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import (
    CACHE,
    KAFKA_VERSION,
    REPOSITORY,
    ToolResult,
    digest_of,
    hold_lock,
    java_classes,
    java_command,
    kafka_libs,
    output_of,
    run_to_end,
    tool,
)

JAVA_SOURCES: Final = REPOSITORY / "tests" / "clients" / "java"
GO_SOURCES: Final = REPOSITORY / "tests" / "clients" / "go"
GO_PROGRAMS: Final = ("franzgo", "sarama", "confluent")
"""Packages of our Go module; each is a program for one client library."""


class ForeignClientError(Exception):
    """A toolchain is missing, or a program did not compile or did not end."""


def toolchain(command: str, requirement: str) -> str:
    """The path of a command that these checks need.

    Raises:
        ForeignClientError: It is not on this machine.
    """
    return tool(command, f"these checks need {requirement}", ForeignClientError)


def run_java(main_class: str, *args: str, timeout_s: float = 300.0) -> ToolResult:
    """Run one of the Java programs.

    Raises:
        ForeignClientError: It can't be compiled, or did not end in time.
        ApacheKafkaError: Kafka's jars can't be had.
    """
    return run_to_end(
        [*java_program(main_class), *args], timeout_s=timeout_s, error=ForeignClientError
    )


def run_go(*args: str, timeout_s: float = 300.0) -> ToolResult:
    """Run the Go program of franz-go.

    Raises:
        ForeignClientError: It can't be built, or did not end in time.
    """
    return run_to_end([str(go_program()), *args], timeout_s=timeout_s, error=ForeignClientError)


def java_program(main_class: str, *, version: str = KAFKA_VERSION) -> list[str]:
    """Command line of one of the Java programs with kafka-clients of that version, no arguments."""
    libs_directory = kafka_libs(version)
    generation_folder = JAVA_SOURCES / ("kafka3" if version.startswith("3.") else "kafka4")
    sources = sorted([*JAVA_SOURCES.glob("*.java"), *generation_folder.glob("*.java")])
    class_directory = java_classes(
        sources, name="clients", libs_directory=libs_directory, error=ForeignClientError
    )
    options = [
        "-XX:TieredStopAtLevel=1",
        "-Xmx256m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
    ]
    java, *_ = java_command(libs_directory)
    return [java, *options, "-cp", f"{class_directory}{os.pathsep}{libs_directory}/*", main_class]


def go_program(file_name: str = "franzgo") -> Path:
    """Path of one of the Go programs, built on first use.

    Raises:
        ForeignClientError: It can't be built.
    """
    sources = sorted([*GO_SOURCES.rglob("*.go"), GO_SOURCES / "go.mod", GO_SOURCES / "go.sum"])
    target_path = CACHE / "go" / digest_of(sources) / file_name
    # Asked for even where it is built: what a machine can do must not depend on what it did before.
    go = toolchain("go", "Go 1.26")
    with hold_lock(CACHE / "go.lock"):
        if not target_path.exists():
            command = [
                go,
                "build",
                "-trimpath",
                "-buildvcs=false",
                "-o",
                str(target_path),
                f"./{file_name}",
            ]
            output_of(command, f"{go} failed", ForeignClientError, directory=GO_SOURCES)
    return target_path
