"""Apache Kafka 4.3.

The ranges are those of 4.3.1, recorded from its own classes. Left out: versions it marks unstable
(InitProducerId 6), and the telemetry APIs 71 and 72, which a broker lists only when a metrics
reporter takes client metrics (KIP-714).
"""

from __future__ import annotations

from typing import Final

from txnsim.releases.kafka_4_2 import RELEASE_4_2
from txnsim.releases.release import FeatureRange, after

RELEASE_4_3: Final = after(
    RELEASE_4_2,
    name="4.3",
    patch_release="4.3.1",
    api_versions={
        35: (1, 5),  # DescribeLogDirs
    },
    features={
        "metadata.version": FeatureRange(min_level=7, max_level=30, new_cluster_level=30),
    },
    rules={"leaderless_partitions_keep_markers": False},
)
