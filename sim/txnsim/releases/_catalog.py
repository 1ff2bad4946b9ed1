"""Finds releases by name, and reads the values of ``--as-version``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from txnsim.errors import ConfigError
from txnsim.releases._fleet import Fleet
from txnsim.releases._kafka import REFERENCE, RELEASES
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


def releases_in(version_texts: Iterable[str]) -> tuple[Release, ...]:
    """The releases that brokers may run with these values of ``--as-version``, oldest first. The
    reference is one of them unless a value says what all brokers run.

    Raises:
        ConfigError: There is no such release.
    """
    default = REFERENCE
    broker_releases: list[Release] = []
    for broker, release_name in _split_texts(version_texts):
        if broker is not None:
            broker_releases.append(release_named(release_name))
        else:
            default = release_named(release_name)
    names = {default.name, *(release.name for release in broker_releases)}
    return tuple(release for name, release in RELEASES.items() if name in names)


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
    for broker, release_name in _split_texts(version_texts):
        release = release_named(release_name)
        if broker is None:
            fleet.default = release
        elif broker.isdigit() and int(broker) in known_ids:
            broker_releases.append((BrokerId(int(broker)), release))
        else:
            raise ConfigError(f"as version {broker}={release_name}: there is no broker {broker!r}")
    for broker_id, release in broker_releases:
        fleet.assign(broker_id, release)
    return fleet


def _split_texts(version_texts: Iterable[str]) -> Iterator[tuple[str | None, str]]:
    """Each part of the values as a broker, None for all brokers, and the name of its release."""
    for version_text in version_texts:
        for version_part in version_text.split(","):
            broker, separator, release_name = version_part.rpartition("=")
            yield broker.strip() if separator else None, release_name.strip()
