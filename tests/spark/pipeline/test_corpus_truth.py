"""All tables of ``kafka_log`` compared with answers of a real Apache Kafka's brokers while the
directories were made: after an orderly stop, after a kill, and with damaged ends.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.pipeline.corpus.made import Corpus
from tests.spark.pipeline.corpus.truth import Place, Stage
from tests.spark.pipeline.reading import (
    CLEANED,
    STAGES,
    Tables,
    by_replica,
    moving,
    or_minus_one,
    partition_of,
    sound_ends,
)

if TYPE_CHECKING:
    from pyspark.sql import Row

pytestmark = [pytest.mark.spark, pytest.mark.real]

at_every_stage = pytest.mark.parametrize("name", STAGES)


def told_partitions(stage: Stage) -> Iterator[tuple[int, Place]]:
    """Each replica of the partitions that a leader reported."""
    for topic in stage.topics:
        for partition in topic.partitions:
            for broker in partition.replicas:
                yield broker, partition.place


def log_starts(stage: Stage) -> dict[Place, int]:
    """The start offset of each partition; segments below it may still exist."""
    return {
        partition.place: partition.start for topic in stage.topics for partition in topic.partitions
    }


def written_by_kafka(topic_id: str) -> str:
    """An id in Kafka's notation: url-safe base64 without padding."""
    return base64.urlsafe_b64encode(uuid.UUID(topic_id).bytes).decode().rstrip("=")


@at_every_stage
def test_records_are_those_that_a_consumer_read(tables: Tables, corpus: Corpus, name: str) -> None:
    stage = corpus.stage(name)
    starts = {
        (row.broker, partition_of(row)): row.log_start_offset
        for row in tables.rows(name, "replicas")
    }
    rows_by_place = by_replica(tables.rows(name, "records", "offset"))
    end_by_partition = sound_ends(stage)
    compared = 0
    for topic in stage.topics:
        for partition in topic.partitions:
            topic_partition = partition.place
            if moving(stage, topic_partition):
                continue
            expected = [
                (record.offset, record.timestamp_ms, record.key, record.value, record.headers)
                for record in partition.records
                if record.offset < end_by_partition.get(topic_partition, partition.end)
            ]
            for broker in partition.replicas:
                rows = rows_by_place.get((broker, topic_partition), [])
                assert [
                    as_read(row)
                    for row in rows
                    if not row.is_control and row.offset >= starts[broker, topic_partition]
                ] == expected, (broker, topic_partition)
                compared += len(expected)
    assert compared > 1_500


def as_read(
    row: Row,
) -> tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]:
    headers = tuple((header.key, as_bytes(header.value)) for header in row.headers)
    return row.offset, row.timestamp_ms, as_bytes(row.key), as_bytes(row.value), headers


def as_bytes(record_value: bytearray | None) -> bytes | None:
    return None if record_value is None else bytes(record_value)


@at_every_stage
def test_batches_are_those_that_leaders_acknowledged(
    tables: Tables, corpus: Corpus, name: str
) -> None:
    stage = corpus.stage(name)
    of_row = attrgetter(
        *("codec", "producer_id", "producer_epoch", "base_sequence", "records", "is_transactional")
    )
    rows_by_place = {
        (row.broker, partition_of(row), row.base_offset): tuple(map(or_minus_one, of_row(row)))
        for row in tables.rows(name, "batches")
    }
    of_sent = attrgetter("codec", "producer_id", "producer_epoch", "base_sequence")
    replicas = set(told_partitions(stage))
    end_by_partition = sound_ends(stage)
    for sent_batch in stage.sent:
        if sent_batch.place.topic in CLEANED or sent_batch.place.topic == "trimmed":
            continue
        expected = (*of_sent(sent_batch), len(sent_batch.records), sent_batch.transactional)
        for broker in (1, 2):
            key = (broker, sent_batch.place, sent_batch.base_offset)
            if moving(stage, sent_batch.place):
                # acks=-1: every replica in sync had it when it was acknowledged.
                assert rows_by_place[key] == expected, key
            elif (broker, sent_batch.place) in replicas:
                is_lost = sent_batch.base_offset >= end_by_partition.get(
                    sent_batch.place, sent_batch.base_offset + 1
                )
                assert rows_by_place.get(key) == (None if is_lost else expected), key


