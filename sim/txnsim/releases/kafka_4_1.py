"""Apache Kafka 4.1.

The ranges are those of 4.1.2, recorded from the message specifications in its clients' jar. Left
out: versions it marks unstable (InitProducerId 6), and the telemetry APIs 71 and 72 (KIP-714),
which need a plugin.
"""

from __future__ import annotations

from typing import Final

from txnsim.releases.kafka_4_0 import RELEASE_4_0
from txnsim.releases.release import FeatureRange, after

RELEASE_4_1: Final = after(
    RELEASE_4_0,
    name="4.1",
    patch_release="4.1.2",
    api_versions={
        0: (0, 13),  # Produce
        1: (4, 18),  # Fetch
        45: (0, 1),  # AlterPartitionReassignments
        66: (0, 2),  # ListTransactions
        74: (0, 1),  # ListConfigResources
        76: (1, 1),  # ShareGroupHeartbeat
        77: (1, 1),  # ShareGroupDescribe
        78: (1, 1),  # ShareFetch
        79: (1, 1),  # ShareAcknowledge
        83: (0, 0),  # InitializeShareGroupState
        84: (0, 0),  # ReadShareGroupState
        85: (0, 0),  # WriteShareGroupState
        86: (0, 0),  # DeleteShareGroupState
        87: (0, 0),  # ReadShareGroupStateSummary
        90: (0, 0),  # DescribeShareGroupOffsets
        91: (0, 0),  # AlterShareGroupOffsets
        92: (0, 0),  # DeleteShareGroupOffsets
    },
    features={
        "eligible.leader.replicas.version": FeatureRange(
            min_level=0, max_level=1, new_cluster_level=1
        ),
        "metadata.version": FeatureRange(min_level=7, max_level=27, new_cluster_level=27),
        "share.version": FeatureRange(min_level=0, max_level=1, new_cluster_level=0),
    },
    unstable={22: 6},  # InitProducerId, KIP-939
)
