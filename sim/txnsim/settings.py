"""Every setting once: its name, Kafka's name, default, unit and reason.

``Settings`` is a frozen struct; the ``Setting`` in each annotation is the documentation that
``docs/settings.md`` and the start-up banner are made from. Files become settings in
``txnsim.config``; nothing here parses or validates a file.

Where a default differs from Apache Kafka's, ``kafka_default`` says so and ``reason`` says why;
``txnsim serve`` prints these.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Final, get_args, get_type_hints

import msgspec

from txnsim.setting import Setting, named, of


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a cluster. All brokers share them, as our brokers share one process."""

    # Transaction coordinator
    transaction_max_timeout_ms: Annotated[
        int, of("upper bound of a producer's transaction timeout; sizes 'late'")
    ] = 900_000
    transactional_id_expiration_ms: Annotated[
        int, of("idle transactional ids are forgotten after this")
    ] = 604_800_000
    transaction_abort_timed_out_cleanup_interval_ms: Annotated[
        int,
        of(
            "how often timed-out transactions are looked for",
            kafka="transaction.abort.timed.out.transaction.cleanup.interval.ms",
        ),
    ] = 10_000
    transaction_remove_expired_cleanup_interval_ms: Annotated[
        int,
        of(
            "how often expired transactional ids are looked for",
            kafka="transaction.remove.expired.transaction.cleanup.interval.ms",
        ),
    ] = 3_600_000
    transaction_two_phase_commit_enable: Annotated[
        bool, of("KIP-939: Enable2Pc of InitProducerId v6")
    ] = False
    unstable_api_versions_enable: Annotated[
        bool,
        of("opens InitProducerId v6 (KIP-939), which Kafka 4.1 to 4.3 have but don't advertise"),
    ] = False
    transaction_state_log_num_partitions: Annotated[int, of("spread of the coordinators")] = 50
    transaction_state_log_replication_factor: Annotated[
        int, of("capped at the number of brokers, so that one broker is enough", unit="replicas")
    ] = 3
    transaction_state_log_min_isr: Annotated[
        int, of("capped at the number of brokers", unit="replicas")
    ] = 2
    transaction_state_log_segment_bytes: Annotated[
        int, of("segment size of __transaction_state")
    ] = 104_857_600
    # Group coordinator
    offsets_topic_num_partitions: Annotated[int, of("spread of the coordinators")] = 50
    offsets_topic_replication_factor: Annotated[
        int, of("capped at the number of brokers, so that one broker is enough", unit="replicas")
    ] = 3
    offsets_topic_segment_bytes: Annotated[int, of("segment size of __consumer_offsets")] = (
        104_857_600
    )
    offsets_commit_timeout_ms: Annotated[
        int, of("how long a group's records may take to replicate")
    ] = 5_000
    offset_metadata_max_bytes: Annotated[
        int, of("longer metadata of a position is refused", unit="characters")
    ] = 4_096
    offsets_retention_minutes: Annotated[int, of("positions of groups without members expire")] = (
        10_080
    )
    offsets_retention_check_interval_ms: Annotated[int, of("how often expiry is looked at")] = (
        600_000
    )
    group_initial_rebalance_delay_ms: Annotated[
        int, of("a new classic group waits for more members; tests set 0")
    ] = 3_000
    group_min_session_timeout_ms: Annotated[int, of("lower bound of a member's session")] = 6_000
    group_max_session_timeout_ms: Annotated[int, of("upper bound of a member's session")] = (
        1_800_000
    )
    group_max_size: Annotated[
        int, of("how many members a classic group may have", unit="members")
    ] = 2_147_483_647

    group_consumer_session_timeout_ms: Annotated[int, of("sessions in the consumer protocol")] = (
        45_000
    )
    group_consumer_heartbeat_interval_ms: Annotated[int, of("what members get to keep to")] = 5_000
    group_consumer_min_session_timeout_ms: Annotated[int, of("the least a group may configure")] = (
        45_000
    )
    group_consumer_max_session_timeout_ms: Annotated[int, of("the most a group may configure")] = (
        60_000
    )
    group_consumer_min_heartbeat_interval_ms: Annotated[
        int, of("the least a group may configure")
    ] = 5_000
    group_consumer_max_heartbeat_interval_ms: Annotated[
        int, of("the most a group may configure")
    ] = 15_000
    group_consumer_min_assignment_interval_ms: Annotated[
        int, of("the least a group may configure")
    ] = 0
    group_consumer_max_assignment_interval_ms: Annotated[
        int, of("the most a group may configure")
    ] = 15_000
    group_consumer_migration_policy: Annotated[
        str,
        of(
            "whether groups change their protocol while members go on: bidirectional, upgrade, "
            "downgrade or disabled",
            unit="name",
        ),
    ] = "bidirectional"
    group_consumer_assignors: Annotated[
        str,
        of("uniform, range or both; the first one is taken where no member chooses", unit="names"),
    ] = "uniform,range"
    group_consumer_max_size: Annotated[
        int, of("how many members a consumer group may have", unit="members")
    ] = 2_147_483_647
    group_consumer_assignment_interval_ms: Annotated[
        int, of("target assignments are made no more often; 0: at every change", dynamic=True)
    ] = 1_000
    group_consumer_regex_refresh_interval_ms: Annotated[
        int, of("regular expressions are looked up again after this")
    ] = 600_000

    # Verification
    transaction_partition_verification_enable: Annotated[
        bool,
        of(
            "KIP-890: ask the coordinator before a transaction opens on a partition; never skips "
            "the implicit add of v2",
            dynamic=True,
        ),
    ] = True
    add_partitions_to_txn_retry_backoff_ms: Annotated[
        int, of("pause before the leader repeats an implicit add (KAFKA-18654)")
    ] = 20
    add_partitions_to_txn_retry_backoff_max_ms: Annotated[
        int, of("how long the leader repeats it")
    ] = 100

    # Partition leader
    producer_id_expiration_ms: Annotated[
        int, of("idle producers are forgotten by a partition", dynamic=True)
    ] = 86_400_000
    producer_id_expiration_check_interval_ms: Annotated[
        int, of("how often idle producers are looked for")
    ] = 600_000
    message_max_bytes: Annotated[int, of("largest record batch", dynamic=True)] = 1_048_588
    message_timestamp_before_max_ms: Annotated[
        int,
        of(
            "how far behind the broker's clock a record may be stamped",
            dynamic=True,
            kafka="log.message.timestamp.before.max.ms",
        ),
    ] = 9_223_372_036_854_775_807
    message_timestamp_after_max_ms: Annotated[
        int, of("how far ahead of it", dynamic=True, kafka="log.message.timestamp.after.max.ms")
    ] = 3_600_000
    message_timestamp_type: Annotated[
        str,
        of(
            "CreateTime or LogAppendTime",
            unit="name",
            dynamic=True,
            kafka="log.message.timestamp.type",
        ),
    ] = "CreateTime"
    min_insync_replicas: Annotated[int, of("what acks=-1 waits for at least", dynamic=True)] = 1
    segment_bytes: Annotated[
        int, of("largest append; segment size", dynamic=True, kafka="log.segment.bytes")
    ] = 1_073_741_824
    log_cleanup_policy: Annotated[
        str, of("delete, compact or both", unit="names", dynamic=True)
    ] = "delete"
    log_retention_ms: Annotated[
        int | None, of("segments go at this age; -1: never", dynamic=True)
    ] = None
    log_retention_minutes: Annotated[int | None, of("the same where ms are not given")] = None
    log_retention_hours: Annotated[int, of("the same where minutes are not given either")] = 168
    log_retention_bytes: Annotated[int, of("what is older goes; -1: never", dynamic=True)] = -1
    log_roll_ms: Annotated[int | None, of("segments end after this", dynamic=True)] = None
    log_roll_hours: Annotated[int, of("the same where ms are not given")] = 168
    log_roll_jitter_ms: Annotated[
        int | None, of("they end up to so much earlier, by chance", dynamic=True)
    ] = None
    log_roll_jitter_hours: Annotated[int, of("the same where ms are not given")] = 0
    log_index_size_max_bytes: Annotated[
        int, of("they end when their index is full", dynamic=True)
    ] = 10_485_760
    log_index_interval_bytes: Annotated[int, of("so many between its entries", dynamic=True)] = 4096
    log_cleaner_delete_retention_ms: Annotated[
        int, of("tombstones and markers stay", dynamic=True)
    ] = 86_400_000
    log_cleaner_min_cleanable_ratio: Annotated[
        float, of("new before cleaning", unit="of a log", dynamic=True)
    ] = 0.5
    log_cleaner_min_compaction_lag_ms: Annotated[
        int, of("no cleaning before this", dynamic=True)
    ] = 0
    log_cleaner_max_compaction_lag_ms: Annotated[int, of("cleaning after this", dynamic=True)] = (
        9_223_372_036_854_775_807
    )
    compression_type: Annotated[
        str, of("producer leaves it to producers", unit="name", dynamic=True)
    ] = "producer"
    compression_gzip_level: Annotated[
        int, of("of gzip; -1 is its default", unit="level", dynamic=True)
    ] = -1
    compression_zstd_level: Annotated[int, of("of zstd", unit="level", dynamic=True)] = 3
    log_retention_check_interval_ms: Annotated[int, of("how often old segments are looked for")] = (
        300_000
    )
    log_initial_task_delay_ms: Annotated[int, of("when they are looked for the first time")] = (
        30_000
    )
    log_flush_start_offset_checkpoint_interval_ms: Annotated[
        int, of("how often log starts are noted")
    ] = 60_000
    log_cleaner_enable: Annotated[bool, of("compacted topics are compacted")] = True
    log_cleaner_dedupe_buffer_size: Annotated[
        int,
        of(
            "what a round of cleaning can remember, at 24 bytes a key; Kafka wants more than a "
            "mebibyte",
            unit="bytes",
            dynamic=True,
        ),
    ] = 134_217_728
    log_cleaner_io_buffer_load_factor: Annotated[
        float, of("how full it may get", unit="of that", dynamic=True)
    ] = 0.9
    log_cleaner_backoff_ms: Annotated[
        int, of("pause when nothing needs cleaning", dynamic=True)
    ] = 15_000
    fetch_max_bytes: Annotated[int, of("largest Fetch answer")] = 57_671_680

    # Replication
    replica_lag_time_max_ms: Annotated[
        int,
        of(
            "a follower that has not had all there was for so long falls out of the ISR; looked at "
            "twice as often"
        ),
    ] = 30_000
    replica_fetch_wait_max_ms: Annotated[
        int,
        of("how long a leader lets a follower wait for news; an idle one asks ever more seldom"),
    ] = 500
    replica_fetch_backoff_ms: Annotated[int, of("pause of a follower after an error")] = 1_000
    replica_fetch_max_bytes: Annotated[int, of("of one partition in an answer to a follower")] = (
        1_048_576
    )
    replica_fetch_response_max_bytes: Annotated[int, of("of all of them")] = 10_485_760
    replica_high_watermark_checkpoint_interval_ms: Annotated[
        int, of("how often a broker notes its high watermarks; after a crash it knows no more")
    ] = 5_000

    max_incremental_fetch_session_cache_slots: Annotated[
        int,
        of(
            "fetch sessions of one broker (KIP-227), an eighth of them in each part of its cache",
            unit="sessions",
        ),
    ] = 1_000

    # Topics and cluster
    num_partitions: Annotated[int, of("of an auto-created topic")] = 1
    default_replication_factor: Annotated[int, of("of an auto-created topic", unit="replicas")] = 1
    auto_create_topics_enable: Annotated[
        bool, of("a Metadata request for an unknown topic creates it")
    ] = True
    delete_topic_enable: Annotated[bool, of("DeleteTopics is obeyed")] = True
    transaction_version: Annotated[
        int,
        of(
            "finalized level of the feature transaction.version at start (KIP-890); Kafka formats "
            "new clusters at 2",
            unit="level",
            kafka=None,
        ),
    ] = 2
    cluster_id: Annotated[
        str, of("what clients get; the same in every run", unit="base64 uuid", kafka=None)
    ] = "dHhuc2ltLXR4bnNpbS0xMA"

    # Life of brokers
    broker_heartbeat_interval_ms: Annotated[
        int,
        of("how often a broker tells the controller that it lives; pause before it tries again"),
    ] = 2_000
    broker_session_timeout_ms: Annotated[
        int, of("a broker that the controller has not heard of for so long is fenced")
    ] = 9_000
    unclean_leader_election_enable: Annotated[
        bool, of("a replica that lacks records may lead if no other can", dynamic=True)
    ] = False
    unclean_leader_election_interval_ms: Annotated[
        int,
        of(
            "how often the controller looks for partitions without a leader that allow it, by "
            "the cluster's clock"
        ),
    ] = 300_000
    auto_leader_rebalance_enable: Annotated[
        bool, of("leaders go back to their preferred replicas by themselves")
    ] = True
    leader_imbalance_check_interval_seconds: Annotated[
        int,
        of("how often they do, by the monotonic clock: advancing the cluster's moves no leader"),
    ] = 300

    # Requests
    request_timeout_ms: Annotated[
        int, of("requests between brokers: markers, verification, appends of markers")
    ] = 30_000
    telemetry_max_bytes: Annotated[int, of("largest push of client metrics (KIP-714)")] = 1_048_576
    socket_request_max_bytes: Annotated[
        int, of("largest frame; larger ones close the connection")
    ] = 104_857_600
    socket_send_buffer_bytes: Annotated[int, of("no request is handled while more is unsent")] = (
        102_400
    )
    sasl_server_max_receive_size: Annotated[
        int, of("largest frame before a client is known", unit="bytes")
    ] = 524_288
    max_request_partition_size_limit: Annotated[
        int, of("page size of DescribeTopicPartitions", unit="partitions")
    ] = 2_000

    # Ours alone
    internal_log_segment_bytes: Annotated[
        int,
        of(
            "segments of the internal topics end after this at the latest, so that they can be "
            "cleaned and a server's memory does not grow with its age",
            kafka=None,
        ),
    ] = 1_048_576
    kip_text: Annotated[
        bool,
        of(
            "opens a listener that answers by the letter of KIP-664, KIP-890 and KIP-994, and lets "
            "coordinators follow KIP-890's text in what they log and load (docs/kip-text.md)",
            kafka=None,
        ),
    ] = False
    client_telemetry_enable: Annotated[
        bool,
        of(
            "clients may push their metrics (KIP-714), as where a metrics reporter of a real "
            "broker takes them; without one Apache Kafka does not advertise the APIs either",
            kafka=None,
        ),
    ] = False
    connection_queue_bytes: Annotated[
        int,
        of(
            "unread requests buffered per connection before its socket is no longer read "
            "(backpressure)",
            kafka=None,
        ),
    ] = 1_048_576
    queued_max_response_bytes: Annotated[
        int, of("unread answers of all clients of a broker", kafka=None)
    ] = 134_217_728
    unknown_clients_max_bytes: Annotated[
        int,
        of(
            "unread requests of all clients of a broker that have not logged in; when there are "
            "more, who holds most of them is disconnected",
            kafka=None,
        ),
    ] = 16_777_216
    request_turn_ms: Annotated[
        int, of("requests per turn of the loop; the rest waits for the next", kafka=None)
    ] = 2
    coordinator_load_min_ms: Annotated[
        int,
        of(
            "how long a coordinator answers COORDINATOR_LOAD_IN_PROGRESS at least; reading a "
            "log in memory takes no time",
            kafka=None,
        ),
    ] = 0
    trace_ring_bytes: Annotated[
        int,
        of(
            "memory for the trace, which keeps the newest events; 18,000 transactions at brief",
            kafka=None,
        ),
    ] = 33_554_432


DEFAULTS: Final = Settings()


@cache
def documentation() -> Mapping[str, Setting]:
    """The ``Setting`` of each field of ``Settings``, in order of declaration."""
    hints = get_type_hints(Settings, include_extras=True)
    return MappingProxyType({name: named(name, *get_args(hint)) for name, hint in hints.items()})
