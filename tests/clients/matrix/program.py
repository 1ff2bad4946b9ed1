"""Running a client's program: bounded in time, heard line by line, never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from tests.clients.matrix.verdicts import Line, Output
from tests.support.apache_kafka import REPOSITORY


class Programs:
    """The programs that run now, from several threads, so that all of them can be stopped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._is_stopped = False

    def run(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        patience_s: float,
        on_line: Callable[[Line], None],
    ) -> Output:
        """Run to the end, both streams into one; each line is told as it comes.

        A program that overruns its patience is stopped together with everything it started: it
        runs in a session of its own.
        """
        start_s = time.monotonic()
        process = self._start(command, environment)
        overrun_event = threading.Event()

        def stop() -> None:
            overrun_event.set()
            _kill(process)

        timer = threading.Timer(patience_s, stop)
        timer.start()
        lines: list[Line] = []
        try:
            assert process.stdout is not None
            with process.stdout as stream:
                for text in stream:
                    lines.append(Line(time.monotonic() - start_s, text.rstrip("\n")))
                    on_line(lines[-1])
            code = process.wait()
        finally:
            timer.cancel()
            _kill(process)
            with self._lock:
                self._running.discard(process)
        return Output(lines, code, overrun_event.is_set())

    def stop(self) -> None:
        """Stop all programs, and start no more."""
        with self._lock:
            self._is_stopped = True
            for process in self._running:
                _kill(process)

    def _start(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        with self._lock:
            if self._is_stopped:
                raise RuntimeError("programs are being stopped")
            process = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._running.add(process)
        return process


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a program with its whole session; ignore a program that has ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
