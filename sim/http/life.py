"""Brokers and leaders through the control port: who lives, who leads, and how to change that.

Stopping and starting take as long as in Kafka, up to a session of the controller. So these answer
when it is done, or after ``wait_ms`` with the state so far; the work goes on either way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sim.cluster.elections import ElectionType, elect_leader
from sim.cluster.image import PartitionImage
from sim.errors import ConfigError, ErrorCode, Rejection
from sim.http.messages import (
    BrokerView,
    Elect,
    Isolate,
    Kill,
    MoveLeader,
    PartitionView,
    Start,
    TopicView,
)
from sim.http.replies import RefusedError, as_json, body_of, number_of
from sim.server.cluster import SimCluster
from sim.server.member import Member, MemberState
from sim.types import BrokerId, TopicPartition

WAIT_MS: Final = 30_000
WAIT_MS_MAX: Final = 600_000

_ELECTIONS: Final = {"preferred": ElectionType.PREFERRED, "unclean": ElectionType.UNCLEAN}


class LifeRoutes:
    """The routes over one cluster."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster

    def routes(self) -> list[Route]:
        """All of them."""
        broker = "/api/v1/brokers/{id}"
        return [
            Route("/api/v1/brokers", self.brokers, methods=["GET"]),
            Route(broker, self.broker, methods=["GET"]),
            Route(f"{broker}/stop", self.stop, methods=["POST"]),
            Route(f"{broker}/start", self.start, methods=["POST"]),
            Route(f"{broker}/kill", self.kill, methods=["POST"]),
            Route(f"{broker}/isolate", self.isolate, methods=["POST"]),
            Route(f"{broker}/heal", self.heal, methods=["POST"]),
            Route("/api/v1/topics", self.topics, methods=["GET"]),
            Route("/api/v1/leaders", self.move_leader, methods=["POST"]),
            Route("/api/v1/elections", self.elect, methods=["POST"]),
        ]

    # Brokers

    async def brokers(self, _request: Request) -> Response:
        """Every broker, whether it runs or not."""
        return as_json([self._view(member) for member in self._cluster.members.values()])

    async def broker(self, request: Request) -> Response:
        """One broker."""
        return as_json(self._view(self._member(request)))

    async def stop(self, request: Request) -> Response:
        """A controlled shutdown."""
        member = self._member(request)
        self._expect(member, MemberState.RUNNING, "only one that runs can be stopped")
        return await self._carry_out(request, member, member.stop())

    async def start(self, request: Request) -> Response:
        """Start a broker that is down."""
        member = self._member(request)
        self._expect(member, MemberState.DOWN, "stop or kill it first")
        wanted = await body_of(request, Start, default=Start())
        work = self._cluster.start_broker(member.broker_id, as_version=wanted.as_version)
        return await self._carry_out(request, member, work)

    async def kill(self, request: Request) -> Response:
        """End a broker at once."""
        member = self._member(request)
        wanted = await body_of(request, Kill, default=Kill())
        if member.state is MemberState.DOWN:
            raise RefusedError(409, f"broker {member.broker_id} is down already: start it first")
        await member.kill(lose_unflushed=wanted.lose_unflushed)
        return as_json(self._view(member))

    async def isolate(self, request: Request) -> Response:
        """Cut a broker off from the controller and the others."""
        member = self._member(request)
        wanted = await body_of(request, Isolate, default=Isolate())
        self._cluster.isolate(member.broker_id, from_clients=wanted.from_clients)
        return as_json(self._view(member))

    async def heal(self, request: Request) -> Response:
        """Undo an isolation."""
        member = self._member(request)
        self._cluster.heal(member.broker_id)
        return as_json(self._view(member))

    async def _carry_out(
        self, request: Request, member: Member, work: Coroutine[Any, Any, None]
    ) -> Response:
        """Do it in the background and wait a while for it."""
        try:
            wait_ms = number_of(request, "wait_ms", default=WAIT_MS, least=0, most=WAIT_MS_MAX)
        except RefusedError:
            work.close()
            raise
        outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def until_done() -> None:
            problem = ""
            try:
                await work
            except (ConfigError, OSError) as error:
                problem = str(error)
            if not outcome.done():
                outcome.set_result(problem)

        environment = self._cluster.environment
        environment.tasks.spawn(until_done(), name=f"life-of-broker-{member.broker_id}")
        timer = environment.clock.call_later(
            wait_ms, lambda: None if outcome.done() else outcome.set_result("")
        )
        problem = await outcome
        timer.cancel()
        if problem:
            raise RefusedError(409, problem)
        is_done = member.state in (MemberState.RUNNING, MemberState.DOWN)
        return as_json(self._view(member), status=200 if is_done else 202)

    def _expect(self, member: Member, state: MemberState, advice: str) -> None:
        if member.state is not state:
            raise RefusedError(
                409, f"broker {member.broker_id} is {member.state.name.lower()}: {advice}"
            )

    def _member(self, request: Request) -> Member:
        text = str(request.path_params["id"])
        try:
            if not text.isascii() or not text.isdigit():
                raise ConfigError(f"{text!r} is no broker id: it is a number")
            return self._cluster.member(BrokerId(int(text)))
        except ConfigError as error:
            raise RefusedError(404, str(error)) from error

    def _view(self, member: Member) -> BrokerView:
        image = self._cluster.metadata.image
        known = image.brokers[member.broker_id]
        led = sum(
            partition.leader == member.broker_id
            for topic in image.topics.values()
            for partition in topic.partitions
        )
        return BrokerView(
            id=member.broker_id,
            state=member.state.name.lower(),
            release=self._cluster.fleet.of(member.broker_id).name,
            host=known.host,
            port=known.port,
            epoch=known.epoch,
            fenced=not known.alive,
            in_controlled_shutdown=known.in_controlled_shutdown,
            isolated=self._cluster.is_isolated(member.broker_id),
            cut_off_from_clients=member.is_cut_off_from_clients,
            leads=led,
        )

    # Leaders

    async def topics(self, _request: Request) -> Response:
        """Every topic with its leaders, as the controller has it."""
        image = self._cluster.metadata.image
        return as_json(
            [
                TopicView(
                    name=topic.name,
                    id=topic.topic_id,
                    is_internal=topic.is_internal,
                    partitions=tuple(
                        _partition(index, one) for index, one in enumerate(topic.partitions)
                    ),
                )
                for _, topic in sorted(image.topics.items())
            ]
        )

    async def move_leader(self, request: Request) -> Response:
        """Hand a partition to another replica in sync."""
        wanted = await body_of(request, MoveLeader)
        where = self._partition_of(wanted.topic, wanted.partition)
        try:
            self._cluster.move_leader(where, BrokerId(wanted.leader))
        except ConfigError as error:
            isr = self._known(where).isr
            raise RefusedError(
                409, f"{error}; in sync are {', '.join(map(str, isr)) or 'none'}"
            ) from error
        return as_json(_partition(where.partition, self._known(where)))

    async def elect(self, request: Request) -> Response:
        """What ElectLeaders does."""
        wanted = await body_of(request, Elect)
        where = self._partition_of(wanted.topic, wanted.partition)
        kind = _ELECTIONS.get(wanted.type)
        if kind is None:
            raise RefusedError(
                422, f"type is {wanted.type!r}, expected one of {', '.join(_ELECTIONS)}"
            )
        metadata = self._cluster.metadata
        elected = elect_leader(metadata.image, where, kind, metadata.settings)
        if isinstance(elected, Rejection):
            if elected.error is not ErrorCode.election_not_needed:
                raise RefusedError(409, f"{elected.error.name.upper()}: {elected.reason}")
        else:
            metadata.publish(elected)
        return as_json(_partition(where.partition, self._known(where)))

    def _partition_of(self, topic: str, partition: int) -> TopicPartition:
        found = self._cluster.metadata.image.topics.get(topic)
        if found is None:
            raise RefusedError(404, f"there is no topic {topic!r}; GET /api/v1/topics lists them")
        if not 0 <= partition < len(found.partitions):
            raise RefusedError(
                404, f"{topic} has partitions 0 to {len(found.partitions) - 1}, not {partition}"
            )
        return TopicPartition(topic, partition)

    def _known(self, where: TopicPartition) -> PartitionImage:
        found = self._cluster.metadata.image.partition(where)
        assert found is not None
        return found


def _partition(index: int, partition: PartitionImage) -> PartitionView:
    return PartitionView(
        partition=index,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        replicas=partition.replicas,
        isr=partition.isr,
        elr=partition.elr,
        last_known_elr=partition.last_known_elr,
    )
