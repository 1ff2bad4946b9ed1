"""Commands that read Kafka's files and topics with Spark (``txnsim.cli.commands``)."""

from __future__ import annotations

from typing import Final

from txnsim.cli.commands import CommandTable

_EXAMPLES: Final = {
    "logs": (
        "txnsim logs find-hanging copies/broker-1 copies/broker-2",
        "txnsim logs verify copies/broker-1",
    ),
    "logs write": ("txnsim logs write disks", "txnsim logs write --into data --topic orders"),
    "logs decisions": (
        "txnsim logs decisions /var/lib/kafka/broker-*",
        "txnsim logs decisions broker-1 broker-2 broker-3 --json",
    ),
    "logs describe": (
        "txnsim logs describe copies/broker-1",
        "txnsim logs describe copies/broker-1 --json",
    ),
    "logs find-hanging": (
        "txnsim logs find-hanging copies/broker-1 copies/broker-2",
        "txnsim logs find-hanging --all --json copies/broker-1",
    ),
    "logs verify": (
        "txnsim logs verify copies/broker-1",
        "txnsim logs verify copies/broker-1 copies/broker-2 --json",
    ),
    "logs waiting": (
        "txnsim logs waiting copies/broker-1 copies/broker-2",
        "txnsim logs waiting copies/* --json",
    ),
    "logs dumped": (
        "txnsim logs dumped orders-0.txt transaction-state.txt",
        "txnsim logs dumped - --json",
    ),
    "logs sql": (
        "txnsim logs sql 'SELECT topic, sum(records) FROM kafka_batches GROUP BY ALL' copies/*",
        "txnsim logs sql - copies/broker-1 --option topics=orders --json",
    ),
    "logs timeline": (
        "txnsim logs timeline payments-7 copies/broker-1",
        "txnsim logs timeline payments-7 copies/broker-1 --json",
    ),
    "stream": (
        "txnsim stream --bootstrap-server localhost:9092 --topic orders --sink out --checkpoint at",
        "txnsim stream --topic orders --sink out --checkpoint at --alerts-to topic:alerts --once",
    ),
    "trace export": (
        "txnsim trace export traces --to tables",
        "txnsim trace export run-1.jsonl run-2.jsonl --to tables --json",
    ),
    "trace analyse": (
        "txnsim trace analyse traces",
        "txnsim trace analyse traces --ids 3 --json",
    ),
}

TABLE: Final = CommandTable(
    commands={
        "logs": (
            "txnsim_spark.cli.logs._command",
            "Kafka's log directories: write those of a running cluster, read any",
        ),
        "stream": (
            "txnsim_spark.cli._stream",
            "stream topics with Spark, and say what it can't see",
        ),
    },
    groups={
        "any Kafka cluster, this one or a real one": ("stream", "logs"),
    },
    examples=_EXAMPLES,
)
