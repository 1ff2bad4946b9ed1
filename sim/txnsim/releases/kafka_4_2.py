"""Apache Kafka 4.2, the first line with strict markers of transactions v2 (KIP-1228).

The ranges are those of 4.2.1, recorded from the message specifications in its clients' jar. Left
out: versions it marks unstable (InitProducerId 6), and the telemetry APIs 71 and 72 (KIP-714),
which need a plugin.
"""

from __future__ import annotations

from typing import Final

from txnsim.releases.kafka_4_1 import RELEASE_4_1
from txnsim.releases.release import FeatureRange, after

RELEASE_4_2: Final = after(
    RELEASE_4_1,
    name="4.2",
    patch_release="4.2.1",
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
