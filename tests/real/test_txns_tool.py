"""``txnsim txns`` beside Kafka's own tool on the same cluster: the same bytes, once sorted and with
masked times.

Every command and option of Kafka's tool is among what is asked here; one test holds the list
against the help of the tool itself. The tool is that of the cluster's release, and a JVM: so these
tests are asked with ``-m real``, the simulator's too.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.clients.kafka_tools.runner import Tools
from tests.real.conftest import LASTING_MS, OLDER, ClusterUnderTest
from tests.support.apache_kafka import KAFKA_VERSION, ToolResult
from tests.support.hanging_transaction import make_hanging
from txnsim.cli._txns.search_scope import NO_PARTITION
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.releases import RELEASES
from txnsim.types import TopicPartition

TOOL: Final = "kafka-transactions"

SINCE_4_1: Final = ("--transactional-id-pattern", "forceTerminateTransaction")
"""Options and commands that the older release's tool lacks."""

Args = tuple[str, ...]

WHERE: Final = ("--topic", "{name}", "--partition", "0")
LOOKS: Final[tuple[Args, ...]] = (
    ("list",),
    ("list", "--transactional-id-pattern", ".*-open"),
    ("list", "--transactional-id-pattern", "no-such-id"),
    ("list", "--transactional-id-pattern", ""),
    ("list", "--duration-filter", "100000"),
    ("list", "--duration-filter", "-7"),
    ("describe", "--transactional-id", "{name}-open"),
    ("describe", "--transactional-id", "{name}-idle"),
    ("describe-producers", *WHERE),
    ("describe-producers", "--topic", "{name}", "--partition", "1"),
    ("describe-producers", *WHERE, "--broker-id", "1"),
    ("find-hanging", *WHERE, "--max-transaction-timeout", "0"),
)
"""Commands that change nothing, played while one id has an open transaction and one has none."""

SEARCHES: Final[tuple[Args, ...]] = (
    ("find-hanging", "--topic", "{name}"),
    ("find-hanging", *WHERE, "--max-transaction-timeout", "59"),
    ("find-hanging", *WHERE, "--max-transaction-timeout", "90"),
    ("find-hanging", "--broker-id", "1"),
    ("find-hanging", "--broker-id", "1", "--topic", "{name}"),
    ("find-hanging", "--broker-id", "1", *WHERE),
    ("describe-producers", *WHERE),
    ("abort", *WHERE, "--start-offset", "7"),
)
"""Commands that are played while a transaction hangs."""

ABORTS: Final[tuple[Args, ...]] = (
    ("abort", *WHERE, "--start-offset", "{offset}"),
    (
        *(
            "abort",
            *WHERE,
            "--producer-id",
            "{producer_id}",
            "--producer-epoch",
            "{producer_epoch}",
        ),
        *("--coordinator-epoch", "-1"),
    ),
)
"""Both ways to end it."""

FORCED: Final[Args] = ("forceTerminateTransaction", "--transactionalId", "{name}-open")

MISUSED: Final[tuple[Args, ...]] = (
    ("abort", "--topic", "t", "--partition", "0"),
    ("abort", "--topic", "t", "--partition", "0", "--producer-id", "1"),
    (
        *("abort", "--topic", "t", "--partition", "0", "--producer-id", "1"),
        *("--producer-epoch", "1"),
    ),
    ("find-hanging",),
    ("find-hanging", "--broker-id", "1", "--partition", "0"),
)
"""Arguments that don't go together: Kafka's tool ends with 1, all commands of ours with 2."""

SEARCHES_NOTHING: Final[Args] = ("find-hanging", "--broker-id", "99")
"""Kafka's tool ends with 0 where it has searched no partition, ours with 4."""

REFUSED: Final[tuple[Args, ...]] = (
    *MISUSED,
    ("describe", "--transactional-id", "nobody"),
    ("describe", "--transactional-id", ""),
    ("list", "--transactional-id-pattern", "("),
    ("find-hanging", "--topic", "no-such-topic"),
    ("find-hanging", "--topic", "bad topic"),
    SEARCHES_NOTHING,
    ("describe-producers", "--topic", "bad topic", "--partition", "0"),
)

DURATIONS: Final = ("TransactionDurationMs", "Duration(min)")
"""Columns whose numbers grow while the tools are asked."""

OF_THE_TOOL_ITSELF: Final = {"-h", "--help", "--bootstrap-server"}
"""Options that every call has, or that need no cluster."""


def ours(cluster_under_test: ClusterUnderTest, *args: str) -> ToolResult:
    command = [
        sys.executable,
        "-m",
        "txnsim.cli.main",
        "txns",
        "--bootstrap-server",
        cluster_under_test.bootstrap,
    ]
    process = subprocess.run([*command, *args], capture_output=True, text=True, check=False)
    return ToolResult(process.returncode, process.stdout, process.stderr)


