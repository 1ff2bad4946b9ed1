"""A preset: one name for several settings, none of which has Apache Kafka's default."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from txnsim.config import load, settings_of
from txnsim.config.presets import PRESETS, preset_named, with_preset
from txnsim.errors import ConfigError
from txnsim.settings import DEFAULTS


def test_a_preset_changes_what_it_names_and_a_setting_beside_it_wins() -> None:
    settings, warnings = settings_of(
        {"broker.session.timeout.ms": 4_000, "preset": "tests"}, where="t"
    )
    assert warnings == ()
    assert settings.group_initial_rebalance_delay_ms == 0
    assert settings.broker_session_timeout_ms == 4_000
    given = msgspec.structs.replace(DEFAULTS, broker_session_timeout_ms=4_000)
    assert with_preset(given, "tests") == settings


def test_none_of_a_preset_is_kafkas_default() -> None:
    for preset in PRESETS.values():
        assert preset
        assert all(getattr(DEFAULTS, name) != value for name, value in preset.items())


def test_a_preset_that_there_is_not_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no preset 'test'; did you mean tests"):
        preset_named("test")
    file = tmp_path / "cluster.yaml"
    file.write_text("settings:\n  preset: 7\n")
    with pytest.raises(ConfigError, match=r"cluster\.yaml:2: settings\.preset: no preset '7'"):
        load(file)
