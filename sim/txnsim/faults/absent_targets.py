"""Valid rules that can't strike in the current cluster, because a broker, topic or partition does
not exist.

They cause a warning and not an error, because topics come and go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from txnsim.faults.rule import FaultRule
from txnsim.text import unknown_word_message


def doubt(
    rule: FaultRule, *, brokers: Collection[int], topics: Mapping[str, int], may_create: bool
) -> str | None:
    """Why a rule can't strike in this cluster; None if no reason is known.

    Args:
        rule: A valid rule.
        brokers: Ids of the cluster's brokers, including those that are down.
        topics: Existing topics, with their partitions.
        may_create: Whether a missing topic may still be auto-created
            (``auto.create.topics.enable``), so that its absence is no reason.
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
