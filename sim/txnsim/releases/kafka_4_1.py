"""Apache Kafka 4.1.

The ranges are those of 4.1.2, recorded from the message specifications in its clients' jar. Left
out: versions it marks unstable (InitProducerId 6), and the telemetry APIs 71 and 72 (KIP-714),
which need a plugin.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from txnsim.releases.release import FeatureRange, Release
from txnsim.releases.rules import Rules

_API_VERSIONS: Final = {
    0: (0, 13),  # Produce
    1: (4, 18),  # Fetch
    2: (1, 10),  # ListOffsets
    3: (0, 13),  # Metadata
    8: (2, 9),  # OffsetCommit
    9: (1, 9),  # OffsetFetch
    10: (0, 6),  # FindCoordinator
    11: (0, 9),  # JoinGroup
    12: (0, 4),  # Heartbeat
    13: (0, 5),  # LeaveGroup
    14: (0, 5),  # SyncGroup
    15: (0, 6),  # DescribeGroups
    16: (0, 5),  # ListGroups
    17: (0, 1),  # SaslHandshake
    18: (0, 4),  # ApiVersions
    19: (2, 7),  # CreateTopics
    20: (1, 6),  # DeleteTopics
    21: (0, 2),  # DeleteRecords
    22: (0, 5),  # InitProducerId
    23: (2, 4),  # OffsetForLeaderEpoch
    24: (0, 5),  # AddPartitionsToTxn
    25: (0, 4),  # AddOffsetsToTxn
    26: (0, 5),  # EndTxn
    27: (1, 1),  # WriteTxnMarkers
    28: (0, 5),  # TxnOffsetCommit
    29: (1, 3),  # DescribeAcls
    30: (1, 3),  # CreateAcls
    31: (1, 3),  # DeleteAcls
    32: (1, 4),  # DescribeConfigs
    33: (0, 2),  # AlterConfigs
    34: (1, 2),  # AlterReplicaLogDirs
    35: (1, 4),  # DescribeLogDirs
    36: (0, 2),  # SaslAuthenticate
    37: (0, 3),  # CreatePartitions
    38: (1, 3),  # CreateDelegationToken
    39: (1, 2),  # RenewDelegationToken
    40: (1, 2),  # ExpireDelegationToken
    41: (1, 3),  # DescribeDelegationToken
    42: (0, 2),  # DeleteGroups
    43: (0, 2),  # ElectLeaders
    44: (0, 1),  # IncrementalAlterConfigs
    45: (0, 1),  # AlterPartitionReassignments
    46: (0, 0),  # ListPartitionReassignments
    47: (0, 0),  # OffsetDelete
    48: (0, 1),  # DescribeClientQuotas
    49: (0, 1),  # AlterClientQuotas
    50: (0, 0),  # DescribeUserScramCredentials
    51: (0, 0),  # AlterUserScramCredentials
    55: (0, 2),  # DescribeQuorum
    57: (0, 2),  # UpdateFeatures
    60: (0, 2),  # DescribeCluster
    61: (0, 0),  # DescribeProducers
    64: (0, 0),  # UnregisterBroker
    65: (0, 0),  # DescribeTransactions
    66: (0, 2),  # ListTransactions
    68: (0, 1),  # ConsumerGroupHeartbeat
    69: (0, 1),  # ConsumerGroupDescribe
    74: (0, 1),  # ListConfigResources
    75: (0, 0),  # DescribeTopicPartitions
    76: (1, 1),  # ShareGroupHeartbeat
    77: (1, 1),  # ShareGroupDescribe
    78: (1, 1),  # ShareFetch
    79: (1, 1),  # ShareAcknowledge
    80: (0, 0),  # AddRaftVoter
    81: (0, 0),  # RemoveRaftVoter
    83: (0, 0),  # InitializeShareGroupState
    84: (0, 0),  # ReadShareGroupState
    85: (0, 0),  # WriteShareGroupState
    86: (0, 0),  # DeleteShareGroupState
    87: (0, 0),  # ReadShareGroupStateSummary
    90: (0, 0),  # DescribeShareGroupOffsets
    91: (0, 0),  # AlterShareGroupOffsets
    92: (0, 0),  # DeleteShareGroupOffsets
}

_FEATURES: Final = {
    "eligible.leader.replicas.version": FeatureRange(min_level=0, max_level=1, new_cluster_level=1),
    "group.version": FeatureRange(min_level=0, max_level=1, new_cluster_level=1),
    "kraft.version": FeatureRange(min_level=0, max_level=1, new_cluster_level=1),
    "metadata.version": FeatureRange(min_level=7, max_level=27, new_cluster_level=27),
    "share.version": FeatureRange(min_level=0, max_level=1, new_cluster_level=0),
    "transaction.version": FeatureRange(min_level=0, max_level=2, new_cluster_level=2),
}

RULES_4_1: Final = Rules(
    fence_rotates_exhausted_id=False,
    last_epoch_recovers=False,
    swapped_ids_are_logged=False,
    unknown_records_are_skipped=False,
    v2_markers_need_higher_epoch=False,
    repeated_v2_markers_are_written=False,
    last_epoch_markers_are_written=False,
    leaderless_partitions_keep_markers=True,
)

RELEASE_4_1: Final = Release(
    name="4.1",
    patch_release="4.1.2",
    api_versions=MappingProxyType(_API_VERSIONS),
    # KAFKA-18659: advertised for librdkafka and refused, as in 4.3
    refused_below=MappingProxyType({0: 3}),
    controller_api_versions=MappingProxyType({67: (0, 0)}),  # AllocateProducerIds
    features=MappingProxyType(_FEATURES),
    unstable=MappingProxyType({22: 6}),  # InitProducerId, KIP-939
    rules=RULES_4_1,
)
