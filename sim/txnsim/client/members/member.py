"""A member of a group as a program has it: subscribe, poll, seek, commit, leave.

Heartbeats go on in the background. A member that does not poll for ``rebalance_timeout_ms`` leaves
its group with one of them. What else they do is the protocol's: a classic member follows a
rebalance in its polls alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

import msgspec

from txnsim.client.backoff import Backoff, Deadline, pause
from txnsim.client.cluster import LOST, Cluster
from txnsim.client.errors import ClientError, ErrorCode, IllegalUseError, RetriableError
from txnsim.client.fetching import FetchResult, fetch
from txnsim.client.group_requests import GroupMetadata
from txnsim.client.members._classic import ClassicMembership
from txnsim.client.members._consumer import ConsumerMembership
from txnsim.client.members.membership import (
    GroupProtocol,
    MemberOptions,
    Membership,
    Subscriber,
    refused,
)
from txnsim.client.members.requests import offset_commit
from txnsim.client.offsets import EARLIEST, offset_of
from txnsim.client.positions import ask_group_coordinator, committed_positions
from txnsim.types import TopicPartition

HEARTBEAT_MS: Final = 300
"""Between two heartbeats: often, so that a rebalance among a few members is soon over."""
LOOK_FIRST_MS: Final = 10
"""Between two looks at an assignment that is waited for; the pause grows to a heartbeat's."""
NO_WAIT_MS: Final = 0

_PROTOCOLS: Final[Mapping[GroupProtocol, Callable[[Subscriber], Membership]]] = {
    "classic": ClassicMembership,
    "consumer": ConsumerMembership,
}


