"""What can be done to a request, an answer or a step of a broker that is struck.

Each is a value that says itself in words (``str``). Which of them has a meaning where is in
``faults.meanings``; what is done to the cluster instead is in ``faults.cluster_actions``. Read from
YAML or JSON by its tag: ``{do: delay, delay_ms: 700}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from txnsim.errors import ErrorCode
from txnsim.faults.interception import DamagedPart, RewriteHow, Rewriting, Slices
from txnsim.text import unknown_word_message

PAUSE_MS_MAX: Final = 10 * 366 * 86_400_000
"""Ten years, as far as a clock may be set."""
THROTTLE_MS_MAX: Final = 2**31 - 1
"""What an answer's field holds."""
COPIES_MAX: Final = 1_000
"""Copies of one request, which the broker handles one after the other."""
BEHIND_MAX: Final = 1_000_000
SLICE_BYTES_MAX: Final = 1 << 30

_BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "delay_ms": (0, PAUSE_MS_MAX),
    "jitter_ms": (0, PAUSE_MS_MAX),
    "behind": (1, BEHIND_MAX),
    "stall_ms": (0, PAUSE_MS_MAX),
    "times": (1, COPIES_MAX),
    "throttle_ms": (1, THROTTLE_MS_MAX),
    "bytes": (1, SLICE_BYTES_MAX),
    "every_ms": (0, PAUSE_MS_MAX),
    "value": (-(1 << 63), (1 << 63) - 1),
    "restart_after_ms": (0, PAUSE_MS_MAX),
    "heal_after_ms": (0, PAUSE_MS_MAX),
    "free_after_ms": (0, PAUSE_MS_MAX),
}
"""Field of an action -> the least and the most that it may be, where it is given."""


class BoundedAction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a rule does when it strikes: to what crosses its point, or to the cluster."""

    def __post_init__(self) -> None:
        """Refuse a number that is out of bounds.

        Raises:
            ValueError: One is; the message names the field and its bounds.
        """
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if field in _BOUNDS and value is not None:
                least, most = _BOUNDS[field]
                if not least <= value <= most:
                    raise ValueError(f"{field} is {value}, expected {least} to {most}")


class _Action(BoundedAction, frozen=True, kw_only=True):
    """What happens to a message or a step that crosses a fault point. In words it is the tag, with
    its numbers.
    """

    def __str__(self) -> str:
        field_values = {field: getattr(self, field) for field in self.__struct_fields__}
        numbers = (
            f" {value} ms" if field.endswith("_ms") else f" {value}"
            for field, value in field_values.items()
            if value is not None
        )
        return f"{self.__struct_config__.tag}{''.join(numbers)}"


class Pass(_Action, frozen=True, kw_only=True, tag_field="do", tag="pass"):
    """Let it go on: the rule only counts, can be waited for and named by ``after`` and ``until``.

    It never decides: rules armed later may still strike the same crossing.
    """


class Hold(_Action, frozen=True, kw_only=True, tag_field="do", tag="hold"):
    """Wait until the rule is released, then go on."""


class Delay(_Action, frozen=True, kw_only=True, tag_field="do", tag="delay", omit_defaults=True):
    """Wait ``delay_ms`` of monotonic time, then go on; with ``jitter_ms`` up to so much longer."""

    delay_ms: int
    jitter_ms: int | None = None
    """Drawn anew for each crossing."""


class Reorder(_Action, frozen=True, kw_only=True, tag_field="do", tag="reorder"):
    """Wait until ``behind`` later crossings that match the rule have passed, then go on.

    While one waits, the rule strikes no other; released, it goes on at once.
    """

    behind: int = 1

    def __str__(self) -> str:
        return f"reorder behind {self.behind}"


class Stall(_Action, frozen=True, kw_only=True, tag_field="do", tag="stall"):
    """Let the whole connection or link stand still, for ``stall_ms`` (monotonic) or until released.

    What comes later on it waits too, in order, at whichever point it comes to.
    """

    stall_ms: int | None = None


class Drop(_Action, frozen=True, kw_only=True, tag_field="do", tag="drop"):
    """Lose it."""


class DropAnswer(_Action, frozen=True, kw_only=True, tag_field="do", tag="drop-answer"):
    """Let the request take effect and lose its answer."""


class Fail(_Action, frozen=True, kw_only=True, tag_field="do", tag="error"):
    """Answer with an error, given by Kafka's name of it (``NOT_COORDINATOR``)."""

    error: str

    def __post_init__(self) -> None:
        if self.error.lower() not in ErrorCode.__members__:
            names = (error.name.upper() for error in ErrorCode)
            raise ValueError(unknown_word_message("Kafka error", self.error, names))

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


class Throttle(_Action, frozen=True, kw_only=True, tag_field="do", tag="throttle"):
    """Tell the client a throttle time and mute its connection for as long (KIP-219)."""

    throttle_ms: int


class Corrupt(_Action, frozen=True, kw_only=True, tag_field="do", tag="corrupt"):
    """Damage the bytes: the ``length`` in front, the ``crc`` of the first record batch, or some
    ``bytes`` drawn from the run's seed.
    """

    what: DamagedPart


class Rewrite(_Action, frozen=True, kw_only=True, tag_field="do", tag="rewrite"):
    """Change a field of an answer wherever in it it stands: ``set`` or ``add`` a ``value`` to a
    number, ``reverse`` or ``clear`` a list, ``insert`` an ``entry`` at its end. To test readers
    with answers that no broker gives.
    """

    field: str
    """Kafka's name with underscores: ``aborted_transactions``, ``committed_offset``."""
    how: RewriteHow
    value: int | None = None
    entry: dict[str, int | str] | None = None
    """A row by Kafka's names, with what has no default."""

    def __post_init__(self) -> None:
        needs = self.how in (RewriteHow.SET, RewriteHow.ADD)
        if needs and self.value is None:
            raise ValueError(f"value is missing: {self.how} needs one")
        if not needs and self.value is not None:
            raise ValueError(f"value has no meaning with {self.how}")
        if self.how is RewriteHow.INSERT and not self.entry:
            raise ValueError("entry is missing: insert needs one")
        if self.how is not RewriteHow.INSERT and self.entry is not None:
            raise ValueError(f"entry has no meaning with {self.how}")
        super().__post_init__()

    @property
    def rewriting(self) -> Rewriting:
        value = self.value or 0
        return Rewriting(field=self.field, how=self.how, value=value, entry=self.entry)

    def __str__(self) -> str:
        value = "" if self.value is None else f" {self.value}"
        value += "".join(
            f" {name}={field_value}" for name, field_value in (self.entry or {}).items()
        )
        return f"rewrite {self.field}: {self.how}{value}"


class Slice(_Action, frozen=True, kw_only=True, tag_field="do", tag="slice"):
    """Write an answer in pieces of so many ``bytes``, one every ``every_ms`` (monotonic): a narrow
    line.
    """

    bytes: int
    every_ms: int

    @property
    def slices(self) -> Slices:
        """The slices for the writer of the connection."""
        return Slices(size=self.bytes, every_ms=self.every_ms)

    def __str__(self) -> str:
        return f"slice {self.bytes} bytes every {self.every_ms} ms"


class Disconnect(
    _Action, frozen=True, kw_only=True, tag_field="do", tag="disconnect", omit_defaults=True
):
    """Break the connection or link: before a request has taken effect, or instead of its answer.

    With ``reset`` a TCP connection ends with RST and not with FIN. Links of the simulator know no
    difference.
    """

    reset: bool = False

    def __str__(self) -> str:
        return "disconnect with reset" if self.reset else "disconnect"


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
    | Slice
    | Disconnect
)
