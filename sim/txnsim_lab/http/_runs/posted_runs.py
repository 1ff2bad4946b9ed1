"""Runs of a request that are not driven: each in a process of its own, one after the other.

Anybody may post a story, so a run may need more memory and time than the brokers can spare. Its
process has limits of both, and can be ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final

import msgspec

from txnsim.runtime.environment import Clock
from txnsim_lab.http._runs.run_players import RunPlayer
from txnsim_lab.http._runs.run_requests import RunRequest
from txnsim_lab.scenario.driver_commands import Order, RunFailed, RunStopped, encode, to_state
from txnsim_lab.scenario.forked_processes import CHILD_BYTES_MAX, ProcessEndedError

RUN_MS_MAX: Final = 300_000
_ENDED_TEXT: Final = (
    f"the process of the run has ended: it may take {RUN_MS_MAX // 1000} s and"
    f" {CHILD_BYTES_MAX >> 20:,} MiB"
)


class PostedRun(RunRequest):
    """A request for runs that are not driven."""

    _player: RunPlayer | None = None
    is_cancelled = False

    @property
    def state(self) -> str:
        """As ``RunsView.state``."""
        return "cancelled" if self.is_cancelled else super().state

    async def carry_out(
        self,
        start_player: Callable[[], Awaitable[RunPlayer]],
        run_orders: Iterable[Order],
        clock: Clock,
    ) -> None:
        """Make the runs one after the other, up to the first failure."""
        for run_order in run_orders:
            if self.is_cancelled or self.error is not None:
                break
            try:
                self.error = await self._play_run(await start_player(), run_order, clock)
            except ProcessEndedError:
                self.error = None if self.is_cancelled else _ENDED_TEXT

    async def _play_run(self, player: RunPlayer, run_order: Order, clock: Clock) -> str | None:
        """Make a run; returns the error of a failed one, else None."""
        self._player = player
        kill_timer = clock.call_later(RUN_MS_MAX, partial(player.kill))
        try:
            if self.is_cancelled:
                return None
            await player.send(encode(run_order))
            run_state = to_state(await player.hear())
            if isinstance(run_state, RunFailed):
                return str(run_state.error)
            assert not isinstance(run_state, RunStopped), "it was not asked to stop"
            self.results.append(result_of(run_state.result))
            return None
        finally:
            kill_timer.cancel()
            self._player = None
            player.kill()

    def cancel(self) -> None:
        """End the request in any state."""
        if not self.has_ended:
            self.is_cancelled = True
        if self._player is not None:
            self._player.kill()


def result_of(encoded_result: bytes) -> Any:
    """Decode the result of a run, as its process has sent it."""
    from txnsim_lab.scenario.runner import RunResult

    return msgspec.msgpack.decode(encoded_result, type=RunResult)
