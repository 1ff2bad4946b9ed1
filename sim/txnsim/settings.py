"""All settings, each in one place: its name, Kafka's name, default, unit and reason.

``Settings`` is a frozen struct. The text with each default is the documentation from which
``docs/settings.md`` and the start-up banner are made. ``txnsim.config`` reads configuration files;
nothing here does.

Where a default differs from Apache Kafka's, ``kafka_default`` has Kafka's and the text has the
reason; ``txnsim serve`` prints these.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, TypeVar, get_type_hints

import msgspec

T = TypeVar("T")

AS_OURS: Final = ""
"""Stands for the ordinary case: Kafka's name is our field's name with dots for underscores, and the
unit is the last word of our name.
"""
_UNITS: Final[Mapping[str, str]] = {"seconds": "s"}
"""Last word of a field's name -> symbol of the unit."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The documentation of one setting."""

    kafka: str | None = AS_OURS
    """Kafka's name of the setting; None if Kafka has no such setting."""
    unit: str = AS_OURS
    purpose: str
    unset: str = ""
    """What applies where the setting is not set."""
    kafka_default: object = msgspec.UNSET
    """Kafka's default, if ours differs."""

    @property
    def reason(self) -> str:
        return f"{self.purpose}; unset: {self.unset}" if self.unset else self.purpose


_declared_settings: Final[list[Setting]] = []


