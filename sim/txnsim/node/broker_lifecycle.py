"""A broker's requests to the controller about itself: registration, heartbeats, controlled
shutdown.

The broker registers until it gets an epoch. Then it sends a heartbeat every
``broker.heartbeat.interval.ms``, one at a time: the next one waits for the answer to the last or
for its deadline. Callbacks report when the broker is unfenced, and when it may stop. Kafka's
counterpart: BrokerLifecycleManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, PeerError
from txnsim.interbroker.lifecycle import (
    BrokerHeartbeatCommand,
    BrokerHeartbeatReply,
    BrokerRegistrationCommand,
    BrokerRegistrationReply,
)
from txnsim.loggers import Logger
from txnsim.node.peers import Peers
from txnsim.runtime.environment import Clock, TimerHandle
from txnsim.runtime.tasks import Pending
from txnsim.settings import Settings
from txnsim.types import BrokerId

SOON_MS: Final = 10
"""Pause before the first heartbeat that asks to be unfenced, as Kafka's after its catch-up."""
SHUTDOWN_PAUSE_MS: Final = 50
"""Pause before the second heartbeat of a controlled shutdown, which is often granted by then."""

_log: Final = Logger("txnsim.broker")


class BrokerLifecycle(msgspec.Struct, kw_only=True, eq=False):
    """One incarnation of a broker, from its registration to its end."""

    broker_id: BrokerId
    broker_epoch: int = -1
    is_fenced: bool = True
    """Whether the broker is fenced, as the controller's last answer says."""
    is_stopped: bool = False
    has_failed_directory: bool = False
    """Whether the broker's log directory is offline."""
    is_failure_known: bool = False
    """Whether the controller knows that the log directory is offline."""
    peers: Peers
    """Sends the requests to the controller."""
    clock: Clock
    """Pauses follow the cluster clock, so that a live broker sends heartbeats during an advance."""
    settings: Settings
    metadata_offset: Callable[[], int]
    """Gives the metadata offset up to which the broker has read."""
    _registration: BrokerRegistrationCommand | None = None
    _on_registered: Callable[[int], object] | None = None
    _on_unfenced: Callable[[], object] | None = None
    _on_shutdown: Callable[[], object] | None = None
    _timer: TimerHandle | None = None
    _is_request_in_flight: bool = False
    _is_soon: bool = False
    _is_shutting_down: bool = False
    _was_answered: bool = False

    # Life

    def go_on(self, broker_epoch: int) -> None:
        """Starts with a broker that is registered and unfenced already, and only needs
        heartbeats.
        """
        self.broker_epoch = broker_epoch
        self.is_fenced = False
        self._schedule(self.settings.broker_heartbeat_interval_ms)

    def register(
        self,
        registration: BrokerRegistrationCommand,
        *,
        on_registered: Callable[[int], object],
        on_unfenced: Callable[[], object],
    ) -> None:
        """Register the broker, then ask for it to be unfenced."""
        self._registration = registration
        self._on_registered = on_registered
        self._on_unfenced = on_unfenced
        self._communicate()

    def shut_down(self, on_shutdown: Callable[[], object]) -> None:
        """Ask for a controlled shutdown at once."""
        self._is_shutting_down = True
        self._on_shutdown = on_shutdown
        if self._is_request_in_flight:
            self._is_soon = True
        else:
            self._schedule(0)

    def directory_failed(self) -> None:
        """Tell the controller that the log directory is offline, at once and in every later
        heartbeat (BrokerLifecycleManager.propagateDirectoryFailure).
        """
        self.has_failed_directory = True
        if self._is_request_in_flight:
            self._is_soon = True
        elif self.broker_epoch >= 0:
            self._schedule(0)

    def stop(self) -> None:
        self.is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    # Communication

    def _schedule(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self.is_stopped:
            due_ms = self.clock.now_ms() + (0 if self._is_soon else delay_ms)
            self._timer = self.clock.call_at(due_ms, self._communicate)
        self._is_soon = False

    def _communicate(self) -> None:
        self._is_request_in_flight = True
        # Half a session, so that one lost heartbeat does not fence the broker (KAFKA-14392).
        timeout_ms = self.settings.broker_session_timeout_ms // 2
        if self.broker_epoch < 0:
            assert self._registration is not None
            self.peers.register_broker(self._registration, timeout_ms=timeout_ms).on_done(
                self._on_registration
            )
            return
        command = BrokerHeartbeatCommand(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch,
            metadata_offset=self.metadata_offset(),
            want_shut_down=self._is_shutting_down,
            has_failed_directory=self.has_failed_directory,
        )
        self.peers.heartbeat(command, timeout_ms=timeout_ms).on_done(
            lambda answer: self._on_heartbeat(answer, command)
        )

    def _on_registration(self, pending_answer: Pending[BrokerRegistrationReply]) -> None:
        self._is_request_in_flight = False
        if self.is_stopped:
            return
        if not self._has_reply(pending_answer, "registration"):
            return
        self.broker_epoch = pending_answer.result().broker_epoch
        _log.info("broker.registered", broker=self.broker_id, epoch=self.broker_epoch)
        self._schedule(SOON_MS)
        assert self._on_registered is not None
        self._on_registered(self.broker_epoch)

    def _on_heartbeat(
        self, pending_answer: Pending[BrokerHeartbeatReply], command: BrokerHeartbeatCommand
    ) -> None:
        self._is_request_in_flight = False
        if self.is_stopped:
            return
        if not self._has_reply(pending_answer, "heartbeat"):
            return
        reply = pending_answer.result()
        self.is_fenced = reply.is_fenced
        self.is_failure_known = command.has_failed_directory
        if reply.should_shut_down:
            self.stop()
            if self._on_shutdown is not None:
                self._on_shutdown()
            return
        is_first_of_shutdown = self._is_shutting_down and not self._was_answered
        self._was_answered = self._is_shutting_down
        self._schedule(
            SHUTDOWN_PAUSE_MS
            if is_first_of_shutdown
            else self.settings.broker_heartbeat_interval_ms
        )
        if not reply.is_fenced and self._on_unfenced is not None:
            on_unfenced, self._on_unfenced = self._on_unfenced, None
            on_unfenced()

    def _has_reply(
        self,
        pending_answer: Pending[BrokerRegistrationReply] | Pending[BrokerHeartbeatReply],
        request_name: str,
    ) -> bool:
        """Whether the controller granted the request; if not, schedules a retry."""
        error = pending_answer.exception()
        if error is None and pending_answer.result().error == ErrorCode.none:
            return True
        if error is not None and not isinstance(error, PeerError):
            raise error
        failure = error or ErrorCode(pending_answer.result().error).name
        _log.info("broker.not_granted", broker=self.broker_id, what=request_name, why=str(failure))
        self._is_soon = False  # never at once after a failure
        self._schedule(self.settings.broker_heartbeat_interval_ms)
        return False
