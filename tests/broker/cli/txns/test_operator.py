"""What ``txnsim txns`` has beyond Kafka's tool, against a simulator in a process of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.hang import make_hanging
from tests.support.txnsim_server import TxnsimServer
from txnsim.cli._txns.operator import HANGS, INCOMPLETE, Scope
from txnsim.cli.main import main
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.errors import ConfigError
from txnsim.types import TopicPartition

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def server() -> Iterator[TxnsimServer]:
    with TxnsimServer(brokers=1, arguments=("--topic", "orders:2", "--topic", "payments:1")) as one:
        yield one


def hang(server: TxnsimServer, topic: str) -> None:
    """A transaction that hangs on partition 0 of the topic."""

    async def make() -> None:
        async with Cluster(server.bootstrap) as cluster:
            await make_hanging(Admin(cluster), TopicPartition(topic, 0), "ghost")

    asyncio.run(make())


def run(server: TxnsimServer, *args: str) -> int:
    return main(["txns", "--bootstrap-server", server.bootstrap, *args])


@pytest.mark.slow
def test_a_hanging_transaction_from_alert_to_repair(
    server: TxnsimServer, capsys: Captured, tmp_path: Path
) -> None:
    audit = tmp_path / "audit.jsonl"
    assert run(server, "find-hanging", "--all") == 0
    assert capsys.readouterr().err.endswith("; hanging: 0.\n")
    assert run(server, "why", "orders", "0") == 0
    assert "No transaction holds readers back" in capsys.readouterr().out
    hang(server, "orders")

    assert run(server, "find-hanging", "--all") == HANGS
    out, err = capsys.readouterr()
    assert "hanging: 1." in err
    header, row, why, decided, command = out.splitlines()
    assert header.startswith("Topic ")
    assert row.startswith("orders")
    assert why.startswith("orders-0 at offset 0: transactional id ghost is Empty without this")
    assert decided.startswith("  It was not committed: end it with ABORT, as ")
    assert command == (
        f"  txnsim txns --bootstrap-server {server.bootstrap} repair --topic orders --partition 0"
        " --yes"
    )
    assert run(server, "find-hanging", "--all", "--topic", "orders", "--json") == HANGS
    told = json.loads(capsys.readouterr().out)
    assert told["partitions"] == 2
    assert [one["finding"]["verdict"] for one in told["findings"]] == ["hanging"]
    assert run(server, "why", "orders", "0") == HANGS
    assert "repair --topic orders --partition 0 --yes" in capsys.readouterr().out

    # Without --yes nothing is changed, and nothing written.
    assert run(server, "repair", "--guess", "commit", "--audit-file", str(audit)) == HANGS
    out, err = capsys.readouterr()
    assert "would be repaired" in out
    assert "orders-0: the guess does not count, as it was aborted." in err
    assert "with --yes" in err
    assert not audit.exists()

    assert run(server, "repair", "--yes", "--audit-file", str(audit)) == 0
    out, err = capsys.readouterr()
    assert "repaired" in out
    assert "0 -> 2" in out
    assert str(audit) in err
    before, after = [json.loads(line) for line in audit.read_text().splitlines()]
    assert before["attempt"]["verdict"] == "hanging"
    assert after["repair"]["outcome"] == "repaired"
    assert before["cluster_id"] == after["cluster_id"]
    assert run(server, "find-hanging", "--all") == 0
    assert run(server, "repair", "--yes", "--audit-file", str(audit), "--json") == 0
    assert len(audit.read_text().splitlines()) == 2


@pytest.mark.slow
def test_where_nothing_can_be_written_down_nothing_is_done(
    server: TxnsimServer, capsys: Captured, tmp_path: Path
) -> None:
    hang(server, "payments")
    scope = ("--topic", "payments")
    nowhere = tmp_path / "no" / "file"
    assert run(server, "repair", *scope, "--yes", "--audit-file", str(nowhere)) == 2
    assert "nothing was done" in capsys.readouterr().err
    assert run(server, "find-hanging", "--all", *scope) == HANGS
    assert run(server, "repair", *scope, "--yes", "--audit-file", str(tmp_path / "file")) == 0


def test_a_partition_needs_its_topic() -> None:
    with pytest.raises(ConfigError, match="requires --topic"):
        Scope(partition=1)


def test_statuses_differ() -> None:
    assert len({0, 1, 2, HANGS, INCOMPLETE}) == 5


def test_misuse_is_told_before_anything_is_connected(capsys: Captured) -> None:
    at = ("txns", "--bootstrap-server", "127.0.0.1:1")
    assert main([*at, "repair", "--partition", "0"]) == 2
    assert "requires --topic" in capsys.readouterr().err
    assert main([*at, "find-hanging", "--all", "--broker-id", "1"]) == 2
    assert "--broker-id" in capsys.readouterr().err
