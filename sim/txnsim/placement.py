"""Which partition of an internal topic a transactional id or a group belongs to.

Its leader is the coordinator. Every client may compute it, so it is part of the protocol: Java's
hash of a string, made positive, modulo the number of partitions.

Counterpart in Kafka: TransactionStateManager.partitionFor, GroupCoordinatorService.partitionFor.
"""

from __future__ import annotations

import struct
from functools import lru_cache


@lru_cache(maxsize=65_536)
def partition_for(name: str, partitions: int) -> int:
    """The partition of a transactional id (``__transaction_state``) or of a group
    (``__consumer_offsets``).
    """
    hash_ = java_hash(name)
    # Utils.abs: the lowest int has no positive twin and counts as 0
    return 0 if hash_ == -0x8000_0000 else abs(hash_) % partitions


def hash_buckets(room_for: int) -> int:
    """How many buckets a java.util.HashSet has that was made for so many elements."""
    buckets = 16
    while buckets < room_for / 0.75 + 1:
        buckets *= 2
    return buckets


def hash_bucket(buckets: int, name: str) -> int:
    """Bucket of a string in a Java HashSet, which iterates bucket by bucket."""
    hash_ = java_hash(name) & 0xFFFF_FFFF
    return (hash_ ^ hash_ >> 16) & buckets - 1


def java_hash(text: str) -> int:
    """Java's String.hashCode: 32 bits with a sign, over units of UTF-16."""
    hash_ = 0
    for (unit,) in struct.iter_unpack("!H", text.encode("utf-16-be")):
        hash_ = (31 * hash_ + unit) & 0xFFFF_FFFF
    return hash_ - 0x1_0000_0000 if hash_ >= 0x8000_0000 else hash_
