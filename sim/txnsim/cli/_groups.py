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
from txnsim.cli.output import TERMINAL, Columns, Table
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
    """Declare subcommands and options."""
    add_connection(parser, default=None)
    commands = parser.add_subparsers(
        dest="groups_command", metavar="COMMAND", title="commands", required=True
    )
    listing = _branch(commands, "list", "list groups with type and state")
    listing.add_argument(
        "--type", action="append", choices=groups.TYPES, default=[], help="only this type"
    )
    listing.add_argument(
        "--state", action="append", choices=_STATES, default=[], help="only this state"
    )
    _branch(commands, "describe", "show members, assignments, offsets and lag").add_argument(
        "group", metavar="GROUP", help="group id"
    )
    line = "set or delete offsets of a share group that has no members"
    offsets = commands.add_parser("offsets", help=line, description=f"{line.capitalize()}.")
    inner = offsets.add_subparsers(
        dest="offsets_command", metavar="COMMAND", title="commands", required=True
    )
    reset = _branch(inner, "reset", "set the start offsets of a topic")
    where = reset.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", action="store_true", help="to the start of the log")
    where.add_argument("--to-latest", action="store_true", help="to the end of the log")
    where.add_argument("--to-offset", type=int, metavar="N", help="to this offset, kept in the log")
    for child in (reset, _branch(inner, "delete", "delete the offsets of a topic")):
        child.add_argument("group", metavar="GROUP", help="group id")
        child.add_argument("--topic", required=True, help="topic name")
    _branch(commands, "delete", "delete a group that has no members").add_argument(
        "group", metavar="GROUP", help="group id"
    )


def _branch(commands: Any, name: str, line: str) -> argparse.ArgumentParser:
    child: argparse.ArgumentParser = commands.add_parser(
        name, help=line, description=line[0].upper() + line[1:] + "."
    )
    # Given behind the subcommand they replace those before it; not given they change nothing.
    add_connection(child, default=argparse.SUPPRESS)
    child.add_argument("--json", action="store_true", help="print JSON instead of text")
    return child


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
                listed = await groups.list_groups(admin, types=args.type, states=args.state)
                TERMINAL.tell(args, listed, _LISTED)
            case "describe":
                TERMINAL.tell(args, await groups.describe_group(admin, args.group), _describe)
            case "delete":
                await groups.delete_group(admin, args.group)
                TERMINAL.tell(args, {"deleted": args.group}, lambda _: [f"deleted {args.group}"])
            case "offsets" if args.offsets_command == "reset":
                await _reset(args, admin)
            case _:
                await groups.delete_share_positions(admin, args.group, args.topic)
                deleted = {"group_id": args.group, "topic": args.topic}
                TERMINAL.tell(
                    args, deleted, lambda _: [f"deleted offsets of {args.topic} in {args.group}"]
                )
    return 0


async def _reset(args: argparse.Namespace, admin: Admin) -> None:
    new_offsets = {}
    for partition, (start, end) in (await groups.bounds(admin, args.topic)).items():
        offset = start if args.to_earliest else end if args.to_latest else args.to_offset
        new_offsets[partition] = min(max(start, offset), end)
        if new_offsets[partition] != offset:
            TERMINAL.warn(
                f"{partition} has offsets {start} to {end}: {new_offsets[partition]} instead of"
                f" {offset}."
            )
    await groups.alter_share_positions(admin, args.group, new_offsets)
    changes = [
        {"partition": partition, "offset": offset} for partition, offset in new_offsets.items()
    ]
    TERMINAL.tell(args, changes, _RESET)


_LISTED: Final[Columns[GroupListing]] = {
    "Group": lambda group: group.group_id,
    "Type": lambda group: group.type or "-",
    "State": lambda group: group.state or "-",
    "Protocol": lambda group: group.protocol_type,
    "Coordinator": lambda group: group.coordinator_id,
}
_RESET: Final[Columns[Mapping[str, Any]]] = {
    "Partition": lambda change: change["partition"],
    "Offset": lambda change: change["offset"],
}
_MEMBERS: Final[Columns[DescribedMember]] = {
    "Member": lambda member: member.member_id,
    "Epoch": lambda member: _number_text(member.epoch),
    "Client": lambda member: member.client_id,
    "Host": lambda member: member.client_host,
    "Assigned": lambda member: ",".join(member.assigned) or "-",
}
_SUBTOPOLOGIES: Final[Columns[DescribedSubtopology]] = {
    "Subtopology": lambda subtopology: subtopology.subtopology_id,
    "Sources": lambda subtopology: (
        ",".join((*subtopology.sources, *subtopology.repartition_sources)) or "-"
    ),
    "Repartition": lambda subtopology: ",".join(subtopology.repartition_sinks) or "-",
    "Changelogs": lambda subtopology: ",".join(subtopology.changelogs) or "-",
}


