"""Ends a foreign program with this process, also where SIGKILL leaves this one no time to do it.

Our own processes end when a socket or standard input does (``--until-eof``). A foreign program need
not read anything, and may ignore all other signals. So a shell waits beside it for the end of a
pipe that only this process holds open, and then kills the program's process group.
"""

from __future__ import annotations

import subprocess
from typing import Final

_SCRIPT: Final = 'read -r word || kill -s KILL -- "-$1"'
"""A line dismisses the guard; the pipe's end without a line means that we have ended."""


class ProcessGuard:
    """The guard of one process group.

    Args:
        group_id: The id of its leader, which was started in a session of its own.
    """

    def __init__(self, group_id: int) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "guard", str(group_id)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a signal to our group is none to the guard
        )

    def dismiss(self) -> None:
        """End the guard, before the group's id may be that of others: no process is killed."""
        if self._shell.returncode is None:
            self._shell.communicate(b"\n")
