"""What a reader needs to know of one setting; ``txnsim.settings`` has them all."""

from __future__ import annotations

from typing import Final

import msgspec


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader needs to know of one setting."""

    kafka: str | None
    """Kafka's name of it; None where it is ours alone."""
    unit: str
    reason: str
    kafka_default: object = msgspec.UNSET
    """Kafka's default where ours differs."""
    dynamic: bool = False
    """May be changed while the cluster runs (IncrementalAlterConfigs on the BROKER resource)."""


AS_OURS: Final = ""
"""Kafka's name is ours with dots for underscores."""


def of(unit: str, reason: str, *, kafka: str | None = AS_OURS, dynamic: bool = False) -> Setting:
    """A setting whose default is Apache Kafka's, or that Kafka does not have.

    Args:
        unit: Such as ``ms``.
        reason: What it is for, in a few words.
        kafka: Kafka's name, where it is not the field's with dots; None where Kafka has none.
        dynamic: It may be changed while the cluster runs.
    """
    return Setting(kafka=kafka, unit=unit, reason=reason, dynamic=dynamic)


def named(field: str, setting: Setting) -> Setting:
    """The setting of a field, with Kafka's name."""
    if setting.kafka != AS_OURS:
        return setting
    return msgspec.structs.replace(setting, kafka=field.replace("_", "."))
