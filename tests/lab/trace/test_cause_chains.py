from __future__ import annotations

from tests.support.small_trace import small
from txnsim_lab.trace.cause_chains import by_position, causes_of_event


def test_a_chain_of_causes_ends_at_its_root_or_at_what_a_ring_has_dropped() -> None:
    recording = small(
        ("a",),
        ("a", "note", (), "", None),
        ("a", "note", (0,), "", None),
        ("a", "note", (1, 0), "", None),
    )
    events = by_position(recording.events)
    assert [event.i for event in causes_of_event(events, events[2])] == [2, 1, 0]
    del events[0]
    assert [event.i for event in causes_of_event(events, events[2])] == [2, 1]
