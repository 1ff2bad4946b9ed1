"""Ctrl-C for tests and the programs that they start, wherever the tests were started from."""

from __future__ import annotations

import signal


def take_interrupts() -> None:
    """Take SIGINT as a program on a terminal does, and so do all programs started from here.

    A shell without job control starts background jobs with SIGINT ignored, and whoever is started
    by them inherits that: a server that is sent Ctrl-C by a test would never end (POSIX, Shell
    Command Language, "Signals and Error Handling").
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
