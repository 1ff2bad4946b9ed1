"""The values of a scenario file that need reading: durations, partitions, fault rules, bytes, and
what differs between runs.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from txnsim.faults.plan import FaultRule
from txnsim.types import TopicPartition

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Model(BaseModel):
    """What all parts of a file have in common: hyphens in names, nothing unknown, no changes."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=False,
        arbitrary_types_allowed=True,
    )


def duration_ms(value: Any) -> Any:
    """``21m``, ``500ms``, ``-10s`` as milliseconds."""
    if not isinstance(value, str):
        raise ValueError("expected a duration such as 500ms, 30s, 21m, 2h or 7d")
    number = value.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = value[len(number) :]
    if unit not in _UNITS_MS or not number.removeprefix("-").isdigit():
        raise ValueError(f"{value!r} is no duration such as 500ms, 30s, 21m, 2h or 7d")
    return int(number) * _UNITS_MS[unit]


def partition(value: Any) -> Any:
    """``t-0`` as a partition."""
    if not isinstance(value, str):
        raise ValueError("expected a partition such as orders-0")
    topic, hyphen, index = value.rpartition("-")
    if not (topic and hyphen and index.isdigit()):
        raise ValueError(f"{value!r} is no partition such as orders-0")
    return TopicPartition(topic, int(index))


def offsets(value: Any) -> Any:
    """``{t-0: 10}`` as offsets of partitions."""
    if not isinstance(value, dict):
        raise ValueError("expected partitions with offsets, such as {orders-0: 10}")
    return {partition(name): offset for name, offset in value.items()}


def fault_rule(value: Any) -> Any:
    """The fields of a fault rule; a hold unless it says otherwise."""
    if not isinstance(value, dict):
        raise ValueError("expected the fields of a fault rule")
    try:
        return msgspec.convert({"action": {"do": "hold"}, **value}, FaultRule)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def content(value: Any) -> Any:
    """The bytes of a key: text, or ``{hex: "0000"}`` for what is none."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and set(value) == {"hex"} and isinstance(value["hex"], str):
        return bytes.fromhex(value["hex"])
    raise ValueError('expected text, or bytes such as {hex: "00000001"}')


def listed(value: Any) -> Any:
    """One value where several are possible."""
    return (value,) if isinstance(value, str | int) else value


def _shown_content(key: bytes) -> str | dict[str, str]:
    return key.decode() if key.isascii() and key.decode().isprintable() else {"hex": key.hex()}


Milliseconds = Annotated[int, BeforeValidator(duration_ms)]
Partition = Annotated[
    TopicPartition, BeforeValidator(partition), PlainSerializer(str, when_used="json")
]
Offsets = Annotated[
    dict[TopicPartition, int],
    BeforeValidator(offsets),
    PlainSerializer(
        lambda value: {str(place): offset for place, offset in value.items()}, when_used="json"
    ),
]
Rule = Annotated[
    FaultRule, BeforeValidator(fault_rule), PlainSerializer(msgspec.to_builtins, when_used="json")
]
Content = Annotated[
    bytes, BeforeValidator(content), PlainSerializer(_shown_content, when_used="json")
]
Names = Annotated[tuple[str, ...], BeforeValidator(listed)]
Partitions = Annotated[tuple[Partition, ...], BeforeValidator(listed)]
ByRun = str | dict[str, str]
"""What is expected: the same everywhere, or by run, mode or take; ``else`` for the others."""
OffsetByRun = int | dict[str, int]


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """Which run is told: what ``only`` and expectations by run are looked up with."""

    run: str
    mode: str
    take: str
    """``armed``, ``disarmed`` or ``control``."""
    program: bool = False
    """A program plays a producer, and does everything in one go."""

    @property
    def words(self) -> tuple[str, ...]:
        """Every word that names this run, the most telling one first."""
        player = "program" if self.program else "step-by-step"
        if self.take == "armed":
            return (self.run, self.mode, self.take, player)
        return (self.take, self.run, self.mode, player)
