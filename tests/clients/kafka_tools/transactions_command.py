"""Kafka's own ``TransactionsCommand`` (KIP-664) against any address, its tables read strictly.

Every check is about an operator's way from "a consumer is stuck" to "it goes on": list, describe,
describe-producers, find-hanging, abort. As a command::

    python -m tests.clients.kafka_tools.transactions_command \\
        BOOTSTRAP TOPIC:PARTITION TOPIC:PARTITION [--make-hang]

The partitions are known to have a hanging transaction whose last record is more than 15 minutes
old; with ``--make-hang`` it is made first, with records stamped an hour back. One line per check,
then ``N passed, M failed``.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tests.clients.kafka_tools.runner import ToolError, Tools
from tests.support.apache_kafka import ApacheKafkaError, ToolResult
from tests.support.console import say
from tests.support.foreign_clients import ForeignClientError, run_java

LIST_COLUMNS: Final = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
DESCRIBE_COLUMNS: Final = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
DESCRIBE_PRODUCERS_COLUMNS: Final = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
FIND_HANGING_COLUMNS: Final = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)
HOUR_MS: Final = 3_600_000

Row = dict[str, str]


class CheckFailure(Exception):
    """The tool answered something else than expected."""


class Partition(NamedTuple):
    """A partition as the tool's options name it."""

    topic: str
    number: int

    @property
    def options(self) -> tuple[str, ...]:
        """``--topic T --partition P``."""
        return ("--topic", self.topic, "--partition", str(self.number))


class Scene(NamedTuple):
    """The cluster and its transactions that the checks look at."""

    tools: Tools
    hanging: Sequence[Partition]
    open_id: str
    """Of a transaction that is open and that its coordinator knows."""
    open_topic: str
    brokers: Sequence[int]


def transactions_command(tools: Tools, *args: str) -> ToolResult:
    """Run the tool: sub-command and options as an operator types them.

    Raises:
        ToolError: It did not end.
    """
    return tools.ask("kafka-transactions", *args)


def read_table(tools: Tools, columns: Sequence[str], *args: str) -> list[Row]:
    """Run the tool and read the table that it prints.

    Raises:
        CheckFailure: It failed, or printed something else.
    """
    result = transactions_command(tools, *args)
    if result.code != 0 or result.stderr:
        raise CheckFailure(f"{args}: exit status {result.code}: {result.stdout}{result.stderr}")
    return parse_table(result.stdout, columns)


def parse_table(text: str, columns: Sequence[str]) -> list[Row]:
    """Rows as ToolsUtils.prettyPrintTable prints them: cells padded to the column, then one TAB.

    Raises:
        CheckFailure: Other columns, or not that shape.
    """
    lines = [line.split("\t") for line in text.splitlines()]
    if not lines or tuple(cell_text.rstrip() for cell_text in lines[0][:-1]) != tuple(columns):
        raise CheckFailure(f"expected the columns {tuple(columns)}, found {text!r}")
    widths = [len(cell_text) for cell_text in lines[0]]
    for line in lines:
        if [len(cell_text) for cell_text in line] != widths:
            raise CheckFailure(f"cells of unequal width: {text!r}")
    for width_index, width in enumerate(widths[:-1]):
        if max(len(line[width_index].rstrip()) for line in lines) != width:
            raise CheckFailure(
                f"column {columns[width_index]} is wider than its widest cell: {text!r}"
            )
    return [
        {name: cell_text.rstrip() for name, cell_text in zip(columns, line, strict=False)}
        for line in lines[1:]
    ]


def open_producers(tools: Tools, partition: Partition) -> list[Row]:
    """Rows of describe-producers with an open transaction.

    Raises:
        CheckFailure: The tool failed.
    """
    columns = DESCRIBE_PRODUCERS_COLUMNS
    rows = read_table(tools, columns, "describe-producers", *partition.options)
    return [row for row in rows if row["CurrentTransactionStartOffset"] != "None"]


def run_checks(scene: Scene, report: Callable[[str], object]) -> int:
    """Run the checks in order, as each stands on what the earlier ones left; how many failed."""
    checks: list[tuple[str, Callable[[], None]]] = [
        ("list", functools.partial(_check_list, scene)),
        ("list-filters", functools.partial(_check_list_filters, scene)),
        ("describe", functools.partial(_check_describe, scene)),
        ("describe-unknown-id-fails", functools.partial(_check_describe_unknown, scene)),
        ("describe-producers", functools.partial(_check_describe_producers, scene)),
        ("find-hanging-on-a-partition", functools.partial(_check_find_on_partition, scene)),
        ("find-hanging-on-a-broker", functools.partial(_check_find_on_broker, scene)),
        ("find-hanging-leaves-open-ones-alone", functools.partial(_check_open_is_not_found, scene)),
        ("find-hanging-without-a-place-fails", functools.partial(_check_find_nowhere, scene)),
        ("abort-by-start-offset", functools.partial(_check_abort_by_offset, scene)),
        ("abort-where-nothing-hangs-fails", functools.partial(_check_abort_again, scene)),
        ("abort-by-producer", functools.partial(_check_abort_by_producer, scene)),
        ("force-terminate", functools.partial(_check_force_terminate, scene)),
    ]
    failed_count = 0
    for name, check in checks:
        try:
            check()
        except (CheckFailure, ToolError) as failure:
            failed_count += 1
            report(f"FAIL {name}: {str(failure).replace(chr(10), ' ')}")
        else:
            report(f"PASS {name}")
    report(f"{len(checks) - failed_count} passed, {failed_count} failed")
    return failed_count


