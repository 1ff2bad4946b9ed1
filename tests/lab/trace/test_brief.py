from __future__ import annotations

from tests.support.traces import recording_of_run
from txnsim.runtime.trace import Event
from txnsim_lab.trace.brief import brief_line, brief_payload


def test_a_line_has_position_time_place_kind_transaction_payload_and_causes() -> None:
    event = Event(861, 4_012_000, 0, 9, (812, 640), "log.append", "app/7:0", {"tp": "t-0"})
    assert brief_line(event, ("broker/1/log/t-0",)).split() == [
        "#861", "4.012000", "broker/1/log/t-0", "log.append", "app/7:0", "tp=t-0", "<-", "812,640",
    ]  # fmt: skip
    assert brief_line(Event(1, 0, 0, 1, (), "note"), ("a",)).split() == [
        "#1",
        "0.000000",
        "a",
        "note",
        "-",
    ]


def test_values_are_words_that_grep_finds() -> None:
    event = Event(
        0, 0, 0, 0, (), "note", "",
        {"yes": True, "no": False, "none": None, "empty": "", "text": "two words", "list": ["a", 1],
         "nothing": [], "args": {"ms": 5}, "partitions": [{"tp": "t-0", "leader": 1}] * 9},
    )  # fmt: skip
    assert brief_payload(event) == (
        'yes=yes no=no none=- empty="" text="two words" list=a,1 nothing=- args={"ms":5}'
        " partitions=9 of them"
    )


def test_every_event_of_a_run_is_one_line() -> None:
    recording = recording_of_run()
    assert all("\n" not in brief_line(event, recording.nodes) for event in recording.events)
