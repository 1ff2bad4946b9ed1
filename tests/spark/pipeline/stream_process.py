"""``txnsim stream`` as a process: start it, read its events, end it or kill it with its
children.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from tests.support.lifetime import ManagedResource
from tests.support.quick_spark import quick_environment

PATIENCE_S: Final = 280.0
"""Longest wait for a condition on a busy machine; the end of the process is noticed at once."""


class StreamProcess(ManagedResource):
    """The process, and the events from its standard output.

    Args:
        command: The command; each line that it prints is a JSON object.
        log: File for its standard error.
    """

    def __init__(self, command: Sequence[str], *, log: Path) -> None:
        self._log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                command,
                env=quick_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                start_new_session=True,  # so that its JVM can be killed with it
            )
        self.events: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _on_exit(self, error: BaseException | None) -> None:
        if self._process.poll() is None:
            self.kill()

    def wait_for(self, is_enough: Callable[[list[dict[str, Any]]], bool]) -> None:
        """Wait until ``is_enough(events)``.

        Raises:
            AssertionError: The process has ended before, or the condition is not met within
                ``PATIENCE_S``.
        """
        with self._changed:
            is_met = self._changed.wait_for(
                lambda: is_enough(self.events) or not self._reader.is_alive(), PATIENCE_S
            )
        assert is_met, f"not seen in {PATIENCE_S} s: {self.events}\n{self.log()}"
        assert is_enough(self.events), f"it has ended: {self.events}\n{self.log()}"

    def events_named(self, event: str) -> list[dict[str, Any]]:
        """Return the events of this name."""
        return [event_line for event_line in list(self.events) if event_line["event"] == event]

    def terminate(self) -> int:
        """Send SIGTERM; returns the exit status."""
        self._process.terminate()
        return self.end()

    def end(self) -> int:
        """Wait for the end of the process; returns the exit status."""
        status = self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return status

    def kill(self) -> None:
        """Send SIGKILL to the process and its JVM."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)

    def log(self) -> str:
        """The end of its standard error."""
        return self._log.read_text(errors="replace")[-4_000:]

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as printed_lines:
            for line in printed_lines:
                with self._changed:
                    self.events.append(json.loads(line))
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()
