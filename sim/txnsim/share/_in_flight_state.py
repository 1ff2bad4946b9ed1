"""The state of a range of records in flight, and the table of allowed changes.

Kafka has one state per batch until a part of the batch is touched, then one per offset. Here a
batch has one state for each range of equal records, so that a batch of a million records costs
little. Kafka's counterparts: InFlightState, InFlightBatch, RecordState.validateTransition.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

import msgspec

from txnsim.share.commands import TERMINAL, RecordState, SharePartitionSettings

_ALL_STATES: Final = frozenset(RecordState)
STATE_MOVES: Final[Mapping[RecordState, frozenset[RecordState]]] = {
    RecordState.AVAILABLE: frozenset({RecordState.ACQUIRED}),
    RecordState.ACQUIRED: _ALL_STATES - {RecordState.ACQUIRED},
    RecordState.ACKNOWLEDGED: frozenset(),
    RecordState.ARCHIVING: _ALL_STATES - {RecordState.ARCHIVING},
    RecordState.ARCHIVED: frozenset(),
}
NO_MEMBER: Final = ""


class Transition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A change that is being persisted, and the values to restore if that fails."""

    token: int
    state: RecordState
    member_id: str
    delivery_count_limit: int


@dataclass(slots=True, eq=False)
class InFlightState:
    """The records from ``first_offset`` to ``last_offset``, which are all in the same state."""

    first_offset: int
    last_offset: int
    state: RecordState
    delivery_count: int
    member_id: str = NO_MEMBER
    lock_deadline_ms: int | None = None
    transition: Transition | None = None
    is_archived: bool = False
    """Whether the records are gone from the log or aborted: no rollback brings them back."""

    @property
    def is_acquirable(self) -> bool:
        return self.state is RecordState.AVAILABLE and self.transition is None

    @property
    def holder(self) -> str:
        """The member that holds the records. Its acknowledgement does not count until it is
        persisted.
        """
        transition = self.transition
        if transition is None or self.is_archived:
            return self.member_id
        return transition.member_id

    @property
    def is_complete(self) -> bool:
        """Whether the delivery is complete and its completion is persisted."""
        return self.state in TERMINAL and self.transition is None

    def move(
        self,
        state: RecordState,
        settings: SharePartitionSettings,
        *,
        member_id: str = NO_MEMBER,
        token: int | None = None,
    ) -> None:
        """Change the state: at once, or with a token until that write is answered.

        A record that was delivered often enough does not become available again.
        """
        assert self.transition is None
        if state is RecordState.AVAILABLE and self.delivery_count >= settings.delivery_count_limit:
            state = (
                RecordState.ARCHIVING if settings.has_dead_letter_topic else RecordState.ARCHIVED
            )
        assert state in STATE_MOVES[self.state]
        if token is not None:
            self.transition = Transition(
                token=token,
                state=self.state,
                member_id=self.member_id,
                delivery_count_limit=settings.delivery_count_limit,
            )
        if state is RecordState.ACQUIRED:
            self.delivery_count += 1
        self.state = state
        self.member_id = member_id

    def archive(self) -> None:
        """Archive the records because they are gone or aborted, whatever is being persisted about
        them.
        """
        self.is_archived = True
        self.state = RecordState.ARCHIVED
        self.member_id = NO_MEMBER
        self.lock_deadline_ms = None

    def commit(self) -> None:
        """Make the change final, because it is persisted."""
        self.lock_deadline_ms = None
        self.transition = None

    def roll_back(self, now_ms: int) -> None:
        """Undo the change, because it could not be persisted. If the lock has expired meanwhile,
        the records become available or archived.
        """
        transition, self.transition = self.transition, None
        assert transition is not None
        if self.is_archived:
            return
        if self.lock_deadline_ms is None or self.lock_deadline_ms > now_ms:
            self.state = transition.state
            self.member_id = transition.member_id
            return
        has_reached_limit = self.delivery_count >= transition.delivery_count_limit
        self.state = RecordState.ARCHIVED if has_reached_limit else RecordState.AVAILABLE
        self.member_id = NO_MEMBER
        self.lock_deadline_ms = None

    def split(self, offset: int) -> InFlightState:
        """Keep the records below ``offset``; returns the others as a new state."""
        upper_part = replace(self, first_offset=offset)
        self.last_offset = offset - 1
        return upper_part


_FIRST_OFFSET: Final = attrgetter("first_offset")


class InFlightBatch:
    """Records that were acquired for the first time together, or loaded as one batch."""

    __slots__ = ("first_offset", "is_by_offset", "last_offset", "states")

    def __init__(self, *states: InFlightState) -> None:
        self.first_offset = states[0].first_offset
        self.last_offset = states[-1].last_offset
        self.states = list(states)
        self.is_by_offset = len(states) > 1
        """Whether its records may have different states. Once set it stays set, and decides the
        error texts.
        """

    @property
    def size(self) -> int:
        return self.last_offset - self.first_offset + 1

    def states_within(self, first_offset: int, last_offset: int) -> list[InFlightState]:
        """The states that contain a record of this range."""
        start_index = max(bisect_right(self.states, first_offset, key=_FIRST_OFFSET) - 1, 0)
        end_index = bisect_right(self.states, last_offset, lo=start_index, key=_FIRST_OFFSET)
        return [
            state
            for state in self.states[start_index:end_index]
            if state.last_offset >= first_offset
        ]

    def cut_states(self, first_offset: int, last_offset: int) -> list[InFlightState]:
        """Splits states so that some of them cover exactly this range, as far as the batch has it;
        returns those.
        """
        for offset in (first_offset, last_offset + 1):
            index = bisect_right(self.states, offset, key=_FIRST_OFFSET) - 1
            if (
                index >= 0
                and self.states[index].first_offset < offset <= self.states[index].last_offset
            ):
                assert self.is_by_offset
                self.states.insert(index + 1, self.states[index].split(offset))
        return self.states_within(first_offset, last_offset)
