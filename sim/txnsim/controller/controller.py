"""The controller's decisions: topics, partitions, configs, features, leaders. Pure.

Each function takes the image and a change, and returns the new image and the answer for each item.
A refused item changes nothing. The shell that publishes images is
``node.metadata_publisher``. Kafka's counterparts: ReplicationControlManager,
ConfigurationControlManager, FeatureControlManager.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from itertools import chain, product
from math import lcm
from typing import Final

import msgspec

from txnsim.controller.replica_placement import Usable, bad_assignment, new_assignment_refusal
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata import configs
from txnsim.metadata.config_keys import TOPIC_CONFIGS, ConfigKey, ConfigType
from txnsim.metadata.image import (
    ELIGIBLE_LEADER_REPLICAS,
    KRAFT_VERSION,
    TRANSACTION_VERSION,
    BrokerImage,
    ClusterImage,
    TopicImage,
)
from txnsim.releases import Fleet
from txnsim.settings import Settings, replicas_wanted
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    INTERNAL_TOPICS,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    LeaderEpoch,
    TopicPartition,
)

DEVIATIONS: Final = (
    "Where transaction.state.log.replication.factor, transaction.state.log.min.isr, "
    "share.coordinator.state.topic.replication.factor, share.coordinator.state.topic.min.isr or"
    " offsets.topic.replication.factor is not set, the logs of coordinators have at most as many"
    " replicas, and ask for at most as many in sync, as there are brokers; Apache Kafka does not"
    " make them before there are enough. What is set is obeyed as there.",
)

_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""Number of partitions that one CreateTopics may create
(ReplicationControlManager.MAX_PARTITIONS_PER_BATCH).
"""
RECORDS_MAX: Final = 10_000
"""Number of metadata records that one request may write
(QuorumController.MAX_RECORDS_PER_USER_OP).
"""
INT_MAX: Final = 2_147_483_647
CONFIG_VALUE_MAX: Final = 32_767
"""Greatest length of a config's value: Java's Short.MAX_VALUE."""


class TopicToCreate(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of CreateTopics; -1 stands for the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[BrokerId, ...]], ...] = ()
    """(partition, replicas) as in the request."""
    configs: Mapping[str, str | None] = {}


