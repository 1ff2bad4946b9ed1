"""The stories to the simulator, held against what a real Apache Kafka answered; no Java.

One server per level of ``transaction.version``, side by side; at each, one story after the other,
as some of them change what all would see (broker configs, features), or fill what all share (fetch
sessions). When the stories or Kafka's
release change: ``make conformance`` tells, ``python -m tests.conformance.record`` keeps.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.conformance import coverage
from tests.conformance.grounds import Ground
from tests.conformance.programme import (
    ACCEPTED,
    RACES,
    STORIES,
    grounds,
    id_of,
    judged,
    name_of,
    played,
    simulator,
    stories_at,
)
from tests.conformance.recordings import FOLDER, read, recorded_stories, unlike
from tests.real import stories
from tests.real.stories.player import Story
from tests.support.transcript import Transcript

FILE_BYTES_MAX: Final = 1_200_000
ALL_BYTES_MAX: Final = 5_000_000
PATIENCE_S: Final = 100
"""For all stories of a level; less than pytest's patience with one test."""

APART: Final = frozenset({"exhausted"})
"""Stories that keep a server busy for many seconds have one of their own."""

Plays = dict[tuple[str, int], "Future[Transcript]"]


@pytest.fixture(scope="module")
def plays(request: pytest.FixtureRequest) -> Iterator[Plays]:
    """What the simulator answers to those stories that are asked for, as soon as it is known."""
    chosen = {item.name for item in request.session.items if item.path == request.path}
    wanted: Plays = {
        (name_of(story), level): Future()
        for story, level in STORIES
        if any(name.endswith(f"[{id_of(story, level)}]") for name in chosen)
    }
    lanes = [
        (
            level,
            ground,
            [story for story in stories_at(level, ground) if (name_of(story) in APART) is apart],
        )
        for level, ground in grounds()
        for apart in (True, False)
    ]
    with ThreadPoolExecutor(len(lanes)) as threads:
        for level, ground, several in lanes:
            threads.submit(play_all, wanted, level, ground, several)
        yield wanted


def play_all(wanted: Plays, level: int, ground: Ground, several: Iterable[Story]) -> None:
    """Play what is wanted; a failure belongs to the test that asks for the answer."""
    promises = [
        (story, wanted[name_of(story), level])
        for story in several
        if (name_of(story), level) in wanted
    ]
    if not promises:
        return
    try:
        with simulator(level, ground) as address:
            for story, promise in promises:
                try:
                    promise.set_result(played(story, address, level))
                except Exception as failure:  # noqa: BLE001 - handed to the test
                    promise.set_exception(failure)
    except Exception as failure:  # noqa: BLE001 - handed to the tests that still wait
        for _, promise in promises:
            if not promise.done():
                promise.set_exception(failure)


@pytest.mark.parametrize(
    ("story", "level"), [pytest.param(*one, id=id_of(*one)) for one in STORIES]
)
def test_the_simulator_answers_as_kafka_did(story: Story, level: int, plays: Plays) -> None:
    name = name_of(story)
    recording = read(name)[level]
    wrong = judged(name, unlike(recording, plays[name, level].result(PATIENCE_S)))
    again = f"If the story has changed: python -m tests.conformance.record --story {name}"
    assert not wrong, "\n".join([f"{len(wrong)} differences (Kafka != ours):", *wrong, again])


def test_every_play_is_recorded_and_every_recording_is_played() -> None:
    recorded = {(name, level) for name in recorded_stories() for level in read(name)}
    programme = {(name_of(story), level) for story, level in STORIES}
    assert not programme - recorded, "record them: python -m tests.conformance.record"
    assert not recorded - programme, "no such play: remove the file, or record the story anew"


def test_every_story_that_is_told_is_in_the_programme() -> None:
    told = set()
    for path in Path(stories.__path__[0]).glob("*.py"):
        module = importlib.import_module(f"{stories.__name__}.{path.stem}")
        for one in getattr(module, "STORIES", ()):
            told.add(one[0] if isinstance(one, tuple) else one)
    assert told == {story for story, _ in STORIES}


def test_what_is_declared_belongs_to_a_story() -> None:
    names = {name_of(story) for story, _ in STORIES}
    assert set(ACCEPTED) | set(RACES) <= names


def test_the_page_counts_what_is_recorded() -> None:
    text = coverage.page(coverage.counted(coverage.all_recordings()))
    assert coverage.FILE.read_text("utf-8") == text, coverage.COMMAND


def test_transcripts_are_small_enough_to_be_read_in_a_review() -> None:
    sizes = {path.name: path.stat().st_size for path in FOLDER.iterdir()}
    assert max(sizes.values()) <= FILE_BYTES_MAX
    assert sum(sizes.values()) <= ALL_BYTES_MAX
