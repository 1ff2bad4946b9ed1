"""One operation of a random play: a request as data that either broker can be asked.

Brokers draw producer ids and topic ids of their own. An operation names them by what both have in
common, the order in which producer ids were handed out and the name of the topic, and is resolved
for one broker just before it is sent. So an operation can be printed, compared and played again.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from txnsim_lab.conformance._book.frame_player import records

Values = dict[str, Any]

FOREIGN: int = 100_000
"""Added to a producer id it becomes one that no broker has handed out."""


class Pid(msgspec.Struct, frozen=True):
    """Stands for the n-th producer id that a broker gave out, or for an unknown one."""

    number: int
    shift: int = 0


class TopicId(msgspec.Struct, frozen=True):
    """Stands for the id of the topic of this name."""

    name: str


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of records of one producer; without a producer where ``pid`` is None."""

    values: tuple[str, ...]
    pid: Pid | None = None
    epoch: int = -1
    sequence: int = -1
    transactional: bool = False


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """A request, with the player's notes about it."""

    api: str
    version: int
    mode: str
    """What is right or wrong about it."""
    flow: str = ""
    """Which way of its API it takes: old or new protocol, add or verify, commit or abort."""
    values: Values
    transactional_id: str | None = None
    """Whose state it may change."""
    also: str | None = None
    """Another one whose state it may change."""
    partition: tuple[str, int] | None = None
    """Which log it is about, where it is about one."""
    unanswered: bool = False
    """No answer is expected."""

    def __str__(self) -> str:
        return f"{self.api} v{self.version} ({self.mode}) {self.values}"


class Names(Protocol):
    """Producer ids and topic ids of one broker, for things that both brokers have."""

    def pid(self, number: int) -> int:
        """The ``number``-th producer id that the broker gave out."""

    def topic_id(self, name: str) -> Any:
        """The id of a topic."""


def resolve_names(value: Any, names: Names) -> Any:
    """Return the values with the names and ids that one broker uses."""
    match value:
        case Pid():
            return value.shift if value.number < 0 else names.pid(value.number) + value.shift
        case TopicId():
            return names.topic_id(value.name)
        case Batch():
            return records(
                *value.values,
                producer_id=-1 if value.pid is None else resolve_names(value.pid, names),
                producer_epoch=value.epoch,
                base_sequence=value.sequence,
                is_transactional=value.transactional,
            )
        case dict():
            return {name: resolve_names(element, names) for name, element in value.items()}
        case list() | tuple():
            return [resolve_names(element, names) for element in value]
    return value
