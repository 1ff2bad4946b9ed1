"""Asks a real broker about damaged directories.

``python -m tests.spark.pipeline.damaged.ask [MOST] [NAME …]``: about the named ones, or about at
most MOST of those without an answer. The broker starts on a copy. If it starts, the rows of Kafka's
own ``find-hanging`` are kept; if not, the last error of its log. Answers are added to
``answers.json``.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time  # noqa: TID251 - waits for processes on the real machine
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.clients.kafka_tools.runner import ToolError, Tools
from tests.spark.pipeline.corpus.brokers import JVM
from tests.spark.pipeline.damaged.make import unpack_stages
from tests.spark.pipeline.damaged.recipes import Variant, make_variant, variants
from tests.support.apache_kafka import brokers_listed, free_ports, java_command, kafka_libs

ANSWERS: Final = Path(__file__).with_name("answers.json")
_PATIENCE_S: Final = 120.0
_PAUSE_S: Final = 0.1
NO_ANSWER: Final = "it was not ready in time"
"""Text for a broker that never gets ready, because it waits for a named pipe or the machine is too
busy.
"""
_SAID: Final = re.compile(r"(ERROR|FATAL) (?!\S+EventPerformanceMonitor)[^\n]*(?:\n[^\n]+){0,2}")
"""Errors in a broker's log, without warnings about a slow machine."""
Row = tuple[str, int, int, int, int, int, int]
"""Columns of ``find-hanging``: topic, partition, producer id, producer epoch, coordinator epoch,
start offset, last timestamp.
"""


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of starting a real broker on a damaged directory."""

    starts: bool
    hanging: tuple[Row, ...] = ()
    said: str = ""
    """Why it did not start, or the error of the tool."""


def answers() -> dict[str, Answer]:
    """The kept answers by the name of the variant."""
    if not ANSWERS.exists():
        return {}
    return msgspec.json.decode(ANSWERS.read_bytes(), type=dict[str, Answer])


def keep(answers_by_name: dict[str, Answer]) -> None:
    """Write the answers, one per line."""
    lines = [
        f"{msgspec.json.encode(name).decode()}: {msgspec.json.encode(varied_answer).decode()}"
        for name, varied_answer in sorted(answers_by_name.items())
    ]
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def ask_broker(variant: Variant, path: Path, tools: Tools) -> Answer:
    """Start a broker on a variant and run find-hanging."""
    with tempfile.TemporaryDirectory(prefix="txnsim-asked-") as scratch_path:
        home = Path(scratch_path)
        data = make_variant(variant, path, home / "data")
        port, controller = free_ports(2)
        config = _configure(path / "server.properties", home, data, port, controller)
        options = [*JVM, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command = [*java_command(kafka_libs(), options=options), "kafka.Kafka", str(config)]
        log = home / "broker.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            if not _is_up(process, port):
                return Answer(starts=False, said=_last_words(log, home))
            return _list_hanging(tools, port, process, log, home)
        finally:
            process.kill()
            process.wait()


def _is_up(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline_s:
        if process.poll() is not None:
            return False
        if brokers_listed(port):
            return True
        time.sleep(_PAUSE_S)
    return False


def _list_hanging(
    tools: Tools, port: int, process: subprocess.Popen[bytes], log: Path, home: Path
) -> Answer:
    """Rows of the tool, once two runs agree: leaders and coordinators take a moment."""
    previous_stdout = None
    options = ("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "1")
    for _ in range(20):
        try:
            output = tools.run(
                "kafka-transactions", "--bootstrap-server", f"127.0.0.1:{port}", *options
            )
        except ToolError as error:
            return Answer(starts=True, said=str(error))
        if process.poll() is not None:
            return Answer(starts=False, said=_last_words(log, home))
        if output.code == 0 and output.stdout == previous_stdout:
            return Answer(starts=True, hanging=_rows(output.stdout))
        previous_stdout = output.stdout if output.code == 0 else None
        time.sleep(1)
    return Answer(starts=True, said=(output.stderr or output.stdout)[:300])


def _rows(output: str) -> tuple[Row, ...]:
    answers_by_name = []
    for printed_line in output.splitlines()[1:]:
        topic, *numbers = printed_line.split()[:7]
        answers_by_name.append((topic, *map(int, numbers)))
    return msgspec.convert(sorted(answers_by_name), type=tuple[Row, ...])


def _last_words(log: Path, home: Path) -> str:
    sentences = [match[0] for match in _SAID.finditer(log.read_text(errors="replace"))]
    text = (sentences[0] if sentences else NO_ANSWER).replace(str(home), "HOME")
    return " ".join(text.split())[:300]


def _configure(path: Path, home: Path, data_folder: Path, port: int, controller: int) -> Path:
    values = dict(line.split("=", 1) for line in path.read_text().splitlines())
    values |= {
        "log.dirs": str(data_folder),
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
    }
    config = home / "server.properties"
    config.write_text(
        "".join(f"{name}={property_value}\n" for name, property_value in values.items())
    )
    return config


def main(arguments: Sequence[str]) -> None:
    """Ask about the named variants, or about those without an answer."""
    answers_by_name = answers()
    most_answers = int(arguments[0]) if arguments and arguments[0].isdigit() else None
    named_variants = set(arguments[0 if most_answers is None else 1 :])
    todo = [
        variant
        for variant in variants()
        if variant.name in named_variants
        or (not named_variants and variant.name not in answers_by_name)
    ]
    todo = todo[:most_answers]
    with tempfile.TemporaryDirectory(prefix="txnsim-kept-") as scratch_path:
        unpacked_dir = unpack_stages(Path(scratch_path))
        for record_number, variant in enumerate(todo, 1):
            # A JVM of its own for each address: clients of one that is gone would go on.
            with Tools("") as tools:
                answers_by_name[variant.name] = ask_broker(variant, unpacked_dir, tools)
            keep(answers_by_name)
            answer = answers_by_name[variant.name]
            if answer.said == NO_ANSWER:
                del answers_by_name[variant.name]
                keep(answers_by_name)
            verdict_text = f"{len(answer.hanging)} hang" if answer.starts else "does not start"
            sys.stdout.write(
                f"{record_number}/{len(todo)} {variant.name}: {verdict_text} {answer.said[:150]}\n"
            )
            sys.stdout.flush()
    names = {variant.name for variant in variants()}
    keep(
        {
            answer_name: variant
            for answer_name, variant in answers_by_name.items()
            if answer_name in names
        }
    )


if __name__ == "__main__":
    main(sys.argv[1:])
