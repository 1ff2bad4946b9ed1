"""ShareFetch and ShareAcknowledge at a leader: sessions, waiting, reading, acquiring (KIP-932).

A fetch reads a share partition only while it holds the fetch lock, so that no two fetches acquire
the same record. It waits while nothing or too few bytes can be acquired, and checks again when the
log grows or the share partition changes. The answer has the records that were read and acquired.

Kafka's counterparts: SharePartitionManager, DelayedShareFetch, ShareFetchUtils.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from txnsim.broker._led_share_partition import LedShare
from txnsim.broker._share_partitions import SharePartitions, Watched
from txnsim.broker.fetch import FetchCommand, FetchPath
from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.share_state import ShareKey
from txnsim.metadata.image import SHARE_VERSION, ClusterImage
from txnsim.node.purgatory import Purgatory
from txnsim.replica.fetch_values import FetchOutcome, FetchPartition
from txnsim.replica.replicas import LeadershipChanges, Replicas
from txnsim.runtime.loop_turns import LOOK_ELEMENTS, Pace, rest_where_due
from txnsim.runtime.tasks import Pending, ignore_end
from txnsim.settings import Settings
from txnsim.share.commands import (
    AbortedRange,
    AcknowledgementBatch,
    AcquireCommand,
    AcquiredRange,
    AcquireMode,
    ReadBatch,
)
from txnsim.share.fetching import batches_of_answer, max_bytes_each, rotate_partitions
from txnsim.share.partition import FENCING_ERRORS
from txnsim.share.sessions import SessionKey, SharedPartition, ShareSessions
from txnsim.types import TopicPartition
from txnsim.wire.batch import ABORT, iter_batches, read_control_record


class ShareFetchCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A ShareFetch request without its version."""

    member: SessionKey
    session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    mode: AcquireMode
    partitions: Mapping[SharedPartition, TopicPartition]
    """Partitions of the share session, with their topic names."""


