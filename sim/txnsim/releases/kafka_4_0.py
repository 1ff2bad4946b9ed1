"""Apache Kafka 4.0, the first line with transactions v2 (KIP-890's second part).

The ranges are those of 4.0.2, recorded from the message specifications in its clients' jar. Left
out: versions it marks unstable, and the telemetry APIs 71 and 72 (KIP-714), which need a plugin.
"""

from __future__ import annotations

from typing import Final

from txnsim.releases.kafka_3_9 import RELEASE_3_9
from txnsim.releases.release import FeatureRange, after

RELEASE_4_0: Final = after(
    RELEASE_3_9,
    name="4.0",
    patch_release="4.0.2",
    api_versions={
        0: (0, 12),  # Produce
        1: (4, 17),  # Fetch
        2: (1, 10),  # ListOffsets
        3: (0, 13),  # Metadata
        8: (2, 9),  # OffsetCommit
        9: (1, 9),  # OffsetFetch
        15: (0, 6),  # DescribeGroups
        19: (2, 7),  # CreateTopics
        20: (1, 6),  # DeleteTopics
        23: (2, 4),  # OffsetForLeaderEpoch
        26: (0, 5),  # EndTxn
        27: (1, 1),  # WriteTxnMarkers
        28: (0, 5),  # TxnOffsetCommit
        29: (1, 3),  # DescribeAcls
        30: (1, 3),  # CreateAcls
        31: (1, 3),  # DeleteAcls
        32: (1, 4),  # DescribeConfigs
        34: (1, 2),  # AlterReplicaLogDirs
        35: (1, 4),  # DescribeLogDirs
        38: (1, 3),  # CreateDelegationToken
        39: (1, 2),  # RenewDelegationToken
        40: (1, 2),  # ExpireDelegationToken
        41: (1, 3),  # DescribeDelegationToken
        57: (0, 2),  # UpdateFeatures
        60: (0, 2),  # DescribeCluster
        68: (0, 1),  # ConsumerGroupHeartbeat
        69: (0, 1),  # ConsumerGroupDescribe
    },
    # librdkafka switches features on by seeing Produce 0, so it is advertised and refused
    # (KAFKA-18659, ApiKeys.PRODUCE_API_VERSIONS_RESPONSE_MIN_VERSION).
    refused_below={0: 3},
    features={
        "eligible.leader.replicas.version": FeatureRange(
            min_level=0, max_level=1, new_cluster_level=0
        ),
        "group.version": FeatureRange(min_level=0, max_level=1, new_cluster_level=1),
        "kraft.version": FeatureRange(min_level=0, max_level=1, new_cluster_level=1),
        "metadata.version": FeatureRange(min_level=7, max_level=25, new_cluster_level=25),
        "transaction.version": FeatureRange(min_level=0, max_level=2, new_cluster_level=2),
    },
)
