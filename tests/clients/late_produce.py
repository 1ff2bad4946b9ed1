"""Stock clients whose Produce arrives after their abort, against a real Apache Kafka.

The story that the scenario of the simulator tells, here on the judge itself: every attempt of one
Produce is held on the way, the client gives up and aborts, then the attempts are delivered. Without
verification (KIP-890) a transaction opens that nobody owns; with it, and with transactions v2, none
does. As a command: ``python -m tests.clients.late_produce``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.clients.holding_proxy import HoldingProxy
from tests.clients.kafka_tools.runner import ToolError, Tools
from tests.clients.kafka_tools.transactions_command import (
    DESCRIBE_COLUMNS,
    FIND_HANGING_COLUMNS,
    HOUR_MS,
    CheckFailure,
    Partition,
    open_producers,
    read_table,
)
from tests.support.apache_kafka import ApacheKafka, ApacheKafkaError, ToolResult
from tests.support.foreign_clients import ForeignClientError, run_go, run_java

_PATIENCE_S: Final = 30.0


class Mode(NamedTuple):
    """How a cluster defends itself, and whether the late record leaves a hanging transaction."""

    name: str
    transaction_version: int
    verification: bool
    hangs: bool


MODES: Final = (
    Mode("without verification", transaction_version=1, verification=False, hangs=True),
    Mode("with verification", transaction_version=1, verification=True, hangs=False),
    Mode("with transactions v2", transaction_version=2, verification=True, hangs=False),
)
PLAYERS: Final = ("java", "go")

_FAILURES: Final = (CheckFailure, ToolError, ApacheKafkaError, ForeignClientError, TimeoutError)


def main() -> int:
    """Play the story once for each mode and player."""
    failed_count = 0
    for mode in MODES:
        with HoldingProxy() as proxy:
            properties = {
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}",
                "transaction.partition.verification.enable": str(mode.verification).lower(),
            }
            transaction_version = mode.transaction_version
            with ApacheKafka(
                transaction_version=transaction_version, properties=properties
            ) as kafka:
                proxy.forward_to(int(kafka.bootstrap.rpartition(":")[2]))
                failed_count += sum(
                    not _passes(mode, player_name, kafka, proxy) for player_name in PLAYERS
                )
    checks = len(MODES) * len(PLAYERS)
    sys.stdout.write(f"{checks - failed_count} passed, {failed_count} failed\n")
    return 1 if failed_count else 0


def _passes(mode: Mode, player_name: str, kafka: ApacheKafka, proxy: HoldingProxy) -> bool:
    name = f"late-produce-of-{player_name}-{mode.name.replace(' ', '-')}"
    try:
        events = _play_story(mode, player_name, kafka, proxy)
    except _FAILURES as failure:
        sys.stdout.write(f"FAIL {name}: {str(failure).replace(chr(10), ' ')}\n")
        return False
    sys.stdout.write(f"{events}\nPASS {name}\n")
    sys.stdout.flush()
    return True


def _play_story(mode: Mode, player_name: str, kafka: ApacheKafka, proxy: HoldingProxy) -> str:
    partition = Partition(f"late-{player_name}", 0)
    transactional_id = f"late-producer-{player_name}"
    creation = kafka.run_tool(
        "org.apache.kafka.tools.TopicCommand", "--create", "--topic", partition.topic
    )
    if creation.code != 0:
        raise CheckFailure(f"no topic: {creation.stdout}{creation.stderr}")
    timestamp_ms = time.time_ns() // 1_000_000 - HOUR_MS
    proxy.hold()
    arguments = (kafka.bootstrap, transactional_id, *partition, timestamp_ms)
    result = _run_player(player_name, [str(argument) for argument in arguments])
    _expect_gave_up(result)
    if not proxy.await_held():
        raise CheckFailure(f"gave up before any Produce was on its way: {result.stdout}")
    with Tools(kafka.bootstrap) as tools:
        _await_ended(tools, transactional_id)
        proxy.release()
        is_open = bool(open_producers(tools, partition))
        options = ("find-hanging", *partition.options)
        is_found = bool(read_table(tools, FIND_HANGING_COLUMNS, *options))
    if (is_open, is_found) != (mode.hangs, mode.hangs):
        raise CheckFailure(
            f"expected a hanging transaction: {mode.hangs}; "
            f"describe-producers shows one: {is_open}; find-hanging finds it: {is_found}"
        )
    return result.stdout.strip()


def _run_player(player_name: str, arguments: Sequence[str]) -> ToolResult:
    if player_name == "java":
        # The delivery timeout runs while the coordinator adds the partition, so it has to outlast
        # that on a busy machine: only the Produce may run out of time.
        timeouts = ("--delivery-timeout-ms", "6000", "--request-timeout-ms", "2500")
        return run_java("LateProduce", *arguments, *timeouts)
    return run_go("late-produce", *arguments)


def _expect_gave_up(result: ToolResult) -> None:
    events = [json.loads(printed_line)["event"] for printed_line in result.stdout.splitlines()]
    if result.code != 0 or events != ["initialized", "produce-failed", "aborted"]:
        raise CheckFailure(f"exit status {result.code}: {result.stdout}{result.stderr}")


def _await_ended(tools: Tools, transactional_id: str) -> None:
    """Wait until the abort is complete, or the state Empty if the client asked for a new epoch."""
    deadline_s = time.monotonic() + _PATIENCE_S
    arguments = ("describe", "--transactional-id", transactional_id)
    while True:
        (row,) = read_table(tools, DESCRIBE_COLUMNS, *arguments)
        if row["TransactionState"] in {"CompleteAbort", "Empty"}:
            return
        if time.monotonic() > deadline_s:
            raise CheckFailure(f"the abort is not complete: {row}")


if __name__ == "__main__":
    sys.exit(main())
