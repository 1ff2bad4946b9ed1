"""Keys and values of ``__share_group_state`` (KIP-932); kio has no classes for log records.

Kafka's counterparts: ShareSnapshotKey.json, ShareSnapshotValue.json, ShareUpdateValue.json; the key
of an update has the same fields. Values are of version 0 and flexible, keys are not.
"""

from typing import Any, Final

from txnsim.wire._declared_messages import message

ShareKey: Final[Any] = message(
    "ShareKey",
    "Which share partition (kinds 0 and 1).",
    "group_id string",
    "topic_id uuid",
    "partition int32",
    is_flexible=False,
)
StateBatch: Final[Any] = message(
    "StateBatch",
    "The state of a range of offsets.",
    "first_offset int64",
    "last_offset int64",
    "delivery_state int8",
    "delivery_count int16",
)
ShareSnapshotValue: Final[Any] = message(
    "ShareSnapshotValue",
    "The whole state (kind 0).",
    "snapshot_epoch int32",
    "state_epoch int32",
    "leader_epoch int32",
    "start_offset int64",
    "delivery_complete_count int32 tag 0 = -1",
    "create_timestamp int64",
    "write_timestamp int64",
    "state_batches []Batch",
    types={"Batch": StateBatch},
)
ShareUpdateValue: Final[Any] = message(
    "ShareUpdateValue",
    "What has changed since (kind 1).",
    "snapshot_epoch int32",
    "leader_epoch int32",
    "start_offset int64",
    "delivery_complete_count int32 tag 0 = -1",
    "state_batches []Batch",
    types={"Batch": StateBatch},
)
