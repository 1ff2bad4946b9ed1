"""``txnsim serve`` as a process of its own: what users start, reached over the wire only.

Standard library only, so that the wheel can be tried from a bare environment.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time  # noqa: TID251 - a process on the real machine
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

from tests.support.lifetime import ManagedResource
from tests.support.processor_delays import delays_s, undelayed_s

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_START_TIMEOUT_S: Final = 90.0  # waits for a processor do not count
_STOP_TIMEOUT_S: Final = 60.0
_STOP_POLL_S: Final = 5.0
_POLL_S: Final = 0.02
_LOG_TAIL_LINES: Final = 40


class TxnsimServerError(Exception):
    """The server did not start or did not stop cleanly; the message carries what it printed."""


def installed_txnsim() -> Path:
    """The command beside this interpreter, else the one of the repository's environment."""
    sibling_path = Path(sys.executable).with_name("txnsim")
    return sibling_path if sibling_path.exists() else _REPOSITORY / ".venv" / "bin" / "txnsim"


class TxnsimServer(ManagedResource):
    """A cluster of simulated brokers, as a context manager.

    Args:
        transaction_version: Level of ``transaction.version`` at start.
        brokers: How many.
        executable: The command to try; the installed one unless given.
        launcher: What is started instead of the command, with the same arguments.
        arguments: Further arguments of ``txnsim serve``.
        practise: Start ``txnsim practise`` instead, which chooses brokers and level itself.
        working_directory: Where it is started.
    """

    def __init__(
        self,
        *,
        transaction_version: int = 2,
        brokers: int = 3,
        executable: Path | None = None,
        launcher: Sequence[str] = (),
        arguments: Sequence[str] = (),
        working_directory: Path | None = None,
        is_practice: bool = False,
    ) -> None:
        self._executable = executable or installed_txnsim()
        self._launcher = tuple(launcher) or (str(self._executable),)
        self._command = "practise" if is_practice else "serve"
        chosen_arguments = (
            ()
            if is_practice
            else (
                *("--brokers", str(brokers)),
                *("--transaction-version", str(transaction_version)),
            )
        )
        self._arguments = ("--port", "0", *chosen_arguments, *arguments)
        self._working_directory = working_directory
        self._ready: dict[str, Any] = {}

    # Life

    def __enter__(self) -> Self:
        self.start()
        return self

    def _on_exit(self, exc: BaseException | None) -> None:
        self.stop(expects_clean_end=exc is None)

    def start(self) -> None:
        """Start and wait for the ready file, which appears in one move once every listener accepts.

        Raises:
            TxnsimServerError: It could not be started, exited, or was not ready in time.
        """
        self._directory = Path(tempfile.mkdtemp(prefix="txnsim-server-"))
        self._log = self._directory / "output.log"
        ready_file = self._directory / "ready.json"
        command = [
            *self._launcher,
            self._command,
            *self._arguments,
            "--ready-file",
            str(ready_file),
        ]
        try:
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self._working_directory,
                )
        except OSError as failure:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise TxnsimServerError(f"{self._executable}: {failure}") from failure
        self._await(ready_file)
        self._ready = json.loads(ready_file.read_text())

    def stop(self, *, expects_clean_end: bool = True) -> None:
        """Stop by SIGTERM.

        Raises:
            TxnsimServerError: It did not end in time, or not with status 0, and
                ``expects_clean_end``.
        """
        self._process.terminate()
        begun_s = time.monotonic()
        while (code := self._process.poll()) is None:
            if self._has_taken(_STOP_TIMEOUT_S, begun_s):
                self._process.kill()
                self._process.wait()
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_STOP_POLL_S)
        output = self.log_tail()
        shutil.rmtree(self._directory, ignore_errors=True)
        if code != 0 and expects_clean_end:
            ending = "did not end after SIGTERM" if code is None else f"ended with {code}"
            raise TxnsimServerError(f"txnsim serve {ending}:\n{output}")

    # Queries

    @property
    def ready(self) -> dict[str, Any]:
        """The content of the ready file."""
        return self._ready

    @property
    def bootstrap(self) -> str:
        """Addresses of the brokers, as clients want them."""
        return str(self._ready["bootstrap"])

    @property
    def http(self) -> str | None:
        """Address of the control port, if it was asked for."""
        address = self._ready.get("http")
        return None if address is None else str(address)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def log_bytes(self) -> int:
        """How many bytes the server has printed."""
        return self._log.stat().st_size

    @property
    def log_text(self) -> str:
        """All that the server has printed."""
        return self._log.read_text(errors="replace")

    def log_tail(self) -> str:
        """The last lines that the server printed."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:])

    def wait_for_output(self, text: str) -> str:
        """Wait until the server has printed ``text``, and return its output. The ready file appears
        before.

        Raises:
            TxnsimServerError: It was not printed in time.
        """
        begun_s = time.monotonic()
        while text not in (output := self.log_tail()):
            if self._has_taken(_START_TIMEOUT_S, begun_s):
                raise TxnsimServerError(f"txnsim serve did not print {text!r}, but:\n{output}")
            time.sleep(_POLL_S)
        return output

    def _await(self, ready_file: Path) -> None:
        begun_s = time.monotonic()
        while not ready_file.exists():
            try:
                code = self._process.wait(timeout=_POLL_S)
            except subprocess.TimeoutExpired:
                if not self._has_taken(_START_TIMEOUT_S, begun_s):
                    continue
                problem_text = f"not ready in {_START_TIMEOUT_S:.0f} s"
            else:
                problem_text = f"exited with {code}"
            output = self.log_tail()
            self.stop(expects_clean_end=False)
            raise TxnsimServerError(f"txnsim serve {problem_text}:\n{output}")

    def _has_taken(self, limit_s: float, begun_s: float) -> bool:
        """Whether the server has taken longer than a limit, without its waits for a processor."""
        seconds = time.monotonic() - begun_s
        return seconds > limit_s and undelayed_s(seconds, delays_s(self.pid)) > limit_s
