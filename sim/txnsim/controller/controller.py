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

from txnsim.controller.replica_placement import (
    UsableByFactor,
    bad_assignment,
    new_assignment_refusal,
)
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
from txnsim.metadata.settings_table import UpdateMode
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

_TOPIC_NAME_RE: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
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
    partition_count: int = -1
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
    level_by_feature = (fleet or Fleet()).new_cluster_levels(broker.broker_id for broker in brokers)
    if level_by_feature.get(ELIGIBLE_LEADER_REPLICAS):
        # Eligible leader replicas need one minimum for the whole cluster, so their feature pins it
        # as a dynamic config (KIP-966, ConfigurationControlManager.maybeGenerateElrSafetyRecords).
        image = image.with_broker_configs("", {"min.insync.replicas": str(min_insync_replicas)})
    # A quorum with a fixed list of voters stays at kraft.version 0 (KIP-853).
    chosen_levels = {TRANSACTION_VERSION: transaction_version, KRAFT_VERSION: 0}
    for feature_name, level in level_by_feature.items():
        image = image.with_feature(feature_name, min(level, chosen_levels.get(feature_name, level)))
    return image


# Topics


def batch_refusal(topics: Sequence[TopicToCreate], settings: Settings) -> Rejection | None:
    """The error for too many partitions (validateTotalNumberOfPartitions), or None."""
    partition_total = 0
    for topic in topics:
        if topic.assignments:
            partition_total += len(topic.assignments)
        elif topic.partition_count <= 0:
            partition_total += settings.num_partitions
        else:
            partition_total += topic.partition_count
        if partition_total > INT_MAX:
            # Math.addExact: an ArithmeticException, which has no error code of its own.
            return Rejection(error=ErrorCode.unknown_server_error, reason="")
    if partition_total > PARTITIONS_PER_REQUEST_MAX:
        return Rejection(
            error=ErrorCode.policy_violation,
            reason="Excessively large number of partitions per request.",
        )
    return None


def record_count_of(topic: TopicImage) -> int:
    """Number of metadata records for a topic: itself, its partitions, its configs."""
    return 1 + len(topic.partitions) + len(topic.configs)


TOO_MANY_RECORDS: Final = Rejection(
    error=ErrorCode.policy_violation,
    reason="Unable to perform excessively large batch operation.",
)
"""The answer for every topic of a request that would take more than ``RECORDS_MAX``."""


