"""Partitions of internal topics by whom they serve: ``__transaction_state@ID`` is where a
transactional id lives, ``__consumer_offsets@GROUP`` where a group does.

``@`` can't stand in a topic's name, so nothing else is meant by it. A step keeps the name until it
is acted out, as the number of partitions is a setting of the run.
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

AT: Final = "@"
BY_NAME: Final = -1
"""Stands for a partition number: the topic and a name determine the partition."""
PLACED: Final = (TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC)


def by_name(text: str) -> TopicPartition | None:
    """The partition that serves a named id; None if the text names none."""
    topic, separator, whose = text.partition(AT)
    if not separator or topic not in PLACED or not whose:
        return None
    return TopicPartition(text, BY_NAME)


def partition_text(partition: TopicPartition) -> str:
    return partition.topic if partition.partition == BY_NAME else str(partition)


def is_internal(partition: TopicPartition) -> bool:
    return partition.topic in PLACED or partition.partition == BY_NAME


def count_of(topic: str, settings: Settings) -> int:
    """How many partitions an internal topic gets."""
    if topic == TRANSACTION_STATE_TOPIC:
        return settings.transaction_state_log_num_partitions
    return settings.offsets_topic_num_partitions


def with_partition_number(partition: TopicPartition, settings: Settings) -> TopicPartition:
    """The partition with its number."""
    if partition.partition != BY_NAME:
        return partition
    topic, _, whose = partition.topic.partition(AT)
    return TopicPartition(topic, partition_for(whose, count_of(topic, settings)))


def of_group(group: str, settings: Settings) -> TopicPartition:
    """Where a group lives."""
    return with_partition_number(
        TopicPartition(f"{CONSUMER_OFFSETS_TOPIC}{AT}{group}", BY_NAME), settings
    )
