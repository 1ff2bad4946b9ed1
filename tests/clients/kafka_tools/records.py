"""Producing and consuming: the console's tools, those that measure, those that verify."""

from __future__ import annotations

import json
from typing import Final

from tests.clients.kafka_tools.expect import eventually, expect, expect_output, require
from tests.clients.kafka_tools.shop import Shop
from tests.clients.kafka_tools.transactions_command import DESCRIBE_PRODUCERS_COLUMNS, parse_table
from tests.support.apache_kafka import run_kafka_tool

_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_NOTHING_MORE_MS: Final = 1_500
"""How long a reader is given to see what it must not see."""
_PROTOCOLS: Final = ("classic", "consumer")


def produce(shop: Shop) -> None:
    """Records with keys and headers through every compression, and back with all they have."""
    topic = shop.new_topic("produce")
    expected = []
    for codec_index, codec in enumerate(_CODECS):
        lines = f"codec:{codec},empty:\tkey-{codec}\t{codec * 50}\nlast:h\tnext-ä\tvalue\n"
        producer_output = shop.tools.ask(
            "kafka-console-producer",
            *("--topic", topic, "--compression-codec", codec, "--command-property", "acks=all"),
            *("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"),
            stdin=lines,
        )
        expect_output(producer_output, "")
        offset = 2 * codec_index
        head_text = "CreateTime:<n> Partition:0 Offset:"
        expected += [
            f"{head_text}{offset} codec:{codec},empty: key-{codec} {codec * 50}",
            f"{head_text}{offset + 1} last:h next-ä value",
        ]
    properties = ("key", "headers", "offset", "partition", "timestamp")
    options = [f"--formatter-property=print.{property_name}=true" for property_name in properties]
    consumer_output = shop.tools.ask(
        "kafka-console-consumer",
        *("--topic", topic, "--from-beginning", "--max-messages", str(len(expected))),
        *("--group", shop.unique_name("produce"), "--timeout-ms", "30000", *options),
    )
    expect_output(consumer_output, "\n".join(expected))
    require("counted", f"Processed a total of {len(expected)} messages" in consumer_output.stderr)


def idempotent(shop: Shop) -> None:
    """The console's producer is idempotent: one producer per run, one sequence per partition."""
    topic = shop.new_topic("idempotent", partitions=3)
    keys = [f"k{key_number}" for key_number in range(60)]
    producer_output = shop.tools.ask(
        "kafka-console-producer",
        *("--topic", topic, "--command-property", "enable.idempotence=true"),
        *("--command-property", "batch.size=200", "--reader-property", "parse.key=true"),
        stdin="".join(f"{key}\tvalue of {key}\n" for key in keys),
    )
    expect_output(producer_output, "")
    ends = shop.tools.ask("kafka-get-offsets", "--topic", topic).stdout.split()
    counts = [int(end.rpartition(":")[2]) for end in ends]
    expect("records", sum(counts), len(keys))
    require(f"every partition has some: {counts}", all(counts))
    for partition, count in enumerate(counts):
        partition_options = ("--topic", topic, "--partition", str(partition))
        producers = shop.tools.ask("kafka-transactions", "describe-producers", *partition_options)
        (row,) = parse_table(producers.stdout, DESCRIBE_PRODUCERS_COLUMNS)
        expect(
            "epoch, last sequence",
            (row["ProducerEpoch"], row["LastSequence"]),
            ("0", str(count - 1)),
        )
    values = shop.values(topic, "read_committed", count=len(keys))
    expect("values", sorted(values), sorted(f"value of {key}" for key in keys))


def abort(shop: Shop) -> None:
    """A transaction that an operator ends is never seen; the next one of its id is."""
    transactional_id, topic = shop.open_transaction("abort")
    _terminate(shop, transactional_id)
    expect("read_uncommitted", shop.values(topic, "read_uncommitted", count=1), ["open"])
    payload_text = shop.file("payload", "of the next one\n")
    expect_output(
        shop.tools.run(
            "kafka-producer-perf-test",
            *("--topic", topic, "--num-records", "3", "--throughput", "-1"),
            *("--payload-file", payload_text, "--transactional-id", transactional_id),
            *("--bootstrap-server", shop.tools.bootstrap),
        ),
        "Reading payloads from: <any>\nNumber of records read: 1\n3 records sent<any>",
    )
    expect("read_committed", shop.values(topic, "read_committed", count=3), ["of the next one"] * 3)


