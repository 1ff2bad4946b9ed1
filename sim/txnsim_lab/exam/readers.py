"""The exam of readers that use no coordinator: connectors, lag exporters, query engines (``txnsim
exam readers``). They read topics over the wire, or log directories, and their answers are compared
with the expected ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from txnsim.client.producer import Producer
from txnsim.server.log_dirs import log_dir_of
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.types import TopicPartition
from txnsim_lab.exam.fixture_topics import (
    FIXTURE_TOPICS,
    ExpectedReading,
    TopicWriter,
    fixture_topic,
    short_values,
    write_fixture,
)
from txnsim_lab.exam.targets import SETTINGS, simulated_target

GROUP: Final = "readers"
"""A group that has read everything that ``read_committed`` gets, and committed its position."""
OPEN_TRANSACTION_TIMEOUT_MS: Final = 86_400_000
CUT_BYTES: Final = 10
EXPECTED_FIELD_BY_STATEMENT: Final = {"position": "stable", "end": "stable", "lag": ""}
"""What a reader may report besides values -> the field it is compared with; a lag is compared with
zero.
"""


class ReaderStatement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reader's answer for one topic; unknown fields are omitted."""

    topic: str
    values: tuple[str, ...] | None = None
    position: int | None = None
    """Next offset after all records received."""
    end: int | None = None
    """End offset of the topic for ``read_committed``, as the reader reports it."""
    lag: int | None = None
    """Lag of the group ``readers``."""


def expected_topics(*, are_on_disk: bool) -> tuple[ExpectedReading, ...]:
    """The expected answer for each topic."""
    fixtures = (*FIXTURE_TOPICS, cut_short) if are_on_disk else FIXTURE_TOPICS
    return tuple(fixture.expected for fixture in fixtures)


@fixture_topic("cut-short", "The last batch is cut short on disk, as after a broker that was"
               " killed.", "a b", 3, 3)  # fmt: skip
async def cut_short(writer: TopicWriter) -> None:
    """Write 0 a, 1 b, 2 COMMIT, 3 a record in a batch that is truncated afterwards."""
    async with writer.producers("p") as (producer,), Producer(writer.cluster) as plain_producer:
        await writer.transact(producer, "a", "b")
        await writer.put(plain_producer, "cut")


@contextlib.asynccontextmanager
async def cluster_with_fixture_topics(*, port: int = 0) -> AsyncIterator[AsyncSimulatedKafka]:
    """Start a cluster with the exam's fixture topics, and a group that has read them.

    Args:
        port: First of consecutive ports; 0 picks free ones.
    """
    settings = {**SETTINGS, "transaction.max.timeout.ms": OPEN_TRANSACTION_TIMEOUT_MS}
    async with AsyncSimulatedKafka(settings=settings, port=port) as kafka:
        target = simulated_target(kafka)
        admin = await target.admin()
        for fixture in FIXTURE_TOPICS:
            topic_name = await write_fixture(
                target, fixture, lasting_ms=OPEN_TRANSACTION_TIMEOUT_MS
            )
            offsets = {TopicPartition(topic_name, 0): fixture.expected.stable}
            await admin.commit_positions(GROUP, offsets)
        yield kafka


async def directories() -> dict[str, bytes]:
    """The log directories of a cluster's brokers with all topics, as files by path."""
    files: dict[str, bytes] = {}
    async with cluster_with_fixture_topics() as kafka:
        cut_topic = await write_fixture(simulated_target(kafka), cut_short)
        for broker_id in sorted(kafka.cluster.brokers):
            for file in log_dir_of(kafka.cluster, broker_id):
                file_bytes = b"".join(file.parts)
                if file.path.startswith(f"{cut_topic}-") and file.path.endswith(".log"):
                    file_bytes = file_bytes[:-CUT_BYTES]
                files[f"broker-{broker_id}/{file.path}"] = file_bytes
    return files


def misses(
    topics: Sequence[ExpectedReading], statements: Sequence[ReaderStatement]
) -> Iterator[str]:
    """The wrong and missing answers of a reader, in words."""
    statement_by_topic: Mapping[str, ReaderStatement] = {
        statement.topic: statement for statement in statements
    }
    for topic in topics:
        answer = statement_by_topic.get(topic.topic)
        if answer is None:
            yield f"{topic.topic}: nothing is said of it"
            continue
        if all(
            getattr(answer, field) is None for field in ("values", *EXPECTED_FIELD_BY_STATEMENT)
        ):
            yield f"{topic.topic}: it is named, and nothing is said of it"
        if (
            answer.values is not None
            and (values_text := short_values(answer.values)) != topic.values
        ):
            yield _wrong(topic, "values", _value_list(values_text), _value_list(topic.values))
        for side_name, expected_field in EXPECTED_FIELD_BY_STATEMENT.items():
            stated_value, expected_value = (
                getattr(answer, side_name),
                getattr(topic, expected_field, 0),
            )
            if stated_value is not None and stated_value != expected_value:
                yield _wrong(topic, side_name, stated_value, expected_value)


def _wrong(
    topic: ExpectedReading, subject: str, stated_value: object, expected_value: object
) -> str:
    return f"{topic.topic}: {subject} {stated_value}; expected: {expected_value}. {topic.about}"


def _value_list(record_values: Sequence[str]) -> str:
    return " ".join(record_values) or "nothing"
