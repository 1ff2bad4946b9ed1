"""Plays many seeds on several processes; each seed gives one row, even if its process dies."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from txnsim import TXNSIM
from txnsim.errors import ConfigError
from txnsim.files import append, problem_of, write_whole
from txnsim.runtime.process_pool import interrupts_kept_back, process_pool
from txnsim.runtime.virtual.reproducible_process import limits_of_process
from txnsim.runtime.wall_clock import cpu_ms
from txnsim_lab.simulation._causes import causes_of
from txnsim_lab.simulation.drawing import SimulationOptions, draw
from txnsim_lab.simulation.plan import Plan
from txnsim_lab.simulation.play import OVER_LIMIT_KIND, CoverageCell, play, quieten

T = TypeVar("T")

_HASH_SEED: Final = "PYTHONHASHSEED"
SEEDS_PER_TASK: Final = 8
"""Seeds per task: a task costs about a millisecond, a seed a few hundred."""


def prepare_worker() -> None:
    """Prepare a worker of an engine: it logs nothing, and its hashes of strings are deterministic.

    Raises:
        ConfigError: Its runs would not repeat.
    """
    quieten()
    for limit_sentence in limits_of_process():
        if _HASH_SEED in limit_sentence:
            raise ConfigError(f"a worker of Spark can't repeat runs: {limit_sentence}")


class SeedRow(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a seed."""

    seed: int
    kinds: tuple[str, ...]
    because: tuple[str, ...]
    """One sentence for each finding."""
    digest: str
    virtual_ms: int
    cpu_ms: int
    acts: int
    """Number of acts begun."""
    answered: int
    """Number of acts without an error."""
    committed: int
    """Number of answered commits; for a user's workload, of commit markers."""
    struck: int
    """Number of acts on the cluster that were possible."""
    cells: tuple[tuple[CoverageCell, int], ...] = ()
    mode: str = ""
    """The mode of the protocol; "" in rows that lack it."""
    names: tuple[str, ...] | None = None
    """Names of the causes, empty if none is known; None if the row does not say."""

    @property
    def group(self) -> tuple[str, ...]:
        """Key of similar findings: the causes, else the kinds."""
        return self.names or self.kinds


class SeedTally:
    """Totals over the rows of a batch."""

    def __init__(self) -> None:
        self.seed_count = 0
        self.act_count = 0
        self.commit_count = 0
        self.cluster_act_count = 0
        self.virtual_ms = 0
        self.cpu_ms = 0
        self.cells: Counter[CoverageCell] = Counter()
        self.failed_rows: list[SeedRow] = []

    def add(self, row: SeedRow) -> None:
        self.seed_count += 1
        self.act_count += row.acts
        self.commit_count += row.committed
        self.cluster_act_count += row.struck
        self.virtual_ms += row.virtual_ms
        self.cpu_ms += row.cpu_ms
        self.cells.update(dict(row.cells))
        if row.kinds:
            self.failed_rows.append(row)

    @property
    def idle(self) -> str | None:
        """What the seeds have not exercised, so that the verdict means nothing; None if all was."""
        idle_parts = [
            part_name
            for part_name, part_count in (
                ("no seed was played", self.seed_count),
                ("no call was answered", sum(self.cells.values())),
                ("no transaction was committed", self.commit_count),
                ("nothing was done to a cluster", self.cluster_act_count),
            )
            if not part_count
        ]
        return idle_parts[0] if idle_parts else None


def row_of(seed: int, options: SimulationOptions, *, cpu_s: float | None = None) -> SeedRow:
    """Play one seed.

    Args:
        seed: The seed.
        options: The user's choices.
        cpu_s: Limit of processor time in seconds. The row of a run that exceeds it says only that.

    Raises:
        ConfigError: The cluster can't be configured as the plan needs.
    """
    began_ms = cpu_ms()
    plan = draw(seed, options)
    played_run = play(plan, cpu_s=cpu_s)
    if OVER_LIMIT_KIND in played_run.kinds:
        (because,) = [
            finding.because for finding in played_run.findings if finding.kind == OVER_LIMIT_KIND
        ]
        return without_verdict(seed, OVER_LIMIT_KIND, because, mode=plan.world.mode)
    successful_acts = [act for act in played_run.acts if act.error == "NONE"]
    return SeedRow(
        seed=seed,
        kinds=played_run.kinds,
        because=tuple(f"{finding.kind}: {finding.because}" for finding in played_run.findings),
        digest=played_run.digest,
        virtual_ms=played_run.virtual_ms,
        cpu_ms=cpu_ms() - began_ms,
        acts=len(played_run.acts),
        answered=len(successful_acts),
        committed=played_run.guest_commit_count
        + sum(act.step.get("call", {}).get("do") == "commit" for act in successful_acts),
        struck=sum(
            not {"cluster", "arm", "advance"}.isdisjoint(act.step) for act in successful_acts
        ),
        cells=tuple(played_run.cells.items()),
        mode=plan.world.mode,
        names=_cause_names(plan) if played_run.kinds else (),
    )


def with_names(row: SeedRow, options: SimulationOptions) -> SeedRow:
    if row.names is not None or not row.kinds:
        return row
    return msgspec.structs.replace(row, names=_cause_names(draw(row.seed, options)))


def _cause_names(plan: Plan) -> tuple[str, ...]:
    return tuple(sorted(cause.name for cause in causes_of(plan)))