def setting(
    default: T,
    purpose: str,
    *,
    unset: str = "",
    unit: str = AS_OURS,
    kafka: str | None = AS_OURS,
    kafka_default: object = msgspec.UNSET,
) -> T:
    """Register the documentation of a setting, for ``documentation``, and return its default.

    Args:
        default: Apache Kafka's default, or ours if Kafka has no such setting.
        purpose: What the setting is for, in a few words.
        unset: What applies where the setting is not set.
        unit: The unit, such as ``replicas``, if it is not the last word of the field's name.
        kafka: Kafka's name, if it is not the field's name with dots; None if Kafka has no such
            setting.
        kafka_default: Kafka's default, if ours differs.

    Returns:
        The default.
    """
    _declared_settings.append(
        Setting(
            kafka=kafka,
            unit=unit,
            purpose=purpose,
            unset=unset,
            kafka_default=kafka_default,
        )
    )
    return default


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a cluster. All brokers share them, as our brokers share one process."""

    # Transaction coordinator
    transaction_max_timeout_ms: int = setting(
        900_000, "upper bound of a producer's transaction timeout; sizes 'late'"
    )
    transactional_id_expiration_ms: int = setting(
        604_800_000, "idle transactional ids are forgotten after this"
    )
    transaction_abort_timed_out_cleanup_interval_ms: int = setting(
        10_000,
        "how often timed-out transactions are looked for",
        kafka="transaction.abort.timed.out.transaction.cleanup.interval.ms",
    )
    transaction_remove_expired_cleanup_interval_ms: int = setting(
        3_600_000,
        "how often expired transactional ids are looked for",
        kafka="transaction.remove.expired.transaction.cleanup.interval.ms",
    )
    transaction_two_phase_commit_enable: bool = setting(
        False, "KIP-939: Enable2Pc of InitProducerId v6"
    )
    unstable_api_versions_enable: bool = setting(
        False,
        "opens InitProducerId v6 (KIP-939), which Kafka has from 4.1 on but does not advertise",
    )
    transaction_state_log_num_partitions: int = setting(50, "spread of the coordinators")
    transaction_state_log_replication_factor: int | None = setting(
        None,
        "of __transaction_state",
        unset="as many as Kafka has, but no more than there are brokers; what is set is waited "
        "for, as by a real broker",
        unit="replicas",
        kafka_default=3,
    )
    transaction_state_log_min_isr: int | None = setting(
        None,
        "min.insync.replicas of __transaction_state",
        unset="as in Kafka, but no more than there are brokers",
        unit="replicas",
        kafka_default=2,
    )
    transaction_state_log_segment_bytes: int = setting(
        104_857_600, "segment size of __transaction_state"
    )
    # Group coordinator
    offsets_topic_num_partitions: int = setting(50, "spread of the coordinators")
    offsets_topic_replication_factor: int | None = setting(
        None,
        "of __consumer_offsets",
        unset="as many as Kafka has, but no more than there are brokers; what is set is waited for",
        unit="replicas",
        kafka_default=3,
    )
    offsets_topic_segment_bytes: int = setting(104_857_600, "segment size of __consumer_offsets")
    offsets_commit_timeout_ms: int = setting(
        5_000, "how long a group's records may take to replicate"
    )
    offset_metadata_max_bytes: int = setting(
        4_096, "longer metadata of a position is refused", unit="characters"
    )
    offsets_retention_minutes: int = setting(10_080, "positions of groups without members expire")
    offsets_retention_check_interval_ms: int = setting(600_000, "how often expiry is looked at")
    group_initial_rebalance_delay_ms: int = setting(
        3_000, "a new classic group waits for more members; tests set 0"
    )
    group_min_session_timeout_ms: int = setting(6_000, "lower bound of a member's session")
    group_max_session_timeout_ms: int = setting(1_800_000, "upper bound of a member's session")
    group_max_size: int = setting(
        2_147_483_647, "how many members a classic group may have", unit="members"
    )

    group_consumer_session_timeout_ms: int = setting(45_000, "sessions in the consumer protocol")
    group_consumer_heartbeat_interval_ms: int = setting(5_000, "what members get to keep to")
    group_consumer_min_session_timeout_ms: int = setting(45_000, "the least a group may configure")
    group_consumer_max_session_timeout_ms: int = setting(60_000, "the most a group may configure")
    group_consumer_min_heartbeat_interval_ms: int = setting(
        5_000, "the least a group may configure"
    )
    group_consumer_max_heartbeat_interval_ms: int = setting(
        15_000, "the most a group may configure"
    )
    group_consumer_min_assignment_interval_ms: int = setting(0, "the least a group may configure")
    group_consumer_max_assignment_interval_ms: int = setting(
        15_000, "the most a group may configure"
    )
    group_consumer_migration_policy: str = setting(
        "bidirectional",
        "whether groups change their protocol while members go on: bidirectional, upgrade, "
        "downgrade or disabled",
        unit="name",
    )
    group_consumer_assignors: str = setting(
        "uniform,range",
        "uniform, range or both; the first one is taken where no member chooses",
        unit="names",
    )
    group_consumer_max_size: int = setting(
        2_147_483_647, "how many members a consumer group may have", unit="members"
    )
    group_consumer_assignment_interval_ms: int = setting(
        1_000, "target assignments are made no more often; 0: at every change"
    )
    group_consumer_regex_refresh_interval_ms: int = setting(
        600_000, "regular expressions are looked up again after this"
    )

    # Share coordinator
    share_coordinator_state_topic_num_partitions: int = setting(50, "spread of the coordinators")
    share_coordinator_state_topic_replication_factor: int | None = setting(
        None,
        "of __share_group_state; unset: as many as Kafka has, but no more than there are brokers; "
        "what is set is waited for",
        unit="replicas",
        kafka_default=3,
    )
    share_coordinator_state_topic_min_isr: int | None = setting(
        None,
        "min.insync.replicas of __share_group_state; unset: as in Kafka, but no more than there "
        "are brokers",
        unit="replicas",
        kafka_default=2,
    )
    share_coordinator_state_topic_segment_bytes: int = setting(
        104_857_600, "segment size of __share_group_state"
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = setting(
        500, "so many updates of a share partition, then its whole state", unit="updates"
    )
    share_coordinator_write_timeout_ms: int = setting(
        5_000, "how long the records of share partitions may take to replicate"
    )
    share_coordinator_state_topic_prune_interval_ms: int = setting(
        300_000, "how often redundant records are deleted"
    )
    share_coordinator_cold_partition_snapshot_interval_ms: int = setting(
        300_000, "states whose last snapshot is as old are written again"
    )

    # Configs of share and streams groups
    group_share_max_size: int = setting(
        200, "how many members a share group may have", unit="members"
    )
    group_share_initialize_retry_interval_ms: int = setting(
        30_000,
        "share state that is not initialised is asked for again after this, or after "
        "offsets.commit.timeout.ms where that is longer",
    )
    group_share_session_timeout_ms: int = setting(45_000, "of a share group that does not say")
    group_share_min_session_timeout_ms: int = setting(45_000, "the least a group may configure")
    group_share_max_session_timeout_ms: int = setting(60_000, "the most a group may configure")
    group_share_heartbeat_interval_ms: int = setting(5_000, "of a share group that does not say")
    group_share_min_heartbeat_interval_ms: int = setting(5_000, "the least a group may configure")
    group_share_max_heartbeat_interval_ms: int = setting(15_000, "the most a group may configure")
    group_share_assignment_interval_ms: int = setting(1_000, "of a share group that does not say")
    group_share_min_assignment_interval_ms: int = setting(0, "the least a group may configure")
    group_share_max_assignment_interval_ms: int = setting(15_000, "the most a group may configure")
    group_share_record_lock_duration_ms: int = setting(30_000, "of a share group that does not say")
    group_share_min_record_lock_duration_ms: int = setting(
        15_000, "the least a group may configure"
    )
    group_share_max_record_lock_duration_ms: int = setting(60_000, "the most a group may configure")
    group_share_delivery_count_limit: int = setting(
        5, "of a share group that does not say", unit="deliveries"
    )
    group_share_min_delivery_count_limit: int = setting(
        2, "the least a group may configure", unit="deliveries"
    )
    group_share_max_delivery_count_limit: int = setting(
        10, "the most a group may configure", unit="deliveries"
    )
    group_share_partition_max_record_locks: int = setting(
        2_000, "of a share group that does not say", unit="records"
    )
    group_share_min_partition_max_record_locks: int = setting(
        100, "the least a group may configure", unit="records"
    )
    group_share_max_partition_max_record_locks: int = setting(
        4_000, "the most a group may configure", unit="records"
    )
    group_share_max_share_sessions: int = setting(
        2_000, "share sessions of one broker; a member that wants another waits, and is refused"
    )
    errors_deadletterqueue_auto_create_topics_enable: bool = setting(
        False,
        "the dead letter topic that a share group names is made where it is missing",
    )
    errors_deadletterqueue_topic_name_prefix: str = setting(
        "dlq.", "with what names of dead letter topics have to begin"
    )
    group_streams_max_size: int = setting(
        2_147_483_647, "how many members a streams group may have", unit="members"
    )
    group_streams_session_timeout_ms: int = setting(45_000, "of a streams group that does not say")
    group_streams_min_session_timeout_ms: int = setting(45_000, "the least a group may configure")
    group_streams_max_session_timeout_ms: int = setting(60_000, "the most a group may configure")
    group_streams_heartbeat_interval_ms: int = setting(
        5_000, "of a streams group that does not say"
    )
    group_streams_min_heartbeat_interval_ms: int = setting(5_000, "the least a group may configure")
    group_streams_max_heartbeat_interval_ms: int = setting(15_000, "the most a group may configure")
    group_streams_assignment_interval_ms: int = setting(
        1_000, "of a streams group that does not say"
    )
    group_streams_min_assignment_interval_ms: int = setting(0, "the least a group may configure")
    group_streams_max_assignment_interval_ms: int = setting(
        15_000, "the most a group may configure"
    )
    group_streams_num_standby_replicas: int = setting(0, "of a streams group that does not say")
    group_streams_max_standby_replicas: int = setting(2, "the most a group may configure")
    group_streams_num_warmup_replicas: int = setting(2, "of a streams group that does not say")
    group_streams_max_warmup_replicas: int = setting(20, "the most a group may configure")
    group_streams_task_offset_interval_ms: int = setting(
        60_000, "of a streams group that does not say"
    )
    group_streams_min_task_offset_interval_ms: int = setting(
        15_000, "the least a group may configure"
    )
    group_streams_initial_rebalance_delay_ms: int = setting(
        3_000, "of a streams group that does not say"
    )
    group_streams_acceptable_recovery_lag: int = setting(
        10_000, "of a streams group that does not say", unit="offsets"
    )
    group_streams_rack_aware_assignment_tags: str = setting(
        "", "of a streams group that does not say", unit="names"
    )

    # Verification
    transaction_partition_verification_enable: bool = setting(
        True,
        "KIP-890: ask the coordinator before a transaction opens on a partition; never skips "
        "the implicit add of v2",
    )
    add_partitions_to_txn_retry_backoff_ms: int = setting(
        20, "pause before the leader repeats an implicit add (KAFKA-18654)"
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = setting(100, "how long the leader repeats it")

    # Partition leader
    producer_id_expiration_ms: int = setting(
        86_400_000, "idle producers are forgotten by a partition"
    )
    producer_id_expiration_check_interval_ms: int = setting(
        600_000, "how often idle producers are looked for"
    )
    message_max_bytes: int = setting(1_048_588, "largest record batch")
    message_timestamp_before_max_ms: int = setting(
        9_223_372_036_854_775_807,
        "how far behind the broker's clock a record may be stamped",
        kafka="log.message.timestamp.before.max.ms",
    )
    message_timestamp_after_max_ms: int | None = setting(
        None,
        "how far ahead of it",
        unset="an hour, before 4.0 no bound (KIP-1030)",
        kafka="log.message.timestamp.after.max.ms",
    )
    message_timestamp_type: str = setting(
        "CreateTime",
        "CreateTime or LogAppendTime",
        unit="name",
        kafka="log.message.timestamp.type",
    )
    min_insync_replicas: int = setting(1, "what acks=-1 waits for at least")
    segment_bytes: int = setting(
        1_073_741_824, "largest append; segment size", kafka="log.segment.bytes"
    )
    log_cleanup_policy: str = setting("delete", "delete, compact or both", unit="names")
    log_retention_ms: int | None = setting(None, "segments go at this age; -1: never")
    log_retention_minutes: int | None = setting(None, "the same where ms are not given")
    log_retention_hours: int = setting(168, "the same where minutes are not given either")
    log_retention_bytes: int = setting(-1, "what is older goes; -1: never")
    log_roll_ms: int | None = setting(None, "segments end after this")
    log_roll_hours: int = setting(168, "the same where ms are not given")
    log_roll_jitter_ms: int | None = setting(None, "they end up to so much earlier, by chance")
    log_roll_jitter_hours: int = setting(0, "the same where ms are not given")
    log_index_size_max_bytes: int = setting(10_485_760, "they end when their index is full")
    log_index_interval_bytes: int = setting(4096, "so many between its entries")
    log_cleaner_delete_retention_ms: int = setting(86_400_000, "tombstones and markers stay")
    log_cleaner_min_cleanable_ratio: float = setting(0.5, "new before cleaning", unit="of a log")
    log_cleaner_min_compaction_lag_ms: int = setting(0, "no cleaning before this")
    log_cleaner_max_compaction_lag_ms: int = setting(
        9_223_372_036_854_775_807, "cleaning after this"
    )
    compression_type: str = setting("producer", "producer leaves it to producers", unit="name")
    compression_gzip_level: int = setting(-1, "of gzip; -1 is its default", unit="level")
    compression_zstd_level: int = setting(3, "of zstd", unit="level")
    log_retention_check_interval_ms: int = setting(300_000, "how often old segments are looked for")
    log_initial_task_delay_ms: int = setting(30_000, "when they are looked for the first time")
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        60_000, "how often log starts are noted"
    )
    log_cleaner_enable: bool = setting(True, "compacted topics are compacted")
    log_cleaner_dedupe_buffer_size: int = setting(
        134_217_728,
        "what a round of cleaning can remember, at 24 bytes a key; Kafka wants more than a "
        "mebibyte",
        unit="bytes",
    )
    log_cleaner_io_buffer_load_factor: float = setting(0.9, "how full it may get", unit="of that")
    log_cleaner_backoff_ms: int = setting(15_000, "pause when nothing needs cleaning")
    fetch_max_bytes: int = setting(57_671_680, "largest Fetch answer")

    # Replication
    replica_lag_time_max_ms: int = setting(
        30_000,
        "a follower that has not had all there was for so long falls out of the ISR; looked at "
        "twice as often",
    )
    replica_fetch_wait_max_ms: int = setting(
        500, "how long a leader lets a follower wait for news; an idle one asks ever more seldom"
    )
    replica_fetch_backoff_ms: int = setting(1_000, "pause of a follower after an error")
    replica_fetch_max_bytes: int = setting(1_048_576, "of one partition in an answer to a follower")
    replica_fetch_response_max_bytes: int = setting(10_485_760, "of all of them")
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        5_000, "how often a broker notes its high watermarks; after a crash it knows no more"
    )

    replica_selector_class: str | None = setting(
        None,
        "KIP-392: `org.apache.kafka.common.replica.RackAwareReplicaSelector` leads a consumer to a "
        "replica in its rack; brokers have racks by `--racks`",
        unset="consumers read from leaders",
        unit="name",
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        1_000,
        "fetch sessions of one broker (KIP-227), an eighth of them in each part of its cache",
        unit="sessions",
    )
    fetch_session_partitions_max: int = setting(
        100_000,
        "partitions of all fetch sessions of one broker; a Fetch that would bring more gets no"
        " session",
        unit="partitions",
        kafka=None,
    )

    # Topics and cluster
    num_partitions: int = setting(1, "of an auto-created topic")
    default_replication_factor: int = setting(1, "of an auto-created topic", unit="replicas")
    auto_create_topics_enable: bool = setting(
        True, "a Metadata request for an unknown topic creates it"
    )
    delete_topic_enable: bool = setting(True, "DeleteTopics is obeyed")
    transaction_version: int = setting(
        2,
        "finalized level of the feature transaction.version at start (KIP-890); Kafka formats "
        "new clusters at 2",
        unit="level",
        kafka=None,
    )
    cluster_id: str = setting(
        "dHhuc2ltLXR4bnNpbS0xMA",
        "what clients get; the same in every run",
        unit="base64 uuid",
        kafka=None,
    )

    # Life of brokers
    broker_heartbeat_interval_ms: int = setting(
        2_000, "how often a broker tells the controller that it lives; pause before it tries again"
    )
    broker_session_timeout_ms: int = setting(
        9_000, "a broker that sends the controller nothing for so long is fenced"
    )
    unclean_leader_election_enable: bool = setting(
        False, "a replica that lacks records may lead if no other can"
    )
    unclean_leader_election_interval_ms: int = setting(
        300_000,
        "how often the controller looks for partitions without a leader that allow it, by "
        "the cluster's clock",
    )
    auto_leader_rebalance_enable: bool = setting(
        True, "leaders go back to their preferred replicas by themselves"
    )
    leader_imbalance_check_interval_seconds: int = setting(
        300, "how often they do, by the monotonic clock: advancing the cluster's moves no leader"
    )

    # Requests
    request_timeout_ms: int = setting(
        30_000, "requests between brokers: markers, verification, appends of markers"
    )
    telemetry_max_bytes: int = setting(1_048_576, "largest push of client metrics (KIP-714)")
    socket_request_max_bytes: int = setting(
        104_857_600, "largest frame; larger ones close the connection"
    )
    socket_send_buffer_bytes: int = setting(102_400, "no request is handled while more is unsent")
    sasl_server_max_receive_size: int = setting(
        524_288, "largest frame before a client is known", unit="bytes"
    )
    max_request_partition_size_limit: int = setting(
        2_000, "page size of DescribeTopicPartitions", unit="partitions"
    )

    # Settings that only txnsim has
    internal_log_segment_bytes: int = setting(
        1_048_576,
        "segments of the internal topics end after this at the latest, so that they can be "
        "cleaned and a server's memory does not grow with its age",
        kafka=None,
    )
    log_budget_bytes: int = setting(
        1_073_741_824,
        "memory for the logs of all brokers; at its edge the oldest closed segments go, as by "
        "retention; 0: no bound",
        kafka=None,
    )
    memory_max_bytes: int = setting(
        0,
        "memory of the process; above it what needs more is refused with an error; 0: four fifths "
        "of what the machine or its container has",
        kafka=None,
    )
    kip_text: bool = setting(
        False,
        "opens a listener that answers by the letter of KIP-664, KIP-890 and KIP-994, and lets "
        "coordinators follow KIP-890's text in what they log and load (docs/kip-text.md)",
        kafka=None,
    )
    client_telemetry_enable: bool = setting(
        False,
        "clients may push their metrics (KIP-714), as where a metrics reporter of a real "
        "broker takes them; without one Apache Kafka does not advertise the APIs either",
        kafka=None,
    )
    connection_queue_bytes: int = setting(
        1_048_576,
        "unread requests buffered per connection before its socket is no longer read "
        "(backpressure)",
        kafka=None,
    )
    queued_max_response_bytes: int = setting(
        134_217_728, "unread answers of all clients of a broker", kafka=None
    )
    answer_max_bytes: int = setting(
        67_108_864,
        "an answer, records not counted; one that would be larger is refused before it is made",
        kafka=None,
    )
    unknown_clients_max_bytes: int = setting(
        16_777_216,
        "unread requests of all clients of a broker that have not logged in; when there are "
        "more, who holds most of them is disconnected",
        kafka=None,
    )
    request_turn_ms: int = setting(
        2, "requests per turn of the loop; the rest waits for the next", kafka=None
    )
    coordinator_load_min_ms: int = setting(
        0,
        "how long a coordinator answers COORDINATOR_LOAD_IN_PROGRESS at least; reading a "
        "log in memory takes no time",
        kafka=None,
    )
    trace_ring_bytes: int = setting(
        33_554_432,
        "memory for the trace, which keeps the newest events; 18,000 transactions at brief",
        kafka=None,
    )


DEFAULTS: Final = Settings()


class WrittenSettings(Settings, frozen=True, kw_only=True):
    """Settings with what a broker tells of its file beyond their values."""

    repeated: frozenset[str] = frozenset()
    """Names of the fields that were set explicitly to their default."""
    without_effect: tuple[tuple[str, str], ...] = ()
    """Kafka's name and value of settings that have no effect here."""


