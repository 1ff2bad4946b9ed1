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
from txnsim_lab.trace.brief import payload

CONTEXT: Final = 3
"""Number of events of the same role that are shown before the first difference."""
NOT_COMPARED: Final = frozenset(
    {"correlation", "bytes", "at", "started_ms", "timestamp", "waited_ms", "id", "listeners"}
)
"""Payload fields that are ignored, as they differ even between equal runs."""
DIFFED_MAX: Final = 4_000
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


def diff(left_run: Recording, right_run: Recording) -> Divergence | None:
    """The first divergence of two runs; None if they are equal."""
    lanes = [_lanes(left_run), _lanes(right_run)]
    partings: list[tuple[int, str, int]] = []
    only = [0, 0]
    for node in dict.fromkeys((*lanes[0], *lanes[1])):
        sides = [lane.get(node, []) for lane in lanes]
        keys = [[_key(event) for event in side] for side in sides]
        if keys[0] == keys[1]:
            continue
        index = _first_difference(*keys)
        rank = min(side[index].t for side in sides if index < len(side))
        partings.append((rank, node, index))
        for number, count in enumerate(_unmatched_counts(keys[0][index:], keys[1][index:])):
            only[number] += count
    if not partings:
        return None
    _, node, index = min(partings)
    left_lane, right_lane = (lane.get(node, []) for lane in lanes)
    return Divergence(
        node=node,
        sentence=_sentence(node, _nth(left_lane, index), _nth(right_lane, index)),
        left=_side(left_lane, index),
        right=_side(right_lane, index),
        only_left=only[0],
        only_right=only[1],
        settings=_settings(left_run.header, right_run.header),
    )


def _lanes(run: Recording) -> dict[str, list[Event]]:
    nodes = run.nodes
    lanes: dict[str, list[Event]] = {}
    for event in run.events:
        lanes.setdefault(nodes[event.n], []).append(event)
    return lanes


def _key(event: Event) -> str:
    data = event.d if isinstance(event.d, Mapping) else {}
    compared = {name: value for name, value in data.items() if name not in NOT_COMPARED}
    return f"{event.k} {event.tx} {msgspec.json.encode(compared, order='sorted').decode()}"


def _first_difference(left_keys: Sequence[str], right_keys: Sequence[str]) -> int:
    pairs = enumerate(zip(left_keys, right_keys, strict=False))
    return next(
        (index for index, (left_key, right_key) in pairs if left_key != right_key),
        min(len(left_keys), len(right_keys)),
    )


def _unmatched_counts(left_keys: Sequence[str], right_keys: Sequence[str]) -> tuple[int, int]:
    if max(len(left_keys), len(right_keys)) > DIFFED_MAX:
        return len(left_keys), len(right_keys)
    matcher = SequenceMatcher(None, left_keys, right_keys, autojunk=False)
    matched = sum(block.size for block in matcher.get_matching_blocks())
    return len(left_keys) - matched, len(right_keys) - matched


def _nth(events: Sequence[Event], index: int) -> Event | None:
    return events[index] if index < len(events) else None


def _side(events: Sequence[Event], index: int) -> RunSide:
    context = events[max(0, index - CONTEXT) : index + 1]
    event = _nth(events, index)
    return RunSide(
        at=None if event is None else event.i, context=tuple(event.i for event in context)
    )


def _sentence(node: str, left_event: Event | None, right_event: Event | None) -> str:
    where = node_label(node)
    article = "the " if where.startswith("coordinator") else ""
    return f"They part at {article}{where}: A {_does(left_event)}; B {_does(right_event)}."


def _does(event: Event | None) -> str:
    if event is None:
        return "tells nothing more"
    return f"tells {event.k} ({payload(event)}) at {event.t / 1000:.0f} ms, #{event.i}"


def _settings(
    left_header: Mapping[str, Any], right_header: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    sides = []
    for header in (left_header, right_header):
        named = {name: header.get(name) for name in ("scenario", "seed", "mode", "take", "brokers")}
        sides.append({**named, **header.get("set", {})})
    names = dict.fromkeys((*sides[0], *sides[1]))
    return {
        name: (sides[0].get(name), sides[1].get(name))
        for name in names
        if sides[0].get(name) != sides[1].get(name)
    }
