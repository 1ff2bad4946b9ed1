"""Which broker of a cluster runs which release.

A real broker learns the versions of another broker from its ApiVersions response, and the
controller learns the features of a broker from its registration. Here both ask the fleet instead.
Kafka's counterparts: NodeApiVersions, ClusterFeatureSupportDescriber.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from txnsim.errors import ConfigError
from txnsim.releases._kafka import REFERENCE
from txnsim.releases._release import FeatureRange, Release
from txnsim.releases.rules import Rules
from txnsim.types import BrokerId


class Fleet:
    """The releases of a cluster's brokers. A broker may be restarted with another release."""

    __slots__ = ("_by_broker", "_ruled", "_rules", "changes", "default", "first")

    def __init__(
        self,
        default: Release = REFERENCE,
        by_broker: Mapping[BrokerId, Release] | None = None,
        rules: Mapping[str, bool] | None = None,
    ) -> None:
        """Make a fleet.

        Args:
            default: Release of the brokers that are not in ``by_broker``.
            by_broker: Releases of the other brokers.
            rules: Rule name -> whether it is on, whatever the release: to have a bug before its
                fix, or a fix before its release.

        Raises:
            ConfigError: There is no such rule.
        """
        unknown = set(rules or ()) - set(Rules.documentation())
        if unknown:
            raise ConfigError(f"there is no rule {', '.join(sorted(unknown))}")
        self.default = default
        self._by_broker = dict(by_broker or {})
        self._rules = dict(rules or {})
        self._ruled: dict[str, Release] = {}
        self.first = BrokerId(1)
        """The broker on whose node the controller runs."""
        self.changes = 0
        """Number of times that a broker was given another release."""

    def release_of(self, broker_id: BrokerId) -> Release:
        """The release that a broker runs, or will run when it starts. Rules that were set by hand
        apply.
        """
        release = self._by_broker.get(broker_id, self.default)
        if not self._rules:
            return release
        ruled = self._ruled.get(release.name)
        if ruled is None:
            rules = msgspec.structs.replace(release.rules, **self._rules)
            ruled = self._ruled[release.name] = msgspec.structs.replace(release, rules=rules)
        return ruled

    def assign(self, broker_id: BrokerId, release: Release) -> None:
        """Make the broker run this release from its next start on."""
        self._by_broker[broker_id] = release
        self.changes += 1

    @property
    def controller(self) -> Release:
        """The release that the controller runs."""
        return self.release_of(self.first)

    def highest(self, broker_id: BrokerId, api_key: int) -> int:
        """Highest version of an API that a broker understands from another broker; -1 if none."""
        return self.release_of(broker_id).highest(api_key)

    def complaint(self, release: Release, finalized: Mapping[str, int]) -> str | None:
        """Kafka's reason why a broker of this release can't register in a cluster with these
        finalized feature levels (ClusterControlManager.registerBroker); None if it can.
        """
        for name, level in sorted(finalized.items()):
            supported = release.features.get(name)
            if level > 0 and (
                supported is None or not supported.min_level <= level <= supported.max_level
            ):
                return (
                    f"Unable to register because the broker does not support finalized version "
                    f"{level} of {name}. The broker wants a version between "
                    f"{supported.min_level if supported else 0} and "
                    f"{supported.max_level if supported else 0}, inclusive."
                )
        return None

    def supporters(
        self, broker_ids: Iterable[BrokerId]
    ) -> tuple[tuple[str, Mapping[str, FeatureRange]], ...]:
        """The nodes that must support a feature level, each with its supported levels. The
        controller comes first (the first broker's node), then every registered broker, as in Kafka.
        """
        ordered = sorted(broker_ids)
        nodes = [(f"Local controller {broker_id}", broker_id) for broker_id in ordered[:1]]
        nodes += [(f"Broker {broker_id}", broker_id) for broker_id in ordered]
        return tuple(
            (node_name, self.release_of(broker_id).features) for node_name, broker_id in nodes
        )

    def new_cluster_levels(self, broker_ids: Iterable[BrokerId]) -> dict[str, int]:
        """Feature name -> level for a new cluster: the lowest of the brokers' own levels."""
        every = [self.release_of(broker_id).features for broker_id in broker_ids]
        names = sorted({name for features in every for name in features})
        return {
            name: min(
                features[name].new_cluster_level if name in features else 0 for features in every
            )
            for name in names
        }
