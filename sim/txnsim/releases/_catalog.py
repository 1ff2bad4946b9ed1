"""Finds releases by name, and reads the values of ``--as-version``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from txnsim.errors import ConfigError
from txnsim.releases._fleet import Fleet
from txnsim.releases._kafka import RELEASES
from txnsim.releases._release import Release
from txnsim.types import BrokerId


def release_named(release_name: str) -> Release:
    """The release with this name.

    Raises:
        ConfigError: There is no such release.
    """
    release = RELEASES.get(release_name)
    if release is None:
        raise ConfigError(f"there is no release {release_name!r} here, only {', '.join(RELEASES)}")
    return release


def fleet_from(
    version_texts: Iterable[str],
    *,
    broker_count: int,
    switched_rules: Mapping[str, bool] | None = None,
    broker_ids: Collection[BrokerId] | None = None,
) -> Fleet:
    """Assign a release to each broker, from ``--as-version`` and the configuration.

    Args:
        version_texts: ``RELEASE`` for all brokers, ``BROKER=RELEASE`` for one; several in one text
            are separated by commas. Later ones win.
        broker_count: Number of brokers; their ids begin with 1 unless ``broker_ids`` are given.
        switched_rules: Rule name -> whether it is on. It overrides the release of every broker.
        broker_ids: The ids of the brokers.

    Raises:
        ConfigError: A release, a broker or a rule does not exist.
    """
    fleet = Fleet(switched_rules=switched_rules)
    known_ids = range(1, broker_count + 1) if broker_ids is None else broker_ids
    fleet.first = BrokerId(min(known_ids, default=fleet.first))
    broker_releases: list[tuple[BrokerId, Release]] = []
    for version_text in (
        wish_part.strip() for wish in version_texts for wish_part in wish.split(",")
    ):
        broker, separator, release_name = version_text.rpartition("=")
        release = release_named(release_name.strip())
        if not separator:
            fleet.default = release
        elif broker.strip().isdigit() and int(broker) in known_ids:
            broker_releases.append((BrokerId(int(broker)), release))
        else:
            raise ConfigError(f"as version {version_text}: there is no broker {broker.strip()!r}")
    for broker_id, release in broker_releases:
        fleet.assign(broker_id, release)
    return fleet
