"""The bounds of what a file may say."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from txnsim.config._model import ClusterFile, settings_model
from txnsim.settings import DEFAULTS, documentation


def test_every_setting_can_be_given_and_its_default_is_within_bounds() -> None:
    defaults = {name: getattr(DEFAULTS, name) for name in documentation()}
    assert settings_model().model_validate(defaults).model_dump() == defaults


@pytest.mark.parametrize(
    ("name", "refused", "taken"),
    [
        ("transaction_max_timeout_ms", 0, 1),
        ("transaction_max_timeout_ms", 2**31, 2**31 - 1),
        ("transaction_state_log_replication_factor", 2**15, 2**15 - 1),
        ("message_timestamp_before_max_ms", -1, 2**63 - 1),
        ("segment_bytes", 2**20 - 1, 2**20),
        ("fetch_max_bytes", 1023, 1024),
        ("group_min_session_timeout_ms", -1, 0),  # Kafka Streams' own tests set 0
        ("transaction_version", 3, 0),
        ("cluster_id", "short", "AAAAAAAAAAAAAAAAAAAAAA"),
        ("message_timestamp_type", "Createtime", "CreateTime"),
        ("delete_topic_enable", 1, False),
        ("log_retention_minutes", 0, None),
        ("log_retention_minutes", 2**31, -5),
        ("log_cleaner_min_cleanable_ratio", 1.5, 0.0),
        ("compression_gzip_level", 0, -1),
    ],
)
def test_bounds_are_those_of_kafkas_own_definition(
    name: str, refused: object, taken: object
) -> None:
    assert getattr(settings_model().model_validate({name: taken}), name) == taken
    with pytest.raises(ValidationError):
        settings_model().model_validate({name: refused})


def test_a_file_that_says_nothing_leaves_everything_open() -> None:
    assert ClusterFile().model_dump(exclude={"topics", "settings"}) == {
        "security": None,
        "brokers": None,
        "first_broker_id": None,
        "host": None,
        "port": None,
        "advertised_host": None,
        "as_version": None,
        "http": None,
    }
