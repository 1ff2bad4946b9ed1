"""A story as it can be played on real brokers: under names of its own, and with short timeouts."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from txnsim.faults.plan import FaultRule
from txnsim.types import INTERNAL_TOPICS, TopicPartition
from txnsim_lab.scenario._notation.places import AT, BY_NAME
from txnsim_lab.scenario.fields import Model, changed
from txnsim_lab.scenario.model import Actor, Scenario
from txnsim_lab.scenario.steps_model import Step, TransactionIs

NAMES: Final = frozenset({"group", "transactional_id", "coordinator_of", "topic", "topics"})
"""Fields of steps and rules that name something of the cluster's."""
ORDINARY_MS: Final = 60_000
"""The timeout of a transaction whose length is no part of its story."""
SHORT_MS: Final = 20_000
"""What it is on real brokers, whose clocks can't be moved; a story takes some seconds."""


def adapted(scenario: Scenario, prefix: str) -> Scenario:
    """The same story, every topic, group and transactional id of which begins with a prefix, and
    whose ordinary timeouts are short.
    """
    advances = [step.advance or 0 for step in (*scenario.steps, *scenario.cure)]
    # A story that lets almost a whole timeout pass means it.
    ordinary_ms = ORDINARY_MS if any(SHORT_MS <= ms < ORDINARY_MS for ms in advances) else SHORT_MS
    actors = {name: _actor(name, one, prefix, ordinary_ms) for name, one in scenario.actors.items()}
    return scenario.model_copy(
        update={
            "topics": {prefix + name: topic for name, topic in scenario.topics.items()},
            "actors": actors,
            "steps": _renamed(scenario.steps, prefix),
            "cure": _renamed(scenario.cure, prefix),
        }
    )


def _actor(name: str, actor: Actor, prefix: str, ordinary_ms: int) -> Actor:
    if actor.group is not None:
        return actor.model_copy(update={"group": prefix + actor.group})
    if actor.plays not in ("wire", "application"):
        return actor
    timeout_ms = actor.transaction_timeout
    return actor.model_copy(
        update={
            "transactional_id": prefix + (actor.transactional_id or name),
            "client_id": actor.client_id or name,
            "transaction_timeout": ordinary_ms if timeout_ms == ORDINARY_MS else timeout_ms,
        }
    )


def _renamed(steps: tuple[Step, ...], prefix: str) -> Any:
    def change(part: Model | None, field: str, one: Any) -> Any:
        if isinstance(one, TopicPartition):
            return _place(one, prefix)
        if isinstance(one, FaultRule):
            given = {name: getattr(one, name) for name in ("topic", "transactional_id")}
            names = {name: _name(own, prefix) for name, own in given.items() if own is not None}
            return msgspec.structs.replace(one, **names)
        is_name = field in NAMES or (field == "id" and isinstance(part, TransactionIs))
        return _name(one, prefix) if is_name and isinstance(one, str) else one

    return changed(steps, change)


def _name(name: str, prefix: str) -> str:
    return name if name in INTERNAL_TOPICS else prefix + name


def _place(place: TopicPartition, prefix: str) -> TopicPartition:
    if place.partition == BY_NAME:
        topic, _, whose = place.topic.partition(AT)
        return TopicPartition(f"{topic}{AT}{prefix}{whose}", BY_NAME)
    return TopicPartition(_name(place.topic, prefix), place.partition)
