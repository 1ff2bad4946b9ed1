"""Alerts on hanging transactions: when an alert begins, how long it lasts, when it ends. Pure.

A probe says what hangs now. An alert is printed once when it begins and once when it ends. The
alerts that last are the only state, a value that is kept with the batch to which it belongs. A
partition that could not be asked keeps its alerts, because a missing answer does not say that the
trouble is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from txnsim.text import time_text
from txnsim.types import TopicPartition
from txnsim_spark.schemas import Bigint, Int, String, Table, columns_of
from txnsim_spark.streaming._lag_probe import PartitionLag


class AlertEvent(StrEnum):
    """What an alert reports of a hanging transaction."""

    RAISED = "raised"
    ENDED = "ended"


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A hanging transaction, with all that an operator who is woken by it needs."""

    event: Annotated[AlertEvent, "string", "raised or ended."]
    id: Annotated[String, "The same for both events of a transaction."]
    at_ms: Annotated[Bigint, "Time of the probe that saw it."]
    since_ms: Annotated[Bigint, "Time of the probe that raised it."]
    topic: Annotated[String, "Where the transaction is open."]
    partition: Annotated[Int, "The same."]
    producer_id: Annotated[Bigint, "Whose it is."]
    producer_epoch: Annotated[Int, "Of its records."]
    transactional_id: Annotated[String | None, "Null: no coordinator knows the producer id."]
    start_offset: Annotated[Bigint, "Of its first record."]
    """Where readers stand, unless an older transaction is open before it."""
    last_timestamp_ms: Annotated[Bigint, "Of its last record, by its producer's clock."]
    last_stable_offset: Annotated[Bigint, "Where `read_committed` readers stop."]
    high_watermark: Annotated[Bigint, "Where all other readers stop."]
    lag: Annotated[Bigint, "The second less the first: offsets withheld."]
    reason: Annotated[String, "Which rule says that it hangs."]
    """KIP-664 has it."""
    command: Annotated[String, "What ends it, with the marker that was decided."]

    @property
    def sentence(self) -> str:
        """For people, without a full stop."""
        where = f"{self.topic}-{self.partition}"
        whose = f"producer {self.producer_id} epoch {self.producer_epoch}"
        if self.transactional_id is not None:
            whose += f" (transactional id {self.transactional_id})"
        if self.event is AlertEvent.ENDED:
            return (
                f"ENDED {where}: the transaction of {whose} at offset {self.start_offset} is over"
                f" after {(self.at_ms - self.since_ms) // 1_000} s; lag is {self.lag}"
            )
        return (
            f"HANGING {where}: {self.lag} offsets are withheld behind offset"
            f" {self.last_stable_offset}; the transaction of {whose} is open since offset"
            f" {self.start_offset} and its newest record is stamped"
            f" {time_text(self.last_timestamp_ms)}; {self.reason}. To end it: {self.command}"
        )


ALERT_TABLE: Final = Table(
    about="A row per alert that was raised or ended.", columns=columns_of(Alert)
)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe has changed."""

    events: tuple[Alert, ...]
    standing: tuple[Alert, ...]
    """Alerts that have been raised and have not ended, with the figures of this probe."""


def step(
    standing: Sequence[Alert], rows: Iterable[PartitionLag], *, at_ms: int, program: str
) -> Step:
    """Take in a probe.

    Args:
        standing: What the probe before has left.
        rows: Every partition that hangs, can't be asked, or has an alert standing; others don't
            matter.
        at_ms: Time of this probe.
        program: How ``txnsim txns`` is called for this cluster.
    """
    events: list[Alert] = []
    remaining: dict[str, Alert] = {one.id: one for one in standing}
    for row in rows:
        if row.error is not None or row.lag is None:
            continue
        now = {one.id: one for one in _hanging(row, at_ms=at_ms, program=program)}
        where = (row.topic, row.partition)
        for old in [one for one in standing if (one.topic, one.partition) == where]:
            seen = now.pop(old.id, None)
            if seen is not None:
                remaining[old.id] = msgspec.structs.replace(seen, since_ms=old.since_ms)
            else:
                events.append(_ended(remaining.pop(old.id), row, at_ms))
        remaining |= now
        events += now.values()
    return Step(events=tuple(events), standing=tuple(remaining.values()))


def _hanging(row: PartitionLag, *, at_ms: int, program: str) -> Iterator[Alert]:
    """An alert for each transaction that hangs there."""
    assert row.topic is not None, "only of a partition is known who holds it"
    assert row.partition is not None, "the same"
    assert row.last_stable_offset is not None, "asked for before"
    assert row.high_watermark is not None, "the same"
    assert row.lag is not None, "both are known"
    where = TopicPartition(row.topic, row.partition)
    for held in row.held_by:
        command = held.verdict.repair_command(where, program=program)
        if command is None:
            continue
        yield Alert(
            event=AlertEvent.RAISED,
            id=f"{row.topic}-{row.partition}@{held.start_offset}"
            f"/{held.producer_id}:{held.producer_epoch}",
            at_ms=at_ms,
            since_ms=at_ms,
            topic=row.topic,
            partition=row.partition,
            producer_id=held.producer_id,
            producer_epoch=held.producer_epoch,
            transactional_id=held.transactional_id,
            start_offset=held.start_offset,
            last_timestamp_ms=held.last_timestamp_ms,
            last_stable_offset=row.last_stable_offset,
            high_watermark=row.high_watermark,
            lag=row.lag,
            reason=held.reason,
            command=command,
        )


def _ended(old: Alert, row: PartitionLag, at_ms: int) -> Alert:
    assert row.last_stable_offset is not None, "a partition that was asked"
    assert row.high_watermark is not None, "the same"
    assert row.lag is not None, "both are known"
    return msgspec.structs.replace(
        old,
        event=AlertEvent.ENDED,
        at_ms=at_ms,
        last_stable_offset=row.last_stable_offset,
        high_watermark=row.high_watermark,
        lag=row.lag,
    )
