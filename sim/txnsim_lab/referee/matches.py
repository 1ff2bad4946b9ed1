"""Plays a whole match: explorations first, then stories, then seeds, until the time is up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from txnsim.runtime.wall_clock import monotonic_ms, wall_ms
from txnsim_lab.referee._costs import count_costs
from txnsim_lab.referee.pairs import Designs, exploration_pair, seed_pair, story_pair
from txnsim_lab.referee.verdict import Pair, Side, StoryRun, Verdict, verdict_on
from txnsim_lab.scenario.catalog import find
from txnsim_lab.simulation.play import quieten
from txnsim_lab.simulation.seed_batch import in_pool, prepare_worker, seeds_text

if TYPE_CHECKING:
    import pyarrow as pa

    from txnsim_lab.campaigns import CampaignEngine

T = TypeVar("T")

STORIES_PER_TASK: Final = 2
SEEDS_PER_TASK: Final = 4
SEEDS_PER_JOB: Final = 1_000
"""Number of seeds that an engine plays before their pairs come back."""
_EXPLORING_SHARE: Final = 0.5
"""So much of the time goes to explorations at most."""

_PAIR_COLUMN: Final = "pair"


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """A match: two designs, and what is played on both."""

    designs: Designs
    explorations: tuple[str, ...] = ()
    """Names, or files."""
    stories: tuple[str, ...] = ()
    seeds: range = range(0)
    deviations_max: int = 2
    seconds_max: float | None = None
    process_count: int = 1
    """Number of processes."""


class SeedsTask(msgspec.Struct, frozen=True, kw_only=True):
    """Seeds that a worker of an engine plays on both designs."""

    seeds: tuple[int, ...]
    designs: Designs
    until_ms: int | None
    """Wall clock time after which it begins no further seed; None for no limit."""


def play_match(
    match: Match,
    *,
    on_pair: Callable[[Pair], object] = lambda _pair: None,
    start_engine: Callable[[], CampaignEngine] | None = None,
) -> Verdict:
    """Play a match.

    Args:
        match: What is played.
        on_pair: Called with each pair when both sides are played.
        start_engine: Starts an engine whose workers play the seeds, once all else is played, as
            explorations fork this process; None for processes of this machine.

    Raises:
        ConfigError: A cluster can't be configured as a design says.
    """
    quieten()
    start_ms = monotonic_ms()

    def seconds_left() -> float | None:
        if match.seconds_max is None:
            return None
        return max(0.0, match.seconds_max - (monotonic_ms() - start_ms) / 1_000)

    def goes_on() -> bool:
        return seconds_left() != 0

    costs = in_child(
        partial(count_costs, match.designs), match.designs, work_name="the counting of costs"
    )
    pairs = []
    for pair in _all_pairs(match, goes_on, seconds_left, start_engine):
        pairs.append(pair)
        on_pair(pair)
    wanted_count = (
        len(match.explorations) + len(story_runs(match.stories, match.designs)) + len(match.seeds)
    )
    return verdict_on(
        match.designs.a.text,
        match.designs.b.text,
        pairs,
        costs,
        is_complete=len(pairs) == wanted_count,
    )


def in_child(do_work: Callable[[], T], designs: Designs, *, work_name: str) -> T:
    """Work in a child process if there is a plug-in, which may end the process that it runs in.

    Args:
        do_work: What is done.
        designs: The designs that may have plug-ins.
        work_name: Names the work in the error.

    Raises:
        ConfigError: The process ended without a result, or the work raised it.
    """
    if not designs.have_plugins:
        return do_work()
    (work_result,) = in_pool(
        partial(_work_once, do_work), (0,), process_count=1, chunk_text=lambda _numbers: work_name
    )
    return work_result


def _work_once(do_work: Callable[[], T], _number: int) -> T:
    return do_work()


def _all_pairs(
    match: Match,
    goes_on: Callable[[], bool],
    seconds_left: Callable[[], float | None],
    start_engine: Callable[[], CampaignEngine] | None,
) -> Iterator[Pair]:
    for index, name in enumerate(match.explorations):
        left_s = seconds_left()
        if left_s == 0:
            break
        searches_left = 2 * (len(match.explorations) - index)
        yield exploration_pair(
            name,
            match.designs,
            lane_count=match.process_count,
            deviations_max=match.deviations_max,
            seconds_max=None if left_s is None else left_s * _EXPLORING_SHARE / searches_left,
        )
    runs = story_runs(match.stories, match.designs)
    play_story_of_index = partial(_story_of_index, runs, match.designs)
    yield from _in_processes(
        play_story_of_index,
        range(len(runs)),
        match,
        goes_on,
        chunk_size=STORIES_PER_TASK,
        chunk_text=lambda indexes: " and ".join(
            "{}, run {}".format(*runs[index]) for index in indexes
        ),
    )
    if start_engine is not None:
        yield from _on_engine(start_engine, match, seconds_left)
        return
    yield from _in_processes(
        partial(seed_pair, designs=match.designs),
        match.seeds,
        match,
        goes_on,
        chunk_size=SEEDS_PER_TASK,
    )


def _in_processes(
    play_number: Callable[[int], Pair],
    numbers: range,
    match: Match,
    goes_on: Callable[[], bool],
    *,
    chunk_size: int,
    chunk_text: Callable[[Sequence[int]], str] = seeds_text,
) -> Iterator[Pair]:
    is_much = match.process_count > 1 and len(numbers) > chunk_size
    if numbers and (is_much or match.designs.have_plugins):
        yield from in_pool(
            play_number,
            numbers,
            process_count=match.process_count,
            chunk_size=chunk_size,
            goes_on=goes_on,
            chunk_text=chunk_text,
        )
        return
    for number in numbers:
        if not goes_on():
            return
        yield play_number(number)


def _on_engine(
    start_engine: Callable[[], CampaignEngine],
    match: Match,
    seconds_left: Callable[[], float | None],
) -> Iterator[Pair]:
    """Play the seeds on workers, a job for each thousand, so that pairs come meanwhile."""
    if seconds_left() == 0 or not match.seeds:
        return
    engine = start_engine()
    for job_offset in range(0, len(match.seeds), SEEDS_PER_JOB):
        left_s = seconds_left()
        if left_s == 0:
            return
        job_seeds = match.seeds[job_offset : job_offset + SEEDS_PER_JOB]
        tasks = [
            SeedsTask(
                seeds=tuple(job_seeds[task_offset : task_offset + SEEDS_PER_TASK]),
                designs=match.designs,
                until_ms=None if left_s is None else wall_ms() + round(left_s * 1_000),
            )
            for task_offset in range(0, len(job_seeds), SEEDS_PER_TASK)
        ]
        for row in engine.rows(tasks, SeedsTask, _play_task, f"{_PAIR_COLUMN} binary"):
            yield msgspec.msgpack.decode(row[_PAIR_COLUMN], type=Pair)


def _play_task(task: SeedsTask) -> Iterator[pa.RecordBatch]:
    """Play the seeds of one task on a worker."""
    import pyarrow as pa

    prepare_worker()
    for seed in task.seeds:
        if task.until_ms is not None and wall_ms() >= task.until_ms:
            return
        pair = seed_pair(seed, task.designs)
        yield pa.RecordBatch.from_pydict({_PAIR_COLUMN: [msgspec.msgpack.encode(pair)]})


def _story_of_index(runs: Sequence[StoryRun], designs: Designs, index: int) -> Pair:
    name, run = runs[index]
    return story_pair(name, run, designs)


def story_runs(stories: Sequence[str], designs: Designs) -> tuple[StoryRun, ...]:
    """The runs of stories to play: one for each mode of the protocol, and for settings that a run
    has of its own. Releases and switches of runs give way to those of the designs.
    """
    runs: dict[tuple[str, tuple[str, ...], str], StoryRun] = {}
    for story_name in stories:
        for run_name, run in find(story_name)[1].runs.items():
            modes = tuple(designs.side(side).mode_of(run.mode) for side in Side)
            settings = msgspec.json.encode(sorted(run.settings.items())).decode()
            runs.setdefault((story_name, modes, settings), (story_name, run_name))
    return tuple(runs.values())