def read_committed(shop: Shop) -> None:
    """An open transaction holds back what others wrote behind it, until it ends."""
    transactional_id, topic = shop.open_transaction("read-committed")
    expect_output(
        shop.tools.ask("kafka-console-producer", "--topic", topic, stdin="behind it\n"), ""
    )
    expected_values = ["open", "behind it"]
    expect("read_uncommitted", shop.values(topic, "read_uncommitted", count=2), expected_values)
    committed_values = shop.values(topic, "read_committed", count=1, patience_ms=_NOTHING_MORE_MS)
    expect("read_committed while it is open", committed_values, [])
    _terminate(shop, transactional_id)
    expect(
        "read_committed afterwards", shop.values(topic, "read_committed", count=1), ["behind it"]
    )


def _terminate(shop: Shop, transactional_id: str) -> None:
    command = ("forceTerminateTransaction", "--transactionalId", transactional_id)
    expect_output(shop.tools.ask("kafka-transactions", *command), "")


def performance(shop: Shop) -> None:
    """kafka-producer-perf-test with and without transactions, kafka-consumer-perf-test."""
    topic = shop.new_topic("measured", partitions=2)
    common = ("--topic", topic, "--record-size", "100", "--throughput", "-1")
    report_text = (
        " records sent, <decimal> records/sec (<decimal> MB/sec), <decimal> ms avg latency,"
        " <decimal> ms max latency, <n> ms 50th, <n> ms 95th, <n> ms 99th, <n> ms 99.9th."
    )
    for count, options in (
        (
            300,
            ("--transactional-id", shop.unique_name("measured"), "--transaction-duration-ms", "20"),
        ),
        (100, ("--command-property", "acks=all", "compression.type=lz4")),
    ):
        report_of_run = shop.tools.run(
            "kafka-producer-perf-test",
            *("--bootstrap-server", shop.tools.bootstrap, *common),
            *("--num-records", str(count), *options),
        )
        expect_output(report_of_run, f"{count}{report_text}")
    values = shop.values(topic, "read_committed", count=400)
    expect("records", len(values), 400)
    consumer_output = shop.tools.ask(
        "kafka-consumer-perf-test",
        *("--topic", topic, "--num-records", "400", "--timeout", "30000"),
        *("--group", shop.unique_name("measured")),
    )
    head_text, row = consumer_output.stdout.splitlines()
    expect("columns", len(head_text.split(", ")), len(row.split(", ")))
    expect("records consumed", row.split(", ")[4], "400")


def verifiable(shop: Shop) -> None:
    """kafka-verifiable-producer and -consumer, as system tests use them; both protocols."""
    topic = shop.new_topic("verified")
    # In a JVM of its own: what it reports last is reported while its JVM ends.
    producer_output = run_kafka_tool(
        "org.apache.kafka.tools.VerifiableProducer",
        *("--bootstrap-server", shop.tools.bootstrap, "--topic", topic),
        *("--max-messages", "5", "--acks", "-1"),
    )
    expect("exit status", producer_output.code, 0)
    events = [json.loads(printed_line) for printed_line in producer_output.stdout.splitlines()]
    offsets = [event["offset"] for event in events if event["name"] == "producer_send_success"]
    expect("offsets", offsets, [0, 1, 2, 3, 4])
    (data,) = (event for event in events if event["name"] == "tool_data")
    expect("acknowledged", (data["sent"], data["acked"]), (5, 5))
    for protocol in _PROTOCOLS:
        consumer_output = shop.tools.ask(
            "kafka-verifiable-consumer",
            *("--topic", topic, "--group-id", shop.unique_name(f"verified-{protocol}")),
            *("--max-messages", "5", "--reset-policy", "earliest", "--group-protocol", protocol),
        )
        events = [json.loads(printed_line) for printed_line in consumer_output.stdout.splitlines()]
        names = [event["name"] for event in events]
        require(f"begins and ends as told: {names}", names[0] == "startup_complete")
        expect("last", names[-1], "shutdown_complete")
        record_count = sum(
            event["count"] for event in events if event["name"] == "records_consumed"
        )
        expect("records", record_count, 5)
        commits = [event for event in events if event["name"] == "offsets_committed"]
        expected_offsets = [{"topic": topic, "partition": 0, "offset": 5}]
        expect(
            "committed", (commits[-1]["offsets"], commits[-1]["success"]), (expected_offsets, True)
        )


def latency(shop: Shop) -> None:
    """kafka-e2e-latency makes its topic itself."""
    topic = shop.unique_name("latency")
    measured = shop.tools.ask(
        "kafka-e2e-latency",
        *("--topic", topic, "--num-records", "20", "--producer-acks", "all"),
        *("--record-size", "64"),
    )
    expect_output(
        measured,
        f"""
        Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication \
factor = 1
        0 <decimal>
        Avg latency: <decimal> ms
        Percentiles: 50th = <n>, 99th = <n>, 99.9th = <n>
        """,
    )
    eventually(
        lambda: expect_output(
            shop.tools.ask("kafka-get-offsets", "--topic", topic), f"{topic}:0:20"
        )
    )
