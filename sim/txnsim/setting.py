"""What a reader needs to know of one setting; ``txnsim.settings`` has them all."""

from __future__ import annotations

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


def of(kafka: str | None, unit: str, reason: str, *, dynamic: bool = False) -> Setting:
    """A setting whose default is Apache Kafka's, or that Kafka does not have."""
    return Setting(kafka=kafka, unit=unit, reason=reason, dynamic=dynamic)
