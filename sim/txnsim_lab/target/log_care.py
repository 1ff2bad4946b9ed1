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
DELETE_RETENTION_MS: Final = 86_400_000
"""``delete.retention.ms``: how long the cleaner keeps a marker that ends no record any more."""
SHORT_DELETE_RETENTION_MS: Final = 15_000
"""``delete.retention.ms`` if a story waits for that time; longer than two runs of the cleaner."""
LATEST_TIMESTAMP: Final = -1


class BrokerDisks(Protocol):
    """What can be read from the disks of brokers."""

    def segments(self, broker_number: int, partition: TopicPartition) -> Sequence[int]:
        """The base offset of each segment of a replica, in order."""

    def cleaned_until(self, broker_number: int, partition: TopicPartition) -> int:
        """Offset that a broker's cleaner has reached in a replica; -1 if it never ran."""


async def configure(admin: Admin, topic: str, config_name: str, config_value: str | None) -> None:
    """Set a topic's config; None goes back to the default.

    Raises:
        TargetError: The change is refused.
    """
    refusal = await admin.set_topic_config(topic, config_name, config_value)
    if refusal is not None:
        raise TargetError(f"{topic}: {config_name}: {refusal}")


async def roll(admin: Admin, clock: Clock, partition: TopicPartition) -> None:
    """Make each record from now on begin a segment, since a broker rolls one no earlier.

    Raises:
        TargetError: A broker does not get the change.
    """
    brokers = await _in_sync_brokers(admin, partition)
    # A broker takes one change after the other: when it shows the second, it acts by the first.
    for config_name in ("segment.ms", "segment.jitter.ms"):
        await configure(admin, partition.topic, config_name, "1")

        async def is_applied(name: str = config_name) -> bool:
            config_values = [
                await admin.config_at(broker, name, topic=partition.topic) for broker in brokers
            ]
            return all(config_value == "1" for config_value in config_values)

        if not await wait_until(clock, is_applied, RETENTION_MAX_MS):
            raise TargetError(f"brokers do not know {config_name}=1 of {partition.topic}")


async def clean(admin: Admin, clock: Clock, disks: BrokerDisks, partition: TopicPartition) -> None:
    """Wait until the cleaner of each replica stops making progress."""
    brokers = await _in_sync_brokers(admin, partition)
    stable_offset = await admin.offset_of(
        partition, LATEST_TIMESTAMP, IsolationLevel.READ_COMMITTED
    )
    cleaned_offsets: list[int] = []
    idle_deadline = Deadline(clock, CLEANER_IDLE_MS)
    while not idle_deadline.has_passed:
        cleaned_before = cleaned_offsets
        cleaned_offsets = [disks.cleaned_until(broker, partition) for broker in brokers]
        end_offsets = [
            _end_of_cleaning(disks.segments(broker, partition), stable_offset) for broker in brokers
        ]
        if all(
            cleaned_offset >= end_offset
            for cleaned_offset, end_offset in zip(cleaned_offsets, end_offsets, strict=True)
        ):
            return
        if cleaned_offsets != cleaned_before:
            idle_deadline = Deadline(clock, CLEANER_IDLE_MS)
        await pause(clock, POLL_MS)


def _end_of_cleaning(base_offsets: Sequence[int], stable_offset: int) -> int:
    """The offset up to which the cleaner can clean: it leaves out the active segment, and the one
    with the last stable offset.
    """
    return max(base_offset for base_offset in base_offsets if base_offset <= stable_offset)


async def delete_old(
    admin: Admin, clock: Clock, disks: BrokerDisks, partition: TopicPartition
) -> None:
    """Wait until retention has left each replica only one segment, or should have run."""
    brokers = await _in_sync_brokers(admin, partition)

    async def has_one_segment() -> bool:
        return all(len(disks.segments(broker, partition)) == 1 for broker in brokers)

    await wait_until(clock, has_one_segment, RETENTION_MAX_MS)


async def _in_sync_brokers(admin: Admin, partition: TopicPartition) -> Sequence[int]:
    leadership: Any = (await admin.cluster.refresh((partition.topic,))).leader(partition)
    if leadership is None:
        raise TargetError(f"{partition} has no leader")
    return tuple(leadership.isr)


async def wait_until(clock: Clock, condition: Callable[[], Awaitable[bool]], limit_ms: int) -> bool:
    """Poll until the condition holds; returns whether it held in time."""
    deadline = Deadline(clock, limit_ms)
    while True:
        with suppress(ClientError):  # a broker that does not answer yet is asked again
            if await condition():
                return True
        if deadline.has_passed:
            return False
        await pause(clock, POLL_MS)
