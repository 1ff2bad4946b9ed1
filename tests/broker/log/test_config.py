"""A log's configuration agrees with the cluster's settings by default."""

from __future__ import annotations

from txnsim.log.config import NEVER_MS, LogConfig, TimestampType
from txnsim.releases.rules import LATEST
from txnsim.settings import DEFAULTS


def test_defaults_are_those_of_the_settings() -> None:
    config = LogConfig(rules=LATEST)
    assert config.max_message_bytes == DEFAULTS.message_max_bytes
    assert config.segment_bytes == DEFAULTS.segment_bytes
    assert config.timestamp_before_max_ms == DEFAULTS.message_timestamp_before_max_ms == NEVER_MS
    assert config.producer_id_expiration_ms == DEFAULTS.producer_id_expiration_ms
    assert config.verification_enabled == DEFAULTS.transaction_partition_verification_enable
    assert config.timestamp_type is TimestampType.CREATE_TIME
    assert DEFAULTS.message_timestamp_type == "CreateTime"
    assert not config.is_compacted


def test_timestamp_types_are_attribute_bit_3() -> None:
    assert (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME) == (0, 1)
