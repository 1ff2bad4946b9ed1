"""``txnsim serve`` with a ticker on its event loop: ``python ticking_server.py TICKS serve …``.

It runs by its path, with the interpreter of any checkout, so it imports nothing of the tests.
TICKS is a file that both sides map into memory; the rig reads it also while the loop stands still.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import mmap
import resource
import struct
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

TICK_S: Final = 0.01
TICKS: Final = struct.Struct("<5q")
"""Round asked for by the reader, round being measured, nanoseconds of the last tick (monotonic),
longest gap in ns, most CPU time of the loop's thread between two ticks in ns.
"""


DATA_BYTES_MAX: Final = 4 << 30
"""The most memory of the program, so that an attack on it can't harm the machine."""


class Ticker:
    """Ticks on the running loop and notes the gaps."""

    def __init__(self, shared_memory: mmap.mmap) -> None:
        self._shared = shared_memory
        self._round = 0
        self._longest_ns = self._busiest_ns = 0
        self._last_ns = time.monotonic_ns()
        self._last_cpu_ns = time.thread_time_ns()
        self._loop = asyncio.get_running_loop()
        self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        now_ns, cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        asked_round = TICKS.unpack_from(self._shared)[0]
        if asked_round != self._round:
            self._round = asked_round
            self._longest_ns = self._busiest_ns = 0
        else:
            self._longest_ns = max(self._longest_ns, now_ns - self._last_ns)
            self._busiest_ns = max(self._busiest_ns, cpu_ns - self._last_cpu_ns)
        self._last_ns, self._last_cpu_ns = now_ns, cpu_ns
        packed_ticks = TICKS.pack(
            asked_round, self._round, now_ns, self._longest_ns, self._busiest_ns
        )
        self._shared[8 : TICKS.size] = packed_ticks[8:]  # the first field is the reader's
        self._loop.call_later(TICK_S, self._tick)


_NEWEST: Final = 2
"""Versions of each API that are loaded."""
FIRST_USED: Final = (
    ".broker._dead_letters",
    ".broker._share_meters",
    ".broker._share_partitions",
    ".broker.share_fetch",
    ".coordinators.group.service",
    ".coordinators.share.service",
    ".metrics.exposition",
    "_lab.scenario.scenario_reader",
)
"""Modules that are imported on first use, by coordinators, share fetches, a scrape of metrics and a
posted scenario.
"""


def load(package: str) -> None:
    """Import handlers and coordinators, and compile codecs. Otherwise first requests take up to 100
    ms for that, once in a server's life, and would decide the verdict on a short attack.
    """
    for name in FIRST_USED:
        if importlib.util.find_spec(f"{package}{name}"):  # another checkout may not have it
            importlib.import_module(f"{package}{name}")
    codec_module, decoder_module, encoder_module, wire_module, api_module, kinds_module = (
        importlib.import_module(f"{package}.{name}")
        for name in (
            "wire.codec",
            "wire.decoder",
            "wire.encoder",
            "wire.registry",
            "api.registry",
            "group.record_kinds",
        )
    )
    for api_key, handler in api_module.HANDLERS.items():
        assert handler.handle is not None
        for version in wire_module.versions(api_key)[-_NEWEST:]:
            decoder_module.reader(codec_module.request_class(api_key, version))
            encoder_module.writer(codec_module.response_class(api_key, version))
    kinds_module.kinds()


def main(ticks: str, arguments: list[str]) -> int:
    """Run the program with a ticker on each of its loops."""
    resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES_MAX, DATA_BYTES_MAX))
    package = "txnsim" if importlib.util.find_spec("txnsim") else "sim"
    world_module = f"{package}.runtime.real_world"
    if importlib.util.find_spec(world_module) is None:
        world_module = f"{package}.runtime.real"  # before 2026-11-29
    real_world_module = importlib.import_module(world_module)
    program_module = importlib.import_module(f"{package}.cli.main")
    load(package)
    with Path(ticks).open("r+b") as file:
        shared_memory = mmap.mmap(file.fileno(), TICKS.size)
    run = real_world_module.run

    async def ticking(main_coroutine: Coroutine[Any, Any, Any]) -> Any:
        Ticker(shared_memory)
        return await main_coroutine

    vars(real_world_module)["run"] = lambda main: run(ticking(main))
    return int(program_module.main(arguments))


if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its modules are not the program's
    sys.exit(main(sys.argv[1], sys.argv[2:]))
