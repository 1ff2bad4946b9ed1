"""What an emulated Kafka release advertises and how it behaves: data, one module per release.

- ``release``: the shape of such data.
- ``rules``: what releases do differently, one named switch per behaviour.
- ``fleet``: which broker of a cluster runs which release, and the common abilities of all.
- ``catalog``: every release by its name.
- ``kafka_2_8`` … ``kafka_4_3``: the releases.
- ``versions``: numbers of releases, and which switches one of them has.
- ``history``: differences between releases that can't be seen here.
"""

from __future__ import annotations

from txnsim.releases.catalog import RELEASES, fleet_from, release_named
from txnsim.releases.fleet import Fleet
from txnsim.releases.kafka_2_8 import RELEASE_2_8
from txnsim.releases.kafka_3_6 import RELEASE_3_6
from txnsim.releases.kafka_3_9 import RELEASE_3_9
from txnsim.releases.kafka_4_0 import RELEASE_4_0
from txnsim.releases.kafka_4_1 import RELEASE_4_1
from txnsim.releases.kafka_4_2 import RELEASE_4_2
from txnsim.releases.kafka_4_3 import RELEASE_4_3
from txnsim.releases.release import FeatureRange, Release
from txnsim.releases.rules import LATEST, Rules

__all__ = [
    "LATEST",
    "RELEASES",
    "RELEASE_2_8",
    "RELEASE_3_6",
    "RELEASE_3_9",
    "RELEASE_4_0",
    "RELEASE_4_1",
    "RELEASE_4_2",
    "RELEASE_4_3",
    "FeatureRange",
    "Fleet",
    "Release",
    "Rules",
    "fleet_from",
    "release_named",
]
