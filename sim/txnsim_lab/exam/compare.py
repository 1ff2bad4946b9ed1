"""Compares two libraries, two versions of one, or two levels of ``transaction.version``. Each
situation is played on both sides, and only differences are reported. A situation with a difference
is played once more, to exclude chance. Then random variants of these situations are played, with
one more act of the cluster between two commands; the seed determines the variants.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from txnsim.runtime.environment import Clock
from txnsim.runtime.rng import RandomStreams
from txnsim_lab.exam._application import Application
from txnsim_lab.exam.results import NotAskedError, Result, SituationOutcome
from txnsim_lab.exam.run import Exam
from txnsim_lab.exam.situation import PlaySituation, Situation
from txnsim_lab.exam.targets import Targets
from txnsim_lab.target.cluster import TargetError

PLAYS_PER_DIFFERENCE: Final = 2
"""Number of times that a situation with a difference is played."""
ACTS_MAX: Final = 2
COMMANDS_MAX: Final = 12
"""An act of a variant comes before a driver command with at most this number."""
_WORD_RE: Final = re.compile(r"[a-z]+")
_COMMON_TEXT: Final = (
    "a an and are as at be been by can does for from has in is it its no not of on or so than"
    " that the then there to was when where which while with"
)
_COMMON_WORDS: Final = frozenset(_COMMON_TEXT.split(" "))
_STEM_CHARS: Final = 5

Act = Callable[[Application], Awaitable[None]]


class ComparedDriver(msgspec.Struct, frozen=True, kw_only=True):
    """A driver with its level of ``transaction.version``."""

    command: str
    """Command that starts the driver."""
    level: int | None = None
    """``transaction.version``; that of the comparison unless given."""


class SituationDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A situation in which the two sides differ."""

    situation: str
    level: int
    asks: str
    about: tuple[str, ...]
    """Known bugs that it shows."""
    one: Result
    other: Result
    times: int
    """In how many of the ``PLAYS_PER_DIFFERENCE`` plays the sides differed."""
    drawn: str = ""
    """What a variant adds to the situation; empty for the situation itself."""


class DriverComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Differences between two drivers, with the number of plays."""

    one: str
    """Library and version of the first driver."""
    other: str
    situations: int
    """Number of situations played on both sides, once per level."""
    variants: int
    applied: int
    """Number of situations and variants that applied to one of the drivers at least."""
    seed: int
    differences: tuple[SituationDifference, ...]


class ComparisonLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a comparison: levels, minutes for variants, their seed, and words that order
    situations.
    """

    levels: Sequence[int]
    minutes: float
    """Minutes for variants."""
    seed: int
    hints: tuple[str, ...] = ()


async def compare(
    compared_drivers: tuple[ComparedDriver, ComparedDriver],
    situations: Sequence[Situation],
    targets: Targets,
    comparison_limits: ComparisonLimits,
    *,
    clock: Clock,
    report_difference: Callable[[str, SituationDifference | None], None],
) -> DriverComparison:
    """Compare two drivers.

    Args:
        compared_drivers: The two drivers.
        situations: The situations to play.
        targets: The clusters to play on; closed at the end.
        comparison_limits: The limits of the comparison.
        clock: The clock of the machine, for the minutes.
        report_difference: Takes each situation with its result.

    Raises:
        ConfigError: A driver can't be started, or does not speak the contract.
    """
    compared_pair = _Pair(compared_drivers, targets)
    differences: list[SituationDifference] = []
    try:
        library_names = await compared_pair.begin()
        asked_situations = [
            (situation, level)
            for situation in by_hints(situations, comparison_limits.hints)
            for level in comparison_limits.levels
            if level in situation.levels
        ]
        for situation, level in asked_situations:
            difference = await compared_pair.compare(situation, level)
            report_difference(f"{situation.name}@{level}", difference)
            differences += [difference] if difference else []
        near_situations = [
            (situation, asked_level)
            for situation, asked_level in asked_situations
            if any(
                _is_of_situation(situation, asked_level, difference) for difference in differences
            )
        ]
        acts_drawn = 0
        end_ms = clock.monotonic_us() // 1_000 + round(comparison_limits.minutes * 60_000)
        for variant, level, acts_text in variants(
            near_situations or asked_situations, comparison_limits.seed
        ):
            if clock.monotonic_us() // 1_000 >= end_ms:
                break
            difference = await compared_pair.compare(variant, level, drawn_acts_text=acts_text)
            acts_drawn += 1
            report_difference(f"{variant.name}@{level} {acts_text}", difference)
            differences += [difference] if difference else []
    finally:
        await compared_pair.end()
    return DriverComparison(
        one=library_names[0],
        other=library_names[1],
        situations=len(asked_situations),
        variants=acts_drawn,
        applied=compared_pair.applied,
        seed=comparison_limits.seed,
        differences=tuple(differences),
    )


def _is_of_situation(situation: Situation, level: int, difference: SituationDifference) -> bool:
    return (situation.name, level) == (difference.situation, difference.level)


