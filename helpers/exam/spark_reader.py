"""Spark's Kafka connector, asked as a reader (``txnsim exam readers``): an answer per topic.

    txnsim exam readers serve --expected expected.json
    python spark_reader.py BOOTSTRAP expected.json > answers.json
    txnsim exam readers check expected.json answers.json

It needs PySpark and Java 17. ``--jars FOLDER`` names the connector's jars; else Spark fetches them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

PACKAGE = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


def main() -> None:
    """Read each expected topic by Spark, and print the answer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("expected", type=Path)
    parser.add_argument("--jars", type=Path, metavar="FOLDER")
    args = parser.parse_args()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "1")
    if args.jars:
        builder = builder.config("spark.jars", ",".join(map(str, sorted(args.jars.glob("*.jar")))))
    else:
        builder = builder.config("spark.jars.packages", PACKAGE)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for expected_topic in json.loads(args.expected.read_text("utf-8")):
        sys.stdout.write(
            json.dumps(read_topic(spark, args.bootstrap, expected_topic["topic"])) + "\n"
        )
    spark.stop()


def read_topic(spark: SparkSession, bootstrap: str, topic: str) -> dict[str, object]:
    """Return what a stream reads to its end, and where the source says that it stands then."""
    topic_frame = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .load()
        .selectExpr("offset", "CAST(value AS STRING) AS value")
    )
    table_name = topic.replace("-", "_")
    with tempfile.TemporaryDirectory() as checkpoint_directory:
        streaming_query = (
            topic_frame.writeStream.format("memory")
            .queryName(table_name)
            .option("checkpointLocation", checkpoint_directory)
            .trigger(availableNow=True)
            .start()
        )
        streaming_query.awaitTermination()
    rows = spark.table(table_name).orderBy("offset").collect()
    reader_answer: dict[str, object] = {"topic": topic, "values": [row["value"] for row in rows]}
    stream_end_offsets = [
        topic_frame["endOffset"]
        for progress in streaming_query.recentProgress
        for topic_frame in progress["sources"]
    ]
    if stream_end_offsets:
        last_end_offsets = (
            json.loads(stream_end_offsets[-1])
            if isinstance(stream_end_offsets[-1], str)
            else stream_end_offsets[-1]
        )
        reader_answer["position"] = reader_answer["end"] = int(last_end_offsets[topic]["0"])
    return reader_answer


if __name__ == "__main__":
    main()
