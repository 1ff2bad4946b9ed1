"""Play every case to a real Apache Kafka and keep what it answers.

::

    python -m tests.conformance.record_cases                                 # all
    python -m tests.conformance.record_cases --case coordinator/end_txn      # a file, or one case
    python -m tests.conformance.record_cases --level 2 --times 3
    python -m tests.conformance.record_cases --check                         # changes nothing

Needs Java 17 and Maven. One broker for each configuration of ``cases/brokers.yaml`` that is needed,
one after the other; each goes through the levels of ``transaction.version`` by UpdateFeatures.
"""

from __future__ import annotations

import argparse
import sys
import time  # noqa: TID251 - seconds on the real machine
from collections.abc import Iterator, Sequence
from typing import Final

from tests.conformance.grounds import ground_of, kafka_on
from tests.support.apache_kafka import KAFKA_VERSION
from tests.support.console import say
from txnsim_lab.conformance._book import answers
from txnsim_lab.conformance._book.case_player import Play, finalize, play_all
from txnsim_lab.conformance._book.casebook_reader import Case, brokers, cases, chosen, rules
from txnsim_lab.conformance._book.model import LEVELS
from txnsim_lab.conformance._book.recordings import (
    Exchange,
    Recording,
    Recordings,
    recording_of,
    together,
)
from txnsim_lab.conformance._book.targets import BlockingTarget

LINES_MAX: Final = 200

Place = tuple[str, str, int]
"""(file, name of the case, level)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Record, or compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.record_cases")
    parser.add_argument("--case", action="append", default=[], metavar="FILE[/NAME]")
    parser.add_argument("--level", action="append", type=int, choices=LEVELS)
    parser.add_argument("--times", type=int, default=1, metavar="N", help="plays of each case")
    parser.add_argument("--check", action="store_true", help="compare, and change nothing")
    options = parser.parse_args(arguments)
    rules()  # a mistake there is told once
    wanted = chosen(options.case)
    plays, wrong = recorded(wanted, options.level or LEVELS, options.times)
    found = {place: _together(several) for place, several in plays.items()}
    wrong += undeclared(plays, found)
    if options.check:
        wrong += changes(found)
    else:
        keep(found, whole=not options.case and not options.level)
    say(*wrong[:LINES_MAX])
    done = "compared" if options.check else "kept"
    say(f"{done} {sum(map(len, found.values()))} answers of {len(found)} plays")
    return 1 if wrong else 0


Plays = dict[Place, list[Play]]


def recorded(wanted: Sequence[Case], levels: Sequence[int], times: int) -> tuple[Plays, list[str]]:
    """Play these cases at these levels; and what went wrong."""
    plays: Plays = {}
    wrong: list[str] = []
    for name, config in brokers().items():
        mine = [case for case in wanted if case.broker == name]
        at = [level for level in levels if any(level in case.text.levels for case in mine)]
        if not at:
            continue
        begun_s = time.monotonic()
        with kafka_on(ground_of(config), at[0]) as target:
            for level in sorted(at):
                for turn in range(times):
                    finalize(target.bootstrap, level)
                    wrong += _one_turn(mine, target, level, plays, turn)
                say(f"{time.monotonic() - begun_s:6.1f} s  {name} at {level}")
    return plays, wrong


def _one_turn(
    mine: Sequence[Case], target: BlockingTarget, level: int, plays: Plays, turn: int
) -> Iterator[str]:
    for case, done in play_all(mine, target, level, turn=turn):
        failure = done.exception()
        if failure is not None:
            yield str(failure)
            continue
        found = done.result()
        plays.setdefault((case.file, case.name, level), []).append(found)
        yield from (f"{case.id} at {level}: {line}" for line in found.unshown)


def _together(several: Sequence[Play]) -> Recording:
    return together([recording_of(one.transcript) for one in several])


def undeclared(plays: Plays, found: dict[Place, Recording]) -> Iterator[str]:
    """Answers that varied though no step says that they may."""
    for place, recording in found.items():
        for at, exchange in enumerate(recording):
            if len(exchange.answers) > 1 and at not in plays[place][0].racy:
                yield f"{place}: {exchange.asked} varies: {' or '.join(exchange.answers)}"


def changes(found: dict[Place, Recording]) -> Iterator[str]:
    """Where Kafka says something else than what is kept."""
    for (file, name, level), now in sorted(found.items()):
        was = answers.read(file).get(name, {}).get(level, ())
        place = f"{file}/{name} at {level}"
        if [one.asked for one in was] != [one.asked for one in now]:
            yield f"{place}: asks other things than what is kept"
            continue
        for one, other in zip(was, now, strict=True):
            if not set(other.answers) <= set(one.answers):
                yield (
                    f"{place}: {one.asked}:\n    kept {' or '.join(one.answers)}"
                    f"\n    now  {' or '.join(other.answers)}"
                )


def keep(found: dict[Place, Recording], *, whole: bool) -> None:
    """Write what was found; what was not played keeps what it had, as far as there is such a case.
    What was known to vary keeps all its answers.
    """
    for file in sorted({file for file, _, _ in found}):
        kept = answers.read(file)
        book: dict[str, Recordings] = {}
        for case in (one for one in cases() if one.file == file):
            was = kept.get(case.name, {})
            levels: dict[int, Recording] = {}
            for level in case.text.levels:
                now = found.get((file, case.name, level))
                if now is not None:
                    levels[level] = _merged(was.get(level), now)
                elif level in was:
                    levels[level] = was[level]
            if levels:
                book[case.name] = levels
        path = answers.path_of(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(answers.text_of(file, book, book, kafka=KAFKA_VERSION), "utf-8")
    if whole:
        for file in set(answers.recorded_files()) - {case.file for case in cases()}:
            answers.path_of(file).unlink()


def _merged(was: Recording | None, now: Recording) -> Recording:
    """Several answers stay, where the same is asked and both know of one in common."""
    if was is None or [one.asked for one in was] != [one.asked for one in now]:
        return now
    return tuple(
        Exchange(asked=new.asked, answers=tuple(sorted({*old.answers, *new.answers})))
        if len(old.answers) > 1 and set(old.answers) & set(new.answers)
        else new
        for old, new in zip(was, now, strict=True)
    )


if __name__ == "__main__":
    sys.exit(main())
