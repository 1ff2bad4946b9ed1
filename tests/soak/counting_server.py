"""``txnsim serve`` that counts itself: ``python -m tests.soak.counting_server COUNTS serve …``.

Each second it replaces COUNTS by a line of JSON: ``tasks`` of the loop, the longest ``gap_ms``
between two ticks of 10 ms since the line before, the most CPU time of the loop's thread in one,
``busy_ms`` (a machine that is loaded makes gaps too), and what is ``held`` by design. Where
``TXNSIM_SOAK_CENSUS`` names a file, it gets a line with objects by type every 20 s: a pause each.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections import Counter as Counts
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.soak.holding import measure_held
from txnsim.cli import serve as program
from txnsim.cli.main import main
from txnsim.runtime import real_world
from txnsim.runtime.environment import Environment
from txnsim.server.cluster import SimCluster
from txnsim.server.options import ClusterOptions

TICK_S: Final = 0.01
TELL_S: Final = 1.0
CENSUS_S: Final = 20.0
CENSUS: Final = "TXNSIM_SOAK_CENSUS"
COMMONEST: Final = 40


class Counter:
    """Counts on the running loop."""

    def __init__(self, file: Path, clusters: list[SimCluster]) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._told_s = self._last_s = time.monotonic()
        self._last_cpu_s = time.thread_time()
        self._gap_s = self._busy_s = 0.0
        self._counted_s = 0.0
        self._clusters = clusters
        self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        now_s, cpu_s = time.monotonic(), time.thread_time()
        self._busy_s = max(self._busy_s, cpu_s - self._last_cpu_s)
        self._gap_s = max(self._gap_s, now_s - self._last_s - TICK_S)
        if now_s - self._told_s >= TELL_S:
            counts = {
                "tasks": len(asyncio.all_tasks()),
                "gap_ms": round(self._gap_s * 1000, 1),
                "busy_ms": round(self._busy_s * 1000, 1),
                "held": [measure_held(cluster) for cluster in self._clusters],
            }
            if CENSUS in os.environ and now_s - self._counted_s >= CENSUS_S:
                self._counted_s = now_s
                kinds = Counts(type(tracked).__qualname__ for tracked in gc.get_objects())
                counts["census"] = dict(kinds.most_common(COMMONEST))
                with Path(os.environ[CENSUS]).open("ab") as file:
                    file.write(msgspec.json.encode(counts) + b"\n")
            new_file = self._file.with_suffix(".new")
            new_file.write_bytes(msgspec.json.encode(counts))
            new_file.replace(self._file)
            self._told_s, self._gap_s, self._busy_s = now_s, 0.0, 0.0
        self._last_s, self._last_cpu_s = now_s, cpu_s
        self._loop.call_later(TICK_S, self._tick)


def serve(counts_text: str, arguments: list[str]) -> int:
    """Run the program with a counter on its loop."""
    run = real_world.run

    clusters: list[SimCluster] = []

    async def run_counted(work_coroutine: Coroutine[Any, Any, Any]) -> Any:
        Counter(Path(counts_text), clusters)
        return await work_coroutine

    def note_cluster(environment: Environment, options: ClusterOptions) -> SimCluster:
        clusters.append(SimCluster(environment, options))
        return clusters[-1]

    vars(program)["SimCluster"] = note_cluster
    vars(real_world)["run"] = lambda work: run(run_counted(work))
    return main(arguments)


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1], sys.argv[2:]))
