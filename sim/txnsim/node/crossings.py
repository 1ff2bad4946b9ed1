"""The fault points inside of one broker: what crosses them, and how it waits.

Requests cross their points in the network and the server. What a broker does by itself (an append,
a scan, taking up an image) crosses one here: a shell asks whether it may go on, names what is about
to happen, and knows no rule. While nothing is armed nobody asks. A broker that has stopped does
nothing any more, whatever is released later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from txnsim.faults.points import FaultPoint
from txnsim.runtime.env import Network, Tasks
from txnsim.types import Crossing, Subject, SubmitOutcome, Verdict

NO_API = -1
"""These are no requests: rules that name an API don't concern them."""
NOBODY = Subject()

Then = Callable[[Verdict | None], object]
"""What goes on, told the verdict; None: nobody had anything against it."""


class Crossings:
    """What one broker has to be asked about."""

    __slots__ = ("_network", "_node", "_number", "_tasks", "is_stopped")

    def __init__(self, *, node: str, network: Network, tasks: Tasks) -> None:
        """A broker's points.

        Args:
            node: The broker's name in fault plans.
            network: Where the interceptor is found.
            tasks: Owner of what waits.
        """
        self._node = node
        self._network = network
        self._tasks = tasks
        self._number = 0
        self.is_stopped = False

    @property
    def armed(self) -> bool:
        """Whether anybody wants to be asked."""
        return self._network.interceptor.armed

    def stop(self) -> None:
        """The broker is gone: nothing that waits goes on."""
        self.is_stopped = True

    async def verdict(
        self, point: FaultPoint, subject: Subject = NOBODY, *, kind: str = "", role: str = ""
    ) -> Verdict | None:
        """Ask, and wait as long as it takes; None to go on."""
        answer = self._cross(point, subject, kind, role)
        return answer if answer is None or isinstance(answer, Verdict) else await answer

    def go_on(
        self,
        then: Then,
        point: FaultPoint,
        subject: Subject = NOBODY,
        *,
        kind: str = "",
        role: str = "",
    ) -> None:
        """Call ``then`` with the verdict: at once, where nothing makes it wait."""
        if not self.armed:
            then(None)
            return
        answer = self._cross(point, subject, kind, role)
        if answer is None or isinstance(answer, Verdict):
            then(answer)
            return
        self._tasks.drive(
            _waited(answer),
            lambda verdict, error: self._released(verdict, error, then),
            name=f"{point} at {self._node}",
        )

    def _cross(
        self, point: FaultPoint, subject: Subject, kind: str, role: str
    ) -> Verdict | Awaitable[Verdict] | None:
        self._number += 1
        return self._network.interceptor.cross(
            Crossing(
                point=point,
                source=self._node,
                target=self._node,
                api_key=NO_API,
                api_version=NO_API,
                correlation_id=self._number,
                subject=subject,
                kind=kind,
                role=role,
            )
        )

    def _released(self, verdict: Verdict | None, error: BaseException | None, then: Then) -> None:
        if error is None:
            if not self.is_stopped:
                then(verdict)
        elif not isinstance(error, asyncio.CancelledError):
            raise error


Scan = Callable[[], object]
TimerGate = Callable[[str, Scan, Scan], None]
"""(kind, the scan that is due, what is done instead where it is left out)."""


def at_once(_kind: str, scan: Scan, _left_out: Scan) -> None:
    """The gate where no fault can strike: scans run when they are due."""
    scan()


def timer_gate(crossings: Crossings) -> TimerGate:
    """The gate before a broker's periodic scans (``clock.timer``)."""

    def gate(kind: str, scan: Scan, left_out: Scan) -> None:
        crossings.go_on(
            lambda verdict: left_out() if is_lost(verdict) else scan(),
            FaultPoint.CLOCK_TIMER,
            kind=kind,
        )

    return gate


def is_lost(verdict: Verdict | None) -> bool:
    """Whether a step is not to be done."""
    return verdict is not None and verdict.outcome is SubmitOutcome.DROP


def error_in(verdict: Verdict | None) -> int:
    """The error that a step is to end with; 0 without one."""
    if verdict is None or verdict.outcome is not SubmitOutcome.ERROR:
        return 0
    return verdict.error


async def _waited(verdict: Awaitable[Verdict]) -> Verdict:
    return await verdict
