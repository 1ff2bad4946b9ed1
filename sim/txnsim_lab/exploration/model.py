"""What is explored: a small cluster, what its clients do, what may happen to it, and the bounds.

The file is YAML, in the words of scenario files (docs/scenarios.md): topics, actors and steps are
theirs.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from pydantic import Field

from txnsim_lab.scenario.fields import Model
from txnsim_lab.scenario.model import Actor, Topic
from txnsim_lab.simulation.plan import Act, Plan, StepBody, Track, World

CLIENT_APIS: Final = (
    *("Produce", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"),
    "InitProducerId",
)
"""Requests of clients whose time of arrival is chosen; all others arrive at once."""
PEER_APIS: Final = ("AddPartitionsToTxn", "WriteTxnMarkers")
"""Requests between brokers whose time of arrival is chosen."""


class Bounds(Model):
    """How much may happen besides messages that arrive."""

    disturbances: int = Field(default=0, ge=0, le=9)
    """How many of the disturbances may begin."""
    losses: int = Field(default=0, ge=0, le=9)
    """How many messages may be lost."""
    delays: int = Field(default=0, ge=0, le=9)
    """How often time may pass while messages are on their way."""
    delay_ms: int = Field(default=1_500, ge=1)
    """How much time passes then: longer than clients wait for an answer."""
    within_ms: int = Field(default=2_000, ge=1)
    """For how long it is chosen, in time of the cluster; then all goes on as on a quiet network. It
    bounds clients that try again and again.
    """
    client_apis: tuple[str, ...] = CLIENT_APIS
    peer_apis: tuple[str, ...] = PEER_APIS
    peer_answers: bool = True
    """Whether the arrival of answers between brokers is chosen, too."""


class Disturbance(Model):
    """Something that may happen to the cluster; its steps come in their order, each at any time."""

    name: str
    steps: tuple[StepBody | tuple[StepBody, ...], ...] = Field(min_length=1)
    """A list in it is one step: nothing is chosen between its parts."""


class ExplorationFile(Model):
    """A file that ``txnsim explore`` reads."""

    name: str
    title: str
    of: str | None = None
    """The story of the catalogue that has the anomaly, by name."""
    mode: Literal["V-", "V+", "TV2", "TV2+"] = "TV2"
    as_version: str | None = None
    rules: dict[str, bool] = Field(default_factory=dict)
    brokers: int = Field(default=2, ge=1, le=5)
    settings: dict[str, str | int | float | bool] = Field(default_factory=dict)
    topics: dict[str, Topic]
    actors: dict[str, Actor]
    before: tuple[StepBody, ...] = ()
    """Steps on the cluster before anything is explored."""
    tracks: dict[str, tuple[StepBody, ...]]
    """Actor -> its calls; the first one is made before anything is explored."""
    disturbances: tuple[Disturbance, ...] = ()
    bounds: Bounds = Bounds()
    twins: tuple[tuple[str, ...], ...] = ()
    """Actors that do the same: what differs by their names alone counts once."""


class Exploration(msgspec.Struct, frozen=True, kw_only=True):
    """What an exploration plays: the plan, the disturbances, the bounds."""

    name: str
    title: str
    of: str | None
    plan: Plan
    before: tuple[StepBody, ...] = ()
    disturbances: tuple[Disturbance, ...] = ()
    bounds: Bounds
    twins: tuple[tuple[str, ...], ...] = ()


def exploration_of(file: ExplorationFile) -> Exploration:
    """The exploration that a file describes."""
    return Exploration(
        name=file.name,
        title=file.title,
        of=file.of,
        plan=Plan(
            seed=0,
            world=World(
                mode=file.mode,
                brokers=file.brokers,
                settings=dict(file.settings),
                topics={
                    name: topic.model_dump(by_alias=True, exclude_unset=True)
                    for name, topic in file.topics.items()
                },
                latency_us=(0, 0),
                as_version=file.as_version,
                rules=file.rules,
            ),
            tracks=tuple(
                Track(
                    name=name,
                    actor=file.actors[name].model_dump(by_alias=True, exclude_unset=True),
                    acts=tuple(
                        Act({"call": {"who": name, **call}}, unit=number)
                        for number, call in enumerate(calls)
                    ),
                    on_error="abort",
                )
                for name, calls in file.tracks.items()
            ),
        ),
        before=file.before,
        disturbances=file.disturbances,
        bounds=file.bounds,
        twins=file.twins,
    )
