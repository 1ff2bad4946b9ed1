"""Every setting once."""

from __future__ import annotations

import msgspec
import pytest

from txnsim.settings import DEFAULTS, Setting, Settings, documentation, named


def test_every_field_is_documented_in_order() -> None:
    fields = [field.name for field in msgspec.structs.fields(Settings)]
    assert list(documentation()) == fields
    assert all(isinstance(setting, Setting) for setting in documentation().values())


def test_the_defaults_are_those_of_a_fresh_value() -> None:
    assert Settings() == DEFAULTS


def test_no_two_settings_share_kafkas_name() -> None:
    names = [setting.kafka for setting in documentation().values() if setting.kafka is not None]
    assert sorted(set(names)) == sorted(names)


def test_a_default_that_differs_from_kafkas_says_so() -> None:
    for name, setting in documentation().items():
        assert setting.kafka_default != getattr(DEFAULTS, name), name


@pytest.mark.parametrize(
    ("name", "kafka"),
    [
        # KafkaConfig.configDef() of Apache Kafka 4.3.1
        ("transaction_max_timeout_ms", 900_000),
        ("transactional_id_expiration_ms", 604_800_000),
        ("transaction_abort_timed_out_cleanup_interval_ms", 10_000),
        ("transaction_remove_expired_cleanup_interval_ms", 3_600_000),
        ("transaction_two_phase_commit_enable", False),
        ("transaction_state_log_num_partitions", 50),
        ("transaction_state_log_replication_factor", 3),
        ("transaction_state_log_min_isr", 2),
        ("transaction_state_log_segment_bytes", 104_857_600),
        ("transaction_partition_verification_enable", True),
        ("add_partitions_to_txn_retry_backoff_ms", 20),
        ("add_partitions_to_txn_retry_backoff_max_ms", 100),
        ("producer_id_expiration_ms", 86_400_000),
        ("producer_id_expiration_check_interval_ms", 600_000),
        ("message_max_bytes", 1_048_588),
        ("message_timestamp_before_max_ms", 9_223_372_036_854_775_807),
        ("message_timestamp_type", "CreateTime"),
        ("min_insync_replicas", 1),
        ("segment_bytes", 1_073_741_824),
        ("fetch_max_bytes", 57_671_680),
        ("max_incremental_fetch_session_cache_slots", 1_000),
        ("num_partitions", 1),
        ("default_replication_factor", 1),
        ("auto_create_topics_enable", True),
        ("delete_topic_enable", True),
        ("request_timeout_ms", 30_000),
        ("socket_request_max_bytes", 104_857_600),
        ("max_request_partition_size_limit", 2_000),
    ],
)
def test_a_default_is_kafkas_or_names_kafkas(name: str, kafka: object) -> None:
    told = documentation()[name].kafka_default
    assert (getattr(DEFAULTS, name) if told is msgspec.UNSET else told) == kafka


def test_settings_are_values() -> None:
    changed = Settings(num_partitions=4)
    assert changed != DEFAULTS
    assert hash(changed) == hash(Settings(num_partitions=4))
    with pytest.raises(AttributeError):
        changed.num_partitions = 5  # type: ignore[misc]  # that it is refused is the point


# What is said of one setting


def test_a_setting_as_apache_kafka_has_it_names_no_other_default() -> None:
    said = named("log_roll_ms", int, Setting(purpose="segments end", dynamic=True))
    assert said == Setting(kafka="log.roll.ms", unit="ms", purpose="segments end", dynamic=True)
    assert said.kafka_default is msgspec.UNSET


def test_what_counts_where_it_is_not_set_is_part_of_what_is_said() -> None:
    assert Setting(purpose="segments end", unset="never").reason == "segments end; unset: never"
    assert Setting(purpose="segments end").reason == "segments end"


def test_a_name_of_kafkas_that_differs_is_kept() -> None:
    said = named("segment_bytes", int, Setting(purpose="", kafka="log.segment.bytes"))
    assert said.kafka == "log.segment.bytes"


def test_a_setting_of_ours_alone_has_no_name_of_kafkas() -> None:
    assert named("own_ms", int, Setting(purpose="ours", kafka=None)).kafka is None


def test_the_unit_is_the_end_of_the_name_unless_it_is_said() -> None:
    assert named("check_interval_seconds", int, Setting(purpose="")).unit == "s"
    assert named("log_cleaner_enable", bool, Setting(purpose="")).unit == "boolean"
    assert named("min_insync_replicas", int, Setting(purpose="")).unit == "replicas"
    assert named("group_max_size", int, Setting(purpose="", unit="members")).unit == "members"
