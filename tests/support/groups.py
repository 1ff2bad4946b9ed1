"""A driver that applies the rules of a classic group without a coordinator around it."""

from __future__ import annotations

from itertools import count
from typing import Final

from txnsim.errors import ErrorCode
from txnsim.group.classic import ClassicProtocol
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.commands import (
    AnswerWaiter,
    AssignmentStored,
    Effect,
    Heartbeat,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    LeaveReply,
    RecordsToAppend,
    StaticMemberStored,
    SyncGroup,
    SyncReply,
    TimerCancelled,
    TimerKind,
    TimerSet,
)
from txnsim.settings import Settings

GROUP: Final = "g"
RANGE: Final = (("range", b"range"),)
NOW: Final = 1_000
DELAY_MS: Final = 3_000


class ClassicDriver:
    """One classic group: requests go in, answers and timers are kept by name."""

    def __init__(self, *, max_size: int = 2_147_483_647) -> None:
        numbers = count(1)
        self.protocol = ClassicProtocol(
            settings=Settings(group_initial_rebalance_delay_ms=DELAY_MS, group_max_size=max_size),
            make_id=lambda: f"id{next(numbers)}",
        )
        self.group = ClassicGroup(GROUP, now_ms=NOW)
        self.is_new = False
        self.answers: dict[int, JoinReply | SyncReply | None] = {}
        self.timers: dict[tuple[TimerKind, str], TimerSet] = {}
        self.writes: list[RecordsToAppend] = []
        self._waiters = count(1)

    # Requests

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        protocol_type: str = "consumer",
        is_member_id_required: bool = False,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        is_assignment_skippable: bool = True,
    ) -> int:
        """Send a JoinGroup; return the number of the request."""
        waiter = next(self._waiters)
        effects = self.protocol.join(
            self.group,
            JoinGroup(
                group_id=GROUP,
                member_id=member_id,
                group_instance_id=instance_id,
                client_id="client",
                client_host="/host",
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=rebalance_ms,
                protocol_type=protocol_type,
                protocols=protocols,
                member_id_required=is_member_id_required,
                may_skip_assignment=is_assignment_skippable,
            ),
            waiter=waiter,
            is_new_group=self.is_new,
            now_ms=NOW,
        )
        self.is_new = False
        self.take(effects)
        return waiter

    def sync(
        self,
        member_id: str,
        *,
        generation: int | None = None,
        instance_id: str | None = None,
        assignments: dict[str, bytes] | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> int:
        """Send a SyncGroup; return the number of the request."""
        waiter = next(self._waiters)
        command = SyncGroup(
            group_id=GROUP,
            generation=self.group.generation if generation is None else generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol=protocol,
            assignments=tuple((assignments or {}).items()),
        )
        self.take(self.protocol.sync(self.group, command, waiter=waiter))
        return waiter

    def heartbeat(
        self, member_id: str, *, generation: int | None = None, instance: str | None = None
    ) -> ErrorCode:
        """Send a Heartbeat; return the error."""
        rejection, effects = self.protocol.heartbeat(
            self.group,
            Heartbeat(
                group_id=GROUP,
                generation=self.group.generation if generation is None else generation,
                member_id=member_id,
                group_instance_id=instance,
            ),
        )
        self.take(effects)
        return ErrorCode.none if rejection is None else rejection.error

    def leave(self, *members: tuple[str, str | None]) -> LeaveReply:
        """Send a LeaveGroup."""
        command = LeaveGroup(group_id=GROUP, members=members)
        reply, effects = self.protocol.leave(self.group, command, now_ms=NOW)
        self.take(effects)
        return reply

    # The world outside

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case AnswerWaiter():
                    assert effect.waiter not in self.answers, "answered twice"
                    self.answers[effect.waiter] = effect.reply
                case TimerSet():
                    self.timers[effect.kind, effect.member_id] = effect
                case TimerCancelled():
                    self.timers.pop((effect.kind, effect.member_id), None)
                case RecordsToAppend():
                    self.writes.append(effect)

    def write(self, error: ErrorCode = ErrorCode.none) -> None:
        """Let the oldest write be committed, or fail with ``error``."""
        then = self.writes.pop(0).after_write
        match then:
            case AssignmentStored():
                effects = self.protocol.assignment_stored(self.group, then, error, now_ms=NOW)
            case StaticMemberStored():
                effects = self.protocol.static_member_stored(self.group, then, error)
            case _:
                effects = []
        self.take(effects)

    def fire(self, timer_kind: TimerKind, member_id: str = "") -> None:
        """Let an armed timer fire."""
        timer = self.timers.pop((timer_kind, member_id))
        match timer_kind:
            case TimerKind.HEARTBEAT:
                effects = self.protocol.remove_expired_members(self.group, [member_id], now_ms=NOW)
            case TimerKind.JOIN:
                effects = self.protocol.end_join_phase(
                    self.group,
                    delay_ms=timer.delay_ms,
                    remaining_ms=timer.remaining_ms,
                    now_ms=NOW,
                )
            case TimerKind.SYNC:
                effects = self.protocol.end_sync_phase(
                    self.group, generation=timer.generation, now_ms=NOW
                )
        self.take(effects)

    # Shortcuts

    def join_reply(self, waiter: int) -> JoinReply:
        """The answer to a JoinGroup, which must have been answered."""
        reply = self.answers[waiter]
        assert isinstance(reply, JoinReply)
        return reply

    def sync_reply(self, waiter: int) -> SyncReply:
        """The answer to a SyncGroup, which must have been answered."""
        reply = self.answers[waiter]
        assert isinstance(reply, SyncReply)
        return reply

    def stable(self, *instances: str | None) -> list[str]:
        """Bring the group into the state Stable; return the members' ids, the leader's first."""
        waiters = [self.join(instance_id=instance_id) for instance_id in instances]
        while self.group.state.value == "PreparingRebalance":
            self.fire(TimerKind.JOIN)
        members = [self.join_reply(waiter).member_id for waiter in waiters]
        for member, instance_id in zip(reversed(members), reversed(instances), strict=True):
            assignments = (
                {member_id: member_id.encode() for member_id in members}
                if member == members[0]
                else None
            )
            self.sync(member, instance_id=instance_id, assignments=assignments)
        self.write()
        assert self.group.state.value == "Stable"
        return members
