"""``txnsim txns`` beside Kafka's own tool, on the same cluster: the same bytes once sorted and with
the times masked.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from sim.client.admin import Admin
from sim.client.cluster import Cluster
from sim.client.producer import Producer
from sim.types import TopicPartition
from tests.real.conftest import Target
from tests.real.hang import make_hanging
from tests.support.apache_kafka import ToolResult, run_kafka_tool

TOOL = "org.apache.kafka.tools.TransactionsCommand"


def ours(target: Target, *args: str) -> ToolResult:
    command = [sys.executable, "-m", "sim.cli.main", "txns", "--bootstrap-server", target.bootstrap]
    done = subprocess.run([*command, *args], capture_output=True, text=True, check=False)
    return ToolResult(done.returncode, done.stdout, done.stderr)


def kafkas(target: Target, *args: str) -> ToolResult:
    return run_kafka_tool(TOOL, "--bootstrap-server", target.bootstrap, *args)


def comparable(output: str) -> list[str]:
    """Lines in order of the alphabet; digits of times become T, and a duration's cell loses its
    number.
    """
    lines = output.splitlines()
    if lines and "TransactionDurationMs" in lines[0]:
        column = [cell.strip() for cell in lines[0].split("\t")].index("TransactionDurationMs")
        for index, line in enumerate(lines[1:], start=1):
            cells = line.split("\t")
            if cells[column].strip() != "None":
                cells[column] = "D".ljust(len(cells[column]))
            lines[index] = "\t".join(cells)
    lines = [re.sub(r"\b\d{13}\b", "T" * 13, line) for line in lines]
    return sorted(lines)


def first_complaint(result: ToolResult) -> list[str]:
    """All brokers are asked at once: which one's refusal is told is a matter of chance."""
    lines = result.stderr.splitlines()[:1]
    return [re.sub(r"sent to broker \d+", "sent to broker N", line) for line in lines]


def check_same(target: Target, *args: str) -> ToolResult:
    mine, theirs = ours(target, *args), kafkas(target, *args)
    assert comparable(mine.stdout) == comparable(theirs.stdout)
    assert mine.code == theirs.code
    # Ours may add a line that says what to do; the first one is Kafka's.
    assert first_complaint(mine) == first_complaint(theirs)
    return mine


async def test_tables_are_those_of_kafkas_tool(
    target: Target, cluster: Cluster, admin: Admin, name: str
) -> None:
    await admin.create_topic(name, partitions=2)
    async with (
        Producer(cluster, transactional_id=f"{name}-open") as still_open,
        Producer(cluster, transactional_id=f"{name}-idle") as idle,
    ):
        await idle.init_transactions()
        await still_open.init_transactions()
        still_open.begin()
        await still_open.send(name, 0, b"x")
        await still_open.commit()
        still_open.begin()
        await still_open.send(name, 0, b"y")

        check_same(target, "list")
        check_same(target, "list", "--transactional-id-pattern", ".*-open")
        check_same(target, "list", "--duration-filter", "100000")
        check_same(target, "describe", "--transactional-id", f"{name}-open")
        check_same(target, "describe", "--transactional-id", f"{name}-idle")
        check_same(target, "describe-producers", "--topic", name, "--partition", "0")
        check_same(target, "describe-producers", "--topic", name, "--partition", "1")
        await still_open.abort()


async def test_a_hanging_transaction_is_found_alike_and_aborted(
    target: Target, admin: Admin, name: str
) -> None:
    await admin.create_topic(name, partitions=1)
    identity = await make_hanging(admin, TopicPartition(name, 0), f"{name}-ghost")
    where = ("--topic", name, "--partition", "0")
    found = check_same(target, "find-hanging", "--topic", name)
    assert str(identity.producer_id) in found.stdout
    check_same(target, "find-hanging", *where, "--max-transaction-timeout", "59")
    check_same(target, "find-hanging", *where, "--max-transaction-timeout", "61")
    check_same(target, "find-hanging", "--broker-id", "1")
    check_same(target, "abort", *where, "--start-offset", "7")
    aborted = ours(target, "abort", *where, "--start-offset", "0")
    assert aborted == ToolResult(0, "", "")
    check_same(target, "find-hanging", "--topic", name)
    check_same(target, "describe-producers", *where)


@pytest.mark.parametrize(
    "args",
    [
        ("describe", "--transactional-id", "nobody"),
        ("describe", "--transactional-id", ""),
        ("list", "--transactional-id-pattern", "("),
        ("abort", "--topic", "t", "--partition", "0"),
        ("abort", "--topic", "t", "--partition", "0", "--producer-id", "1"),
        (
            *("abort", "--topic", "t", "--partition", "0", "--producer-id", "1"),
            *("--producer-epoch", "1"),
        ),
        ("find-hanging",),
        ("find-hanging", "--broker-id", "1", "--partition", "0"),
        ("find-hanging", "--topic", "no-such-topic"),
        ("find-hanging", "--topic", "bad topic"),
        ("find-hanging", "--broker-id", "99"),
        ("describe-producers", "--topic", "bad topic", "--partition", "0"),
    ],
    ids=lambda args: " ".join(args),
)
async def test_refusals_have_kafkas_words_and_status(target: Target, args: tuple[str, ...]) -> None:
    check_same(target, *args)