@pytest.fixture(scope="module", autouse=True)
def jvms() -> Iterator[None]:
    """Ends the tools' JVMs, one per cluster, with the last test."""
    with contextlib.ExitStack() as stack:
        _JVMS.append(stack)
        yield
    _JVMS.clear()
    _TOOLS.clear()


_JVMS: Final[list[contextlib.ExitStack]] = []
_TOOLS: Final[dict[str, Tools]] = {}


def kafkas(
    cluster_under_test: ClusterUnderTest, *args: str, global_options: Args = ()
) -> ToolResult:
    tools = _TOOLS.get(cluster_under_test.bootstrap)
    if tools is None:
        new_tools = Tools(cluster_under_test.bootstrap, version=cluster_under_test.patch_release)
        tools = _TOOLS[cluster_under_test.bootstrap] = _JVMS[0].enter_context(new_tools)
    return tools.ask(TOOL, *global_options, *args)


def comparable(output: str) -> list[str]:
    """Lines in order of the alphabet; digits of times become T, and a duration's cell loses its
    number: both tools are not asked at the same moment.
    """
    printed_lines = output.splitlines()
    columns = (
        [cell_text.strip() for cell_text in printed_lines[0].split("\t")] if printed_lines else []
    )
    for column in (
        columns.index(duration_name) for duration_name in DURATIONS if duration_name in columns
    ):
        for index, line in enumerate(printed_lines[1:], start=1):
            cells = line.split("\t")
            if cells[column].strip() != "None":
                cells[column] = "D".ljust(len(cells[column]))
            printed_lines[index] = "\t".join(cells)
    printed_lines = [re.sub(r"\b\d{13}\b", "T" * 13, line) for line in printed_lines]
    return sorted(printed_lines)


OPTION_OF_OURS: Final = "; here --all searches every leader, too"
"""What our ``find-hanging`` says besides, where it has no partition to search."""


def first_complaint(result: ToolResult) -> list[str]:
    """The first line of the errors, without broker ids: all brokers are asked at once, so it is by
    chance whose refusal is printed. Lines of the older release's two logging libraries are skipped,
    and so is the option that only ours has.
    """
    lines = [
        printed_line
        for printed_line in result.stderr.splitlines()
        if not printed_line.startswith(("log4j:", "SLF4J:"))
    ]
    return [
        re.sub(r"sent to broker \d+", "sent to broker N", line).removesuffix(OPTION_OF_OURS)
        for line in lines[:1]
    ]


def check_same(
    cluster_under_test: ClusterUnderTest, *args: str, global_options: Args = ()
) -> ToolResult:
    mine, theirs = (
        ours(cluster_under_test, *global_options, *args),
        kafkas(cluster_under_test, *args, global_options=global_options),
    )
    assert comparable(mine.stdout) == comparable(theirs.stdout)
    if args == SEARCHES_NOTHING:
        assert (mine.code, theirs.code) == (4, 0)
        assert first_complaint(mine) == ["nothing was searched: " + NO_PARTITION]
        return mine
    assert (mine.code, theirs.code) == ((2, 1) if args in MISUSED else (mine.code, mine.code))
    # Ours may add a line that says what to do; the first one is Kafka's.
    assert first_complaint(mine) == first_complaint(theirs)
    return mine


def fill_in(args: Args, **values: object) -> Args:
    return tuple(arg.format(**values) if "{" in arg else arg for arg in args)


def has_option(cluster_under_test: ClusterUnderTest, args: Args) -> bool:
    """Whether the tool of the target's release has this option or command."""
    return not (cluster_under_test.is_older and any(argument in SINCE_4_1 for argument in args))


@pytest.mark.real
async def test_tables_are_those_of_kafkas_tool(
    target: ClusterUnderTest, cluster: Cluster, admin: Admin, name: str, tmp_path: Path
) -> None:
    config = tmp_path / "client.properties"
    config.write_text("client.id=operator\nrequest.timeout.ms=20000\n")
    await admin.create_topic(name, partitions=2)
    async with (
        Producer(
            cluster, transactional_id=f"{name}-open", transaction_timeout_ms=LASTING_MS
        ) as open_producer,
        Producer(cluster, transactional_id=f"{name}-idle") as idle_producer,
    ):
        await idle_producer.init_transactions()
        await open_producer.init_transactions()
        open_producer.begin()
        await open_producer.send(name, 0, b"x")
        await open_producer.commit()
        open_producer.begin()
        await open_producer.send(name, 0, b"y")
        for look in LOOKS:
            if has_option(target, look):
                check_same(target, *fill_in(look, name=name))
        check_same(target, "list", global_options=("--command-config", str(config)))
        await open_producer.abort()


