"""The plays of a run: seeds, fresh names, and the shortest play that parts the brokers."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import HealthCheck, Phase, Verbosity, assume, seed, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.machine import PlayMachine
from tests.conformance.races import Race
from tests.conformance.result import Difference, Result
from tests.conformance.stage import AnswerDifferenceError, Stage

OPERATIONS_PER_PLAY: Final = 60
PLAYS_PER_SEED: Final = 30
SHRINKS: Final = 200

Addresses = tuple[str, str]
"""Of the real broker and of ours."""


class Session:
    """What the plays of a run have in common.

    Args:
        addresses: Of the real broker and of ours.
        level: Finalized level of ``transaction.version``.
        seed: Of the first plays; the next ones have the next seeds.
        plays: Of one seed.
        shrinks: So often it looks for a shorter play that parts the brokers.
    """

    def __init__(
        self,
        addresses: Addresses,
        *,
        transaction_version: int,
        seed: int,
        play_count: int = PLAYS_PER_SEED,
        shrink_count: int = SHRINKS,
    ) -> None:
        self.result = Result(level=transaction_version, seed=seed, plays_per_seed=play_count)
        self._shortest: AnswerDifferenceError | None = None
        self._shrinks = shrink_count
        self._last_try = 0
        self._addresses = addresses
        self._tries = 0

    def stage(self) -> Stage:
        self._tries += 1
        self.result.plays += not self.shrinks
        assume(not self.shrinks or self._tries <= self._last_try)
        result = self.result
        prefix = f"play{result.level}-{result.seed}-{self._tries}"
        return Stage(
            self._addresses,
            prefix,
            transaction_version=result.level,
            result=result,
            counts_transactions=not self.shrinks,
        )

    @property
    def shrinks(self) -> bool:
        """Whether Hypothesis is shrinking a play that has found a difference."""
        return self._shortest is not None

    def _begin(self) -> None:
        self._shortest = None

    def parted(self, difference_error: AnswerDifferenceError) -> None:
        """Note a difference between the brokers; the shortest play that shows it is kept."""
        if self._shortest is None:
            self._last_try = self._tries + self._shrinks
        if self._shortest is None or len(difference_error.trail) <= len(self._shortest.trail):
            self._shortest = difference_error

    def play(self, seed_of_plays: int) -> None:
        """Play the plays of one seed; the result has the differences between the brokers."""
        self._begin()
        hypothesis_settings = settings(
            max_examples=self.result.plays_per_seed,
            stateful_step_count=OPERATIONS_PER_PLAY,
            phases=(Phase.generate, Phase.shrink),
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            verbosity=Verbosity.quiet,
            suppress_health_check=list(HealthCheck),
        )

        def machine() -> PlayMachine:
            return PlayMachine(self.stage(), self.parted)

        factory: Any = seed(seed_of_plays)(machine)
        try:
            run_state_machine_as_test(factory, settings=hypothesis_settings)
        except (AssertionError, Flaky) as failure:
            if self._shortest is None and isinstance(failure, Flaky):
                # The same choices went another way: of all that a play does, only this may.
                self.result.races[Race.TOO_LATE] += 1
                return
            # Flaky where it has looked often enough, or where a difference came but once; any
            # other assertion where a broker did not become what it was waited for.
            difference_error = self._shortest or AnswerDifferenceError([repr(failure)], [])
            self.result.differences.append(
                Difference(
                    command=self.result.command(seed_of_plays, 1),
                    operation=difference_error.trail[-1] if difference_error.trail else None,
                    lines=difference_error.lines,
                    trail=difference_error.trail[:-1],
                )
            )
