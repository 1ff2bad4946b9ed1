"""What is said of one setting."""

from __future__ import annotations

import msgspec

from txnsim.setting import Setting, named, of


def test_a_setting_as_apache_kafka_has_it_names_no_other_default() -> None:
    said = named("log_roll_ms", of("ms", "segments end", dynamic=True))
    assert said == Setting(kafka="log.roll.ms", unit="ms", reason="segments end", dynamic=True)
    assert said.kafka_default is msgspec.UNSET


def test_a_name_of_kafkas_that_differs_is_kept() -> None:
    assert named("segment_bytes", of("bytes", "", kafka="log.segment.bytes")).kafka == (
        "log.segment.bytes"
    )


def test_a_setting_of_ours_alone_has_no_name_of_kafkas() -> None:
    assert named("own_ms", of("ms", "ours", kafka=None)).kafka is None
