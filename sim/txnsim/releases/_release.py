"""What clients see of a Kafka release: the API versions and features that it advertises, and its
rules.

Kafka's counterparts are the ``validVersions`` of the message JSON files of that release (without
unstable versions) and its ``Feature`` enumeration.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import TypeVar

import msgspec

from txnsim.errors import ConfigError
from txnsim.releases.rules import Rules, numbers

K = TypeVar("K", int, str)
V = TypeVar("V")


class FeatureRange(msgspec.Struct, frozen=True, kw_only=True):
    """Levels of a cluster feature that a release supports, and the level of a new cluster."""

    min_level: int
    max_level: int
    new_cluster_level: int
    """Finalized level in a newly formatted cluster; 0 means off and is not advertised."""


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """One emulated release. The mappings are read-only and sorted by key."""

    name: str
    """The release line, such as ``4.3``."""
    patch_release: str
    """The patch release of the line that is emulated: the newest."""
    api_versions: Mapping[int, tuple[int, int]]
    """API key -> (lowest, highest) version, as in a broker's ApiVersions response."""
    refused_below: Mapping[int, int] = MappingProxyType({})
    """API key -> lowest version that the broker accepts, if it advertises lower ones."""
    controller_api_versions: Mapping[int, tuple[int, int]] = MappingProxyType({})
    """API key -> (lowest, highest) version, of APIs that only brokers send to the controller."""
    features: Mapping[str, FeatureRange] = MappingProxyType({})
    """Feature name -> levels; all of them are supported features in ApiVersions."""
    rules: Rules
    unstable: Mapping[int, int] = MappingProxyType({})
    """API key -> highest version if ``unstable.api.versions.enable`` is on, for APIs with an
    unstable version.
    """
    telemetry_version: int = 0
    """Highest version of the APIs of client metrics (71 and 72), which a broker lists only where it
    takes such metrics.
    """
    is_released: bool = True
    """False while the release can't be downloaded yet, so that its data could not be compared with
    it.
    """

    def __str__(self) -> str:
        return self.name if self.is_released else f"{self.name} (not released)"

    def accepts(self, api_key: int, api_version: int) -> bool:
        """Whether a broker accepts that version of the API from a client, and does not only
        advertise it.
        """
        version_range = self.api_versions.get(api_key)
        if version_range is None:
            return False
        lowest, highest = version_range
        return max(lowest, self.refused_below.get(api_key, lowest)) <= api_version <= highest

    def highest_version(self, api_key: int) -> int:
        """Highest version of an API between brokers or to the controller; -1 if the release lacks
        the API.
        """
        version_range = self.api_versions.get(api_key) or self.controller_api_versions.get(api_key)
        return -1 if version_range is None else version_range[1]

    @staticmethod
    def line_of(version: str) -> tuple[int, int]:
        """Major and minor number of a release: (4, 3) for ``4.3.1`` and for ``4.3``.

        Raises:
            ConfigError: The text is no release number.
        """
        version_numbers = numbers(version)
        if len(version_numbers) < 2:
            raise ConfigError(f"{version}: no release of Apache Kafka")
        return version_numbers[0], version_numbers[1]

    @staticmethod
    @cache
    def newer_than(version: str) -> tuple[str, ...]:
        """Names of the switches that are on in later releases only, in order of declaration."""
        return tuple(
            rule_name
            for rule_name, rule_switch in Rules.documentation().items()
            if rule_switch.since and not rule_switch.is_on(version)
        )


def next_release(
    release: Release,
    *,
    name: str,
    patch_release: str,
    api_versions: Mapping[int, tuple[int, int] | None] | None = None,
    refused_below: Mapping[int, int] | None = None,
    controller_api_versions: Mapping[int, tuple[int, int]] | None = None,
    features: Mapping[str, FeatureRange | None] | None = None,
    unstable: Mapping[int, int] | None = None,
    telemetry_version: int | None = None,
    is_released: bool = True,
) -> Release:
    """Make a release from its differences to the release before it.

    Args:
        release: The release before it.
        name: Name of the new release.
        patch_release: The patch release that is emulated.
        api_versions: API key -> new range; None removes the API.
        refused_below: API key -> lowest accepted version, where lower ones are still advertised.
        controller_api_versions: API key -> new range, of requests to the controller.
        features: Feature name -> new levels; None removes the feature.
        unstable: API key -> version that ``unstable.api.versions.enable`` opens.
        telemetry_version: Highest version of the APIs of client metrics.
        is_released: Whether the release can be downloaded.
    """
    return Release(
        name=name,
        patch_release=patch_release,
        api_versions=_apply_changes(release.api_versions, api_versions),
        refused_below=_apply_changes(release.refused_below, refused_below),
        controller_api_versions=_apply_changes(
            release.controller_api_versions, controller_api_versions
        ),
        features=_apply_changes(release.features, features),
        unstable=_apply_changes(release.unstable, unstable),
        telemetry_version=(
            release.telemetry_version if telemetry_version is None else telemetry_version
        ),
        rules=rules_of(patch_release),
        is_released=is_released,
    )


def _apply_changes(
    old_values: Mapping[K, V], changes: Mapping[K, V | None] | None
) -> Mapping[K, V]:
    merged_values = {**old_values, **(changes or {})}
    present_values = {key: value for key, value in merged_values.items() if value is not None}
    return MappingProxyType(dict(sorted(present_values.items())))


def rules_of(version: str) -> Rules:
    """The rules of a release: each switch as its version says."""
    switches = {
        switch_name: rule_switch.is_on(version)
        for switch_name, rule_switch in Rules.documentation().items()
    }
    return Rules(version=version, **switches)
