"""The stories to the simulator, held against what a real Apache Kafka answered; no Java.

In virtual time, one cluster per level of ``transaction.version`` and setup; on each, one story
after the other, as some of them change what all would see (broker configs, features), or fill what
all share (fetch sessions). So all of them are played, also where one is asked for. A few are played
over TCP as well, so that each API is asked there. When the stories or Kafka's release change:
``make conformance`` tells, ``python -m tests.conformance.record`` keeps.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.conformance import coverage
from tests.conformance.cluster_setups import (
    ClusterSetup,
    first_address,
    take_first_producer_id,
    trace_level_at,
    virtual_on,
)
from tests.conformance.programme import (
    ACCEPTED,
    OVER_TCP,
    RACES,
    STORIES,
    id_of,
    name_of,
    play_story,
    setup_of,
    simulator,
    stories_at,
    unexplained_lines,
)
from tests.conformance.recordings import FOLDER, read, recorded_stories
from tests.real import stories
from tests.support.shared_results import make_once
from txnsim_lab.conformance._book.frame_player import Story
from txnsim_lab.conformance._book.recordings import Recordings, answer_differences
from txnsim_lab.conformance._book.transcript import Transcript

FILE_BYTES_MAX: Final = 1_200_000
ALL_BYTES_MAX: Final = 5_000_000
LEVEL_OVER_TCP: Final = 2

Plays = dict[str, Transcript | str]
Address = Callable[[ClusterSetup], str]


@cache
def plays(transaction_version: int, setup: ClusterSetup) -> Plays:
    """Play the stories for a transaction.version and a cluster set-up; each story's answers, or its
    traceback.
    """

    def play() -> Plays:
        plays_found: Plays = {}
        with virtual_on(
            setup, transaction_version, trace_level=trace_level_at(transaction_version)
        ) as virtual_world:
            take_first_producer_id(virtual_world, transaction_version)
            for story in stories_at(transaction_version, setup):
                try:
                    plays_found[name_of(story)] = play_story(
                        story, first_address(virtual_world), transaction_version
                    )
                except Exception:  # noqa: BLE001 - shown by the test of this story
                    plays_found[name_of(story)] = traceback.format_exc()
        return plays_found

    return make_once(f"stories at {transaction_version} on {setup.name}", play)


@pytest.fixture(scope="module")
def address() -> Iterator[Address]:
    """Address of a server that plays stories on a setup over TCP."""
    with ExitStack() as stack:

        @cache
        def address_of_setup(setup: ClusterSetup) -> str:
            return stack.enter_context(simulator(LEVEL_OVER_TCP, setup))

        yield address_of_setup


@pytest.mark.parametrize(
    ("story", "transaction_version"),
    [pytest.param(*story_and_level, id=id_of(*story_and_level)) for story_and_level in STORIES],
)
def test_the_simulator_answers_as_kafka_did(story: Story, transaction_version: int) -> None:
    found_play = plays(transaction_version, setup_of(story))[name_of(story)]
    assert not isinstance(found_play, str), found_play
    assert_as_recorded(story, transaction_version, found_play)


@pytest.mark.slow
@pytest.mark.parametrize(
    "story",
    [story for story, level in STORIES if level == LEVEL_OVER_TCP and name_of(story) in OVER_TCP],
)
def test_the_simulator_answers_so_over_tcp(story: Story, address: Address) -> None:
    found_transcript = play_story(story, address(setup_of(story)), LEVEL_OVER_TCP)
    assert_as_recorded(story, LEVEL_OVER_TCP, found_transcript)


def assert_as_recorded(story: Story, transaction_version: int, transcript: Transcript) -> None:
    name = name_of(story)
    differences = unexplained_lines(
        name, answer_differences(read(name)[transaction_version], transcript)
    )
    advice = f"If the story has changed: python -m tests.conformance.record --story {name}"
    assert not differences, "\n".join(
        [f"{len(differences)} differences (Kafka != ours):", *differences, advice]
    )


def test_each_api_of_the_stories_is_asked_over_tcp() -> None:
    recordings = coverage.all_recordings()
    assert set(recordings) >= OVER_TCP
    chosen_recordings = {
        recording_name: {LEVEL_OVER_TCP: recordings[recording_name][LEVEL_OVER_TCP]}
        for recording_name in OVER_TCP
    }
    assert apis(chosen_recordings) == apis(recordings)


def apis(recordings: Mapping[str, Recordings]) -> set[str]:
    return {api for api, _ in coverage.count_coverage(recordings).by_version}


def test_every_play_is_recorded_and_every_recording_is_played() -> None:
    recorded_plays = {
        (story_name, level) for story_name in recorded_stories() for level in read(story_name)
    }
    programme = {(name_of(story), transaction_version) for story, transaction_version in STORIES}
    assert not programme - recorded_plays, "record them: python -m tests.conformance.record"
    assert not recorded_plays - programme, "no such play: remove the file, or record the story anew"


def test_every_story_that_is_told_is_in_the_programme() -> None:
    stories_told = set()
    for path in Path(stories.__path__[0]).glob("*.py"):
        module = importlib.import_module(f"{stories.__name__}.{path.stem}")
        for story_entry in getattr(module, "STORIES", ()):
            stories_told.add(story_entry[0] if isinstance(story_entry, tuple) else story_entry)
    assert stories_told == {story for story, _ in STORIES}


def test_what_is_declared_belongs_to_a_story() -> None:
    names = {name_of(story) for story, _ in STORIES}
    assert set(ACCEPTED) | set(RACES) <= names


def test_the_page_counts_what_is_recorded() -> None:
    page_text = coverage.page(coverage.count_coverage(coverage.all_recordings()))
    assert coverage.FILE.read_text("utf-8") == page_text, coverage.COMMAND


def test_transcripts_are_small_enough_to_be_read_in_a_review() -> None:
    sizes = {path.name: path.stat().st_size for path in FOLDER.iterdir()}
    assert max(sizes.values()) <= FILE_BYTES_MAX
    assert sum(sizes.values()) <= ALL_BYTES_MAX
