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

from txnsim.shell_text import ShellText
from txnsim.text import time_text
from txnsim.types import TopicPartition
from txnsim_spark.schemas import Bigint, Int, String, Table, columns_of
from txnsim_spark.streaming._lag_probe import PartitionLag


class AlertEvent(StrEnum):
    """What has happened to an alert: it began or it ended."""

    RAISED = "raised"
    ENDED = "ended"


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A hanging transaction, with all that an operator needs who gets the alert."""

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
    """First offset of the transaction; readers stop there unless an older transaction is open
    before it.
    """
    last_timestamp_ms: Annotated[Bigint, "Of its last record, by its producer's clock."]
    last_stable_offset: Annotated[Bigint, "Where `read_committed` readers stop."]
    high_watermark: Annotated[Bigint, "Where all other readers stop."]
    lag: Annotated[Bigint, "The second less the first: offsets withheld."]
    reason: Annotated[String, "Which rule says that it hangs."]
    """The cause, in the words of KIP-664."""
    command: Annotated[String, "What ends it, with the marker that was decided."]

    @property
    def sentence(self) -> str:
        """The alert as a sentence without a full stop."""
        place_text = f"{self.topic}-{self.partition}"
        producer_text = f"producer {self.producer_id} epoch {self.producer_epoch}"
        if self.transactional_id is not None:
            producer_text += f" (transactional id {self.transactional_id})"
        if self.event is AlertEvent.ENDED:
            return (
                f"ENDED {place_text}: the transaction of {producer_text} at offset"
                f" {self.start_offset} is over"
                f" after {(self.at_ms - self.since_ms) // 1_000} s; lag is {self.lag}"
            )
        return (
            f"HANGING {place_text}: {self.lag} offsets are withheld behind offset"
            f" {self.last_stable_offset}; the transaction of {producer_text} is open since offset"
            f" {self.start_offset} and its newest record is stamped"
            f" {time_text(self.last_timestamp_ms)}; {self.reason}. To end it: {self.command}"
        )


ALERT_TABLE: Final = Table(
    about="A row per alert that was raised or ended.", columns=columns_of(Alert)
)


class AlertChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe changed: alerts that it raised or ended, and those that last."""

    events: tuple[Alert, ...]
    standing_alerts: tuple[Alert, ...]
    """Alerts that continue, with the values of this probe."""


def compare_probe(
    previous_alerts: Sequence[Alert],
    partition_lags: Iterable[PartitionLag],
    *,
    probed_at_ms: int,
    program: ShellText,
) -> AlertChanges:
    """Raise and end alerts by comparing a probe with the alerts that lasted until then.

    Args:
        previous_alerts: Alerts that remained after the previous probe.
        partition_lags: Every partition that hangs, can't be probed, or has an alert; others don't
            matter.
        probed_at_ms: Time of this probe.
        program: The command line of ``txnsim txns`` for this cluster.
    """
    alert_events: list[Alert] = []
    standing_alert_by_id: dict[str, Alert] = {alert.id: alert for alert in previous_alerts}
    for partition_lag in partition_lags:
        if partition_lag.error is not None or partition_lag.lag is None:
            continue
        raised_alert_by_id = {
            alert.id: alert
            for alert in _hanging_alerts(partition_lag, probed_at_ms=probed_at_ms, program=program)
        }
        partition = (partition_lag.topic, partition_lag.partition)
        for standing_alert in [
            alert for alert in previous_alerts if (alert.topic, alert.partition) == partition
        ]:
            raised_alert = raised_alert_by_id.pop(standing_alert.id, None)
            if raised_alert is not None:
                standing_alert_by_id[standing_alert.id] = msgspec.structs.replace(
                    raised_alert, since_ms=standing_alert.since_ms
                )
            else:
                alert_events.append(
                    _end_alert(
                        standing_alert_by_id.pop(standing_alert.id), partition_lag, probed_at_ms
                    )
                )
        standing_alert_by_id |= raised_alert_by_id
        alert_events += raised_alert_by_id.values()
    return AlertChanges(
        events=tuple(alert_events), standing_alerts=tuple(standing_alert_by_id.values())
    )


def _hanging_alerts(
    partition_lag: PartitionLag, *, probed_at_ms: int, program: ShellText
) -> Iterator[Alert]:
    """The alerts for the hanging transactions of a partition."""
    assert partition_lag.topic is not None, "only a partition has transactions that hold it"
    assert partition_lag.partition is not None, "the same"
    assert partition_lag.last_stable_offset is not None, "asked for before"
    assert partition_lag.high_watermark is not None, "the same"
    assert partition_lag.lag is not None, "both are known"
    topic_partition = TopicPartition(partition_lag.topic, partition_lag.partition)
    for oldest_open_txn in partition_lag.held_by:
        command = oldest_open_txn.verdict.repair_command(topic_partition, program=program)
        if command is None:
            continue
        yield Alert(
            event=AlertEvent.RAISED,
            id=f"{partition_lag.topic}-{partition_lag.partition}@{oldest_open_txn.start_offset}"
            f"/{oldest_open_txn.producer_id}:{oldest_open_txn.producer_epoch}",
            at_ms=probed_at_ms,
            since_ms=probed_at_ms,
            topic=partition_lag.topic,
            partition=partition_lag.partition,
            producer_id=oldest_open_txn.producer_id,
            producer_epoch=oldest_open_txn.producer_epoch,
            transactional_id=oldest_open_txn.transactional_id,
            start_offset=oldest_open_txn.start_offset,
            last_timestamp_ms=oldest_open_txn.last_timestamp_ms,
            last_stable_offset=partition_lag.last_stable_offset,
            high_watermark=partition_lag.high_watermark,
            lag=partition_lag.lag,
            reason=oldest_open_txn.reason,
            command=command,
        )


def _end_alert(alert: Alert, partition_lag: PartitionLag, probed_at_ms: int) -> Alert:
    assert partition_lag.last_stable_offset is not None, "a partition that was asked"
    assert partition_lag.high_watermark is not None, "the same"
    assert partition_lag.lag is not None, "both are known"
    return msgspec.structs.replace(
        alert,
        event=AlertEvent.ENDED,
        at_ms=probed_at_ms,
        last_stable_offset=partition_lag.last_stable_offset,
        high_watermark=partition_lag.high_watermark,
        lag=partition_lag.lag,
    )
