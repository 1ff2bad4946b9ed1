"""Subcommands of ``txnsim txns``: rights, audits, ends of transactions."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import txnsim.cli._txns.audit as audit_module
from tests.broker.client.inspection.test_repair import SOLO, leave_hanging
from tests.support.clusters import (
    VirtualCluster,
    begin_transaction,
    run_cluster,
    until_state,
    values,
)
from tests.support.full_disk import little_room
from tests.support.hanging_transaction import make_hanging
from tests.support.txnsim_server import TxnsimServer
from txnsim.cli._txns.abort_confirmation import GuardedAbort
from txnsim.cli._txns.audit import Audit
from txnsim.cli._txns.command import AbortTransaction
from txnsim.cli._txns.missing_rights import RIGHTS, missing_right
from txnsim.cli._txns.operator_commands import HANGS, INCOMPLETE, SearchScope
from txnsim.cli.main import main
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.errors import ConfigError, ErrorCode
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.types import TopicPartition

# A user without a right is told which one, by each subcommand.


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

    def properties(self, user_name: str) -> Path:
        """Write a file with a user's client properties; return its path."""
        file = self._folder / f"{user_name}.properties"
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{user_name}" password="{user_name}-secret";\n'
        )
        return file

    def txns(self, user_name: str, *arguments: str) -> int:
        """Run a subcommand of ``txnsim txns`` as a user; return its exit status."""
        options = (
            "--bootstrap-server",
            self.address,
            "--command-config",
            str(self.properties(user_name)),
        )
        return main(["txns", *options, *arguments])


async def prepare(bootstrap: str) -> None:
    """Make one transaction hang; another transactional id has nothing open."""
    async with Cluster(bootstrap, settings=ClientSettings()) as cluster:
        await make_hanging(Admin(cluster), TopicPartition("orders", 0), "ghost")
        async with Producer(cluster, transactional_id="living") as living_producer:
            await living_producer.init_transactions()
        # Its id goes on, so that only the coordinator's log may tell what was decided.
        await make_hanging(Admin(cluster), TopicPartition("moved", 0), "moving")
        async with await begin_transaction(cluster, "moving") as moving_producer:
            await moving_producer.send("quiet", 0, b"x")
            await moving_producer.commit()


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
    ("user_name", "arguments", "right"),
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
    user_name: str,
    arguments: tuple[str, ...],
    right: str,
) -> None:
    assert broker.txns(user_name, *arguments) == 1
    output, error_output = capsys.readouterr()
    assert output == ""
    assert error_output.splitlines()[-1].endswith(f" The user lacks a right: {right}.")


