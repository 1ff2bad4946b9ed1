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
    Configs,
    ConfigSource,
    ConfigType,
    config_keys,
    displayed_value,
    elements,
    invalid_config,
    invalid_request,
)
from txnsim.metadata.configs import ConfigValue, key_complaint, value_of
from txnsim.patterns import Pattern, compile_pattern
from txnsim.releases.rules import LATEST_RULES

DEVIATIONS: Final = (
    "Expressions in the match of a subscription for client metrics are RE2/J's, which take linear "
    "time: one that looks ahead or behind or refers back is INVALID_CONFIG. Apache Kafka takes "
    "Java's, however long one of them is busy with a client's name.",
)

CLIENT_METRICS_CONFIGS: Final = config_keys("client-metrics", LATEST_RULES)
_DEFAULT_INTERVAL_MS: Final = CLIENT_METRICS_CONFIGS["interval.ms"].default_text
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


_BRACES: Final = r"\\[pPx]\{[^}]*\}|\\.|\[(?:\\.|[^]\\])*\]|(\{(?!\d+\}))"
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
        interval_ms=int(configs.get("interval.ms", _DEFAULT_INTERVAL_MS)),
        match=dict(
            name_and_pattern
            for name_and_pattern in map(_pattern, elements(configs.get("match", "")))
            if name_and_pattern is not None
        ),
    )


def client_metrics_refusal(subscription_name: str, configs: Configs) -> Rejection | None:
    """Why a subscription can't have these configs; None if it can
    (ClientMetricsConfigs.validate).
    """
    if not subscription_name:
        return invalid_request("Subscription name can't be empty")
    for config_name in configs:
        if config_name not in CLIENT_METRICS_CONFIGS:
            return invalid_request(f"Unknown client metrics configuration: {config_name}")
    for config_name, config_value in configs.items():
        config_key = CLIENT_METRICS_CONFIGS[config_name]
        complaint = key_complaint(config_key, config_name, config_value)
        if config_key.type is ConfigType.LIST and "" in elements(config_value):
            complaint = f"Configuration '{config_name}' values must not be empty."
        if complaint is not None:
            return invalid_config(complaint)
    interval_ms = int(configs.get("interval.ms", INTERVAL_MS_MIN))
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        return invalid_request(
            f"Invalid value {interval_ms} for interval.ms, interval must be between "
            f"{INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)"
        )
    for match_element in elements(configs.get("match", "")):
        if _pattern(match_element) is None:
            return invalid_config(f"Illegal client matching pattern: {match_element}")
    return None


def client_metrics_values(subscription_configs: Configs) -> list[ConfigValue]:
    """Every config of a subscription, even of one that does not exist."""
    return [
        value_of(
            config_name,
            key,
            [
                (
                    config_name,
                    displayed_value(key, subscription_configs[config_name]),
                    ConfigSource.CLIENT_METRICS,
                )
            ]
            if config_name in subscription_configs
            else [],
            default_value=key.default,
        )
        for config_name, key in CLIENT_METRICS_CONFIGS.items()
    ]


def _pattern(match_element: str) -> tuple[str, Pattern] | None:
    """Attribute and pattern of a line of ``match``; None if the line is malformed."""
    name_and_expression = match_element.split("=")
    while name_and_expression and not name_and_expression[-1]:
        name_and_expression.pop()  # as String.split does
    if len(name_and_expression) != 2 or name_and_expression[0].strip() not in MATCHED:
        return None
    expression = name_and_expression[1].strip()
    if any(re.findall(_BRACES, expression)):
        return None
    try:
        return name_and_expression[0].strip(), compile_pattern(expression)
    except PatternError:
        return None