class Polled(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a poll: new positions and fetched records."""

    positions: Mapping[TopicPartition, int] = {}
    """The group's positions of partitions that are new to the member; -1 where it has none."""
    fetched: tuple[tuple[int, FetchResult], ...] = ()
    """Each Fetch: the offset asked for, and what was answered."""


class GroupMember:
    """One consumer in a group; ``close`` it."""

    def __init__(self, cluster: Cluster, options: MemberOptions) -> None:
        """Nothing is sent before ``subscribe``."""
        self.options = options
        self.positions: dict[TopicPartition, int] = {}
        self._cluster = cluster
        self._membership: Membership | None = None
        self._turn = asyncio.Lock()
        """Held by the one that speaks with the coordinator: heartbeats wait for a rebalance."""
        self._beating: asyncio.Task[None] | None = None
        self._stands_still = False
        self._has_left = False
        self._polled_ms = math.inf
        """End of the last call in milliseconds; infinite during a call."""
        self._refused: ClientError | None = None

    @property
    def metadata(self) -> GroupMetadata:
        """Who it is, as a transactional producer would send it (``Consumer.groupMetadata``)."""
        return self._joined.metadata

    @property
    def is_joined(self) -> bool:
        return self._membership is not None

    @property
    def takes_part(self) -> bool:
        """Whether it counts itself among the members of its group."""
        return self._membership is not None and self._membership.takes_part

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return self._joined.assigned

    @property
    def _joined(self) -> Membership:
        if self._membership is None:
            group = self.options.group_id
            raise IllegalUseError(f"this member of group {group!r} has to subscribe")
        return self._membership

    async def subscribe(
        self,
        topics: Collection[str],
        *,
        until: frozenset[TopicPartition] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Join the group, or tell it of other topics.

        Args:
            topics: What to read.
            until: Go on until these partitions are assigned; the first assignment will do unless
                given.
            timeout_ms: How long to wait for them; ``api_timeout_ms`` unless given.

        Raises:
            ClientError: The coordinator refuses the member.
            RetriableError: The partitions were not assigned in time.
        """
        await self._cluster.refresh(tuple(topics))
        if self._membership is not None and not self._has_left:
            self._membership.resubscribe(tuple(topics))
        else:
            self._has_left = False
            subscriber = Subscriber(
                cluster=self._cluster,
                options=self.options,
                topics=tuple(topics),
                positions=self.positions,
            )
            self._membership = _PROTOCOLS[self.options.protocol](subscriber)
        if self._beating is None:
            self._beating = self._cluster.tasks.spawn(
                self._beat(), name=f"heartbeats to group {self.options.group_id}"
            )
        with self._called():
            await self._settle(until, timeout_ms)

    async def poll(
        self,
        *,
        until: frozenset[TopicPartition] | None = None,
        stable: bool = True,
        waits: bool = True,
        timeout_ms: float | None = None,
    ) -> Polled:
        """Follow a rebalance, and read everything that there is now.

        Args:
            until: As in ``subscribe``.
            stable: Take no position that an open transaction may change (KIP-447).
            waits: Ask again for such positions until the transaction has ended.
            timeout_ms: How long to wait for partitions and positions.

        Raises:
            ClientError: Refused; ``error`` says why.
            RetriableError: Not answered, assigned or ended in time.
        """
        with self._called():
            await self._settle(until, timeout_ms)
            deadline = self._cluster.deadline(timeout_ms)
            found = await self._find_positions(deadline, stable=stable, waits=waits)
            fetched: list[tuple[int, FetchResult]] = []
            for place in sorted(self.positions):
                fetched += await self._read(place)
            return Polled(positions=found, fetched=tuple(fetched))

    def seek(self, place: TopicPartition, offset: int) -> None:
        """Read on there at the next poll.

        Raises:
            IllegalUseError: The partition is not assigned to it.
        """
        if place not in self.assigned:
            raise IllegalUseError(f"No current assignment for partition {place}")  # Java's words
        self.positions[place] = offset

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int] | None = None,
        *,
        metadata: GroupMetadata | None = None,
    ) -> None:
        """Write positions outside of a transaction.

        Args:
            offsets: Which; where it reads on unless given.
            metadata: Of the member that commits; by default of this one, as it is now.

        Raises:
            ClientError: Refused, or not answered.
        """
        group = self.options.group_id
        request = offset_commit(
            group,
            self.metadata if metadata is None else metadata,
            self.positions if offsets is None else offsets,
        )
        message = await ask_group_coordinator(self._cluster, group, request)
        errors = [ErrorCode(row.error_code) for topic in message.topics for row in topic.partitions]
        error = next((one for one in errors if one != ErrorCode.none), ErrorCode.none)
        if error != ErrorCode.none:
            raise refused("OffsetCommit", group, error)

    def stand_still(self) -> None:
        """Send no more heartbeats until the next poll, as a process that was stopped or collects
        garbage.
        """
        self._stands_still = True

    async def leave(self) -> None:
        """Go, as a consumer that is closed: the coordinator is told. A static member may come back:
        one of the consumer protocol says so, a classic one says nothing.

        Raises:
            ClientError: Refused, or not answered.
        """
        await self._end_heartbeats()
        self._has_left = True
        await self._joined.leave()
        self.positions.clear()

    async def close(self) -> None:
        """End without a word, as a process that dies; connections stay with the cluster."""
        await self._end_heartbeats()

    # Inside

    @contextlib.contextmanager
    def _called(self) -> Iterator[None]:
        """While a call goes on, the time of ``rebalance_timeout_ms`` stands still."""
        if self._has_left:
            raise IllegalUseError("This consumer has already been closed.")  # Java's words
        self._stands_still, self._polled_ms = False, math.inf
        try:
            yield
        finally:
            self._polled_ms = self._cluster.clock.monotonic_ms()

    async def _settle(
        self, until: frozenset[TopicPartition] | None, timeout_ms: float | None
    ) -> None:
        membership = self._joined
        deadline = self._cluster.deadline(timeout_ms)
        looks = Backoff(self._cluster.clock, initial_ms=LOOK_FIRST_MS, max_ms=HEARTBEAT_MS)
        failures = self._cluster.backoff()
        while True:
            if self._refused is not None:
                refusal, self._refused = self._refused, None
                raise refusal
            try:
                async with self._turn:
                    await membership.beat()
                    await membership.settle()
            except RetriableError:
                if deadline.passed:
                    raise
                await failures.wait(deadline)
                continue
            if until is None or membership.assigned == until:
                return
            if deadline.passed:
                has = ", ".join(map(str, sorted(membership.assigned))) or "nothing"
                raise RetriableError(f"assigned is {has} after {deadline.timeout_ms:.0f} ms")
            await looks.wait(deadline)

    async def _beat(self) -> None:
        membership, clock = self._joined, self._cluster.clock
        while True:
            await pause(clock, HEARTBEAT_MS)
            if self._stands_still:
                continue
            try:
                async with self._turn:
                    if clock.monotonic_ms() - self._polled_ms < self.options.rebalance_timeout_ms:
                        await membership.beat()
                        continue
                    self._polled_ms = math.inf  # until its next poll there is nothing to leave
                    await membership.leave()
            except ClientError as error:
                if not isinstance(error, (RetriableError, *LOST)):
                    self._refused = error

    async def _end_heartbeats(self) -> None:
        beating, self._beating = self._beating, None
        if beating is not None:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def _find_positions(
        self, deadline: Deadline, *, stable: bool, waits: bool
    ) -> dict[TopicPartition, int]:
        new = sorted(self.assigned - self.positions.keys())
        if not new:
            return {}
        backoff = self._cluster.backoff()
        while True:
            try:
                found = await committed_positions(
                    self._cluster, self.options.group_id, new, stable=stable
                )
                break
            except ClientError as error:
                unstable = error.error == ErrorCode.unstable_offset_commit
                if not (unstable and waits) or deadline.passed:
                    raise
            await backoff.wait(deadline)
        for place in new:
            known = found[place]
            offset = await self._earliest(place) if known < 0 else known
            if place in self.assigned:
                self.positions[place] = offset
        return found

    async def _earliest(self, place: TopicPartition) -> int:
        """auto.offset.reset=earliest."""
        return await offset_of(self._cluster, place, EARLIEST)

    async def _read(self, place: TopicPartition) -> list[tuple[int, FetchResult]]:
        results: list[tuple[int, FetchResult]] = []
        while place in self.positions:
            offset = self.positions[place]
            try:
                result = await fetch(
                    self._cluster,
                    place.topic,
                    place.partition,
                    offset,
                    isolation=self.options.isolation,
                    max_wait_ms=NO_WAIT_MS,
                )
            except ClientError as error:
                if error.error != ErrorCode.offset_out_of_range:
                    raise
                earliest = await self._earliest(place)
                if place in self.positions:
                    self.positions[place] = earliest
                continue
            if place not in self.positions:  # given up meanwhile: nobody gets it from this member
                break
            results.append((offset, result))
            self.positions[place] = result.next_offset
            if result.next_offset == offset:
                break
        return results
