"""Scenarios for tests: small ones made of a few steps, and edited ones of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import yaml

from txnsim_lab.check.history import History
from txnsim_lab.check.observations import Seen
from txnsim_lab.scenario import catalog
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.runner import RunResult, ScenarioRun, run_in_virtual_time
from txnsim_lab.scenario.scenario_reader import read

MODES = ("V-", "V+", "TV2", "TV2+")

Steps = Sequence[dict[str, Any]]


def document(steps: Steps, **head: Any) -> dict[str, Any]:
    """A file's content: three brokers, topics ``t`` and ``in``, a wire actor ``P`` with the id
    ``app``, a healthy run in each mode; ``head`` replaces what it names.
    """
    return {
        "name": "small",
        "title": "A small one",
        "goal": "To be tested.",
        "method": "By steps.",
        "topics": {"t": 2, "in": 1},
        "actors": {"P": {"plays": "wire", "transactional-id": "app"}},
        "runs": {
            mode: {"mode": mode, "verdict": "healthy"} for mode in ("V-", "V+", "TV2", "TV2+")
        },
        "steps": list(steps),
        **head,
    }


def small(steps: Steps, **head: Any) -> Scenario:
    return read("small.yaml", yaml.safe_dump(document(steps, **head), sort_keys=False))


def play_steps(
    steps: Steps, *, run_name: str = "V-", take_name: str = "armed", **head: Any
) -> RunResult:
    """Play a scenario of these steps in virtual time."""
    return run_in_virtual_time(
        ScenarioRun(scenario=small(steps, **head), run=run_name, take=take_name)
    )


def observations_of(result: RunResult, observation_class: type[Seen]) -> list[Any]:
    history = History.from_lines(result.history)
    return [observation for _, observation in history.all_of(observation_class)]


def failure(result: RunResult) -> str:
    """Why a story failed, without the line and the step, which change with every line of a test."""
    (because,) = result.verdict.because
    return re.sub(r"^small\.yaml:\d+: (steps|cure)\.\d+\.[a-z-]+: ", "", because)


def sentences(result: RunResult) -> str:
    """The text of the whole story, one line per sentence."""
    return "\n".join(f"{sentence.who}: {sentence.text}" for sentence in result.story)


def call(do: str, who: str = "P", **fields: Any) -> dict[str, Any]:
    """A ``call`` step of an actor. Underscores in names stand for hyphens."""
    call_fields = {name.rstrip("_").replace("_", "-"): value for name, value in fields.items()}
    return {"call": {"who": who, "do": do, **call_fields}}


def transaction(
    *record_values: str, partition: str = "t-0", end: str = "commit"
) -> list[dict[str, Any]]:
    """The steps of a whole transaction of P, without getting an identity."""
    return [
        call("begin"),
        call("add-partitions", partitions=partition),
        *(
            call("produce", partition=partition, value=record_value)
            for record_value in record_values
        ),
        call(end),
    ]


def late_produce(edit: Callable[[dict[str, Any]], object] | None = None) -> Scenario:
    """The story of the late produce.

    Args:
        edit: Changes the document first.
    """
    path, scenario = catalog.find("z01")
    if edit is None:
        return scenario
    content = yaml.safe_load(path.read_text("utf-8"))
    edit(content)
    return read(path.name, yaml.safe_dump(content, sort_keys=False))
