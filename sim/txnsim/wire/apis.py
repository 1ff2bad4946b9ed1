"""The table of APIs: Kafka's name of each key, and its first version with the flexible encoding.

Plain data, so that a request header can be read before any schema is loaded (since KIP-482 headers
depend on the version). Kafka's counterparts are ``ApiKeys`` and
``ApiMessageType.requestHeaderVersion``. A test compares this table with the schemas.
"""

from __future__ import annotations

from typing import Final

FETCH: Final = 1
FETCHES: Final = frozenset({FETCH, 78})
"""API keys of Fetch and ShareFetch, whose responses have batches from logs."""
API_VERSIONS: Final = 18
END_TXN: Final = 26

APIS: Final[dict[int, tuple[str, int | None]]] = {
    0: ("Produce", 9),
    1: ("Fetch", 12),
    2: ("ListOffsets", 6),
    3: ("Metadata", 9),
    8: ("OffsetCommit", 8),
    9: ("OffsetFetch", 6),
    10: ("FindCoordinator", 3),
    11: ("JoinGroup", 6),
    12: ("Heartbeat", 4),
    13: ("LeaveGroup", 4),
    14: ("SyncGroup", 4),
    15: ("DescribeGroups", 5),
    16: ("ListGroups", 3),
    17: ("SaslHandshake", None),
    18: ("ApiVersions", 3),
    19: ("CreateTopics", 5),
    20: ("DeleteTopics", 4),
    21: ("DeleteRecords", 2),
    22: ("InitProducerId", 2),
    23: ("OffsetForLeaderEpoch", 4),
    24: ("AddPartitionsToTxn", 3),
    25: ("AddOffsetsToTxn", 3),
    26: ("EndTxn", 3),
    27: ("WriteTxnMarkers", 1),
    28: ("TxnOffsetCommit", 3),
    29: ("DescribeAcls", 2),
    30: ("CreateAcls", 2),
    31: ("DeleteAcls", 2),
    32: ("DescribeConfigs", 4),
    33: ("AlterConfigs", 2),
    34: ("AlterReplicaLogDirs", 2),
    35: ("DescribeLogDirs", 2),
    36: ("SaslAuthenticate", 2),
    37: ("CreatePartitions", 2),
    38: ("CreateDelegationToken", 2),
    39: ("RenewDelegationToken", 2),
    40: ("ExpireDelegationToken", 2),
    41: ("DescribeDelegationToken", 2),
    42: ("DeleteGroups", 2),
    43: ("ElectLeaders", 2),
    44: ("IncrementalAlterConfigs", 1),
    45: ("AlterPartitionReassignments", 0),
    46: ("ListPartitionReassignments", 0),
    47: ("OffsetDelete", 1),
    48: ("DescribeClientQuotas", 1),
    49: ("AlterClientQuotas", 1),
    50: ("DescribeUserScramCredentials", 0),
    51: ("AlterUserScramCredentials", 0),
    52: ("Vote", 0),
    53: ("BeginQuorumEpoch", 1),
    54: ("EndQuorumEpoch", 1),
    55: ("DescribeQuorum", 0),
    56: ("AlterPartition", 2),
    57: ("UpdateFeatures", 0),
    58: ("Envelope", 0),
    59: ("FetchSnapshot", 0),
    60: ("DescribeCluster", 0),
    61: ("DescribeProducers", 0),
    62: ("BrokerRegistration", 0),
    63: ("BrokerHeartbeat", 0),
    64: ("UnregisterBroker", 0),
    65: ("DescribeTransactions", 0),
    66: ("ListTransactions", 0),
    67: ("AllocateProducerIds", 0),
    68: ("ConsumerGroupHeartbeat", 0),
    69: ("ConsumerGroupDescribe", 0),
    70: ("ControllerRegistration", 0),
    71: ("GetTelemetrySubscriptions", 0),
    72: ("PushTelemetry", 0),
    73: ("AssignReplicasToDirs", 0),
    74: ("ListConfigResources", 0),
    75: ("DescribeTopicPartitions", 0),
    76: ("ShareGroupHeartbeat", 1),
    77: ("ShareGroupDescribe", 1),
    78: ("ShareFetch", 1),
    79: ("ShareAcknowledge", 1),
    80: ("AddRaftVoter", 0),
    81: ("RemoveRaftVoter", 0),
    82: ("UpdateRaftVoter", 0),
    83: ("InitializeShareGroupState", 0),
    84: ("ReadShareGroupState", 0),
    85: ("WriteShareGroupState", 0),
    86: ("DeleteShareGroupState", 0),
    87: ("ReadShareGroupStateSummary", 0),
    88: ("StreamsGroupHeartbeat", 0),
    89: ("StreamsGroupDescribe", 0),
    90: ("DescribeShareGroupOffsets", 0),
    91: ("AlterShareGroupOffsets", 0),
    92: ("DeleteShareGroupOffsets", 0),
    93: ("StreamsGroupTopologyDescriptionUpdate", 0),
}
"""API key -> (Kafka's name, first flexible version or None)."""

NEVER: Final = 1 << 15
"""A number above every version."""

FLEXIBLE_FROM: Final = {
    key: NEVER if flexible_from is None else flexible_from
    for key, (_, flexible_from) in APIS.items()
}
"""API key -> first flexible version, which has request header v2 or v3."""

HEADER_V3_FROM: Final = {
    47: 1,  # OffsetDelete
    71: 1,  # GetTelemetrySubscriptions
    72: 1,  # PushTelemetry
}
"""API key -> first version with request header v3, which may have a client instance id (KIP-1313,
``headerVersions`` of the message files). All come with 4.5.
"""

RESPONSE_HEADER_V1_FROM: Final = {**FLEXIBLE_FROM, API_VERSIONS: NEVER}
"""API key -> first version with response header v1, which ApiVersions never has.

A client that asks for a version that the broker does not know must still be able to read the
response (``ApiMessageType.responseHeaderVersion``).
"""


def api_name(api_key: int) -> str:
    """Kafka's name of an API, such as ``EndTxn``; ``ApiKey(n)`` for an unknown key."""
    name_and_flexible_version = APIS.get(api_key)
    return (
        name_and_flexible_version[0]
        if name_and_flexible_version is not None
        else f"ApiKey({api_key})"
    )


def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether that version has compact encodings and tagged fields; False for unknown keys."""
    return api_version >= FLEXIBLE_FROM.get(api_key, NEVER)
