"""kafka-transactions (KIP-664) on transactions of a crashed application.

Hanging ones, which need a broker without verification, are those of ``transactions_command``.
"""

from __future__ import annotations

from tests.clients.kafka_tools.expect import eventually, expect, printed, refused, require
from tests.clients.kafka_tools.shop import Shop
from tests.clients.kafka_tools.transactions_command import (
    DESCRIBE_COLUMNS,
    DESCRIBE_PRODUCERS_COLUMNS,
    FIND_HANGING_COLUMNS,
    LIST_COLUMNS,
    Row,
    parse_table,
)


def administration(shop: Shop) -> None:
    """List, describe, describe producers, abort by start offset, force the end."""
    transactional_id, topic = shop.open_transaction("administered")
    _listed(shop, transactional_id)
    described = _described(shop, transactional_id)
    expect("state", described["TransactionState"], "Ongoing")
    expect("timeout", described["TransactionTimeoutMs"], "600000")
    expect("partitions", described["TopicPartitions"], f"{topic}-0")
    partition = ("--topic", topic, "--partition", "0")
    producer = _producer(shop, topic)
    expect("producer id", producer["ProducerId"], described["ProducerId"])
    expect("epoch", producer["ProducerEpoch"], described["ProducerEpoch"])
    expect("open since", producer["CurrentTransactionStartOffset"], "0")
    expect("sequence", producer["LastSequence"], "0")
    found = _table(
        shop, FIND_HANGING_COLUMNS, "find-hanging", *partition, "--max-transaction-timeout", "0"
    )
    expect("what its coordinator knows does not hang", found, [])
    aborted = shop.tools.at("kafka-transactions", "abort", *partition, "--start-offset", "0")
    printed(aborted, "")
    closed = _producer(shop, topic)
    expect("open on the partition", closed["CurrentTransactionStartOffset"], "None")
    expect(
        "the coordinator is not told",
        _described(shop, transactional_id)["TransactionState"],
        "Ongoing",
    )
    refused(
        shop.tools.at("kafka-transactions", "abort", *partition, "--start-offset", "0"),
        f"Could not find any open transactions starting at offset 0 on partition {topic}-0",
    )
    terminate = ("forceTerminateTransaction", "--transactionalId", transactional_id)
    printed(shop.tools.at("kafka-transactions", *terminate), "")
    ended = _described(shop, transactional_id)
    expect(
        "state, partitions", (ended["TransactionState"], ended["TopicPartitions"]), ("Empty", "")
    )
    refused(
        shop.tools.at("kafka-transactions", "describe", "--transactional-id", "never-seen"),
        "DescribeTransactions request for transactionalId `never-seen` failed because the ID could"
        " not be found.",
    )


def _listed(shop: Shop, transactional_id: str) -> None:
    def ids(*filters: str) -> set[str]:
        rows = _table(shop, LIST_COLUMNS, "list", *filters)
        return {row["TransactionalId"] for row in rows}

    require("is listed", transactional_id in ids())
    pattern = "--transactional-id-pattern"
    expect("by pattern", ids(pattern, transactional_id.replace("-", ".")), {transactional_id})
    expect("by a pattern nobody fits", ids(pattern, "nobody-.*"), set())
    require("an hour old", transactional_id not in ids("--duration-filter", "3600000"))
    eventually(lambda: require("a moment old", transactional_id in ids("--duration-filter", "1")))


def _described(shop: Shop, transactional_id: str) -> Row:
    command = ("describe", "--transactional-id", transactional_id)
    (row,) = _table(shop, DESCRIBE_COLUMNS, *command)
    return row


def _producer(shop: Shop, topic: str) -> Row:
    command = ("describe-producers", "--topic", topic, "--partition", "0")
    (row,) = _table(shop, DESCRIBE_PRODUCERS_COLUMNS, *command)
    return row


def _table(shop: Shop, columns: tuple[str, ...], *command: str) -> list[Row]:
    result = shop.tools.at("kafka-transactions", *command)
    expect("exit status, stderr", (result.code, result.stderr), (0, ""))
    return parse_table(result.stdout, columns)
