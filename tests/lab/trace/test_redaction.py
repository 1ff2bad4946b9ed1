from __future__ import annotations

from tests.support.small_trace import small
from tests.support.traces import recording_of_run
from txnsim_lab.trace.redaction import OMISSION_TEXT, redact_run


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
