"""Spark's own Kafka connector as a client: batch, stream and sink. The same program gives the same
answers on the simulator and on a real Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.support.clusters import until_state
from tests.support.kafka_targets import KafkaTarget, kafka_target
from txnsim.client.admin import Admin
from txnsim.client.fetching import fetch
from txnsim.client.producer import Producer
from txnsim.types import IsolationLevel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

TOPIC = "read"
EVERYTHING = ["a0", "a1", "b0", "c0", "d0", "e0", "p0", "p1"]
COMMITTED = ["a0", "a1", "c0", "p0", "p1"]
"""Committed records before the open transaction: aborted and open ones, and those after it, are
left out.
"""
HEADER = ("trace", b"7")


class ServedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster with a topic to read.

    Partition 0: a0 a1 committed, b0 aborted, c0 committed, d0 open, e0 of no transaction. Offsets:
    a0=0 a1=1 (2 a marker) b0=3 (4) c0=5 (6) d0=7 e0=8. Partition 1: p0=0, p1=1, of no transaction.
    """

    target: KafkaTarget
    base_ms: int
    """Timestamp of a0; each record that follows is a second later."""

    def reader(self, spark: SparkSession, **options: str) -> DataFrameReader:
        topic_options = {} if "assign" in options else {"subscribe": TOPIC}
        options_given = {
            "kafka.bootstrap.servers": self.target.bootstrap,
            **topic_options,
            **options,
        }
        return spark.read.format("kafka").options(**options_given)

    def values(self, spark: SparkSession, **options: str) -> list[str]:
        rows = self.reader(spark, **options).load().toLocalIterator()
        return sorted(bytes(row["value"]).decode() for row in rows)

    def time(self, second: int) -> str:
        return str(self.base_ms + second * 1_000)


@pytest.fixture(scope="module", params=["txnsim", pytest.param("apache", marks=pytest.mark.real)])
def served_topic(request: pytest.FixtureRequest) -> Iterator[ServedTopic]:
    """The topic, on either cluster; its open transaction stays open."""
    with kafka_target(request.param, transaction_version=2) as target:
        target.create(TOPIC, 2)
        base_ms = target.ask(_fill_topics)
        yield ServedTopic(target=target, base_ms=base_ms)


async def _fill_topics(admin: Admin) -> int:
    cluster = admin.cluster
    base_ms = cluster.clock.now_ms() - 600_000
    seconds = iter(range(100))

    async def send(producer: Producer, partition: int, record_value: str) -> None:
        await producer.send(
            TOPIC,
            partition,
            record_value.encode(),
            key=record_value[0].encode(),
            timestamp_ms=base_ms + next(seconds) * 1_000,
            headers=[HEADER] if record_value == "a0" else (),
        )

    plain_producer = Producer(cluster)
    async with Producer(cluster, transactional_id="reads") as producer:
        await producer.init_transactions()
        for record_values, is_commit in ((["a0", "a1"], True), (["b0"], False), (["c0"], True)):
            producer.begin()
            for record_value in record_values:
                await send(producer, 0, record_value)
            await (producer.commit() if is_commit else producer.abort())
    # Its connections are closed without a word, so that its transaction stays open.
    holding_producer = Producer(cluster, transactional_id="holder", transaction_timeout_ms=900_000)
    await holding_producer.init_transactions()
    holding_producer.begin()
    await send(holding_producer, 0, "d0")
    await send(plain_producer, 0, "e0")
    for record_value in ("p0", "p1"):
        await send(plain_producer, 1, record_value)
    await plain_producer.close()
    return base_ms


COMMITTED_ONLY = {"kafka.isolation.level": "read_committed"}


# Batch


def test_each_isolation_reads_what_it_may(spark: SparkSession, served_topic: ServedTopic) -> None:
    assert served_topic.values(spark) == EVERYTHING
    assert served_topic.values(spark, **COMMITTED_ONLY) == COMMITTED
    assert (
        served_topic.values(spark, startingOffsets="earliest", endingOffsets="latest") == EVERYTHING
    )


def test_columns_are_what_was_written(spark: SparkSession, served_topic: ServedTopic) -> None:
    rows = served_topic.reader(spark, includeHeaders="true").load().toLocalIterator()
    row_by_value = {bytes(row["value"]).decode(): row for row in rows}
    first_row = row_by_value["a0"]
    assert (bytes(first_row["key"]), first_row["topic"], first_row["partition"]) == (b"a", TOPIC, 0)
    assert (first_row["timestampType"], first_row["timestamp"].timestamp()) == (
        0,
        served_topic.base_ms / 1_000,
    )
    assert [(header["key"], bytes(header["value"])) for header in first_row["headers"]] == [HEADER]
    assert row_by_value["a1"]["headers"] is None
    assert {value: row["offset"] for value, row in row_by_value.items()} == {
        **{"a0": 0, "a1": 1, "b0": 3, "c0": 5, "d0": 7, "e0": 8},
        **{"p0": 0, "p1": 1},
    }


