"""The actions that a fault can apply to a request, an answer or a step of a broker.

Each is a value whose ``str`` describes it in words. ``faults.meanings`` says which is valid where;
``faults.cluster_actions`` has the actions on the cluster. An action is read from YAML or JSON by
its tag: ``{do: delay, delay_ms: 700}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from txnsim.errors import ErrorCode
from txnsim.faults.interception import DamagedPart, RewriteHow, Rewriting, Slices
from txnsim.text import unknown_word_message

PAUSE_MS_MAX: Final = 10 * 366 * 86_400_000
"""Ten years, the range over which a clock may be set."""
THROTTLE_MS_MAX: Final = 2**31 - 1
"""The maximum of the answer's field."""
COPIES_MAX: Final = 1_000
"""Greatest number of copies of one request, which the broker handles one after the other."""
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
"""Field of an action -> its minimum and maximum."""


class BoundedAction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a rule does when it strikes: an action on a crossing, or on the cluster."""

    def __post_init__(self) -> None:
        """Refuse numbers out of bounds.

        Raises:
            ValueError: A number is out of bounds; the message names the field and its bounds.
        """
        for field in self.__struct_fields__:
            field_value = getattr(self, field)
            if field in _BOUNDS and field_value is not None:
                minimum, maximum = _BOUNDS[field]
                if not minimum <= field_value <= maximum:
                    raise ValueError(f"{field} is {field_value}, expected {minimum} to {maximum}")


class _Action(BoundedAction, frozen=True, kw_only=True):
    """An action on a message or a step that crosses a fault point. ``str`` gives its tag and its
    numbers.
    """

    def __str__(self) -> str:
        field_values = {field: getattr(self, field) for field in self.__struct_fields__}
        field_texts = (
            f" {field_value} ms" if field.endswith("_ms") else f" {field_value}"
            for field, field_value in field_values.items()
            if field_value is not None
        )
        return f"{self.__struct_config__.tag}{''.join(field_texts)}"


class Pass(_Action, frozen=True, kw_only=True, tag_field="do", tag="pass"):
    """Let it pass: the rule only counts crossings, and can be waited for or named by ``after`` and
    ``until``.

    It never decides: rules armed later may still strike the same crossing.
    """


class Hold(_Action, frozen=True, kw_only=True, tag_field="do", tag="hold"):
    """Wait until the rule is released, then go on."""


class Delay(_Action, frozen=True, kw_only=True, tag_field="do", tag="delay", omit_defaults=True):
    """Wait ``delay_ms`` of monotonic time, then go on; ``jitter_ms`` adds a random time up to
    that.
    """

    delay_ms: int
    jitter_ms: int | None = None
    """Drawn for each crossing."""


class Reorder(_Action, frozen=True, kw_only=True, tag_field="do", tag="reorder"):
    """Wait until ``behind`` later crossings that match the rule have passed, then go on.

    While a crossing waits, the rule strikes no other; if released, it goes on at once.
    """

    behind: int = 1

    def __str__(self) -> str:
        return f"reorder behind {self.behind}"


class Stall(_Action, frozen=True, kw_only=True, tag_field="do", tag="stall"):
    """Stop the whole connection or link for ``stall_ms`` (monotonic), or until released. Everything
    that follows on it waits too, in order, at whichever point it arrives.
    """

    stall_ms: int | None = None


class Drop(_Action, frozen=True, kw_only=True, tag_field="do", tag="drop"):
    """Lose the message."""


class DropAnswer(_Action, frozen=True, kw_only=True, tag_field="do", tag="drop-answer"):
    """Let the request take effect and lose its answer."""


class Fail(_Action, frozen=True, kw_only=True, tag_field="do", tag="error"):
    """Answer with an error, named as in Kafka (``NOT_COORDINATOR``)."""

    error: str

    def __post_init__(self) -> None:
        if self.error.lower() not in ErrorCode.__members__:
            error_names = (error.name.upper() for error in ErrorCode)
            raise ValueError(unknown_word_message("Kafka error", self.error, error_names))

    @property
    def code(self) -> ErrorCode:
        return ErrorCode[self.error.lower()]

    def __str__(self) -> str:
        return f"error {self.error.upper()}"


class Duplicate(_Action, frozen=True, kw_only=True, tag_field="do", tag="duplicate"):
    """Deliver the request ``times`` more; the answers to the copies are discarded.

    A copy crosses the point itself, so that another rule can hold or delay it; no rule duplicates a
    copy.
    """

    times: int = 1


class Throttle(_Action, frozen=True, kw_only=True, tag_field="do", tag="throttle"):
    """Tell the client a throttle time and mute its connection for as long (KIP-219)."""

    throttle_ms: int


class Corrupt(_Action, frozen=True, kw_only=True, tag_field="do", tag="corrupt"):
    """Damage the bytes: the length prefix (``length``), the CRC of the first record batch
    (``crc``), or some ``bytes`` chosen by the run's seed.
    """

    what: DamagedPart


class Rewrite(_Action, frozen=True, kw_only=True, tag_field="do", tag="rewrite"):
    """Change every field of that name in an answer: ``set`` a number to ``value`` or ``add`` it,
    ``reverse`` or ``clear`` a list, ``insert`` an ``entry`` at its end. Tests readers with answers
    that no broker gives.
    """

    field: str
    """Kafka's name with underscores: ``aborted_transactions``, ``committed_offset``."""
    how: RewriteHow
    value: int | None = None
    entry: dict[str, int | str] | None = None
    """A row by Kafka's names, with a value for each field that has no default."""

    def __post_init__(self) -> None:
        needs_value = self.how in (RewriteHow.SET, RewriteHow.ADD)
        if needs_value and self.value is None:
            raise ValueError(f"value is missing: {self.how} needs one")
        if not needs_value and self.value is not None:
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
    """Write an answer in pieces of that many ``bytes``, one every ``every_ms`` (monotonic), as on a
    slow connection.
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
    """Break the connection or link: before a request takes effect, or instead of its answer. With
    ``reset`` a TCP connection ends with RST and not with FIN; links between simulated brokers make
    no difference.
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
