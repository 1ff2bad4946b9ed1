"""A user without a right is told which one, by each subcommand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.hang import make_hanging
from tests.support.txnsim_server import TxnsimServer
from txnsim.cli._txns.operator import HANGS, INCOMPLETE
from txnsim.cli._txns.rights import RIGHTS, missing_right
from txnsim.cli.main import main
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ErrorCode
from txnsim.client.producer import Producer
from txnsim.types import TopicPartition

ROOT = Path(__file__).resolve().parents[4]
EVERY_ID = "DESCRIBE on every transactional id (the name * or all prefixes)"
READ_TOPIC = "READ on the topic"
ALTER = "ALTER or CLUSTER_ACTION on the cluster"
SECURITY = """
brokers: 1
topics: {orders: 2, moved: 1, quiet: 1}
security:
  listeners:
    SASL: {protocol: SASL_PLAINTEXT, port: 0, mechanisms: [PLAIN]}
  plain_users:
    nobody: nobody-secret
    half: half-secret
    reader: reader-secret
    seer: seer-secret
    guesser: guesser-secret
  authorizer: true
  super_users: ["User:ANONYMOUS"]
  acls:
    - {principal: "User:half", operation: DESCRIBE, topic: "*"}
    - {principal: "User:half", operation: DESCRIBE, transactional_id: "*"}
    - {principal: "User:reader", operation: READ, topic: "*"}
    - {principal: "User:guesser", operation: READ, topic: "moved"}
    - {principal: "User:guesser", operation: DESCRIBE, transactional_id: "*"}
    - {principal: "User:seer", operation: READ, topic: "*"}
    - {principal: "User:seer", operation: DESCRIBE, transactional_id: "*"}
"""
"""``half`` sees that there are topics, ``reader`` all producers and no transactional id,
``guesser`` one topic and all transactional ids, ``seer`` everything, and may do nothing.
"""
ABORT = ("abort", "--topic", "orders", "--partition", "0")
OF_ORDERS = ("--topic", "orders")
IDENTITY = ("--producer-id", "1", "--producer-epoch", "0", "--coordinator-epoch", "0")


class Broker:
    """A broker with users, where one transaction hangs and one lives."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address = address
        self._folder = folder

    def properties(self, user: str) -> Path:
        """Settings of a user."""
        file = self._folder / f"{user}.properties"
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{user}" password="{user}-secret";\n'
        )
        return file

    def txns(self, user: str, *words: str) -> int:
        """Run a subcommand as that user; its exit status."""
        known = ("--bootstrap-server", self.address, "--command-config", str(self.properties(user)))
        return main(["txns", *known, *words])


async def prepare(bootstrap: str) -> None:
    """Make one transaction hang; another transactional id has nothing open."""
    async with Cluster(bootstrap, settings=ClientSettings()) as cluster:
        await make_hanging(Admin(cluster), TopicPartition("orders", 0), "ghost")
        async with Producer(cluster, transactional_id="living") as living:
            await living.init_transactions()
        # Its id goes on, so that only the coordinator's log may tell what was decided.
        await make_hanging(Admin(cluster), TopicPartition("moved", 0), "moving")
        async with Producer(cluster, transactional_id="moving") as moving:
            await moving.init_transactions()
            moving.begin()
            await moving.send("quiet", 0, b"x")
            await moving.commit()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("rights")
    config = folder / "cluster.yaml"
    config.write_text(SECURITY)
    with TxnsimServer(brokers=1, arguments=("--config", str(config))) as server:
        asyncio.run(prepare(server.bootstrap))
        yield Broker(server.ready["security"]["bootstrap"]["SASL"], folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("user", "words", "right"),
    [
        (
            "nobody",
            ("describe", "--transactional-id", "living"),
            "DESCRIBE on the transactional id",
        ),
        (
            "seer",
            ("forceTerminateTransaction", "--transactionalId", "living"),
            "WRITE on the transactional id",
        ),
        ("nobody", ("describe-producers", *OF_ORDERS, "--partition", "0"), READ_TOPIC),
        ("nobody", (*ABORT, "--start-offset", "0"), READ_TOPIC),
        ("seer", (*ABORT, "--start-offset", "0"), ALTER),
        ("seer", (*ABORT, *IDENTITY), ALTER),
        ("nobody", ("find-hanging", *OF_ORDERS), READ_TOPIC),
        ("reader", ("find-hanging", *OF_ORDERS), EVERY_ID),
        ("reader", ("find-hanging", "--all"), EVERY_ID),
        ("nobody", ("why", "orders", "0"), READ_TOPIC),
        ("reader", ("why", "orders", "0"), EVERY_ID),
        ("nobody", ("repair", *OF_ORDERS), READ_TOPIC),
        ("reader", ("repair", "--yes"), EVERY_ID),
    ],
    ids=lambda value: "-".join(value[:1]) if isinstance(value, tuple) else value.split(" ")[0],
)
def test_the_right_that_is_missing_is_named(
    broker: Broker,
    capsys: pytest.CaptureFixture[str],
    user: str,
    words: tuple[str, ...],
    right: str,
) -> None:
    assert broker.txns(user, *words) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].endswith(f" The user lacks a right: {right}.")


