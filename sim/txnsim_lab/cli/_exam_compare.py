"""``txnsim exam compare``: finds how two libraries, two versions or two levels differ."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import MISUSE_STATUS
from txnsim.cli.progress import Progress

if TYPE_CHECKING:
    from txnsim_lab.exam.compare import DriverComparison, SituationDifference
    from txnsim_lab.exam.results import Result

DIFFER_STATUS: Final = 1
STORY_LINES_MAX: Final = 12
MINUTES_DEFAULT: Final = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Exit status: 0 nothing differs, 1 something does, 2 a wrong argument, or no situation"
        " applies to either."
    )
    parser.add_argument("one", metavar="A", help="starts the driver of one side")
    parser.add_argument("other", metavar="B", help="starts the driver of the other side")
    parser.add_argument("--level-a", type=int, choices=(0, 1, 2),
                        help="transaction.version of A; as B unless given")  # fmt: skip
    parser.add_argument("--level-b", type=int, choices=(0, 1, 2), help="that of B")
    parser.add_argument("--as-version", metavar="RELEASE", help="of Kafka")
    parser.add_argument("--hint", action="append", default=[], metavar="WORDS",
                        help="situations with these words come first: lines of a changelog; may be"
                        " repeated")  # fmt: skip
    parser.add_argument("--minutes", type=float, default=MINUTES_DEFAULT,
                        help="for variants, which are drawn near what differs"
                        f" ({MINUTES_DEFAULT:g} unless given)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, help="of the variants")
    parser.add_argument("--json", action="store_true", help="differences as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status.

    Raises:
        ConfigError: A driver can't be started, or an argument is wrong.
    """
    from txnsim.runtime.real_world import real_environment
    from txnsim_lab.exam.compare import ComparedDriver, ComparisonLimits, compare
    from txnsim_lab.exam.run import choose_situations
    from txnsim_lab.exam.situations import SITUATIONS
    from txnsim_lab.exam.targets import SimulatedTargets
    from txnsim_lab.simulation.play import quieten

    quieten()
    levels = sorted(set(args.transaction_version)) or (0, 1, 2)
    if args.level_a is not None and args.level_b is not None:
        levels = [args.level_b]
    comparison_limits = ComparisonLimits(
        levels=levels, minutes=args.minutes, seed=args.seed, hints=tuple(args.hint)
    )

    async def compare_sides() -> DriverComparison:
        return await compare(
            (
                ComparedDriver(command=args.one, level=args.level_a),
                ComparedDriver(command=args.other, level=args.level_b),
            ),
            choose_situations(SITUATIONS, args.only, is_core_only=args.core),
            SimulatedTargets(args.as_version),
            comparison_limits,
            clock=real_environment().clock,
            report_difference=_DifferenceReporter(is_quiet=args.json).tell,
        )

    comparison = asyncio.run(compare_sides())
    if args.json:
        differences = tuple(
            _without_recordings(difference) for difference in comparison.differences
        )
        TERMINAL.json(
            msgspec.to_builtins(msgspec.structs.replace(comparison, differences=differences))
        )
    else:
        _sum_up(comparison)
    if not comparison.applied:
        TERMINAL.complain("no situation applied to either, so nothing was compared")
        return MISUSE_STATUS
    return DIFFER_STATUS if comparison.differences else 0


class _DifferenceReporter:
    """Shows the progress, and each difference at once. The total number of situations is unknown,
    since more situations are played near the first differences.
    """

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._progress = Progress("situations and variants", None)
        self._difference_count = 0

    def tell(self, situation_name: str, difference: SituationDifference | None) -> None:
        self._difference_count += difference is not None
        tally_text = f"{self._difference_count} differences"
        self._progress.advance(self._progress.done_count + 1, situation_name, tally_text)
        if difference is not None and not self._is_quiet:
            for line in _difference_lines(difference):
                TERMINAL.line(line)


def _difference_lines(difference: SituationDifference) -> list[str]:
    known_bugs_text = f" ({', '.join(difference.about)})" if difference.about else ""
    variant_text = f", {difference.drawn}" if difference.drawn else ""
    lines = [
        f"{difference.situation}@{difference.level}{variant_text}{known_bugs_text}:"
        f" {difference.asks}",
        *_side_lines("A", difference.one),
        *_side_lines("B", difference.other),
    ]
    if difference.times < 2:
        lines.append("  Asked again, both do the same: chance may have parted them.")
    shown_result = difference.one if difference.one.steps else difference.other
    lines += ["  What was done:", *(f"    {step}" for step in shown_result.steps)]
    if shown_result.story:
        lines += ["  What happened in the cluster:"]
        lines += [f"    {line}" for line in shown_result.story[-STORY_LINES_MAX:]]
    return lines


def _side_lines(side_name: str, result: Result) -> list[str]:
    reasons = (*result.because, *result.choices)
    return [f"  {side_name} {result.outcome}{': ' if reasons else ''}{'; '.join(reasons)}"]


def _sum_up(comparison: DriverComparison) -> None:
    TERMINAL.line(f"A is {comparison.one}, B is {comparison.other}.")
    known_bugs = sorted(
        {known_bug for difference in comparison.differences for known_bug in difference.about}
    )
    if known_bugs:
        TERMINAL.line(f"Known bugs that look so: {', '.join(known_bugs)}.")
    TERMINAL.line(
        f"{comparison.situations} situations and {comparison.variants} variants"
        f" (--seed {comparison.seed}) were asked of both;"
        f" they differ in {len(comparison.differences)}."
    )


def _without_recordings(difference: SituationDifference) -> SituationDifference:
    first_result, other_result = (
        msgspec.structs.replace(result, recording=b"")
        for result in (difference.one, difference.other)
    )
    return msgspec.structs.replace(difference, one=first_result, other=other_result)
