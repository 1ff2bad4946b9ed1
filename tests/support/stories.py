"""Scenarios for tests: the ones that come along, changed by hand."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import yaml

from sim.check.facts import Facts
from sim.runtime import real
from sim.runtime.trace import TraceLevel
from sim.scenario import catalog
from sim.scenario.model import Scenario, Step
from sim.scenario.players.casting import Casting, cast
from sim.scenario.reading import read
from sim.scenario.stage import Stage, stage

OWN = Casting(player="own")


def late_produce(edit: Callable[[dict[str, Any]], object] | None = None) -> Scenario:
    """The story of the late produce.

    Args:
        edit: Changes the document first.
    """
    path, scenario = catalog.find("z01")
    if edit is None:
        return scenario
    document = yaml.safe_load(path.read_text("utf-8"))
    edit(document)
    return read(path.name, yaml.safe_dump(document, sort_keys=False))


def step(**given: Any) -> Step:
    """One step as a file would give it; underscores stand for hyphens."""
    return Step.model_validate({name.replace("_", "-"): value for name, value in given.items()})


@contextlib.asynccontextmanager
async def staged(mode: str = "V-", *, armed: bool = True) -> AsyncIterator[Stage]:
    """The stage of the story, with our own client as the producer; nothing has happened yet."""
    scenario = late_produce()
    facts = Facts(scenario=scenario.name, mode=mode, armed=armed, player="")
    environment = real.real_environment(trace_level=TraceLevel.BRIEF, trace_ring_events=None)
    chosen = cast(scenario, mode, OWN)
    async with stage(scenario, mode, facts=facts, cast=chosen, environment=environment) as built:
        yield built