def name_complaint(topic_name: str) -> str | None:
    """Why a topic can't have that name (Kafka's Topic.validate); None if it can."""
    if not topic_name:
        return "the empty string is not allowed"
    if topic_name in (".", ".."):
        return f"'{topic_name}' is not allowed"
    if len(topic_name) > 249:
        return f"the length of '{topic_name}' is longer than the max allowed length 249"
    if _TOPIC_NAME_RE.fullmatch(topic_name) is None:
        return (
            f"'{topic_name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


_ELEMENTS_PER_TOPIC: Final = 4
"""Weight of creating a topic, in elements of a request."""


def create_topics(
    image: ClusterImage,
    topics: Sequence[TopicToCreate],
    *,
    settings: Settings,
    new_topic_id: Callable[[], uuid.UUID],
    key_by_name: Mapping[str, ConfigKey] = TOPIC_CONFIGS,
) -> list[TopicImage | Rejection]:
    """Create each topic or return its error; none if there are too many
    (ReplicationControlManager.createTopics).
    """
    creation_steps = create_topics_in_steps(
        image, topics, settings=settings, new_topic_id=new_topic_id, key_by_name=key_by_name
    )
    while True:
        try:
            next(creation_steps)
        except StopIteration as end:
            creation_outcomes: list[TopicImage | Rejection] = end.value
            return creation_outcomes


def create_topics_in_steps(
    image: ClusterImage,
    topics: Sequence[TopicToCreate],
    *,
    settings: Settings,
    new_topic_id: Callable[[], uuid.UUID],
    key_by_name: Mapping[str, ConfigKey] = TOPIC_CONFIGS,
) -> Generator[int, None, list[TopicImage | Rejection]]:
    """``create_topics`` topic by topic; each step yields its weight."""
    refusal = batch_refusal(topics, settings)
    if refusal is not None:
        return [refusal] * len(topics)
    topic_names, usable_by_factor = _TopicNames(image), UsableByFactor(image)
    creation_outcomes: list[TopicImage | Rejection] = []
    record_total = 0
    for topic in topics:
        creation_outcome = _create_topic(
            image, topic_names, usable_by_factor, topic, settings, new_topic_id, key_by_name
        )
        creation_outcomes.append(creation_outcome)
        if isinstance(creation_outcome, TopicImage):
            topic_names.add(topic.name)
            record_total += record_count_of(creation_outcome)
            if record_total > RECORDS_MAX:
                return [TOO_MANY_RECORDS] * len(topics)
        yield _ELEMENTS_PER_TOPIC
    return creation_outcomes


def is_decision_valid(
    creation_outcomes: Sequence[TopicImage | Rejection],
    image_before: ClusterImage,
    image_now: ClusterImage,
) -> bool:
    """Whether a decision to create topics still holds in a later image: it must have the same
    brokers, and no new topic with a colliding name.
    """
    if image_now.brokers is not image_before.brokers:
        return False
    new_names = set(map(_metric_name, image_now.topics.keys() - image_before.topics.keys()))
    return not new_names or not any(
        isinstance(outcome, TopicImage) and _metric_name(outcome.name) in new_names
        for outcome in creation_outcomes
    )


def _create_topic(
    image: ClusterImage,
    topic_names: _TopicNames,
    usable_by_factor: UsableByFactor,
    topic: TopicToCreate,
    settings: Settings,
    new_topic_id: Callable[[], uuid.UUID],
    key_by_name: Mapping[str, ConfigKey] = TOPIC_CONFIGS,
) -> TopicImage | Rejection:
    refusal = _name_refusal(topic_names, topic.name) or _config_refusal(topic.configs, key_by_name)
    if refusal is not None:
        return refusal
    replicas = (
        _manual_replicas(image, topic)
        if topic.assignments
        else _choose_replicas(usable_by_factor, topic, settings, start_broker=topic_names.count)
    )
    if isinstance(replicas, Rejection):
        return replicas
    fresh_partitions = usable_by_factor.fresh
    return TopicImage(
        name=topic.name,
        topic_id=new_topic_id(),
        partitions=tuple(fresh_partitions[brokers] for brokers in replicas),
        configs={
            config_name: config_value
            for config_name, config_value in topic.configs.items()
            if config_value is not None
        },
        is_internal=topic.name in INTERNAL_TOPICS,
    )


class _TopicNames:
    """Topic names in use, including the new topics of the same request."""

    def __init__(self, image: ClusterImage) -> None:
        self._topics = image.topics
        self._added: set[str] = set()

    @property
    def count(self) -> int:
        return len(self._topics) + len(self._added)

    def add(self, topic_name: str) -> None:
        self._added.add(topic_name)

    def __contains__(self, topic_name: str) -> bool:
        return topic_name in self._topics or topic_name in self._added

    def find_similar(self, new_name: str) -> str | None:
        """Another topic whose metrics would have the same name (Topic.hasCollision); None if there
        is none.
        """
        mark_count = sum(map(new_name.count, _SEPARATORS))
        if mark_count > _VARIED_SEPARATORS_MAX:
            metric_name = _metric_name(new_name)
            return next(
                (
                    topic_name
                    for topic_name in chain(self._topics, self._added)
                    if _metric_name(topic_name) == metric_name
                ),
                None,
            )
        name_parts = _SEPARATOR_RE.split(new_name)
        for separators in product(_SEPARATORS, repeat=mark_count):
            candidate = "".join(
                chain.from_iterable(zip(name_parts, (*separators, ""), strict=True))
            )
            if candidate in self:
                return candidate
        return None


_SEPARATORS: Final = "._"
_SEPARATOR_RE: Final = re.compile("[._]")
_VARIED_SEPARATORS_MAX: Final = 6
"""Number of dots and underscores in a name up to which its variants are looked up; above it all
topics are compared.
"""


def _metric_name(topic_name: str) -> str:
    """The name with ``_`` for each ``.``, as in metric names."""
    return topic_name.replace(".", "_")


def internal_topic(
    topic_name: str, *, image: ClusterImage, settings: Settings, broker_count: int | None = None
) -> TopicToCreate:
    """The topic that auto-creation creates; internal topics have their own settings
    (AutoTopicCreationManager). ``broker_count`` is their number, if it is not that of the image.
    """
    count_replicas = partial(
        replicas_wanted, settings, broker_count=broker_count or len(image.brokers)
    )
    if topic_name == TRANSACTION_STATE_TOPIC:
        return TopicToCreate(
            name=topic_name,
            partition_count=settings.transaction_state_log_num_partitions,
            replication_factor=count_replicas("transaction_state_log_replication_factor"),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "unclean.leader.election.enable": "false",
                "min.insync.replicas": str(count_replicas("transaction_state_log_min_isr")),
                "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            },
        )
    if topic_name == CONSUMER_OFFSETS_TOPIC:
        return TopicToCreate(
            name=topic_name,
            partition_count=settings.offsets_topic_num_partitions,
            replication_factor=count_replicas("offsets_topic_replication_factor"),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
            },
        )
    if topic_name == SHARE_STATE_TOPIC:
        return TopicToCreate(
            name=topic_name,
            partition_count=settings.share_coordinator_state_topic_num_partitions,
            replication_factor=count_replicas("share_coordinator_state_topic_replication_factor"),
            configs={
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(count_replicas("share_coordinator_state_topic_min_isr")),
                "retention.ms": "-1",
                "segment.bytes": str(settings.share_coordinator_state_topic_segment_bytes),
            },
        )
    return TopicToCreate(name=topic_name)


