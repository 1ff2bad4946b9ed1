"""Configs of subscriptions for client metrics (KIP-714): names, types, bounds, values. Pure.

A subscription exists as long as it has configs. Kafka's counterparts: ClientMetricsConfigs,
ControllerConfigurationValidator.
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
"""The attributes by which a subscription can select clients."""


_BRACES: Final = re.compile(r"\\[pPx]\{[^}]*\}|\\.|\[(?:\\.|[^]\\])*\]|(\{(?!\d+\}))")
"""Finds braces that are not counts: RE2/J takes them literally, Java refuses the expression. A
brace with a comma never gets here, because the list of lines is split at commas.
"""


class MetricsSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """Which metrics which clients have to push, and how often (KIP-714)."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, Pattern]
    """Client attribute -> the RE2/J pattern that must match its whole value."""


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
    """Why a subscription can't have these configs; None if it can
    (ClientMetricsConfigs.validate).
    """
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
    """Every config of a subscription, even of one that does not exist."""
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
    """Attribute and pattern of a line of ``match``; None if the line is malformed."""
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
