"""Actions on the cluster while rules are in force: started, counted, and ended again.

An action begins after the callback in which its rule struck, never inside the struck code: it may
well kill the broker that is being struck. The struck crossing waits until it is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from txnsim.errors import TxnsimError
from txnsim.faults.cluster_actions import ClusterAction
from txnsim.injection.armed import ArmedRule, Lasting, Undo
from txnsim.loggers import Logger
from txnsim.runtime.env import Clock, Tasks
from txnsim.types import BrokerId

_log: Final = Logger("txnsim.faults")


class ClusterControl(Protocol):
    """Does to a running cluster what a rule asks for (``server._cluster_control``)."""

    async def carry_out(self, action: ClusterAction, *, struck: BrokerId | None) -> Undo | None:
        """Do what an action says; the struck crossing waits until this returns.

        It may be called while a crossing of the very broker it strikes is under way, after the
        callback in which that crossing came (never inside it). It must not wait for that crossing,
        which waits for it.

        Returns:
            How to end it, where it lasts.

        Raises:
            TxnsimError: The cluster has no such broker or partition, or is not in a state in which
                the thing can be done; the message says so.
        """


class ClusterActs(msgspec.Struct, kw_only=True, eq=False):
    """Carries out the rules' actions on the cluster."""

    clock: Clock
    """When what lasts ends by itself; monotonic."""
    tasks: Tasks
    """Where actions run."""
    done: Callable[[], None]
    """Called after each action, also after a failed one."""

    def begin(
        self,
        state: ArmedRule,
        action: ClusterAction,
        control: ClusterControl | None,
        *,
        struck: BrokerId | None,
    ) -> asyncio.Future[None]:
        """Carry an action out in the background.

        Returns:
            Done when the action is, with any result.
        """
        assert control is not None, "without one the rule was refused"
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        coroutine = self._carry_out(state, action, control.carry_out(action, struck=struck))
        task = self.tasks.spawn(coroutine, name=f"fault-{state.rule.id}")

        def end(_task: asyncio.Task[Any]) -> None:
            self.done()
            if not over.done():
                over.set_result(None)

        task.add_done_callback(end)
        return over

    async def _carry_out(
        self, state: ArmedRule, action: ClusterAction, doing: Coroutine[Any, Any, Undo | None]
    ) -> None:
        try:
            undo = await doing
        except TxnsimError as error:
            state.failure = str(error)
            state.give_up(state.failure)
            _log.warning("fault.failed", rule=state.rule.id, action=str(action), reason=str(error))
            return
        if undo is not None:
            self._remember(state, undo, action.ends_after_ms)
        state.count_strike()

    def _remember(self, state: ArmedRule, undo: Undo, ends_after_ms: int | None) -> None:
        if state.is_disarmed:
            self._undo(state, undo)
            return
        lasting = Lasting(undo)
        state.lasting.append(lasting)
        if ends_after_ms is not None:
            timer = self.clock.call_later(ends_after_ms, partial(self._end, state, lasting))
            lasting.cancel_timer = timer.cancel

    def end_all(self, state: ArmedRule) -> int:
        """End what lasts of a rule, oldest first.

        Returns:
            How many things that were.
        """
        lasting = list(state.lasting)
        for one in lasting:
            self._end(state, one)
        return len(lasting)

    def _end(self, state: ArmedRule, lasting: Lasting) -> None:
        state.lasting.remove(lasting)
        lasting.cancel_timer()
        state.released += 1
        self._undo(state, lasting.undo)

    def _undo(self, state: ArmedRule, undo: Undo) -> None:
        self.tasks.spawn(undo(), name=f"fault-{state.rule.id}-ends")
