"""Finds the first difference of two runs: an event that one run has and the other lacks.

Runs are compared role by role (a coordinator, a partition's leader, a client). If only the order of
events of different roles differs, the runs count as equal. Times, positions and correlation ids are
not compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

import msgspec

from txnsim.runtime.trace import Event
from txnsim.trace.story import node_label
from txnsim.trace.trace_file import Recording
from txnsim_lab.trace.brief import brief_payload

CONTEXT_EVENTS: Final = 3
"""Number of events of the same role that are shown before the first difference."""
UNCOMPARED_FIELDS: Final = frozenset(
    {"correlation", "bytes", "at", "started_ms", "timestamp", "waited_ms", "id", "listeners"}
)
"""Payload fields that are ignored, as they differ even between equal runs."""
COMPARED_EVENTS_MAX: Final = 4_000
"""Limit of the events of one role for an exact count of differences; above it, only the first
difference is found.
"""


class RunSide(msgspec.Struct, frozen=True, kw_only=True):
    """One run at the first difference."""

    at: int | None
    """Position of its first divergent event; None if its role has no more events."""
    context: tuple[int, ...]
    """Positions of the role's events up to and including the divergent one."""


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The first difference of two runs."""

    node: str
    """The role whose events differ."""
    sentence: str
    left: RunSide
    right: RunSide
    only_left: int
    """Number of events, of all roles, that only the left run has."""
    only_right: int
    settings: dict[str, tuple[Any, Any]]
    """Differences of the headers: settings, mode, take, seed."""


def diff(left_recording: Recording, right_recording: Recording) -> Divergence | None:
    """The first divergence of two runs; None if they are equal."""
    events_by_role = [_events_by_role(left_recording), _events_by_role(right_recording)]
    divergence_places: list[tuple[int, str, int]] = []
    only_counts = [0, 0]
    for node in dict.fromkeys((*events_by_role[0], *events_by_role[1])):
        role_events = [events_of_run.get(node, []) for events_of_run in events_by_role]
        event_keys = [[_event_key(event) for event in run_events] for run_events in role_events]
        if event_keys[0] == event_keys[1]:
            continue
        index = _first_difference(*event_keys)
        divergence_us = min(
            run_events[index].t for run_events in role_events if index < len(run_events)
        )
        divergence_places.append((divergence_us, node, index))
        for side_number, unmatched_count in enumerate(
            _unmatched_counts(event_keys[0][index:], event_keys[1][index:])
        ):
            only_counts[side_number] += unmatched_count
    if not divergence_places:
        return None
    _, node, index = min(divergence_places)
    left_events, right_events = (events_of_run.get(node, []) for events_of_run in events_by_role)
    return Divergence(
        node=node,
        sentence=_divergence_sentence(
            node, _event_at(left_events, index), _event_at(right_events, index)
        ),
        left=_run_side(left_events, index),
        right=_run_side(right_events, index),
        only_left=only_counts[0],
        only_right=only_counts[1],
        settings=_setting_differences(left_recording.header, right_recording.header),
    )


def _events_by_role(recording: Recording) -> dict[str, list[Event]]:
    nodes = recording.nodes
    events_by_role: dict[str, list[Event]] = {}
    for event in recording.events:
        events_by_role.setdefault(nodes[event.n], []).append(event)
    return events_by_role


def _event_key(event: Event) -> str:
    fields = event.d if isinstance(event.d, Mapping) else {}
    compared_fields = {
        name: value for name, value in fields.items() if name not in UNCOMPARED_FIELDS
    }
    return f"{event.k} {event.tx} {msgspec.json.encode(compared_fields, order='sorted').decode()}"


def _first_difference(left_keys: Sequence[str], right_keys: Sequence[str]) -> int:
    indexed_key_pairs = enumerate(zip(left_keys, right_keys, strict=False))
    return next(
        (index for index, (left_key, right_key) in indexed_key_pairs if left_key != right_key),
        min(len(left_keys), len(right_keys)),
    )


def _unmatched_counts(left_keys: Sequence[str], right_keys: Sequence[str]) -> tuple[int, int]:
    if max(len(left_keys), len(right_keys)) > COMPARED_EVENTS_MAX:
        return len(left_keys), len(right_keys)
    matcher = SequenceMatcher(None, left_keys, right_keys, autojunk=False)
    matched_count = sum(matching_block.size for matching_block in matcher.get_matching_blocks())
    return len(left_keys) - matched_count, len(right_keys) - matched_count


def _event_at(events: Sequence[Event], index: int) -> Event | None:
    return events[index] if index < len(events) else None


def _run_side(events: Sequence[Event], index: int) -> RunSide:
    context_events = events[max(0, index - CONTEXT_EVENTS) : index + 1]
    event = _event_at(events, index)
    return RunSide(
        at=None if event is None else event.i, context=tuple(event.i for event in context_events)
    )


def _divergence_sentence(node: str, left_event: Event | None, right_event: Event | None) -> str:
    role_label = node_label(node)
    article = "the " if role_label.startswith("coordinator") else ""
    return (
        f"They part at {article}{role_label}: A {_event_phrase(left_event)}; B "
        f"{_event_phrase(right_event)}."
    )


def _event_phrase(event: Event | None) -> str:
    if event is None:
        return "tells nothing more"
    return f"tells {event.k} ({brief_payload(event)}) at {event.t / 1000:.0f} ms, #{event.i}"


def _setting_differences(
    left_header: Mapping[str, Any], right_header: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    setting_maps = []
    for header in (left_header, right_header):
        named_settings = {
            setting_name: header.get(setting_name)
            for setting_name in ("scenario", "seed", "mode", "take", "brokers")
        }
        setting_maps.append({**named_settings, **header.get("set", {})})
    setting_names = dict.fromkeys((*setting_maps[0], *setting_maps[1]))
    return {
        setting_name: (setting_maps[0].get(setting_name), setting_maps[1].get(setting_name))
        for setting_name in setting_names
        if setting_maps[0].get(setting_name) != setting_maps[1].get(setting_name)
    }
