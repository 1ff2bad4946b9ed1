"""Memory that a server holds by design: the batches of its logs, and its trace.

A batch is one object however many replicas hold it, so that its bytes count once; each replica has
24 bytes about it. Nothing is walked but segments, so it may be asked each second.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

import msgspec

from txnsim.server.cluster import SimCluster
from txnsim.types import TopicPartition

BATCH_OVERHEAD: Final = 33
"""Overhead of a bytes object (``sys.getsizeof(b"")``)."""
ENTRY_BYTES: Final = 24
"""Bytes for a batch in the lists of a segment: a pointer, an offset, a position."""
ALIGNMENT: Final = 8
"""Average bytes by which an allocation is rounded up."""


class HeldMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of memory that the server's parts hold."""

    trace_bytes: int
    logs_bytes: int
    """All topics."""
    topics: dict[str, int]
    segments: int
    """Segments of the log with the most of them. Retention and cleaning leave few."""


def measure_held(cluster: SimCluster) -> HeldMemory:
    batche_by_partition: defaultdict[TopicPartition, int] = defaultdict(int)
    entries: Counter[str] = Counter()
    segments_max = 0
    for member in cluster.members.values():
        for _, log in member.disk.replicas():
            segments = log.local.segments
            segments_max = max(segments_max, len(segments))
            size_bytes, count = segments.size_bytes, sum(map(len, segments))
            topic_partition = log.topic_partition
            batche_by_partition[topic_partition] = max(
                batche_by_partition[topic_partition],
                size_bytes + count * (BATCH_OVERHEAD + ALIGNMENT),
            )
            entries[topic_partition.topic] += count * ENTRY_BYTES
    topics: Counter[str] = Counter(entries)
    for topic_partition, size_bytes in batche_by_partition.items():
        topics[topic_partition.topic] += size_bytes
    return HeldMemory(
        trace_bytes=cluster.environment.tracer.size,
        logs_bytes=topics.total(),
        topics={topic: size for topic, size in sorted(topics.items()) if size},
        segments=segments_max,
    )