class ConfigOperation(IntEnum):
    """Operations of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigEntryChange(msgspec.Struct, frozen=True, kw_only=True):
    """One operation on one config."""

    name: str
    operation: ConfigOperation
    value: str | None


def initial_image(
    *,
    cluster_id: str,
    brokers: tuple[BrokerImage, ...],
    transaction_version: int,
    min_insync_replicas: int = 1,
    fleet: Fleet | None = None,
) -> ClusterImage:
    """The metadata of a freshly formatted cluster, at levels that all of its brokers support."""
    image = ClusterImage(cluster_id=cluster_id)
    for broker in brokers:
        image = image.with_broker(broker)
    levels = (fleet or Fleet()).new_cluster_levels(broker.broker_id for broker in brokers)
    if levels.get(ELIGIBLE_LEADER_REPLICAS):
        # Eligible leader replicas need one minimum for the whole cluster, so their feature pins it
        # as a dynamic config (KIP-966, ConfigurationControlManager.maybeGenerateElrSafetyRecords).
        image = image.with_broker_configs("", {"min.insync.replicas": str(min_insync_replicas)})
    # A quorum with a fixed list of voters stays at kraft.version 0 (KIP-853).
    chosen = {TRANSACTION_VERSION: transaction_version, KRAFT_VERSION: 0}
    for name, level in levels.items():
        image = image.with_feature(name, min(level, chosen.get(name, level)))
    return image


# Topics


def batch_refusal(topics: Sequence[TopicToCreate], settings: Settings) -> Rejection | None:
    """The error for too many partitions (validateTotalNumberOfPartitions), or None."""
    total = 0
    for topic in topics:
        if topic.assignments:
            total += len(topic.assignments)
        elif topic.partitions <= 0:
            total += settings.num_partitions
        else:
            total += topic.partitions
        if total > INT_MAX:
            # Math.addExact: an ArithmeticException, which has no error code of its own.
            return Rejection(error=ErrorCode.unknown_server_error, reason="")
    if total > PARTITIONS_PER_REQUEST_MAX:
        return Rejection(
            error=ErrorCode.policy_violation,
            reason="Excessively large number of partitions per request.",
        )
    return None


def records_of(topic: TopicImage) -> int:
    """Number of metadata records for a topic: itself, its partitions, its configs."""
    return 1 + len(topic.partitions) + len(topic.configs)


TOO_MANY_RECORDS: Final = Rejection(
    error=ErrorCode.policy_violation,
    reason="Unable to perform excessively large batch operation.",
)
"""The answer for every topic of a request that would take more than ``RECORDS_MAX``."""


def name_complaint(name: str) -> str | None:
    """Why a topic can't have that name (Kafka's Topic.validate); None if it can."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > 249:
        return f"the length of '{name}' is longer than the max allowed length 249"
    if _TOPIC_NAME.fullmatch(name) is None:
        return (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


_TOPIC_WEIGHT: Final = 4
"""Weight of creating a topic, in elements of a request."""


def create_topics(
    image: ClusterImage,
    topics: Sequence[TopicToCreate],
    *,
    settings: Settings,
    new_topic_id: Callable[[], uuid.UUID],
    keys: Mapping[str, ConfigKey] = TOPIC_CONFIGS,
) -> list[TopicImage | Rejection]:
    """Create each topic or return its error; none if there are too many
    (ReplicationControlManager.createTopics).
    """
    steps = create_topics_in_steps(
        image, topics, settings=settings, new_topic_id=new_topic_id, keys=keys
    )
    while True:
        try:
            next(steps)
        except StopIteration as end:
            outcomes: list[TopicImage | Rejection] = end.value
            return outcomes


def create_topics_in_steps(
    image: ClusterImage,
    topics: Sequence[TopicToCreate],
    *,
    settings: Settings,
    new_topic_id: Callable[[], uuid.UUID],
    keys: Mapping[str, ConfigKey] = TOPIC_CONFIGS,
) -> Generator[int, None, list[TopicImage | Rejection]]:
    """``create_topics`` topic by topic; each step yields its weight."""
    refusal = batch_refusal(topics, settings)
    if refusal is not None:
        return [refusal] * len(topics)
    names, usable = _Names(image), Usable(image)
    outcomes: list[TopicImage | Rejection] = []
    records = 0
    for topic in topics:
        outcome = _create_topic(image, names, usable, topic, settings, new_topic_id, keys)
        outcomes.append(outcome)
        if isinstance(outcome, TopicImage):
            names.add(topic.name)
            records += records_of(outcome)
            if records > RECORDS_MAX:
                return [TOO_MANY_RECORDS] * len(topics)
        yield _TOPIC_WEIGHT
    return outcomes


def still_holds(
    outcomes: Sequence[TopicImage | Rejection], image_before: ClusterImage, image_now: ClusterImage
) -> bool:
    """Whether a decision to create topics still holds in a later image: it must have the same
    brokers, and no new topic with a colliding name.
    """
    if image_now.brokers is not image_before.brokers:
        return False
    new_names = set(map(_metric_name, image_now.topics.keys() - image_before.topics.keys()))
    return not new_names or not any(
        isinstance(outcome, TopicImage) and _metric_name(outcome.name) in new_names
        for outcome in outcomes
    )


def _create_topic(
    image: ClusterImage,
    names: _Names,
    usable: Usable,
    topic: TopicToCreate,
    settings: Settings,
    new_topic_id: Callable[[], uuid.UUID],
    keys: Mapping[str, ConfigKey] = TOPIC_CONFIGS,
) -> TopicImage | Rejection:
    refusal = _name_refusal(names, topic.name) or _config_refusal(topic.configs, keys)
    if refusal is not None:
        return refusal
    replicas = (
        _manual_replicas(image, topic)
        if topic.assignments
        else _place_replicas(usable, topic, settings, start=names.count)
    )
    if isinstance(replicas, Rejection):
        return replicas
    fresh = usable.fresh
    return TopicImage(
        name=topic.name,
        topic_id=new_topic_id(),
        partitions=tuple(fresh[brokers] for brokers in replicas),
        configs={name: value for name, value in topic.configs.items() if value is not None},
        is_internal=topic.name in INTERNAL_TOPICS,
    )


class _Names:
    """Topic names in use, including the new topics of the same request."""

    def __init__(self, image: ClusterImage) -> None:
        self._topics = image.topics
        self._added: set[str] = set()

    @property
    def count(self) -> int:
        return len(self._topics) + len(self._added)

    def add(self, name: str) -> None:
        self._added.add(name)

    def __contains__(self, name: str) -> bool:
        return name in self._topics or name in self._added

    def like(self, name: str) -> str | None:
        """Another topic whose metrics would have the same name (Topic.hasCollision); None if there
        is none.
        """
        marks = sum(map(name.count, _MARKS))
        if marks > _MARKS_MAX:
            folded = _metric_name(name)
            return next(
                (
                    topic_name
                    for topic_name in chain(self._topics, self._added)
                    if _metric_name(topic_name) == folded
                ),
                None,
            )
        parts = _MARK.split(name)
        for chosen in product(_MARKS, repeat=marks):
            candidate = "".join(chain.from_iterable(zip(parts, (*chosen, ""), strict=True)))
            if candidate in self:
                return candidate
        return None


_MARKS: Final = "._"
_MARK: Final = re.compile("[._]")
_MARKS_MAX: Final = 6
"""Number of dots and underscores in a name up to which its variants are looked up; above it all
topics are compared.
"""


def _metric_name(name: str) -> str:
    """The name with ``_`` for each ``.``, as in metric names."""
    return name.replace(".", "_")


def internal_topic(
    name: str, *, image: ClusterImage, settings: Settings, brokers: int | None = None
) -> TopicToCreate:
    """The topic that auto-creation creates; internal topics have their own settings
    (AutoTopicCreationManager). ``brokers`` is their number, if it is not that of the image.
    """
    replica_count = partial(replicas_wanted, settings, broker_count=brokers or len(image.brokers))
    if name == TRANSACTION_STATE_TOPIC:
        return TopicToCreate(
            name=name,
            partitions=settings.transaction_state_log_num_partitions,
            replication_factor=replica_count("transaction_state_log_replication_factor"),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "unclean.leader.election.enable": "false",
                "min.insync.replicas": str(replica_count("transaction_state_log_min_isr")),
                "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            },
        )
    if name == CONSUMER_OFFSETS_TOPIC:
        return TopicToCreate(
            name=name,
            partitions=settings.offsets_topic_num_partitions,
            replication_factor=replica_count("offsets_topic_replication_factor"),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
            },
        )
    if name == SHARE_STATE_TOPIC:
        return TopicToCreate(
            name=name,
            partitions=settings.share_coordinator_state_topic_num_partitions,
            replication_factor=replica_count("share_coordinator_state_topic_replication_factor"),
            configs={
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(replica_count("share_coordinator_state_topic_min_isr")),
                "retention.ms": "-1",
                "segment.bytes": str(settings.share_coordinator_state_topic_segment_bytes),
            },
        )
    return TopicToCreate(name=name)


