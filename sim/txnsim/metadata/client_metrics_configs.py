"""Configs of subscriptions for client metrics (KIP-714): names, types, bounds, values. Pure.

A subscription comes into being by being configured, and is gone when nothing is set any more.
Kafka's counterparts: ClientMetricsConfigs, ControllerConfigurationValidator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from txnsim.errors import PatternError, Rejection
from txnsim.metadata.config_keys import (
    ConfigKey,
    Configs,
    ConfigSource,
    ConfigType,
    displayed_value,
    elements,
    invalid_config,
    invalid_request,
)
from txnsim.metadata.configs import ConfigValue, key_complaint, value_of
from txnsim.patterns import Pattern, compile_pattern

DEVIATIONS: Final = (
    "Expressions in the match of a subscription for client metrics are RE2/J's, which take linear "
    "time: one that looks ahead or behind or refers back is INVALID_CONFIG. Apache Kafka takes "
    "Java's, however long one of them is busy with a client's name.",
)

CLIENT_METRICS_CONFIGS: Final[Mapping[str, ConfigKey]] = {
    "interval.ms": ConfigKey(ConfigType.INT, "300000"),
    "match": ConfigKey(ConfigType.LIST, ""),
    "metrics": ConfigKey(ConfigType.LIST, ""),
}
INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 3_600_000
MATCHED: Final = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""The attributes by which a subscription can choose its clients."""


_BRACES: Final = re.compile(r"\\[pPx]\{[^}]*\}|\\.|\[(?:\\.|[^]\\])*\]|(\{(?!\d+\}))")
"""Finds braces that count nothing: RE2/J takes them as they are, Java refuses the expression. One
with a comma never comes here, as the list of lines is split there.
"""


class MetricsSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """Which metrics which clients shall push, and how often (KIP-714)."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, Pattern]
    """What a client says of itself -> the expression that it has to match as a whole, a pattern of
    RE2/J.
    """


def subscription(configs: Configs) -> MetricsSubscription:
    """The subscription that valid configs describe."""
    return MetricsSubscription(
        metrics=tuple(elements(configs.get("metrics", ""))),
        interval_ms=int(configs.get("interval.ms", CLIENT_METRICS_CONFIGS["interval.ms"].default)),
        match=dict(
            pair for pair in map(_pattern, elements(configs.get("match", ""))) if pair is not None
        ),
    )


def client_metrics_refusal(name: str, configs: Configs) -> Rejection | None:
    """Why a subscription can't be like this; None where it can (ClientMetricsConfigs.validate)."""
    if not name:
        return invalid_request("Subscription name can't be empty")
    for key in configs:
        if key not in CLIENT_METRICS_CONFIGS:
            return invalid_request(f"Unknown client metrics configuration: {key}")
    for key, value in configs.items():
        kind = CLIENT_METRICS_CONFIGS[key]
        why = key_complaint(kind, key, value)
        if kind.type is ConfigType.LIST and "" in elements(value):
            why = f"Configuration '{key}' values must not be empty."
        if why is not None:
            return invalid_config(why)
    interval_ms = int(configs.get("interval.ms", INTERVAL_MS_MIN))
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        return invalid_request(
            f"Invalid value {interval_ms} for interval.ms, interval must be between "
            f"{INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)"
        )
    for element in elements(configs.get("match", "")):
        if _pattern(element) is None:
            return invalid_config(f"Illegal client matching pattern: {element}")
    return None


def client_metrics_values(own: Configs) -> list[ConfigValue]:
    """Every config of a subscription, also of a missing one."""
    return [
        value_of(
            name,
            key,
            [(name, displayed_value(key, own[name]), ConfigSource.CLIENT_METRICS)]
            if name in own
            else [],
            otherwise=key.default,
        )
        for name, key in CLIENT_METRICS_CONFIGS.items()
    ]


def _pattern(element: str) -> tuple[str, Pattern] | None:
    """Attribute and regular expression of a line of ``match``; None if malformed."""
    parts = element.split("=")
    while parts and not parts[-1]:
        parts.pop()  # as String.split does
    if len(parts) != 2 or parts[0].strip() not in MATCHED:
        return None
    expression = parts[1].strip()
    if any(_BRACES.findall(expression)):
        return None
    try:
        return parts[0].strip(), compile_pattern(expression)
    except PatternError:
        return None
