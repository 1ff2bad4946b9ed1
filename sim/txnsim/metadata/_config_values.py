"""How values of configs are written, and how wrong values are refused. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.config_keys import ConfigKey, ConfigType

Configs = Mapping[str, str]
"""Names of configs and their values as they were written."""

_LIST_SEPARATOR: Final = re.compile(r"\s*,\s*")


def elements(value: str) -> list[str]:
    """A list as ConfigDef reads it, with the elements that are empty."""
    trimmed = value.strip()
    return _LIST_SEPARATOR.split(trimmed) if trimmed else []


def shown(key: ConfigKey, value: str) -> str:
    """A value as DescribeConfigs writes it."""
    match key.type:
        case ConfigType.LIST:
            return ",".join(dict.fromkeys(elements(value)))
        case ConfigType.INT:
            return str(int(value))
        case _:
            return value.strip().lower() if key.type is ConfigType.BOOLEAN else value.strip()


def invalid_request(reason: str) -> Rejection:
    """INVALID_REQUEST."""
    return Rejection(error=ErrorCode.invalid_request, reason=reason)


def invalid_config(reason: str) -> Rejection:
    """INVALID_CONFIG."""
    return Rejection(error=ErrorCode.invalid_config, reason=reason)
