"""Play every story to a real Apache Kafka and keep what it answers.

::

    python -m tests.conformance.record                              # all, about a minute
    python -m tests.conformance.record --story new_flow --level 2
    python -m tests.conformance.record --times 3                    # finds answers that vary
    python -m tests.conformance.record --check                      # compares, changes nothing

Needs Java 17 and Maven. One broker per level, side by side; at each, one story after the other.
``--check`` writes into a directory of its own and tells where it differs from what is kept.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time  # noqa: TID251 - seconds on the real machine
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Final

from tests.conformance import coverage
from tests.conformance.cluster_setups import ClusterSetup
from tests.conformance.programme import (
    LEVELS,
    RACES,
    STORIES,
    kafka,
    name_of,
    play_story,
    setups,
    stories_at,
)
from tests.conformance.recordings import FOLDER, path_of, read, recorded_stories, write
from tests.support.console import say
from txnsim_lab.conformance._book.recordings import Recording, combine_plays, recording_of

STORY_NAMES: Final = sorted({name_of(story) for story, _ in STORIES})

LINES_MAX: Final = 200

Plays = dict[tuple[str, int], Recording]
"""(story, level) -> what was answered."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.record",
        description="Play the stories to a real Apache Kafka and keep its answers.",
    )
    parser.add_argument("--story", action="append", choices=STORY_NAMES, help="only this one")
    parser.add_argument("--level", action="append", type=int, choices=LEVELS, help="only there")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="plays of each story")
    parser.add_argument("--check", action="store_true", help="compare, and change nothing")
    options = parser.parse_args(arguments)
    plays_found = record_stories(
        options.story or STORY_NAMES, options.level or LEVELS, options.times
    )
    unstable = list(undeclared_variations(plays_found))
    if unstable:
        say("Kafka's answers vary, and RACES does not say why:", *unstable)
        return 1
    if options.check:
        with tempfile.TemporaryDirectory(prefix="txnsim-conformance-") as scratch_path:
            keep(plays_found, Path(scratch_path))
            return _report_changes(list(changes(plays_found, Path(scratch_path))))
    keep(plays_found, FOLDER)
    is_complete = not options.story and not options.level
    for name in set(recorded_stories()) - set(STORY_NAMES) if is_complete else ():
        path_of(name).unlink()
    coverage.main(["--write"])
    say(f"kept {sum(map(len, plays_found.values()))} answers of {len(plays_found)} plays")
    return 0


def record_stories(
    story_names: Sequence[str], transaction_versions: Sequence[int], repeat_count: int = 1
) -> Plays:
    """Play these stories at these levels; answers that varied are all kept."""
    setups_wanted = [
        (transaction_version, setup)
        for transaction_version, setup in setups()
        if transaction_version in transaction_versions
        and any(name_of(story) in story_names for story in stories_at(transaction_version, setup))
    ]
    recordings_by_play: dict[tuple[str, int], list[Recording]] = {}
    with ThreadPoolExecutor(max(1, len(setups_wanted))) as lane_pool:
        for _ in range(repeat_count):
            for part in lane_pool.map(
                lambda level_and_setup: _on_setup(story_names, *level_and_setup), setups_wanted
            ):
                for play, recorded_exchanges in part.items():
                    recordings_by_play.setdefault(play, []).append(recorded_exchanges)
    return {
        play: combine_plays(several_plays) for play, several_plays in recordings_by_play.items()
    }


def _on_setup(story_names: Sequence[str], transaction_version: int, setup: ClusterSetup) -> Plays:
    plays_found: Plays = {}
    with kafka(transaction_version, setup) as address:
        for story in stories_at(transaction_version, setup):
            if (name := name_of(story)) in story_names:
                begun_s = time.monotonic()
                plays_found[name, transaction_version] = recording_of(
                    play_story(story, address, transaction_version)
                )
                seconds = time.monotonic() - begun_s
                say(
                    f"{seconds:6.1f} s  {name} at {transaction_version}: "
                    f"{len(plays_found[name, transaction_version])} answers"
                )
    return plays_found


def undeclared_variations(plays: Plays) -> Iterator[str]:
    """Questions that were answered differently from play to play without being declared."""
    for (name, level), recorded_exchanges in plays.items():
        for exchange in recorded_exchanges:
            is_declared = any(re.search(pattern, exchange.asked) for pattern in RACES.get(name, ()))
            if len(exchange.answers) > 1 and not is_declared:
                yield f"{name} at {level}: {exchange.asked}: {' or '.join(exchange.answers)}"


def keep(plays: Plays, folder: Path) -> None:
    """Write what was found; levels that were not played keep what they had, as far as the story
    is still played there.
    """
    for name in {name for name, _ in plays}:
        kept_levels = read(name) if path_of(name).exists() else {}
        current = {
            transaction_version for story, transaction_version in STORIES if name_of(story) == name
        }
        new_levels = {
            level: recorded_exchanges
            for (story_name, level), recorded_exchanges in plays.items()
            if story_name == name
        }
        old_levels = {level: kept_levels[level] for level in current & set(kept_levels)}
        write(name, {**old_levels, **new_levels}, folder)


def changes(plays: Plays, new_folder: Path) -> Iterator[str]:
    """The differences between the files in a directory and the stored files."""
    for name in sorted({name for name, _ in plays}):
        if not path_of(name).exists():
            yield f"{name}: never recorded"
            continue
        was, recording_now = read(name), read(name, new_folder)
        for level in sorted(recording_now):
            yield from _between(f"{name} at {level}", was.get(level, ()), recording_now[level])


def _between(
    play_label: str, exchanges_before: Recording, exchanges_now: Recording
) -> Iterator[str]:
    for exchange_before, exchange_now in zip_longest(exchanges_before, exchanges_now):
        if (
            exchange_before is None
            or exchange_now is None
            or exchange_before.asked != exchange_now.asked
        ):
            questions = [
                None if exchange is None else exchange.asked
                for exchange in (exchange_before, exchange_now)
            ]
            yield f"{play_label}: the plays part, kept {questions[0]!r}, now {questions[1]!r}"
            return
        if not set(exchange_now.answers) <= set(exchange_before.answers):
            yield (
                f"{play_label}: {exchange_before.asked}:\n"
                f"    kept {' or '.join(exchange_before.answers)}"
                f"\n    now  {' or '.join(exchange_now.answers)}"
            )


def _report_changes(lines: Sequence[str]) -> int:
    say(*lines[:LINES_MAX])
    say(f"{len(lines)} answers of Kafka differ from what is kept" if lines else "all as kept")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