@pytest.mark.parametrize("name", ["killed", "torn"])
def test_replicas_end_where_a_starting_broker_ends_them(
    tables: Tables, corpus: Corpus, name: str
) -> None:
    stage = corpus.stage(name)
    ends: dict[tuple[int, Place], int] = {}
    for row in tables.rows(name, "segments"):
        end = row.segment_base_offset if row.last_offset is None else row.last_offset + 1
        key = (row.broker, partition_of(row))
        ends[key] = max(ends.get(key, 0), end)
    loaded_ends = {
        (loaded_log.broker, loaded_log.place): loaded_log.end for loaded_log in stage.loaded
    }
    assert len(loaded_ends) > 100
    assert {key: ends[key] for key in loaded_ends} == loaded_ends


@at_every_stage
def test_endings_are_the_transactions_that_ended(tables: Tables, corpus: Corpus, name: str) -> None:
    stage = corpus.stage(name)
    rows_by_place: dict[tuple[int, Place], set[tuple[int, int, int, bool]]] = {}
    first_offsets: dict[tuple[int, Place, int], int] = {}
    for row in tables.rows(name, "endings"):
        key = (row.broker, partition_of(row))
        marker = (row.marker_offset, row.producer_id, row.producer_epoch, row.is_commit)
        rows_by_place.setdefault(key, set()).add(marker)
        if row.first_offset is not None:
            first_offsets[*key, row.marker_offset] = row.first_offset
    expected_by_partition: dict[Place, set[tuple[int, int, int, bool]]] = {}
    firsts: dict[tuple[Place, int], int] = {}
    for truth in stage.finished:
        for span in truth.spans:
            assert span.marker_offset is not None
            marker = (span.marker_offset, truth.producer_id, truth.marker_epoch, truth.committed)
            expected_by_partition.setdefault(span.place, set()).add(marker)
            firsts[span.place, span.marker_offset] = span.first_offset
    start_by_partition = log_starts(stage)
    owed_ids = {truth.producer_id for truth in stage.listed if truth.state.startswith("Prepare")}
    lagging_replicas = {(2, truth.place) for truth in stage.open if truth.verdict == "lagging"}
    for broker, partition in told_partitions(stage):
        if (
            moving(stage, partition)
            or partition.topic in CLEANED
            or (broker, partition) in lagging_replicas
        ):
            continue
        start = start_by_partition[partition]
        read_endings = {
            truth for truth in rows_by_place.get((broker, partition), set()) if truth[0] >= start
        }
        expected_endings = {
            truth for truth in expected_by_partition.get(partition, set()) if truth[0] >= start
        }
        assert read_endings >= expected_endings, (broker, partition)
        # A coordinator that starts again sends the markers of what it had decided once more.
        assert {truth[1] for truth in read_endings - expected_endings} <= owed_ids, (
            broker,
            partition,
        )
    for (_, partition, marker_offset), first_offset in first_offsets.items():
        if partition.topic not in CLEANED and (partition, marker_offset) in firsts:
            assert first_offset >= firsts[partition, marker_offset]