class ShareFetchAnswer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer for one partition."""

    error: ErrorCode = ErrorCode.none
    ranges: tuple[AcquiredRange, ...] = ()
    records: tuple[bytes, ...] = ()
    size: int = 0


Outcomes = dict[SharedPartition, ShareFetchAnswer]
_EMPTY_ANSWER: Final = ShareFetchAnswer()
ELEMENTS_PER_ACQUISITION: Final = 2
"""Weight of an acquisition in one share partition."""
ELEMENTS_PER_BATCH: Final = 4
"""Weight of reading a batch."""
UNPACED_BATCHES: Final = 64
"""Number of batches that are read without a break."""


class ShareFetchPath:
    """Serves the members of share groups on one broker."""

    def __init__(
        self,
        *,
        read_settings: Callable[[], Settings],
        replicas: Replicas,
        fetch_path: FetchPath,
        purgatory: Purgatory[Watched],
        shares: SharePartitions,
        draw: Callable[[int], int],
    ) -> None:
        """Begin without members.

        Args:
            read_settings: Returns the broker's current settings.
            replicas: The logs that the broker hosts.
            fetch_path: Reads the logs.
            purgatory: Where fetches wait.
            shares: The share partitions that the broker leads.
            draw: Draws a random number below a given one.
        """
        self.settings = read_settings
        self.replicas = replicas
        self.fetching = fetch_path
        self.purgatory = purgatory
        self.shares = shares
        self.draw = draw
        self.sessions: Final = ShareSessions()
        self._closed_connections: deque[Hashable] = deque()
        """Closed connections; the members of the first one are being removed."""
        self._leaving: dict[SessionKey, deque[ShareKey]] = {}
        """Members that have left, with the share partitions whose acquired records are still to be
        released.
        """

    # Requests

    async def fetch(self, command: ShareFetchCommand, pace: Pace | None = None) -> Outcomes:
        """Read and acquire records; wait up to ``max_wait_ms`` for ``min_bytes``, in slices if
        given a pace. Partitions without acquired records are not in the answer.
        """
        if not command.max_records or not command.max_bytes:
            return {}
        fetch = _ShareFetch(self, command)
        for shared_partition in rotate_partitions(tuple(command.partitions), command.session_epoch):
            fetch.begin(shared_partition)
            if pace is not None and pace.has_done(1):
                await pace.yield_turn()
        if not fetch.shares:
            return fetch.refused
        try:
            await fetch.wait(pace)
            return {**await fetch.complete(pace), **fetch.refused}
        finally:
            fetch.release_locks()

    def acknowledge(
        self,
        member: SessionKey,
        shared_partition: SharedPartition,
        batches: Sequence[AcknowledgementBatch],
    ) -> Pending[Rejection | None]:
        """Acknowledge records of a partition; the outcome is None once the share coordinator has
        persisted it.
        """
        return self.shares.acknowledge(_key(member, shared_partition), member.member_id, batches)

    async def refuse_after_wait(self, error: ErrorCode, max_wait_ms: int) -> ErrorCode:
        """Return the error after ``max_wait_ms``, because a member repeats a refused fetch at
        once.
        """
        unused_key = ShareKey("", "", -1)
        if max_wait_ms > 0:
            await self.purgatory.wait((unused_key,), timeout_ms=max_wait_ms, check=lambda _: False)
        return error

    # The end of sessions

    def end(self, member: SessionKey) -> None:
        """End a member's session and release its acquired records."""
        partitions = self.sessions.end(member)
        if not isinstance(partitions, Rejection):
            release_coroutine = self._release_records(member, partitions, self.purgatory.pace())
            self.purgatory.tasks.drive(release_coroutine, ignore_end, name="share.ended")

    def begin_session(self, member: SessionKey) -> None:
        """Start a member's session; first release what it acquired in an earlier one."""
        unreleased_keys = self._leaving.pop(member, deque())
        while unreleased_keys:
            self.shares.release(member.member_id, unreleased_keys.popleft())

    def forget_connection(self, connection: Hashable) -> None:
        """Remove the members of a closed connection. Hundreds may close at once: the first one's
        members leave now, those of the others in slices.
        """
        self._closed_connections.append(connection)
        if len(self._closed_connections) == 1:
            removal_coroutine = self._remove_members(self.purgatory.pace())
            self.purgatory.tasks.drive(removal_coroutine, ignore_end, name="share.disconnected")

    async def _remove_members(self, pace: Pace) -> None:
        try:
            while self._closed_connections:
                departure = self.sessions.disconnect(self._closed_connections[0])
                if departure.member is not None:
                    await self._release_records(departure.member, departure.partitions, pace)
                if departure.empty_group is not None:
                    forget_steps = self.shares.forget_group(
                        departure.empty_group, self.sessions.is_empty
                    )
                    await pace.run(forget_steps)
                if not pace.has_rested or pace.has_done(LOOK_ELEMENTS):
                    await pace.yield_turn()
                self._closed_connections.popleft()
        finally:
            self._closed_connections.clear()

    def apply(self, leadership_changes: LeadershipChanges, image: ClusterImage) -> None:
        self.shares.apply(leadership_changes, image)
        if len(self.sessions) and not image.features.get(SHARE_VERSION, 0):
            self.sessions.clear()

    def stop(self) -> None:
        self.shares.stop()

    async def _release_records(
        self, member: SessionKey, partitions: Iterable[SharedPartition], pace: Pace
    ) -> None:
        unreleased_keys = self._leaving[member] = deque(
            _key(member, shared_partition) for shared_partition in partitions
        )
        while unreleased_keys:
            self.shares.release(member.member_id, unreleased_keys.popleft())
            await rest_where_due(pace, 1)
        if self._leaving.get(member) is unreleased_keys:
            del self._leaving[member]


def _key(member: SessionKey, shared_partition: SharedPartition) -> ShareKey:
    return ShareKey(member.group_id, shared_partition.topic_id, shared_partition.partition)


