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

from benchmarks.generator import FirstCommitTimes, LoadError, time_first_commit
from benchmarks.servers import READY_FILE, Server, ServerLaunch

_START_LIMIT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 20.0
_LOG_TAIL_LINES: Final = 30


class ServerError(Exception):
    """A server did not start or does not run any more; the message carries the end of its log."""


class StartedServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that has committed its first transaction."""

    pid: int
    bootstrap: str
    first_commit: FirstCommitTimes


@contextlib.contextmanager
def run_server(server: Server, load_program: Path) -> Iterator[StartedServer]:
    """Start a server, commit a first transaction, and stop it at the end of the block.

    Raises:
        ServerError: It exited, or no transaction could be committed.
    """
    home_directory = Path(tempfile.mkdtemp(prefix=f"txnsim-bench-{server.name}-"))
    log_file = home_directory / "server.log"
    try:
        server_launch = server.launch(home_directory)
        with log_file.open("wb") as log_output:
            started_ns = time.time_ns()
            process = subprocess.Popen(
                server_launch.command,
                cwd=home_directory,
                stdin=subprocess.DEVNULL,
                stdout=log_output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        try:
            yield _commit_first_transaction(
                server_launch, load_program, home_directory, process.pid, started_ns
            )
        except (LoadError, ServerError) as server_failure:
            exit_code = process.poll()
            state_text = "still runs" if exit_code is None else f"exited with {exit_code}"
            raise ServerError(
                f"{server_failure}\n{server.label} {state_text}:\n{_read_log_tail(log_file)}"
            ) from server_failure
        finally:
            _stop_process(process)
    finally:
        shutil.rmtree(home_directory, ignore_errors=True)


def _commit_first_transaction(
    server_launch: ServerLaunch, load_program: Path, home_directory: Path, pid: int, started_ns: int
) -> StartedServer:
    ready_file = home_directory / READY_FILE
    address_arguments = ("--ready-file", str(ready_file))
    if server_launch.bootstrap is not None:
        address_arguments = ("--bootstrap", server_launch.bootstrap)
    first_commit_times = time_first_commit(
        load_program,
        address_arguments=address_arguments,
        server_pid=pid,
        started_ns=started_ns,
        limit_s=_START_LIMIT_S,
    )
    bootstrap = server_launch.bootstrap or str(json.loads(ready_file.read_text())["bootstrap"])
    return StartedServer(pid=pid, bootstrap=bootstrap, first_commit=first_commit_times)


def _stop_process(process: subprocess.Popen[bytes]) -> None:
    """Stop a process and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _read_log_tail(log_file: Path) -> str:
    return "\n".join(log_file.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:])


def read_resident_mb(pid: int) -> float:
    """Resident set of a process and of those that it has started, in megabytes of 10^6 bytes."""
    for status_line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if status_line.startswith("VmRSS:"):
            child_pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            return int(status_line.split()[1]) * 1024 / 1e6 + sum(
                read_resident_mb(int(child_pid)) for child_pid in child_pids
            )
    raise ServerError(f"process {pid} has no memory any more")
