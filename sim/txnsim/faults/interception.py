"""A request, an answer or a step of a broker that crosses a fault point, and how it may continue.

Code at a fault point passes a ``Crossing`` to an ``Interceptor`` and gets a ``FaultEffect``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import IntEnum, StrEnum
from typing import Any, ClassVar, Protocol, assert_never

import msgspec

from txnsim.faults.subjects import Subject
from txnsim.wire.rewriting import rewrite_field, with_list_element


class Crossing(msgspec.Struct, frozen=True, kw_only=True):
    """A request, response or step that crosses a named fault point (the names are the values of
    ``faults.points.FaultPoint``).
    """

    point: str
    source: str
    """``client/<client id>`` or ``broker/<id>``."""
    target: str
    """``broker/<id>``; at a response point, source and target are those of the request."""
    api_key: int
    api_version: int
    correlation_id: int
    subject: Subject
    line: str = ""
    """The connection or link, unique among the open ones; empty inside a broker."""
    client_instance_id: str = ""
    """The client instance id of the connection as Kafka writes it; empty before a request with
    header v3.
    """
    is_copy: bool = False
    """Whether it is a copy of a request (``SubmitOutcome.DUPLICATE``)."""
    carries_batches: bool = False
    """Whether it is a client's request or answer with record batches."""
    role: str = ""
    """``leader`` or ``follower``, for a step of a replica."""
    kind: str = ""
    """The kind of step at a point inside a broker (``faults.meanings.KINDS``)."""
    content: object = None
    """What crosses: the message of a client's request, a command of a broker, or the answer (an
    error, where a broker refuses). None at other points, and at a relay.
    """


class SubmitOutcome(IntEnum):
    """How an interceptor lets a crossing go on."""

    PASS = 0
    DROP = 1
    """A request is never handled; a response is lost after its request was handled."""
    ERROR = 2
    """The request is answered with ``error`` instead of being handled, or ``error`` replaces the
    true answer.
    """
    DROP_ANSWER = 3
    """The request is handled; its answer is lost."""
    DUPLICATE = 4
    """The request is handled, and ``times`` more; the further answers are discarded."""
    THROTTLE = 5
    """The answer has ``throttle_ms``, and the connection is muted for as long."""
    CORRUPT = 6
    """The bytes are damaged (``damage``)."""
    DISCONNECT = 7
    """Its connection or link breaks."""
    REWRITE = 8
    """A field of the answer is changed (``rewriting``)."""
    SLICE = 9
    """The answer is written in pieces (``slices``)."""


class DamagedPart(StrEnum):
    """The part of a message that is damaged."""

    LENGTH = "length"
    CRC = "crc"
    BYTES = "bytes"


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """How to damage the bytes of a message."""

    part: DamagedPart
    noise: bytes
    """Random bytes from the run's seed, which decide where and how."""


class RewriteHow(StrEnum):
    """The change to a field of an answer."""

    SET = "set"
    ADD = "add"
    REVERSE = "reverse"
    CLEAR = "clear"
    INSERT = "insert"


class Rewriting(msgspec.Struct, frozen=True, kw_only=True):
    """How to change a field of an answer."""

    field: str
    how: RewriteHow
    value: int = 0
    entry: dict[str, int | str] | None = None

    def apply(self, answer: Any) -> Any:
        """The changed answer; the answer itself if it has no such field. A null list stays null
        except for ``clear`` and ``insert``.
        """
        change_value: Callable[[Any], Any]
        match self.how:
            case RewriteHow.INSERT:
                return with_list_element(answer, self.field, self.entry or {})
            case RewriteHow.SET:
                change_value = self._set
            case RewriteHow.ADD:
                change_value = self._add
            case RewriteHow.REVERSE:
                change_value = _reverse_list
            case RewriteHow.CLEAR:
                change_value = _empty_list
            case _:
                assert_never(self.how)
        return rewrite_field(answer, self.field, change_value)

    def _set(self, _: Any) -> int:
        return self.value

    def _add(self, old_value: int) -> int:
        return old_value + self.value


def _reverse_list(old_list: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    return old_list if old_list is None else tuple(reversed(old_list))


def _empty_list(_: Any) -> tuple[Any, ...]:
    return ()


class Slices(msgspec.Struct, frozen=True, kw_only=True):
    """How to write an answer in pieces."""

    size: int
    """Number of bytes of each piece but the last."""
    every_ms: int
    """Milliseconds between two pieces."""


class FaultEffect(msgspec.Struct, frozen=True, kw_only=True):
    """An interceptor's decision on one crossing."""

    outcome: SubmitOutcome
    error: int = 0
    times: int = 0
    throttle_ms: int = 0
    damage: Damage | None = None
    rewriting: Rewriting | None = None
    slices: Slices | None = None
    is_reset: bool = False
    """Whether a broken connection ends with RST."""

    PASS: ClassVar[FaultEffect]


FaultEffect.PASS = FaultEffect(outcome=SubmitOutcome.PASS)


class Interceptor(Protocol):
    """Decides crossings at every fault point; ``injection.injector`` is the real one, ``PassAll``
    does nothing.
    """

    @property
    def is_armed(self) -> bool:
        """False if no rule is armed, so that crossings need not be described."""

    def cross(self, crossing: Crossing) -> FaultEffect | Awaitable[FaultEffect] | None:
        """None: continue. A FaultEffect: apply it. An awaitable: the crossing is held until the
        effect is known.
        """


class PassAll:
    """The interceptor of a cluster without faults."""

    is_armed = False

    def cross(self, crossing: Crossing) -> FaultEffect | Awaitable[FaultEffect] | None:  # noqa: ARG002 - asks nothing
        return None
