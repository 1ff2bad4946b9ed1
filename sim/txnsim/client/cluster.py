"""The cluster as one client sees it: where to connect, who leads, who coordinates, which features
are finalized.

Holds one connection per broker and lane. A lane is a name for a purpose whose requests may block
(a consumer's long polls): a broker handles the requests of one connection one by one. Whatever is
retried here is bounded by a deadline, with growing pauses.

Kafka's counterparts are ``Metadata``, ``NetworkClient`` (choice of node) and ``ApiVersions``
(features across connections).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from txnsim.client import requests
from txnsim.client.authentication import Authentication
from txnsim.client.backoff import Backoff, Deadline
from txnsim.client.connection import ClientSettings, Connection, Dial, dial_asyncio
from txnsim.client.errors import (
    ClientError,
    ConnectionLostError,
    NotSupportedError,
    RequestTimeoutError,
    RetriableError,
    code_name,
    only_row,
)
from txnsim.client.group_requests import find_group_coordinator
from txnsim.client.metadata import (
    RETRIED_TOPIC_ERRORS,
    ClusterMetadata,
    PartitionMetadata,
    merge,
    parse_coordinators,
    parse_metadata,
)
from txnsim.client.tracing import ClientTrace
from txnsim.client.versions import FinalizedFeatures, VersionedRequest, VersionRange, newer_features
from txnsim.errors import ConfigError, ErrorCode
from txnsim.runtime.environment import Clock, Tasks
from txnsim.runtime.rng import random_hex
from txnsim.runtime.tasks import LoopTasks
from txnsim.runtime.tls import client_context
from txnsim.runtime.trace import Tracer
from txnsim.text import host_and_port, read_host_and_port
from txnsim.types import TopicPartition

BOOTSTRAP = -1

LOST_ANSWER_ERRORS = (ConnectionLostError, RequestTimeoutError)
"""Failures of a connection; the request may be repeated if that does no harm."""


def parse_bootstrap(text: str) -> tuple[tuple[str, int], ...]:
    """Read ``host:port,host:port``; IPv6 addresses are in brackets.

    Raises:
        ConfigError: It is not of that form.
    """
    addresses = []
    for address_text in (raw_text.strip() for raw_text in text.split(",")):
        address = read_host_and_port(address_text)
        if address is None:
            raise ConfigError(
                f"bootstrap server {address_text!r}: host:port is expected, with the name or the"
                " address of a host"
            )
        addresses.append(address)
    return tuple(addresses)


class Cluster:
    """Connections and knowledge shared by producers, consumers and admins of one client.

    Use it as an asynchronous context manager, or ``close`` it.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        settings: ClientSettings | None = None,
        clock: Clock | None = None,
        tasks: Tasks | None = None,
        dial: Dial = dial_asyncio,
        tracer: Tracer | None = None,
    ) -> None:
        """Set up a client; nothing is connected yet. Needs a running event loop.

        Args:
            bootstrap: ``host:port``, several separated by commas.
            settings: Timeouts and pauses; Kafka's defaults unless given.
            clock: The system's clock unless given.
            tasks: Owner of background tasks; the cluster's own unless given.
            dial: Opens transports; the running loop does unless given.
            tracer: Records calls, requests and records; the tracer of a cluster in the same
                process.

        Raises:
            ConfigError: ``bootstrap`` is malformed, or a certificate or key is invalid.
            MissingExtraError: The SASL mechanism needs a library.
        """
        self.addresses = parse_bootstrap(bootstrap)
        self.settings = settings if settings is not None else ClientSettings()
        self.clock = clock if clock is not None else _system_clock()
        self.tasks = tasks if tasks is not None else LoopTasks(asyncio.get_running_loop())
        self.trace = ClientTrace(tracer, self.settings.client_id)
        """This client's part of the trace."""
        self.view = ClusterMetadata()
        self.features = FinalizedFeatures()
        """Finalized features with the highest epoch seen on any connection."""
        self._dial = dial
        security = self.settings.security
        # Errors of the configuration are raised now, not by each connection.
        self._tls = client_context(security.tls) if security.protocol.has_tls else None
        if security.protocol.has_sasl:
            Authentication(security, now_ms=self.clock.now_ms(), nonce=random_hex())
        self._connections: dict[tuple[int, str], Connection] = {}
        self._opening_connections: dict[tuple[int, str], asyncio.Future[Connection]] = {}
        self._dial_tasks: set[asyncio.Task[None]] = set()
        self._stale_topics: set[str] = set()
        self._coordinator_by_id: dict[str, int] = {}
        self._is_closed = False

    async def __aenter__(self) -> Cluster:
        try:
            await self.connect()
        except BaseException:
            await self.close()  # a broker may be reached, and say that it is none
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Connect to a bootstrap address and learn the brokers. Fail at once if no broker answers.

        Raises:
            AuthenticationError: TLS or SASL has failed there.
            ConnectionLostError: None of the addresses answers.
            RequestTimeoutError: None of them answers in time.
            NotSupportedError: A broker answered, but we have no version in common.
        """
        message = await (await self.any_connection()).request(requests.metadata(()))
        self.view = merge(self.view, parse_metadata(message))

    async def close(self) -> None:
        self._is_closed = True
        pending_dials = list(self._dial_tasks)
        for task in pending_dials:
            task.cancel()
        await asyncio.gather(*pending_dials, return_exceptions=True)
        connections = list(self._connections.values())
        self._connections.clear()
        for connection in connections:
            connection.close()
        for connection in connections:
            await connection.wait_closed()
        # One that was given up a moment ago is no longer listed; its transport ends in this turn.
        await asyncio.sleep(0)

    # Connections

    def deadline(self, timeout_ms: float | None = None) -> Deadline:
        """A deadline from now on; ``api_timeout_ms`` unless given."""
        return Deadline(
            self.clock, self.settings.api_timeout_ms if timeout_ms is None else timeout_ms
        )

    def backoff(self) -> Backoff:
        """New growing pauses for the retries of one call."""
        return Backoff(
            self.clock,
            initial_ms=self.settings.retry_backoff_ms,
            max_ms=self.settings.retry_backoff_max_ms,
        )

    async def connection(self, broker_id: int, *, lane: str = "") -> Connection:
        """The connection to a broker, opened if need be.

        Raises:
            ConnectionLostError: The broker is unknown, or can't be reached.
            RequestTimeoutError: It did not answer in time.
            NotSupportedError: It and we have no version in common.
        """
        connection = self._connections.get((broker_id, lane))
        if connection is not None and connection.is_usable:
            return connection
        address = self.view.broker(broker_id)
        if address is None:
            raise ConnectionLostError(
                f"broker {broker_id} is not among the brokers of the cluster",
                error=ErrorCode.broker_not_available,
            )
        return await self._open_connection(broker_id, lane, address.host, address.port)

    async def disconnect(self, *, lane: str = "") -> None:
        """Close the connections of a lane; requests in flight there fail."""
        lane_connections = {
            broker_and_lane: connection
            for broker_and_lane, connection in self._connections.items()
            if broker_and_lane[1] == lane
        }
        for broker_and_lane, connection in lane_connections.items():
            del self._connections[broker_and_lane]
            connection.close()
        for connection in lane_connections.values():
            await connection.wait_closed()

    async def any_connection(self) -> Connection:
        """A connection to some broker: one that is open, else the first that can be opened.

        Raises:
            ConnectionLostError: None can be reached.
            NotSupportedError: One was reached, but we have no version in common.
        """
        for (_, lane), connection in self._connections.items():
            if not lane and connection.is_usable:
                return connection
        failures: list[ClientError] = []
        for broker_id, host, port in list(self._candidates()):
            try:
                return await self._open_connection(broker_id, "", host, port)
            except LOST_ANSWER_ERRORS as failure:
                failures.append(failure)
        raise ConnectionLostError(
            "; ".join(dict.fromkeys(str(failure) for failure in failures)),
            error=ErrorCode.network_exception,
        ) from failures[0].__cause__

    def _candidates(self) -> Iterator[tuple[int, str, int]]:
        for broker in self.view.brokers:
            yield broker.broker_id, broker.host, broker.port
        for index, (host, port) in enumerate(self.addresses):
            yield BOOTSTRAP - index, host, port

    async def _open_connection(self, broker_id: int, lane: str, host: str, port: int) -> Connection:
        if self._is_closed:
            raise ConnectionLostError("the client is closed")
        broker_and_lane = (broker_id, lane)
        opening_connection = self._opening_connections.get(broker_and_lane)
        if opening_connection is None:
            opening_connection = self._opening_connections[broker_and_lane] = (
                asyncio.get_running_loop().create_future()
            )
            opening_connection.add_done_callback(lambda task: task.cancelled() or task.exception())
            task = self.tasks.spawn(
                self._open_now(broker_and_lane, host, port, opening_connection),
                name=f"connect {host_and_port(host, port)}",
            )
            self._dial_tasks.add(task)
            task.add_done_callback(self._dial_tasks.discard)
        # Shielded: other tasks may wait for the same connection when this one is cancelled.
        return await asyncio.shield(opening_connection)

    async def _open_now(
        self,
        broker_and_lane: tuple[int, str],
        host: str,
        port: int,
        connection_future: asyncio.Future[Connection],
    ) -> None:
        try:
            connection = await Connection.open(
                host,
                port,
                settings=self.settings,
                clock=self.clock,
                dial=self._dial,
                tls=self._tls,
                trace=self.trace,
                peer=f"broker/{broker_and_lane[0]}"
                if broker_and_lane[0] >= 0
                else host_and_port(host, port),
            )
        except ClientError as error:
            connection_future.set_exception(error)
        else:
            self._connections[broker_and_lane] = connection
            self.features = newer_features(self.features, connection.features)
            connection_future.set_result(connection)
        finally:
            del self._opening_connections[broker_and_lane]
            connection_future.cancel()

    async def refresh_features(self) -> FinalizedFeatures:
        """Ask a broker for the finalized features again; a client otherwise learns them on new
        connections only.

        Raises:
            ConnectionLostError: No broker can be reached.
            RequestTimeoutError: No answer in time.
        """
        connection = await self.any_connection()
        await connection.negotiate()
        self.features = newer_features(self.features, connection.features)
        return self.features

    # Requests

    async def ask(self, broker_id: int, request: VersionedRequest, *, lane: str = "") -> Any:
        """Send to one broker, once.

        Raises:
            ConnectionLostError: No connection, or it was cut.
            RequestTimeoutError: No answer in time.
            NotSupportedError: No version fits.
        """
        return await (await self.connection(broker_id, lane=lane)).request(request)

    async def ask_any(self, request: VersionedRequest, deadline: Deadline | None = None) -> Any:
        """Send to any broker; another one is tried while connections fail and time is left.

        Raises:
            ConnectionLostError: No broker could be reached in time.
            RequestTimeoutError: None answered in time.
            NotSupportedError: No version fits.
        """
        deadline = deadline if deadline is not None else self.deadline()
        backoff = self.backoff()
        while True:
            try:
                return await (await self.any_connection()).request(request)
            except LOST_ANSWER_ERRORS:
                if deadline.has_passed or self._is_closed:
                    raise
            await backoff.wait(deadline)

    # Metadata

    async def refresh(
        self,
        topics: Sequence[str] | None = (),
        *,
        create: bool = False,
        deadline: Deadline | None = None,
    ) -> ClusterMetadata:
        """Ask for brokers and topics; None: all topics.

        Returns:
            This answer alone; ``view`` has it merged with older answers.

        Raises:
            ConnectionLostError: No broker could be reached in time.
        """
        message = await self.ask_any(requests.metadata(topics, create=create), deadline)
        cluster_view = parse_metadata(message)
        self.view = merge(self.view, cluster_view)
        self._stale_topics.difference_update(topic.name for topic in cluster_view.topics)
        return cluster_view

    async def leader(
        self, partition: TopicPartition, *, deadline: Deadline | None = None, create: bool = False
    ) -> PartitionMetadata:
        """The partition with its leader, looked up until there is one.

        Raises:
            RetriableError: No leader in time; ``error`` has the reason.
            ClientError: The topic can't be had: not allowed, or its name is illegal.
        """
        deadline = deadline if deadline is not None else self.deadline()
        backoff = self.backoff()
        while True:
            if partition.topic not in self._stale_topics:
                leader = self.view.leader(partition)
                if leader is not None:
                    return leader
            await self.refresh((partition.topic,), create=create, deadline=deadline)
            leader = self.view.leader(partition)
            if leader is not None:
                return leader
            error = self._no_leader(partition)
            if deadline.has_passed:
                raise RetriableError(
                    f"no leader of {partition} within {deadline.timeout_ms:.0f} ms:"
                    f" {code_name(error)}",
                    error=error,
                )
            await backoff.wait(deadline)

    def _no_leader(self, partition: TopicPartition) -> ErrorCode:
        """Why there is no leader, if that may change; otherwise raises."""
        topic = self.view.topic(partition.topic)
        partition_view = topic.partition(partition.partition) if topic is not None else None
        error_number = 0
        if topic is not None:
            error_number = topic.error or (
                partition_view.error if partition_view is not None else 0
            )
        if error_number and error_number not in RETRIED_TOPIC_ERRORS:
            raise ClientError(
                f"topic {partition.topic!r}: {code_name(error_number)}",
                error=ErrorCode(error_number),
            )
        if error_number:
            return ErrorCode(error_number)
        if partition_view is None:
            return ErrorCode.unknown_topic_or_partition
        return ErrorCode.leader_not_available

    def forget_leader(self, topic: str) -> None:
        """The known leaders of the topic proved wrong: the next lookup asks a broker."""
        self._stale_topics.add(topic)

    # Coordinators

    async def coordinator(self, transactional_id: str, *, deadline: Deadline | None = None) -> int:
        """The broker that coordinates a transactional id; cached until ``forget_coordinator``.

        Raises:
            RetriableError: None was available in time.
            ClientError: Not allowed, or refused; ``error`` says why.
        """
        cached_id = self._coordinator_by_id.get(transactional_id)
        if cached_id is not None:
            return cached_id
        deadline = deadline if deadline is not None else self.deadline()
        backoff = self.backoff()
        while True:
            error, broker_id = (await self.find_coordinators((transactional_id,), deadline))[
                transactional_id
            ]
            if error == ErrorCode.none:
                if self.view.broker(broker_id) is None:
                    await self.refresh(deadline=deadline)
                self._coordinator_by_id[transactional_id] = broker_id
                return broker_id
            if not ErrorCode(error).retriable:
                raise ClientError(
                    f"no coordinator of transactional id {transactional_id!r}: {code_name(error)}",
                    error=ErrorCode(error),
                )
            if deadline.has_passed:
                raise RetriableError(
                    f"no coordinator of transactional id {transactional_id!r} within"
                    f" {deadline.timeout_ms:.0f} ms: {code_name(error)}",
                    error=ErrorCode(error),
                )
            await backoff.wait(deadline)

    async def group_coordinator(self, group_id: str, deadline: Deadline | None = None) -> int:
        """The broker that coordinates a group, asked for each time.

        Raises:
            RetriableError: None was available in time.
            ClientError: Refused.
        """
        deadline = deadline if deadline is not None else self.deadline()
        backoff = self.backoff()
        while True:
            message = await self.ask_any(find_group_coordinator(group_id), deadline)
            coordinator_row: Any = (
                only_row(message.coordinators, f"about group {group_id!r}")
                if message.__version__ >= 4
                else message
            )
            error = ErrorCode(coordinator_row.error_code)
            if error == ErrorCode.none:
                if self.view.broker(coordinator_row.node_id) is None:
                    await self.refresh(deadline=deadline)
                return int(coordinator_row.node_id)
            failure = f"no coordinator of group {group_id!r}: {code_name(error)}"
            if not error.retriable:
                raise ClientError(failure, error=error)
            if deadline.has_passed:
                raise RetriableError(failure, error=error)
            await backoff.wait(deadline)

    async def ask_group_coordinator(self, group_id: str, request: VersionedRequest) -> Any:
        """Send one request to a group's coordinator, once.

        Raises:
            ClientError: There is no coordinator, or it did not answer.
        """
        return await self.ask(await self.group_coordinator(group_id), request)

    async def find_coordinators(
        self, transactional_ids: tuple[str, ...], deadline: Deadline
    ) -> dict[str, tuple[int, int]]:
        """Ask once for several coordinators; one by one if the broker does not support batches
        (KIP-699).

        Returns:
            Transactional id -> (error, broker id).
        """
        try:
            request = requests.find_coordinator(
                transactional_ids,
                accepted_versions=VersionRange(4 if len(transactional_ids) > 1 else 1, 6),
            )
            message = await self.ask_any(request, deadline)
        except NotSupportedError:
            if len(transactional_ids) == 1:
                raise
            answer_by_id: dict[str, tuple[int, int]] = {}
            for transactional_id in transactional_ids:
                answer_by_id |= await self.find_coordinators((transactional_id,), deadline)
            return answer_by_id
        return parse_coordinators(message, transactional_ids)

    def forget_coordinator(self, transactional_id: str) -> None:
        """Forget where the coordinator is, so that the next lookup asks a broker."""
        self._coordinator_by_id.pop(transactional_id, None)


def _system_clock() -> Clock:
    # Imported here: who brings a clock along needs nothing of the real world.
    from txnsim.runtime.real_world import RealClock

    return RealClock(asyncio.get_running_loop())
