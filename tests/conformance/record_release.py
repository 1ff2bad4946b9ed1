"""Keep what another release of Apache Kafka answers otherwise than the reference.

::

    python -m tests.conformance.record_release 3.9

Needs Java 17 and Maven. Cases that apply to any broker are played twice, at the level of
``transaction.version`` of a fresh cluster; see ``answers.Answers``.
"""

from __future__ import annotations

import shutil
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from tests.conformance.cluster_setups import ClusterSetup, kafka_on
from tests.support.console import say
from txnsim.releases import release_named
from txnsim_lab.conformance._book import answers
from txnsim_lab.conformance._book.case_player import FEATURE, play_all
from txnsim_lab.conformance._book.casebook_reader import Case, cases
from txnsim_lab.conformance._book.frame_player import NotOfferedError
from txnsim_lab.conformance._book.recordings import Recording, combine_plays, recording_of
from txnsim_lab.conformance._book.targets import BlockingTarget
from txnsim_lab.conformance.run import needed_settings, surroundings_of, unplayable_reason

TIMES: Final = 2

PlaysByCase = dict[str, list[Recording | None]]
"""Plays by case; None of one that can't be played."""


def main(arguments: Sequence[str]) -> int:
    """Play the stories on a release, and store its answers."""
    release = release_named(arguments[0])
    feature = release.features.get(FEATURE)
    level = 0 if feature is None else feature.new_cluster_level
    setup = ClusterSetup(name="conformance", properties=needed_settings(release.name))
    with kafka_on(setup, level, release.patch_release) as target:
        plays_by_case = _play_cases(target, level)
    folder = answers.own_folder_of(release.name)
    shutil.rmtree(folder, ignore_errors=True)
    files: dict[str, dict[str, Recording]] = defaultdict(dict)
    unplayed_cases: dict[str, list[str]] = defaultdict(list)
    for case in cases():
        plays = plays_by_case.get(case.id)
        if plays is None:
            continue
        plays_kept = [
            played_exchanges for played_exchanges in plays if played_exchanges is not None
        ]
        if not plays_kept:
            unplayed_cases[case.file].append(case.name)
        elif not _as_the_reference(case, level, plays_kept):
            files[case.file][case.name] = combine_plays(plays_kept)
    for file in sorted({*files, *unplayed_cases}):
        path = answers.transcript_path(file, folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        book = {
            name: {level: recorded_exchanges} for name, recorded_exchanges in files[file].items()
        }
        kafka = release.patch_release
        text = answers.transcript_text(
            file, book, book, kafka_version=kafka, without=unplayed_cases[file]
        )
        path.write_text(text, "utf-8")
    otherwise, unplayed = (
        sum(map(len, cases_by_file.values())) for cases_by_file in (files, unplayed_cases)
    )
    say(f"{len(plays_by_case)} cases, {otherwise} otherwise, {unplayed} not")
    return 0


def _play_cases(target: BlockingTarget, transaction_version: int) -> PlaysByCase:
    plays_by_case: PlaysByCase = defaultdict(list)
    cases_chosen = [
        case
        for case in cases()
        if transaction_version in case.text.levels
        and not unplayable_reason(case, transaction_version)
    ]
    with surroundings_of(target.bootstrap) as surroundings:
        for turn in range(TIMES):
            for case, outcome_future in play_all(
                cases_chosen,
                target,
                transaction_version,
                repetition=turn,
                surroundings=surroundings,
            ):
                failure = outcome_future.exception()
                if isinstance(failure, NotOfferedError):
                    continue
                if failure is not None:
                    say(f"{case.id}: {failure}")
                plays_by_case[case.id].append(
                    None
                    if failure is not None
                    else recording_of(outcome_future.result().transcript)
                )
    return plays_by_case


def _as_the_reference(case: Case, transaction_version: int, plays: Sequence[Recording]) -> bool:
    exchanges_before = (
        answers.read_recordings(case.file).get(case.name, {}).get(transaction_version)
    )
    return exchanges_before is not None and all(
        len(exchanges_before) == len(played_exchanges)
        and all(
            old_exchange.asked == new_exchange.asked
            and set(new_exchange.answers) <= set(old_exchange.answers)
            for old_exchange, new_exchange in zip(exchanges_before, played_exchanges, strict=True)
        )
        for played_exchanges in plays
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
