"""kafka-transactions (KIP-664) on transactions of a crashed application.

Hanging ones, which need a broker without verification, are those of ``transactions_command``.
"""

from __future__ import annotations

from tests.clients.kafka_tools.expect import (
    eventually,
    expect,
    expect_output,
    expect_refusal,
    require,
)
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
    _expect_listed(shop, transactional_id)
    transaction = _describe_transaction(shop, transactional_id)
    expect("state", transaction["TransactionState"], "Ongoing")
    expect("timeout", transaction["TransactionTimeoutMs"], "600000")
    expect("partitions", transaction["TopicPartitions"], f"{topic}-0")
    partition = ("--topic", topic, "--partition", "0")
    producer = _describe_producer(shop, topic)
    expect("producer id", producer["ProducerId"], transaction["ProducerId"])
    expect("epoch", producer["ProducerEpoch"], transaction["ProducerEpoch"])
    expect("open since", producer["CurrentTransactionStartOffset"], "0")
    expect("sequence", producer["LastSequence"], "0")
    hanging = _table(
        shop, FIND_HANGING_COLUMNS, "find-hanging", *partition, "--max-transaction-timeout", "0"
    )
    expect("what its coordinator knows does not hang", hanging, [])
    abortion = shop.tools.ask("kafka-transactions", "abort", *partition, "--start-offset", "0")
    expect_output(abortion, "")
    producer_after = _describe_producer(shop, topic)
    expect("open on the partition", producer_after["CurrentTransactionStartOffset"], "None")
    expect(
        "the coordinator is not told",
        _describe_transaction(shop, transactional_id)["TransactionState"],
        "Ongoing",
    )
    expect_refusal(
        shop.tools.ask("kafka-transactions", "abort", *partition, "--start-offset", "0"),
        f"Could not find any open transactions starting at offset 0 on partition {topic}-0",
    )
    terminate = ("forceTerminateTransaction", "--transactionalId", transactional_id)
    expect_output(shop.tools.ask("kafka-transactions", *terminate), "")
    transaction_after = _describe_transaction(shop, transactional_id)
    expect(
        "state, partitions",
        (transaction_after["TransactionState"], transaction_after["TopicPartitions"]),
        ("Empty", ""),
    )
    expect_refusal(
        shop.tools.ask("kafka-transactions", "describe", "--transactional-id", "never-seen"),
        "DescribeTransactions request for transactionalId `never-seen` failed because the ID could"
        " not be found.",
    )


def _expect_listed(shop: Shop, transactional_id: str) -> None:
    def ids(*filters: str) -> set[str]:
        rows = _table(shop, LIST_COLUMNS, "list", *filters)
        return {row["TransactionalId"] for row in rows}

    require("is listed", transactional_id in ids())
    pattern = "--transactional-id-pattern"
    expect("by pattern", ids(pattern, transactional_id.replace("-", ".")), {transactional_id})
    expect("by a pattern nobody fits", ids(pattern, "nobody-.*"), set())
    require("an hour old", transactional_id not in ids("--duration-filter", "3600000"))
    eventually(lambda: require("a moment old", transactional_id in ids("--duration-filter", "1")))


def _describe_transaction(shop: Shop, transactional_id: str) -> Row:
    command = ("describe", "--transactional-id", transactional_id)
    (row,) = _table(shop, DESCRIBE_COLUMNS, *command)
    return row


def _describe_producer(shop: Shop, topic: str) -> Row:
    command = ("describe-producers", "--topic", topic, "--partition", "0")
    (row,) = _table(shop, DESCRIBE_PRODUCERS_COLUMNS, *command)
    return row


def _table(shop: Shop, columns: tuple[str, ...], *command: str) -> list[Row]:
    result = shop.tools.ask("kafka-transactions", *command)
    expect("exit status, stderr", (result.code, result.stderr), (0, ""))
    return parse_table(result.stdout, columns)
