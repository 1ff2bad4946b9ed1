"""The error for a trace whose events lack what their kinds carry: another program has written the
trace, or somebody has edited it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from txnsim.errors import BadInputError
from txnsim.runtime.trace import Event
from txnsim.trace.trace_file import Recording

WRONG_FIELD_ERRORS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What is raised where a field of a payload is missing, or has a value of another type."""
_TO_DO: Final = "docs/trace-kinds.md says what each kind of event carries; record the run again"


class PayloadError(BadInputError):
    """A field of an event's payload is missing or wrong; the message names the event."""

    @classmethod
    def of_event(cls, event: Event, error: Exception) -> PayloadError:
        """The error for an event that can't be applied."""
        return cls(f"event {event.i}: no payload of {event.k}: {_problem_of(error)}; {_TO_DO}")


@contextmanager
def explaining(
    source: Path | str, recording: Recording, last_position: int | None = None
) -> Iterator[None]:
    """Work on a recording from outside. What is wrong in a payload may show only after it was
    applied, where the state is read.

    Raises:
        PayloadError: A payload up to ``last_position`` is wrong; the message names the source.
    """
    try:
        yield
    except PayloadError as error:
        raise PayloadError(f"{source}, {error}") from error
    except WRONG_FIELD_ERRORS as error:
        if last_position is None:
            last_position = recording.events[-1].i if recording.events else -1
        raise PayloadError(
            f"{source}, events up to {last_position}: their payloads do not suffice:"
            f" {_problem_of(error)}; {_TO_DO}"
        ) from error


def _problem_of(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
