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
    """Run one subcommand; what the cluster refuses is a message, advice and exit status 1."""
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
                TERMINAL.tell(args, await groups.describe_group(admin, args.group), _described)
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
    wanted = {}
    for at, (start, end) in (await groups.bounds(admin, args.topic)).items():
        offset = start if args.to_earliest else end if args.to_latest else args.to_offset
        wanted[at] = min(max(start, offset), end)
        if wanted[at] != offset:
            TERMINAL.warn(f"{at} has offsets {start} to {end}: {wanted[at]} instead of {offset}.")
    await groups.alter_share_positions(admin, args.group, wanted)
    told = [{"partition": at, "offset": offset} for at, offset in wanted.items()]
    TERMINAL.tell(args, told, _RESET)


_LISTED: Final[Columns[GroupListing]] = {
    "Group": lambda one: one.group_id,
    "Type": lambda one: one.type or "-",
    "State": lambda one: one.state or "-",
    "Protocol": lambda one: one.protocol_type,
    "Coordinator": lambda one: one.coordinator_id,
}
_RESET: Final[Columns[Mapping[str, Any]]] = {
    "Partition": lambda one: one["partition"],
    "Offset": lambda one: one["offset"],
}
_MEMBERS: Final[Columns[DescribedMember]] = {
    "Member": lambda one: one.member_id,
    "Epoch": lambda one: _shown(one.epoch),
    "Client": lambda one: one.client_id,
    "Host": lambda one: one.client_host,
    "Assigned": lambda one: ",".join(one.assigned) or "-",
}
_SUBTOPOLOGIES: Final[Columns[DescribedSubtopology]] = {
    "Subtopology": lambda one: one.subtopology_id,
    "Sources": lambda one: ",".join((*one.sources, *one.repartition_sources)) or "-",
    "Repartition": lambda one: ",".join(one.repartition_sinks) or "-",
    "Changelogs": lambda one: ",".join(one.changelogs) or "-",
}


def _of_first(
    shown: Callable[[DescribedMember], object],
) -> Callable[[tuple[DescribedMember, StreamsMember]], object]:
    return lambda one: shown(one[0])


_STREAMS_MEMBERS: Final[Columns[tuple[DescribedMember, StreamsMember]]] = {
    **{title: _of_first(shown) for title, shown in _MEMBERS.items() if title != "Assigned"},
    "Process": lambda one: one[1].process_id,
    "Active": lambda one: ",".join(one[0].assigned) or "-",
    "Standby": lambda one: ",".join(one[1].standby) or "-",
    "Warm-up": lambda one: ",".join(one[1].warmup) or "-",
    "Target": lambda one: ",".join(one[1].target) or "-",
}


def _positions(kind: str) -> Columns[GroupPosition]:
    return {
        "Partition": lambda one: one.partition,
        "StartOffset" if kind == groups.SHARE else "Committed": lambda one: _shown(one.offset),
        "Lag": lambda one: _shown(one.lag),
        "Error": lambda one: one.error or "-",
    }


def _described(one: GroupDescription) -> Iterator[str]:
    yield f"Group {one.group_id}: {one.type}, {one.state}, coordinator {one.coordinator_id}"
    if one.epoch is not None:
        yield (
            f"Epoch {one.epoch}, assignment epoch {one.assignment_epoch},"
            f" assignor {one.assignor or '-'}"
        )
    if one.type == groups.SHARE:
        yield (
            f"{groups.ISOLATION_LEVEL} is {one.isolation_level or 'not told'},"
            f" {groups.OFFSET_RESET} is {one.offset_reset or 'not told'}"
        )
    yield ""
    streams = [(each, each.streams) for each in one.members if each.streams is not None]
    if streams:
        yield from _table("No members.", _STREAMS_MEMBERS, streams)
    else:
        yield from _table("No members.", _MEMBERS, one.members)
    yield ""
    if one.topology is not None:
        yield f"Topology of epoch {one.topology.epoch}"
        yield from _table("No subtopologies.", _SUBTOPOLOGIES, one.topology.subtopologies)
        yield ""
    yield from _table("No offsets.", _positions(one.type), one.positions)
    for position in one.positions:
        if position.waits_at is not None:
            at = position.partition
            yield (
                f"From offset {position.waits_at} of {at} on it waits for an open transaction:"
                f" txnsim txns why {at.topic} {at.partition}"
            )
    yield from _beginnings(one)


def _beginnings(one: GroupDescription) -> Iterator[str]:
    """Where a share group begins at the end of a log that has records."""
    late = [position for position in one.positions if position.begins_at is not None]
    for position in late:
        at = position.partition
        begins = f"offset {position.begins_at}, as {groups.OFFSET_RESET} is latest"
        if position.offset is None:
            yield (
                f"Nothing of {at} was delivered yet: the group begins at the end of the log,"
                f" {begins}, and does not get what lies before"
            )
        else:
            yield (
                f"In {at} the group stands at the end of the log, {begins}: unless it took what"
                " lies before, it begins there, nothing was delivered, and the lag does not count"
                " that"
            )
    if late:
        topic = late[0].partition.topic
        yield (
            "To get older records, while it has no members: txnsim groups offsets reset"
            f" {one.group_id} --topic {topic} --to-earliest"
        )


def _table(otherwise: str, columns: Columns[Any], values: Sequence[Any]) -> Iterator[str]:
    yield Table.of(columns, values) if values else otherwise


def _shown(number: int | None) -> str:
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
    """What to do about an error that a broker answered."""
    if error in (ErrorCode.group_authorization_failed, ErrorCode.topic_authorization_failed):
        return lacking(_RIGHTS[command])
    return None if error is None else _ADVICE.get(error)
