"""The program of lesson L10, as a learner has it: run, killed where its commit has no answer, run
again, and mended as the lesson wants it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Final

from txnsim_lab.scenario.teaching.lessons import lesson

PATIENCE_S: Final = 120
"""A busy machine is no failure."""
LOOP: Final = 'for order in ("order-1", "order-2", "order-3"):\n'
READ_FIRST: Final = """
from confluent_kafka import Consumer, TopicPartition

consumer = Consumer({
    "bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed",
    "enable.partition.eof": True, "enable.auto.commit": False,
})
consumer.assign([TopicPartition(topic, 0, 0)])
done = set()
while (message := consumer.poll(60)) is not None and message.error() is None:
    done.add(message.value().decode().split()[0])
consumer.close()
"""
"""The code after ``init_transactions`` that the lesson's hints lead to."""


class LessonProgram:
    """The lesson's program, run against one cluster."""

    def __init__(self, program_file: Path, *, bootstrap: str, http_url: str) -> None:
        self.program = program_file
        self._bootstrap = bootstrap
        self._http = http_url

    def mend(self) -> None:
        """Correct the program's mistake, as the lesson teaches."""
        file_text = self.program.read_text("utf-8")
        assert file_text.count(LOOP) == 1
        skip = f"{LOOP}    if order in done:\n        continue\n"
        self.program.write_text(file_text.replace(LOOP, READ_FIRST + skip), "utf-8")

    def run(self, topic: str) -> None:
        """Run the program to its end."""
        with self._start_program(topic) as process:
            output, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, output

    def kill_and_run(self, topic: str) -> None:
        """Kill the program while the answer to its commit is held, then run it again."""
        with self._start_program(topic) as process:
            wait_text = f"{self._http}/api/v1/faults/l10-answer/wait?timeout_ms={PATIENCE_S}000"
            with urllib.request.urlopen(wait_text, timeout=PATIENCE_S) as answer:
                assert json.load(answer)["struck"] == 1
            process.kill()
        self.run(topic)

    def _start_program(self, topic: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(self.program), self._bootstrap, self._http, topic],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def program_of_the_lesson(folder: Path) -> Path:
    """Write the program of lesson L10 into a folder; return its path."""
    lesson_part = lesson("L10").parts[0]
    path = folder / lesson_part.file
    path.write_text(lesson_part.code, "utf-8")
    return path
