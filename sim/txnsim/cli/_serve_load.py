"""``txnsim serve --load``: its arguments, and what it says about the disks.

All disks are examined before any is read, and read before a port opens.
"""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from txnsim.cli.output import TERMINAL
from txnsim.errors import ConfigError
from txnsim.releases import fleet_from
from txnsim.types import TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from txnsim.runtime.environment import Environment
    from txnsim.server.disk_loading import LoadedCluster
    from txnsim.server.options import ClusterOptions
    from txnsim.storage.disks import Disks

LIMIT_MB: Final = 2_048
_MEGABYTE: Final = 1_000_000
STOPPED: Final = "stopped"
"""The value of ``--clock-at`` that means the newest time on the disks."""
_MILLISECONDS: Final = re.compile(r"\d{12,14}")
_LAST_DATE_MS: Final = 253_402_300_799_999
_LOSSES_SHOWN: Final = 20


def add_arguments(parser: argparse._ArgumentGroup) -> None:
    """Declare the arguments of ``serve`` about disks."""
    parser.add_argument(
        "--load",
        type=Path,
        nargs="+",
        action="extend",
        default=[],
        metavar="DIR",
        help="go on with these log directories of Apache Kafka's brokers, or copies of them, all "
        "of one cluster; nothing is written there (docs/practise.md)",
    )
    parser.add_argument(
        "--load-topic",
        action="append",
        default=[],
        metavar="NAME",
        help="of --load only this topic, beside the internal ones; may be repeated",
    )
    parser.add_argument(
        "--load-limit-mb",
        type=int,
        default=LIMIT_MB,
        metavar="MB",
        help=f"refuse to load more, as it is all kept in memory (default {LIMIT_MB})",
    )
    parser.add_argument(
        "--clock-at",
        metavar="TIME",
        help="let the cluster's clock begin at this time, as in 2026-11-20T18:00:00Z or in "
        f"milliseconds; `{STOPPED}` is the newest time on the disks of --load",
    )


def disks_of(args: argparse.Namespace) -> Disks | None:
    """The disks to load; None without ``--load``.

    Raises:
        ConfigError: The disks can't be loaded, or the arguments don't go together.
    """
    if not args.load:
        if args.load_topic:
            raise ConfigError(f"--load-topic {args.load_topic[0]}: only with --load")
        if args.clock_at == STOPPED:
            raise ConfigError(f"--clock-at {STOPPED}: only with --load")
        return None
    from txnsim.storage.disks import find_disks
    from txnsim.storage.lock import is_in_use
    from txnsim.types import INTERNAL_TOPICS

    try:
        disks = find_disks(args.load)
        for log_directory in filter(is_in_use, args.load):
            TERMINAL.complain(
                f"{log_directory}: a broker runs there; what it writes now may look torn"
            )
    except OSError as error:
        raise ConfigError(f"--load: {error.filename}: {error.strerror}") from error
    if args.load_topic:
        topics_on_disks = {
            folder.replica.topic_partition.topic for _, folder in disks.all_folders()
        }
        for topic_name in args.load_topic:
            if topic_name not in topics_on_disks:
                raise ConfigError(f"--load-topic {topic_name}: no directory holds it")
        disks = disks.only_topics({*args.load_topic, *INTERNAL_TOPICS})
    if args.brokers not in (None, len(disks.folders)):
        raise ConfigError(
            f"--brokers {args.brokers}: the directories of --load are of {len(disks.folders)}"
        )
    if disks.size_bytes > args.load_limit_mb * _MEGABYTE:
        raise ConfigError(_too_large_text(disks, args.load_limit_mb))
    _check_level(disks, args.transaction_version)
    return disks


def options_for_disks(options: ClusterOptions, disks: Disks) -> ClusterOptions:
    """The options with the values that the disks determine: number of brokers, cluster id."""
    settings = msgspec.structs.replace(options.settings, cluster_id=disks.cluster_id)
    return msgspec.structs.replace(options, brokers=len(disks.folders), settings=settings)


def set_clock(environment: Environment, clock_text: str, disks: Disks | None) -> None:
    """Set the start of the cluster's clock as ``--clock-at`` says.

    Raises:
        ConfigError: The text is not a time, or the disks contain none.
    """
    clock = environment.clock
    if clock_text == STOPPED:
        from txnsim.storage.disks import newest_timestamp

        assert disks is not None
        newest_ms = newest_timestamp(disks)
        if newest_ms is None:
            raise ConfigError(f"--clock-at {STOPPED}: there is no record on the disks")
        if newest_ms > _LAST_DATE_MS:
            raise ConfigError(
                f"--clock-at {STOPPED}: the newest time on the disks is {newest_ms} ms, after the"
                " year 9999: give a time"
            )
        clock.shift(newest_ms - clock.now_ms())
    else:
        clock.shift(_parse_time(clock_text) - clock.now_ms())


