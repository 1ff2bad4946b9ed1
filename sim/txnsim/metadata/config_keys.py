"""The configs of a release as the cores ask for them: types, defaults, bounds, and the broker
configs that they fall back to. What each release has stands in ``settings_table``.

Kafka's counterparts are ConfigDef and LogConfig's part of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.settings_table import (
    DISTINCT_ELEMENTS,
    Scope,
    SettingRow,
    UpdateMode,
    setting_rows,
)
from txnsim.releases.rules import LATEST_RULES, Rules


class ConfigType(IntEnum):
    """Types of configs, numbered as in DescribeConfigs v3+."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Sources of values, numbered as in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigKey(msgspec.Struct, frozen=True):
    """One config of a release."""

    type: ConfigType
    default: str | None
    """Kafka's default; None if it has none."""
    broker_name: str | None = None
    """The broker config that a config of a topic or group falls back to."""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    update: UpdateMode = UpdateMode.READ_ONLY
    """How a broker config can be changed."""
    is_internal: bool = False
    """Whether it is described only where it is set (AbstractConfig.nonInternalValues)."""
    synonyms: tuple[str, ...] = ()
    """Broker configs that stand for the same as this one, itself included, the one with precedence
    first.
    """

    has_distinct_elements: bool = False
    """Whether a broker refuses a list that has an element twice."""

    @property
    def default_text(self) -> str:
        """The default; empty where there is none."""
        return self.default or ""

    @property
    def is_sensitive(self) -> bool:
        """Whether its value is never shown."""
        return self.type is ConfigType.PASSWORD


LONG_MAX: Final = 2**63 - 1
BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)
LONG_MAX_TEXT: Final = str(LONG_MAX)


@cache
def config_keys(scope: Scope, release_rules: Rules) -> Mapping[str, ConfigKey]:
    """The configs of a scope that the release with these rules has."""
    return MappingProxyType(
        {
            row.name: _key_of(row.facts_in(release_rules))
            for row in setting_rows(scope).values()
            if row.is_in(release_rules)
        }
    )


def topic_configs(release_rules: Rules) -> Mapping[str, ConfigKey]:
    """The topic configs of a release, with its defaults."""
    return config_keys("topic", release_rules)


@cache
def config_key(scope: Scope, config_name: str, release_rules: Rules) -> ConfigKey:
    """A config with the facts of a release, also where the release does not have it: logs of its
    topics work by the default all the same.
    """
    return _key_of(setting_rows(scope)[config_name].facts_in(release_rules))


def _key_of(row: SettingRow) -> ConfigKey:
    minimum, maximum = _bounds(row.valid)
    choices = () if minimum is not None else _choices(row.valid)
    return ConfigKey(
        type=ConfigType[row.type],
        default=row.default,
        broker_name=row.broker,
        minimum=minimum,
        maximum=maximum,
        choices=choices,
        update=row.update,
        is_internal=row.internal,
        synonyms=row.synonyms,
        has_distinct_elements=row.type == "LIST"
        and (bool(choices) or row.valid == DISTINCT_ELEMENTS),
    )


def _bounds(valid_values: str) -> tuple[float | None, float | None]:
    """Least and greatest value of Kafka's ``[1,...,10]`` or ``[1,...]``; None: there is none."""
    minimum_text, separator, maximum_text = valid_values[1:-1].partition(",...")
    if not separator or not valid_values.endswith("]"):
        return None, None
    return _number(minimum_text), _number(maximum_text[1:]) if maximum_text else None


def _number(number_text: str) -> float:
    return float(number_text) if "." in number_text else int(number_text)


def _choices(valid_values: str) -> tuple[str, ...]:
    """The words of Kafka's ``[compact, delete]``; none where a word stands for a form such as
    ``by_duration:PnDTnHnMn.nS``, which a validator of its own checks.
    """
    choices_text = valid_values.removeprefix("(case insensitive) ")
    if not choices_text.startswith("[") or not choices_text.endswith("]") or ":" in choices_text:
        return ()
    return tuple(choices_text[1:-1].split(", "))


TOPIC_CONFIGS: Final = topic_configs(LATEST_RULES)

# How values are written, and how wrong ones are refused

Configs = Mapping[str, str]
"""Config name -> value, in the original spelling."""

_LIST_SEPARATOR: Final = re.compile(r"\s*,\s*")
_WHOLE_NUMBER: Final = re.compile(r"[+-]?\d+")
_DECIMAL_NUMBER: Final = re.compile(
    r"([+-]?)(?:(NaN|Infinity)|((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)[fd]?"
    r"|(0x(?:[\da-f]+\.?[\da-f]*|\.[\da-f]+)p[+-]?\d+)[fd]?)",
    re.ASCII | re.IGNORECASE,
)
_INT_MIN: Final = -(2**31)
_INT_MAX: Final = 2**31 - 1


def elements(list_text: str) -> list[str]:
    """The elements of a list as ConfigDef parses it, including empty ones."""
    trimmed_text = list_text.strip()
    return _LIST_SEPARATOR.split(trimmed_text) if trimmed_text else []


def whole_number(digits: str) -> int:
    """Parse a number like Java.

    Raises:
        ValueError: It is no number; unlike Python, Java refuses ``1_000``.
    """
    if not _WHOLE_NUMBER.fullmatch(digits):
        raise ValueError(digits)
    return int(digits)


def decimal_number(number_text: str) -> float:
    """Parse a number like Java's Double.parseDouble.

    Raises:
        ValueError: It is no number; unlike Python, Java refuses ``1_000``, ``nan`` and ``inf``.
    """
    match = _DECIMAL_NUMBER.fullmatch(number_text)
    if match is None or (match[2] and match[2] not in ("NaN", "Infinity")):
        raise ValueError(number_text)
    sign_text, word, decimal_text, hexadecimal_text = match.groups()
    if not hexadecimal_text:
        return float(sign_text + (word or decimal_text))
    try:
        return float.fromhex(sign_text + hexadecimal_text)
    except OverflowError:
        return float(sign_text + "inf")


def decimal_text(number: float) -> str:
    """Write a number like Java's Double.toString."""
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    if not number or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    digits, _, exponent = f"{Decimal(repr(number)).normalize():e}".partition("e")
    return f"{digits if '.' in digits else f'{digits}.0'}E{int(exponent)}"


def as_java_int(number: float) -> int:
    """Cast a number to an int like Java: NaN is 0, and what is too large or too small becomes the
    largest or smallest int.
    """
    return 0 if math.isnan(number) else int(min(max(number, _INT_MIN), _INT_MAX))


def displayed_value(key: ConfigKey, config_value: str) -> str:
    """A value as DescribeConfigs shows it."""
    match key.type:
        case ConfigType.LIST:
            return ",".join(dict.fromkeys(elements(config_value)))
        case ConfigType.INT:
            return str(int(config_value))
        case _:
            return (
                config_value.strip().lower()
                if key.type is ConfigType.BOOLEAN
                else config_value.strip()
            )


def invalid_request(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.invalid_request, reason=reason)


def invalid_config(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.invalid_config, reason=reason)