@pytest.mark.slow
def test_what_may_not_be_seen_is_left_out_of_a_list(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    ids_by_user = {}
    for user_name in ("seer", "nobody"):
        assert broker.txns(user_name, "list", "--json") == 0
        ids_by_user[user_name] = {
            row["transactional_id"] for row in json.loads(capsys.readouterr().out)
        }
    assert ids_by_user == {"seer": {"ghost", "living", "moving"}, "nobody": set()}


@pytest.mark.slow
def test_who_may_look_and_not_abort_finds_what_hangs_and_is_told_at_the_repair(
    broker: Broker, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert broker.txns("seer", "find-hanging", "--all") == HANGS
    assert "orders" in capsys.readouterr().out
    audit = ("--audit-file", str(tmp_path / "audit.jsonl"))
    assert broker.txns("seer", "repair", "--yes", *audit) == HANGS
    output, error_output = capsys.readouterr()
    assert "refused" in output
    assert f"The user lacks a right: {ALTER}." in error_output.splitlines()


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
    """This holds also if the open transaction is younger than the given timeout."""
    age_limit = ("--max-transaction-timeout", "600")
    assert broker.txns("reader", "find-hanging", "--all", *age_limit) == 1
    assert f"The user lacks a right: {EVERY_ID}." in capsys.readouterr().err
    assert broker.txns("reader", "find-hanging", "--all", "--topic", "quiet") == INCOMPLETE
    assert f"The user lacks a right: {EVERY_ID}." in capsys.readouterr().err


@pytest.mark.slow
def test_the_right_that_would_settle_the_decision_is_named_where_a_guess_is_asked_for(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    settles = "give this user READ on the topic __transaction_state"
    assert broker.txns("guesser", "why", "moved", "0") == HANGS
    (advice,) = [
        printed_line
        for printed_line in capsys.readouterr().out.splitlines()
        if "It hangs." in printed_line
    ]
    assert settles in advice
    assert "add abort, which discards its records, or commit: " in advice
    assert advice.endswith(" --guess")
    assert broker.txns("guesser", "repair", "--topic", "moved", "--partition", "0") == HANGS
    output, error_output = capsys.readouterr()
    assert "needs a guess" in output
    assert (
        f"Before a guess: the coordinator's log may tell: {settles}." in error_output.splitlines()
    )


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
    page_text = (ROOT / "docs/security.md").read_text("utf-8")
    for command in RIGHTS:
        assert f"`{command}`" in page_text


# What ``txnsim txns`` has beyond Kafka's tool, against a simulator in a process of its own.


Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def server() -> Iterator[TxnsimServer]:
    with TxnsimServer(
        brokers=1, arguments=("--topic", "orders:2", "--topic", "payments:1")
    ) as txnsim_server:
        yield txnsim_server


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
    audit_file = tmp_path / "audit.jsonl"
    assert run(server, "find-hanging", "--all") == 0
    assert capsys.readouterr().err.endswith("; hanging: 0.\n")
    assert run(server, "why", "orders", "0") == 0
    assert "No transaction holds readers back" in capsys.readouterr().out
    hang(server, "orders")

    assert run(server, "find-hanging", "--all") == HANGS
    output, error_output = capsys.readouterr()
    assert "hanging: 1." in error_output
    header, row, reason, decision_line, command = output.splitlines()
    assert header.startswith("Topic ")
    assert row.startswith("orders")
    assert reason.startswith("orders-0 at offset 0: transactional id ghost is Empty without this")
    assert decision_line.startswith(
        "  It was not committed: end it with ABORT, which discards its records, as "
    )
    assert command == (
        f"  txnsim txns --bootstrap-server {server.bootstrap} repair --topic orders --partition 0"
        " --yes"
    )
    assert run(server, "find-hanging", "--all", "--topic", "orders", "--json") == HANGS
    result = json.loads(capsys.readouterr().out)
    assert result["partitions"] == 2
    assert [row["finding"]["verdict"] for row in result["findings"]] == ["hanging"]
    assert run(server, "why", "orders", "0") == HANGS
    assert "repair --topic orders --partition 0 --yes" in capsys.readouterr().out

    # Without --yes nothing is changed, and nothing written.
    assert run(server, "repair", "--guess", "commit", "--audit-file", str(audit_file)) == HANGS
    output, error_output = capsys.readouterr()
    assert "would be repaired" in output
    assert "orders-0: the guess does not count, as it was aborted." in error_output
    assert "with --yes" in error_output
    assert not audit_file.exists()

    assert run(server, "repair", "--yes", "--audit-file", str(audit_file)) == 0
    output, error_output = capsys.readouterr()
    assert "repaired" in output
    assert "0 -> 2" in output
    assert str(audit_file) in error_output
    attempt, outcome = [json.loads(line) for line in audit_file.read_text().splitlines()]
    assert attempt["attempt"]["verdict"] == "hanging"
    assert outcome["repair"]["outcome"] == "repaired"
    assert attempt["cluster_id"] == outcome["cluster_id"]
    assert run(server, "find-hanging", "--all") == 0
    assert run(server, "repair", "--yes", "--audit-file", str(audit_file), "--json") == 0
    assert len(audit_file.read_text().splitlines()) == 2


@pytest.mark.slow
def test_where_nothing_can_be_written_down_nothing_is_done(
    server: TxnsimServer, capsys: Captured, tmp_path: Path
) -> None:
    hang(server, "payments")
    scope = ("--topic", "payments")
    missing_path = tmp_path / "no" / "file"
    assert run(server, "repair", *scope, "--yes", "--audit-file", str(missing_path)) == 2
    assert "there is no directory" in capsys.readouterr().err
    assert run(server, "find-hanging", "--all", *scope) == HANGS
    assert run(server, "repair", *scope, "--yes", "--audit-file", str(tmp_path / "file")) == 0


def test_a_partition_needs_its_topic() -> None:
    with pytest.raises(ConfigError, match="requires --topic"):
        SearchScope(partition=1)


def test_statuses_differ() -> None:
    assert len({0, 1, 2, HANGS, INCOMPLETE}) == 5


def test_misuse_is_told_before_anything_is_connected(capsys: Captured) -> None:
    command = ("txns", "--bootstrap-server", "127.0.0.1:1")
    assert main([*command, "repair", "--partition", "0"]) == 2
    assert "requires --topic" in capsys.readouterr().err
    assert main([*command, "find-hanging", "--all", "--broker-id", "1"]) == 2
    assert "--broker-id" in capsys.readouterr().err


# ``txnsim txns abort``: Kafka's command, that says what it would lose.


HERE = TopicPartition("orders", 0)


@pytest.mark.parametrize("is_forced", [False, True])
def test_what_was_committed_is_not_discarded_in_silence(
    is_forced: bool, tmp_path: Path, capsys: Captured
) -> None:
    """KAFKA-20734: the client was told that it is committed, and one partition hangs."""
    file = tmp_path / "audit.jsonl"
    command = AbortTransaction(
        partition=SOLO,
        start_offset=0,
        guarded=GuardedAbort(force=is_forced, audit_file=file, program="t"),
    )

    async def story(virtual_cluster: VirtualCluster) -> list[bytes | None]:
        async with virtual_cluster.client() as cluster:
            admin = Admin(cluster)
            await leave_hanging(virtual_cluster, admin, later_count=0)
            if is_forced:
                await command.execute(admin, now_ms=0)
                return await values(cluster, SOLO.topic, partitions=1)
            with pytest.raises(ClientError, match="To abort it: --force") as error_info:
                await command.execute(admin, now_ms=0)
            assert "It was committed: its coordinator's log has PrepareCommit" in str(
                error_info.value
            )
            assert "t repair --topic solo --partition 0 --yes" in str(error_info.value)
            return []

    read = run_cluster(story)
    assert read == []
    if not is_forced:
        assert not file.exists()
        return
    assert "It was committed" in capsys.readouterr().err
    attempt, outcome = [json.loads(line) for line in file.read_text().splitlines()]
    assert attempt["attempt"]["decided"]["decision"] == "committed"
    assert attempt["abort"]["partition"] == {"topic": "solo", "partition": 0}
    assert (outcome["outcome"], outcome["error"]) == ("written", None)


def test_what_is_open_by_a_marker_that_is_late_keeps_its_commit(tmp_path: Path) -> None:
    """Its coordinator is in PrepareCommit: the marker of an abort would overtake it."""
    command = AbortTransaction(
        partition=HERE, start_offset=0, guarded=GuardedAbort(audit_file=tmp_path / "audit")
    )

    async def story(virtual_cluster: VirtualCluster) -> list[bytes | None]:
        async with (
            virtual_cluster.client() as cluster,
            await begin_transaction(cluster, "shop") as shop_producer,
        ):
            await shop_producer.send("orders", 0, b"paid")
            virtual_cluster.arm(Hold(), FaultPoint.PEER_REQUEST, api="WriteTxnMarkers")
            await shop_producer.commit()
            await until_state(cluster, "shop", "PrepareCommit")
            with pytest.raises(ClientError, match="Its coordinator writes COMMIT as soon as"):
                await command.execute(Admin(cluster), now_ms=0)
            virtual_cluster.sim.injector.release("f")
            virtual_cluster.sim.injector.disarm("f")
            await until_state(cluster, "shop", "CompleteCommit")
            return await values(cluster, "orders")

    assert run_cluster(story, level=2) == [b"paid"]


def test_what_lives_is_aborted_as_by_kafkas_tool_with_a_word(
    tmp_path: Path, capsys: Captured
) -> None:
    command = AbortTransaction(
        partition=HERE, start_offset=0, guarded=GuardedAbort(audit_file=tmp_path / "audit")
    )

    async def story(virtual_cluster: VirtualCluster) -> None:
        async with (
            virtual_cluster.client() as cluster,
            await begin_transaction(cluster, "shop") as shop_producer,
        ):
            await shop_producer.send("orders", 0, b"x")
            await command.execute(Admin(cluster), now_ms=0)
            await shop_producer.abort()

    run_cluster(story)
    assert "It did not hang: transactional id shop is Ongoing" in capsys.readouterr().err


# The file in which repairs are written down.


def test_every_line_names_the_cluster(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    for number in range(2):
        with Audit(file, "abc") as audit:
            audit.write(number=number)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines == [{"cluster_id": "abc", "number": 0}, {"cluster_id": "abc", "number": 1}]


def test_where_nothing_will_be_done_nothing_is_written(tmp_path: Path) -> None:
    with Audit(None, "abc") as audit:
        audit.write(number=1)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_can_not_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing was done"):
        Audit(tmp_path / "no" / "file", "abc")


def test_a_line_that_has_no_room_is_not_there_in_part(tmp_path: Path) -> None:
    """A disk that is nearly full takes a part of a line, and says so by a count alone."""
    file = tmp_path / "audit.jsonl"
    with (
        Audit(file, "abc") as audit,
        little_room(file_bytes_max=20),
        pytest.raises(OSError, match=f"too large: '{file}'"),
    ):
        audit.write(number=1)
    assert file.read_bytes() == b""


def test_a_second_command_waits_for_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "audit.jsonl"
    # Not capsys: what a thread writes while readouterr empties its buffer is lost.
    warnings: queue.SimpleQueue[str] = queue.SimpleQueue()
    monkeypatch.setattr(audit_module.TERMINAL, "warn", warnings.put)

    def second() -> None:
        with Audit(file, "abc") as audit:
            audit.write(who="second")

    with Audit(file, "abc") as audit:
        second_command_thread = threading.Thread(target=second)
        second_command_thread.start()
        assert "waiting for its end" in warnings.get(timeout=60)
        audit.write(who="first")
    second_command_thread.join()
    assert [json.loads(line)["who"] for line in file.read_text().splitlines()] == [
        "first",
        "second",
    ]


# ``ending_commands``: ``txns commit``, and ``txns abort`` by transactional id.


def open_transaction(server: TxnsimServer, transactional_id: str) -> tuple[str, ...]:
    """Open a transaction on payments-0; return the options that identify it."""

    async def make() -> tuple[str, ...]:
        async with Cluster(server.bootstrap) as cluster:
            producer = await begin_transaction(cluster, transactional_id)
            await producer.send("payments", 0, b"prepared")
            producer_identity = producer.session.identity
            return (
                *("--transactional-id", transactional_id),
                *("--producer-id", str(producer_identity.producer_id)),
                *("--producer-epoch", str(producer_identity.producer_epoch)),
            )

    return asyncio.run(make())


@pytest.mark.slow
@pytest.mark.parametrize(("command", "promise"), [("commit", "get"), ("abort", "never get")])
def test_a_lingering_transaction_is_ended_as_its_checkpoint_says(
    server: TxnsimServer, capsys: Captured, tmp_path: Path, command: str, promise: str
) -> None:
    identity = open_transaction(server, f"sink-{command}")
    audit_file = tmp_path / "audit.jsonl"
    assert run(server, command, *identity, "--audit-file", str(audit_file)) == 0
    output, error_output = capsys.readouterr()
    assert "would be ended" in output
    assert f"payments-0: readers {promise} what it wrote from offset " in output
    assert error_output == "Nothing was changed. To do it: the same command with --yes.\n"
    assert not audit_file.exists()

    assert run(server, command, *identity, "--yes", "--audit-file", str(audit_file), "--json") == 0
    end_report = json.loads(capsys.readouterr().out)
    assert (end_report["end"]["outcome"], end_report["dry_run"]) == ("ended", False)
    attempt, end = map(json.loads, audit_file.read_text().splitlines())
    assert attempt["attempt"]["outcome"] == "would be ended"
    assert end["end"] == end_report["end"]
    assert attempt["cluster_id"] == end["cluster_id"]

    # It is not done twice, and nothing else is.
    assert run(server, command, *identity, "--yes", "--audit-file", str(audit_file)) == 0
    assert "was ended so before" in capsys.readouterr().out
    other_command = "abort" if command == "commit" else "commit"
    assert run(server, other_command, *identity, "--yes", "--audit-file", str(audit_file)) == HANGS
    assert "it was decided otherwise" in capsys.readouterr().out
    assert len(audit_file.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--topic", "t"), "--topic: does not go with --transactional-id"),
        (("--start-offset", "0"), "--start-offset: does not go with --transactional-id"),
        (("--coordinator-epoch", "0"), "--coordinator-epoch: does not go with"),
        (("--force",), "--force: does not go with"),
        (("--producer-id", "1"), "--producer-epoch is missing"),
        ((), "--producer-id is missing"),
    ],
)
def test_the_two_forms_of_abort_do_not_mix(
    capsys: Captured, arguments: tuple[str, ...], message: str
) -> None:
    server = ("--bootstrap-server", "127.0.0.1:1")
    assert main(["txns", *server, "abort", "--transactional-id", "x", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_kafkas_own_form_of_abort_needs_its_partition_and_knows_no_yes(capsys: Captured) -> None:
    server = ("--bootstrap-server", "127.0.0.1:1")
    assert main(["txns", *server, "abort", "--start-offset", "0"]) == 2
    assert "arguments are required: --topic, --partition" in capsys.readouterr().err
    location_options = ("--topic", "t", "--partition", "0", "--start-offset", "0")
    assert main(["txns", *server, "abort", *location_options, "--yes"]) == 2
    assert "--yes: only with --transactional-id" in capsys.readouterr().err