_NO_VALUES: Final[Mapping[str, str]] = MappingProxyType({})


def values_without_effect(settings: Settings) -> Mapping[str, str]:
    """Kafka's name -> value of settings in the file that have no effect here."""
    if isinstance(settings, WrittenSettings) and settings.without_effect:
        return dict(settings.without_effect)
    return _NO_VALUES


def settings_from_values(
    values_by_field: Mapping[str, object], without_effect: Mapping[str, str] = _NO_VALUES
) -> Settings:
    """Build settings from the fields that the user has set; the others have their defaults.

    Args:
        values_by_field: Field -> value.
        without_effect: Kafka's name -> value of settings that have no effect here.
    """
    settings = msgspec.convert(values_by_field, Settings)
    repeated_defaults = frozenset(
        field_name
        for field_name in values_by_field
        if getattr(settings, field_name) == getattr(DEFAULTS, field_name)
    )
    if not repeated_defaults and not without_effect:
        return settings
    remarks = {"repeated": repeated_defaults, "without_effect": tuple(without_effect.items())}
    return msgspec.convert({**values_by_field, **remarks}, WrittenSettings)


def is_explicit(settings: Settings, field: str) -> bool:
    """Whether the user has set the field, even to its default: Kafka tells the two apart."""
    if isinstance(settings, WrittenSettings) and field in settings.repeated:
        return True
    differs_from_default: bool = getattr(settings, field) != getattr(DEFAULTS, field)
    return differs_from_default


