"""Keys and values of ``__consumer_offsets``; kio has no classes for log records.

A record begins with two more bytes: the kind in a key, the version in a value. Kafka's
counterparts: OffsetCommitKey.json, OffsetCommitValue.json, GroupMetadataKey.json,
GroupMetadataValue.json.
"""

from typing import Any, Final

from txnsim.wire._declared_messages import message, versions

OffsetCommitKey: Final[Any] = message(
    "OffsetCommitKey",
    "Whose position, and where (kinds 0 and 1).",
    "group string",
    "topic string",
    "partition int32",
    is_flexible=False,
)
OFFSET_COMMIT_VALUES: Final = versions(
    "OffsetCommitValue",
    "A position; with a time of expiry of its own only where the commit asked for one.",
    "offset int64",
    "leader_epoch int32 3+ = -1",
    "metadata string",
    "commit_timestamp int64",
    "expire_timestamp int64 1 = -1",
    "topic_id uuid 4+ tag 0 = None",
    flexible_since=4,
    newest_version=4,
)
GroupMetadataKey: Final[Any] = message(
    "GroupMetadataKey", "Which classic group (kind 2).", "group string", is_flexible=False
)
MEMBER_METADATA_VALUES: Final = versions(
    "MemberMetadata",
    "A member: with a rebalance timeout since version 1, static since version 3.",
    "member_id string",
    "group_instance_id string? 3+ = None",
    "client_id string",
    "client_host string",
    "rebalance_timeout int32 1+ = -1",
    "session_timeout int32",
    "subscription bytes",
    "assignment bytes",
    flexible_since=4,
    newest_version=4,
)
GROUP_METADATA_VALUES: Final = versions(
    "GroupMetadataValue",
    "A generation of a classic group.",
    "protocol_type string",
    "generation int32",
    "protocol string?",
    "leader string?",
    "current_state_timestamp int64 2+ = -1",
    "members []Member",
    flexible_since=4,
    newest_version=4,
    types={"Member": MEMBER_METADATA_VALUES},
)
