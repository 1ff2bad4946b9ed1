"""What is said of one setting."""

from __future__ import annotations

import msgspec

from txnsim.setting import Setting, named


def test_a_setting_as_apache_kafka_has_it_names_no_other_default() -> None:
    said = named("log_roll_ms", int, Setting(reason="segments end", dynamic=True))
    assert said == Setting(kafka="log.roll.ms", unit="ms", reason="segments end", dynamic=True)
    assert said.kafka_default is msgspec.UNSET


def test_a_name_of_kafkas_that_differs_is_kept() -> None:
    said = named("segment_bytes", int, Setting(reason="", kafka="log.segment.bytes"))
    assert said.kafka == "log.segment.bytes"


def test_a_setting_of_ours_alone_has_no_name_of_kafkas() -> None:
    assert named("own_ms", int, Setting(reason="ours", kafka=None)).kafka is None


def test_the_unit_is_the_end_of_the_name_unless_it_is_said() -> None:
    assert named("check_interval_seconds", int, Setting(reason="")).unit == "s"
    assert named("log_cleaner_enable", bool, Setting(reason="")).unit == "boolean"
    assert named("min_insync_replicas", int, Setting(reason="")).unit == "replicas"
    assert named("group_max_size", int, Setting(reason="", unit="members")).unit == "members"
