"""kafka-consumer-groups, kafka-groups, kafka-streams-application-reset."""

from __future__ import annotations

import csv
from typing import Final

from tests.clients.kafka_tools.expect import (
    UnexpectedAnswerError,
    eventually,
    expect,
    expect_output,
)
from tests.clients.kafka_tools.shop import Shop
from tests.support.apache_kafka import ToolResult

_PROTOCOLS: Final = (("classic", "Classic"), ("consumer", "Consumer"))


def consumer_groups(shop: Shop) -> None:
    """List, describe, reset positions, delete positions and groups."""
    topic, group = shop.new_topic("grouped"), shop.unique_name("group")
    _consume(shop, topic, group, "classic")
    eventually(lambda: expect_output(_listed_rows(shop, group, "--state"), f"{group} Empty"))
    expect_output(_listed_rows(shop, group, "--type"), f"{group} Classic")
    header = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\n"
    description = _ask_groups_tool(shop, "--describe", "--group", group)
    expect_output(description, header + f"{group} {topic} 0 3 4 1 - - -")
    expect("stderr", description.stderr.strip(), f"Consumer group '{group}' has no active members.")
    expect_output(
        _ask_groups_tool(shop, "--describe", "--group", group, "--state"),
        "GROUP COORDINATOR (ID) ASSIGNMENT-STRATEGY STATE #MEMBERS\n"
        f"{group} 127.0.0.1:<n> (<n>) - Empty 0",
    )
    expect_output(
        _ask_groups_tool(shop, "--describe", "--group", group, "--members"),
        "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS",
    )
    expect_output(
        _ask_groups_tool(shop, "--describe", "--group", f"{group}-nowhere"),
        "Error: Executing consumer group command failed due to"
        " org.apache.kafka.common.errors.GroupIdNotFoundException:"
        f" Group {group}-nowhere not found.",
    )
    _reset(shop, topic, group)
    expect_output(
        _ask_groups_tool(shop, "--delete-offsets", "--group", group, "--topic", topic),
        f"Request succeeded for deleting offsets from group {group}.\n"
        f"TOPIC PARTITION STATUS\n{topic} 0 Successful",
    )
    expect_output(
        _ask_groups_tool(shop, "--delete", "--group", group, "--group", f"{group}-nowhere"),
        f"""
        Error: Deletion of some consumer groups failed:
        * Group '{group}-nowhere' could not be deleted due to: \
org.apache.kafka.common.errors.GroupIdNotFoundException: The group id does not exist.
        These consumer groups were deleted successfully: '{group}'
        """,
    )
    eventually(lambda: expect_output(_listed_rows(shop, group, "--state"), ""))


def _reset(shop: Shop, topic: str, group: str) -> None:
    """Reset positions in each way; a shift beyond an end of the log stops there."""
    header = "GROUP TOPIC PARTITION NEW-OFFSET\n"
    reset = ("--reset-offsets", "--group", group, "--topic", topic)
    for options, position in (
        (("--to-earliest", "--dry-run"), 0),
        (("--shift-by", "-1", "--execute"), 2),
        (("--to-latest", "--execute"), 4),
        (("--shift-by", "7", "--execute"), 4),
        (("--to-offset", "1", "--execute"), 1),
        (("--by-duration", "PT1H", "--execute"), 0),
        (("--to-datetime", "2020-01-01T00:00:00.000", "--execute"), 0),
        (("--to-current", "--execute"), 0),
    ):
        output = _ask_groups_tool(shop, *reset, *options)
        printed_lines = "\n".join(
            printed_line
            for printed_line in output.stdout.splitlines()
            if "WARN" not in printed_line
        )
        row = f"{group} {topic} 0 {position}"
        expect_output(ToolResult(output.code, printed_lines, ""), header + row)
    export = _ask_groups_tool(shop, *reset, "--to-latest", "--export", "--dry-run")
    # The tool's CSV puts texts of more than 24 characters in quotes.
    rows = [row for row in csv.reader(export.stdout.splitlines()) if row]
    expect("exported", rows, [[topic, "0", "4"]])


def groups(shop: Shop) -> None:
    """kafka-groups tells the protocol of each group, classic or consumer."""
    topic = shop.new_topic("of-groups")
    for protocol, kind in _PROTOCOLS:
        group = shop.unique_name(f"listed-{protocol}")
        _consume(shop, topic, group, protocol)
        row = f"{group} {kind} consumer"
        eventually(lambda group=group, row=row: expect_output(_groups(shop, group), row))  # type: ignore[misc]
        expect_output(_groups(shop, group, "--group-type", protocol), row)
        expect_output(_groups(shop, group, "--consumer"), row)
        expect_output(_groups(shop, group, "--protocol", "consumer"), row)
    classic = shop.unique_name("listed-classic")
    expect_output(_groups(shop, classic, "--group-type", "consumer"), "")
    expect_output(
        _ask_groups_tool(shop, "--validate-regex", f"{classic}.*"),
        f"The regular expression `{classic}.*` is valid.",
    )
    expect_output(
        _ask_groups_tool(shop, "--validate-regex", "[a"),
        "The regular expression `[a` is invalid: missing closing ].",
    )


def streams_reset(shop: Shop) -> None:
    """kafka-streams-application-reset moves positions of the application's input topics back."""
    topic, group = shop.new_topic("streamed"), shop.unique_name("application")
    _consume(shop, topic, group, "classic")
    expected_output = f"""
        Reset-offsets for input topics [{topic}]
        Following input topics offsets will be reset to (for consumer group {group})
        Topic: {topic} Partition: 0 Offset: 0
        Done.
        Deleting inferred internal topics []
        Done.
        """
    application = ("--application-id", group, "--input-topics", topic)
    expect_output(shop.tools.ask("kafka-streams-application-reset", *application), expected_output)
    description = _ask_groups_tool(shop, "--describe", "--group", group)
    expect("position", description.stdout.split()[12:14], ["0", "4"])


def _consume(shop: Shop, topic: str, group: str, protocol: str) -> None:
    """Consume three of four records, so that a lag is left."""
    shop.tools.ask("kafka-console-producer", "--topic", topic, stdin="one\ntwo\nthree\nfour\n")
    consumer_output = shop.tools.ask(
        "kafka-console-consumer",
        *("--topic", topic, "--from-beginning", "--group", group, "--max-messages", "3"),
        *("--command-property", f"group.protocol={protocol}", "--timeout-ms", "30000"),
    )
    expect("records", consumer_output.stdout.splitlines(), ["one", "two", "three"])


def _ask_groups_tool(shop: Shop, *options: str) -> ToolResult:
    return shop.tools.ask("kafka-consumer-groups", *options)


def _listed_rows(shop: Shop, group: str, *options: str) -> ToolResult:
    return _rows_of(group, _ask_groups_tool(shop, "--list", *options))


def _groups(shop: Shop, group: str, *options: str) -> ToolResult:
    return _rows_of(group, shop.tools.ask("kafka-groups", "--list", *options))


def _rows_of(group: str, result: ToolResult) -> ToolResult:
    if result.code != 0:
        raise UnexpectedAnswerError(f"exit status {result.code}: {result.stdout}{result.stderr}")
    rows = [row for row in result.stdout.splitlines() if row.split(" ")[0] == group]
    return ToolResult(result.code, "\n".join(rows), result.stderr)
