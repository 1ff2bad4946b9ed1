"""What is said of one setting."""

from __future__ import annotations

import msgspec

from txnsim.setting import Setting, of


def test_a_setting_as_apache_kafka_has_it_names_no_other_default() -> None:
    said = of("log.roll.ms", "ms", "segments end", dynamic=True)
    assert said == Setting(kafka="log.roll.ms", unit="ms", reason="segments end", dynamic=True)
    assert said.kafka_default is msgspec.UNSET


def test_a_setting_of_ours_alone_has_no_name_of_kafkas() -> None:
    assert of(None, "ms", "ours").kafka is None