def _name_refusal(names: _Names, name: str) -> Rejection | None:
    why = name_complaint(name)
    if why is not None:
        return Rejection(
            error=ErrorCode.invalid_topic_exception, reason=f"Topic name is invalid: {why}"
        )
    if name == "__cluster_metadata":
        return Rejection(
            error=ErrorCode.invalid_request,
            reason=f"Creation of internal topic {name} is prohibited.",
        )
    if name in names:
        return Rejection(
            error=ErrorCode.topic_already_exists, reason=f"Topic '{name}' already exists."
        )
    similar_name = names.like(name)
    if similar_name is not None:
        return Rejection(
            error=ErrorCode.invalid_topic_exception,
            reason=f"Topic '{name}' collides with existing topic: {similar_name}",
        )
    return None


def _config_refusal(
    topic_configs: Mapping[str, str | None], keys: Mapping[str, ConfigKey]
) -> Rejection | None:
    for name, value in topic_configs.items():
        too_long = _too_long(value)
        if too_long is not None:
            return too_long
        why = (
            f"Null value not supported for topic configs: {name}"
            if value is None
            else configs.topic_complaint(name, value, keys)
        )
        if why is not None:
            return Rejection(error=ErrorCode.invalid_config, reason=why)
    return None


def _manual_replicas(
    image: ClusterImage, topic: TopicToCreate
) -> list[tuple[BrokerId, ...]] | Rejection:
    if topic.replication_factor != -1:
        return Rejection(
            error=ErrorCode.invalid_request,
            reason="A manual partition assignment was specified, but replication factor was not "
            "set to -1.",
        )
    if topic.partitions != -1:
        return Rejection(
            error=ErrorCode.invalid_request,
            reason="A manual partition assignment was specified, but numPartitions was not set to "
            "-1.",
        )
    assignments: dict[int, tuple[BrokerId, ...]] = {}
    for index, brokers in topic.assignments:
        if index in assignments:
            return bad_assignment(
                f"Found multiple manual partition assignments for partition {index}"
            )
        assignments[index] = brokers
    replicas: list[tuple[BrokerId, ...]] = []
    for index in range(len(assignments)):
        if index not in assignments:
            return bad_assignment("partitions should be a consecutive 0-based integer sequence")
        brokers = assignments[index]
        refusal = new_assignment_refusal(
            image, brokers, index, len(replicas[0]) if replicas else None
        )
        if refusal is not None:
            return refusal
        replicas.append(tuple(brokers))
    return replicas


