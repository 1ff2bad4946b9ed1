from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Final

import pytest

from tests.support.small_trace import small
from tests.support.traces import recording_of_run
from txnsim_lab.trace.redaction import OMISSION_TEXT, START_CHARACTERS, redact_run


def test_no_value_of_a_record_is_left() -> None:
    text = recording_of_run().to_lines()
    assert b"after-1" in text
    assert b'"late"' in text
    redacted_trace = redact_run(recording_of_run()).to_lines()
    assert b"after-1" not in redacted_trace
    assert b'"late"' not in redacted_trace


def test_names_offsets_and_causes_stay() -> None:
    recording = recording_of_run()
    redacted_recording = redact_run(recording)
    assert redacted_recording.nodes == recording.nodes
    assert [(event.i, event.k, event.tx, event.p) for event in redacted_recording.events] == [
        (event.i, event.k, event.tx, event.p) for event in recording.events
    ]
    assert b"payments-0" in redacted_recording.to_lines()


def test_a_sentence_loses_the_values_it_quotes_and_no_others() -> None:
    recording = small(
        ("client/a", "story"),
        ("client/a", "client.deliver", (), "", {"key": None, "value": "secret-12", "offset": 1}),
        ("client/a", "client.call", (), "", {"args": {"records": ["secret-1", ""]}}),
        ("story", "note", (), "", {"text": "it reads secret-12 and secret-1 at 1"}),
    )
    delivered_data, called, note = (event.d for event in redact_run(recording).events)
    assert delivered_data == {"key": None, "value": OMISSION_TEXT, "offset": 1}
    assert called == {"args": {"records": [OMISSION_TEXT, ""]}}
    assert note == {"text": f"it reads {OMISSION_TEXT} and {OMISSION_TEXT} at 1"}


LONG_VALUE: Final = " é ".join(map(str, range(100)))


def redacted_note(values: list[str], text: str) -> str:
    """A sentence of a trace whose clients wrote these values."""
    recording = small(
        ("client/a", "story"),
        ("client/a", "client.call", (), "", {"args": {"records": values}}),
        ("story", "note", (), "", {"text": text}),
    )
    return str(redact_run(recording).events[-1].d["text"])


@pytest.mark.parametrize(
    ("values", "text", "redacted_text"),
    [
        (["ab", "bcd"], "abcde", f"{OMISSION_TEXT}e"),
        (["ab"], "abab", 2 * OMISSION_TEXT),
        (["left"], "what is left", f"what is {OMISSION_TEXT}"),
        (["a", "ab"], "cab", f"c{OMISSION_TEXT}"),
        ([LONG_VALUE], f"it is {LONG_VALUE}.", f"it is {OMISSION_TEXT}."),
    ],
)
def test_values_that_overlap_or_are_long_are_left_out_whole(
    values: list[str], text: str, redacted_text: str
) -> None:
    assert redacted_note(values, text) == redacted_text


def test_what_begins_like_a_long_value_is_left_out_as_far_as_that_goes() -> None:
    start = "s" * START_CHARACTERS
    assert redacted_note([f"{start}-one"], f"{start}-two, and more") == f"{OMISSION_TEXT}, and more"


def lines_run(value_count: int) -> int:
    """Lines of Python that a trace takes with so many values, and as many sentences."""
    recording = small(
        ("client/a", "story"),
        (
            *("client/a", "client.call", (), ""),
            {"args": {"records": [f"value-{number:06}" for number in range(value_count)]}},
        ),
        *(("story", "note", (), "", {"text": "no value is here"}) for _ in range(value_count)),
    )
    line_count = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal line_count
        line_count += event == "line"
        return count

    trace_before = sys.gettrace()
    sys.settrace(count)
    try:
        redact_run(recording)
    finally:
        sys.settrace(trace_before)
    return line_count


def test_many_values_and_sentences_take_no_time_squared() -> None:
    assert lines_run(400) < 2.5 * lines_run(200)