def test_offsets_are_taken_by_partition(spark: SparkSession, served_topic: ServedTopic) -> None:
    offsets_by_partition = {
        "startingOffsets": json.dumps({TOPIC: {"0": 1, "1": -2}}),
        "endingOffsets": json.dumps({TOPIC: {"0": 6, "1": 1}}),
    }
    assert served_topic.values(spark, **offsets_by_partition) == ["a1", "b0", "c0", "p0"]
    assert served_topic.values(spark, **offsets_by_partition, **COMMITTED_ONLY) == [
        "a1",
        "c0",
        "p0",
    ]


def test_an_end_behind_the_stable_offset_is_lost_data_to_a_committed_reader(
    spark: SparkSession, served_topic: ServedTopic
) -> None:
    beyond = {"endingOffsets": json.dumps({TOPIC: {"0": 9, "1": -1}})}
    assert served_topic.values(spark, **beyond) == EVERYTHING
    soon = {"kafkaConsumer.pollTimeoutMs": "3000"}  # it waits so long for what it may not see
    with pytest.raises(Exception, match="Could not read records in offset"):
        served_topic.values(spark, **beyond, **soon, **COMMITTED_ONLY)


def test_times_are_looked_up(spark: SparkSession, served_topic: ServedTopic) -> None:
    # a0 a1 b0 c0 d0 e0 p0 p1 are of second 0, 1, 2 …
    by_partition = {
        "startingOffsetsByTimestamp": json.dumps(
            {TOPIC: {"0": int(served_topic.time(2)), "1": int(served_topic.time(7))}}
        ),
    }
    assert served_topic.values(spark, **by_partition) == ["b0", "c0", "d0", "e0", "p1"]
    # The marker behind a1 is of now: the first offset that is not older than second 5.
    later_values = ["b0", "c0", "d0", "e0", "p0", "p1"]
    assert served_topic.values(spark, startingTimestamp=served_topic.time(5)) == later_values
    assert served_topic.values(spark, endingTimestamp=served_topic.time(7)) == ["a0", "a1", "p0"]
    late_options = {"assign": json.dumps({TOPIC: [1]}), "startingTimestamp": served_topic.time(99)}
    with pytest.raises(Exception, match="No offset"):
        served_topic.values(spark, **late_options)
    assert (
        served_topic.values(spark, **late_options, startingOffsetsByTimestampStrategy="latest")
        == []
    )


def test_partitions_and_topics_are_chosen(spark: SparkSession, served_topic: ServedTopic) -> None:
    servers = {"kafka.bootstrap.servers": served_topic.target.bootstrap}
    frame_reader = spark.read.format("kafka")
    progress_frame = frame_reader.options(**servers, assign=json.dumps({TOPIC: [1]})).load()
    assert sorted(bytes(row["value"]) for row in progress_frame.toLocalIterator()) == [
        b"p0",
        b"p1",
    ]
    pattern_frame = spark.read.format("kafka").options(**servers, subscribePattern="re.d").load()
    assert pattern_frame.count() == len(EVERYTHING)
    split_frame = served_topic.reader(spark, minPartitions="5").load()
    assert split_frame.rdd.getNumPartitions() >= 5
    assert split_frame.count() == len(EVERYTHING)


# Stream