def load(options: ClusterOptions, disks: Disks, *, now_ms: int) -> ClusterOptions:
    """Read the disks; returns the options with their contents.

    Raises:
        ConfigError: They can't be loaded.
    """
    from txnsim.server.disk_loading import load_cluster

    fleet = fleet_from(
        options.as_version,
        broker_count=options.brokers,
        switched_rules=options.rules,
        broker_ids=tuple(disks.folders),
    )
    try:
        loaded_cluster = load_cluster(
            disks,
            settings=options.settings,
            fleet=fleet,
            now_ms=now_ms,
            on_replica=lambda folder: TERMINAL.progress(f"reading {folder.replica.path}"),
        )
    except OSError as error:
        raise ConfigError(f"--load: {error.filename}: {error.strerror}") from error
    TERMINAL.progress("")
    return msgspec.structs.replace(options, loaded=loaded_cluster)


def warn_of_losses(loaded_cluster: LoadedCluster) -> None:
    """Print on standard error what was discarded and what was left out."""
    for loss_text in (
        *map(str, loaded_cluster.losses[:_LOSSES_SHOWN]),
        *loaded_cluster.left_out[:_LOSSES_SHOWN],
    ):
        TERMINAL.complain(loss_text)
    if loaded_cluster.lacks_coordinators:
        TERMINAL.warn(
            f"txnsim: transactions are open, and no directory holds {TRANSACTION_STATE_TOPIC}: all "
            "of them will seem to hang"
        )
    untold_count = len(loaded_cluster.losses[_LOSSES_SHOWN:]) + len(
        loaded_cluster.left_out[_LOSSES_SHOWN:]
    )
    if untold_count:
        TERMINAL.complain(f"and {untold_count} more of that kind; --json has all of them")


def facts(loaded_cluster: LoadedCluster) -> dict[str, Any]:
    return {
        "bytes": loaded_cluster.size,
        "replicas": sum(len(broker_logs) for broker_logs in loaded_cluster.logs.values()),
        "losses": [msgspec.to_builtins(loss) for loss in loaded_cluster.losses],
        "left_out": list(loaded_cluster.left_out),
    }


def line(loaded_cluster: LoadedCluster) -> str:
    replica_count = sum(len(broker_logs) for broker_logs in loaded_cluster.logs.values())
    return (
        f"loaded {loaded_cluster.size / _MEGABYTE:.1f} MB: {replica_count} replicas, their disks "
        "untouched"
    )


def _too_large_text(disks: Disks, limit_mb: int) -> str:
    size_by_topic: dict[str, int] = {}
    for _, folder in disks.all_folders():
        folder_topic = folder.replica.topic_partition.topic
        size_by_topic[folder_topic] = size_by_topic.get(folder_topic, 0) + folder.size_bytes
    largest_topics = sorted(
        size_by_topic, key=lambda topic_name: (-size_by_topic[topic_name], topic_name)
    )[:3]
    sizes_text = ", ".join(
        f"{topic_name} {size_by_topic[topic_name] / _MEGABYTE:.0f} MB"
        for topic_name in largest_topics
    )
    return (
        f"--load: {disks.size_bytes / _MEGABYTE:.0f} MB of segments would be kept in memory "
        f"({sizes_text}); "
        f"choose topics with --load-topic, or allow more than {limit_mb} with --load-limit-mb"
    )


def _check_level(disks: Disks, level: int | None) -> None:
    if level is None or disks.metadata is None:
        return
    level_on_disks = disks.metadata.image.features.get("transaction.version", 0)
    if level != level_on_disks:
        raise ConfigError(
            f"--transaction-version {level}: it is {level_on_disks} on the disks; change it with "
            "UpdateFeatures once the cluster is up"
        )


def _parse_time(time_text: str) -> int:
    """Parse a time; returns milliseconds since the epoch."""
    if _MILLISECONDS.fullmatch(time_text):
        return int(time_text)
    try:
        parsed_time = datetime.fromisoformat(time_text)
    except ValueError as error:
        raise ConfigError(
            f"--clock-at {time_text}: expected a time as in 2026-11-20T18:00:00Z,"
            f" milliseconds since "
            f"1970, or `{STOPPED}`"
        ) from error
    if parsed_time.tzinfo is None:
        parsed_time = parsed_time.replace(tzinfo=UTC)
    return int(parsed_time.timestamp() * 1_000)