@cache
def fields_by_kafka_name() -> Mapping[str, str]:
    """Kafka's name of a setting -> the field of ``Settings``."""
    return MappingProxyType(
        {
            _kafka_name(field_name, setting): field_name
            for field_name, setting in zip(
                Settings.__struct_fields__, _declared_settings, strict=True
            )
            if setting.kafka is not None
        }
    )


def _kafka_name(field_name: str, setting: Setting) -> str:
    return setting.kafka if setting.kafka else field_name.replace("_", ".")


@cache
def documentation() -> Mapping[str, Setting]:
    """The ``Setting`` of each field of ``Settings``, in order of declaration."""
    types_by_field = get_type_hints(Settings)
    fields_with_settings = zip(Settings.__struct_fields__, _declared_settings, strict=True)
    return MappingProxyType(
        {
            field_name: complete_setting(field_name, types_by_field[field_name], setting)
            for field_name, setting in fields_with_settings
        }
    )


CAPPED: Final = (
    "transaction_state_log_replication_factor",
    "transaction_state_log_min_isr",
    "offsets_topic_replication_factor",
    "share_coordinator_state_topic_replication_factor",
    "share_coordinator_state_topic_min_isr",
)
"""Settings whose default is lowered in a cluster with fewer brokers than Kafka's default asks for.
"""


def replicas_wanted(settings: Settings, field_name: str, *, broker_count: int) -> int:
    """The value of one of the ``CAPPED`` settings: as it is set, else Kafka's default but at most
    the number of brokers.
    """
    configured_count: int | None = getattr(settings, field_name)
    if configured_count is not None:
        return configured_count
    kafka_default = documentation()[field_name].kafka_default
    assert isinstance(kafka_default, int), field_name
    return min(kafka_default, broker_count)


def complete_setting(field: str, field_type: object, setting: Setting) -> Setting:
    """Complete a setting with Kafka's name and the unit that follow from its field's
    name and type.
    """
    last_word = field.rpartition("_")[2]
    unit_name = "boolean" if field_type is bool else _UNITS.get(last_word, last_word)
    return msgspec.structs.replace(
        setting,
        kafka=None if setting.kafka is None else _kafka_name(field, setting),
        unit=unit_name if setting.unit == AS_OURS else setting.unit,
    )