def make_hang(bootstrap: str, partition: Partition) -> None:
    """Leave a hanging transaction there, stamped an hour back; verification is off afterwards.

    Raises:
        ForeignClientError: It could not be made.
    """
    timestamp_ms = time.time_ns() // 1_000_000 - HOUR_MS
    transactional_id = f"owner-of-{partition.topic}-{partition.number}"
    result = run_java(
        "HangingTransaction",
        *(bootstrap, transactional_id, partition.topic, str(partition.number), str(timestamp_ms)),
    )
    if result.code != 0 or "start_offset" not in json.loads(result.stdout or "{}"):
        raise ForeignClientError(f"no hanging transaction: {result.stdout}{result.stderr}")


def set_scene(tools: Tools, hanging: Sequence[Partition]) -> Scene:
    """Add a transaction that is merely open, as a crashed application leaves it.

    Raises:
        ForeignClientError: It could not be made.
    """
    transactional_id = f"crashed-{time.time_ns() // 1_000_000}"
    result = run_java("OpenTransaction", tools.bootstrap, transactional_id, "left-open")
    if result.code != 0:
        raise ForeignClientError(f"no open transaction: {result.stdout}{result.stderr}")
    transaction = json.loads(result.stdout)
    return Scene(tools, hanging, transactional_id, transaction["topic"], transaction["brokers"])


# The checks


def _check_list(scene: Scene) -> None:
    rows = [row for row in _list(scene) if row["TransactionalId"] == scene.open_id]
    _expect("rows of the open transaction", len(rows), 1)
    _expect("its state", rows[0]["TransactionState"], "Ongoing")
    _require("coordinator is a broker id", rows[0]["Coordinator"].isdigit())
    _require("producer id is a number", rows[0]["ProducerId"].isdigit())


def _check_list_filters(scene: Scene) -> None:
    matching = _list(scene, "--transactional-id-pattern", "crashed-.*")
    _require("pattern", scene.open_id in {row["TransactionalId"] for row in matching})
    _expect("a pattern nobody fits", _list(scene, "--transactional-id-pattern", "nobody-.*"), [])
    old_rows = _list(scene, "--duration-filter", str(HOUR_MS))
    _require("an hour old", scene.open_id not in {row["TransactionalId"] for row in old_rows})
    young_rows = _list(scene, "--duration-filter", "1")
    _require("a moment old", scene.open_id in {row["TransactionalId"] for row in young_rows})


def _check_describe(scene: Scene) -> None:
    (row,) = read_table(
        scene.tools, DESCRIBE_COLUMNS, "describe", "--transactional-id", scene.open_id
    )
    (list_row,) = (row for row in _list(scene) if row["TransactionalId"] == scene.open_id)
    _expect("coordinator", row["CoordinatorId"], list_row["Coordinator"])
    _expect("producer id", row["ProducerId"], list_row["ProducerId"])
    _expect("state", row["TransactionState"], "Ongoing")
    _expect("timeout", row["TransactionTimeoutMs"], "600000")
    _expect("partitions", row["TopicPartitions"], f"{scene.open_topic}-0")
    age_ms = time.time_ns() // 1_000_000 - int(row["CurrentTransactionStartTimeMs"])
    duration_ms = int(row["TransactionDurationMs"])
    _require(f"duration {duration_ms} ms within age {age_ms} ms", 0 <= duration_ms <= age_ms)


def _check_describe_unknown(scene: Scene) -> None:
    _expect_error(scene, "describe", "--transactional-id", "never-seen")


def _check_describe_producers(scene: Scene) -> None:
    for partition in scene.hanging:
        row = _hanging_producer(scene, partition)
        for column in ("ProducerId", "ProducerEpoch", "LastSequence", "LastTimestamp"):
            _require(f"{column} is a number", row[column].isdigit())


def _check_find_on_partition(scene: Scene) -> None:
    for partition in scene.hanging:
        hanging_rows = _find_hanging(scene, *partition.options)
        _expect("rows", len(hanging_rows), 1)
        _expect_same_transaction(hanging_rows[0], partition, _hanging_producer(scene, partition))


def _check_find_on_broker(scene: Scene) -> None:
    """Each broker alone finds what it leads; all of them together find all."""
    found_partitions: set[Partition] = set()
    for broker in scene.brokers:
        hanging_rows = _find_hanging(scene, "--broker-id", str(broker))
        found_partitions |= {Partition(row["Topic"], int(row["Partition"])) for row in hanging_rows}
    _require("found on some broker", set(scene.hanging) <= found_partitions)


