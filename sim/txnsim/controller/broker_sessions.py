"""Sessions of brokers: which are alive, and the effect of a heartbeat. Pure; time is an argument.

A broker is registered, then fenced until it has read the metadata up to its registration, then
unfenced. It may request a controlled shutdown, which is granted once it leads nothing and all other
brokers know that. Without a heartbeat for ``broker.session.timeout.ms`` it is fenced. Kafka's
counterparts: BrokerHeartbeatManager, BrokerHeartbeatTracker.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec

from txnsim.interbroker.lifecycle import BrokerHeartbeatCommand
from txnsim.types import BrokerId

NO_OFFSET = -1


class BrokerState(Enum):
    """The state of a broker (Kafka's BrokerControlState)."""

    FENCED = "registered; clients don't see it, it leads nothing"
    UNFENCED = "a member like any other"
    CONTROLLED_SHUTDOWN = "on its way out: still unfenced, in no ISR"
    SHUTDOWN_NOW = "may stop; fenced from now on"

    @property
    def counts_as_fenced(self) -> bool:
        return self in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)


class _BrokerSession(msgspec.Struct, kw_only=True):
    """The state of one registered broker."""

    is_fenced: bool
    metadata_offset: int = NO_OFFSET
    shutdown_offset: int = NO_OFFSET
    """Metadata offset at which its controlled shutdown began; -1 while there is none."""
    deadline_ms: int | None = None
    """When its session ends; None before its first contact and once the session has ended."""

    @property
    def state(self) -> BrokerState:
        if self.shutdown_offset != NO_OFFSET:
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.FENCED if self.is_fenced else BrokerState.UNFENCED


class BrokerSessions:
    """The sessions of all registered brokers."""

    __slots__ = ("_sessions", "_timeout_ms")

    def __init__(self, *, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._sessions: dict[BrokerId, _BrokerSession] = {}

    # Changes

    def register(self, broker_id: BrokerId, *, is_fenced: bool, now_ms: int) -> None:
        """Start the session of a new incarnation; it replaces that of an older one."""
        self._sessions[broker_id] = _BrokerSession(
            is_fenced=is_fenced, deadline_ms=now_ms + self._timeout_ms
        )

    def note_heartbeat(
        self,
        command: BrokerHeartbeatCommand,
        state: BrokerState,
        *,
        now_ms: int,
        metadata_offset: int,
    ) -> None:
        """Record a processed heartbeat: the broker's new state, and the renewed session.

        Args:
            command: The heartbeat.
            state: The result of ``next_state``.
            now_ms: The time by ``Clock.elapsed_ms``.
            metadata_offset: Offset of the image after the heartbeat; others must have seen it
                before a controlled shutdown is over.
        """
        session = self._sessions[command.broker_id]
        session.deadline_ms = now_ms + self._timeout_ms
        session.metadata_offset = command.metadata_offset
        session.is_fenced = state.counts_as_fenced
        if state.counts_as_fenced:
            session.shutdown_offset = NO_OFFSET
        elif state is BrokerState.CONTROLLED_SHUTDOWN and session.shutdown_offset == NO_OFFSET:
            session.shutdown_offset = metadata_offset

    def renew(self, now_ms: int) -> None:
        """Restart every open session, because no broker could be heard for a while."""
        for session in self._sessions.values():
            if session.deadline_ms is not None:
                session.deadline_ms = now_ms + self._timeout_ms

    def grant(self, now_ms: int, grace_ms: int) -> None:
        """Extend sessions that an advance of the clock has ended: heartbeats are on their way."""
        for session in self._sessions.values():
            if session.deadline_ms is not None:
                session.deadline_ms = max(session.deadline_ms, now_ms + grace_ms)

    def fence(self, broker_id: BrokerId) -> None:
        """End the broker's session."""
        session = self._sessions[broker_id]
        session.is_fenced = True
        session.deadline_ms = None
        session.shutdown_offset = NO_OFFSET

    # Queries

    def has_session(self, broker_id: BrokerId, now_ms: int) -> bool:
        """Whether the broker's session is open, so that no other broker can take its id."""
        session = self._sessions.get(broker_id)
        if session is None or session.deadline_ms is None:
            return False
        return now_ms < session.deadline_ms

    def expired_broker(self, now_ms: int) -> BrokerId | None:
        """The broker whose session ended first; None if none has."""
        expired_sessions = [
            (session.deadline_ms, broker_id)
            for broker_id, session in self._sessions.items()
            if session.deadline_ms is not None and session.deadline_ms <= now_ms
        ]
        return min(expired_sessions)[1] if expired_sessions else None

    def next_deadline_ms(self) -> int | None:
        """When the next session ends, unless its broker sends a heartbeat."""
        deadlines_ms = [
            session.deadline_ms
            for session in self._sessions.values()
            if session.deadline_ms is not None
        ]
        return min(deadlines_ms, default=None)

    def next_state(
        self,
        command: BrokerHeartbeatCommand,
        *,
        registration_offset: int,
        is_leader: Callable[[], bool],
    ) -> BrokerState:
        """The state after a heartbeat (BrokerHeartbeatManager.calculateNextBrokerState).

        Args:
            command: The heartbeat.
            registration_offset: Metadata offset of the broker's registration.
            is_leader: Whether the broker still leads a partition; called only if it matters.
        """
        session = self._sessions[command.broker_id]
        match session.state:
            case BrokerState.FENCED:
                if command.want_shut_down:
                    return BrokerState.SHUTDOWN_NOW
                is_caught_up = command.metadata_offset >= registration_offset
                if is_caught_up and not command.want_fence:
                    return BrokerState.UNFENCED
                return BrokerState.FENCED
            case BrokerState.UNFENCED:
                if command.want_fence:
                    return (
                        BrokerState.SHUTDOWN_NOW if command.want_shut_down else BrokerState.FENCED
                    )
                if command.want_shut_down:
                    return (
                        BrokerState.CONTROLLED_SHUTDOWN if is_leader() else BrokerState.SHUTDOWN_NOW
                    )
                return BrokerState.UNFENCED
            case _:
                if is_leader() or session.shutdown_offset > self._lowest_active_offset():
                    return BrokerState.CONTROLLED_SHUTDOWN
                return BrokerState.SHUTDOWN_NOW

    def state(self, broker_id: BrokerId) -> BrokerState | None:
        session = self._sessions.get(broker_id)
        return None if session is None else session.state

    def _lowest_active_offset(self) -> float:
        return min(
            (
                session.metadata_offset
                for session in self._sessions.values()
                if session.state is BrokerState.UNFENCED
            ),
            default=float("inf"),
        )
