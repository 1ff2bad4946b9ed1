"""``txnsim logs write``: writes the log directories of a running simulator, through its control
port: as new directories, or some topics of them into the directories of a stopped broker.
"""

from __future__ import annotations

import argparse
import re
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

import msgspec

from txnsim.cli.control.port import ControlPort, ControlPortError, port_of
from txnsim.cli.control.port import add_arguments as add_port
from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import MISUSE_STATUS, new_folder
from txnsim.errors import BadInputError, ConfigError
from txnsim.files import place_when_whole, working_in

if TYPE_CHECKING:
    from txnsim.storage.replica_install import InstalledReplica, InstallTarget

DESCRIPTION: Final = (
    "Write the log directory of each broker of a running simulator as DIR/broker-ID"
    ", as a broker leaves it that stops in order. Nothing is written over. With --into, "
    "put the records of some topics into the log directories of a stopped Apache Kafka instead, "
    "where these topics exist and are empty."
)
TIMEOUT_SECONDS: Final = 60
_MEMBER_RE: Final = re.compile(r"broker-(\d{1,10})/([^/].*)")
"""Name of a file in the archive: a broker, and a path in its directory."""


class _BrokerRow(msgspec.Struct, frozen=True):
    """What is needed of a broker. It names a folder, so nothing but a number will do."""

    id: int


class _PartitionRow(msgspec.Struct, frozen=True):
    partition: int
    leader: int


class _TopicRow(msgspec.Struct, frozen=True):
    name: str
    partitions: tuple[_PartitionRow, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory",
        type=new_folder,
        nargs="?",
        metavar="DIR",
        help="where to; made if need be",
    )
    parser.add_argument(
        "--into",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="the log directory of a stopped broker that has --topic; repeated for each broker "
        "that has a replica",
    )
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="NAME",
        help="with --into, the topic whose records go there; may be repeated",
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="with --into, throw away the records that the topic has there",
    )
    parser.add_argument(
        "--broker",
        type=int,
        action="append",
        default=[],
        metavar="ID",
        help="only this broker; may be repeated",
    )
    add_port(parser)
    parser.add_argument("--url", dest="http", metavar="URL", help="the older name of --http")


def run(args: argparse.Namespace) -> int:
    """Write the directories; returns the exit status."""
    try:
        _check_arguments(args)
        port = port_of(args)
        if args.into:
            TERMINAL.tell(args, _fill_directories(args, port), _replica_lines)
        else:
            TERMINAL.tell(args, _write_to_new_folders(args, port), _directory_lines)
    except (OSError, ControlPortError, tarfile.TarError, BadInputError) as error:
        TERMINAL.complain(TERMINAL.error_text(error))
        return MISUSE_STATUS
    return 0


def _check_arguments(args: argparse.Namespace) -> None:
    if bool(args.into) == (args.directory is not None):
        raise ConfigError("name a DIR to make, or with --into the directory of a stopped broker")
    if args.into and not args.topic:
        raise ConfigError("--into: say with --topic which topics go there")
    if args.into and args.broker:
        raise ConfigError("--broker: with --into the records come from the leaders")
    for option_name, option_values in (("--topic", args.topic), ("--replace", args.replace)):
        if option_values and not args.into:
            raise ConfigError(f"{option_name}: only with --into")


# Directories of their own


def _write_to_new_folders(args: argparse.Namespace, port: ControlPort) -> list[dict[str, object]]:
    """Write the directories of all brokers, each to a new folder; if one fails, none stays."""
    broker_ids = args.broker or [
        broker_id.id
        for broker_id in msgspec.convert(
            port.get("brokers", form=list[_BrokerRow], patience_s=TIMEOUT_SECONDS),
            list[_BrokerRow],
        )
    ]
    new_folder_by_broker = {
        broker_id: args.directory / f"broker-{broker_id}" for broker_id in broker_ids
    }
    for broker_folder in new_folder_by_broker.values():
        if broker_folder.exists():
            raise ConfigError(f"{broker_folder} is there already; name another directory")
    with ExitStack() as exit_stack:
        part_folder_by_broker = {
            broker_id: exit_stack.enter_context(place_when_whole(broker_folder))
            for broker_id, broker_folder in new_folder_by_broker.items()
        }
        size_by_broker = _write_log_dirs(port, part_folder_by_broker)
        return [
            {
                "broker": broker_id,
                "directory": str(new_folder_by_broker[broker_id]),
                **size_by_broker[broker_id],
            }
            for broker_id in new_folder_by_broker
        ]


