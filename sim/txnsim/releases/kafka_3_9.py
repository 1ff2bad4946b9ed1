"""Apache Kafka 3.9, the last line before transactions v2.

The ranges are those of 3.9.2, recorded from the message specifications in its clients' jar. Left
out: versions it marks unstable, and the telemetry APIs 71 and 72 (KIP-714), which need a plugin.
"""

from __future__ import annotations

from typing import Final

from txnsim.releases.kafka_3_6 import RELEASE_3_6
from txnsim.releases.release import FeatureRange, after

RELEASE_3_9: Final = after(
    RELEASE_3_6,
    name="3.9",
    patch_release="3.9.2",
    api_versions={
        0: (0, 11),  # Produce
        1: (0, 17),  # Fetch
        2: (0, 9),  # ListOffsets
        8: (0, 9),  # OffsetCommit
        9: (0, 9),  # OffsetFetch
        10: (0, 6),  # FindCoordinator
        16: (0, 5),  # ListGroups
        18: (0, 4),  # ApiVersions
        22: (0, 5),  # InitProducerId
        24: (0, 5),  # AddPartitionsToTxn
        25: (0, 4),  # AddOffsetsToTxn
        26: (0, 4),  # EndTxn
        28: (0, 4),  # TxnOffsetCommit
        55: (0, 2),  # DescribeQuorum
        60: (0, 1),  # DescribeCluster
        66: (0, 1),  # ListTransactions
        68: (0, 0),  # ConsumerGroupHeartbeat
        69: (0, 0),  # ConsumerGroupDescribe
        74: (0, 0),  # ListConfigResources
        75: (0, 0),  # DescribeTopicPartitions
        80: (0, 0),  # AddRaftVoter
        81: (0, 0),  # RemoveRaftVoter
    },
    features={
        "kraft.version": FeatureRange(min_level=0, max_level=1, new_cluster_level=0),
        "metadata.version": FeatureRange(min_level=1, max_level=21, new_cluster_level=21),
    },
)
