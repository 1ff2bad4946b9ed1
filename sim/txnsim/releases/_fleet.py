"""Which broker of a cluster runs which release.

A real broker learns the versions of another broker from its ApiVersions response, and the
controller learns the features of a broker from its registration. Here both ask the fleet instead.
Kafka's counterparts: NodeApiVersions, ClusterFeatureSupportDescriber.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from txnsim.errors import ConfigError
from txnsim.releases._kafka import REFERENCE
from txnsim.releases._release import FeatureRange, Release
from txnsim.releases.rules import PROPOSALS, Rules
from txnsim.types import BrokerId

_PROPOSED: Final = frozenset(
    switch for proposal in PROPOSALS.values() for switch in proposal.switches
)


class Fleet:
    """The releases of a cluster's brokers. A broker may be restarted with another release."""

    __slots__ = ("_adjusted_releases", "_by_broker", "_rules", "changes", "default", "first")

    def __init__(
        self,
        default_release: Release = REFERENCE,
        releases_by_broker: Mapping[BrokerId, Release] | None = None,
        switched_rules: Mapping[str, bool] | None = None,
    ) -> None:
        """Make a fleet.

        Args:
            default_release: Release of the brokers that are not in ``releases_by_broker``.
            releases_by_broker: Releases of the other brokers.
            switched_rules: Rule name -> whether it is on, in place of what the release says. So a
                broker can have a fix before its release, or a bug after its fix. Switches of
                ``PROPOSALS`` apply to releases that are not out: in a cluster of both kinds the
                older brokers stay without them.

        Raises:
            ConfigError: There is no such rule.
        """
        unknown_rules = set(switched_rules or ()) - set(Rules.documentation())
        if unknown_rules:
            raise ConfigError(f"there is no rule {', '.join(sorted(unknown_rules))}")
        self.default = default_release
        self._by_broker = dict(releases_by_broker or {})
        self._rules = dict(switched_rules or {})
        self._adjusted_releases: dict[str, Release] = {}
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
        adjusted_release = self._adjusted_releases.get(release.name)
        if adjusted_release is None:
            rules = msgspec.structs.replace(
                release.rules,
                **{
                    rule_name: is_on
                    for rule_name, is_on in self._rules.items()
                    if rule_name not in _PROPOSED or not release.is_released
                },
            )
            adjusted_release = self._adjusted_releases[release.name] = msgspec.structs.replace(
                release, rules=rules
            )
        return adjusted_release

    def assign(self, broker_id: BrokerId, release: Release) -> None:
        """Make the broker run this release from its next start on."""
        self._by_broker[broker_id] = release
        self.changes += 1

    @property
    def controller(self) -> Release:
        """The release that the controller runs."""
        return self.release_of(self.first)

    def highest_version(self, broker_id: BrokerId, api_key: int) -> int:
        """Highest version of an API that a broker understands from another broker; -1 if none."""
        return self.release_of(broker_id).highest_version(api_key)

    def complaint(self, release: Release, finalized_levels: Mapping[str, int]) -> str | None:
        """Kafka's reason why a broker of this release can't register in a cluster with these
        finalized feature levels (ClusterControlManager.registerBroker); None if it can.
        """
        for feature_name, level in sorted(finalized_levels.items()):
            supported_range = release.features.get(feature_name)
            if level > 0 and (
                supported_range is None
                or not supported_range.min_level <= level <= supported_range.max_level
            ):
                return (
                    f"Unable to register because the broker does not support finalized version "
                    f"{level} of {feature_name}. The broker wants a version between "
                    f"{supported_range.min_level if supported_range else 0} and "
                    f"{supported_range.max_level if supported_range else 0}, inclusive."
                )
        return None

    def supporters(
        self, broker_ids: Iterable[BrokerId]
    ) -> tuple[tuple[str, Mapping[str, FeatureRange]], ...]:
        """The nodes that must support a feature level, each with its supported levels. The
        controller comes first (the first broker's node), then every registered broker, as in Kafka.
        """
        sorted_ids = sorted(broker_ids)
        nodes = [(f"Local controller {broker_id}", broker_id) for broker_id in sorted_ids[:1]]
        nodes += [(f"Broker {broker_id}", broker_id) for broker_id in sorted_ids]
        return tuple(
            (node_name, self.release_of(broker_id).features) for node_name, broker_id in nodes
        )

    def new_cluster_levels(self, broker_ids: Iterable[BrokerId]) -> dict[str, int]:
        """Feature name -> level for a new cluster: the lowest of the brokers' own levels."""
        all_features = [self.release_of(broker_id).features for broker_id in broker_ids]
        feature_names = sorted(
            {feature_name for features in all_features for feature_name in features}
        )
        return {
            feature_name: min(
                features[feature_name].new_cluster_level if feature_name in features else 0
                for features in all_features
            )
            for feature_name in feature_names
        }
