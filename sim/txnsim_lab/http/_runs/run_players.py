"""What plays a run: a process of its own (``forked_processes.Child``), or on a system without fork
a thread that repeats the run from its beginning for each command (``http._runs.replayed_run``).
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol

from txnsim.http.work_thread import WorkThread
from txnsim.on_demand_imports import OnDemand
from txnsim_lab.scenario.forked_processes import ProcessEndedError

if TYPE_CHECKING:
    from txnsim_lab.http._runs import replayed_run
else:
    replayed_run = OnDemand("txnsim_lab.http._runs.replayed_run")


class RunPlayer(Protocol):
    """Plays one run, by commands (``scenario.driver_commands``)."""

    async def send(self, message: bytes) -> None:
        """Send the order for the run, or a command."""
        ...

    async def hear(self) -> bytes:
        """The next answer.

        Raises:
            ProcessEndedError: None will come.
        """
        ...

    def kill(self) -> None: ...


class ReplayedPlayer:
    """Play a driven run by playing it again from its start up to each command; all runs share one
    thread.
    """

    def __init__(self, thread: WorkThread) -> None:
        self._thread = thread
        self._replayed_run: replayed_run.ReplayedRun | None = None
        self._pending_answers: deque[bytes] = deque()
        self._is_killed = False

    async def send(self, message: bytes) -> None:
        """Send the order or a command, and wait until it is obeyed."""
        self._pending_answers += await self._thread.do(partial(self._send_message, message))

    async def hear(self) -> bytes:
        """The next answer, which ``send`` has stored."""
        if self._is_killed or not self._pending_answers:
            raise ProcessEndedError("the run has ended")
        return self._pending_answers.popleft()

    def kill(self) -> None:
        """Mark the run as ended. A command that is being obeyed goes on to its end."""
        self._is_killed = True

    def _send_message(self, message: bytes) -> list[bytes]:
        if self._replayed_run is None:
            self._replayed_run = replayed_run.ReplayedRun()
        return self._replayed_run.send_message(message)
