"""One life of a server: started, timed to its first committed transaction, stopped."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.generator import FirstCommit, LoadError, first_commit
from benchmarks.servers import READY_FILE, Launch, Server

_START_LIMIT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 20.0
_LOG_TAIL_LINES: Final = 30


class ServerError(Exception):
    """A server did not start or does not run any more; the message carries the end of its log."""


class StartedServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that has committed its first transaction."""

    pid: int
    bootstrap: str
    first_commit: FirstCommit


@contextlib.contextmanager
def started_server(server: Server, load: Path) -> Iterator[StartedServer]:
    """Start a server, commit a first transaction, and stop it at the end of the block.

    Raises:
        ServerError: It exited, or no transaction could be committed.
    """
    home = Path(tempfile.mkdtemp(prefix=f"txnsim-bench-{server.name}-"))
    log_file = home / "server.log"
    try:
        launch = server.launch(home)
        with log_file.open("wb") as log_output:
            started_ns = time.time_ns()
            process = subprocess.Popen(
                launch.command,
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=log_output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        try:
            yield _first_commit(launch, load, home, process.pid, started_ns)
        except (LoadError, ServerError) as failure:
            exit_code = process.poll()
            state_text = "still runs" if exit_code is None else f"exited with {exit_code}"
            raise ServerError(
                f"{failure}\n{server.label} {state_text}:\n{_tail(log_file)}"
            ) from failure
        finally:
            _stop(process)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _first_commit(
    launch: Launch, load: Path, home: Path, pid: int, started_ns: int
) -> StartedServer:
    ready_file = home / READY_FILE
    address = ("--ready-file", str(ready_file))
    if launch.bootstrap is not None:
        address = ("--bootstrap", launch.bootstrap)
    first_commit_times = first_commit(
        load, address=address, server_pid=pid, started_ns=started_ns, limit_s=_START_LIMIT_S
    )
    bootstrap = launch.bootstrap or str(json.loads(ready_file.read_text())["bootstrap"])
    return StartedServer(pid=pid, bootstrap=bootstrap, first_commit=first_commit_times)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a process and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _tail(log_file: Path) -> str:
    return "\n".join(log_file.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:])


def resident_mb(pid: int) -> float:
    """Resident set of a process and of those that it has started, in megabytes of 10^6 bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            child_pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            return int(line.split()[1]) * 1024 / 1e6 + sum(
                resident_mb(int(child_pid)) for child_pid in child_pids
            )
    raise ServerError(f"process {pid} has no memory any more")
