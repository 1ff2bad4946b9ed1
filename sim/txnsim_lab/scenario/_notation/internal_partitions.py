"""Partitions of internal topics, named by the id that they serve: ``__transaction_state@ID`` keeps
the state of a transactional id, ``__consumer_offsets@GROUP`` that of a group.

A topic's name can't contain ``@``, so the notation is unambiguous. A step keeps this name until it
is played, because the number of partitions is a setting of the run.
"""

from __future__ import annotations

from typing import Final

from txnsim.settings import Settings
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
    partition_for,
)

ID_SEPARATOR: Final = "@"
PARTITION_BY_ID: Final = -1
"""Stands in place of a partition number: the partition follows from the topic and the id."""
TOPICS_WITH_IDS: Final = (TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC)


def by_name(partition_text: str) -> TopicPartition | None:
    """Read ``__transaction_state@ID`` or ``__consumer_offsets@GROUP``; None for any other text."""
    topic, separator, owner_id = partition_text.partition(ID_SEPARATOR)
    if not separator or topic not in TOPICS_WITH_IDS or not owner_id:
        return None
    return TopicPartition(partition_text, PARTITION_BY_ID)


def partition_text(partition: TopicPartition) -> str:
    return partition.topic if partition.partition == PARTITION_BY_ID else str(partition)


def is_internal(partition: TopicPartition) -> bool:
    return partition.topic in TOPICS_WITH_IDS or partition.partition == PARTITION_BY_ID


def internal_partition_count(topic: str, settings: Settings) -> int:
    """Number of partitions of an internal topic."""
    if topic == TRANSACTION_STATE_TOPIC:
        return settings.transaction_state_log_num_partitions
    return settings.offsets_topic_num_partitions


def with_partition_number(partition: TopicPartition, settings: Settings) -> TopicPartition:
    """Replace a partition that is named by an id by the numbered one."""
    if partition.partition != PARTITION_BY_ID:
        return partition
    topic, _, owner_id = partition.topic.partition(ID_SEPARATOR)
    return TopicPartition(topic, partition_for(owner_id, internal_partition_count(topic, settings)))


def partition_of_group(group: str, settings: Settings) -> TopicPartition:
    """The partition of ``__consumer_offsets`` that keeps a group."""
    return with_partition_number(
        TopicPartition(f"{CONSUMER_OFFSETS_TOPIC}{ID_SEPARATOR}{group}", PARTITION_BY_ID), settings
    )