@at_every_stage
def test_aborted_ranges_are_the_transactions_that_aborted(
    tables: Tables, corpus: Corpus, name: str
) -> None:
    stage = corpus.stage(name)
    rows_by_place: dict[tuple[int, Place], set[tuple[int, int, int]]] = {}
    for row in tables.rows(name, "aborted"):
        key = (row.broker, partition_of(row))
        rows_by_place.setdefault(key, set()).add(
            (row.producer_id, row.first_offset, row.marker_offset)
        )
    expected_by_partition: dict[Place, set[tuple[int, int, int]]] = {}
    for truth in stage.finished:
        for span in () if truth.committed else truth.spans:
            assert span.marker_offset is not None
            aborted = (truth.producer_id, span.first_offset, span.marker_offset)
            expected_by_partition.setdefault(span.place, set()).add(aborted)
    start_by_partition = log_starts(stage)
    for broker, partition in told_partitions(stage):
        if moving(stage, partition) or partition.topic in CLEANED:
            continue
        read_endings = {
            truth
            for truth in rows_by_place.get((broker, partition), set())
            if truth[1] >= start_by_partition[partition]
        }
        expected_endings = {
            truth
            for truth in expected_by_partition.get(partition, set())
            if truth[1] >= start_by_partition[partition]
        }
        assert read_endings == expected_endings, (broker, partition)


def test_the_last_snapshots_are_the_producers_that_brokers_described(
    tables: Tables, corpus: Corpus
) -> None:
    stage = corpus.stage("clean")
    leader_by_partition = {
        partition.place: partition.leader
        for topic in stage.topics
        for partition in topic.partitions
    }
    columns = (
        *("producer_id", "producer_epoch", "last_sequence", "last_timestamp_ms"),
        "coordinator_epoch",
    )
    of_row, of_truth = (attrgetter(*columns, opened) for opened in ("open_offset", "start_offset"))
    rows_by_place = {
        (partition_of(row), *map(or_minus_one, of_row(row)))
        for row in tables.rows("clean", "producer_state")
        if row.is_last and leader_by_partition.get(partition_of(row)) == row.broker
    }
    assert rows_by_place == {(producer.place, *of_truth(producer)) for producer in stage.producers}
    producers_known = {(partition, producer_id) for partition, producer_id, *_ in rows_by_place}
    assert stage.expired
    assert producers_known.isdisjoint(stage.expired)


@at_every_stage
def test_the_newest_transaction_records_are_the_coordinators_entries(
    tables: Tables, corpus: Corpus, name: str
) -> None:
    stage = corpus.stage(name)
    newest_rows: dict[str, Row] = {}
    rows = tables.rows(name, "transactions", "offset")
    for row in rows:
        if row.broker != 1:
            continue
        assert row.problem is None
        newest_rows[row.transactional_id] = row
    assert {truth for truth, row in newest_rows.items() if row.is_tombstone} == set(
        stage.forgotten_ids
    )
    of_both = attrgetter(
        *("transactional_id", "producer_id", "producer_epoch", "state", "timeout_ms")
    )

    def entry(truth: Any, began_ms: int | None) -> tuple[Any, ...]:
        partitions = frozenset(
            Place(partition.topic, partition.partition) for partition in truth.partitions
        )
        return (*of_both(truth), began_ms if truth.state == "Ongoing" else None, partitions)

    rows_by_place = {
        entry(row, or_minus_one(row.start_timestamp_ms))
        for row in newest_rows.values()
        if not row.is_tombstone and row.transactional_id not in stage.writers
    }
    expected_endings = {entry(truth, truth.start_time_ms) for truth in stage.listed}
    # Which markers of a decision are written already a coordinator knows by heart only.
    (in_log,), (by_heart,) = rows_by_place - expected_endings, expected_endings - rows_by_place
    assert (in_log[:-1], by_heart[:-1]) == (by_heart[:-1], in_log[:-1])
    assert in_log[3] == "PrepareCommit"
    assert in_log[-1] > by_heart[-1]


def test_versions_of_transaction_records_follow_the_level(tables: Tables, corpus: Corpus) -> None:
    rows = tables.rows("clean", "transactions")
    written_rows = [row for row in rows if row.broker == 1 and not row.is_tombstone]
    versions_by_name: dict[str, set[int]] = {}
    for row in written_rows:
        versions_by_name.setdefault(row.transactional_id, set()).add(row.value_version)
    assert versions_by_name["level-0"] == {0}
    assert versions_by_name["level-1"] == versions_by_name["level-2"] == {1}
    levels = {row.client_transaction_version for row in written_rows if row.value_version == 1}
    assert 2 in levels
    assert levels <= {0, 1, 2}


