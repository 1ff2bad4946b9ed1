"""Where two runs differ first: the first event that one run has and the other has not.

Runs are compared role by role (a coordinator, a partition's leader, a client). Events of different
roles may come in another order, and that is no difference. Times, positions and correlation ids are
not compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

import msgspec

from txnsim.runtime.trace import Event
from txnsim.trace.reading import Recording
from txnsim.trace.story import place
from txnsim_lab.trace.brief import payload

CONTEXT: Final = 3
"""Events of each side that are shown before the first divergence, of the same role."""
NOT_COMPARED: Final = frozenset(
    {"correlation", "bytes", "at", "started_ms", "timestamp", "waited_ms", "id", "listeners"}
)
"""Payload fields that may differ between runs that do the same."""
DIFFED_MAX: Final = 4_000
"""Events of one role whose differences are counted exactly; beyond, only where they part."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One run where they part."""

    at: int | None
    """Position of its first divergent event; None if its role has no more events."""
    context: tuple[int, ...]
    """Positions of the role's events up to and including the divergent one."""


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """Where two runs part."""

    node: str
    """The role."""
    sentence: str
    left: Side
    right: Side
    only_left: int
    """Events of all roles that only this run has."""
    only_right: int
    settings: dict[str, tuple[Any, Any]]
    """What the headers tell differently: settings, mode, take, seed."""


def diff(left: Recording, right: Recording) -> Divergence | None:
    """The first divergence of two runs; None if they are equal."""
    lanes = [_lanes(left), _lanes(right)]
    found: list[tuple[int, str, int]] = []
    only = [0, 0]
    for node in dict.fromkeys((*lanes[0], *lanes[1])):
        sides = [lane.get(node, []) for lane in lanes]
        keys = [[_key(event) for event in side] for side in sides]
        if keys[0] == keys[1]:
            continue
        at = _first_difference(*keys)
        rank = min(side[at].t for side in sides if at < len(side))
        found.append((rank, node, at))
        for number, count in enumerate(_unmatched(keys[0][at:], keys[1][at:])):
            only[number] += count
    if not found:
        return None
    _, node, at = min(found)
    one, other = (lane.get(node, []) for lane in lanes)
    return Divergence(
        node=node,
        sentence=_sentence(node, _nth(one, at), _nth(other, at)),
        left=_side(one, at),
        right=_side(other, at),
        only_left=only[0],
        only_right=only[1],
        settings=_settings(left.header, right.header),
    )


def _lanes(run: Recording) -> dict[str, list[Event]]:
    nodes = run.nodes
    lanes: dict[str, list[Event]] = {}
    for event in run.events:
        lanes.setdefault(nodes[event.n], []).append(event)
    return lanes


def _key(event: Event) -> str:
    data = event.d if isinstance(event.d, Mapping) else {}
    kept = {name: value for name, value in data.items() if name not in NOT_COMPARED}
    return f"{event.k} {event.tx} {msgspec.json.encode(kept, order='sorted').decode()}"


def _first_difference(left: Sequence[str], right: Sequence[str]) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(left), len(right)))


def _unmatched(left: Sequence[str], right: Sequence[str]) -> tuple[int, int]:
    if max(len(left), len(right)) > DIFFED_MAX:
        return len(left), len(right)
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    same = sum(block.size for block in matcher.get_matching_blocks())
    return len(left) - same, len(right) - same


def _nth(events: Sequence[Event], at: int) -> Event | None:
    return events[at] if at < len(events) else None


def _side(events: Sequence[Event], at: int) -> Side:
    shown = events[max(0, at - CONTEXT) : at + 1]
    one = _nth(events, at)
    return Side(at=None if one is None else one.i, context=tuple(event.i for event in shown))


def _sentence(node: str, left: Event | None, right: Event | None) -> str:
    where = place(node)
    article = "the " if where.startswith("coordinator") else ""
    return f"They part at {article}{where}: A {_does(left)}; B {_does(right)}."


def _does(event: Event | None) -> str:
    if event is None:
        return "tells nothing more"
    return f"tells {event.k} ({payload(event)}) at {event.t / 1000:.0f} ms, #{event.i}"


def _settings(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    sides = []
    for header in (left, right):
        named = {name: header.get(name) for name in ("scenario", "seed", "mode", "take", "brokers")}
        sides.append({**named, **header.get("set", {})})
    names = dict.fromkeys((*sides[0], *sides[1]))
    return {
        name: (sides[0].get(name), sides[1].get(name))
        for name in names
        if sides[0].get(name) != sides[1].get(name)
    }
