"""What has to be judged of one epoch of a producer on one partition, from the rows of a query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from txnsim.txn.decision_audit import AuditedDecision, AuditedMarker, AuditVerdict
from txnsim.types import TopicPartition
from txnsim_spark.questions import _decision_queries as queries


class AuditedEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """A producer id and epoch on a partition, with what has to be judged there."""

    producer_id: int
    producer_epoch: int
    topic_partition: TopicPartition
    coordinator_partition: int | None
    """Partition of ``__transaction_state``; None if no log knows the producer."""
    transactional_id: str | None
    decisions: tuple[AuditedDecision, ...]
    markers: tuple[AuditedMarker, ...]


class DoubtfulVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict that needs a finding, with its place."""

    epoch: AuditedEpoch
    verdict: AuditVerdict


def epochs_of(rows: Iterator[Mapping[str, Any]]) -> Iterator[AuditedEpoch]:
    """Rows of ``DOUBTFUL``, put together: each epoch on a partition, or each part of it whose
    windows follow one another.
    """
    for (producer_id, producer_epoch, topic, partition), group in groupby(
        rows, itemgetter(*queries.GROUP_COLUMNS)
    ):
        for part_rows in _adjacent_windows(group):
            coordinators = {row["coordinator"] for row in part_rows} - {None}
            transactional_ids = {row["transactional_id"] for row in part_rows} - {None}
            yield AuditedEpoch(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                topic_partition=TopicPartition(topic, partition),
                coordinator_partition=min(coordinators, default=None),
                transactional_id=min(transactional_ids, default=None),
                decisions=tuple(
                    _decision_of(row)
                    for row in sorted(part_rows, key=itemgetter("log_offset"))
                    if not row["is_marker"]
                ),
                markers=tuple(
                    _marker_of(row)
                    for row in sorted(part_rows, key=itemgetter("log_offset"))
                    if row["is_marker"]
                ),
            )


def _adjacent_windows(
    rows: Iterable[Mapping[str, Any]],
) -> Iterator[list[Mapping[str, Any]]]:
    """Rows in order of their windows, divided where windows are left out."""
    part_rows: list[Mapping[str, Any]] = []
    for row in rows:
        if part_rows and row["number"] > part_rows[-1]["number"] + 1:
            yield part_rows
            part_rows = []
        part_rows.append(row)
    yield part_rows


def _marker_of(row: Mapping[str, Any]) -> AuditedMarker:
    return AuditedMarker(
        offset=row["log_offset"],
        at_ms=row["at_ms"],
        is_commit=row["is_commit"],
        coordinator_epoch=row["coordinator_epoch"],
    )


def _decision_of(row: Mapping[str, Any]) -> AuditedDecision:
    return AuditedDecision(
        coordinator=row["coordinator"],
        offset=row["log_offset"],
        at_ms=row["at_ms"],
        is_commit=row["is_commit"],
        by_epoch=bool(row["by_epoch"]),
        completed_ms=row["completed_ms"],
    )


def epoch_without_decision(
    producer_id: int,
    producer_epoch: int,
    topic_partition: TopicPartition,
    transactional_id: str | None,
) -> AuditedEpoch:
    """An epoch of which nothing but its place is known."""
    return AuditedEpoch(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        topic_partition=topic_partition,
        coordinator_partition=None,
        transactional_id=transactional_id,
        decisions=(),
        markers=(),
    )
