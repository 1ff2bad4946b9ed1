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
    return "; ".join(_doubts(rule, brokers, topics, may_create_topics=may_create)) or None


def _doubts(
    rule: FaultRule,
    known_broker_ids: Collection[int],
    partition_counts: Mapping[str, int],
    *,
    may_create_topics: bool,
) -> Iterator[str]:
    broker_ids = [str(broker_name) for broker_name in sorted(known_broker_ids)]
    target_broker = None if rule.broker is None else str(rule.broker)
    source_kind, _, source_id = (rule.source or "").partition("/")
    for field, broker_name in (
        ("broker", target_broker),
        ("source", source_id if source_kind == "broker" else None),
    ):
        if broker_name is not None and broker_name not in broker_ids:
            yield f"{field}: {unknown_word_message('broker', broker_name, broker_ids)}"
    if rule.topic is None:
        return
    partition_count = partition_counts.get(rule.topic)
    if partition_count is None:
        if not may_create_topics:
            yield f"topic: {unknown_word_message('topic', rule.topic, sorted(partition_counts))}"
    elif rule.partition is not None and rule.partition >= partition_count:
        yield f"partition: {rule.topic} has no {rule.partition}, only 0 to {partition_count - 1}"
