"""Traces without a trailer: their writer was killed, or somebody cut them off."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from txnsim.cli.output import TERMINAL
from txnsim.text import printable
from txnsim.trace.trace_file import Recording

CUT_OFF_STATUS: Final = 4
"""Exit status of what is said about a trace's end, where the trace was cut off."""


def tell_cut_off(path: Path, recording: Recording) -> bool:
    """Warn of a trace without a trailer. Returns whether it has its end."""
    if recording.trailer:
        return True
    last_event_text = f"event {recording.events[-1].i}" if recording.events else "its header"
    TERMINAL.warn(
        f"txnsim: {printable(str(path))} has no trailer: it was cut off, or its writer was killed."
        f" Nothing is known of what came after {last_event_text}."
    )
    return False