def _name_refusal(topic_names: _TopicNames, topic_name: str) -> Rejection | None:
    name_problem = name_complaint(topic_name)
    if name_problem is not None:
        return Rejection(
            error=ErrorCode.invalid_topic_exception, reason=f"Topic name is invalid: {name_problem}"
        )
    if topic_name == "__cluster_metadata":
        return Rejection(
            error=ErrorCode.invalid_request,
            reason=f"Creation of internal topic {topic_name} is prohibited.",
        )
    if topic_name in topic_names:
        return Rejection(
            error=ErrorCode.topic_already_exists, reason=f"Topic '{topic_name}' already exists."
        )
    similar_name = topic_names.find_similar(topic_name)
    if similar_name is not None:
        return Rejection(
            error=ErrorCode.invalid_topic_exception,
            reason=f"Topic '{topic_name}' collides with existing topic: {similar_name}",
        )
    return None


def _config_refusal(
    topic_configs: Mapping[str, str | None], key_by_name: Mapping[str, ConfigKey]
) -> Rejection | None:
    for config_name, config_value in topic_configs.items():
        too_long_refusal = _too_long_refusal(config_value)
        if too_long_refusal is not None:
            return too_long_refusal
        config_problem = (
            f"Null value not supported for topic configs: {config_name}"
            if config_value is None
            else configs.topic_complaint(config_name, config_value, key_by_name)
        )
        if config_problem is not None:
            return Rejection(error=ErrorCode.invalid_config, reason=config_problem)
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
    if topic.partition_count != -1:
        return Rejection(
            error=ErrorCode.invalid_request,
            reason="A manual partition assignment was specified, but numPartitions was not set to "
            "-1.",
        )
    replicas_by_index: dict[int, tuple[BrokerId, ...]] = {}
    for partition_index, broker_ids in topic.assignments:
        if partition_index in replicas_by_index:
            return bad_assignment(
                f"Found multiple manual partition assignments for partition {partition_index}"
            )
        replicas_by_index[partition_index] = broker_ids
    replicas_by_partition: list[tuple[BrokerId, ...]] = []
    for partition_index in range(len(replicas_by_index)):
        if partition_index not in replicas_by_index:
            return bad_assignment("partitions should be a consecutive 0-based integer sequence")
        broker_ids = replicas_by_index[partition_index]
        refusal = new_assignment_refusal(
            image,
            broker_ids,
            partition_index,
            len(replicas_by_partition[0]) if replicas_by_partition else None,
        )
        if refusal is not None:
            return refusal
        replicas_by_partition.append(tuple(broker_ids))
    return replicas_by_partition


