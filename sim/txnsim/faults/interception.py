"""A request, an answer or an act of a broker as it passes a fault point, and how it may go on.

Code that passes a fault point shows an ``Interceptor`` a ``Crossing`` and is answered with a
``FaultEffect``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import IntEnum, StrEnum
from typing import Any, ClassVar, Protocol, assert_never

import msgspec

from txnsim.faults.subjects import Subject
from txnsim.wire.rewriting import rewrite_field, with_entry


class Crossing(msgspec.Struct, frozen=True, kw_only=True):
    """A request or response passing a named fault point (``faults.points.FaultPoint`` values are
    such names).
    """

    point: str
    source: str
    """``client/<client id>`` or ``broker/<id>``."""
    target: str
    """``broker/<id>``; on a response point source and target stay those of the request."""
    api_key: int
    api_version: int
    correlation_id: int
    subject: Subject
    line: str = ""
    """The connection or link on which it travels, unique among those that are open; empty inside a
    broker.
    """
    is_copy: bool = False
    """A request that arrives once more (``SubmitOutcome.DUPLICATE``)."""
    carries_batches: bool = False
    """A client's request or answer with record batches in it."""
    role: str = ""
    """``leader`` or ``follower``, where a replica does something."""
    kind: str = ""
    """What is done at a point inside a broker (``faults.meanings.KINDS``)."""


class SubmitOutcome(IntEnum):
    """How an interceptor lets a crossing go on."""

    PASS = 0
    DROP = 1
    """Request: never handled. Response: handled, the answer is lost."""
    ERROR = 2
    """Answered with ``error`` instead of being handled (request) or instead of the true answer
    (response).
    """
    DROP_ANSWER = 3
    """Handled; the answer is lost."""
    DUPLICATE = 4
    """Handled, and ``times`` more, the further answers being thrown away."""
    THROTTLE = 5
    """The answer tells ``throttle_ms``, and the connection is muted for as long."""
    CORRUPT = 6
    """Goes on with the bytes damaged (``damage``)."""
    DISCONNECT = 7
    """Its connection or link breaks."""
    REWRITE = 8
    """A field of the answer is changed (``rewriting``)."""
    SLICE = 9
    """The answer is written in pieces (``slices``)."""


class DamagedPart(StrEnum):
    """What of a message on a connection is damaged."""

    LENGTH = "length"
    CRC = "crc"
    BYTES = "bytes"


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """How the bytes of a message are to be damaged."""

    part: DamagedPart
    noise: bytes
    """Drawn from the run's seed: decides where and how."""


class RewriteHow(StrEnum):
    """The change to a field of an answer."""

    SET = "set"
    ADD = "add"
    REVERSE = "reverse"
    CLEAR = "clear"
    INSERT = "insert"


class Rewriting(msgspec.Struct, frozen=True, kw_only=True):
    """How a field of an answer is changed."""

    field: str
    how: RewriteHow
    value: int = 0
    entry: dict[str, int | str] | None = None

    def apply(self, answer: Any) -> Any:
        """The answer, changed; itself where it has no such field. A list that is null stays so, but
        for ``clear`` and ``insert``.
        """
        change: Callable[[Any], Any]
        match self.how:
            case RewriteHow.INSERT:
                return with_entry(answer, self.field, self.entry or {})
            case RewriteHow.SET:
                change = self._set
            case RewriteHow.ADD:
                change = self._add
            case RewriteHow.REVERSE:
                change = _reverse_list
            case RewriteHow.CLEAR:
                change = _empty_list
            case _:
                assert_never(self.how)
        return rewrite_field(answer, self.field, change)

    def _set(self, _: Any) -> int:
        return self.value

    def _add(self, old_value: int) -> int:
        return old_value + self.value


def _reverse_list(old_list: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    return old_list if old_list is None else tuple(reversed(old_list))


def _empty_list(_: Any) -> tuple[Any, ...]:
    return ()


class Slices(msgspec.Struct, frozen=True, kw_only=True):
    """The pieces in which an answer is written."""

    size: int
    """Bytes of each slice but the last."""
    every_ms: int
    """Between two of them."""


class FaultEffect(msgspec.Struct, frozen=True, kw_only=True):
    """An interceptor's word on one crossing."""

    outcome: SubmitOutcome
    error: int = 0
    times: int = 0
    throttle_ms: int = 0
    damage: Damage | None = None
    rewriting: Rewriting | None = None
    slices: Slices | None = None
    is_reset: bool = False
    """A connection that breaks ends with RST."""

    PASS: ClassVar[FaultEffect]


FaultEffect.PASS = FaultEffect(outcome=SubmitOutcome.PASS)


class Interceptor(Protocol):
    """Stands at every named fault point; ``injection.injector`` is the real one, ``PassAll`` the
    idle one.
    """

    @property
    def is_armed(self) -> bool:
        """False: no rule is armed, a crossing need not even be described."""

    def cross(self, crossing: Crossing) -> FaultEffect | Awaitable[FaultEffect] | None:
        """None: proceed. A verdict: obey it. An awaitable: held until the verdict."""


class PassAll:
    """The interceptor of an undisturbed cluster."""

    is_armed = False

    def cross(self, crossing: Crossing) -> FaultEffect | Awaitable[FaultEffect] | None:  # noqa: ARG002 - asks nothing
        """Let everything pass."""
        return None
