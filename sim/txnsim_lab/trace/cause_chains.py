"""Chains of causes: from an event to its root."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from txnsim.runtime.trace import Event


def by_position(events: Iterable[Event]) -> dict[int, Event]:
    """Events by position; a trace from a ring buffer has gaps."""
    return {event.i: event for event in events}


def causes_of_event(events: dict[int, Event], event: Event) -> Iterator[Event]:
    """The event, its main cause, and so on up to the root."""
    yield event
    while event.p:
        cause = events.get(event.p[0])
        if cause is None or cause.i >= event.i:
            return  # dropped by a ring
        event = cause
        yield event
