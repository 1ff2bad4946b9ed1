"""The cluster clock through the control port."""

from __future__ import annotations

from starlette.requests import Request

from txnsim.durations import whole_ms
from txnsim.errors import ConfigError
from txnsim.http.messages import Advance, ClockState
from txnsim.http.operation import PREFIX, ClusterNoun, Operation
from txnsim.http.replies import Body, RefusedError
from txnsim.runtime.env import Clock
from txnsim.server.inputs import advance_with_breaks, shift
from txnsim.types import BrokerId


class ClockRoutes(ClusterNoun):
    """The routes over one cluster."""

    @Operation("get", f"{PREFIX}/clock")
    async def read(self, _request: Request) -> ClockState:
        """The cluster clock."""
        return self._state()

    @Operation("post", f"{PREFIX}/clock", refusals=("404", "422"))
    async def advance(self, _request: Request, body: Body[Advance]) -> ClockState:
        """Let time pass on the cluster clock; or set it, or one broker's, ahead or back."""
        wanted = await body.read()
        try:
            match wanted:
                case Advance(set_by_ms=None, broker=None) if wanted.advance_ms is not None:
                    environment = self._cluster.environment
                    await advance_with_breaks(environment, whole_ms(wanted.advance_ms))
                case Advance(advance_ms=None) if wanted.set_by_ms is not None:
                    shift(self._clock_of(wanted.broker), whole_ms(wanted.set_by_ms))
                case _:
                    raise RefusedError(
                        422, "give advance_ms, or set_by_ms with or without broker, and not both"
                    )
        except ValueError as error:
            raise RefusedError(422, str(error)) from error
        return self._state()

    def _clock_of(self, broker: int | None) -> Clock:
        if broker is None:
            return self._cluster.environment.clock
        try:
            return self._cluster.member(BrokerId(broker)).clock
        except ConfigError as error:
            raise RefusedError(404, str(error)) from error

    def _state(self) -> ClockState:
        clock = self._cluster.environment.clock
        return ClockState(
            now_ms=clock.now_ms(),
            advanced_ms=clock.advanced_ms,
            brokers={
                str(broker_id): member.clock.offset_ms
                for broker_id, member in self._cluster.members.items()
            },
        )
