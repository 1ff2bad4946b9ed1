"""Many seeds, on several processes; one row for each, whatever becomes of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Final

import msgspec

from txnsim.errors import ConfigError
from txnsim.runtime.wall_clock import cpu_ms
from txnsim.simulation.drawing import Wanted, draw
from txnsim.simulation.play import Cell, play, quieten

CHUNK: Final = 8
"""Seeds per task: a task costs about a millisecond, a seed some hundred."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What a seed came to."""

    seed: int
    kinds: tuple[str, ...]
    because: tuple[str, ...]
    """One sentence for each finding."""
    digest: str
    virtual_ms: int
    cpu_ms: int
    acts: int
    """How many were begun."""
    answered: int
    """How many came to something: no error."""
    committed: int
    struck: int
    """What was done to the cluster, and was possible."""
    cells: tuple[tuple[Cell, int], ...] = ()


class Tally:
    """What a batch has come to so far."""

    def __init__(self) -> None:
        self.seeds = 0
        self.acts = 0
        self.committed = 0
        self.struck = 0
        self.virtual_ms = 0
        self.cpu_ms = 0
        self.cells: Counter[Cell] = Counter()
        self.failed: list[Row] = []

    def add(self, row: Row) -> None:
        """One more seed."""
        self.seeds += 1
        self.acts += row.acts
        self.committed += row.committed
        self.struck += row.struck
        self.virtual_ms += row.virtual_ms
        self.cpu_ms += row.cpu_ms
        self.cells.update(dict(row.cells))
        if row.kinds:
            self.failed.append(row)

    @property
    def idle(self) -> str | None:
        """What was not exercised, where that makes the verdict worthless; None if all was."""
        missing = [
            what
            for what, count in (
                ("no seed was played", self.seeds),
                ("no call was answered", sum(self.cells.values())),
                ("no transaction was committed", self.committed),
                ("nothing was done to a cluster", self.struck),
            )
            if not count
        ]
        return missing[0] if missing else None


def row_of(seed: int, wanted: Wanted) -> Row:
    """Play one seed."""
    began_ms = cpu_ms()
    plan = draw(seed, wanted)
    played = play(plan)
    good = [one for one in played.done if one.error == "NONE"]
    return Row(
        seed=seed,
        kinds=played.kinds,
        because=tuple(f"{one.kind}: {one.because}" for one in played.findings),
        digest=played.digest,
        virtual_ms=played.virtual_ms,
        cpu_ms=cpu_ms() - began_ms,
        acts=len(played.done),
        answered=len(good),
        committed=sum(one.step.get("call", {}).get("do") == "commit" for one in good),
        struck=sum(not {"cluster", "arm", "advance"}.isdisjoint(one.step) for one in good),
        cells=tuple(played.cells.items()),
    )


def rows(
    seeds: Iterable[int],
    wanted: Wanted,
    *,
    jobs: int,
    goes_on: Callable[[], bool] = lambda: True,
) -> Iterator[Row]:
    """A row for each seed, as they come; with one job in this process and in order.

    Args:
        seeds: Which.
        wanted: What the user has fixed.
        jobs: Processes.
        goes_on: Asked before more is begun; what is under way is waited for.

    Raises:
        ConfigError: The cluster of a seed can't be had.
    """
    if jobs == 1:
        quieten()
        for seed in seeds:
            if not goes_on():
                return
            yield row_of(seed, wanted)
        return
    with ProcessPoolExecutor(jobs, initializer=quieten) as pool:
        yield from _in_pool(pool, iter(seeds), wanted, jobs=jobs, goes_on=goes_on)


def _in_pool(
    pool: ProcessPoolExecutor,
    seeds: Iterator[int],
    wanted: Wanted,
    *,
    jobs: int,
    goes_on: Callable[[], bool],
) -> Iterator[Row]:
    under_way: dict[Future[list[Row]], list[int]] = {}
    while True:
        while len(under_way) < 2 * jobs and goes_on():
            chunk = [seed for seed, _ in zip(seeds, range(CHUNK), strict=False)]
            if not chunk:
                break
            under_way[pool.submit(_rows_of, chunk, wanted)] = chunk
        if not under_way:
            return
        for future in wait(under_way, return_when=FIRST_COMPLETED).done:
            chunk = under_way.pop(future)
            try:
                yield from future.result()
            except BrokenProcessPool as error:
                raise ConfigError(f"a process died while it played the seeds {chunk}") from error


def _rows_of(seeds: list[int], wanted: Wanted) -> list[Row]:
    return [row_of(seed, wanted) for seed in seeds]


def processors() -> int:
    """How many processes this machine can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
