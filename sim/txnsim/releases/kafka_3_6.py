"""Apache Kafka 3.6, the first line that verifies transactions at the partition leader (KIP-890).

The ranges are those of 3.6.2, recorded from the message specifications in its clients' jar. Left
out: versions it marks unstable (ConsumerGroupHeartbeat 0).
"""

from __future__ import annotations

from typing import Final

from txnsim.releases.kafka_2_8 import RELEASE_2_8
from txnsim.releases.release import FeatureRange, after

RELEASE_3_6: Final = after(
    RELEASE_2_8,
    name="3.6",
    patch_release="3.6.2",
    api_versions={
        1: (0, 15),  # Fetch
        2: (0, 8),  # ListOffsets
        3: (0, 12),  # Metadata
        9: (0, 8),  # OffsetFetch
        10: (0, 4),  # FindCoordinator
        11: (0, 9),  # JoinGroup
        13: (0, 5),  # LeaveGroup
        24: (0, 4),  # AddPartitionsToTxn
        29: (0, 3),  # DescribeAcls
        30: (0, 3),  # CreateAcls
        31: (0, 3),  # DeleteAcls
        35: (0, 4),  # DescribeLogDirs
        38: (0, 3),  # CreateDelegationToken
        41: (0, 3),  # DescribeDelegationToken
        55: (0, 1),  # DescribeQuorum
        57: (0, 1),  # UpdateFeatures
        64: (0, 0),  # UnregisterBroker
        65: (0, 0),  # DescribeTransactions
        66: (0, 0),  # ListTransactions
    },
    controller_api_versions={67: (0, 0)},  # AllocateProducerIds
    features={
        "metadata.version": FeatureRange(min_level=1, max_level=14, new_cluster_level=14),
    },
)