def _place_replicas(
    usable_for: Usable, topic: TopicToCreate, settings: Settings, *, start: int
) -> list[tuple[BrokerId, ...]] | Rejection:
    if topic.replication_factor != -1 and topic.replication_factor <= 0:
        return Rejection(
            error=ErrorCode.invalid_replication_factor,
            reason="Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.partitions != -1 and topic.partitions <= 0:
        return Rejection(
            error=ErrorCode.invalid_partitions,
            reason="Number of partitions was set to an invalid non-positive value.",
        )
    count = settings.num_partitions if topic.partitions == -1 else topic.partitions
    factor = (
        settings.default_replication_factor
        if topic.replication_factor == -1
        else topic.replication_factor
    )
    usable = usable_for[factor]
    if isinstance(usable, Rejection):
        return usable
    # Leaders go round the brokers; each topic starts one further, so that single-partition topics
    # spread too.
    turn = lcm(len(usable.active), max(len(usable.fenced), 1))
    places = [usable.choose_replicas(start + index, factor) for index in range(min(count, turn))]
    return [places[index % turn] for index in range(count)]


# Leaders


def move_leader(
    image: ClusterImage, topic_partition: TopicPartition, leader: BrokerId | None
) -> tuple[ClusterImage, BrokerId] | Rejection:
    """Make an in-sync replica the leader under the next leader epoch: the named one, or else the
    first other live one.
    """
    partition = image.partition(topic_partition)
    if partition is None:
        return Rejection(
            error=ErrorCode.unknown_topic_or_partition, reason=f"{topic_partition} does not exist"
        )
    able = [
        broker_id
        for broker_id in partition.replicas
        if broker_id in partition.isr and image.is_active(broker_id)
    ]
    candidates = [
        broker_id
        for broker_id in able
        if broker_id == leader or (leader is None and broker_id != partition.leader)
    ]
    if not candidates:
        lacking = "no other replica" if leader is None else f"broker {leader} is no replica that"
        return Rejection(
            error=ErrorCode.eligible_leaders_not_available,
            reason=f"{topic_partition}: {lacking} is in sync and lives",
        )
    moved = msgspec.structs.replace(
        partition,
        leader=candidates[0],
        leader_epoch=LeaderEpoch(partition.leader_epoch + 1),
        partition_epoch=partition.partition_epoch + 1,
        last_known_elr=(),
    )
    return image.with_partition(topic_partition, moved), candidates[0]


# Configs


def altered_configs(
    current: Mapping[str, str],
    changes: tuple[ConfigEntryChange, ...],
    keys: Mapping[str, ConfigKey],
) -> dict[str, str] | Rejection:
    """The configs of a topic or broker after IncrementalAlterConfigs' operations, or why not
    (ConfigurationControlManager).
    """
    result = changed_configs(current, changes, keys)
    if isinstance(result, Rejection):
        return result
    is_topic = keys is not configs.BROKER_CONFIGS
    error = ErrorCode.invalid_config if is_topic else ErrorCode.invalid_request
    for change in changes:
        value = result.get(change.name)
        if value is None:
            continue
        if is_topic:
            why = configs.topic_complaint(change.name, value, keys)
        else:
            if change.operation is ConfigOperation.APPEND:
                value = _appended_by_broker(current, change, keys)
            why = configs.broker_complaint(change.name, value)
        if why is not None:
            return Rejection(error=error, reason=why)
    return result


def _appended_by_broker(
    current: Mapping[str, str], change: ConfigEntryChange, keys: Mapping[str, ConfigKey]
) -> str:
    """A broker's list config as the broker validates an APPEND before the controller applies it:
    with all items that it did not have, including repeated ones
    (ConfigAdminManager.prepareIncrementalConfigs).
    """
    items = split_list(current.get(change.name, keys[change.name].default))
    added = [element for element in split_list(change.value or "") if element not in items]
    return ",".join([*items, *added])


def changed_configs(
    current: Mapping[str, str],
    changes: tuple[ConfigEntryChange, ...],
    keys: Mapping[str, ConfigKey],
) -> dict[str, str] | Rejection:
    """``altered_configs`` for any resource, without checking the resulting configs."""
    result = dict(current)
    if len({change.name for change in changes}) != len(changes):
        return Rejection(
            error=ErrorCode.invalid_request,
            reason="Error due to duplicate config keys",
        )
    nulls = [
        change.name
        for change in changes
        if change.value is None and change.operation is not ConfigOperation.DELETE
    ]
    if nulls:
        return Rejection(
            error=ErrorCode.invalid_request,
            reason=f"Null value not supported for : {', '.join(nulls)}",
        )
    for change in changes:
        value = _too_long(change.value) or _changed_value(result, change, keys)
        if not isinstance(value, Rejection):
            value = _too_long(value) or value
        if isinstance(value, Rejection):
            return value
        if value is None:
            result.pop(change.name, None)
        else:
            result[change.name] = value
    return result


def _too_long(value: str | None) -> Rejection | None:
    """The error for a value that is too long for a metadata record (ConfigurationControlManager,
    DISALLOWED_CONFIG_VALUE_SIZE_ERROR). Java counts UTF-16 units.
    """
    length = 0 if value is None else len(value)
    if value is not None and CONFIG_VALUE_MAX // 2 < length <= CONFIG_VALUE_MAX:
        length = len(value.encode("utf-16-le", "surrogatepass")) // 2
    if length <= CONFIG_VALUE_MAX:
        return None
    return Rejection(
        error=ErrorCode.invalid_config,
        reason="The configuration value cannot be added because it exceeds the maximum value size"
        f" of {CONFIG_VALUE_MAX} bytes.",
    )


def _changed_value(
    current: Mapping[str, str], change: ConfigEntryChange, keys: Mapping[str, ConfigKey]
) -> str | Rejection | None:
    if change.operation is ConfigOperation.DELETE or change.value is None:
        return None
    if change.operation is ConfigOperation.SET:
        return change.value
    key = keys.get(change.name)
    if key is None or key.type is not ConfigType.LIST:
        return Rejection(
            error=ErrorCode.invalid_config,
            reason=(
                f"Can't {change.operation.name} to key {change.name} because its type is not LIST."
            ),
        )
    items = [element for element in split_list(current.get(change.name, key.default)) if element]
    for element in split_list(change.value):
        if change.operation is ConfigOperation.SUBTRACT:
            if element in items:
                items.remove(element)
        elif element not in items:
            items.append(element)
    return ",".join(items)


def split_list(value: str) -> list[str]:
    """Split like Java's ``String.split(",")``: without empty items at the end. A text without a
    comma is one item, even if it is empty (ConfigurationControlManager.incrementalAlterConfigs).
    """
    if "," not in value:
        return [value]
    items = value.split(",")
    while items and not items[-1]:
        items.pop()
    return items
