"""The files of recordings: what is written is read back, and what is equal is written once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.record import undeclared_variations
from tests.conformance.recordings import path_of, read, write
from txnsim_lab.conformance._book.recordings import (
    SHORT_ANSWER_CHARS,
    Exchange,
    Recording,
    answer_differences,
    combine_plays,
    recording_of,
)
from txnsim_lab.conformance._book.transcript import Transcript

LONG = '{"message":"' + "x" * SHORT_ANSWER_CHARS + '"}'
OTHER = '{"message":"' + "y" * SHORT_ANSWER_CHARS + '"}'


def recording(*exchanges: tuple[str, str]) -> Recording:
    return tuple(
        Exchange(asked=question, answers=(answer_text,)) for question, answer_text in exchanges
    )


def transcript(*entries: tuple[str, object]) -> Transcript:
    written_transcript = Transcript()
    for label, answer in entries:
        written_transcript.note(label, answer)
    return written_transcript


def test_recordings_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    recordings = {
        0: recording(("a", LONG), ("b", LONG), ("a", OTHER), ("c", OTHER), ("d", "1")),
        1: recording(("a", LONG), ("extra", "2"), ("a", OTHER), ("c", LONG), ("d", "1")),
        2: (Exchange(asked="a", answers=(LONG, OTHER)), *recording(("a", OTHER), ("c", LONG))),
    }
    write("story", recordings, tmp_path)
    assert read("story", tmp_path) == recordings


def test_what_is_equal_is_written_once(tmp_path: Path) -> None:
    same_exchanges = recording(("a", LONG), ("b", LONG), ("c", "1"))
    write("story", {0: same_exchanges, 1: same_exchanges}, tmp_path)
    file_text = path_of("story", tmp_path).read_text("utf-8")
    assert file_text.count(LONG) == 1
    assert len(file_text.splitlines()) == 4


def test_an_answer_that_came_once_is_enough_where_kafka_is_racy() -> None:
    combined_exchanges = combine_plays(
        [recording(("a", '"x"'), ("b", "1")), recording(("a", '"y"'), ("b", "1"))]
    )
    for answer_text in ("x", "y"):
        assert not list(
            answer_differences(combined_exchanges, transcript(("a", answer_text), ("b", 1)))
        )
    assert list(answer_differences(combined_exchanges, transcript(("a", "z"), ("b", 1)))) == [
        "a: 'x' != 'z'"
    ]


def test_an_answer_that_varies_must_be_declared() -> None:
    combined_exchanges = combine_plays([recording(("a", '"x"')), recording(("a", '"y"'))])
    assert list(undeclared_variations({("story", 2): combined_exchanges})) == [
        'story at 2: a: "x" or "y"'
    ]
    assert not list(undeclared_variations({("story", 2): recording(("a", '"x"'))}))


def test_plays_that_part_are_no_recording() -> None:
    with pytest.raises(ValueError, match="part"):
        combine_plays([recording(("a", "1")), recording(("b", "1"))])


def test_a_play_that_ends_early_or_says_more_is_told() -> None:
    recorded_exchanges = recording_of(transcript(("a", 1), ("b", 2)))
    assert list(answer_differences(recorded_exchanges, transcript(("a", 1)))) == [
        "2 answers against 1"
    ]
    assert list(answer_differences(recorded_exchanges[:1], transcript(("a", 1), ("b", 2)))) == [
        "1 answers against 2"
    ]
