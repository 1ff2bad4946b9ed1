"""What an emulated Kafka release advertises and how it behaves, as data.

- ``_release``: the fields of a release, and which switches it has on.
- ``rules``: the differences between releases, one named switch per behaviour.
- ``_fleet``: which broker of a cluster runs which release, and the feature levels that all support.
- ``interbroker_versions``: the versions of requests between brokers.
- ``_kafka``: the releases, oldest first.
- ``_catalog``: finds a release by its name.
"""

from __future__ import annotations

from txnsim.releases._catalog import fleet_from, release_named, releases_in
from txnsim.releases._fleet import Fleet
from txnsim.releases._kafka import REFERENCE, RELEASES
from txnsim.releases._release import FeatureRange, Release
from txnsim.releases.rules import LATEST_RULES, PROPOSALS, Rules

__all__ = [
    "LATEST_RULES",
    "PROPOSALS",
    "REFERENCE",
    "RELEASES",
    "FeatureRange",
    "Fleet",
    "Release",
    "Rules",
    "fleet_from",
    "release_named",
    "releases_in",
]
