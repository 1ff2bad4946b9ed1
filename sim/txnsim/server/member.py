"""A member of the cluster: one broker id across its lives.

Ports and disk stay; each start makes a new broker with a new epoch. A start goes as in Kafka: the
broker registers, follows the metadata, is unfenced, and only then accepts clients. At a stop other
brokers take its leaderships first; at a kill they don't. Kafka's counterpart: BrokerServer.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from enum import Enum
from typing import Final

from txnsim.broker.broker import Broker
from txnsim.errors import ConfigError
from txnsim.faults.points import FaultPoint
from txnsim.interbroker.lifecycle import BrokerRegistrationCommand
from txnsim.node.broker_fault_points import BrokerFaultPoints
from txnsim.node.broker_lifecycle import BrokerLifecycle
from txnsim.node.log_events import LogEvents
from txnsim.node.metadata_publisher import Metadata
from txnsim.node.peers import Peers
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.runtime.clock import SkewedClock
from txnsim.runtime.environment import Environment, Listener
from txnsim.runtime.trace import NO_CAUSE
from txnsim.server._connection import RequestConnection
from txnsim.server._listener import BrokerListener, Endpoint
from txnsim.types import BrokerId, TopicPartition

SHUTDOWN_TIMEOUT_MS: Final = 300_000
"""Longest duration of a controlled shutdown (BrokerServer.shutdown: five minutes)."""


LOG_DIR_FAILURE_TIMEOUT_MS: Final = 30_000
"""Time after which a broker with a failed log directory ends itself, if it can't reach the
controller (log.dir.failure.timeout.ms).
"""


class MemberLifeState(Enum):
    """Where a broker is between its start and its end."""

    STARTING = "it registers, follows the metadata and waits to be unfenced"
    RUNNING = "it serves clients"
    STOPPING = "its leaders are being moved away"
    DOWN = "it does not run"


class ClusterMember:
    """One broker of the cluster, running or not."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        environment: Environment,
        clock: SkewedClock,
        metadata: Metadata,
        disk: BrokerLogs,
        endpoints: tuple[Endpoint, ...],
    ) -> None:
        self.broker_id = broker_id
        self.clock = clock
        """The clock of its machine; it outlives the broker."""
        self.disk = disk
        self.lagging: set[TopicPartition] = set()
        """Partitions in which it does not fetch, in all lives, until ``catch_up``."""
        self.endpoints = endpoints
        self.state = MemberLifeState.DOWN
        self.is_cut_off_from_clients = False
        self.broker: Broker | None = None
        self.listener: BrokerListener | None = None
        self._kept_listeners: list[Listener] = []
        """Listeners that keep the ports of a broker that is down."""
        self._environment = environment
        self._metadata = metadata
        self._fault_points = BrokerFaultPoints(
            node=f"broker/{broker_id}", network=environment.network, tasks=environment.tasks
        )
        self._peers = Peers(
            network=environment.network,
            broker_id=broker_id,
            request_timeout_ms=metadata.settings.request_timeout_ms,
            fleet=metadata.fleet,
        )
        self._lifecycle: BrokerLifecycle | None = None
        self._life_number = 0
        """Number of starts and ends. After a wait it shows whether this is still the same life."""
        self._clean_epoch = -1
        """Broker epoch that a clean shutdown has written to the disk (Kafka's
        CleanShutdownFileHandler).
        """
        self._waiting_future: asyncio.Future[bool] | None = None
        """Future of a start or a stop that waits; its result tells whether that succeeded."""
        self._random_source = environment.rng.stream(f"incarnations.b{broker_id}")

    # Lives

    @property
    def is_down(self) -> bool:
        """Whether the broker is stopped and not starting."""
        return self.state is MemberLifeState.DOWN

    @property
    def is_running(self) -> bool:
        """Whether the broker runs and serves."""
        return self.state is MemberLifeState.RUNNING

    def join(self, listener: BrokerListener) -> None:
        """Start as a broker of the freshly formatted cluster: registered and unfenced already.

        Args:
            listener: A bound listener; the caller opens it when all brokers run.
        """
        self.listener = listener
        tracer = self._environment.tracer
        broker_epoch = self._metadata.image.brokers[self.broker_id].epoch
        cause_before = tracer.cause
        up_event = self._trace_event("node.up", epoch=broker_epoch)
        tracer.set_cause(up_event)
        self._begin_life()
        self._lifecycle = self._new_lifecycle()
        self._lifecycle.go_on(broker_epoch)
        self.state = MemberLifeState.RUNNING
        tracer.set_cause(cause_before)

    async def start(self) -> None:
        """Start the broker again and wait until it serves clients, on the same ports and the same
        disk.

        While the session of a killed broker lasts, its registration is refused, as in Kafka.

        Raises:
            ConfigError: The broker runs already, or was killed meanwhile.
            OSError: One of its ports is busy.
        """
        if self.state is not MemberLifeState.DOWN:
            raise self._wrong_state_error("start", "stop or kill it first")
        self.state = MemberLifeState.STARTING
        self._life_number += 1
        if self._fault_points.is_armed:
            life_number = self._life_number
            await self._fault_points.verdict(FaultPoint.PROCESS_START)
            if life_number != self._life_number:
                raise ConfigError(f"broker {self.broker_id} was killed before it had started")
        self._lifecycle = self._new_lifecycle()
        self._lifecycle.register(
            self._registration(),
            on_registered=self._follow_after_registration,
            on_unfenced=self._settle_waiting,
        )
        # From now on the disk has no mark of a clean shutdown.
        self._clean_epoch = -1
        try:
            is_unfenced = await self._await_lifecycle()
        except asyncio.CancelledError:
            await self._end_life("start cancelled")
            raise
        if not is_unfenced:
            raise ConfigError(f"broker {self.broker_id} was killed while it started")
        listener = self.listener = BrokerListener(
            environment=self._environment,
            settings=self._metadata.settings,
            make_connection=RequestConnection,
        )
        await self.free_ports()
        try:
            for endpoint in self.endpoints:
                await listener.bind(endpoint)
        except OSError:
            await self._end_life("port taken")
            raise
        if self.broker is None:
            await listener.close()
            raise ConfigError(f"broker {self.broker_id} was killed while it started")
        self.state = MemberLifeState.RUNNING
        self._trace_event("node.up", epoch=self._lifecycle.broker_epoch)
        if not self.is_cut_off_from_clients:
            listener.open(self.broker)

    async def stop(self) -> None:
        """Stop the broker with a controlled shutdown: other brokers take its leaderships first.

        Raises:
            ConfigError: The broker does not run, or was killed meanwhile.
        """
        if self.state is not MemberLifeState.RUNNING:
            raise self._wrong_state_error("stop", "only one that runs can be")
        if self._fault_points.is_armed:
            life_number = self._life_number
            await self._fault_points.verdict(FaultPoint.PROCESS_STOP)
            if life_number != self._life_number or self.state is not MemberLifeState.RUNNING:
                raise ConfigError(f"broker {self.broker_id} did not wait to be stopped")
        self.state = MemberLifeState.STOPPING
        lifecycle = self._lifecycle
        assert lifecycle is not None
        lifecycle.shut_down(self._settle_waiting)
        timer = self._environment.clock.call_later(SHUTDOWN_TIMEOUT_MS, self._settle_waiting)
        try:
            may_stop = await self._await_lifecycle()
        finally:
            timer.cancel()
        if not may_stop:
            raise ConfigError(f"broker {self.broker_id} was killed while it stopped")
        if not self.disk.has_failed:
            self._clean_epoch = lifecycle.broker_epoch
        await self._end_life("stopped", on_ended=self.disk.close)

    async def kill(self, *, lose_unflushed: bool = False) -> None:
        """End the broker at once, as ``kill -9`` does: the controller is not told.

        Args:
            lose_unflushed: Also lose data that was not flushed to disk, as if the machine broke
                down.

        Raises:
            ConfigError: The broker does not run.
        """
        if self.state is MemberLifeState.DOWN:
            raise self._wrong_state_error("kill", "start it first")
        if not lose_unflushed:
            await self._end_life("killed")
            return
        await self._end_life("machine lost", on_ended=self._lose_unflushed)

    def _lose_unflushed(self) -> None:
        truncated_logs = self.disk.lose_unflushed(now_ms=self._environment.clock.now_ms())
        events = LogEvents(self._environment.tracer, f"broker/{self.broker_id}")
        if events.tracer.on:
            for log in truncated_logs:
                events.trace_truncation(log)

    async def _end_life(self, reason: str, *, on_ended: Callable[[], object] | None = None) -> None:
        """End the broker in one step, so that it can't be started again half ended; then close its
        listener and keep its ports.
        """
        self.state = MemberLifeState.DOWN
        self._life_number += 1
        tracer = self._environment.tracer
        cause_before = tracer.set_cause(self._trace_event("node.down", reason=reason))
        self._settle_waiting(has_succeeded=False)
        if self._lifecycle is not None:
            self._lifecycle.stop()
        broker, self.broker = self.broker, None
        listener, self.listener = self.listener, None
        if listener is not None:
            listener.is_gone = True  # held requests must not take effect any more
        if broker is not None:
            broker.stop()
        if on_ended is not None:
            on_ended()
        tracer.set_cause(cause_before)
        if listener is not None:
            await listener.close()
            self._kept_listeners = await listener.keep_ports()

    async def free_ports(self) -> None:
        """Close the listeners that keep the ports of a broker that is down."""
        kept_ports, self._kept_listeners = self._kept_listeners, []
        for port in kept_ports:
            await port.close()

    # Replicas

    def lag(self, topic_partition: TopicPartition) -> None:
        """Let the broker fetch nothing for a partition, until ``catch_up``."""
        self.lagging.add(topic_partition)
        if self.broker is not None:
            self.broker.replica_fetchers.let_lag(topic_partition)

    def catch_up(self, topic_partition: TopicPartition) -> None:
        """Undo ``lag``."""
        self.lagging.discard(topic_partition)
        if self.broker is not None:
            self.broker.replica_fetchers.catch_up(topic_partition)

    # Clients

    def cut_off_clients(self) -> None:
        """Make its clients' connections black holes, until ``let_in_clients``."""
        self.is_cut_off_from_clients = True
        if self.listener is not None:
            self.listener.pause()

    def let_in_clients(self) -> None:
        """Let clients reach the broker again; requests that they sent meanwhile are handled."""
        self.is_cut_off_from_clients = False
        if self.listener is not None and self.broker is not None:
            self.listener.open(self.broker)

    # Parts

    def _new_lifecycle(self) -> BrokerLifecycle:
        return BrokerLifecycle(
            broker_id=self.broker_id,
            peers=self._peers,
            clock=self._environment.clock,
            settings=self._metadata.settings,
            metadata_offset=lambda: -1 if self.broker is None else self.broker.image.offset,
        )

    def _registration(self) -> BrokerRegistrationCommand:
        image = self._metadata.image.brokers[self.broker_id]
        return BrokerRegistrationCommand(
            broker_id=self.broker_id,
            cluster_id=self._metadata.image.cluster_id,
            incarnation_id=uuid.UUID(int=self._random_source.getrandbits(128), version=4),
            host=image.host,
            port=image.port,
            addresses=image.addresses,
            rack=image.rack,
            previous_broker_epoch=self._clean_epoch,
        )

    def _follow_after_registration(self, _epoch: int) -> None:
        """Begin to follow the metadata after the controller has registered this life."""
        self._begin_life()

    def _begin_life(self) -> None:
        broker = self.broker = Broker(
            broker_id=self.broker_id,
            environment=self._environment,
            metadata=self._metadata,
            logs=self.disk,
        )
        broker.replica_fetchers.lagging_partitions = self.lagging
        broker.on_directory_failure = self._report_directory_failure
        broker.start()

    def _report_directory_failure(self) -> None:
        """Report a failed log directory to the controller; end the broker if it can't be
        reached.
        """
        lifecycle = self._lifecycle
        assert lifecycle is not None
        lifecycle.directory_failed()
        life_number = self._life_number

        def kill_if_unknown() -> None:
            if life_number == self._life_number and not lifecycle.is_failure_known:
                self._environment.tasks.spawn(self.kill(), name=f"broker-{self.broker_id}-gives-up")

        self._environment.clock.call_later(LOG_DIR_FAILURE_TIMEOUT_MS, kill_if_unknown)

    def _settle_waiting(self, *, has_succeeded: bool = True) -> None:
        waiting_future, self._waiting_future = self._waiting_future, None
        if waiting_future is not None and not waiting_future.done():
            waiting_future.set_result(has_succeeded)

    async def _await_lifecycle(self) -> bool:
        waiting_future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting_future = waiting_future
        return await waiting_future

    def _trace_event(self, kind: str, **data: object) -> int:
        tracer = self._environment.tracer
        if not tracer.on:
            return NO_CAUSE
        return tracer.emit(kind, f"broker/{self.broker_id}", data={"role": "broker", **data})

    def _wrong_state_error(self, action: str, advice: str) -> ConfigError:
        return ConfigError(
            f"broker {self.broker_id} can't be asked to {action} while it is "
            f"{self.state.name.lower()}: {advice}"
        )
