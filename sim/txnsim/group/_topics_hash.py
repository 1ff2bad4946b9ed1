"""A hash of the topics that a group consumes (KIP-1101).

If the hash differs from the stored one, the coordinator has to compute a new assignment. It is a
sum over topics, so that an additional topic can be added without looking at the others.

Counterpart in Kafka: ModernGroup.computeMetadataHash. Kafka's values differ from ours; only a group
coordinator reads them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from txnsim.metadata.image import ClusterImage, TopicImage

DEVIATIONS: Final = (
    "The hash of topics in the records of consumer groups is not computed as in Apache Kafka: a "
    "group that one of them has written is assigned anew by the other.",
)


def topics_hash(topic_names: Iterable[str], image: ClusterImage) -> int:
    """The hash of these topics; missing ones don't count, and it is 0 without topics."""
    existing_topics = image.existing_topics(frozenset(topic_names))
    return _to_signed(sum(_summand(image.topics[topic_name]) for topic_name in existing_topics))


class TopicsHash:
    """The topics hash of a group, updated topic by topic as subscriptions change."""

    __slots__ = ("_changed_topics", "_counted_topics", "_image", "_sum")

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._counted_topics: dict[str, tuple[TopicImage, int]] = {}
        """Subscribed topic -> its image and its summand."""
        self._sum = 0
        self._changed_topics: set[str] = set()

    def copy(self) -> TopicsHash:
        """An independent copy."""
        copied_hash = TopicsHash()
        copied_hash._image, copied_hash._sum = self._image, self._sum
        copied_hash._counted_topics, copied_hash._changed_topics = (
            dict(self._counted_topics),
            set(self._changed_topics),
        )
        return copied_hash

    def note_changes(
        self, topic_names: AbstractSet[str], subscriber_counts: Counter[str], changed_count: int
    ) -> None:
        """Update the subscribed topics: of ``topic_names``, those whose count equals
        ``changed_count`` (1 after their first subscriber joined, 0 after their last one left).
        """
        if self._image is not None:  # else all count as changed at first
            existing_topics = self._image.existing_topics(topic_names)
            self._changed_topics.update(
                [
                    topic_name
                    for topic_name in existing_topics
                    if subscriber_counts[topic_name] == changed_count
                ]
            )

    def refresh(self, subscribed_names: Mapping[str, int], image: ClusterImage) -> None:
        """Update the hash, a sum over topics, for the current subscriptions and metadata image."""
        if self._image is not image:
            if self._image is None or self._image.topics is not image.topics:
                self._changed_topics = set(
                    (image.topics.keys() & subscribed_names.keys()) | self._counted_topics.keys()
                )
            self._image = image
        if not self._changed_topics:
            return
        for topic_name in self._changed_topics:
            self._count_topic(
                topic_name, image.topics.get(topic_name) if topic_name in subscribed_names else None
            )
        self._changed_topics.clear()

    def value_with(
        self, added_topics: Iterable[str], removed_topics: Iterable[str], image: ClusterImage
    ) -> int:
        """The hash with existing topics added to the subscribed ones, and others removed."""
        summand_total = self._sum
        for topic_name in added_topics:
            summand_total += _summand(image.topics[topic_name])
        for topic_name in self._counted_topics.keys() & removed_topics:
            summand_total -= self._counted_topics[topic_name][1]
        return _to_signed(summand_total)

    def _count_topic(self, topic_name: str, topic: TopicImage | None) -> None:
        counted_topic = self._counted_topics.get(topic_name)
        if counted_topic is not None:
            if counted_topic[0] is topic:
                return
            self._sum -= counted_topic[1]
            del self._counted_topics[topic_name]
        if topic is not None:
            summand = _summand(topic)
            self._counted_topics[topic_name] = topic, summand
            self._sum += summand


def _summand(topic: TopicImage) -> int:
    digest = hashlib.blake2b(digest_size=8)
    digest.update(f"{topic.topic_id}/{len(topic.partitions)};".encode())
    return int.from_bytes(digest.digest(), "big")


def _to_signed(unsigned_sum: int) -> int:
    return (unsigned_sum + (1 << 63)) % (1 << 64) - (1 << 63)
