"""The Kafka Streams programs under ``java/``: compiled once, named after their sources.

Standard library only, as the roster is read before any environment is made.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import CACHE, java_command, kafka_libs, locked
from tests.support.foreign_clients import ForeignClientError

SOURCES: Final = Path(__file__).with_name("java")

_OPTIONS: Final = (
    # Programs that live for seconds: what starts quickly beats what runs quickly.
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
)


def streams_program(main_class: str, *options: str) -> list[str]:
    """Command line of one of the programs, without its arguments.

    Args:
        main_class: Which one.
        options: Further options of the JVM.

    Raises:
        ForeignClientError: It can't be compiled.
        ApacheKafkaError: Kafka's jars can't be had.
    """
    libs = kafka_libs()
    java, *_ = java_command(libs)
    class_path = f"{_classes(libs)}{os.pathsep}{libs}/*"
    return [java, *_OPTIONS, *options, "-cp", class_path, main_class]


def _classes(libs: Path) -> Path:
    sources = sorted(SOURCES.glob("*.java"))
    sha = hashlib.sha256()
    for file in sources:
        sha.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    classes = CACHE / "streams" / f"{libs.parent.name}-{sha.hexdigest()[:12]}"
    with locked(CACHE / "streams.lock"):
        if not classes.is_dir():
            javac = shutil.which("javac")
            if javac is None:
                raise ForeignClientError("javac not found: these checks need a JDK 17")
            fresh = classes.with_name("partial")
            shutil.rmtree(fresh, ignore_errors=True)
            command = [javac, "-d", str(fresh), "-cp", f"{libs}/*", *map(str, sources)]
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise ForeignClientError(f"javac failed:\n{done.stdout}{done.stderr}")
            fresh.rename(classes)  # in one move: half a folder is never taken for a whole one
    return classes
