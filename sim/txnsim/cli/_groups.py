"""``txnsim groups``: groups of any Kafka cluster, of all types, and the offsets of share groups.

Kafka's counterparts are ``kafka-groups.sh``, ``kafka-share-groups.sh`` and their like.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from txnsim.cli._txns.command import FAILED, add_connection, complain, settings_of
from txnsim.cli._txns.missing_rights import lacking
from txnsim.cli.output import TERMINAL, Columns, FormattedTable
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.inspection import groups
from txnsim.client.inspection.groups import (
    DescribedMember,
    DescribedSubtopology,
    GroupDescription,
    GroupListing,
    GroupPosition,
    StreamsMember,
)
from txnsim.errors import ErrorCode
from txnsim.shell_text import ShellText, arguments, command_line, option
from txnsim.txn.open_txn_verdict import why_command

_STATES: Final = (
    "Assigning",
    "CompletingRebalance",
    "Dead",
    "Empty",
    "NotReady",
    "PreparingRebalance",
    "Reconciling",
    "Stable",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_connection(parser, default=None)
    commands = parser.add_subparsers(
        dest="groups_command", metavar="COMMAND", title="commands", required=True
    )
    list_parser = _add_command(commands, "list", "list groups with type and state")
    list_parser.add_argument(
        "--type", action="append", choices=groups.TYPES, default=[], help="only this type"
    )
    list_parser.add_argument(
        "--state", action="append", choices=_STATES, default=[], help="only this state"
    )
    _add_command(commands, "describe", "show members, assignments, offsets and lag").add_argument(
        "group", metavar="GROUP", help="group id"
    )
    help_line = "set or delete offsets of a share group that has no members"
    offsets_parser = commands.add_parser(
        "offsets", help=help_line, description=f"{help_line.capitalize()}."
    )
    offsets_commands = offsets_parser.add_subparsers(
        dest="offsets_command", metavar="COMMAND", title="commands", required=True
    )
    reset_parser = _add_command(offsets_commands, "reset", "set the start offsets of a topic")
    target_options = reset_parser.add_mutually_exclusive_group(required=True)
    target_options.add_argument(
        "--to-earliest", action="store_true", help="to the start of the log"
    )
    target_options.add_argument("--to-latest", action="store_true", help="to the end of the log")
    target_options.add_argument(
        "--to-offset", type=int, metavar="N", help="to this offset, kept in the log"
    )
    for share_parser in (
        reset_parser,
        _add_command(offsets_commands, "delete", "delete the offsets of a topic"),
    ):
        share_parser.add_argument("group", metavar="GROUP", help="group id")
        share_parser.add_argument("--topic", required=True, help="topic name")
    _add_command(commands, "delete", "delete a group that has no members").add_argument(
        "group", metavar="GROUP", help="group id"
    )


def _add_command(commands: Any, command_name: str, help_line: str) -> argparse.ArgumentParser:
    command_parser: argparse.ArgumentParser = commands.add_parser(
        command_name, help=help_line, description=help_line[0].upper() + help_line[1:] + "."
    )
    # Given behind the subcommand they replace those before it; not given they change nothing.
    add_connection(command_parser, default=argparse.SUPPRESS)
    command_parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    return command_parser


def run(args: argparse.Namespace) -> int:
    """Run one subcommand; a refusal of the cluster becomes a message, advice and exit status 1."""
    try:
        return asyncio.run(_run(args))
    except ClientError as failure:
        command = getattr(args, "offsets_command", args.groups_command)
        complain(failure, "")
        advice = _advice(command, failure.error)
        if advice is not None:
            TERMINAL.warn(advice)
        return FAILED


async def _run(args: argparse.Namespace) -> int:
    settings, bootstrap = settings_of(args)
    async with Cluster(bootstrap, settings=settings) as cluster:
        admin = Admin(cluster)
        match args.groups_command:
            case "list":
                group_listings = await groups.list_groups(admin, types=args.type, states=args.state)
                TERMINAL.tell(args, group_listings, _LISTING_COLUMNS)
            case "describe":
                TERMINAL.tell(args, await groups.describe_group(admin, args.group), _describe)
            case "delete":
                await groups.delete_group(admin, args.group)
                TERMINAL.tell(args, {"deleted": args.group}, lambda _: [f"deleted {args.group}"])
            case "offsets" if args.offsets_command == "reset":
                await _reset_offsets(args, admin)
            case _:
                await groups.delete_share_positions(admin, args.group, args.topic)
                deletion_fields = {"group_id": args.group, "topic": args.topic}
                TERMINAL.tell(
                    args,
                    deletion_fields,
                    lambda _: [f"deleted offsets of {args.topic} in {args.group}"],
                )
    return 0


async def _reset_offsets(args: argparse.Namespace, admin: Admin) -> None:
    new_offsets = {}
    for partition, (log_start, log_end) in (await groups.bounds(admin, args.topic)).items():
        wanted_offset = (
            log_start if args.to_earliest else log_end if args.to_latest else args.to_offset
        )
        new_offsets[partition] = min(max(log_start, wanted_offset), log_end)
        if new_offsets[partition] != wanted_offset:
            TERMINAL.warn(
                f"{partition} has offsets {log_start} to {log_end}:"
                f" {new_offsets[partition]} instead of"
                f" {wanted_offset}."
            )
    await groups.alter_share_positions(admin, args.group, new_offsets)
    offset_changes = [
        {"partition": partition, "offset": wanted_offset}
        for partition, wanted_offset in new_offsets.items()
    ]
    TERMINAL.tell(args, offset_changes, _RESET_COLUMNS)


_LISTING_COLUMNS: Final[Columns[GroupListing]] = {
    "Group": lambda group: group.group_id,
    "Type": lambda group: group.type or "-",
    "State": lambda group: group.state or "-",
    "Protocol": lambda group: group.protocol_type,
    "Coordinator": lambda group: group.coordinator_id,
}
_RESET_COLUMNS: Final[Columns[Mapping[str, Any]]] = {
    "Partition": lambda change: change["partition"],
    "Offset": lambda change: change["offset"],
}
_MEMBER_COLUMNS: Final[Columns[DescribedMember]] = {
    "Member": lambda member: member.member_id,
    "Epoch": lambda member: _number_text(member.epoch),
    "Client": lambda member: member.client_id,
    "Host": lambda member: member.client_host,
    "Assigned": lambda member: ",".join(member.assigned) or "-",
}
_SUBTOPOLOGY_COLUMNS: Final[Columns[DescribedSubtopology]] = {
    "Subtopology": lambda subtopology: subtopology.subtopology_id,
    "Sources": lambda subtopology: (
        ",".join((*subtopology.sources, *subtopology.repartition_sources)) or "-"
    ),
    "Repartition": lambda subtopology: ",".join(subtopology.repartition_sinks) or "-",
    "Changelogs": lambda subtopology: ",".join(subtopology.changelogs) or "-",
}


def _member_cell(
    cell_of: Callable[[DescribedMember], object],
) -> Callable[[tuple[DescribedMember, StreamsMember]], object]:
    return lambda pair: cell_of(pair[0])


_STREAMS_MEMBER_COLUMNS: Final[Columns[tuple[DescribedMember, StreamsMember]]] = {
    **{
        column_title: _member_cell(member_cell)
        for column_title, member_cell in _MEMBER_COLUMNS.items()
        if column_title != "Assigned"
    },
    "Process": lambda pair: pair[1].process_id,
    "Active": lambda pair: ",".join(pair[0].assigned) or "-",
    "Standby": lambda pair: ",".join(pair[1].standby) or "-",
    "Warm-up": lambda pair: ",".join(pair[1].warmup) or "-",
    "Target": lambda pair: ",".join(pair[1].target) or "-",
}


def _position_columns(group_type: str) -> Columns[GroupPosition]:
    return {
        "Partition": lambda position: position.partition,
        "StartOffset" if group_type == groups.SHARE else "Committed": lambda position: _number_text(
            position.offset
        ),
        "Lag": lambda position: _number_text(position.lag),
        "Error": lambda position: position.error or "-",
    }


def _describe(group: GroupDescription) -> Iterator[str]:
    yield f"Group {group.group_id}: {group.type}, {group.state}, coordinator {group.coordinator_id}"
    if group.epoch is not None:
        yield (
            f"Epoch {group.epoch}, assignment epoch {group.assignment_epoch},"
            f" assignor {group.assignor or '-'}"
        )
    if group.type == groups.SHARE:
        yield (
            f"{groups.ISOLATION_LEVEL} is {group.isolation_level or 'not told'},"
            f" {groups.OFFSET_RESET} is {group.offset_reset or 'not told'}"
        )
    yield ""
    streams_members = [
        (member, member.streams) for member in group.members if member.streams is not None
    ]
    if streams_members:
        yield from _table_or_text("No members.", _STREAMS_MEMBER_COLUMNS, streams_members)
    else:
        yield from _table_or_text("No members.", _MEMBER_COLUMNS, group.members)
    yield ""
    if group.topology is not None:
        yield f"Topology of epoch {group.topology.epoch}"
        yield from _table_or_text(
            "No subtopologies.", _SUBTOPOLOGY_COLUMNS, group.topology.subtopologies
        )
        yield ""
    yield from _table_or_text("No offsets.", _position_columns(group.type), group.positions)
    for position in group.positions:
        if position.waits_at is not None:
            partition = position.partition
            yield (
                f"From offset {position.waits_at} of {partition} on it waits for an open"
                " transaction:"
                f" {why_command(partition)}"
            )
    yield from _beginning_sentences(group)


def _beginning_sentences(group: GroupDescription) -> Iterator[str]:
    """For each partition with records, a sentence if the share group begins at the end of its
    log.
    """
    late_positions = [position for position in group.positions if position.begins_at is not None]
    for position in late_positions:
        partition = position.partition
        beginning_text = f"offset {position.begins_at}, as {groups.OFFSET_RESET} is latest"
        if position.offset is None:
            yield (
                f"Nothing of {partition} was delivered yet: the group begins at the end of the log,"
                f" {beginning_text}, and does not get what lies before"
            )
        else:
            yield (
                f"In {partition} the group stands at the end of the log, {beginning_text}:"
                f" unless it took"
                " what"
                " lies before, it begins there, nothing was delivered, and the lag does not count"
                " that"
            )
    if late_positions:
        topic = late_positions[0].partition.topic
        yield (
            "To get older records, while it has no members:"
            f" {_reset_command(group.group_id, topic)}"
        )


def _reset_command(group_id: str, topic: str) -> ShellText:
    options = (*option("--topic", topic), "--to-earliest")
    reset_arguments = arguments(group_id, options=options)
    return command_line("txnsim", "groups", "offsets", "reset", *reset_arguments)


def _table_or_text(text_if_empty: str, columns: Columns[Any], rows: Sequence[Any]) -> Iterator[str]:
    yield FormattedTable.of(columns, rows) if rows else text_if_empty


def _number_text(number: int | None) -> str:
    return "-" if number is None else str(number)


_RIGHTS_BY_COMMAND: Final = {
    "list": "DESCRIBE on the cluster or on groups",
    "describe": "DESCRIBE on the group",
    "reset": "READ on the group and on the topic",
    "delete": "DELETE on the group",
}
_ADVICE_BY_ERROR: Final = {
    ErrorCode.group_id_not_found: "`txnsim groups list` shows the groups that you may see; for"
    " offsets it must be a share group.",
    ErrorCode.non_empty_group: "Stop its members first; `txnsim groups describe` names them.",
    ErrorCode.unknown_topic_or_partition: "Check --topic; `txnsim groups describe` shows the topics"
    " of the group.",
}


def _advice(command_name: str, error: ErrorCode | None) -> str | None:
    """What the user can do about an error that a broker returned; None if there is nothing to
    say.
    """
    if error in (ErrorCode.group_authorization_failed, ErrorCode.topic_authorization_failed):
        return lacking(_RIGHTS_BY_COMMAND[command_name])
    return None if error is None else _ADVICE_BY_ERROR.get(error)
