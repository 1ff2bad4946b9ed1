"""The reproductions of ``reports/``, on stock brokers without a part of ours between::

    python -m tests.real.reports                          # all, on 4.4.0
    python -m tests.real.reports kafka-share-group-stuck --version 4.3.1
    python -m tests.real.reports --write                  # keep what they print: output.txt

Exit status: 0 each was reproduced, 1 one was not. It needs a JDK 17, Maven and Go.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import (
    CACHE,
    KAFKA_VERSION,
    REPOSITORY,
    ApacheKafka,
    ApacheKafkaError,
    hold_lock,
    java_classes,
    java_command,
    kafka_libs,
    output_of,
    tool,
)
from tests.support.console import say

REPORTS: Final = REPOSITORY / "reports"
LAST_LINE: Final = "REPRODUCED"
TOPIC: Final = ("org.apache.kafka.tools.TopicCommand", "--create", "--topic", "t")
AUTHORIZED: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
NOBODY_READS: Final = ("org.apache.kafka.tools.AclCommand", "--add", "--deny-principal", "User:*",
                       "--operation", "Read", "--group", "forbidden")  # fmt: skip
INTERNAL_ON_ONE: Final = {
    **{f"{name}.replication.factor": "1" for name in ("offsets.topic", "transaction.state.log")},
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
}

Play = Callable[[str], list[str]]
"""Lines that a reproduction prints on a release of Kafka."""


def in_java(file_name: str, release: str) -> list[str]:
    """Run a report's Java program, which starts the brokers itself; return its output."""
    libs_directory = kafka_libs(release)
    sources = [REPORTS / "Brokers.java", REPORTS / file_name / "Reproduction.java"]
    class_directory = java_classes(
        sources, name=f"report-{file_name}", libs_directory=libs_directory
    )
    java, *_ = java_command(libs_directory)
    options = ["-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    path = f"{class_directory}{os.pathsep}{libs_directory}/*"
    return _run_reproduction([java, *options, "-cp", path, "Reproduction"])


def aiokafka(release: str) -> list[str]:
    """Run the report on a broker whose ACLs deny reading one of the groups."""
    with ApacheKafka(version=release, properties=AUTHORIZED) as kafka:
        _run_tool(kafka, *NOBODY_READS)
        _run_tool(kafka, *TOPIC)
        return _run_reproduction(_python("aiokafka-abort-without-end", kafka.bootstrap))


def kafka_python(release: str) -> list[str]:
    """Run the report on two brokers, of which the second one leads the topic."""
    with ApacheKafka(brokers=2, version=release, properties=INTERNAL_ON_ONE) as kafka:
        _run_tool(kafka, *TOPIC, "--replica-assignment", "2")
        hands: dict[str, Callable[[], object]] = {
            "kill": lambda: kafka.kill(2),
            "start": lambda: kafka.start_again(2),
        }
        command = _python("kafka-python-commit-without-record", kafka.bootstrap)
        return _run_reproduction(command, hands)


def sarama(kafka_release: str) -> list[str]:
    """Run the report's Go program on one real broker; return its output."""
    program_file = CACHE / "reports" / "sarama-get-offset"
    with hold_lock(CACHE / "go.lock"):
        command = [tool("go", "this reproduction needs Go"), "build", "-o", str(program_file), "."]
        output_of(command, "go failed", directory=REPORTS / program_file.name)
    with ApacheKafka(version=kafka_release) as kafka:
        _run_tool(kafka, *TOPIC)
        return _run_reproduction([str(program_file), kafka.bootstrap])


def _run_tool(kafka: ApacheKafka, main_class: str, *args: str) -> None:
    """Run one of Kafka's tools.

    Raises:
        ApacheKafkaError: It could not.
    """
    result = kafka.run_tool(main_class, *args)
    if result.code != 0:
        raise ApacheKafkaError(f"{main_class}: {result.stdout}{result.stderr}")


def _python(file_name: str, bootstrap: str) -> list[str]:
    return [sys.executable, "-u", str(REPORTS / file_name / "reproduction.py"), bootstrap]


def _run_reproduction(
    command: Sequence[str], hands: Mapping[str, Callable[[], object]] | None = None
) -> list[str]:
    """The output of a program, whose requests (``please kill …``) are carried out."""
    lines: list[str] = []
    errors = Path(CACHE, "reports.err")
    with (
        errors.open("w") as errors_file,
        subprocess.Popen(
            command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors_file
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        for printed_line in process.stdout:
            lines.append(printed_line.rstrip())
            say(lines[-1])
            tokens = printed_line.split()
            if tokens[0] == "please" and hands:
                hands[tokens[1]]()
                process.stdin.write("\n")
                process.stdin.flush()
    if not lines or process.returncode not in (0, 1):
        raise ApacheKafkaError(f"{' '.join(command[-2:])}: {errors.read_text()[-2_000:]}")
    return lines


PLAYS: Final[dict[str, tuple[str, Play]]] = {
    **{
        name: ("", partial(in_java, name))
        for name in (
            "kafka-coordinator-above-high-watermark",
            "kafka-elr-without-leader",
            "kafka-fence-forgotten",
            "kafka-share-group-gap",
            "kafka-share-group-stuck",
            "kafka-share-state-made-twice",
            "kafka-streams-refused-member",
        )
    },
    "aiokafka-abort-without-end": (f", aiokafka {version('aiokafka')}", aiokafka),
    "kafka-python-commit-without-record": (
        f", kafka-python {version('kafka-python')}",
        kafka_python,
    ),
    "sarama-get-offset": (", Sarama 1.61.1", sarama),
}
"""Folder to what is asked beside Kafka, and its play."""


def main(argv: Sequence[str] | None = None) -> int:
    """Play the reports; with ``--write``, store their output."""
    parser = argparse.ArgumentParser(prog="python -m tests.real.reports")
    parser.add_argument("names", nargs="*", choices=[*PLAYS, []], metavar="NAME")
    parser.add_argument("--version", default=KAFKA_VERSION, help="release of Apache Kafka")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(argv)
    reproduced = []
    for file_name in options.names or PLAYS:
        version_text, play = PLAYS[file_name]
        say(f"{file_name}: Apache Kafka {options.version}{version_text}")
        lines = play(options.version)
        reproduced.append(lines[-1] == LAST_LINE)
        if options.write:
            text = "\n".join((f"Apache Kafka {options.version}{version_text}", "", *lines))
            (REPORTS / file_name / "output.txt").write_text(f"{text}\n", "utf-8")
    return 0 if all(reproduced) else 1


if __name__ == "__main__":
    sys.exit(main())
