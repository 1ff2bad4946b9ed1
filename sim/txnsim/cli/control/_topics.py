"""``txnsim topics``: list, create and delete topics of a running simulator, and move leaders."""

from __future__ import annotations

import argparse
from typing import Final

from txnsim.cli.control._answers import PartitionAnswer, TopicAnswer, TopicOffsetsAnswer
from txnsim.cli.control._words import key_value, new_topic, topic_partition
from txnsim.cli.control.port import Json, port_of
from txnsim.cli.control.port import add_arguments as add_port
from txnsim.cli.output import TERMINAL, Columns, FormattedTable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    list_parser = actions.add_parser("list", help="every topic")
    list_parser.add_argument("--internal", action="store_true", help="Kafka's own topics as well")
    create_parser = actions.add_parser("create", help="make a topic, as CreateTopics does")
    create_parser.add_argument(
        "topic", type=new_topic, metavar="NAME[:PARTITIONS]", help="as in orders:3"
    )
    create_parser.add_argument("--replication-factor", type=int, default=-1, metavar="N")
    create_parser.add_argument(
        "--config",
        type=key_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of the topic, as in cleanup.policy=compact; may be repeated",
    )
    describe_parser = actions.add_parser("describe", help="the offsets of every replica of a topic")
    delete_parser = actions.add_parser("delete", help="delete a topic with its records")
    for action_parser in (describe_parser, delete_parser):
        action_parser.add_argument("topic", metavar="NAME")
    move_parser = actions.add_parser(
        "move-leader", help="hand a partition to another in-sync replica"
    )
    move_parser.add_argument("partition", type=topic_partition, metavar="TOPIC-PARTITION")
    move_parser.add_argument("broker", type=int, metavar="BROKER", help="the next leader")
    for action_parser in (list_parser, create_parser, describe_parser, delete_parser, move_parser):
        add_port(action_parser)


def run(args: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    control_port = port_of(args)
    match args.action:
        case "list":
            topics = [
                listed_topic
                for listed_topic in control_port.get("topics", form=list[TopicAnswer])
                if args.internal or not listed_topic["is_internal"]
            ]
            TERMINAL.tell(args, topics, _TOPIC_COLUMNS)
        case "create":
            topic_name, partitions = args.topic
            body = {
                "name": topic_name,
                "partitions": partitions,
                "replication_factor": args.replication_factor,
                "configs": dict(args.config),
            }
            TERMINAL.tell(
                args, control_port.post("topics", body=body, form=TopicAnswer), _created_line
            )
        case "describe":
            TERMINAL.tell(
                args,
                control_port.get("topics", args.topic, form=TopicOffsetsAnswer),
                _described_lines,
            )
        case "delete":
            TERMINAL.tell(
                args, control_port.delete("topics", args.topic, form=TopicAnswer), _deleted_line
            )
        case _:
            topic, partition = args.partition
            body = {"topic": topic, "partition": partition, "leader": args.broker}
            TERMINAL.tell(
                args,
                control_port.post("leaders", body=body, form=PartitionAnswer),
                lambda partition: _moved_line(topic, partition),
            )
    return 0


_TOPIC_COLUMNS: Final[Columns[Json]] = {
    "Topic": lambda topic: topic["name"],
    "Partitions": lambda topic: len(topic["partitions"]),
    "Leaders": lambda topic: ", ".join(str(part["leader"]) for part in topic["partitions"]),
}


def _created_line(topic: Json) -> str:
    leaders = ", ".join(str(partition["leader"]) for partition in topic["partitions"])
    return f"{topic['name']}: {_partition_count_text(topic)}, led by broker {leaders}"


def _deleted_line(topic_name: Json) -> str:
    return f"{topic_name['name']} is deleted, with {_partition_count_text(topic_name)}"


def _moved_line(topic: str, partition: Json) -> str:
    return (
        f"{topic}-{partition['partition']}: broker {partition['leader']} leads, leader epoch "
        f"{partition['leader_epoch']}"
    )


def _partition_count_text(topic: Json) -> str:
    partition_count = len(topic["partitions"])
    return f"{partition_count} partition{'s' if partition_count != 1 else ''}"


_OFFSET_COLUMNS: Final = (
    "log_start_offset",
    "last_stable_offset",
    "high_watermark",
    "log_end_offset",
)


def _described_lines(topic: Json) -> list[str]:
    partition_rows = [
        (
            f"{topic['name']}-{partition['partition']}",
            str(replica["broker"]),
            _replica_role(partition, replica),
            *(
                "" if replica[topic_name] is None else str(replica[topic_name])
                for topic_name in _OFFSET_COLUMNS
            ),
        )
        for partition in topic["partitions"]
        for replica in partition["replicas"]
    ]
    headers = ("Partition", "Broker", "Role", "LogStart", "LastStable", "HighWatermark", "LogEnd")
    return FormattedTable.format_table(headers, partition_rows).splitlines()


def _replica_role(partition: Json, replica: Json) -> str:
    if not replica["is_running"]:
        return "down"
    if partition["leader"] == replica["broker"]:
        return "leader"
    return "in sync" if replica["in_sync"] else "behind"
