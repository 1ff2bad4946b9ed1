"""Chains of causes: from an event to its root."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from txnsim.runtime.trace import Event


def by_position(events: Iterable[Event]) -> dict[int, Event]:
    """Events by their positions, which a ring leaves gaps in."""
    return {event.i: event for event in events}


def causes(events: dict[int, Event], event: Event) -> Iterator[Event]:
    """The chain of main causes of an event, itself first, up to its root."""
    yield event
    while event.p:
        cause = events.get(event.p[0])
        if cause is None or cause.i >= event.i:
            return  # dropped by a ring
        event = cause
        yield event