def run(
    rows: DataFrame, output_path: Path, *, format: str = "parquet", **options: str
) -> StreamingQuery:
    query = (
        rows.writeStream.format(format)
        .option("checkpointLocation", f"{output_path}/checkpoint")
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    assert query.exception() is None
    return query


def stream(spark: SparkSession, served_topic: ServedTopic, **options: str) -> DataFrame:
    options_given = {
        "kafka.bootstrap.servers": served_topic.target.bootstrap,
        "subscribe": TOPIC,
        **options,
    }
    return spark.readStream.format("kafka").options(**options_given).load()


def stream_values(spark: SparkSession, output_path: Path) -> list[str]:
    rows = spark.read.parquet(f"{output_path}/out").toLocalIterator()
    return sorted(bytes(row["value"]).decode() for row in rows)


def test_a_stream_reads_all_in_bounded_batches(
    spark: SparkSession, served_topic: ServedTopic, tmp_path: Path
) -> None:
    rows = stream(
        spark, served_topic, startingOffsets="earliest", maxOffsetsPerTrigger="4", **COMMITTED_ONLY
    )
    query = run(rows, tmp_path, path=f"{tmp_path}/out")
    assert stream_values(spark, tmp_path) == COMMITTED
    progress = [
        progress_report
        for progress_report in query.recentProgress
        if progress_report["numInputRows"]
    ]
    assert len(progress) > 1
    last_source = query.recentProgress[-1]["sources"][0]
    assert json.loads(last_source["endOffset"]) == {TOPIC: {"0": 7, "1": 2}}
    # What the connector calls the latest is the last stable offset: it sees no lag behind an open
    # transaction.
    assert last_source["metrics"]["maxOffsetsBehindLatest"] == "0"


def test_a_stream_goes_on_where_its_checkpoint_says(
    spark: SparkSession, served_topic: ServedTopic, tmp_path: Path
) -> None:
    topic = "going-on"
    served_topic.target.create(topic, 1)
    send_one(served_topic.target, topic, "before")
    latest_frame = stream(
        spark, served_topic, subscribe=topic, startingOffsets="latest", **COMMITTED_ONLY
    )
    # A stream that begins at the latest offset reads nothing before it has been there once.
    run(latest_frame, tmp_path, path=f"{tmp_path}/out")
    for record_value in ("first", "second"):
        send_one(served_topic.target, topic, record_value)
        run(latest_frame, tmp_path, path=f"{tmp_path}/out")
    assert stream_values(spark, tmp_path) == ["first", "second"]


def test_a_stream_that_runs_takes_what_comes(
    spark: SparkSession, served_topic: ServedTopic, tmp_path: Path
) -> None:
    topic = "coming"
    served_topic.target.create(topic, 1)
    values_seen: list[str] = []

    def take(rows: DataFrame, _batch: int) -> None:
        values_seen.extend(bytes(row["value"]).decode() for row in rows.toLocalIterator())

    query = (
        stream(spark, served_topic, subscribe=topic, startingOffsets="earliest", **COMMITTED_ONLY)
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", f"{tmp_path}/checkpoint")
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        for record_value in ("first", "second"):
            send_one(served_topic.target, topic, record_value)
            query.processAllAvailable()
            assert values_seen[-1] == record_value
    finally:
        query.stop()
    assert values_seen == ["first", "second"]


def send_one(target: KafkaTarget, topic: str, record_value: str) -> None:
    async def send(admin: Admin) -> None:
        async with Producer(admin.cluster, transactional_id="sends-one") as producer:
            await producer.init_transactions()
            producer.begin()
            await producer.send(topic, 0, record_value.encode())
            await producer.commit()
        # From transactions v2 on a commit is answered before its markers are written (KIP-890).
        await until_state(admin.cluster, "sends-one", "CompleteCommit")

    target.ask(send)


# Sink


def written_records(target: KafkaTarget, topic: str, partitions: int) -> list[tuple[Any, ...]]:
    """Partition, key, value and headers of each record, read by our own client."""

    async def read(admin: Admin) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for partition in range(partitions):
            rows_result = await fetch(
                admin.cluster, topic, partition, 0, isolation=IsolationLevel.READ_COMMITTED
            )
            rows += [
                (partition, record.key, record.value, record.headers)
                for record in rows_result.records
            ]
        return sorted(rows, key=repr)

    return target.ask(read)


def test_a_batch_is_written_with_keys_headers_and_partitions(
    spark: SparkSession, served_topic: ServedTopic
) -> None:
    topic = "written"
    served_topic.target.create(topic, 3)
    rows = spark.createDataFrame(
        [
            (topic, b"k", b"v", 2, [("h", b"x"), ("n", None)]),
            (topic, None, b"w", 1, None),
            (topic, b"gone", None, 0, []),
        ],
        "topic string, key binary, value binary, partition int,"
        " headers array<struct<key: string, value: binary>>",
    )
    # The topic is a column's, unless an option says otherwise.
    rows.write.format("kafka").options(
        **{"kafka.bootstrap.servers": served_topic.target.bootstrap, "includeHeaders": "true"}
    ).save()
    assert written_records(served_topic.target, topic, 3) == [
        (0, b"gone", None, ()),
        (1, None, b"w", ()),
        (2, b"k", b"v", (("h", b"x"), ("n", None))),
    ]


def test_a_key_finds_its_partition_as_javas_producer_has_it(
    spark: SparkSession, served_topic: ServedTopic
) -> None:
    topic = "keyed"
    served_topic.target.create(topic, 3)
    keyed = [(f"key-{key_number}", str(key_number)) for key_number in range(6)]
    spark.createDataFrame(keyed, "key string, value string").write.format("kafka").options(
        **{"kafka.bootstrap.servers": served_topic.target.bootstrap, "topic": topic}
    ).save()
    # murmur2 of the key, as DefaultPartitioner takes it.
    assert [(row[0], row[1]) for row in written_records(served_topic.target, topic, 3)] == KEYED


KEYED = [
    *[(0, b"key-1"), (0, b"key-4"), (1, b"key-0")],
    *[(2, b"key-2"), (2, b"key-3"), (2, b"key-5")],
]


def test_a_stream_is_written_from_topic_to_topic(
    spark: SparkSession, served_topic: ServedTopic, tmp_path: Path
) -> None:
    topic = "copied"
    served_topic.target.create(topic, 1)
    rows = stream(spark, served_topic, startingOffsets="earliest", **COMMITTED_ONLY)
    to = {"kafka.bootstrap.servers": served_topic.target.bootstrap, "topic": topic}
    run(rows.select("key", "value"), tmp_path, format="kafka", **to)
    assert [row[2].decode() for row in written_records(served_topic.target, topic, 1)] == COMMITTED
