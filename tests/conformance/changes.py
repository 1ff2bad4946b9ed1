"""Changes of the cluster in the middle of a play: feature levels, topics, configs.

A change is answered before every broker has heard of it; ``tests.conformance.sides`` waits.
"""

from __future__ import annotations

from typing import Final

from tests.conformance.choices import Choices
from tests.conformance.model import PARTITIONS, World
from tests.conformance.operations import Operation, Values

LASTING: Final = {"segment.ms": str(2**63 - 1), "retention.ms": "-1"}
"""Records carry a time long past, which neither retention nor the rolling of segments must notice.
"""
VERIFICATION: Final = "transaction.partition.verification.enable"
TOPIC_CONFIGS: Final = (
    ("min.insync.replicas", "2"),
    ("max.message.bytes", "78"),
    ("message.timestamp.type", "LogAppendTime"),
    ("cleanup.policy", "compact"),
)
"""What a topic's config may be changed to; 78 bytes are one short record, or a marker."""
SET: Final = 0
DELETE: Final = 1


def update_features(
    choices: Choices | None, *, level_now: int, transaction_version: int
) -> Operation:
    """Another level of ``transaction.version``; version 0 can't lower it, and is drawn only."""
    update = {
        "feature": "transaction.version",
        "max_version_level": transaction_version,
        "upgrade_type": 1 if transaction_version > level_now else 2,
        "allow_downgrade": transaction_version < level_now,
    }
    return Operation(
        api="UpdateFeatures",
        version=1 if choices is None else choices.pick((1, 2, 0)),
        flow="raise" if transaction_version > level_now else "lower",
        mode=f"{level_now} to {transaction_version}",
        values={"timeout": 5_000, "feature_updates": [update]},
    )


def delete_topic(choices: Choices, topic: str) -> Operation:
    """A DeleteTopics request that names the topic."""
    return Operation(
        api="DeleteTopics",
        version=choices.between(1, 6),
        mode="by name",
        values={"topics": [{"name": topic}], "topic_names": [topic], "timeout": 5_000},
        partition=(topic, 0),
    )


def create_topic(choices: Choices, topic: str) -> Operation:
    """Create a topic of this name, though there is or was one."""
    new_topic = {
        "name": topic,
        "num_partitions": PARTITIONS,
        "replication_factor": 1,
        "configs": [
            {"name": name, "value": config_value} for name, config_value in LASTING.items()
        ],
    }
    return Operation(
        api="CreateTopics",
        version=choices.between(2, 7),
        mode="again",
        values={"topics": [new_topic], "timeout": 5_000},
        partition=(topic, 0),
    )


def create_partitions(choices: Choices, world: World, topic: str) -> Operation:
    """A CreatePartitions request for one more partition, or for the present number."""
    count = world.partitions[topic] + (0 if choices.rarely(5) else 1)
    return Operation(
        api="CreatePartitions",
        version=choices.between(0, 3),
        mode="more" if count > world.partitions[topic] else "as many",
        values={"topics": [{"name": topic, "count": count, "assignments": None}], "timeout": 5_000},
        partition=(topic, 0),
    )


def alter_topic(topic: str, name: str, config_value: str | None) -> Operation:
    """A request that sets a config of a topic, or deletes it."""
    return _alter(2, topic, name, config_value)


def alter_verification(*, is_enabled: bool) -> Operation:
    """Switch the verification of Produce on or off, for all brokers (KIP-890)."""
    return _alter(4, "", VERIFICATION, None if is_enabled else "false")


def _alter(resource_type: int, resource_name: str, key: str, config_value: str | None) -> Operation:
    change: Values = {
        "name": key,
        "config_operation": DELETE if config_value is None else SET,
        "value": config_value,
    }
    resource = {"resource_type": resource_type, "resource_name": resource_name, "configs": [change]}
    return Operation(
        api="IncrementalAlterConfigs",
        version=1,
        flow="topic" if resource_type == 2 else "broker",
        mode=f"{key}={config_value}",
        values={"resources": [resource]},
        partition=(resource_name, 0) if resource_type == 2 else None,
    )
