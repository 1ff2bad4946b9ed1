"""Named groups of settings: ``preset: tests``.

They differ from Apache Kafka's defaults, so a preset applies only on request, and explicit settings
override it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from txnsim.errors import ConfigError
from txnsim.settings import DEFAULTS, Settings
from txnsim.text import unknown_word_message

PRESET: Final = "preset"
"""The key of a preset among settings."""

PRESETS: Final[Mapping[str, Mapping[str, int]]] = {
    "tests": {
        # A group's first member would wait 3 s for others.
        "group_initial_rebalance_delay_ms": 0,
        "group_streams_initial_rebalance_delay_ms": 0,
        # Members of the newer protocols would hear every 5 s of what is theirs.
        "group_consumer_min_heartbeat_interval_ms": 500,
        "group_consumer_heartbeat_interval_ms": 500,
        "group_share_min_heartbeat_interval_ms": 500,
        "group_share_heartbeat_interval_ms": 500,
        "group_streams_min_heartbeat_interval_ms": 500,
        "group_streams_heartbeat_interval_ms": 500,
        # A dead broker would keep its partitions for 9 s.
        "broker_session_timeout_ms": 1_500,
        "broker_heartbeat_interval_ms": 150,
        # Transactions that outlast their timeout would be looked for every 10 s.
        "transaction_abort_timed_out_cleanup_interval_ms": 500,
    }
}
"""Presets, by our names of settings. ``tests`` removes waits that most tests don't ask about."""


def preset_named(preset_name: object) -> Mapping[str, int]:
    """The settings of a preset.

    Raises:
        ConfigError: There is no preset of that name.
    """
    preset_values = PRESETS.get(preset_name) if isinstance(preset_name, str) else None
    if preset_values is None:
        raise ConfigError(unknown_word_message("preset", str(preset_name), PRESETS))
    return preset_values


def with_preset(settings: Settings, preset_name: str) -> Settings:
    """Settings in which the preset replaces values that are Apache Kafka's defaults.

    Raises:
        ConfigError: There is no preset of that name.
    """
    preset_values = {
        setting_name: setting_value
        for setting_name, setting_value in preset_named(preset_name).items()
        if getattr(settings, setting_name) == getattr(DEFAULTS, setting_name)
    }
    return msgspec.structs.replace(settings, **preset_values)
