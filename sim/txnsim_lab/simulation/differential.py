"""The same seed in two clusters: where do the two runs part?

Both play the same plan: who acts, what each does, after which pauses, and the links. The other
cluster differs by its release, a switch or a setting. What clients are answered comes first: who
was answered otherwise acts otherwise from there on, so only the first such answer is told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest

import msgspec

from txnsim.errors import ConfigError
from txnsim.releases import release_named
from txnsim.releases.rules import Rules
from txnsim.runtime.trace import TraceLevel
from txnsim.text import unknown
from txnsim.trace.reading import Recording
from txnsim_lab.simulation._plan import Body, Plan
from txnsim_lab.simulation._sentences import sentence_of
from txnsim_lab.simulation.drawing import modes_of
from txnsim_lab.simulation.play import Done, Played, play
from txnsim_lab.trace.diff import diff


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Where two runs part."""

    sentence: str
    """The first client answer that differs, or the statement that none does."""
    inside: str | None
    """The first thing that differs inside of the clusters; None where nothing does."""
    left: Played
    right: Played

    @property
    def is_none(self) -> bool:
        """Clients and judges can't tell the two apart."""
        alike = _first(self.left.done, self.right.done) is None
        return alike and self.left.kinds == self.right.kinds


def other_plan(plan: Plan, against: Sequence[str]) -> Plan:
    """The same plan in another cluster.

    Args:
        plan: As the seed has it.
        against: What differs: a release (``4.2``), a switch (``NAME=on``), a setting of brokers
            (``NAME=VALUE``).

    Raises:
        ConfigError: There is no such release or switch.
    """
    world = plan.world
    for one in against:
        name, equals, value = one.partition("=")
        if not equals:
            release_named(one)  # or there is none
            modes, others = modes_of(world.as_version), modes_of(one)
            at = modes.index(world.mode) if world.mode in modes else 0
            mode = others[min(at, len(others) - 1)]
            world = msgspec.structs.replace(world, as_version=one, mode=mode, rules={})
        elif name in Rules.__struct_fields__:
            if value not in ("on", "off"):
                raise ConfigError(f"--against {one}: expected {name}=on or {name}=off")
            world = msgspec.structs.replace(world, rules={**world.rules, name: value == "on"})
        elif "." in name:
            world = msgspec.structs.replace(world, settings={**world.settings, name: _typed(value)})
        else:
            raise ConfigError(unknown("switch", name, Rules.__struct_fields__))
    return msgspec.structs.replace(plan, world=world)


def _typed(value: str) -> object:
    """A number or a truth where it looks like one, as in a scenario file."""
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value


def difference(plan: Plan, other: Plan) -> Difference:
    """Play both, and compare.

    Raises:
        ConfigError: A cluster can't be had.
    """
    left, right = (play(one, trace_level=TraceLevel.BRIEF) for one in (plan, other))
    runs = [Recording.of(name, one.trace.splitlines()) for name, one in (("A", left), ("B", right))]
    parted = diff(*runs)
    return Difference(
        sentence=_sentence(left, right),
        inside=None if parted is None else parted.sentence,
        left=left,
        right=right,
    )


def _sentence(left: Played, right: Played) -> str:
    first = _first(left.done, right.done)
    if first is not None:
        one, other = first
        asked = one or other
        assert asked is not None
        parted = f"They part at {asked.at_us / 1e6:.3f} s, when {sentence_of(asked.step)}"
        if one is not None and other is not None and one.error == other.error:
            return f"{parted}: both answer {one.error}, and do not say the same."
        return f"{parted}: A {_answer(one)}, B {_answer(other)}."
    if left.kinds != right.kinds:
        return f"All clients are answered alike; A has {_kinds(left)}, B has {_kinds(right)}."
    return "All clients are answered alike, and the judges say the same."


def _first(left: Sequence[Done], right: Sequence[Done]) -> tuple[Done | None, Done | None] | None:
    """The earliest act that was answered otherwise; None on the side where it did not happen."""
    sides = [_by_actor(done) for done in (left, right)]
    found = []
    for who in dict.fromkeys((*sides[0], *sides[1])):
        for one, other in zip_longest(*(side[who] for side in sides)):
            if one is None or other is None or _told(one) != _told(other):
                at_us = min(each.at_us for each in (one, other) if each is not None)
                found.append((at_us, who, one, other))
                break
    if not found:
        return None
    _, _, one, other = min(found, key=lambda each: each[:2])
    return one, other


def _told(one: Done) -> tuple[Body, str, str]:
    return one.step, one.error, one.told


def _by_actor(done: Sequence[Done]) -> defaultdict[str, list[Done]]:
    found: defaultdict[str, list[Done]] = defaultdict(list)
    for one in sorted(done, key=lambda one: one.at_us):
        found[one.who].append(one)
    return found


def _answer(one: Done | None) -> str:
    if one is None:
        return "does not get there"
    return f"answers {one.error} after {one.took_us / 1_000:.0f} ms"


def _kinds(played: Played) -> str:
    return ", ".join(played.kinds) or "no finding"
