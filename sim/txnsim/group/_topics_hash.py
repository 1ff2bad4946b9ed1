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


def topics_hash(names: Iterable[str], image: ClusterImage) -> int:
    """The hash of these topics; missing ones don't count, and it is 0 without topics."""
    existing_topics = image.existing(frozenset(names))
    return _to_signed(sum(_number(image.topics[name]) for name in existing_topics))


class TopicsHash:
    """The topics hash of a group, updated topic by topic as subscriptions change."""

    __slots__ = ("_changed", "_counted", "_image", "_sum")

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._counted: dict[str, tuple[TopicImage, int]] = {}
        """Subscribed topic -> its image and its summand."""
        self._sum = 0
        self._changed: set[str] = set()

    def copy(self) -> TopicsHash:
        """An independent copy."""
        later = TopicsHash()
        later._image, later._sum = self._image, self._sum
        later._counted, later._changed = dict(self._counted), set(self._changed)
        return later

    def note_changes(self, names: AbstractSet[str], counts: Counter[str], count: int) -> None:
        """Update the subscribed topics: of ``names``, those whose count equals ``count`` (1 after
        their first subscriber joined, 0 after their last one left).
        """
        if self._image is not None:  # else all count as changed at first
            existing_topics = self._image.existing(names)
            self._changed.update([name for name in existing_topics if counts[name] == count])

    def refresh(self, names: Mapping[str, int], image: ClusterImage) -> None:
        """Update the sum for the current subscriptions and the metadata image."""
        if self._image is not image:
            if self._image is None or self._image.topics is not image.topics:
                self._changed = set((image.topics.keys() & names.keys()) | self._counted.keys())
            self._image = image
        if not self._changed:
            return
        for name in self._changed:
            self._count(name, image.topics.get(name) if name in names else None)
        self._changed.clear()

    def value_with(
        self, added_topics: Iterable[str], removed_topics: Iterable[str], image: ClusterImage
    ) -> int:
        """The hash with existing topics added to the subscribed ones, and others removed."""
        total = self._sum
        for name in added_topics:
            total += _number(image.topics[name])
        for name in self._counted.keys() & removed_topics:
            total -= self._counted[name][1]
        return _to_signed(total)

    def _count(self, name: str, topic: TopicImage | None) -> None:
        counted = self._counted.get(name)
        if counted is not None:
            if counted[0] is topic:
                return
            self._sum -= counted[1]
            del self._counted[name]
        if topic is not None:
            number = _number(topic)
            self._counted[name] = topic, number
            self._sum += number


def _number(topic: TopicImage) -> int:
    digest = hashlib.blake2b(digest_size=8)
    digest.update(f"{topic.topic_id}/{len(topic.partitions)};".encode())
    return int.from_bytes(digest.digest(), "big")


def _to_signed(total: int) -> int:
    return (total + (1 << 63)) % (1 << 64) - (1 << 63)
