"""What consumers tell each other through JoinGroup and SyncGroup, as far as a coordinator looks.

A coordinator passes these bytes on unread; it looks into them to know which topics a group
consumes (OffsetDelete, expiry), and when a group changes its protocol (KIP-848).

Counterpart in Kafka: ConsumerProtocol, ConsumerProtocolSubscription.json.
"""

from __future__ import annotations

import struct


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a subscription; None where it can't be read."""
    try:
        (version,) = struct.unpack_from("!h", metadata)
        if version < 0:
            return None
        (count,) = struct.unpack_from("!i", metadata, 2)
        position = 6
        topics = set()
        for _ in range(count):
            (size,) = struct.unpack_from("!h", metadata, position)
            position += 2
            name = metadata[position : position + size]
            if size < 0 or len(name) != size:
                return None
            topics.add(name.decode())
            position += size
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
