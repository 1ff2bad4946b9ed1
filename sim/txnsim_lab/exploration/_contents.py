"""A digest of a value by what it holds: a message, a coordinator's entry, a broker at rest.

Equal digests mean that whoever holds the value goes on alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Final

import msgspec

from txnsim.broker.broker import Broker

DIGEST_BYTES: Final = 8


def digest_of(*values: object) -> bytes:
    """The digest of values, in their order."""
    return hashlib.blake2b(b"\0".join(_bytes_of(values)), digest_size=DIGEST_BYTES).digest()


def fingerprint_of(*values: object) -> int:
    """The digest of values as a number that is never 0."""
    return int.from_bytes(digest_of(*values), "big") or 1


def digest_of_broker(broker: Broker) -> bytes:
    """The digest of what a broker holds: its logs with producers and pending verifications, what
    it knows of followers, what it is to ask coordinators, and its coordinators' entries with what
    they owe.

    What it has armed (timers) follows from these, and from the requests that it handles.
    """
    state_parts: list[object] = [broker.broker_id]
    for partition, log in sorted(broker.replicas.hosted.items()):
        state_parts += (
            str(partition),
            log.log_start_offset,
            log.log_end_offset,
            log.high_watermark,
        )
        state_parts += log.batches()
        verifications = log.producers.verification.entries
        for producer_id, entry in sorted(verifications.items()):
            state_parts += (producer_id, entry.producer_epoch, entry.lowest_sequence)
            state_parts.append(entry.supports_epoch_bump)
    for partition, leader_partition in sorted(broker.replicas.replicated.items()):
        state_parts += (str(partition), leader_partition.isr)
        state_parts += [
            (follower.broker_id, follower.log_end_offset)
            for follower in leader_partition.followers.values()
        ]
    state_parts.append(broker.verification.queued())
    coordinator = broker.coordinator
    state_parts += [
        txn for _, txn in sorted((txn.transactional_id, txn) for txn in coordinator.entries())
    ]
    state_parts += (coordinator.withdrawn_transitions(), coordinator.sendings())
    state_parts.append(coordinator.snapshot().completions_waiting)
    return digest_of(*state_parts)


def _bytes_of(value: object) -> Iterator[bytes]:
    """A value as bytes; unequal values have unequal parts."""
    if isinstance(value, (str, int, float, type(None))) and not isinstance(value, Enum):
        yield repr(value).encode()
    elif isinstance(value, (bytes, bytearray, memoryview)):
        yield b"bytes"
        yield hashlib.blake2b(value, digest_size=DIGEST_BYTES).digest()
    elif isinstance(value, (tuple, list)):
        yield b"("
        for element in value:
            yield from _bytes_of(element)
        yield b")"
    elif isinstance(value, (set, frozenset)):
        yield b"{"
        yield from sorted(b"\0".join(_bytes_of(element)) for element in value)
        yield b"}"
    elif isinstance(value, Mapping):
        yield b"{:"
        yield from sorted(b"\0".join(_bytes_of(key_and_value)) for key_and_value in value.items())
        yield b"}"
    elif isinstance(value, msgspec.Struct):
        yield type(value).__name__.encode()
        for name in value.__struct_fields__:
            yield from _bytes_of(getattr(value, name))
    elif is_dataclass(value):
        yield type(value).__name__.encode()
        for field in fields(value):
            yield from _bytes_of(getattr(value, field.name))
    else:
        yield repr(value).encode()
