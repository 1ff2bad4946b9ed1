"""Declared faults: which crossing is struck, and what happens to it.

A rule is a value: it says at which point, whose request, the how-manieth, and what is done.
Counting is the injector's business; here is only the pure question whether a rule concerns a
crossing. Rules are read from YAML or JSON with ``msgspec.convert`` and written with
``msgspec.to_builtins``::

    id: late
    point: client.request
    api: Produce
    transactional_id: app
    action: {do: hold}

Criteria that are left out match everything. Those on the subject must hold for one and the same
transaction or marker of a batched request.
"""

from __future__ import annotations

from typing import Final, assert_never

import msgspec

from sim.errors import ErrorCode
from sim.faults.points import FaultPoint
from sim.types import Crossing, Subject
from sim.wire.apis import APIS, api_name


class Hold(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="hold"):
    """Wait until the rule is released, then go on."""


class Delay(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="do",
    tag="delay",
):
    """Wait ``delay_ms`` of monotonic time, then go on."""

    delay_ms: int

    def __post_init__(self) -> None:
        if self.delay_ms < 0:
            raise ValueError(f"delay_ms is {self.delay_ms}, expected 0 or more")


class Drop(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="drop"):
    """Lose it."""


class Fail(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="do",
    tag="error",
):
    """Answer with an error, given by Kafka's name of it (``NOT_COORDINATOR``)."""

    error: str

    def __post_init__(self) -> None:
        if self.error.lower() not in ErrorCode.__members__:
            raise ValueError(f"{self.error!r} is no error of Kafka's")

    @property
    def code(self) -> ErrorCode:
        """The error as a code."""
        return ErrorCode[self.error.lower()]


Action = Hold | Delay | Drop | Fail


class FaultRule(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One declared fault."""

    id: str
    """Name of the rule, unique among the armed ones."""
    point: FaultPoint
    action: Action

    # Whose request
    api: str | int | None = None
    """Kafka's name of the API or its key."""
    broker: int | None = None
    """The request's target, at response points too."""
    source: str | None = None
    """``client/<client id>`` or ``broker/<id>``."""
    client_id: str | None = None
    """Short for ``source: client/<client id>``."""

    # About whom
    transactional_id: str | None = None
    producer_id: int | None = None
    topic: str | None = None
    partition: int | None = None
    committed: bool | None = None
    """Result carried by EndTxn or by a marker."""

    # Which of the crossings that match, counted from 1 since the rule was armed
    nth: int = 1
    """The first one that is struck."""
    limit: int | None = None
    """How many are struck from there on; None: all."""
    occurrences: tuple[int, ...] = ()
    """If given, exactly these are struck; ``nth`` and ``limit`` are not used."""

    def __post_init__(self) -> None:
        """Refuse what could never strike.

        Raises:
            ValueError: The rule makes no sense; the message names the field.
        """
        if not self.id:
            raise ValueError("id is empty")
        if isinstance(self.api, str) and self.api not in _API_NAMES:
            raise ValueError(f"api {self.api!r} is no API of Kafka's")
        if self.transactional_id is not None and self.api in _WITHOUT_TRANSACTIONAL_ID:
            raise ValueError(
                f"transactional_id can't be matched on {self.api}, which does not carry it; "
                "producer_id can"
            )
        if self.partition is not None and self.topic is None:
            raise ValueError(f"partition {self.partition} needs a topic")
        if self.nth < 1 or (self.limit is not None and self.limit < 1):
            raise ValueError(f"nth {self.nth} and limit {self.limit} count from 1")
        if any(occurrence < 1 for occurrence in self.occurrences):
            raise ValueError(f"occurrences {self.occurrences} count from 1")
        if self.occurrences and (self.nth != 1 or self.limit is not None):
            raise ValueError("occurrences excludes nth and limit")


_WITHOUT_TRANSACTIONAL_ID: Final = frozenset(
    {"WriteTxnMarkers", 27, "DescribeProducers", 61, "AllocateProducerIds", 67, "Fetch", 1}
)
"""APIs that speak of producers and partitions only: such a rule would never strike."""

_API_NAMES: Final = frozenset(name for name, _ in APIS.values())


def matches(rule: FaultRule, crossing: Crossing) -> bool:
    """Whether a rule concerns a crossing, however often it has struck."""
    return (
        rule.point == crossing.point
        and (rule.api is None or rule.api in (crossing.api_key, api_name(crossing.api_key)))
        and (rule.broker is None or crossing.target == f"broker/{rule.broker}")
        and (rule.source is None or crossing.source == rule.source)
        and (rule.client_id is None or crossing.source == f"client/{rule.client_id}")
        and _concerns(rule, crossing.subject)
    )


def strikes(rule: FaultRule, occurrence: int) -> bool:
    """Whether a rule strikes the ``occurrence``-th crossing that matches it, counted from 1."""
    if rule.occurrences:
        return occurrence in rule.occurrences
    return occurrence >= rule.nth and (rule.limit is None or occurrence < rule.nth + rule.limit)


def spent(rule: FaultRule, occurrence: int) -> bool:
    """Whether a rule can strike no crossing after the ``occurrence``-th that matches it."""
    if rule.occurrences:
        return occurrence >= max(rule.occurrences)
    return rule.limit is not None and occurrence >= rule.nth + rule.limit - 1


def describe(action: Action) -> str:
    """An action in words."""
    match action:
        case Hold():
            return "hold"
        case Delay(delay_ms=delay_ms):
            return f"delay {delay_ms} ms"
        case Drop():
            return "drop"
        case Fail(error=error):
            return f"error {error.upper()}"
    assert_never(action)


def _concerns(rule: FaultRule, subject: Subject) -> bool:
    return _concerns_one(rule, subject) or any(
        _concerns_one(rule, other) for other in subject.others
    )


def _concerns_one(rule: FaultRule, subject: Subject) -> bool:
    return (
        (rule.transactional_id is None or subject.transactional_id == rule.transactional_id)
        and (rule.producer_id is None or subject.producer_id == rule.producer_id)
        and (rule.committed is None or subject.committed == rule.committed)
        and (
            rule.topic is None
            or any(
                tp.topic == rule.topic and rule.partition in (None, tp.partition)
                for tp in subject.partitions
            )
        )
    )
