"""The releases that can be emulated, oldest first, each by its differences from the one before.

The ranges of API versions are recorded from the message specifications in the jar of a release's
clients. Left out are the versions that a release marks unstable (InitProducerId 6 from 4.1 on), and
the telemetry APIs 71 and 72, which a broker lists only when a metrics reporter takes client metrics
(KIP-714).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from txnsim.releases._release import FeatureRange, Release, next_release, rules_of
from txnsim.releases.rules import REFERENCE_VERSION

RELEASE_2_8: Final = Release(
    name="2.8",
    patch_release="2.8.2",
    api_versions=MappingProxyType(
        {
            0: (0, 9),  # Produce
            1: (0, 12),  # Fetch
            2: (0, 6),  # ListOffsets
            3: (0, 11),  # Metadata
            8: (0, 8),  # OffsetCommit
            9: (0, 7),  # OffsetFetch
            10: (0, 3),  # FindCoordinator
            11: (0, 7),  # JoinGroup
            12: (0, 4),  # Heartbeat
            13: (0, 4),  # LeaveGroup
            14: (0, 5),  # SyncGroup
            15: (0, 5),  # DescribeGroups
            16: (0, 4),  # ListGroups
            17: (0, 1),  # SaslHandshake
            18: (0, 3),  # ApiVersions
            19: (0, 7),  # CreateTopics
            20: (0, 6),  # DeleteTopics
            21: (0, 2),  # DeleteRecords
            22: (0, 4),  # InitProducerId
            23: (0, 4),  # OffsetForLeaderEpoch
            24: (0, 3),  # AddPartitionsToTxn
            25: (0, 3),  # AddOffsetsToTxn
            26: (0, 3),  # EndTxn
            27: (0, 1),  # WriteTxnMarkers
            28: (0, 3),  # TxnOffsetCommit
            29: (0, 2),  # DescribeAcls
            30: (0, 2),  # CreateAcls
            31: (0, 2),  # DeleteAcls
            32: (0, 4),  # DescribeConfigs
            33: (0, 2),  # AlterConfigs
            34: (0, 2),  # AlterReplicaLogDirs
            35: (0, 2),  # DescribeLogDirs
            36: (0, 2),  # SaslAuthenticate
            37: (0, 3),  # CreatePartitions
            38: (0, 2),  # CreateDelegationToken
            39: (0, 2),  # RenewDelegationToken
            40: (0, 2),  # ExpireDelegationToken
            41: (0, 2),  # DescribeDelegationToken
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
            57: (0, 0),  # UpdateFeatures
            60: (0, 0),  # DescribeCluster
            61: (0, 0),  # DescribeProducers
        }
    ),
    controller_api_versions={
        56: (0, 0),  # AlterPartition
        62: (0, 0),  # BrokerRegistration
        63: (0, 0),  # BrokerHeartbeat
    },
    rules=rules_of("2.8.2"),
)
"""The last line whose transactions need ZooKeeper. It has no features and no verification of
transactions. Left out are the APIs between ZooKeeper's brokers and their controller (4 to 7 and
56), which clients never use.
"""

RELEASE_3_5: Final = next_release(
    RELEASE_2_8,
    name="3.5",
    patch_release="3.5.2",
    api_versions={
        1: (0, 15),  # Fetch
        2: (0, 8),  # ListOffsets
        3: (0, 12),  # Metadata
        9: (0, 8),  # OffsetFetch
        10: (0, 4),  # FindCoordinator
        11: (0, 9),  # JoinGroup
        13: (0, 5),  # LeaveGroup
        29: (0, 3),  # DescribeAcls
        30: (0, 3),  # CreateAcls
        31: (0, 3),  # DeleteAcls
        35: (0, 4),  # DescribeLogDirs
        38: None,  # CreateDelegationToken
        39: None,  # RenewDelegationToken
        40: None,  # ExpireDelegationToken
        41: None,  # DescribeDelegationToken
        55: (0, 1),  # DescribeQuorum
        57: (0, 1),  # UpdateFeatures
        64: (0, 0),  # UnregisterBroker
        65: (0, 0),  # DescribeTransactions
        66: (0, 0),  # ListTransactions
    },
    controller_api_versions={
        56: (0, 3),  # AlterPartition
        62: (0, 1),  # BrokerRegistration
        67: (0, 0),  # AllocateProducerIds
    },
    features={
        "metadata.version": FeatureRange(min_level=1, max_level=11, new_cluster_level=11),
    },
)
"""The last line without verification of transactions. It is emulated with KRaft, where it has no
delegation tokens.
"""

RELEASE_3_6: Final = next_release(
    RELEASE_3_5,
    name="3.6",
    patch_release="3.6.2",
    api_versions={
        24: (0, 4),  # AddPartitionsToTxn
        38: (0, 3),  # CreateDelegationToken
        39: (0, 2),  # RenewDelegationToken
        40: (0, 2),  # ExpireDelegationToken
        41: (0, 3),  # DescribeDelegationToken
    },
    features={
        "metadata.version": FeatureRange(min_level=1, max_level=14, new_cluster_level=14),
    },
)
"""The first line that verifies transactions at the partition leader (KIP-890). Left out is
ConsumerGroupHeartbeat 0, which is unstable.
"""

RELEASE_3_7: Final = next_release(
    RELEASE_3_6,
    name="3.7",
    patch_release="3.7.2",
    api_versions={
        0: (0, 10),  # Produce
        1: (0, 16),  # Fetch
        8: (0, 9),  # OffsetCommit
        9: (0, 9),  # OffsetFetch
        60: (0, 1),  # DescribeCluster
        68: (0, 0),  # ConsumerGroupHeartbeat
        74: (0, 0),  # ListConfigResources
    },
    controller_api_versions={
        62: (0, 3),  # BrokerRegistration
        63: (0, 1),  # BrokerHeartbeat
    },
    features={
        "metadata.version": FeatureRange(min_level=1, max_level=19, new_cluster_level=19),
    },
)
"""The first line that lists the consumer protocol, and client metrics (KIP-714)."""

RELEASE_3_8: Final = next_release(
    RELEASE_3_7,
    name="3.8",
    patch_release="3.8.1",
    api_versions={
        0: (0, 11),  # Produce
        10: (0, 5),  # FindCoordinator
        16: (0, 5),  # ListGroups
        22: (0, 5),  # InitProducerId
        24: (0, 5),  # AddPartitionsToTxn
        25: (0, 4),  # AddOffsetsToTxn
        26: (0, 4),  # EndTxn
        28: (0, 4),  # TxnOffsetCommit
        66: (0, 1),  # ListTransactions
        69: (0, 0),  # ConsumerGroupDescribe
        75: (0, 0),  # DescribeTopicPartitions
    },
    features={
        "metadata.version": FeatureRange(min_level=1, max_level=20, new_cluster_level=20),
    },
)
"""The first line that has TRANSACTION_ABORTABLE."""

RELEASE_3_9: Final = next_release(
    RELEASE_3_8,
    name="3.9",
    patch_release="3.9.2",
    api_versions={
        1: (0, 17),  # Fetch
        2: (0, 9),  # ListOffsets
        10: (0, 6),  # FindCoordinator
        18: (0, 4),  # ApiVersions
        55: (0, 2),  # DescribeQuorum
        80: (0, 0),  # AddRaftVoter
        81: (0, 0),  # RemoveRaftVoter
    },
    controller_api_versions={62: (0, 4)},  # BrokerRegistration
    features={
        "kraft.version": FeatureRange(min_level=0, max_level=1, new_cluster_level=0),
        "metadata.version": FeatureRange(min_level=1, max_level=21, new_cluster_level=21),
    },
)
"""The last line before transactions v2."""

RELEASE_4_0: Final = next_release(
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
    controller_api_versions={56: (2, 3)},  # AlterPartition
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
"""The first line with transactions v2 (KIP-890's second part)."""

RELEASE_4_1: Final = next_release(
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

RELEASE_4_2: Final = next_release(
    RELEASE_4_1,
    name="4.2",
    patch_release="4.2.2",
    api_versions={
        2: (1, 11),  # ListOffsets
        8: (2, 10),  # OffsetCommit
        9: (1, 10),  # OffsetFetch
        27: (1, 2),  # WriteTxnMarkers
        78: (1, 2),  # ShareFetch
        79: (1, 2),  # ShareAcknowledge
        80: (0, 1),  # AddRaftVoter
        85: (0, 1),  # WriteShareGroupState
        87: (0, 1),  # ReadShareGroupStateSummary
        88: (0, 0),  # StreamsGroupHeartbeat
        89: (0, 0),  # StreamsGroupDescribe
        90: (0, 1),  # DescribeShareGroupOffsets
    },
    features={
        "metadata.version": FeatureRange(min_level=7, max_level=29, new_cluster_level=29),
        "share.version": FeatureRange(min_level=0, max_level=1, new_cluster_level=1),
        "streams.version": FeatureRange(min_level=0, max_level=1, new_cluster_level=1),
    },
)
"""The first line that checks the epochs of transaction v2 markers strictly (KIP-1228)."""

RELEASE_4_3: Final = next_release(
    RELEASE_4_2,
    name="4.3",
    patch_release="4.3.1",
    api_versions={
        35: (1, 5),  # DescribeLogDirs
    },
    controller_api_versions={63: (0, 2)},  # BrokerHeartbeat
    features={
        "metadata.version": FeatureRange(min_level=7, max_level=30, new_cluster_level=30),
    },
)

RELEASE_4_4: Final = next_release(
    RELEASE_4_3,
    name="4.4",
    patch_release="4.4.0",
    api_versions={
        18: (0, 5),  # ApiVersions
        28: (0, 6),  # TxnOffsetCommit
        42: (0, 3),  # DeleteGroups
        88: (0, 1),  # StreamsGroupHeartbeat
        89: (0, 1),  # StreamsGroupDescribe
        93: (0, 0),  # StreamsGroupTopologyDescriptionUpdate
        94: (0, 0),  # UnregisterController
    },
    features={
        "metadata.version": FeatureRange(min_level=7, max_level=33, new_cluster_level=33),
        "share.version": FeatureRange(min_level=0, max_level=2, new_cluster_level=2),
    },
)

RELEASE_4_5: Final = next_release(
    RELEASE_4_4,
    name="4.5",
    patch_release="4.5.0",
    api_versions={
        47: (0, 1),  # OffsetDelete
    },
    telemetry_version=1,
    is_released=False,
)
"""Apache Kafka's trunk, not released yet: what of it concerns transactions and groups. Its feature
levels are those of 4.4: which ones it will bring is not settled before it is released.
"""

RELEASES: Final = {
    release.name: release
    for release in (
        RELEASE_2_8,
        RELEASE_3_5,
        RELEASE_3_6,
        RELEASE_3_7,
        RELEASE_3_8,
        RELEASE_3_9,
        RELEASE_4_0,
        RELEASE_4_1,
        RELEASE_4_2,
        RELEASE_4_3,
        RELEASE_4_4,
        RELEASE_4_5,
    )
}
"""Name -> release, oldest first; the only list of releases. The last is the newest, which need not
be the reference.
"""

REFERENCE: Final = next(
    release for release in RELEASES.values() if release.patch_release == REFERENCE_VERSION
)
"""The release that brokers run by default. A real broker of this release decides what is right."""
