"""One instance of the counting application: a process that is started, killed and started again.

Its state directory outlives it, as a machine's disk does. With it lives the process id that Kafka
Streams makes its transactional id of, so that the next life fences the last one.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.clients.streams.program import streams_program

_POLL_S: Final = 0.02
_STOP_TIMEOUT_S: Final = 30.0
_LOG_TAIL_LINES: Final = 30
_PROCESS_ID_FILE: Final = "kafka-streams-process-metadata"
_FAILED: Final = "FAILED "
"""So begins what ``CountApp`` prints of a thread's end."""
_THREAD: Final = "StreamThread-1"


class ApplicationError(Exception):
    """An instance did not start, or ended too early; the message contains its output."""


class Application:
    """One instance, with one thread.

    Args:
        name: Its client id; unique among the instances.
        application_id: That of Kafka Streams, the same for all instances.
        topics: Input and output.
        settings: Of Kafka Streams, without ids and directory.
        directory: Where its state, its settings and what it prints are kept.
        replaces_threads: Another thread goes on where one has failed.
    """

    def __init__(
        self,
        file_name: str,
        *,
        application_id: str,
        topics: tuple[str, str],
        settings: Mapping[str, str],
        directory: Path,
        replaces_threads: bool = False,
    ) -> None:
        self.name = file_name
        self._application_id = application_id
        self._topics = topics
        self._state = directory / file_name / "state"
        self._log = directory / file_name / "output.log"
        self._state.mkdir(parents=True)
        self._temporary = directory / file_name / "tmp"
        file = directory / file_name / "streams.properties"
        entries = {
            **settings,
            "application.id": application_id,
            "client.id": file_name,
            "state.dir": str(self._state),
        }
        file.write_text("".join(f"{key}={value}\n" for key, value in entries.items()))
        options = (
            *(("-Dcounting.after.failure=REPLACE_THREAD",) if replaces_threads else ()),
            f"-Djava.io.tmpdir={self._temporary}",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        )
        self._command = [*streams_program("CountApp", *options), *topics, str(file)]
        self._process: subprocess.Popen[bytes] | None = None
        self._printed_before = 0

    # Life

    def start(self) -> None:
        """Start it; it is not running yet."""
        assert self._process is None, f"{self.name} lives"
        # RocksDB's library is unpacked there, and a life that was killed leaves it behind.
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir()
        self._printed_before = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        """End it at once, by SIGKILL.

        Raises:
            ApplicationError: It had ended before.
        """
        process = self._living()
        process.send_signal(signal.SIGKILL)
        process.wait(_STOP_TIMEOUT_S)
        self._process = None

    def stop(self) -> None:
        """Ask it to close and wait for that; nothing where it does not live."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ApplicationError(f"{self.name} did not close:\n{self.tail()}") from None

    def await_running(self, patience_s: float) -> None:
        """Wait until all its tasks run.

        Raises:
            ApplicationError: They did not in time, or it ended.
        """
        deadline_s = time.monotonic() + patience_s
        while "STATE RUNNING" not in self._printed():
            self._living()
            if time.monotonic() > deadline_s:
                raise ApplicationError(
                    f"{self.name} does not run after {patience_s:.0f} s:\n{self.tail()}"
                )
            time.sleep(_POLL_S)

    def _living(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ApplicationError(f"{self.name} is not started")
        exit_code = self._process.poll()
        if exit_code is not None:
            raise ApplicationError(f"{self.name} ended by itself with {exit_code}:\n{self.tail()}")
        return self._process

    # Queries

    @property
    def lives(self) -> bool:
        """Whether the instance was started and neither killed nor stopped."""
        return self._process is not None

    def expect_alive(self) -> None:
        """It may not have ended by itself.

        Raises:
            ApplicationError: It has.
        """
        if self._process is not None:
            self._living()

    @property
    def producer_client_id(self) -> str:
        return f"{self.name}-{_THREAD}-producer"

    @property
    def consumer_client_id(self) -> str:
        """Client id of the consumer that is a member of the group."""
        return f"{self.name}-{_THREAD}-consumer"

    @property
    def transactional_id(self) -> str:
        """Its transactional id; known once it has run for the first time."""
        file = self._state / self._application_id / _PROCESS_ID_FILE
        process_id = json.loads(file.read_text())["processId"]
        return f"{self._application_id}-{process_id}-1"

    def tail(self) -> str:
        """The last lines that it printed; where a thread of it has failed, those that say why."""
        if not self._log.exists():
            return ""
        lines = self._printed().splitlines()
        failures = [
            failure_index for failure_index, line in enumerate(lines) if line.startswith(_FAILED)
        ]
        if failures:
            return "\n".join(lines[failures[0] :][:_LOG_TAIL_LINES])
        return "\n".join(lines[-_LOG_TAIL_LINES:])

    def _printed(self) -> str:
        with self._log.open("rb") as log:
            log.seek(self._printed_before)
            return log.read().decode(errors="replace")
