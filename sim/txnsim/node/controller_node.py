"""The controller as a node of the cluster: its answers to brokers, and its periodic work.

The shell around the controller's decisions. Brokers reach it over links like any other node: their
registrations, heartbeats and AlterPartition requests can be delayed, lost or cut off. On its own it
fences brokers whose session has ended, looks for partitions that allow an unclean election, and
gives partitions back to their preferred leaders. Kafka's counterparts: QuorumController,
ControllerApis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from txnsim.controller.broker_sessions import BrokerSessions, BrokerState
from txnsim.controller.elections import elect_unclean, rebalance_leaders
from txnsim.controller.isr_requests import decide_alter_partition
from txnsim.controller.leadership import leads_any_partition
from txnsim.controller.registrations import (
    begin_controlled_shutdown,
    fail_directory,
    fence_broker,
    has_stale_epoch,
    register_broker,
    unfence_broker,
)
from txnsim.errors import ErrorCode, InvariantViolation, Rejection
from txnsim.interbroker.lifecycle import (
    BrokerHeartbeatCommand,
    BrokerHeartbeatReply,
    BrokerRegistrationCommand,
    BrokerRegistrationReply,
)
from txnsim.interbroker.replication import AlterPartitionCommand, AlterPartitionReply
from txnsim.interbroker.transactions import AllocateProducerIdsCommand, AllocateProducerIdsReply
from txnsim.loggers import Logger
from txnsim.metadata.image import ClusterImage
from txnsim.node.metadata_publisher import Metadata
from txnsim.node.peers import CONTROLLER_ID
from txnsim.runtime.clock import Clock, stood_still
from txnsim.runtime.environment import Environment, TimerHandle
from txnsim.runtime.trace import NO_CAUSE
from txnsim.txn.producer_ids import FIRST_PRODUCER_ID, ProducerIdAllocator
from txnsim.types import BrokerId, ProducerId

HEARTBEAT_MS: Final = 250
"""Time for heartbeats to arrive after an advance of the clock has ended sessions."""

_log: Final = Logger("txnsim.controller")


class ControllerNode:
    """The controller, which brokers reach over the network."""

    def __init__(
        self,
        *,
        metadata: Metadata,
        environment: Environment,
        first_producer_id: ProducerId = FIRST_PRODUCER_ID,
    ) -> None:
        self.metadata = metadata
        self._environment = environment
        self._clock = environment.clock
        self._producer_ids = ProducerIdAllocator(next_producer_id=first_producer_id)
        self._sessions = BrokerSessions(timeout_ms=metadata.settings.broker_session_timeout_ms)
        self._session_timer: TimerHandle | None = None
        self._unclean_timer: TimerHandle | None = None
        self._rebalance_timer: TimerHandle | None = None
        self._is_running = False
        self._forget_heals: Callable[[], None] | None = None

    # Life

    def start(self) -> None:
        """Becomes reachable, and starts a session for each broker of the formatted cluster."""
        self._is_running = True
        network = self._environment.network
        network.register(CONTROLLER_ID, self.handle_peer)
        self._forget_heals = network.on_heal(self._on_healed)
        now_ms = self._clock.elapsed_ms()
        for broker_id, broker in self.metadata.image.brokers.items():
            self._sessions.register(broker_id, is_fenced=not broker.alive, now_ms=now_ms)
        self._arm_sessions()
        self._arm_unclean()
        if self.metadata.settings.auto_leader_rebalance_enable:
            self._arm_rebalance()

    def stop(self) -> None:
        """Becomes unreachable and stops the timers."""
        self._is_running = False
        self._environment.network.unregister(CONTROLLER_ID)
        if self._forget_heals is not None:
            self._forget_heals()
            self._forget_heals = None
        for timer in (self._session_timer, self._unclean_timer, self._rebalance_timer):
            if timer is not None:
                timer.cancel()

    @property
    def next_producer_id(self) -> ProducerId:
        """The lowest producer id that no allocated block contains."""
        return ProducerId(self._producer_ids.next_producer_id)

    def state(self, broker_id: BrokerId) -> BrokerState | None:
        """The controller's state of a broker; None if the broker has never registered."""
        return self._sessions.state(broker_id)

    # What brokers ask

    async def handle_peer(
        self, _api_key: int, _api_version: int, command: object, sender_id: BrokerId
    ) -> object:
        """Answer a broker's request."""
        match command:
            case BrokerHeartbeatCommand():
                return self._heartbeat(command)
            case AlterPartitionCommand():
                return self._alter_partition(command)
            case AllocateProducerIdsCommand():
                return self._allocate(command)
            case BrokerRegistrationCommand():
                return self._register(command)
            case _:
                raise InvariantViolation(
                    f"broker {sender_id} asked the controller for {type(command).__name__}"
                )

    def _allocate(self, command: AllocateProducerIdsCommand) -> AllocateProducerIdsReply:
        broker = self.metadata.image.brokers.get(command.broker_id)
        self._producer_ids, reply = self._producer_ids.allocate(
            command, broker_epoch=None if broker is None else broker.epoch
        )
        return reply

    def _alter_partition(self, command: AlterPartitionCommand) -> AlterPartitionReply:
        outcome = decide_alter_partition(self.metadata.image, command, self.metadata.settings)
        self.metadata.publish(outcome.image)
        return outcome.reply

    def _register(self, command: BrokerRegistrationCommand) -> BrokerRegistrationReply:
        broker_id = command.broker_id
        now_ms = self._clock.elapsed_ms()
        image_after = register_broker(
            self.metadata.image,
            command,
            self.metadata.settings,
            has_session=self._sessions.has_session(broker_id, now_ms),
        )
        if isinstance(image_after, Rejection):
            _log.info("controller.registration_refused", broker=broker_id, why=image_after.reason)
            return BrokerRegistrationReply(error=image_after.error)
        broker = image_after.brokers[broker_id]
        self._sessions.register(broker_id, is_fenced=not broker.alive, now_ms=now_ms)
        self._arm_sessions()
        self._trace_state(broker_id, BrokerState.FENCED)
        self.metadata.publish(image_after)
        return BrokerRegistrationReply(broker_epoch=broker.epoch)

    def _heartbeat(self, command: BrokerHeartbeatCommand) -> BrokerHeartbeatReply:
        broker_id = command.broker_id
        image = self.metadata.image
        if has_stale_epoch(image, broker_id, command.broker_epoch):
            return BrokerHeartbeatReply(error=ErrorCode.stale_broker_epoch)
        registration_epoch = image.brokers[broker_id].epoch
        state = self._sessions.next_state(
            command,
            registration_offset=registration_epoch,
            is_leader=lambda: leads_any_partition(image, broker_id),
        )
        state_before = self._sessions.state(broker_id)
        image_after = (
            image if state is state_before else self._image_in_state(image, broker_id, state)
        )
        if command.has_failed_directory:
            image_after = fail_directory(image_after, broker_id, self.metadata.settings)
        self._sessions.note_heartbeat(
            command, state, now_ms=self._clock.elapsed_ms(), metadata_offset=image_after.offset
        )
        self._arm_sessions()
        self.metadata.publish(image_after)
        return BrokerHeartbeatReply(
            is_caught_up=command.metadata_offset >= registration_epoch,
            is_fenced=state.counts_as_fenced,
            should_shut_down=state is BrokerState.SHUTDOWN_NOW,
        )

    def _image_in_state(
        self, image: ClusterImage, broker_id: BrokerId, state: BrokerState
    ) -> ClusterImage:
        _log.info("controller.broker_state", broker=broker_id, state=state.name)
        self._trace_state(broker_id, state)
        settings = self.metadata.settings
        match state:
            case BrokerState.UNFENCED:
                return unfence_broker(image, broker_id, settings)
            case BrokerState.CONTROLLED_SHUTDOWN:
                return begin_controlled_shutdown(image, broker_id, settings)
            case _:
                return fence_broker(image, broker_id, settings)

    # Own acts

    def _on_healed(self, source: BrokerId, target: BrokerId) -> None:
        if self._is_running and source == CONTROLLER_ID:
            self.metadata.catch_up(target)

    def _arm_sessions(self) -> None:
        deadline_ms = self._sessions.next_deadline_ms()
        if self._session_timer is not None:
            self._session_timer.cancel()
            self._session_timer = None
        if deadline_ms is not None and self._is_running:
            clock = self._clock
            delay_ms = max(0, deadline_ms - clock.elapsed_ms())
            end_sessions = partial(
                self._fence_expired_brokers, clock.monotonic_ms() + delay_ms, _advanced_ms(clock)
            )
            # Heartbeats that are due as well come first.
            at_turn_end = self._environment.tasks.run_at_turn_end
            self._session_timer = clock.call_at(
                clock.now_ms() + delay_ms, partial(at_turn_end, end_sessions)
            )

    def _fence_expired_brokers(self, due_ms: int, advanced_before_ms: int) -> None:
        """Fence brokers without a heartbeat in time, one after the other
        (ReplicationControlManager.maybeFenceOneStaleBroker).

        If this call is late, the whole process stood still, and heartbeats may still be on their
        way. Kafka's controller fences no broker because of its own delay either: it notes when a
        heartbeat arrives, before it handles it (ClusterControlManager.trackBrokerHeartbeat). If an
        advance of the clock has ended sessions, the live brokers send a heartbeat now, and get a
        moment for it to arrive.
        """
        clock = self._clock
        now_ms = clock.elapsed_ms()
        if _advanced_ms(clock) != advanced_before_ms:
            self._sessions.grant(now_ms, HEARTBEAT_MS)
        elif stood_still(due_ms, clock.monotonic_ms()):
            _log.info("controller.sessions_renewed", late_ms=clock.monotonic_ms() - due_ms)
            self._sessions.renew(now_ms)
        while (
            self._is_running and (stale_broker := self._sessions.expired_broker(now_ms)) is not None
        ):
            self._sessions.fence(stale_broker)
            _log.info("controller.session_ended", broker=stale_broker)
            settings = self.metadata.settings
            with self._timer_fired("broker.session.timeout", settings.broker_session_timeout_ms):
                if self.metadata.image.is_alive(stale_broker):
                    self._trace_state(stale_broker, BrokerState.FENCED)
                self.metadata.publish(fence_broker(self.metadata.image, stale_broker, settings))
        self._arm_sessions()

    def _arm_unclean(self) -> None:
        interval_ms = self.metadata.settings.unclean_leader_election_interval_ms
        self._unclean_timer = self._clock.call_at(
            self._clock.now_ms() + interval_ms,
            lambda: self._change_periodically(
                elect_unclean,
                self._arm_unclean,
                timer_name="unclean.leader.election",
                waited_ms=interval_ms,
            ),
        )

    def _arm_rebalance(self) -> None:
        interval_ms = 1_000 * self.metadata.settings.leader_imbalance_check_interval_seconds
        self._rebalance_timer = self._clock.call_later(
            interval_ms,
            lambda: self._change_periodically(
                rebalance_leaders,
                self._arm_rebalance,
                timer_name="leader.imbalance.check",
                waited_ms=interval_ms,
            ),
        )

    def _change_periodically(
        self,
        change_image: Callable[..., ClusterImage],
        arm_again: Callable[[], None],
        *,
        timer_name: str,
        waited_ms: int,
    ) -> None:
        image = change_image(self.metadata.image, self.metadata.settings)
        if image is not self.metadata.image:
            with self._timer_fired(timer_name, waited_ms):
                self.metadata.publish(image)
        arm_again()

    @contextmanager
    def _timer_fired(self, timer_name: str, waited_ms: int) -> Iterator[None]:
        """Trace a timer that found work, as the cause of all work inside the block."""
        tracer = self._environment.tracer
        if not tracer.on:
            yield
            return
        event_data = {"timer": timer_name, "waited_ms": waited_ms}
        old_cause = tracer.set_cause(
            tracer.emit(
                "timer.fire", f"broker/{CONTROLLER_ID}", parents=(NO_CAUSE,), data=event_data
            )
        )
        try:
            yield
        finally:
            tracer.set_cause(old_cause)

    def _trace_state(self, broker_id: BrokerId, state: BrokerState) -> None:
        tracer = self._environment.tracer
        if tracer.on:
            tracer.emit("node.state", f"broker/{broker_id}", data={"state": state.name.lower()})


def _advanced_ms(clock: Clock) -> int:
    """Total time by which the clock was advanced, in milliseconds."""
    return clock.elapsed_ms() - clock.monotonic_ms()
