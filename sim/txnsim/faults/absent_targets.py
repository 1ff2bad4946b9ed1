"""Rules that make sense and yet can't strike in this cluster as it is: of a broker that it does not
have, of a topic or partition that is not there.

They are no mistake for certain, as topics come and go, so they are warned of and not refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from txnsim.faults.rule import FaultRule
from txnsim.text import unknown_word_message


def doubt(
    rule: FaultRule, *, brokers: Collection[int], topics: Mapping[str, int], may_create: bool
) -> str | None:
    """Why a rule strikes nothing here; None where nothing is known against it.

    Args:
        rule: It is well made (``rule``).
        brokers: Ids of the cluster's brokers, those that are down included.
        topics: Those that are there, with their partitions.
        may_create: A topic that is not there may still come by itself, as
            ``auto.create.topics.enable`` has it, so its absence is nothing to tell yet.
    """
    return "; ".join(_doubts(rule, brokers, topics, may_create=may_create)) or None


def _doubts(
    rule: FaultRule, brokers: Collection[int], topics: Mapping[str, int], *, may_create: bool
) -> Iterator[str]:
    broker_ids = [str(broker) for broker in sorted(brokers)]
    target = None if rule.broker is None else str(rule.broker)
    kind, _, source = (rule.source or "").partition("/")
    for field, broker in (("broker", target), ("source", source if kind == "broker" else None)):
        if broker is not None and broker not in broker_ids:
            yield f"{field}: {unknown_word_message('broker', broker, broker_ids)}"
    if rule.topic is None:
        return
    partitions = topics.get(rule.topic)
    if partitions is None:
        if not may_create:
            yield f"topic: {unknown_word_message('topic', rule.topic, sorted(topics))}"
    elif rule.partition is not None and rule.partition >= partitions:
        yield f"partition: {rule.topic} has no {rule.partition}, only 0 to {partitions - 1}"
