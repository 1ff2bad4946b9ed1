"""A limit on the processor time of one run, so that one that goes on for ever ends as a finding."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

AGAIN_S: Final = 5.0
"""How long it may take to clean up."""


class OverLimitError(KeyboardInterrupt):
    """The time is used up.

    An event loop lets nothing else through: it would keep any other exception for the task that it
    struck, and go on.
    """


@contextmanager
def processor_limit(seconds: float | None, *, again_s: float = AGAIN_S) -> Iterator[None]:
    """Raise ``OverLimitError`` once this process has computed for so long.

    Only the main thread of a process gets signals. Elsewhere, and on Windows, there is no limit.

    Args:
        seconds: How long; None for no limit.
        again_s: What is cleaned up then may go on for ever as well: it strikes again and again.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if seconds is None or not is_main or not hasattr(signal, "SIGVTALRM"):
        yield
        return

    def over(*_: object) -> None:
        raise OverLimitError

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, again_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
