"""Commands to a run in its own process (``scenario.driven_run``), and its answers. This module is
light: a process that only starts runs imports no scenario code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

MODULE: Final = "txnsim_lab.scenario.driven_run"
"""The module that the helper process runs (``scenario.forked_processes``)."""


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that is played next."""

    number: int
    """Number of the step, from 0 on."""
    of: int
    """Number of steps in the story."""
    text: str


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user's input to a run: a step that the story does not have."""

    before: int
    """The input is done before this step of the story, counted from 0."""
    step: Mapping[str, Any]
    """The step, as a scenario file has it."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A request to play a run."""

    yaml: str
    """The scenario file."""
    run: str
    take: str
    seed: int
    paused: bool = False
    """Whether the run stops before the first step."""
    inputs: tuple[Input, ...] = ()
    lesson: str = ""
    """Lesson whose goals are checked after each input; the trace records when one is reached."""


class Go(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Command: go on."""

    steps: int | None = None
    """Number of steps to play before the next stop; None plays to the end."""


class Drive(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Command: do this input now."""

    step: Mapping[str, Any]


class Back(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Command: return to an earlier stop."""

    count: int = 1


Command = Go | Drive | Back


class RunStopped(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The run waits for a command."""

    next: PlannedStep
    back: int
    """Number of earlier stops that the run can return to."""
    inputs: tuple[Input, ...]
    """All inputs so far. Together with the seed and the scenario they repeat the run."""
    trace: bytes
    error: str | None = None
    """Why the last command failed; the run is as it was before the command."""


class RunEnded(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The run has ended."""

    result: bytes
    """``runner.RunResult`` in msgpack."""
    back: int
    inputs: tuple[Input, ...]
    error: str | None = None


class RunFailed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The run could not be played."""

    error: str


State = RunStopped | RunEnded | RunFailed
to_order: Final = msgspec.msgpack.Decoder(Order).decode
to_command: Final = msgspec.msgpack.Decoder(Command).decode
to_state: Final = msgspec.msgpack.Decoder(State).decode
encode: Final = msgspec.msgpack.Encoder(enc_hook=str).encode
