"""A limit on a run's processor time; a run without end becomes a finding."""

from __future__ import annotations

import _weakrefset
import signal
import threading
import traceback
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SOON_S: Final = 0.001
"""Pause before the signal is raised again where it was swallowed."""
_WEAK: Final = frozenset((_weakrefset.__file__, weakref.__file__))
AGAIN_S: Final = 5.0
"""Time allowed for cleaning up."""


class OverLimitError(KeyboardInterrupt):
    """The time is used up.

    An event loop lets nothing else through: it would keep any other exception for the task that it
    struck, and go on.
    """


class Limit:
    """Of one run."""

    is_over: bool = False
    """Whether it has struck; the run may then raise any error, as cleaning up was cut short."""


def _is_forgotten(frame: FrameType | None) -> bool:
    """Whether Python would print an exception that is raised there and go on: in a finalizer, and
    where a weak reference is removed.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or code.co_filename in _WEAK:
            return True
        frame = frame.f_back
    return False


@contextmanager
def processor_limit(seconds: float | None, *, again_s: float = AGAIN_S) -> Iterator[Limit]:
    """Raise ``OverLimitError`` once this process has computed for so long.

    Only the main thread of a process gets signals. Elsewhere, and on Windows, there is no limit.

    Args:
        seconds: How long; None for no limit.
        again_s: What is cleaned up then may go on for ever as well: it strikes again and again.
    """
    limit = Limit()
    is_main = threading.current_thread() is threading.main_thread()
    if seconds is None or not is_main or not hasattr(signal, "SIGVTALRM"):
        yield limit
        return

    def over(_signal: int, frame: FrameType | None) -> None:
        if _is_forgotten(frame):
            signal.setitimer(signal.ITIMER_VIRTUAL, SOON_S, again_s)
        else:
            limit.is_over = True
            # It may strike between the making of a coroutine and its first step.
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            raise OverLimitError

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, again_s)
    try:
        with warnings.catch_warnings():
            try:
                yield limit
            except BaseException as error:
                if limit.is_over:
                    traceback.clear_frames(error.__traceback__)  # while nothing warns of them
                raise
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
