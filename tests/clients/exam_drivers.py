"""The exam's drivers, made ready: ``python -m tests.clients.exam_drivers`` prints their commands.

A line is a name and what ``txnsim exam run --driver`` takes; names as arguments choose some. What
is built or fetched for them lies in ``.cache/``.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from tests.clients.exam_go import go_driver
from tests.clients.exam_java import JAVA, java_program
from tests.support.apache_kafka import (
    CACHE,
    REPOSITORY,
    hold_lock,
    java_classes,
    kafka_libs,
    output_of,
)
from tests.support.foreign_clients import ForeignClientError, toolchain
from tests.support.package_clients import node_modules, node_of

SOURCE_FOLDER: Final = REPOSITORY / "helpers" / "exam"
JAVA_RELEASES: Final = ("4.4.0", "4.3.1", "3.9.2")
SHARING_SINCE: Final = "4.2"
"""kafka-clients with share consumers that acknowledge and renew."""


def python_driver(library_name: str, version: str = "") -> list[str]:
    """Return the driver of a Python library, as installed here or in another version."""
    program = [sys.executable, str(SOURCE_FOLDER / f"{library_name}_driver.py")]
    if not version:
        return program
    target_path = CACHE / "exam-python" / f"{library_name}-{version}"
    with hold_lock(CACHE / "exam-python.lock"):
        if not target_path.exists():
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
            requirement = ["--no-deps", "--target", str(target_path), f"{library_name}=={version}"]
            output_of([*pip, *requirement], f"{library_name} failed", ForeignClientError)
    return ["env", f"PYTHONPATH={target_path}", *program]


def java_driver(release: str) -> list[str]:
    """Return the driver of kafka-clients of a release."""
    libs_directory = kafka_libs(release)
    sources = [SOURCE_FOLDER / "ExamDriver.java", SOURCE_FOLDER / "ExamAdmin.java"]
    if release >= SHARING_SINCE:
        sources.append(SOURCE_FOLDER / "ExamShare.java")
    class_directory = java_classes(
        sources, name="exam", libs_directory=libs_directory, error=ForeignClientError
    )
    return [*JAVA, "-cp", f"{class_directory}{os.pathsep}{libs_directory}/*", "ExamDriver"]


def node_driver(program: str, library_name: str) -> list[str]:
    """Return the driver of a library that npm brings, in the client matrix's version."""
    modules_folder = node_modules(library_name)
    environment = ["env", f"--chdir={modules_folder.parent}", f"NODE_PATH={modules_folder}"]
    return [*environment, node_of(modules_folder), str(SOURCE_FOLDER / program)]


def rust_driver(library_name: str) -> list[str]:
    """Return the driver of a crate; cargo knows by itself what is to be built."""
    target_path, package = CACHE / "rust" / "exam", f"exam-{library_name}"
    build = [toolchain("cargo", "Rust 1.95 with cargo"), "build", "--quiet", "--package", package]
    with hold_lock(CACHE / "rust.lock"):
        command = [*build, "--target-dir", str(target_path)]
        output_of(command, "cargo failed", ForeignClientError, directory=SOURCE_FOLDER / "rust")
    return [str(target_path / "debug" / package)]


DRIVERS: Final[dict[str, Callable[[], list[str]]]] = {
    "aiokafka": partial(python_driver, "aiokafka"),
    "confluent-kafka": partial(python_driver, "confluent_kafka"),
    "kafka-python": partial(python_driver, "kafka_python"),
    "confluent-kafka-go": lambda: [str(go_driver("confluent"))],
    "franz-go": lambda: [str(go_driver("franzgo"))],
    "sarama": lambda: [str(go_driver("sarama"))],
    "rdkafka": partial(rust_driver, "rdkafka"),
    "krafka": partial(rust_driver, "krafka"),
    "kafkajs": partial(node_driver, "kafkajs_driver.cjs", "kafkajs"),
    "confluent-kafka-javascript": partial(
        node_driver, "confluent_kafka_driver.cjs", "confluentinc"
    ),
    "platformatic": partial(node_driver, "platformatic_driver.mjs", "platformatic-2"),
    **{f"kafka-clients-{release}": partial(java_driver, release) for release in JAVA_RELEASES},
}
"""Name to what makes its command."""
APPLICATIONS: Final = {
    "spring-kafka": ("spring-kafka", "4.1.2"),
    "iceberg": ("iceberg", "1.11.0"),
    "iceberg-worker": ("iceberg", "1.11.0", "worker"),
    "flink": ("flink", "5.0.0-2.2"),
    "flink-pooling": ("flink", "5.0.0-2.2", "pooling"),
}
"""Programs around the Java client: what ``java_program`` takes for today's."""


def command_of(driver_name: str) -> str:
    """What ``--driver`` takes.

    Raises:
        ApacheKafkaError: Maven is missing or failed.
        ForeignClientError: A toolchain is missing, or it does not build.
    """
    if driver_name in DRIVERS:
        return shlex.join(DRIVERS[driver_name]())
    return java_program(*APPLICATIONS[driver_name])


def main(library_names: Sequence[str]) -> None:
    """Print the commands that start the drivers."""
    for name in library_names or (*DRIVERS, *APPLICATIONS):
        sys.stdout.write(f"{name}\t{command_of(name)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