def _member_cell(
    cell: Callable[[DescribedMember], object],
) -> Callable[[tuple[DescribedMember, StreamsMember]], object]:
    return lambda pair: cell(pair[0])


_STREAMS_MEMBERS: Final[Columns[tuple[DescribedMember, StreamsMember]]] = {
    **{title: _member_cell(cell) for title, cell in _MEMBERS.items() if title != "Assigned"},
    "Process": lambda pair: pair[1].process_id,
    "Active": lambda pair: ",".join(pair[0].assigned) or "-",
    "Standby": lambda pair: ",".join(pair[1].standby) or "-",
    "Warm-up": lambda pair: ",".join(pair[1].warmup) or "-",
    "Target": lambda pair: ",".join(pair[1].target) or "-",
}


def _positions(kind: str) -> Columns[GroupPosition]:
    return {
        "Partition": lambda position: position.partition,
        "StartOffset" if kind == groups.SHARE else "Committed": lambda position: _number_text(
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
    streams = [(member, member.streams) for member in group.members if member.streams is not None]
    if streams:
        yield from _table("No members.", _STREAMS_MEMBERS, streams)
    else:
        yield from _table("No members.", _MEMBERS, group.members)
    yield ""
    if group.topology is not None:
        yield f"Topology of epoch {group.topology.epoch}"
        yield from _table("No subtopologies.", _SUBTOPOLOGIES, group.topology.subtopologies)
        yield ""
    yield from _table("No offsets.", _positions(group.type), group.positions)
    for position in group.positions:
        if position.waits_at is not None:
            partition = position.partition
            yield (
                f"From offset {position.waits_at} of {partition} on it waits for an open"
                " transaction:"
                f" txnsim txns why {partition.topic} {partition.partition}"
            )
    yield from _beginnings(group)


def _beginnings(group: GroupDescription) -> Iterator[str]:
    """For each partition with records, a sentence if the share group begins at the end of its
    log.
    """
    late = [position for position in group.positions if position.begins_at is not None]
    for position in late:
        partition = position.partition
        begins = f"offset {position.begins_at}, as {groups.OFFSET_RESET} is latest"
        if position.offset is None:
            yield (
                f"Nothing of {partition} was delivered yet: the group begins at the end of the log,"
                f" {begins}, and does not get what lies before"
            )
        else:
            yield (
                f"In {partition} the group stands at the end of the log, {begins}: unless it took"
                " what"
                " lies before, it begins there, nothing was delivered, and the lag does not count"
                " that"
            )
    if late:
        topic = late[0].partition.topic
        yield (
            "To get older records, while it has no members: txnsim groups offsets reset"
            f" {group.group_id} --topic {topic} --to-earliest"
        )


def _table(otherwise: str, columns: Columns[Any], values: Sequence[Any]) -> Iterator[str]:
    yield Table.of(columns, values) if values else otherwise


def _number_text(number: int | None) -> str:
    return "-" if number is None else str(number)


_RIGHTS: Final = {
    "list": "DESCRIBE on the cluster or on groups",
    "describe": "DESCRIBE on the group",
    "reset": "READ on the group and on the topic",
    "delete": "DELETE on the group",
}
_ADVICE: Final = {
    ErrorCode.group_id_not_found: "`txnsim groups list` shows the groups that you may see; for"
    " offsets it must be a share group.",
    ErrorCode.non_empty_group: "Stop its members first; `txnsim groups describe` names them.",
    ErrorCode.unknown_topic_or_partition: "Check --topic; `txnsim groups describe` shows the topics"
    " of the group.",
}


def _advice(command: str, error: ErrorCode | None) -> str | None:
    """What the user can do about an error that a broker returned; None if there is nothing to
    say.
    """
    if error in (ErrorCode.group_authorization_failed, ErrorCode.topic_authorization_failed):
        return lacking(_RIGHTS[command])
    return None if error is None else _ADVICE.get(error)
