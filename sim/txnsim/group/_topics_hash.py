"""A number that changes with the topics that a group consumes (KIP-1101).

A coordinator that sees another number than the one it stored has to compute a new assignment.

Counterpart in Kafka: ModernGroup.computeMetadataHash. Kafka's numbers differ from ours, as only a
group coordinator reads them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from txnsim.metadata.image import ClusterImage

DEVIATIONS: Final = (
    "The hash of topics in the records of consumer groups is not computed as in Apache Kafka: a "
    "group that one of them has written is assigned anew by the other.",
)


def topics_hash(names: Iterable[str], image: ClusterImage) -> int:
    """The number for topics by name; those that don't exist don't count, 0 for none."""
    there = sorted(set(names) & set(image.topics))
    if not there:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for name in there:
        topic = image.topics[name]
        digest.update(f"{topic.topic_id}/{len(topic.partitions)};".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
