"""Brokers, leaders and the clock through the control port: show and change them.

Stopping and starting take as long as in Kafka, up to a session of the controller. So these
operations answer when the work is done, or after ``wait_ms`` with the state so far; the work
continues either way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from starlette.requests import Request

from txnsim.controller.elections import ElectionType, elect_leader
from txnsim.errors import ConfigError, ErrorCode, Rejection
from txnsim.http._topics import known_partition, partition_view
from txnsim.http.messages import (
    Advance,
    BrokerView,
    ClockState,
    Elect,
    Isolate,
    Kill,
    LeaderMove,
    PartitionView,
    Start,
)
from txnsim.http.operation import PREFIX, ClusterNoun, Operation, Query
from txnsim.http.replies import Body, OptionalBody, RefusedError, WithStatus, digits_of, number_of
from txnsim.runtime.environment import Clock
from txnsim.server.member import ClusterMember, MemberLifeState
from txnsim.server.user_inputs import advance_with_breaks, input_event, shift
from txnsim.text import whole_ms
from txnsim.types import BrokerId

WAIT_MS: Final = 30_000
WAIT_MS_MAX: Final = 600_000

WAIT: Final = Query("wait_ms", "Answer after so long, also while the work goes on")
_lasting_operation: Final = partial(
    Operation, "post", may_take_longer=True, query=(WAIT,), refusals=("404", "409", "422")
)
"""Operation on a path that may outlast its request."""

_ELECTIONS: Final = {"preferred": ElectionType.PREFERRED, "unclean": ElectionType.UNCLEAN}


def broker_id_of(request: Request) -> BrokerId:
    """The broker id in the path.

    Raises:
        RefusedError: It is not a number.
    """
    id_text = str(request.path_params["id"])
    broker_number = digits_of(id_text)
    if broker_number is None:
        raise RefusedError(404, f"{id_text!r} is no broker id: it is a number")
    return BrokerId(broker_number)


class BrokerRoutes(ClusterNoun):
    """Routes that start, stop and isolate brokers of one cluster."""

    # Brokers

    @Operation("get", f"{PREFIX}/brokers")
    async def brokers(self, _request: Request) -> list[BrokerView]:
        """All brokers, running or not."""
        return [self._view(member) for member in self._cluster.members.values()]

    @Operation("get", f"{PREFIX}/brokers/{{id}}", refusals=("404",))
    async def broker(self, request: Request) -> BrokerView:
        """One broker."""
        return self._view(self._member(request))

    @_lasting_operation(f"{PREFIX}/brokers/{{id}}/stop")
    async def stop(self, request: Request) -> WithStatus[BrokerView]:
        """Stop a broker in an orderly way: its leaders move away first."""
        member = self._member(request)
        self._expect(member, MemberLifeState.RUNNING, "only one that runs can be stopped")
        return await self._carry_out(request, member, self._cluster.stop_broker(member.broker_id))

    @_lasting_operation(f"{PREFIX}/brokers/{{id}}/start")
    async def start(self, request: Request, body: OptionalBody[Start]) -> WithStatus[BrokerView]:
        """Start a broker that is down, on its old port and disk."""
        member = self._member(request)
        self._expect(member, MemberLifeState.DOWN, "stop or kill it first")
        start_body = await body.read()
        start_work = self._cluster.start_broker(member.broker_id, as_version=start_body.as_version)
        return await self._carry_out(request, member, start_work)

    @Operation("post", f"{PREFIX}/brokers/{{id}}/kill", refusals=("404", "409", "422"))
    async def kill(self, request: Request, body: OptionalBody[Kill]) -> BrokerView:
        """Kill a broker at once; the controller notices when its session ends."""
        member = self._member(request)
        kill_body = await body.read()
        if member.state is MemberLifeState.DOWN:
            raise RefusedError(409, f"broker {member.broker_id} is down already: start it first")
        lose_unflushed = kill_body.lose_unflushed
        await self._cluster.kill_broker(member.broker_id, lose_unflushed=lose_unflushed)
        return self._view(member)

    @Operation("post", f"{PREFIX}/brokers/{{id}}/isolate", refusals=("404", "422"))
    async def isolate(self, request: Request, body: OptionalBody[Isolate]) -> BrokerView:
        """Cut a broker off from the controller and from the other brokers."""
        member = self._member(request)
        isolate_body = await body.read()
        self._cluster.isolate(member.broker_id, from_clients=isolate_body.from_clients)
        return self._view(member)

    @Operation("post", f"{PREFIX}/brokers/{{id}}/heal", refusals=("404",))
    async def heal(self, request: Request) -> BrokerView:
        """Undo an isolation."""
        member = self._member(request)
        self._cluster.heal(member.broker_id)
        return self._view(member)

    async def _carry_out(
        self, request: Request, member: ClusterMember, life_change: Coroutine[Any, Any, None]
    ) -> WithStatus[BrokerView]:
        """Run the work in the background, and wait up to ``wait_ms`` for the result."""
        try:
            wait_ms = number_of(request, "wait_ms", default=WAIT_MS, minimum=0, maximum=WAIT_MS_MAX)
        except RefusedError:
            life_change.close()
            raise
        problem_future: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def until_done() -> None:
            problem = ""
            try:
                await life_change
            except (ConfigError, OSError) as error:
                problem = str(error)
            if not problem_future.done():
                problem_future.set_result(problem)

        environment = self._cluster.environment
        environment.tasks.spawn(until_done(), name=f"life-of-broker-{member.broker_id}")
        timer = environment.clock.call_later(
            wait_ms, lambda: None if problem_future.done() else problem_future.set_result("")
        )
        problem = await problem_future
        timer.cancel()
        if problem:
            raise RefusedError(409, problem)
        is_done = member.state in (MemberLifeState.RUNNING, MemberLifeState.DOWN)
        return WithStatus(self._view(member), 200 if is_done else 202)

    def _expect(self, member: ClusterMember, state: MemberLifeState, advice: str) -> None:
        if member.state is not state:
            raise RefusedError(
                409, f"broker {member.broker_id} is {member.state.name.lower()}: {advice}"
            )

    def _member(self, request: Request) -> ClusterMember:
        try:
            return self._cluster.member(broker_id_of(request))
        except ConfigError as error:
            raise RefusedError(404, str(error)) from error

    def _view(self, member: ClusterMember) -> BrokerView:
        image = self._cluster.metadata.image
        broker_image = image.brokers[member.broker_id]
        led_count = sum(
            partition.leader == member.broker_id
            for topic in image.topics.values()
            for partition in topic.partitions
        )
        return BrokerView(
            id=member.broker_id,
            state=member.state.name.lower(),
            release=self._cluster.fleet.release_of(member.broker_id).name,
            host=broker_image.host,
            port=broker_image.port,
            epoch=broker_image.epoch,
            fenced=not broker_image.alive,
            in_controlled_shutdown=broker_image.in_controlled_shutdown,
            isolated=self._cluster.is_isolated(member.broker_id),
            cut_off_from_clients=member.is_cut_off_from_clients,
            leads=led_count,
        )

    # Leaders

    @Operation("post", f"{PREFIX}/leaders", refusals=("404", "409", "422"))
    async def move_leader(self, _request: Request, body: Body[LeaderMove]) -> PartitionView:
        """Make another in-sync replica the leader, under the next leader epoch."""
        move_body = await body.read()
        topic_partition = self.partition(move_body.topic, move_body.partition)
        try:
            self._cluster.move_leader(topic_partition, BrokerId(move_body.leader))
        except ConfigError as error:
            isr = known_partition(self._cluster, topic_partition).isr
            raise RefusedError(
                409, f"{error}; in sync are {', '.join(map(str, isr)) or 'none'}"
            ) from error
        return partition_view(
            topic_partition.partition, known_partition(self._cluster, topic_partition)
        )

    @Operation("post", f"{PREFIX}/elections", refusals=("404", "409", "422"))
    async def elect(self, _request: Request, body: Body[Elect]) -> PartitionView:
        """Elect a leader as ElectLeaders does: the preferred replica, or any (unclean)."""
        election_body = await body.read()
        topic_partition = self.partition(election_body.topic, election_body.partition)
        election = _ELECTIONS.get(election_body.type)
        if election is None:
            raise RefusedError(
                422, f"type is {election_body.type!r}, expected one of {', '.join(_ELECTIONS)}"
            )
        metadata = self._cluster.metadata
        image_after = elect_leader(metadata.image, topic_partition, election, metadata.settings)
        if isinstance(image_after, Rejection):
            if image_after.error is not ErrorCode.election_not_needed:
                raise RefusedError(409, f"{image_after.error.name.upper()}: {image_after.reason}")
        else:
            environment = self._cluster.environment
            with input_event(
                environment, "elect-leader", tp=str(topic_partition), election=election_body.type
            ):
                metadata.publish(image_after)
        return partition_view(
            topic_partition.partition, known_partition(self._cluster, topic_partition)
        )


class ClockRoutes(ClusterNoun):
    """Routes that read and advance the clock of one cluster."""

    @Operation("get", f"{PREFIX}/clock")
    async def read(self, _request: Request) -> ClockState:
        """The cluster clock."""
        return self._state()

    @Operation("post", f"{PREFIX}/clock", refusals=("404", "422"))
    async def advance(self, _request: Request, body: Body[Advance]) -> ClockState:
        """Let time pass on the cluster clock; or set it, or one broker's clock, forward or back."""
        clock_body = await body.read()
        try:
            match clock_body:
                case Advance(set_by_ms=None, broker=None) if clock_body.advance_ms is not None:
                    environment = self._cluster.environment
                    await advance_with_breaks(environment, whole_ms(clock_body.advance_ms))
                case Advance(advance_ms=None) if clock_body.set_by_ms is not None:
                    shift(self._clock_of(clock_body.broker), whole_ms(clock_body.set_by_ms))
                case _:
                    raise RefusedError(
                        422, "give advance_ms, or set_by_ms with or without broker, and not both"
                    )
        except ValueError as error:
            raise RefusedError(422, str(error)) from error
        return self._state()

    def _clock_of(self, broker_id: int | None) -> Clock:
        if broker_id is None:
            return self._cluster.environment.clock
        try:
            return self._cluster.member(BrokerId(broker_id)).clock
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
