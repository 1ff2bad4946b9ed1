"""``python -m benchmarks.start``: how long things take to begin.

Each figure is told twice: milliseconds that passed, and milliseconds of CPU that the process used,
which another program on the machine lengthens less. ``--python`` is the interpreter of another
installation, as of a wheel. An interpreter that may write no byte code compiles every module again,
so it is let write it to a folder of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

_POLL_S: Final = 0.001
_LIMIT_S: Final = 120.0
_CLUSTERS: Final = 20

PassedAndCpuMs = tuple[float, float]
"""Milliseconds that passed, and those of CPU."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start")
    parser.add_argument("--python", default=sys.executable, help="whose txnsim (default: this)")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="txnsim-start-") as scratch_folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(Path(scratch_folder, "byte-code"))}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        ready_file = Path(scratch_folder, "ready")
        txnsim_command = (args.python, "-m", "txnsim")
        serve_command = (
            *txnsim_command,
            "serve",
            "--port",
            "0",
            "--json",
            "--ready-file",
            str(ready_file),
        )
        measure_by_title: dict[str, Callable[[], PassedAndCpuMs]] = {
            "process start to accepting": lambda: _time_server_start(
                serve_command, ready_file, environment
            ),
            "the same with the control port": lambda: _time_server_start(
                (*serve_command, "--http", "0"), ready_file, environment
            ),
            "txnsim scenario list": lambda: _time_command(
                (*txnsim_command, "scenario", "list"), environment
            ),
        }
        for measurement_title, measure_times in measure_by_title.items():
            measure_times()  # writes the byte code
            _print_times(measurement_title, [measure_times() for _ in range(args.rounds)])
    _print_times("a fresh cluster in a test", asyncio.run(_time_clusters()))
    return 0


def _print_times(title: str, samples: Sequence[PassedAndCpuMs]) -> None:
    passed_ms, cpu_ms = ([sample[column] for sample in samples] for column in (0, 1))
    print(
        f"{title:<32} {median(passed_ms):8.1f} ms (least {min(passed_ms):.1f}),"
        f" CPU {median(cpu_ms):.1f} ms (least {min(cpu_ms):.1f})",
        flush=True,
    )


def _time_server_start(
    command: Sequence[str], ready_file: Path, environment: dict[str, str]
) -> PassedAndCpuMs:
    """From the start of a server until it says in its ready file that every listener accepts."""
    ready_file.unlink(missing_ok=True)
    began_s = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    try:
        while not ready_file.exists():
            if process.poll() is not None or time.perf_counter() - began_s > _LIMIT_S:
                raise SystemExit(f"{' '.join(command)} did not start")
            time.sleep(_POLL_S)
        passed_ms = (time.perf_counter() - began_s) * 1_000
        thread_folders = Path(f"/proc/{process.pid}/task").iterdir()
        cpu_ns = sum(
            int(Path(thread_folder, "schedstat").read_text().split()[0])
            for thread_folder in thread_folders
        )
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    return passed_ms, cpu_ns / 1_000_000


def _time_command(command: Sequence[str], environment: dict[str, str]) -> PassedAndCpuMs:
    usage_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began_s = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, env=environment, check=True)
    passed_ms = (time.perf_counter() - began_s) * 1_000
    usage_after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = (
        usage_after.ru_utime + usage_after.ru_stime - usage_before.ru_utime - usage_before.ru_stime
    )
    return passed_ms, cpu_s * 1_000


async def _time_clusters() -> list[PassedAndCpuMs]:
    """Start clusters of three brokers in this process, each after the one before has ended."""
    from txnsim.testing.cluster import AsyncSimulatedKafka

    times = []
    for _ in range(_CLUSTERS + 1):
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        kafka = AsyncSimulatedKafka()
        await kafka.__aenter__()
        times.append(
            (
                (time.perf_counter() - began_s) * 1_000,
                (time.process_time() - began_cpu_s) * 1_000,
            )
        )
        await kafka.__aexit__(None, None, None)
    return times[1:]  # the first one imports


if __name__ == "__main__":
    sys.exit(main())