def _choose_replicas(
    usable_by_factor: UsableByFactor, topic: TopicToCreate, settings: Settings, *, start_broker: int
) -> list[tuple[BrokerId, ...]] | Rejection:
    if topic.replication_factor != -1 and topic.replication_factor <= 0:
        return Rejection(
            error=ErrorCode.invalid_replication_factor,
            reason="Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.partition_count != -1 and topic.partition_count <= 0:
        return Rejection(
            error=ErrorCode.invalid_partitions,
            reason="Number of partitions was set to an invalid non-positive value.",
        )
    partition_count = (
        settings.num_partitions if topic.partition_count == -1 else topic.partition_count
    )
    replication_factor = (
        settings.default_replication_factor
        if topic.replication_factor == -1
        else topic.replication_factor
    )
    usable_brokers_now = usable_by_factor[replication_factor]
    if isinstance(usable_brokers_now, Rejection):
        return usable_brokers_now
    # Leaders go round the brokers; each topic starts one further, so that single-partition topics
    # spread too.
    cycle_length = lcm(len(usable_brokers_now.active), max(len(usable_brokers_now.fenced), 1))
    replica_sets = [
        usable_brokers_now.choose_replicas(start_broker + partition_index, replication_factor)
        for partition_index in range(min(partition_count, cycle_length))
    ]
    return [
        replica_sets[partition_index % cycle_length] for partition_index in range(partition_count)
    ]


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
    eligible_replicas = [
        broker_id
        for broker_id in partition.replicas
        if broker_id in partition.isr and image.is_active(broker_id)
    ]
    candidates = [
        broker_id
        for broker_id in eligible_replicas
        if broker_id == leader or (leader is None and broker_id != partition.leader)
    ]
    if not candidates:
        missing_text = (
            "no other replica" if leader is None else f"broker {leader} is no replica that"
        )
        return Rejection(
            error=ErrorCode.eligible_leaders_not_available,
            reason=f"{topic_partition}: {missing_text} is in sync and lives",
        )
    moved_partition = msgspec.structs.replace(
        partition,
        leader=candidates[0],
        leader_epoch=LeaderEpoch(partition.leader_epoch + 1),
        partition_epoch=partition.partition_epoch + 1,
        last_known_elr=(),
    )
    return image.with_partition(topic_partition, moved_partition), candidates[0]


# Configs


def altered_topic_configs(
    current_configs: Mapping[str, str],
    config_changes: tuple[ConfigEntryChange, ...],
    key_by_name: Mapping[str, ConfigKey],
) -> dict[str, str] | Rejection:
    """The configs of a topic after IncrementalAlterConfigs' operations, or why not
    (ConfigurationControlManager).
    """
    new_configs = changed_configs(current_configs, config_changes, key_by_name)
    if isinstance(new_configs, Rejection):
        return new_configs
    for config_change in config_changes:
        config_value = new_configs.get(config_change.name)
        if config_value is None:
            continue
        config_problem = configs.topic_complaint(config_change.name, config_value, key_by_name)
        if config_problem is not None:
            return Rejection(error=ErrorCode.invalid_config, reason=config_problem)
    return new_configs


def altered_broker_configs(
    current_configs: Mapping[str, str],
    config_changes: tuple[ConfigEntryChange, ...],
    key_by_name: Mapping[str, ConfigKey],
    *,
    is_for_all: bool,
) -> dict[str, str] | Rejection:
    """The configs of a broker, or of all, after IncrementalAlterConfigs' operations, or why not, in
    the order of DynamicBrokerConfig.validateConfigs.

    Args:
        current_configs: Those that are set.
        config_changes: The changes, in the order of the request.
        key_by_name: The broker configs of the release.
        is_for_all: Whether the configs are the defaults of all brokers.
    """
    new_names = [
        change.name for change in config_changes if change.operation is not ConfigOperation.DELETE
    ]
    mode_by_config = {name: key_by_name[name].update for name in new_names if name in key_by_name}
    fixed_names = [name for name, mode in mode_by_config.items() if mode is UpdateMode.READ_ONLY]
    if fixed_names:
        return _update_refusal("Cannot update these configs dynamically", fixed_names)
    listener_config_names = [name for name in mode_by_config if configs.is_of_listener(name)]
    if listener_config_names:
        return _update_refusal(
            "These security configs can be dynamically updated only per-listener using the "
            "listener prefix",
            listener_config_names,
        )
    new_configs = changed_configs(current_configs, config_changes, key_by_name)
    if isinstance(new_configs, Rejection):
        return new_configs
    for change in config_changes:
        config_value = new_configs.get(change.name)
        if config_value is None:
            continue
        if change.operation is ConfigOperation.APPEND:
            config_value = _value_appended_by_broker(current_configs, change, key_by_name)
        config_problem = configs.broker_complaint(change.name, config_value, key_by_name)
        if config_problem is not None:
            return Rejection(error=ErrorCode.invalid_request, reason=config_problem)
    one_broker_config_names = [
        name for name, mode in mode_by_config.items() if mode is UpdateMode.PER_BROKER
    ]
    if is_for_all and one_broker_config_names:
        return _update_refusal(
            "Cannot update these configs at default cluster level, broker id must be specified",
            one_broker_config_names,
        )
    return new_configs


def _update_refusal(problem: str, config_names: Sequence[str]) -> Rejection:
    return Rejection(
        error=ErrorCode.invalid_request, reason=f"{problem}: [{', '.join(config_names)}]"
    )


def _value_appended_by_broker(
    current_configs: Mapping[str, str],
    config_change: ConfigEntryChange,
    key_by_name: Mapping[str, ConfigKey],
) -> str:
    """A broker's list config as the broker validates an APPEND before the controller applies it:
    with all items that it did not have, including repeated ones
    (ConfigAdminManager.prepareIncrementalConfigs).
    """
    current_items = split_list(
        current_configs.get(config_change.name, key_by_name[config_change.name].default_text)
    )
    added_items = [
        item for item in split_list(config_change.value or "") if item not in current_items
    ]
    return ",".join([*current_items, *added_items])


def changed_configs(
    current_configs: Mapping[str, str],
    config_changes: tuple[ConfigEntryChange, ...],
    key_by_name: Mapping[str, ConfigKey],
) -> dict[str, str] | Rejection:
    """The configs of any resource after the operations, without checking the resulting configs."""
    new_configs = dict(current_configs)
    if len({change.name for change in config_changes}) != len(config_changes):
        return Rejection(
            error=ErrorCode.invalid_request,
            reason="Error due to duplicate config keys",
        )
    null_values = [
        change.name
        for change in config_changes
        if change.value is None and change.operation is not ConfigOperation.DELETE
    ]
    if null_values:
        return Rejection(
            error=ErrorCode.invalid_request,
            reason=f"Null value not supported for : {', '.join(null_values)}",
        )
    for change in config_changes:
        config_value = _too_long_refusal(change.value) or _changed_value(
            new_configs, change, key_by_name
        )
        if not isinstance(config_value, Rejection):
            config_value = _too_long_refusal(config_value) or config_value
        if isinstance(config_value, Rejection):
            return config_value
        if config_value is None:
            new_configs.pop(change.name, None)
        else:
            new_configs[change.name] = config_value
    return new_configs


def _too_long_refusal(config_value: str | None) -> Rejection | None:
    """The error for a value that is too long for a metadata record (ConfigurationControlManager,
    DISALLOWED_CONFIG_VALUE_SIZE_ERROR). Java counts UTF-16 units.
    """
    byte_length = 0 if config_value is None else len(config_value)
    if config_value is not None and CONFIG_VALUE_MAX // 2 < byte_length <= CONFIG_VALUE_MAX:
        byte_length = len(config_value.encode("utf-16-le", "surrogatepass")) // 2
    if byte_length <= CONFIG_VALUE_MAX:
        return None
    return Rejection(
        error=ErrorCode.invalid_config,
        reason="The configuration value cannot be added because it exceeds the maximum value size"
        f" of {CONFIG_VALUE_MAX} bytes.",
    )


def _changed_value(
    current_values: Mapping[str, str],
    config_change: ConfigEntryChange,
    key_by_name: Mapping[str, ConfigKey],
) -> str | Rejection | None:
    if config_change.operation is ConfigOperation.DELETE or config_change.value is None:
        return None
    if config_change.operation is ConfigOperation.SET:
        return config_change.value
    config_key = key_by_name.get(config_change.name)
    if config_key is None or config_key.type is not ConfigType.LIST:
        return Rejection(
            error=ErrorCode.invalid_config,
            reason=(
                f"Can't {config_change.operation.name} to key {config_change.name} because its"
                " type is not LIST."
            ),
        )
    list_items = [
        list_item
        for list_item in split_list(current_values.get(config_change.name, config_key.default_text))
        if list_item
    ]
    for list_item in split_list(config_change.value):
        if config_change.operation is ConfigOperation.SUBTRACT:
            if list_item in list_items:
                list_items.remove(list_item)
        elif list_item not in list_items:
            list_items.append(list_item)
    return ",".join(list_items)


def split_list(list_text: str) -> list[str]:
    """Split like Java's ``String.split(",")``: without empty items at the end. A text without a
    comma is one item, even if it is empty (ConfigurationControlManager.incrementalAlterConfigs).
    """
    if "," not in list_text:
        return [list_text]
    list_items = list_text.split(",")
    while list_items and not list_items[-1]:
        list_items.pop()
    return list_items
