"""What a release of Kafka lets its clients see of it: the API versions and features it advertises,
and the rules it goes by.

Kafka's counterparts are the ``validVersions`` of the message JSON files of that release (without
unstable ones) and its ``Feature`` enumeration.
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
    """Levels of a cluster feature that a broker of the release supports, and the level of a new
    cluster.
    """

    min_level: int
    max_level: int
    new_cluster_level: int
    """Finalized level of a freshly formatted cluster; 0 is "off" and not advertised."""


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """One emulated release. The mappings are read-only and ascending by key."""

    name: str
    """Such as ``4.3``."""
    patch_release: str
    """The patch release of that line that is emulated: its newest."""
    api_versions: Mapping[int, tuple[int, int]]
    """API key -> (lowest, highest) version, as a broker's ApiVersions response has it."""
    refused_below: Mapping[int, int] = MappingProxyType({})
    """API key -> lowest version that really works, where lower ones are advertised."""
    controller_api_versions: Mapping[int, tuple[int, int]] = MappingProxyType({})
    """The same for APIs that brokers send to the controller and clients never see."""
    features: Mapping[str, FeatureRange] = MappingProxyType({})
    """Feature name -> levels; all of them are supported features of ApiVersions."""
    rules: Rules
    unstable: Mapping[int, int] = MappingProxyType({})
    """API key -> highest version where ``unstable.api.versions.enable`` opens one more."""
    is_released: bool = True
    """False: no jar of it can be had yet, so nothing could be compared with what is said of it."""

    def __str__(self) -> str:
        return self.name if self.is_released else f"{self.name} (not released)"

    def accepts(self, api_key: int, api_version: int) -> bool:
        """Whether a broker handles that API and version from a client, not only advertises it."""
        versions = self.api_versions.get(api_key)
        if versions is None:
            return False
        lowest, highest = versions
        return max(lowest, self.refused_below.get(api_key, lowest)) <= api_version <= highest

    def highest(self, api_key: int) -> int:
        """Highest version of an API between brokers or to the controller, -1 where the release does
        not have it.
        """
        versions = self.api_versions.get(api_key) or self.controller_api_versions.get(api_key)
        return -1 if versions is None else versions[1]

    @staticmethod
    def line_of(version: str) -> tuple[int, int]:
        """Major and minor number: (4, 3) of ``4.3.1`` and of ``4.3``.

        Raises:
            ConfigError: It is no release.
        """
        parts = numbers(version)
        if len(parts) < 2:
            raise ConfigError(f"{version}: no release of Apache Kafka")
        return parts[0], parts[1]

    @staticmethod
    @cache
    def newer_than(version: str) -> tuple[str, ...]:
        """The switches that came later than a release, in order of declaration."""
        return tuple(
            name
            for name, switch in Rules.documentation().items()
            if switch.since and not switch.is_on(version)
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
    is_released: bool = True,
) -> Release:
    """The next release, given by its differences from the one before.

    Args:
        release: The one before.
        name: Name of the new release.
        patch_release: That is emulated.
        api_versions: API keys with new ranges; None takes an API away.
        refused_below: API keys whose lowest versions are advertised and refused from now on.
        controller_api_versions: The same as ``api_versions`` for requests to the controller.
        features: Features with new levels; None takes one away.
        unstable: API keys that ``unstable.api.versions.enable`` opens from now on.
        is_released: Whether its jars can be had.
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
        rules=rules_of(patch_release),
        is_released=is_released,
    )


def _apply_changes(
    old_values: Mapping[K, V], changes: Mapping[K, V | None] | None
) -> Mapping[K, V]:
    merged = {**old_values, **(changes or {})}
    present = {key: value for key, value in merged.items() if value is not None}
    return MappingProxyType(dict(sorted(present.items())))


def rules_of(version: str) -> Rules:
    """What a release does, switch by switch."""
    return Rules(**{name: switch.is_on(version) for name, switch in Rules.documentation().items()})
