"""Rolls segments, and runs the cleaner and retention, on real brokers. Kafka has no request for
these. Settings cause them, and the brokers' disks show when they have happened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from txnsim.client.admin import Admin
from txnsim.client.backoff import Deadline, pause
from txnsim.errors import ClientError
from txnsim.runtime.environment import Clock
from txnsim.types import IsolationLevel, TopicPartition
from txnsim_lab.target.cluster import TargetError

POLL_MS: Final = 100
CLEANER_PAUSE_MS: Final = 200
"""``log.cleaner.backoff.ms`` of brokers that are started for a story; Kafka's is 15 s."""
CLEANER_IDLE_MS: Final = 25 * CLEANER_PAUSE_MS
"""A cleaner without progress for this long is stuck."""
RETENTION_MAX_MS: Final = 40_000
"""Limit of the wait for retention: brokers run it first 30 s after their start."""
RETAINED_MS: Final = 86_400_000
"""``delete.retention.ms``: how long the cleaner keeps a marker that ends no record any more."""
SHORTLY_RETAINED_MS: Final = 15_000
"""Its value if a story waits for that time; longer than two runs of the cleaner in a row."""
LATEST: Final = -1


class Disks(Protocol):
    """What can be read from the disks of brokers."""

    def segments(self, number: int, partition: TopicPartition) -> Sequence[int]:
        """The base offset of each segment of a replica, in order."""

    def cleaned_until(self, number: int, partition: TopicPartition) -> int:
        """Offset that a broker's cleaner has reached in a replica; -1 if it never ran."""


async def configure(admin: Admin, topic: str, name: str, value: str | None) -> None:
    """Set a topic's config; None goes back to the default.

    Raises:
        TargetError: The change is refused.
    """
    refused = await admin.set_topic_config(topic, name, value)
    if refused is not None:
        raise TargetError(f"{topic}: {name}: {refused}")


async def roll(admin: Admin, clock: Clock, partition: TopicPartition) -> None:
    """Make each record from now on begin a segment, since a broker rolls one no earlier.

    Raises:
        TargetError: A broker does not get the change.
    """
    brokers = await _in_sync(admin, partition)
    # A broker takes one change after the other: when it shows the second, it acts by the first.
    for name in ("segment.ms", "segment.jitter.ms"):
        await configure(admin, partition.topic, name, "1")

        async def is_known(name: str = name) -> bool:
            values = [
                await admin.config_at(broker, name, topic=partition.topic) for broker in brokers
            ]
            return all(value == "1" for value in values)

        if not await until(clock, is_known, RETENTION_MAX_MS):
            raise TargetError(f"brokers do not know {name}=1 of {partition.topic}")


async def clean(admin: Admin, clock: Clock, disks: Disks, partition: TopicPartition) -> None:
    """Wait until the cleaner of each replica stops making progress."""
    brokers = await _in_sync(admin, partition)
    stable = await admin.offset_of(partition, LATEST, IsolationLevel.READ_COMMITTED)
    reached: list[int] = []
    idle = Deadline(clock, CLEANER_IDLE_MS)
    while not idle.has_passed:
        reached_before = reached
        reached = [disks.cleaned_until(number, partition) for number in brokers]
        ends = [_end_of_cleaning(disks.segments(number, partition), stable) for number in brokers]
        if all(offset >= end for offset, end in zip(reached, ends, strict=True)):
            return
        if reached != reached_before:
            idle = Deadline(clock, CLEANER_IDLE_MS)
        await pause(clock, POLL_MS)


def _end_of_cleaning(segments: Sequence[int], stable: int) -> int:
    """The offset up to which the cleaner can clean: it leaves out the active segment, and the one
    with the last stable offset.
    """
    return max(base for base in segments if base <= stable)


async def delete_old(admin: Admin, clock: Clock, disks: Disks, partition: TopicPartition) -> None:
    """Wait until retention has left each replica only one segment, or should have run."""
    brokers = await _in_sync(admin, partition)

    async def is_short() -> bool:
        return all(len(disks.segments(number, partition)) == 1 for number in brokers)

    await until(clock, is_short, RETENTION_MAX_MS)


async def _in_sync(admin: Admin, partition: TopicPartition) -> Sequence[int]:
    leadership: Any = (await admin.cluster.refresh((partition.topic,))).leader(partition)
    if leadership is None:
        raise TargetError(f"{partition} has no leader")
    return tuple(leadership.isr)


async def until(clock: Clock, holds: Callable[[], Awaitable[bool]], most_ms: int) -> bool:
    """Poll until the condition holds; returns whether it held in time."""
    deadline = Deadline(clock, most_ms)
    while True:
        with suppress(ClientError):  # a broker that does not answer yet is asked again
            if await holds():
                return True
        if deadline.has_passed:
            return False
        await pause(clock, POLL_MS)
