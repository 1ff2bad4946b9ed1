"""What can be done to a request, an answer or a step of a broker that is struck.

Each is a value that says itself in words (``str``). Which of them has a meaning where is in
``faults.meanings``; what is done to the cluster instead is in ``faults.cluster_actions``. Read from
YAML or JSON by its tag: ``{do: delay, delay_ms: 700}``.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.errors import ErrorCode
from txnsim.faults.crossings import DamagedPart, RewriteHow, Rewriting

PAUSE_MS_MAX: Final = 10 * 366 * 86_400_000
"""Ten years, as far as a clock may be set."""
THROTTLE_MS_MAX: Final = 2**31 - 1
"""What an answer's field holds."""
COPIES_MAX: Final = 1_000
"""Of one request: they are handled one after the other."""
BEHIND_MAX: Final = 1_000_000


class _Action(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens to a message or a step that crosses a fault point. In words it is the tag, with
    its numbers.
    """

    def __str__(self) -> str:
        return str(self.__struct_config__.tag)


class Pass(_Action, frozen=True, kw_only=True, tag_field="do", tag="pass"):
    """Let it go on: the rule only counts, can be waited for and named by ``after`` and ``until``.

    It never decides: rules armed later may still strike the same crossing.
    """


class Hold(_Action, frozen=True, kw_only=True, tag_field="do", tag="hold"):
    """Wait until the rule is released, then go on."""


class Delay(_Action, frozen=True, kw_only=True, tag_field="do", tag="delay"):
    """Wait ``delay_ms`` of monotonic time, then go on."""

    delay_ms: int

    def __post_init__(self) -> None:
        check_bounds("delay_ms", self.delay_ms, 0, PAUSE_MS_MAX)

    def __str__(self) -> str:
        return f"delay {self.delay_ms} ms"


class Reorder(_Action, frozen=True, kw_only=True, tag_field="do", tag="reorder"):
    """Wait until ``behind`` later crossings that match the rule have passed, then go on.

    While one waits, the rule strikes no other; released, it goes on at once.
    """

    behind: int = 1

    def __post_init__(self) -> None:
        check_bounds("behind", self.behind, 1, BEHIND_MAX)

    def __str__(self) -> str:
        return f"reorder behind {self.behind}"


class Stall(_Action, frozen=True, kw_only=True, tag_field="do", tag="stall"):
    """Let the whole connection or link stand still, for ``stall_ms`` (monotonic) or until released.

    What comes later on it waits too, in order, at whichever point it comes to.
    """

    stall_ms: int | None = None

    def __post_init__(self) -> None:
        if self.stall_ms is not None:
            check_bounds("stall_ms", self.stall_ms, 0, PAUSE_MS_MAX)

    def __str__(self) -> str:
        return "stall" if self.stall_ms is None else f"stall {self.stall_ms} ms"


class Drop(_Action, frozen=True, kw_only=True, tag_field="do", tag="drop"):
    """Lose it."""


class DropAnswer(_Action, frozen=True, kw_only=True, tag_field="do", tag="drop-answer"):
    """Let the request take effect and lose its answer."""


class Fail(_Action, frozen=True, kw_only=True, tag_field="do", tag="error"):
    """Answer with an error, given by Kafka's name of it (``NOT_COORDINATOR``)."""

    error: str

    def __post_init__(self) -> None:
        if self.error.lower() not in ErrorCode.__members__:
            raise ValueError(f"{self.error!r} is no error of Kafka's")

    @property
    def code(self) -> ErrorCode:
        """The error as a code."""
        return ErrorCode[self.error.lower()]

    def __str__(self) -> str:
        return f"error {self.error.upper()}"


class Duplicate(_Action, frozen=True, kw_only=True, tag_field="do", tag="duplicate"):
    """Let the request arrive ``times`` more; the answers to the copies are thrown away.

    A copy crosses the point itself, so that another rule can hold or delay it; no rule duplicates a
    copy.
    """

    times: int = 1

    def __post_init__(self) -> None:
        check_bounds("times", self.times, 1, COPIES_MAX)

    def __str__(self) -> str:
        return f"duplicate {self.times}"


class Throttle(_Action, frozen=True, kw_only=True, tag_field="do", tag="throttle"):
    """Tell the client a throttle time and mute its connection for as long (KIP-219)."""

    throttle_ms: int

    def __post_init__(self) -> None:
        check_bounds("throttle_ms", self.throttle_ms, 1, THROTTLE_MS_MAX)

    def __str__(self) -> str:
        return f"throttle {self.throttle_ms} ms"


class Corrupt(_Action, frozen=True, kw_only=True, tag_field="do", tag="corrupt"):
    """Damage the bytes: the ``length`` in front, the ``crc`` of the first record batch, or some
    ``bytes`` drawn from the run's seed.
    """

    what: DamagedPart

    def __str__(self) -> str:
        return f"corrupt {self.what}"


class Rewrite(_Action, frozen=True, kw_only=True, tag_field="do", tag="rewrite"):
    """Change a field of an answer wherever in it it stands: ``set`` or ``add`` a ``value`` to a
    number, ``reverse`` or ``clear`` a list. To test readers with answers that no broker gives.
    """

    field: str
    """Kafka's name with underscores: ``aborted_transactions``, ``committed_offset``."""
    how: RewriteHow
    value: int | None = None

    def __post_init__(self) -> None:
        needs = self.how in (RewriteHow.SET, RewriteHow.ADD)
        if needs and self.value is None:
            raise ValueError(f"value is missing: {self.how} needs one")
        if not needs and self.value is not None:
            raise ValueError(f"value has no meaning with {self.how}")
        if self.value is not None:
            check_bounds("value", self.value, -(1 << 63), (1 << 63) - 1)

    @property
    def rewriting(self) -> Rewriting:
        """What is to be done to the answer."""
        return Rewriting(field=self.field, how=self.how, value=self.value or 0)

    def __str__(self) -> str:
        value = "" if self.value is None else f" {self.value}"
        return f"rewrite {self.field}: {self.how}{value}"


class Disconnect(_Action, frozen=True, kw_only=True, tag_field="do", tag="disconnect"):
    """Break the connection or link: before a request has taken effect, or instead of its answer."""


CrossingAction = (
    Pass
    | Hold
    | Delay
    | Reorder
    | Stall
    | Drop
    | DropAnswer
    | Fail
    | Duplicate
    | Throttle
    | Corrupt
    | Rewrite
    | Disconnect
)


def check_bounds(field: str, value: int, least: int, most: int) -> None:
    """Refuse a number that is out of bounds.

    Raises:
        ValueError: It is; the message names the field and its bounds.
    """
    if not least <= value <= most:
        raise ValueError(f"{field} is {value}, expected {least} to {most}")
