"""``txnsim stream`` as a process: started, listened to, told to end or killed with all that it has
started.
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
"""For a condition, on a machine with much else to do; a process that has ended is noticed at once.
"""


class StreamProcess(ManagedResource):
    """The process, and the events that it has told on its standard output.

    Args:
        command: What is run; each line that it prints is a JSON object.
        log: Where its standard error goes.
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
        """Wait until the events fulfil this.

        Raises:
            AssertionError: The process has ended before, or patience.
        """
        with self._changed:
            is_met = self._changed.wait_for(
                lambda: is_enough(self.events) or not self._reader.is_alive(), PATIENCE_S
            )
        assert is_met, f"not seen in {PATIENCE_S} s: {self.events}\n{self.log()}"
        assert is_enough(self.events), f"it has ended: {self.events}\n{self.log()}"

    def events_named(self, event: str) -> list[dict[str, Any]]:
        """The events of that name."""
        return [line for line in list(self.events) if line["event"] == event]

    def terminate(self) -> int:
        """Tell it to end; its exit status."""
        self._process.terminate()
        return self.end()

    def end(self) -> int:
        """Wait for its end; its exit status."""
        status = self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return status

    def kill(self) -> None:
        """SIGKILL, to its JVM as well."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)

    def log(self) -> str:
        """The end of what it has printed on standard error."""
        return self._log.read_text(errors="replace")[-4_000:]

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                with self._changed:
                    self.events.append(json.loads(line))
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()