@at_every_stage
def test_offsets_are_the_positions_that_groups_were_told(
    tables: Tables, corpus: Corpus, name: str
) -> None:
    stage = corpus.stage(name)
    endings = {
        (row.partition, row.producer_id, row.marker_offset): row.is_commit
        for row in tables.rows(name, "endings")
        if row.topic == "__consumer_offsets" and row.broker == 1
    }
    positions: dict[tuple[str, Place], tuple[int, str]] = {}
    pending: dict[tuple[str, Place], tuple[int, str]] = {}
    kinds: set[str] = set()
    for row in tables.rows(name, "offsets", "offset"):
        if row.broker != 1:
            continue
        assert row.problem is None
        kinds.add(row.kind)
        if row.kind != "offset_commit":
            continue
        key = (row.group_id, Place(row.committed_topic, row.committed_partition))
        expected_endings = (row.committed_offset, row.committed_metadata)
        ends = [
            is_commit
            for (partition, producer, offset), is_commit in sorted(endings.items())
            if (partition, producer) == (row.partition, row.producer_id) and offset > row.offset
        ]
        if row.is_transactional and not ends:
            pending[key] = expected_endings
        elif not row.is_transactional or ends[0]:
            positions[key] = expected_endings
    for rows_by_place, expected_offsets in (
        (positions, stage.offsets),
        (pending, stage.pending_offsets),
    ):
        assert rows_by_place == {
            (true_offset.group, true_offset.place): (true_offset.offset, true_offset.metadata)
            for true_offset in expected_offsets
        }
    assert {"offset_commit", "group_metadata"} < kinds


@at_every_stage
def test_replicas_carry_their_topics_ids_and_how_their_brokers_ended(
    tables: Tables, corpus: Corpus, name: str
) -> None:
    stage = corpus.stage(name)
    ids = {topic.name: topic.topic_id for topic in stage.topics}
    rows = tables.rows(name, "replicas")
    user_rows = [
        row
        for row in rows
        if not row.topic.startswith("__") and not moving(stage, partition_of(row))
    ]
    assert {(row.topic, row.topic_id) for row in user_rows} == {
        (name, written_by_kafka(topic_id))
        for name, topic_id in ids.items()
        if not name.startswith("__")
    }
    assert {row.is_clean for row in rows} == {name == "clean"}
    assert {row.broker for row in rows} == {1, 2}


@at_every_stage
def test_every_batch_was_appended_in_its_leader_epoch(
    tables: Tables, corpus: Corpus, name: str
) -> None:
    starts = {
        (row.broker, partition_of(row)): row.log_start_offset
        for row in tables.rows(name, "replicas")
    }
    epochs: dict[tuple[int, Place], list[tuple[int, int]]] = {}
    for row in tables.rows(name, "leader_epochs", "start_offset"):
        epochs.setdefault((row.broker, partition_of(row)), []).append(
            (row.start_offset, row.leader_epoch)
        )
    for row in tables.rows(name, "batches"):
        if row.topic == "__cluster_metadata":
            continue
        epoch = epochs[row.broker, partition_of(row)]
        if row.base_offset < epoch[0][0]:
            assert row.base_offset < starts[row.broker, partition_of(row)], row
            continue
        current = [epoch for start, epoch in epoch if start <= row.base_offset]
        assert current[-1] == row.leader_epoch, row


@at_every_stage
def test_errors_are_the_damage_that_was_done(tables: Tables, corpus: Corpus, name: str) -> None:
    stage = corpus.stage(name)
    rows = tables.rows(name, "errors")
    assert {(row.broker, partition_of(row), row.file.rsplit("/", 1)[1]) for row in rows} == {
        (true_damage.broker, true_damage.place, true_damage.file) for true_damage in stage.damage
    }
    assert len(rows) == len(stage.damage)
    assert all(row.is_cut for row in rows)
