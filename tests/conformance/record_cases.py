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

from tests.conformance.cluster_setups import kafka_on, setup_of
from tests.support.apache_kafka import KAFKA_VERSION
from tests.support.console import say
from txnsim_lab.conformance._book import answers
from txnsim_lab.conformance._book.case_player import Play, finalize_level, play_all
from txnsim_lab.conformance._book.casebook_reader import (
    Case,
    broker_configs,
    cases,
    choose_cases,
    rules,
)
from txnsim_lab.conformance._book.model import TXN_LEVELS
from txnsim_lab.conformance._book.recordings import (
    Exchange,
    Recording,
    Recordings,
    combine_plays,
    recording_of,
)
from txnsim_lab.conformance._book.targets import BlockingTarget

LINES_MAX: Final = 200

Place = tuple[str, str, int]
"""(file, name of the case, level)."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.record_cases")
    parser.add_argument("--case", action="append", default=[], metavar="FILE[/NAME]")
    parser.add_argument("--level", action="append", type=int, choices=TXN_LEVELS)
    parser.add_argument("--times", type=int, default=1, metavar="N", help="plays of each case")
    parser.add_argument("--check", action="store_true", help="compare, and change nothing")
    options = parser.parse_args(arguments)
    rules()  # a mistake there is told once
    cases_chosen = choose_cases(options.case)
    plays, complaints = record_cases_chosen(
        cases_chosen, options.level or TXN_LEVELS, options.times
    )
    recordings = {
        case_and_level: _together(several_plays) for case_and_level, several_plays in plays.items()
    }
    complaints += undeclared_variations(plays, recordings)
    if options.check:
        complaints += changes(recordings)
    else:
        keep(recordings, is_complete=not options.case and not options.level)
    say(*complaints[:LINES_MAX])
    verb = "compared" if options.check else "kept"
    say(f"{verb} {sum(map(len, recordings.values()))} answers of {len(recordings)} plays")
    return 1 if complaints else 0


Plays = dict[Place, list[Play]]


def record_cases_chosen(
    cases_chosen: Sequence[Case], transaction_versions: Sequence[int], repeat_count: int
) -> tuple[Plays, list[str]]:
    """Play these cases at these levels; return the recordings and the complaints."""
    plays: Plays = {}
    complaints: list[str] = []
    for broker_name, config in broker_configs().items():
        cases_of_broker = [case for case in cases_chosen if case.broker == broker_name]
        levels_needed = [
            transaction_version
            for transaction_version in transaction_versions
            if any(transaction_version in case.text.levels for case in cases_of_broker)
        ]
        if not levels_needed:
            continue
        begun_s = time.monotonic()
        with kafka_on(setup_of(config), levels_needed[0]) as target:
            for level in sorted(levels_needed):
                for turn in range(repeat_count):
                    finalize_level(target.bootstrap, level)
                    complaints += _one_turn(cases_of_broker, target, level, plays, turn)
                say(f"{time.monotonic() - begun_s:6.1f} s  {broker_name} at {level}")
    return plays, complaints


def _one_turn(
    cases_of_broker: Sequence[Case],
    target: BlockingTarget,
    transaction_version: int,
    plays: Plays,
    turn: int,
) -> Iterator[str]:
    for case, outcome_future in play_all(
        cases_of_broker, target, transaction_version, repetition=turn
    ):
        failure = outcome_future.exception()
        if failure is not None:
            yield str(failure)
            continue
        play = outcome_future.result()
        plays.setdefault((case.file, case.name, transaction_version), []).append(play)
        yield from (f"{case.id} at {transaction_version}: {line}" for line in play.unshown_rules)


def _together(several_plays: Sequence[Play]) -> Recording:
    return combine_plays([recording_of(play.transcript) for play in several_plays])


def undeclared_variations(plays: Plays, recordings: dict[Place, Recording]) -> Iterator[str]:
    """Answers that varied though no step says that they may."""
    for case_and_level, recorded_exchanges in recordings.items():
        for index, exchange in enumerate(recorded_exchanges):
            if len(exchange.answers) > 1 and index not in plays[case_and_level][0].racy_entries:
                yield f"{case_and_level}: {exchange.asked} varies: {' or '.join(exchange.answers)}"


def changes(recordings: dict[Place, Recording]) -> Iterator[str]:
    """The plays in which Kafka answers otherwise than in the stored recordings."""
    for (file, name, level), exchanges_now in sorted(recordings.items()):
        exchanges_before = answers.read_recordings(file).get(name, {}).get(level, ())
        play_label = f"{file}/{name} at {level}"
        if [exchange.asked for exchange in exchanges_before] != [
            exchange.asked for exchange in exchanges_now
        ]:
            yield f"{play_label}: asks other things than what is kept"
            continue
        for exchange_before, exchange_now in zip(exchanges_before, exchanges_now, strict=True):
            if not set(exchange_now.answers) <= set(exchange_before.answers):
                yield (
                    f"{play_label}: {exchange_before.asked}:\n"
                    f"    kept {' or '.join(exchange_before.answers)}"
                    f"\n    now  {' or '.join(exchange_now.answers)}"
                )


def keep(recordings: dict[Place, Recording], *, is_complete: bool) -> None:
    """Write what was found; what was not played keeps what it had, as far as there is such a case.
    What was known to vary keeps all its answers.
    """
    for file in sorted({file for file, _, _ in recordings}):
        kept_answers = answers.read_recordings(file)
        book: dict[str, Recordings] = {}
        for case in (case for case in cases() if case.file == file):
            was = kept_answers.get(case.name, {})
            transaction_versions: dict[int, Recording] = {}
            for level in case.text.levels:
                exchanges_now = recordings.get((file, case.name, level))
                if exchanges_now is not None:
                    transaction_versions[level] = _merge_answers(was.get(level), exchanges_now)
                elif level in was:
                    transaction_versions[level] = was[level]
            if transaction_versions:
                book[case.name] = transaction_versions
        path = answers.transcript_path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            answers.transcript_text(file, book, book, kafka_version=KAFKA_VERSION), "utf-8"
        )
    if is_complete:
        for file in set(answers.recorded_files()) - {case.file for case in cases()}:
            answers.transcript_path(file).unlink()


def _merge_answers(exchanges_before: Recording | None, exchanges_now: Recording) -> Recording:
    """Keep several recorded answers to a request if the new play got one of them."""
    if exchanges_before is None or [exchange.asked for exchange in exchanges_before] != [
        exchange.asked for exchange in exchanges_now
    ]:
        return exchanges_now
    return tuple(
        Exchange(
            asked=new_exchange.asked,
            answers=tuple(sorted({*old_exchange.answers, *new_exchange.answers})),
        )
        if len(old_exchange.answers) > 1 and set(old_exchange.answers) & set(new_exchange.answers)
        else new_exchange
        for old_exchange, new_exchange in zip(exchanges_before, exchanges_now, strict=True)
    )


if __name__ == "__main__":
    sys.exit(main())
