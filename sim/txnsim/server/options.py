"""Options that a cluster is started with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.errors import ConfigError
from txnsim.metadata.image import TRANSACTION_VERSION
from txnsim.releases import PROPOSALS, REFERENCE, RELEASES, fleet_from
from txnsim.security.options import NO_SECURITY, SecurityOptions
from txnsim.settings import DEFAULTS, Settings
from txnsim.types import BrokerId

if TYPE_CHECKING:
    from txnsim.server.disk_loading import LoadedCluster

KIP_TEXT_PORT_DISTANCE: Final = 100
"""Distance from the first client port to the first KIP-text port."""
_TOPIC_FORMS: Final = "expected NAME or NAME:PARTITIONS, as orders:3, or several of them"


class ClusterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options that a cluster is started with."""

    brokers: int = 3
    first_broker_id: int = 1
    """Id of the first broker; the others have the next numbers."""
    racks: tuple[str, ...] = ()
    """The rack of each broker (``broker.rack``); empty: none has one."""
    host: str = "127.0.0.1"
    port: int = 9092
    """First of consecutive ports; 0 picks free ones."""
    ports: tuple[int, ...] = ()
    """The port of each broker's plaintext listener, if they are not consecutive."""
    advertised_host: str | None = None
    """Host that clients are told; by default the listening host, or this machine's name if that is
    a wildcard address.
    """
    advertised_port: int | None = None
    """Port that clients are told; only for a cluster of one broker."""
    advertised: tuple[tuple[str, int], ...] = ()
    """Host and port that clients are told for each broker's plaintext listener, if something
    between clients and brokers translates ports, as containers do.
    """
    topics: tuple[tuple[str, int], ...] = ()
    """(name, partitions) of topics to create at start, replicated to up to three brokers."""
    ready_coordinators: bool = False
    """Create Kafka's internal topics at the start, load their coordinators and give them producer
    ids, before clients are served. A real cluster does that at the first request, and answers
    COORDINATOR_LOAD_IN_PROGRESS meanwhile; librdkafka then waits for half a second.
    """
    settings: Settings = DEFAULTS
    kip_text_port: int | None = None
    """First of consecutive ports of the listeners that ``settings.kip_text`` opens; 0 picks free
    ones. By default ``KIP_TEXT_PORT_DISTANCE`` above ``port``.
    """
    as_version: tuple[str, ...] = ()
    """Kafka releases to behave as: ``3.9`` for all brokers, ``1=3.9`` for one
    (``releases.fleet_from``); by default the reference release.
    """
    rules: Mapping[str, bool] = {}
    """Switches of ``releases.Rules`` that differ from the release's: for example a bug before its
    fix.
    """
    security: SecurityOptions = NO_SECURITY
    """Listeners with TLS and SASL, users, ACLs (docs/security.md)."""
    loaded: LoadedCluster | None = None
    """Loaded disks to start with, usable once; ``brokers`` is their number."""

    @property
    def broker_ids(self) -> tuple[BrokerId, ...]:
        """The id of each broker, in the order of their ports."""
        if self.loaded is not None:
            return tuple(self.loaded.logs)
        first_id = self.first_broker_id
        return tuple(BrokerId(number) for number in range(first_id, first_id + self.brokers))


def port_step(options: ClusterOptions) -> int:
    """Distance between a listener's ports on two brokers: 1, or more so that no ports collide."""
    ports = {options.port} if options.security.has_plain_listener else set()
    ports.update(listener.port for listener in options.security.listeners)
    ports.discard(0)
    return next(
        step
        for step in count(1)
        if len(
            {
                port + broker_index * step
                for port in ports
                for broker_index in range(options.brokers)
            }
        )
        == len(ports) * options.brokers
    )


def topics_of(topics_option: object) -> dict[str, int]:
    """Parse topics in any usual form: ``orders``, ``orders:3``, ``orders:3,payments``, a list of
    such texts, or a mapping of names to numbers of partitions.

    Returns:
        Name -> number of partitions.

    Raises:
        ConfigError: The form is another one, or a number of partitions is not a whole number from
            1.
    """
    if isinstance(topics_option, str):
        return dict(_parse_topic(topic_text) for topic_text in topics_option.split(","))
    if isinstance(topics_option, Mapping):
        return dict(
            _checked_topic(topic_name, partition_count, f"{topic_name}: {partition_count!r}")
            for topic_name, partition_count in topics_option.items()
        )
    if isinstance(topics_option, Iterable):
        partitions_by_topic: dict[str, int] = {}
        for topic_text in topics_option:
            if not isinstance(topic_text, str):
                raise ConfigError(f"topics: {topic_text!r}: {_TOPIC_FORMS}")
            partitions_by_topic |= topics_of(topic_text)
        return partitions_by_topic
    raise ConfigError(f"topics: {topics_option!r}: {_TOPIC_FORMS}")


def _parse_topic(topic_text: str) -> tuple[str, int]:
    topic_name, colon, count_text = topic_text.strip().partition(":")
    partition_count = int(count_text) if count_text.isascii() and count_text.isdigit() else 0
    return _checked_topic(topic_name, partition_count if colon else 1, topic_text)


def _checked_topic(topic_name: object, partition_count: object, topic_text: str) -> tuple[str, int]:
    is_number = (
        isinstance(partition_count, int)
        and not isinstance(partition_count, bool)
        and partition_count > 0
    )
    if not isinstance(topic_name, str) or not topic_name or not is_number:
        raise ConfigError(f"topics: {topic_text}: {_TOPIC_FORMS}")
    return topic_name, int(str(partition_count))


def with_proposal(options: ClusterOptions, kip_number: int) -> ClusterOptions:
    """The options with a KIP whose brokers' part is under review; its number is in ``PROPOSALS``.

    Raises:
        ConfigError: No broker is of a release that is not out.
    """
    broker_ids = options.broker_ids
    fleet = fleet_from(options.as_version, broker_count=options.brokers, broker_ids=broker_ids)
    if all(fleet.release_of(broker_id).is_released for broker_id in broker_ids):
        newest_release = next(reversed(RELEASES.values()))
        raise ConfigError(
            f"KIP {kip_number}: no release has it, it needs brokers of --as-version"
            f" {newest_release.name}"
        )
    proposal = PROPOSALS[kip_number]
    return msgspec.structs.replace(
        options,
        rules={**options.rules, **dict.fromkeys(proposal.switches, True)},
        settings=msgspec.structs.replace(
            options.settings, **dict.fromkeys(proposal.settings, True)
        ),
    )


def check_release(options: ClusterOptions, *, transaction_version: int | None) -> None:
    """Refuse a level of ``transaction.version`` that no release of the brokers knows.

    Raises:
        ConfigError: A release is unknown, or none of them knows the level.
    """
    broker_ids = options.broker_ids
    fleet = fleet_from(options.as_version, broker_count=options.brokers, broker_ids=broker_ids)
    highest_level = fleet.new_cluster_levels(broker_ids).get(TRANSACTION_VERSION, 0)
    if transaction_version is not None and transaction_version > highest_level:
        raise ConfigError(
            f"transaction version {transaction_version}: brokers of "
            f"{', '.join(options.as_version)} know it up "
            f"to {highest_level} only"
        )
    if options.settings.kip_text and options.as_version:
        raise ConfigError(
            f"KIP text: the texts stand beside Kafka {REFERENCE.name}, not beside another release"
        )