@pytest.mark.slow
def test_what_may_not_be_seen_is_left_out_of_a_list(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = {}
    for user in ("seer", "nobody"):
        assert broker.txns(user, "list", "--json") == 0
        listed[user] = {row["transactional_id"] for row in json.loads(capsys.readouterr().out)}
    assert listed == {"seer": {"ghost", "living", "moving"}, "nobody": set()}


@pytest.mark.slow
def test_who_may_look_and_not_abort_finds_what_hangs_and_is_told_at_the_repair(
    broker: Broker, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert broker.txns("seer", "find-hanging", "--all") == HANGS
    assert "orders" in capsys.readouterr().out
    audit = ("--audit-file", str(tmp_path / "audit.jsonl"))
    assert broker.txns("seer", "repair", "--yes", *audit) == HANGS
    out, err = capsys.readouterr()
    assert "refused" in out
    assert f"The user lacks a right: {ALTER}." in err.splitlines()


@pytest.mark.slow
def test_what_is_left_out_of_answers_is_no_success(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Topics that may not be described are not in Metadata, so nothing of them was searched."""
    for command in ("find-hanging", "--all"), ("repair",):
        assert broker.txns("nobody", *command) == INCOMPLETE
        searched, *err = capsys.readouterr().err.splitlines()
        assert searched == "partitions searched: 0; hanging: 0."
        assert "The user lacks a right: READ on every topic (the name *)." in err
        assert f"The user lacks a right: {EVERY_ID}." in err


@pytest.mark.slow
def test_who_sees_no_ids_is_not_told_that_nothing_hangs(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """However young it is: what hangs on orders-0 wrote an hour ago."""
    older = ("--max-transaction-timeout", "600")
    assert broker.txns("reader", "find-hanging", "--all", *older) == 1
    assert f"The user lacks a right: {EVERY_ID}." in capsys.readouterr().err
    assert broker.txns("reader", "find-hanging", "--all", "--topic", "quiet") == INCOMPLETE
    assert f"The user lacks a right: {EVERY_ID}." in capsys.readouterr().err


@pytest.mark.slow
def test_the_right_that_would_settle_the_decision_is_named_where_a_guess_is_asked_for(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    settles = "give this user READ on the topic __transaction_state"
    assert broker.txns("guesser", "why", "moved", "0") == HANGS
    (advice,) = [line for line in capsys.readouterr().out.splitlines() if "It hangs." in line]
    assert settles in advice
    assert "--guess abort, or --guess commit" in advice
    assert broker.txns("guesser", "repair", "--topic", "moved", "--partition", "0") == HANGS
    out, err = capsys.readouterr()
    assert "needs a guess" in out
    assert f"Before a guess: the coordinator's log may tell: {settles}." in err.splitlines()


@pytest.mark.slow
def test_partitions_that_may_not_be_read_are_told_with_the_right(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert broker.txns("half", "find-hanging", "--all") == INCOMPLETE
    err = capsys.readouterr().err.splitlines()
    assert f"The user lacks a right: {READ_TOPIC}." in err


def test_an_error_that_is_about_no_right_has_nothing_missing() -> None:
    assert missing_right("abort", None) is None
    assert missing_right("abort", ErrorCode.invalid_producer_epoch) is None
    assert missing_right("list", ErrorCode.cluster_authorization_failed) is None


def test_every_subcommand_that_can_be_refused_has_its_rights() -> None:
    page = (ROOT / "docs/security.md").read_text("utf-8")
    for command in RIGHTS:
        assert f"`{command}`" in page