class _ShareFetch:
    """One ShareFetch while it waits and reads."""

    def __init__(self, owner: ShareFetchPath, command: ShareFetchCommand) -> None:
        self._share_fetching = owner
        self._command = command
        self._isolation = owner.shares.isolation_of(command.member.group_id)
        self._max_bytes = min(command.max_bytes, owner.settings().fetch_max_bytes)
        self._min_bytes = min(command.min_bytes, self._max_bytes)
        self.shares: dict[SharedPartition, LedShare] = {}
        self.refused: Outcomes = {}
        self._shares_by_key: dict[Watched, list[LedShare]] = {}
        self._acquirable_bytes: dict[ShareKey, int] = {}
        """Readable bytes of each share partition with acquirable records, at the last check."""
        self._total_bytes = 0
        self._begun_ms = owner.shares.now_ms()
        self._is_wrong = False
        self._locked_shares: dict[ShareKey, LedShare] = {}
        """Share partitions whose fetch lock this fetch holds."""

    def begin(self, shared_partition: SharedPartition) -> None:
        """Find a share partition, or have it created and loaded."""
        command = self._command
        key, topic_partition = (
            _key(command.member, shared_partition),
            command.partitions[shared_partition],
        )
        led_share = self._share_fetching.shares.begin(
            key, topic_partition, partial(self._refuse_partition, shared_partition)
        )
        if isinstance(led_share, Rejection):
            self._refuse_partition(shared_partition, led_share)
            return
        self.shares[shared_partition] = led_share
        for watched_key in (key, topic_partition):
            self._shares_by_key.setdefault(watched_key, []).append(led_share)

    def _refuse_partition(self, shared_partition: SharedPartition, rejection: Rejection) -> None:
        self.refused[shared_partition] = ShareFetchAnswer(error=rejection.error)

    # Waiting

    async def wait(self, pace: Pace | None) -> None:
        """Wait for ``min_bytes`` of acquirable records, at most ``max_wait_ms``."""
        if self._command.max_wait_ms <= 0:
            return
        await self._share_fetching.purgatory.wait(
            self._shares_by_key,
            timeout_ms=self._command.max_wait_ms,
            check=self._completes_after_change,
            prepare=partial(self._measure_shares, pace),
        )

    async def _measure_shares(self, pace: Pace | None) -> bool:
        for led_share in self.shares.values():
            self._measure(led_share)
            if pace is not None and pace.has_done(1):
                await pace.yield_turn()
        return self._is_enough

    def _completes_after_change(self, key: Watched) -> bool:
        """Whether the fetch completes after a change of a log or share partition. If so, it keeps
        the fetch locks of the share partitions that have something to acquire now, and takes no
        more before it reads (partitionsAcquired).
        """
        changed_shares = self._shares_by_key[key]
        for led_share in changed_shares:
            self._measure(led_share)
        if not self._is_enough:
            return False
        for led_share in changed_shares:
            self._lock(led_share)
        for acquirable_key in self._acquirable_bytes:
            self._lock(self._shares_by_key[acquirable_key][0])
        return True

    @property
    def _is_enough(self) -> bool:
        return self._is_wrong or (
            bool(self._acquirable_bytes) and self._total_bytes >= self._min_bytes
        )

    def _measure(self, led_share: LedShare) -> None:
        """Measure what could be acquired from a share partition (DelayedShareFetch.tryComplete)."""
        key = led_share.share_partition.key
        self._total_bytes -= self._acquirable_bytes.pop(key, 0)
        if not self._lock(led_share):
            return
        available_bytes = self._available_bytes(led_share)
        self._unlock(led_share)
        if available_bytes is None:
            self._is_wrong = True
        else:
            self._acquirable_bytes[key] = available_bytes
            self._total_bytes += available_bytes

    def _available_bytes(self, led_share: LedShare) -> int | None:
        """Bytes that could be read; None if a read fails or is beyond the end."""
        log = self._share_fetching.replicas.leader_log(led_share.topic_partition)
        if isinstance(log, Rejection):
            return None
        offset = led_share.share_partition.next_fetch_offset()
        if not log.log_start_offset <= offset <= log.latest_offset(self._isolation):
            return None
        return min(log.readable_bytes(offset, self._isolation), self._max_bytes)

    # Locks

    def _lock(self, led_share: LedShare) -> bool:
        """Take the fetch lock if something can be acquired."""
        key = led_share.share_partition.key
        if key in self._locked_shares:
            return True
        if not led_share.take_fetch_lock(self, self._share_fetching.shares.now_ms()):
            return False
        self._locked_shares[key] = led_share
        if led_share.share_partition.can_acquire(
            self._share_fetching.shares.settings_of(key.group_id)
        ):
            return True
        self._unlock(led_share)
        return False

    def _unlock(self, led_share: LedShare) -> None:
        del self._locked_shares[led_share.share_partition.key]
        led_share.release_fetch_lock(self, self._share_fetching.shares.now_ms())

    def release_locks(self) -> None:
        for led_share in tuple(self._locked_shares.values()):
            self._unlock(led_share)

    async def _release_in_slices(self, pace: Pace | None) -> None:
        for led_share in tuple(self._locked_shares.values()):
            self._unlock(led_share)
            await rest_where_due(pace, 1)

    # Reading and acquiring

    async def complete(self, pace: Pace | None) -> Outcomes:
        """Read and acquire what can be acquired."""
        fetch_offsets: dict[SharedPartition, int] = {}
        is_limited_to_locked = bool(self._locked_shares)
        for partition, led_share in self.shares.items():
            if partition in self.refused or (
                is_limited_to_locked and led_share.share_partition.key not in self._locked_shares
            ):
                pass
            elif self._lock(led_share):
                fetch_offsets[partition] = led_share.share_partition.next_fetch_offset()
            if pace is not None and pace.has_done(1):
                await pace.yield_turn()
        shares = self._share_fetching.shares
        meter = shares.meter.meter_of(self._command.member.group_id)
        meter.fetch_ratio.observe(100 * len(fetch_offsets) // len(self._command.partitions))
        if not fetch_offsets:
            return {}
        meter.acquire_ms.observe(shares.now_ms() - self._begun_ms)
        if self._max_bytes < 0:
            return {
                shared_partition: ShareFetchAnswer(error=ErrorCode.unknown_server_error)
                for shared_partition in fetch_offsets
            }
        fetch_outcomes = await self._fetch_records(fetch_offsets, pace)
        answer_by_partition, keys_with_data = await self._acquire(
            fetch_offsets, fetch_outcomes, pace
        )
        await self._release_in_slices(pace)
        for key in keys_with_data:
            self._share_fetching.purgatory.touch(key)
        return answer_by_partition

    async def _fetch_records(
        self, fetch_offsets: Mapping[SharedPartition, int], pace: Pace | None
    ) -> Sequence[FetchOutcome]:
        partition_count = len(fetch_offsets)
        chosen_index = self._share_fetching.draw(partition_count) if partition_count > 1 else 0
        byte_limits = max_bytes_each(
            self._max_bytes, partition_count, partition_count, chosen_index=chosen_index
        )
        return await self._share_fetching.fetching.fetch(
            FetchCommand(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=self._max_bytes,
                isolation=self._isolation,
                partitions=tuple(
                    FetchPartition(
                        topic_partition=self.shares[shared_partition].topic_partition,
                        fetch_offset=offset,
                        max_bytes=byte_limit,
                    )
                    for (shared_partition, offset), byte_limit in zip(
                        fetch_offsets.items(), byte_limits, strict=True
                    )
                ),
                reads_leader_only=True,
            ),
            pace,
        )

    async def _acquire(
        self,
        fetch_offsets: Mapping[SharedPartition, int],
        fetch_outcomes: Sequence[FetchOutcome],
        pace: Pace | None,
    ) -> tuple[Outcomes, list[ShareKey]]:
        """Acquire the records that were read. Return the outcomes, and the share partitions that
        had something (ShareFetchUtils.processFetchResponse).
        """
        answer_by_partition: Outcomes = {}
        keys_with_data = [
            self.shares[partition].share_partition.key
            for partition, fetch_outcome in zip(fetch_offsets, fetch_outcomes, strict=True)
            if fetch_outcome.size_bytes
        ]
        records_left = self._command.max_records
        for (partition, offset), fetch_outcome in zip(
            fetch_offsets.items(), fetch_outcomes, strict=True
        ):
            await rest_where_due(pace, ELEMENTS_PER_ACQUISITION)
            led_share = self.shares[partition]
            if fetch_outcome.error is ErrorCode.offset_out_of_range:
                answer_by_partition[partition] = self._answer_below_log_start(led_share)
                continue
            if fetch_outcome.error:
                answer_by_partition[partition] = ShareFetchAnswer(error=fetch_outcome.error)
                continue
            batches = await self._batches(led_share, offset, fetch_outcome, pace)
            command = self._acquisition(batches, offset, records_left, fetch_outcome)
            acquisition_outcome = self._share_fetching.shares.acquire(led_share, command)
            if isinstance(
                acquisition_outcome, Rejection
            ):  # an exception in Kafka, which ends it for all
                return {
                    shared_partition: ShareFetchAnswer(error=acquisition_outcome.error)
                    for shared_partition in fetch_offsets
                }, keys_with_data
            records_left -= acquisition_outcome.count
            answer_by_partition[partition] = _share_outcome(
                acquisition_outcome.ranges, batches, fetch_outcome
            )
        return answer_by_partition, keys_with_data

    async def _batches(
        self, led_share: LedShare, offset: int, fetch_outcome: FetchOutcome, pace: Pace | None
    ) -> tuple[ReadBatch, ...]:
        """The first batches that were read, as many as an acquisition needs; there may be hundreds
        of thousands.
        """
        settings = self._share_fetching.shares.settings_of(led_share.share_partition.key.group_id)
        if pace is None and len(fetch_outcome.records) > UNPACED_BATCHES:
            pace = self._share_fetching.purgatory.pace()
        batches: list[ReadBatch] = []
        needed_offset = offset
        for batch in _read_batches(fetch_outcome.records):
            if not batches:
                needed_offset = led_share.share_partition.acquisition_end(
                    max(offset, batch.base_offset), settings
                )
            batches.append(batch)
            if batch.last_offset >= needed_offset and len(batches) > 1:
                break
            if pace is not None and pace.has_done(ELEMENTS_PER_BATCH):
                await pace.yield_turn()
        return tuple(batches)

    def _acquisition(
        self,
        batches: tuple[ReadBatch, ...],
        offset: int,
        records_left: int,
        fetch_outcome: FetchOutcome,
    ) -> AcquireCommand:
        command = self._command
        return AcquireCommand(
            member_id=command.member.member_id,
            mode=command.mode,
            batch_size=command.batch_size,
            max_records=records_left,
            fetch_offset=offset,
            batches=batches,
            aborted=tuple(
                AbortedRange(aborted_txn.producer_id, aborted_txn.first_offset)
                for aborted_txn in fetch_outcome.aborted_txns
            )
            if fetch_outcome.aborted_txns
            else (),
        )

    def _answer_below_log_start(self, led_share: LedShare) -> ShareFetchAnswer:
        """The answer for a read below the log start: the share partition drops the deleted
        records.
        """
        log = self._share_fetching.replicas.leader_log(
            led_share.topic_partition, current_leader_epoch=led_share.share_partition.leader_epoch
        )
        if isinstance(log, Rejection):
            if log.error in FENCING_ERRORS:
                self._share_fetching.shares.forget_partitions((led_share.topic_partition,))
            return ShareFetchAnswer(error=log.error)
        led_share.share_partition.move_log_start(log.log_start_offset)
        self._share_fetching.shares.trace.trace_log_start(led_share)
        return _EMPTY_ANSWER


def _read_batches(records: Iterable[bytes]) -> Iterator[ReadBatch]:
    """The complete batches of a read; an incomplete one may follow them."""
    for batch_bytes in records:
        for _, batch in iter_batches(batch_bytes):
            marker = read_control_record(batch_bytes) if batch.is_control else None
            yield ReadBatch(
                base_offset=batch.base_offset,
                last_offset=batch.last_offset,
                size=batch.size,
                producer_id=batch.producer_id,
                is_transactional=batch.is_transactional,
                is_abort_marker=marker is not None and marker.type == ABORT,
            )


def _share_outcome(
    ranges: tuple[AcquiredRange, ...], batches: Sequence[ReadBatch], fetch_outcome: FetchOutcome
) -> ShareFetchAnswer:
    """The acquired ranges, and the batches that contain them (maybeSliceFetchRecords)."""
    if not ranges:
        return _EMPTY_ANSWER
    if len(batches) == 1:
        return ShareFetchAnswer(
            ranges=ranges, records=fetch_outcome.records, size=fetch_outcome.size_bytes
        )
    needed_batches = batches_of_answer(batches, ranges)
    size = sum(batch.size for batch in batches[needed_batches])
    return ShareFetchAnswer(ranges=ranges, records=fetch_outcome.records[needed_batches], size=size)
