"""What an emulated Kafka release advertises: data, one module per release.

- ``release``: the shape of such data.
- ``kafka_4_3``: ``RELEASE_4_3``.
"""

from __future__ import annotations

from sim.releases.kafka_4_3 import RELEASE_4_3
from sim.releases.release import FeatureRange, Release

__all__ = ["RELEASES", "RELEASE_4_3", "FeatureRange", "Release"]

RELEASES = {RELEASE_4_3.name: RELEASE_4_3}
"""Name -> release, for settings."""
