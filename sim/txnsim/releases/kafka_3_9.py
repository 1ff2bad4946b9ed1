"""Apache Kafka 3.9, the last line before transactions v2.

The ranges are those of 3.9.2, recorded from the message specifications in its clients' jar. Left
out: versions it marks unstable, and the telemetry APIs 71 and 72 (KIP-714), which need a plugin.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from txnsim.releases.release import FeatureRange, Release
from txnsim.releases.rules import Rules

_API_VERSIONS: Final = {
    0: (0, 11),  # Produce
    1: (0, 17),  # Fetch
    2: (0, 9),  # ListOffsets
    3: (0, 12),  # Metadata
    8: (0, 9),  # OffsetCommit
    9: (0, 9),  # OffsetFetch
    10: (0, 6),  # FindCoordinator
    11: (0, 9),  # JoinGroup
    12: (0, 4),  # Heartbeat
    13: (0, 5),  # LeaveGroup
    14: (0, 5),  # SyncGroup
    15: (0, 5),  # DescribeGroups
    16: (0, 5),  # ListGroups
    17: (0, 1),  # SaslHandshake
    18: (0, 4),  # ApiVersions
    19: (0, 7),  # CreateTopics
    20: (0, 6),  # DeleteTopics
    21: (0, 2),  # DeleteRecords
    22: (0, 5),  # InitProducerId
    23: (0, 4),  # OffsetForLeaderEpoch
    24: (0, 5),  # AddPartitionsToTxn
    25: (0, 4),  # AddOffsetsToTxn
    26: (0, 4),  # EndTxn
    27: (0, 1),  # WriteTxnMarkers
    28: (0, 4),  # TxnOffsetCommit
    29: (0, 3),  # DescribeAcls
    30: (0, 3),  # CreateAcls
    31: (0, 3),  # DeleteAcls
    32: (0, 4),  # DescribeConfigs
    33: (0, 2),  # AlterConfigs
    34: (0, 2),  # AlterReplicaLogDirs
    35: (0, 4),  # DescribeLogDirs
    36: (0, 2),  # SaslAuthenticate
    37: (0, 3),  # CreatePartitions
    38: (0, 3),  # CreateDelegationToken
    39: (0, 2),  # RenewDelegationToken
    40: (0, 2),  # ExpireDelegationToken
    41: (0, 3),  # DescribeDelegationToken
    42: (0, 2),  # DeleteGroups
    43: (0, 2),  # ElectLeaders
    44: (0, 1),  # IncrementalAlterConfigs
    45: (0, 0),  # AlterPartitionReassignments
    46: (0, 0),  # ListPartitionReassignments
    47: (0, 0),  # OffsetDelete
    48: (0, 1),  # DescribeClientQuotas
    49: (0, 1),  # AlterClientQuotas
    50: (0, 0),  # DescribeUserScramCredentials
    51: (0, 0),  # AlterUserScramCredentials
    55: (0, 2),  # DescribeQuorum
    57: (0, 1),  # UpdateFeatures
    60: (0, 1),  # DescribeCluster
    61: (0, 0),  # DescribeProducers
    64: (0, 0),  # UnregisterBroker
    65: (0, 0),  # DescribeTransactions
    66: (0, 1),  # ListTransactions
    68: (0, 0),  # ConsumerGroupHeartbeat
    69: (0, 0),  # ConsumerGroupDescribe
    74: (0, 0),  # ListConfigResources
    75: (0, 0),  # DescribeTopicPartitions
    80: (0, 0),  # AddRaftVoter
    81: (0, 0),  # RemoveRaftVoter
}

_FEATURES: Final = {
    "kraft.version": FeatureRange(min_level=0, max_level=1, new_cluster_level=0),
    "metadata.version": FeatureRange(min_level=1, max_level=21, new_cluster_level=21),
}

RULES_3_9: Final = Rules(
    pending_comes_before_identity=False,
    client_version_is_kept=False,
    fence_rotates_exhausted_id=False,
    last_epoch_recovers=False,
    swapped_ids_are_logged=False,
    moves_replace_whole_entry=False,
    unknown_records_are_skipped=False,
    unload_calls_off_load=False,
    longest_timeout_is_never=False,
    open_transactions_have_epochs=False,
    own_epoch_marker_keeps_guard=False,
    implicit_add_is_repeated=False,
    stale_epoch_is_refused_early=False,
    v2_starts_at_sequence_zero=False,
    features_change_together=False,
    v2_markers_need_higher_epoch=False,
    repeated_v2_markers_are_written=False,
    last_epoch_markers_are_written=False,
    leaderless_partitions_keep_markers=True,
)

RELEASE_3_9: Final = Release(
    name="3.9",
    patch_release="3.9.2",
    api_versions=MappingProxyType(_API_VERSIONS),
    refused_below=MappingProxyType({}),
    controller_api_versions=MappingProxyType({67: (0, 0)}),  # AllocateProducerIds
    features=MappingProxyType(_FEATURES),
    rules=RULES_3_9,
)
