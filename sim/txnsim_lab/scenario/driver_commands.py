"""What a run in a process of its own is asked, and its answers (``scenario.driven_run``). Light:
who only asks for runs imports no story.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

MODULE: Final = "txnsim_lab.scenario.driven_run"
"""Run by the helper process (``scenario.forked_processes``)."""


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step about to be taken."""

    number: int
    """From 0 on."""
    of: int
    """Number of steps in the story."""
    text: str


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody does to a run, besides its story."""

    before: int
    """Before this step of the story, counted from 0."""
    step: Mapping[str, Any]
    """A step, as a story's file has it."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The run that a process has to make."""

    yaml: str
    """The scenario."""
    run: str
    take: str
    seed: int
    paused: bool = False
    """Stop before the first step."""
    inputs: tuple[Input, ...] = ()
    lesson: str = ""
    """Whose goal is judged after each input; the trace tells when it is reached."""


class Go(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Go on."""

    steps: int | None = None
    """None to run to the end."""


class Drive(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An input, now."""

    step: Mapping[str, Any]


class Back(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Return to an earlier stop."""

    count: int = 1


Command = Go | Drive | Back


class Stopped(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The run waits for a command."""

    next: PlannedStep
    back: int
    """To so many earlier stops it can return."""
    inputs: tuple[Input, ...]
    """All so far: with seed and scenario they repeat the run."""
    trace: bytes
    error: str | None = None
    """Reason why the last command failed; the run is as before the command."""


class RunEnded(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The run has ended."""

    result: bytes
    """``runner.RunResult`` in msgpack."""
    back: int
    inputs: tuple[Input, ...]
    error: str | None = None


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The run could not be made."""

    error: str


State = Stopped | RunEnded | Failed
to_order: Final = msgspec.msgpack.Decoder(Order).decode
to_command: Final = msgspec.msgpack.Decoder(Command).decode
to_state: Final = msgspec.msgpack.Decoder(State).decode
encode: Final = msgspec.msgpack.Encoder(enc_hook=str).encode