class _Pair:
    """Plays situations with two drivers in turn."""

    def __init__(
        self, compared_drivers: tuple[ComparedDriver, ComparedDriver], targets: Targets
    ) -> None:
        self._compared_drivers = compared_drivers
        self.applied = 0
        """Number of situations that applied to one of them at least."""
        self._exams = [
            Exam(compared_driver.command, targets) for compared_driver in compared_drivers
        ]

    async def begin(self) -> list[str]:
        """Start both drivers; returns their libraries and versions."""
        driver_answers = [await exam.begin() for exam in self._exams]
        library_names = [f"{answer.library} {answer.version}" for answer in driver_answers]
        driver_levels = [compared_driver.level for compared_driver in self._compared_drivers]
        return [
            library_name if level is None else f"{library_name} at transaction.version {level}"
            for library_name, level in zip(library_names, driver_levels, strict=True)
        ]

    async def end(self) -> None:
        for exam in self._exams:
            await exam.end()

    async def compare(
        self, situation: Situation, level: int, *, drawn_acts_text: str = ""
    ) -> SituationDifference | None:
        both_results = await self._play_both(situation, level)
        self.applied += any(
            result.outcome is not SituationOutcome.DOES_NOT_APPLY for result in both_results
        )
        if not results_differ(*both_results):
            return None
        play_count = 1
        for _ in range(PLAYS_PER_DIFFERENCE - 1):
            play_count += results_differ(*await self._play_both(situation, level))
        return SituationDifference(
            situation=situation.name,
            level=level,
            asks=situation.asks,
            about=situation.about,
            one=both_results[0],
            other=both_results[1],
            times=play_count,
            drawn=drawn_acts_text,
        )

    async def _play_both(self, situation: Situation, level: int) -> tuple[Result, Result]:
        results = [
            await exam.play(
                situation, level if compared_driver.level is None else compared_driver.level
            )
            for exam, compared_driver in zip(self._exams, self._compared_drivers, strict=True)
        ]
        return results[0], results[1]


def results_differ(result: Result, other_result: Result) -> bool:
    """Whether two results differ in a way that users notice."""
    return (result.outcome, result.choices) != (other_result.outcome, other_result.choices)


# Hints


def by_hints(situations: Sequence[Situation], hints: Iterable[str]) -> list[Situation]:
    """Sort situations by the number of words that they share with the hints; stable."""
    hint_words = _word_stems(" ".join(hints))

    def score(situation: Situation) -> int:
        situation_words = _word_stems(
            f"{situation.name} {situation.asks} {situation.yardstick} {' '.join(situation.about)}"
        )
        return len(hint_words & situation_words)

    return sorted(situations, key=score, reverse=True)


def _word_stems(text: str) -> set[str]:
    """The words of a text, cut to their first letters, so that ``committed`` equals ``commit``."""
    return {
        word[:_STEM_CHARS] for word in _WORD_RE.findall(text.lower()) if word not in _COMMON_WORDS
    }


# Variants


def variants(
    near_situations: Sequence[tuple[Situation, int]], seed: int
) -> Iterator[tuple[Situation, int, str]]:
    """Draw an endless series of situations with acts between their commands; the same for the same
    seed.
    """
    random_stream = RandomStreams(seed).stream("exam.variants")
    act_names = sorted(ACTS)
    while near_situations:
        situation, level = random_stream.choice(near_situations)
        acts_by_command = sorted(
            (1 + random_stream.randrange(COMMANDS_MAX), random_stream.choice(act_names))
            for _ in range(1 + random_stream.randrange(ACTS_MAX))
        )
        acts_text = ", ".join(
            f"{act_name} before command {command_number}"
            for command_number, act_name in acts_by_command
        )
        yield (
            msgspec.structs.replace(situation, play=with_acts(situation.play, acts_by_command)),
            level,
            acts_text,
        )


def with_acts(play: PlaySituation, acts_by_command: Sequence[tuple[int, str]]) -> PlaySituation:
    """A situation in which acts come before the commands of these numbers."""

    async def play_with_acts(app: Application) -> None:
        acts_to_come = list(acts_by_command)

        async def between(command_number: int) -> None:
            while acts_to_come and acts_to_come[0][0] <= command_number:
                try:
                    await ACTS[acts_to_come.pop(0)[1]](app)
                except (NotAskedError, TargetError) as reason:
                    app.steps.append(f"not done: {reason}")

        app.before_command = between
        await play(app)

    return play_with_acts


async def _move_partition(app: Application) -> None:
    await app.move_leader(1)


async def _move_and_back(app: Application) -> None:
    await app.move_leader(1)
    await app.move_leader(1)


async def _move_coordinator(app: Application) -> None:
    await app.move_coordinator()


ACTS: Final[dict[str, Act]] = {
    "the leader moves": _move_partition,
    "the leader moves twice": _move_and_back,
    "the coordinator moves": _move_coordinator,
}