def _write_log_dirs(
    port: ControlPort, folder_by_broker: Mapping[int, Path]
) -> dict[int, dict[str, int]]:
    """Write the directories of these brokers, which are of one moment, into new folders, as the
    data arrives. Returns how many files and bytes each has.
    """
    size_by_broker = {broker_id: {"files": 0, "bytes": 0} for broker_id in folder_by_broker}
    for folder in folder_by_broker.values():
        folder.mkdir(parents=True)
    with (
        port.stream(
            "log-dirs", broker=list(folder_by_broker), patience_s=TIMEOUT_SECONDS
        ) as answer,
        # All that tarfile asks of a stream is to be read.
        tarfile.open(fileobj=cast("IO[bytes]", answer), mode="r|") as archive,
    ):
        for archive_member in archive:
            name_match = _MEMBER_RE.fullmatch(archive_member.name)
            broker_id = -1 if name_match is None else int(name_match[1])
            if (
                name_match is None
                or broker_id not in folder_by_broker
                or not archive_member.isfile()
            ):
                raise BadInputError(
                    f"what answers at {port.url} is no control port of txnsim:"
                    f" {archive_member.name!r} is no file of a broker asked"
                )
            size = size_by_broker[broker_id]
            with working_in(folder_by_broker[broker_id]):
                file = archive_member.replace(name=name_match[2])
                archive.extract(file, folder_by_broker[broker_id], filter="data")
            size["files"] += 1
            size["bytes"] += archive_member.size
    return size_by_broker


def _directory_lines(directory_fields: Sequence[dict[str, object]]) -> list[str]:
    return [
        f"{directory['directory']}: {directory['files']} files, {directory['bytes']} bytes"
        for directory in directory_fields
    ]


# Directories of a stopped broker


def _fill_directories(args: argparse.Namespace, port: ControlPort) -> list[InstalledReplica]:
    from txnsim.storage.replica_install import InstallTarget, install

    targets = InstallTarget.find_in(args.into, args.topic)
    if not args.replace:
        for target in targets:
            if not target.is_empty:
                raise ConfigError(
                    f"{target.replica.path}: there are records already; --replace throws them away"
                )
    brokers_and_targets = sorted(_targets_by_leader(args, port, targets).items())
    with tempfile.TemporaryDirectory(prefix="txnsim-") as scratch_folder:
        with working_in(Path(scratch_folder)):
            _write_log_dirs(
                port,
                {broker: Path(scratch_folder) / str(broker) for broker, _ in brokers_and_targets},
            )
        installed = install(
            {
                Path(scratch_folder) / str(broker): broker_targets
                for broker, broker_targets in brokers_and_targets
            },
            on_folder=lambda target: TERMINAL.progress(f"writing {target.replica.path}"),
        )
    TERMINAL.progress("")
    return sorted(installed, key=lambda replica: replica.directory)


def _targets_by_leader(
    args: argparse.Namespace, port: ControlPort, targets: Sequence[InstallTarget]
) -> dict[int, list[InstallTarget]]:
    """The folders to fill, by the id of the simulator's broker that leads the partition."""
    leader_by_partition: dict[tuple[str, int], int] = {}
    topics = port.get("topics", form=list[_TopicRow], patience_s=TIMEOUT_SECONDS)
    for topic_row in msgspec.convert(topics, list[_TopicRow]):
        for partition_row in topic_row.partitions:
            topic_and_partition = topic_row.name, partition_row.partition
            leader_by_partition[topic_and_partition] = partition_row.leader
    for topic_name in args.topic:
        simulated_partitions = {
            partition for topic, partition in leader_by_partition if topic == topic_name
        }
        target_partitions = (target.replica.topic_partition for target in targets)
        given_partitions = {
            partition.partition for partition in target_partitions if partition.topic == topic_name
        }
        if simulated_partitions != given_partitions:
            raise ConfigError(
                f"topic {topic_name}: the simulator has the partitions"
                f" {sorted(simulated_partitions)},"
                f" the directories given {sorted(given_partitions)}; create it with as many"
                " there, and name with --into the directories of all brokers that have a replica"
            )
    targets_by_leader: dict[int, list[InstallTarget]] = {}
    for target in targets:
        topic_partition = target.replica.topic_partition
        leader = leader_by_partition[topic_partition.topic, topic_partition.partition]
        if leader < 0:
            raise ConfigError(f"{topic_partition}: it has no leader in the simulator now")
        targets_by_leader.setdefault(leader, []).append(target)
    return targets_by_leader


def _replica_lines(replicas: Sequence[InstalledReplica]) -> list[str]:
    return [
        f"{replica.directory}: {replica.files} files, {replica.bytes} bytes of records, "
        f"up to offset {replica.end_offset}"
        for replica in replicas
    ]
