"""Kafka's own reader of log files, ``kafka-dump-log``, over many files in one Java process.

Keys and values are printed in hexadecimal digits by a decoder of ours, which is compiled with the
JDK. Kafka's counterpart: DumpLogSegments.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.apache_kafka import (
    ApacheKafkaError,
    java_classes,
    java_command,
    kafka_libs,
)

MAIN_CLASS: Final = "org.apache.kafka.tools.DumpLogSegments"
SOURCE: Final = Path(__file__).parent / "java" / "dump" / "HexDecoder.java"
NAMES_LENGTH_MAX: Final = 120_000
"""Names of files are one argument, which Linux limits to 128 KiB."""
TIMEOUT_SECONDS: Final = 300
RECORDS: Final = (
    *("--deep-iteration", "--print-data-log"),
    *("--key-decoder-class", "HexDecoder", "--value-decoder-class", "HexDecoder"),
)
"""Options that print every batch and every record."""
_BEGIN: Final = "Dumping "


class Dump(NamedTuple):
    """What it printed."""

    files: dict[Path, list[str]]
    """Lines of each file."""
    complaints: str
    """Mismatches of indexes, gaps, and what else goes to standard error."""


def dump_log(files: Iterable[Path], *options: str, may_fail: bool = False) -> Dump:
    """Read files with it.

    Args:
        files: Which.
        options: Of the tool.
        may_fail: It ends with an error at some kinds of damage; then each file has its own process.

    Raises:
        ApacheKafkaError: It did not end, or with an error that was not expected.
    """
    found: dict[Path, list[str]] = {}
    complaints = ""
    for some in _shares(files, 0 if may_fail else NAMES_LENGTH_MAX):
        printed, complained = _run(some, options, may_fail=may_fail)
        found.update(_by_file(printed))
        complaints += complained
    return Dump(found, complaints)


def _shares(files: Iterable[Path], length_max: int) -> Iterator[list[Path]]:
    """Files whose names fit into one argument; one file at least."""
    share: list[Path] = []
    length = 0
    for path in files:
        length += len(str(path)) + 1
        if share and length > length_max:
            yield share
            share, length = [], len(str(path)) + 1
        share.append(path)
    if share:
        yield share


def _run(files: Sequence[Path], options: Sequence[str], *, may_fail: bool) -> tuple[str, str]:
    libs = kafka_libs()
    java = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    *front, classpath = java_command(libs, options=java)
    decoder = java_classes([SOURCE], name="dump", libs=libs)
    command = [*front, f"{classpath}:{decoder}", MAIN_CLASS, *options]
    done = subprocess.run(
        [*command, "--files", ",".join(map(str, files))],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode != 0 and not may_fail:
        raise ApacheKafkaError(f"kafka-dump-log failed:\n{done.stdout[-2000:]}{done.stderr}")
    return done.stdout, done.stderr


def _by_file(printed: str) -> Iterator[tuple[Path, list[str]]]:
    path: Path | None = None
    lines: list[str] = []
    for line in printed.splitlines():
        if line.startswith(_BEGIN):
            if path is not None:
                yield path, lines
            path, lines = Path(line.removeprefix(_BEGIN)), []
        else:
            lines.append(line.rstrip())
    if path is not None:
        yield path, lines
