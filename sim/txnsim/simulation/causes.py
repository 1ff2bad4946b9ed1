"""What a finding is due to, and whether that is known.

A run is asked again with each switch of a release turned the other way. If one of them makes it
healthy, that is the rule at fault; the scenario that turns the same switch is the known anomaly.
Where no switch helps, the finding has no name, and stands out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from txnsim.check.judge import HEALTHY
from txnsim.releases import release_named
from txnsim.releases.rules import LATEST, Rules, documentation
from txnsim.scenario import catalog
from txnsim.simulation.plan import Plan
from txnsim.simulation.play import play
from txnsim.simulation.shrinking import with_switch

NEWEST: Final = "4.3"


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """A switch whose other position makes the run healthy."""

    switch: str
    healthy: bool
    """The position in which it is."""
    ticket: str
    animals: tuple[str, ...]
    """Short names of the scenarios that turn this switch: ``z27``."""

    def __str__(self) -> str:
        names = " or ".join(self.animals) or "no scenario shows it"
        position = "on" if self.healthy else "off"
        return f"{names} ({self.ticket}): healthy with {self.switch} {position}"


def cause_of(plan: Plan) -> Cause | None:
    """The switch that explains what is found in a plan's run, if one does."""
    for name, now in _candidates(plan):
        if not play(with_switch(plan, name, not now)).kinds:
            return Cause(
                switch=name,
                healthy=not now,
                ticket=documentation()[name].ticket,
                animals=tuple(_animals(name, healthy=not now)),
            )
    return None


def _candidates(plan: Plan) -> Iterator[tuple[str, bool]]:
    """Every switch and its position, those first in which a bug is in force: that are off."""
    world = plan.world
    rules = LATEST if world.as_version is None else release_named(world.as_version).rules
    now = {name: world.rules.get(name, getattr(rules, name)) for name in Rules.__struct_fields__}
    yield from ((name, position) for name, position in now.items() if not position)


def _animals(switch: str, *, healthy: bool) -> Iterator[str]:
    """Scenarios with a run that is healthy by this switch alone, and one that is not."""
    for head in catalog.heads():
        runs = head["runs"].values()
        heals = any(run.get("rules") == {switch: healthy} and _is_well(run) for run in runs)
        if heals and not all(map(_is_well, runs)):
            aliases = head.get("aliases", ())
            yield aliases[0] if aliases else head["name"]


def _is_well(run: Mapping[str, Any]) -> bool:
    return bool(run["verdict"] == HEALTHY)
