"""``txnsim groups`` against a simulator in a process of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from tests.support.txnsim_server import TxnsimServer
from txnsim.cli._groups import _advice, _describe
from txnsim.cli.main import main
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.inspection.groups import GroupDescription, GroupPosition
from txnsim.client.members.membership import MemberOptions
from txnsim.client.members.share import ShareMember
from txnsim.client.producer import Producer
from txnsim.errors import ErrorCode
from txnsim.types import TopicPartition

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def server() -> Iterator[TxnsimServer]:
    with TxnsimServer(
        brokers=1, arguments=("--topic", "orders:1", "--topic", "sales:1")
    ) as txnsim_server:
        yield txnsim_server


def member_of(server: TxnsimServer, group_id: str, topic: str, *, has_left: bool) -> None:
    """A share group with two records before it; its member leaves, or dies without a word."""

    async def make() -> None:
        async with Cluster(server.bootstrap) as cluster, Producer(cluster) as producer:
            admin = Admin(cluster)
            await admin.set_group_config(group_id, "share.auto.offset.reset", "earliest")
            await producer.send(topic, 0, b"a")
            await producer.send(topic, 0, b"b")
            member = ShareMember(cluster, MemberOptions(group_id=group_id, member_id="one"))
            await member.subscribe([topic], until=frozenset({TopicPartition(topic, 0)}))
            await member.poll(max_wait_ms=500)
            if has_left:
                await member.leave()
            await member.close()

    asyncio.run(make())


def run(server: TxnsimServer, *args: str) -> int:
    return main(["groups", "--bootstrap-server", server.bootstrap, *args])


@pytest.mark.slow
def test_a_share_group_from_its_offsets_to_its_end(server: TxnsimServer, capsys: Captured) -> None:
    member_of(server, "shop", "orders", has_left=True)
    assert run(server, "list", "--type", "share", "--state", "Empty") == 0
    header, row = (printed_line.split() for printed_line in capsys.readouterr().out.splitlines())
    assert header == ["Group", "Type", "State", "Protocol", "Coordinator"]
    assert row == ["shop", "share", "Empty", "share", "1"]
    assert run(server, "list", "--type", "streams", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []

    assert run(server, "describe", "shop") == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "Group shop: share, Empty, coordinator 1"
    assert "No members." in out
    assert out[-1].split() == ["orders-0", "0", "2", "-"]

    reset = ("offsets", "reset", "shop", "--topic", "orders")
    assert run(server, *reset, "--to-offset", "17") == 0
    out, error_output = capsys.readouterr()
    assert error_output == "orders-0 has offsets 0 to 2: 2 instead of 17.\n"
    assert out.splitlines()[1].split() == ["orders-0", "2"]
    for target_option, offset in (("--to-earliest", 0), ("--to-latest", 2)):
        assert run(server, *reset, target_option, "--json") == 0
        altered_offsets = json.loads(capsys.readouterr().out)
        assert altered_offsets == [
            {"partition": {"topic": "orders", "partition": 0}, "offset": offset}
        ]
    assert run(server, "describe", "shop", "--json") == 0
    (position,) = json.loads(capsys.readouterr().out)["positions"]
    assert (position["offset"], position["lag"]) == (2, 0)

    assert run(server, "offsets", "delete", "shop", "--topic", "orders") == 0
    assert capsys.readouterr().out == "deleted offsets of orders in shop\n"
    assert run(server, "describe", "shop") == 0
    assert capsys.readouterr().out.endswith("No offsets.\n")
    assert run(server, "delete", "shop", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"deleted": "shop"}
    assert run(server, "describe", "shop") == 1
    assert "`txnsim groups list` shows the groups" in capsys.readouterr().err


def described_share_group(**changes: object) -> GroupDescription:
    description_fields = {
        "group_id": "shop",
        "type": "share",
        "state": "Stable",
        "coordinator_id": 1,
        "assignor": "simple",
        "epoch": 1,
        "assignment_epoch": 1,
        "members": (),
        "positions": (),
        **changes,
    }
    return GroupDescription(**description_fields)  # type: ignore[arg-type] # each test names what it wants


@pytest.mark.parametrize(
    ("offset", "beginning"),
    [
        (None, "Nothing of orders-0 was delivered yet: the group begins at the end of the log,"),
        (5, "In orders-0 the group stands at the end of the log, offset 5, as share.auto.offset"),
    ],
)
def test_a_share_group_that_begins_at_the_end_says_so(offset: int | None, beginning: str) -> None:
    orders_partition = TopicPartition("orders", 0)
    lines = [
        str(line)
        for line in _describe(
            described_share_group(
                isolation_level="read_committed",
                offset_reset="latest",
                positions=(
                    GroupPosition(partition=orders_partition, offset=offset, lag=0, begins_at=5),
                    GroupPosition(partition=TopicPartition("sales", 0), offset=2, lag=0),
                ),
            )
        )
    ]
    assert "share.isolation.level is read_committed, share.auto.offset.reset is latest" in lines
    (line,) = (line for line in lines if "end of the log" in line)
    assert line.startswith(beginning)
    assert lines[-1].endswith("txnsim groups offsets reset shop --topic orders --to-earliest")


def test_configs_that_may_not_be_described_are_not_made_up() -> None:
    lines = [str(line) for line in _describe(described_share_group())]
    assert "share.isolation.level is not told, share.auto.offset.reset is not told" in lines


@pytest.mark.slow
def test_a_member_is_shown_and_keeps_its_group(server: TxnsimServer, capsys: Captured) -> None:
    member_of(server, "busy", "sales", has_left=False)
    assert run(server, "describe", "busy") == 0
    rows = [printed_line.split() for printed_line in capsys.readouterr().out.splitlines()]
    (row,) = (row for row in rows if row and row[0] == "one")
    assert row[-1] == "sales-0"
    for refused_arguments in (
        ("delete", "busy"),
        ("offsets", "delete", "busy", "--topic", "sales"),
        ("offsets", "reset", "busy", "--topic", "sales", "--to-latest"),
    ):
        assert run(server, *refused_arguments) == 1
        output, error_output = capsys.readouterr()
        assert output == ""
        assert "The broker answered NON_EMPTY_GROUP (68)." in error_output
        assert error_output.endswith(
            "Stop its members first; `txnsim groups describe` names them.\n"
        )


@pytest.mark.slow
def test_a_topic_that_is_not_there_is_told(server: TxnsimServer, capsys: Captured) -> None:
    assert run(server, "offsets", "reset", "x", "--topic", "no", "--to-latest") == 1
    assert "Check --topic" in capsys.readouterr().err


def test_no_broker_is_told_with_what_to_do(capsys: Captured) -> None:
    assert main(["groups", "--bootstrap-server", "127.0.0.1:1", "list"]) == 1
    assert "No broker listens there." in capsys.readouterr().err


def test_a_reset_says_where_to(capsys: Captured) -> None:
    assert main(["groups", "offsets", "reset", "shop", "--topic", "orders"]) == 2
    assert "one of the arguments --to-earliest --to-latest --to-offset" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "error", "right"),
    [
        ("describe", ErrorCode.group_authorization_failed, "DESCRIBE on the group"),
        ("reset", ErrorCode.topic_authorization_failed, "READ on the group and on the topic"),
        ("delete", ErrorCode.group_authorization_failed, "DELETE on the group"),
    ],
)
def test_a_missing_right_is_named(command: str, error: ErrorCode, right: str) -> None:
    assert _advice(command, error) == f"The user lacks a right: {right}."
    assert _advice(command, ErrorCode.unknown_server_error) is None
    assert _advice(command, None) is None
