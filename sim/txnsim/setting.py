"""What a reader needs to know of one setting; ``txnsim.settings`` has them all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

AS_OURS: Final = ""
"""Kafka's name is ours with dots for underscores; the unit is what our name ends with."""
_UNITS: Final[Mapping[str, str]] = {"seconds": "s"}
"""Unit at the end of an option's name -> unit symbol."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader needs to know of one setting."""

    kafka: str | None = AS_OURS
    """Kafka's name of it; None where it is ours alone."""
    unit: str = AS_OURS
    reason: str
    kafka_default: object = msgspec.UNSET
    """Kafka's default where ours differs."""
    dynamic: bool = False
    """May be changed while the cluster runs (IncrementalAlterConfigs on the BROKER resource)."""


def named(field: str, kind: object, setting: Setting) -> Setting:
    """The setting of a field of that type, with Kafka's name and its unit."""
    last = field.rpartition("_")[2]
    unit = "boolean" if kind is bool else _UNITS.get(last, last)
    return msgspec.structs.replace(
        setting,
        kafka=field.replace("_", ".") if setting.kafka == AS_OURS else setting.kafka,
        unit=unit if setting.unit == AS_OURS else setting.unit,
    )