@pytest.mark.real
async def test_a_hanging_transaction_is_found_alike_and_aborted(
    target: ClusterUnderTest, admin: Admin, name: str
) -> None:
    broker_count = len(admin.cluster.view.brokers)  # so that broker 1 has a replica
    await admin.create_topic(name, partitions=1, replication_factor=broker_count)
    topic_partition = TopicPartition(name, 0)
    offset = 0
    # Each way by each tool: what the other one sees afterwards is the same.
    for tool in (ours, kafkas):
        for abort_number, abort in enumerate(ABORTS):
            producer_identity = await make_hanging(
                admin, topic_partition, f"{name}-{tool.__name__}-{abort_number}"
            )
            if offset == 0:
                for search in SEARCHES:
                    search_result = check_same(target, *fill_in(search, name=name))
                    is_it = f"\t{producer_identity.producer_id} " in search_result.stdout.replace(
                        "\n", "\t"
                    )
                    assert is_it == (search[0] != "abort" and "90" not in search), search
            arguments = fill_in(
                abort,
                name=name,
                offset=offset,
                producer_id=producer_identity.producer_id,
                producer_epoch=producer_identity.producer_epoch,
            )
            abort_result = tool(target, *arguments)
            assert (abort_result.code, abort_result.stdout, first_complaint(abort_result)) == (
                0,
                "",
                [],
            )
            offset += 2  # the ghost's record and the marker
            check_same(target, "find-hanging", "--topic", name)
            check_same(target, "describe-producers", *fill_in(WHERE, name=name))
            (producers,) = (await admin.describe_producers((topic_partition,))).values()
            assert not isinstance(producers, ClientError)
            assert all(producer.txn_start_offset is None for producer in producers)


@pytest.mark.real
async def test_a_transaction_is_terminated_alike(
    target: ClusterUnderTest, cluster: Cluster, admin: Admin, name: str
) -> None:
    if not has_option(target, FORCED):
        pytest.skip("Kafka's tool of this release has no forceTerminateTransaction")
    await admin.create_topic(name, partitions=1)
    describe_arguments = ("describe", "--transactional-id", f"{name}-open")
    for tool in (ours, kafkas):
        async with Producer(
            cluster, transactional_id=f"{name}-open", transaction_timeout_ms=LASTING_MS
        ) as producer:
            await producer.init_transactions()
            producer.begin()
            await producer.send(name, 0, b"x")
            assert "Ongoing" in check_same(target, *describe_arguments).stdout
            result = tool(target, *fill_in(FORCED, name=name))
            assert (result.code, result.stdout) == (0, "")
            # Ours says besides what that discards.
            assert ("discards its records" in result.stderr) == (tool is ours)
            assert len(result.stderr.splitlines()) == (tool is ours)
            assert "Empty" in check_same(target, *describe_arguments).stdout


@pytest.mark.real
@pytest.mark.parametrize("args", REFUSED, ids=" ".join)
async def test_refusals_have_kafkas_words_and_status(target: ClusterUnderTest, args: Args) -> None:
    if not has_option(target, args):
        pytest.skip("Kafka's tool of this release does not know it")
    check_same(target, *args)


@pytest.mark.real
@pytest.mark.parametrize("version", [RELEASES[OLDER].patch_release, KAFKA_VERSION])
def test_every_command_and_option_of_kafkas_tool_is_compared(version: str) -> None:
    compared = [*LOOKS, *SEARCHES, *ABORTS, FORCED, *REFUSED]
    with Tools("localhost:9", version=version) as tools:
        overview = tools.ask(TOOL, "--help").stdout
        commands = set(re.findall(r"^    ([a-zA-Z-]+) ", overview, re.MULTILINE)) - {"COMMAND"}
        help_by_command = {
            command_name: tools.ask(TOOL, command_name, "--help").stdout
            for command_name in commands
        }
    assert {"list", "find-hanging"} <= commands <= {args[0] for args in compared}
    for command, text in help_by_command.items():
        options = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text))
        used_options = {argument for args in compared if args[0] == command for argument in args}
        missing = options - used_options - OF_THE_TOOL_ITSELF
        assert not missing, (command, missing)


def test_what_grows_while_the_tools_are_asked_makes_no_difference() -> None:
    table = "Topic\tDuration(min)\tLastTimestamp\n{}    \t{}           \t179{}000000000\n"
    assert comparable(table.format("t", 60, 1)) == comparable(table.format("t", 61, 2))
    assert comparable(table.format("t", 60, 1)) != comparable(table.format("u", 60, 1))


def test_what_is_compared_with_the_older_tool_only_lacks_what_came_later() -> None:
    left_out = [args for args in (*LOOKS, *REFUSED, FORCED) if set(args) & set(SINCE_4_1)]
    assert OLDER < "4.1"
    assert len(left_out) == 5
