"""What an emulated Kafka release advertises and how it behaves: data.

- ``_release``: the shape of such data, and which switches a release has.
- ``rules``: what releases do differently, one named switch per behaviour.
- ``_fleet``: which broker of a cluster runs which release, and the common abilities of all.
- ``interbroker_versions``: in which version a broker sends what it asks of others.
- ``_kafka``: the releases, oldest first.
- ``_catalog``: a release by its name.
"""

from __future__ import annotations

from txnsim.releases._catalog import fleet_from, release_named
from txnsim.releases._fleet import Fleet
from txnsim.releases._kafka import REFERENCE, RELEASES
from txnsim.releases._release import FeatureRange, Release
from txnsim.releases.rules import LATEST, Rules

__all__ = [
    "LATEST",
    "REFERENCE",
    "RELEASES",
    "FeatureRange",
    "Fleet",
    "Release",
    "Rules",
    "fleet_from",
    "release_named",
]