def _check_open_is_not_found(scene: Scene) -> None:
    options = ("--topic", scene.open_topic, "--max-transaction-timeout", "0")
    _expect("a transaction that its coordinator knows", _find_hanging(scene, *options), [])


def _check_find_nowhere(scene: Scene) -> None:
    _expect_error(scene, "find-hanging")
    _expect_error(scene, "find-hanging", "--partition", "0")


def _check_abort_by_offset(scene: Scene) -> None:
    partition = scene.hanging[0]
    start_offset = _hanging_producer(scene, partition)["CurrentTransactionStartOffset"]
    _abort(scene, partition, "--start-offset", start_offset)


def _check_abort_again(scene: Scene) -> None:
    _expect_error(scene, "abort", *scene.hanging[0].options, "--start-offset", "0")
    _expect_error(scene, "abort", *scene.hanging[0].options)


def _check_abort_by_producer(scene: Scene) -> None:
    partition = scene.hanging[1]
    row = _hanging_producer(scene, partition)
    _abort(
        scene,
        partition,
        *("--producer-id", row["ProducerId"], "--producer-epoch", row["ProducerEpoch"]),
        *("--coordinator-epoch", row["LatestCoordinatorEpoch"]),
    )


def _check_force_terminate(scene: Scene) -> None:
    command = ("forceTerminateTransaction", "--transactionalId", scene.open_id)
    result = transactions_command(scene.tools, *command)
    _expect("exit status, stderr", (result.code, result.stderr), (0, ""))
    (row,) = read_table(
        scene.tools, DESCRIBE_COLUMNS, "describe", "--transactional-id", scene.open_id
    )
    _expect("state", row["TransactionState"], "Empty")
    _expect("partitions", row["TopicPartitions"], "")


# Asking


def _list(scene: Scene, *options: str) -> list[Row]:
    return read_table(scene.tools, LIST_COLUMNS, "list", *options)


def _find_hanging(scene: Scene, *options: str) -> list[Row]:
    return read_table(scene.tools, FIND_HANGING_COLUMNS, "find-hanging", *options)


def _hanging_producer(scene: Scene, partition: Partition) -> Row:
    rows = open_producers(scene.tools, partition)
    _expect(f"producers with an open transaction on {partition}", len(rows), 1)
    return rows[0]


def _abort(scene: Scene, partition: Partition, *options: str) -> None:
    result = transactions_command(scene.tools, "abort", *partition.options, *options)
    _expect("exit status and output", tuple(result), (0, "", ""))
    _expect("open transactions afterwards", open_producers(scene.tools, partition), [])
    _expect("find-hanging afterwards", _find_hanging(scene, *partition.options), [])


def _expect_error(scene: Scene, *args: str) -> None:
    result = transactions_command(scene.tools, *args)
    _expect(f"exit status of {args}", result.code, 1)
    _require("says why on stderr", result.stderr.strip() != "")


def _expect_same_transaction(row: Row, partition: Partition, producer: Row) -> None:
    _expect("topic", row["Topic"], partition.topic)
    _expect("partition", row["Partition"], str(partition.number))
    for column, producer_column in (
        ("ProducerId", "ProducerId"),
        ("ProducerEpoch", "ProducerEpoch"),
        ("CoordinatorEpoch", "LatestCoordinatorEpoch"),
        ("StartOffset", "CurrentTransactionStartOffset"),
        ("LastTimestamp", "LastTimestamp"),
    ):
        _expect(column, row[column], producer[producer_column])
    age_min = (time.time_ns() // 1_000_000 - int(row["LastTimestamp"])) // 60_000
    _require("minutes since", age_min - 1 <= int(row["Duration(min)"]) <= age_min)


def _expect(subject: str, actual: object, expected: object) -> None:
    if actual != expected:
        raise CheckFailure(f"{subject}: expected {expected!r}, found {actual!r}")


def _require(subject: str, holds: object) -> None:
    if not holds:
        raise CheckFailure(f"{subject}: does not hold")


def _partition(text: str) -> Partition:
    topic, _, index = text.rpartition(":")
    return Partition(topic, int(index))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks against an address."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.clients.kafka_tools.transactions_command"
    )
    parser.add_argument("bootstrap")
    parser.add_argument("hanging", nargs=2, type=_partition, metavar="TOPIC:PARTITION")
    parser.add_argument("--make-hang", action="store_true", help="make them hang first")
    options = parser.parse_args(argv)
    with Tools(options.bootstrap) as tools:
        try:
            if options.make_hang:
                for partition in options.hanging:
                    make_hang(options.bootstrap, partition)
            scene = set_scene(tools, options.hanging)
        except (ForeignClientError, ApacheKafkaError) as failure:
            say(f"FAIL preparation: {failure}\n0 passed, 1 failed")
            return 1
        return 1 if run_checks(scene, say) else 0


if __name__ == "__main__":
    sys.exit(main())
