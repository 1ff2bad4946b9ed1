"""The fault points inside one broker: the steps that cross them, and how a step waits.

Requests cross fault points in the network and the server. Other steps of a broker (an append, a
scan, the intake of an image) cross one here: a shell names the step and asks whether it may go on,
and knows no rule. While no rule is armed it does not ask. After a broker has stopped, its waiting
steps do nothing, even if they are released.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from txnsim.faults.interception import Crossing, FaultEffect, SubmitOutcome
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import NO_SUBJECT, Subject
from txnsim.runtime.environment import Network, Tasks
from txnsim.runtime.tasks import coroutine_of

NO_API = -1
"""These steps are no requests: rules that name an API do not match them."""

Then = Callable[[FaultEffect | None], object]
"""The continuation of a step; it gets the verdict, or None if no rule objects."""


class BrokerFaultPoints(msgspec.Struct, kw_only=True, eq=False):
    """The fault points inside of one broker."""

    node: str
    """The broker's name in fault plans."""
    network: Network
    """The network that has the interceptor."""
    tasks: Tasks
    """Runs the steps that wait."""
    _number: int = 0
    is_stopped: bool = False

    @property
    def is_armed(self) -> bool:
        """Whether any rule is armed."""
        return self.network.interceptor.is_armed

    def stop(self) -> None:
        """Discard all waiting steps, as the broker is gone."""
        self.is_stopped = True

    async def verdict(
        self,
        point: FaultPoint,
        subject: Subject = NO_SUBJECT,
        *,
        kind: str = "",
        role_name: str = "",
    ) -> FaultEffect | None:
        """Wait for the verdict of the fault rules; None to proceed."""
        verdict_or_wait = self._cross(point, subject, kind, role_name)
        return (
            verdict_or_wait
            if verdict_or_wait is None or isinstance(verdict_or_wait, FaultEffect)
            else await verdict_or_wait
        )

    def go_on(
        self,
        on_verdict: Then,
        point: FaultPoint,
        subject: Subject = NO_SUBJECT,
        *,
        kind: str = "",
        role_name: str = "",
    ) -> None:
        """Call ``on_verdict`` with the verdict, synchronously unless a fault holds the step."""
        if not self.is_armed:
            on_verdict(None)
            return
        verdict_or_wait = self._cross(point, subject, kind, role_name)
        if verdict_or_wait is None or isinstance(verdict_or_wait, FaultEffect):
            on_verdict(verdict_or_wait)
            return
        self.tasks.drive(
            coroutine_of(verdict_or_wait),
            lambda verdict, error: self._on_release(verdict, error, on_verdict),
            name=f"{point} at {self.node}",
        )

    def _cross(
        self, point: FaultPoint, subject: Subject, kind: str, role_name: str
    ) -> FaultEffect | Awaitable[FaultEffect] | None:
        self._number += 1
        return self.network.interceptor.cross(
            Crossing(
                point=point,
                source=self.node,
                target=self.node,
                api_key=NO_API,
                api_version=NO_API,
                correlation_id=self._number,
                subject=subject,
                kind=kind,
                role=role_name,
            )
        )

    def _on_release(
        self, fault_effect: FaultEffect | None, error: BaseException | None, on_verdict: Then
    ) -> None:
        if error is None:
            if not self.is_stopped:
                on_verdict(fault_effect)
        elif not isinstance(error, asyncio.CancelledError):
            raise error


Scan = Callable[[], object]
TimerGate = Callable[[str, Scan, Scan], None]
"""Called with (kind of scan, the scan that is due, the action to take if a fault drops it)."""


def run_when_due(_kind: str, scan: Scan, _left_out: Scan) -> None:
    """The gate if no fault can strike: runs each scan when it is due."""
    scan()


def timer_gate(fault_points: BrokerFaultPoints) -> TimerGate:
    """The gate in front of a broker's periodic scans (fault point ``clock.timer``)."""

    def gate(scan_kind: str, scan: Scan, skip_scan: Scan) -> None:
        fault_points.go_on(
            lambda verdict: skip_scan() if is_lost(verdict) else scan(),
            FaultPoint.CLOCK_TIMER,
            kind=scan_kind,
        )

    return gate


def is_lost(fault_effect: FaultEffect | None) -> bool:
    """Whether a fault drops the step."""
    return fault_effect is not None and fault_effect.outcome is SubmitOutcome.DROP


def error_in(fault_effect: FaultEffect | None) -> int:
    """The error code that the fault injects; 0 if it injects none."""
    if fault_effect is None or fault_effect.outcome is not SubmitOutcome.ERROR:
        return 0
    return fault_effect.error