def without_verdict(seed: int, kind: str, reason: str, *, mode: str = "") -> SeedRow:
    """The row of a run that did not end."""
    return SeedRow(
        seed=seed,
        kinds=(kind,),
        because=(f"{kind}: {reason}",),
        digest="",
        virtual_ms=0,
        cpu_ms=0,
        acts=0,
        answered=0,
        committed=0,
        struck=0,
        mode=mode,
        names=(),
    )


def rows(
    seeds: Iterable[int],
    options: SimulationOptions,
    *,
    process_count: int,
    goes_on: Callable[[], bool] = lambda: True,
) -> Iterator[SeedRow]:
    """Yield a row for each seed, in the order of completion; one job runs in this process and in
    order.

    Args:
        seeds: The seeds.
        options: The user's choices.
        process_count: Number of processes.
        goes_on: Called before a seed is started; seeds that run already are completed.

    Raises:
        ConfigError: The cluster of a seed can't be configured as its plan needs.
    """
    if process_count == 1:
        quieten()
        for seed in seeds:
            if not goes_on():
                return
            yield row_of(seed, options)
        return
    yield from in_pool(
        partial(row_of, options=options), seeds, process_count=process_count, goes_on=goes_on
    )


def seeds_text(seeds: Sequence[int]) -> str:
    return f"seeds {', '.join(map(str, seeds))}"


def in_pool(
    play_seed: Callable[[int], T],
    seeds: Iterable[int],
    *,
    process_count: int,
    chunk_size: int = SEEDS_PER_TASK,
    goes_on: Callable[[], bool] = lambda: True,
    chunk_text: Callable[[Sequence[int]], str] = seeds_text,
) -> Iterator[T]:
    """Call ``play_seed`` for each seed in other processes; yields the results in the order of
    completion. ``chunk_text`` names seeds in the error about a process that has ended.

    Raises:
        ConfigError: A process ended without a result, or ``play_seed`` raised it.
    """
    running_futures: dict[Future[list[T]], list[int]] = {}
    remaining_seeds = iter(seeds)
    with _process_pool(process_count) as pool:
        while True:
            while len(running_futures) < 2 * process_count and goes_on():
                chunk_seeds = list(islice(remaining_seeds, chunk_size))
                if not chunk_seeds:
                    break
                with interrupts_kept_back():
                    running_futures[pool.submit(_work_on_each, play_seed, chunk_seeds)] = (
                        chunk_seeds
                    )
            if not running_futures:
                return
            for future in wait(running_futures, return_when=FIRST_COMPLETED).done:
                chunk_seeds = running_futures.pop(future)
                try:
                    yield from future.result()
                except BrokenProcessPool as error:
                    raise ConfigError(
                        f"{chunk_text(chunk_seeds)}: the process ended without a result; play it"
                        " alone, and look for what ends it: too little memory, os._exit()"
                    ) from error


@contextmanager
def _process_pool(process_count: int) -> Iterator[ProcessPoolExecutor]:
    """Processes in which hashes of strings are deterministic. They start with the first task."""
    hash_seed_before = os.environ.get(_HASH_SEED)
    os.environ[_HASH_SEED] = "0"
    try:
        spawn_context = multiprocessing.get_context("spawn")
        with process_pool(process_count, context=spawn_context, initializer=quieten) as pool:
            yield pool
    finally:
        if hash_seed_before is None:
            del os.environ[_HASH_SEED]
        else:
            os.environ[_HASH_SEED] = hash_seed_before


def _work_on_each(work: Callable[[int], T], seeds: list[int]) -> list[T]:
    return [work(seed) for seed in seeds]


class RowFile:
    """A file of rows, one JSON object per line; seeds that it has are not played again. An
    incomplete last line, as after a kill, is ignored.
    """

    def __init__(self, file_path: Path, options: SimulationOptions) -> None:
        """Read the existing rows.

        Args:
            file_path: The file, which may not exist yet.
            options: The user's choices; the file may only have rows with the same choices.

        Raises:
            ConfigError: The file can't be read, or has rows of other runs.
        """
        self._path = file_path
        self._head_line = msgspec.json.encode({"txnsim": TXNSIM, "wanted": options})
        self.rows: dict[int, SeedRow] = {}
        try:
            first_line, *row_lines = (
                file_path.read_bytes().split(b"\n") if file_path.exists() else (b"",)
            )
        except OSError as error:
            raise ConfigError(f"{file_path}: can't be read: {problem_of(error)}") from None
        if first_line not in (b"", self._head_line):
            raise ConfigError(
                f"{file_path}: has rows of other runs: {first_line.decode(errors='replace')}"
            )
        self._content = self._head_line + b"\n"
        for row_line in row_lines:
            try:
                row = msgspec.json.decode(row_line, type=SeedRow)
            except (msgspec.MsgspecError, RecursionError):
                continue
            self.rows[row.seed] = row
            self._content += row_line + b"\n"

    def __enter__(self) -> RowFile:
        """Remove an incomplete last line, and open the file for appending.

        Raises:
            ConfigError: The file can't be written.
        """
        write_whole(self._path, self._content)
        self._file = self._path.open("ab", buffering=0)
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, row: SeedRow) -> None:
        """Append a row, unbuffered.

        Raises:
            OSError: The disk is full; the complete rows remain, and the next run continues from
                them.
        """
        append(self._file, msgspec.json.encode(row) + b"\n")


def processors() -> int:
    """How many processes this machine can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
