"""The share partitions of one broker: loaded, persisted, their locks timed, fenced.

The core (``txnsim.share``) decides the fate of records. This module connects it with the log, the
share coordinator that keeps its state, and the clock. The first fetch creates a share partition; it
is dropped when the broker loses the leadership, the topic is deleted, or the last member leaves its
group.

Kafka's counterparts: SharePartitionCache, and the part of SharePartitionManager that owns it.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from operator import attrgetter
from typing import Final, TypeVar

from txnsim.broker._dead_letters import DeadLetters
from txnsim.broker._led_share_partition import LedShare
from txnsim.broker._share_persister import SharePersister
from txnsim.broker._share_trace import ShareTrace
from txnsim.broker.look_ahead import LookAhead
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.interception import FaultEffect
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.interbroker.share_state import UNKNOWN_OFFSET, ReadShareState, ShareKey, ShareState
from txnsim.metadata.group_configs import (
    RESET_EARLIEST,
    RESET_LATEST,
    share_isolation,
    share_reset,
    share_settings,
)
from txnsim.metadata.image import SHARE_VERSION, ClusterImage
from txnsim.node.broker_fault_points import BrokerFaultPoints, error_in
from txnsim.node.purgatory import Purgatory
from txnsim.releases.rules import Rules
from txnsim.replica.replicas import LeadershipChanges, Replicas
from txnsim.runtime.environment import Clock, Tasks, TimerHandle
from txnsim.runtime.loop_turns import Pace, rest_where_due
from txnsim.runtime.tasks import Pending, ignore_end
from txnsim.runtime.trace import Tracer
from txnsim.settings import Settings
from txnsim.share.commands import (
    AcknowledgementBatch,
    AcquireCommand,
    AcquireResult,
    DeadLetter,
    SharePartitionSettings,
    StateWrite,
)
from txnsim.share.partition import FENCING_ERRORS, Phase, SharePartition
from txnsim.types import IsolationLevel, TopicPartition

T = TypeVar("T")

LOCKS_AT_ONCE: Final = 64
"""Number of share partitions whose locks are checked without a break."""
LOADS_AT_ONCE: Final = 64
"""Number of share partitions that are read from share coordinators at the same time; others
wait.
"""
Watched = ShareKey | TopicPartition
"""What a waiting ShareFetch watches for changes: share partitions and logs."""
Refuse = Callable[[Rejection], object]
"""Called if a share partition can't be loaded."""

_NOT_HERE: Final = Rejection(
    error=ErrorCode.unknown_topic_or_partition,
    reason="This server does not host this topic-partition.",
)


class SharePartitions:
    """The share partitions that one broker leads."""

    def __init__(
        self,
        *,
        clock: Clock,
        tasks: Tasks,
        read_settings: Callable[[], Settings],
        replicas: Replicas,
        persister: SharePersister,
        letters: DeadLetters,
        purgatory: Purgatory[Watched],
        fault_points: BrokerFaultPoints,
        tracer: Tracer,
        node: str,
        release_rules: Rules,
    ) -> None:
        self.trace: Final = ShareTrace(tracer, node, self.isolation_of)
        self._rules = release_rules
        self._clock = clock
        self._tasks = tasks
        self._settings = read_settings
        self._replicas = replicas
        self._persister = persister
        self._letters = letters
        self._purgatory = purgatory
        self._fault_points = fault_points
        self._led: dict[ShareKey, LedShare] = {}
        self._waiting_loads: deque[tuple[LedShare, ReadShareState, Refuse]] = deque()
        self._loading_count = 0
        self._keys_by_group: dict[str, dict[ShareKey, None]] = {}
        self._keys_by_log: dict[TopicPartition, dict[ShareKey, None]] = {}
        self._lock_deadlines: list[tuple[int, int, LedShare]] = []
        self._numbers = count()
        self.meter: Final = letters.meter
        self._timer: TimerHandle | None = None
        self._timed_ms = 0
        self._is_stopped = False

    def __len__(self) -> int:
        return len(self._led)

    def __iter__(self) -> Iterator[LedShare]:
        """A snapshot of the led share partitions."""
        return iter(tuple(self._led.values()))

    def find(self, key: ShareKey) -> SharePartition | None:
        led_share = self._led.get(key)
        return None if led_share is None else led_share.share_partition

    def now_ms(self) -> int:
        """The current time of the clock that times locks."""
        return self._clock.elapsed_ms()

    def settings_of(self, group_id: str) -> SharePartitionSettings:
        image = self._replicas.image
        return share_settings(
            image.group_configs.get(group_id),
            self._settings(),
            level=image.features.get(SHARE_VERSION, 0),
        )

    def isolation_of(self, group_id: str) -> IsolationLevel:
        return share_isolation(self._replicas.image.group_configs.get(group_id))

    def snapshots(self) -> Iterator[dict[str, object]]:
        """The state of each share partition, as the trace shows it."""
        for led_share in self:
            if led_share.share_partition.phase is Phase.ACTIVE:
                yield self.trace.snapshot(led_share)

    # Making and loading

    def begin(
        self, key: ShareKey, topic_partition: TopicPartition, refuse: Refuse
    ) -> LedShare | Rejection:
        """Find the share partition, or create it and start loading it.

        Args:
            key: Group, topic and partition.
            topic_partition: The log partition of its records.
            refuse: Called if it can't be loaded.
        """
        led_share = self._led.get(key)
        if led_share is None:
            log = self._replicas.leader_log(topic_partition)
            if isinstance(log, Rejection):
                return log
            meter = self.meter.meter_of(key.group_id)
            share_partition = SharePartition(
                key,
                topic_partition.topic,
                log.leader_epoch,
                on_batch_added=meter.batch_records.observe,
                release_rules=self._rules,
            )
            led_share = LedShare(share_partition, topic_partition, meter, self._clock.elapsed_ms())
            self._led[key] = led_share
            self._keys_by_group.setdefault(key.group_id, {})[key] = None
            self._keys_by_log.setdefault(topic_partition, {})[key] = None
        state_request = led_share.share_partition.start_loading()
        if isinstance(state_request, ReadShareState):
            self._waiting_loads.append((led_share, state_request, refuse))
            self._load_more()
        elif (
            isinstance(state_request, Rejection)
            and state_request.error is not ErrorCode.leader_not_available
        ):
            self._forget_share_partition(led_share)
            return state_request
        return led_share

    def _load_more(self) -> None:
        while self._waiting_loads and self._loading_count < LOADS_AT_ONCE:
            self._loading_count += 1
            led_share, state_request, refuse = self._waiting_loads.popleft()
            self._tasks.drive(
                self._load(led_share, state_request, refuse),
                self._on_loaded,
                name=f"load {led_share.share_partition.name}",
            )

    def _on_loaded(self, result: object, error: BaseException | None) -> None:
        self._loading_count -= 1
        ignore_end(result, error)
        self._tasks.run_soon(self._load_more)

    async def _load(
        self, led_share: LedShare, state_request: ReadShareState, refuse: Refuse
    ) -> None:
        error = 0
        if self._fault_points.is_armed:
            subject = Subject(partitions=(led_share.topic_partition,))
            error = error_in(
                await self._fault_points.verdict(FaultPoint.SHARE_PERSIST, subject, kind="read")
            )
        if error:
            share_state = ShareState(key=led_share.share_partition.key, error=error)
        else:
            (pending_state,) = self._persister.read((state_request,))
            share_state = await pending_state
        reset_offset: int | Rejection = UNKNOWN_OFFSET
        if not share_state.error and share_state.start_offset == UNKNOWN_OFFSET:
            reset_offset = await self._reset_offset(led_share)
        share_partition = led_share.share_partition
        self.meter.load_ms.observe(self._clock.elapsed_ms() - led_share.made_ms)
        if share_partition.phase is not Phase.INITIALIZING:  # it was fenced meanwhile
            return
        if isinstance(reset_offset, Rejection):
            load_outcome: Rejection | tuple[DeadLetter, ...] = share_partition.fail_loading(
                reset_offset
            )
        else:
            load_outcome = share_partition.load(
                share_state, reset_offset, self.settings_of(share_partition.key.group_id)
            )
        self.trace.trace_load(
            led_share, load_outcome if isinstance(load_outcome, Rejection) else None
        )
        if isinstance(load_outcome, Rejection):
            refuse(load_outcome)
            self._forget_share_partition(led_share)
            return
        self._archive(led_share, load_outcome)
        self._purgatory.touch(share_partition.key)

    async def _reset_offset(self, led_share: LedShare) -> int | Rejection:
        """The offset at which a group without a start offset begins
        (startOffsetDuringInitialization).
        """
        share_partition = led_share.share_partition
        log = self._replicas.leader_log(
            led_share.topic_partition, current_leader_epoch=share_partition.leader_epoch
        )
        if isinstance(log, Rejection):
            return log
        target_timestamp = share_reset(
            self._replicas.image.group_configs.get(share_partition.key.group_id),
            self._clock.now_ms(),
        )
        if target_timestamp == RESET_EARLIEST:
            return log.log_start_offset
        if target_timestamp == RESET_LATEST:
            if log.leader_epoch_start_offset > log.high_watermark:  # KIP-207
                return _offset_not_available("latest timestamp", led_share)
            return log.high_watermark
        look_ahead = LookAhead(self._tasks)
        try:
            found_offset = await look_ahead.run_steps(
                log.offset_for_timestamp(target_timestamp, IsolationLevel.READ_UNCOMMITTED)
            )
        finally:
            look_ahead.leave()
        return (
            _offset_not_available(f"timestamp {target_timestamp}", led_share)
            if found_offset is None
            else found_offset.offset
        )

    # What moves records

    def acknowledge(
        self, key: ShareKey, member_id: str, batches: Sequence[AcknowledgementBatch]
    ) -> Pending[Rejection | None]:
        """Apply a member's acknowledgements; the outcome is done once they are persisted."""
        led_share = self._led.get(key)
        if led_share is None:
            return self._resolved_answer(_NOT_HERE)
        now_ms = self._clock.elapsed_ms()
        write = led_share.share_partition.acknowledge(
            member_id, batches, self.settings_of(key.group_id), now_ms
        )
        pending_outcome = (
            self._persist(led_share, write)
            if isinstance(write, StateWrite)
            else self._resolved_answer(write)
        )
        self._time_locks(led_share)
        self._purgatory.touch(key)
        pending_outcome.on_done(partial(self._on_acknowledged, led_share, member_id, batches))
        return pending_outcome

    def _on_acknowledged(
        self,
        led_share: LedShare,
        member_id: str,
        batches: Sequence[AcknowledgementBatch],
        pending_refusal: Pending[Rejection | None],
    ) -> None:
        rejection = pending_refusal.result()
        if rejection is None:
            self.meter.count_acknowledged(batches)
        self.trace.trace_acknowledgement(led_share, member_id, batches, rejection)

    def release(self, member_id: str, key: ShareKey) -> None:
        """Release the records that a member holds in a share partition, because its session has
        ended.
        """
        led_share = self._led.get(key)
        if led_share is None:
            return
        write = led_share.share_partition.release(member_id, self.settings_of(key.group_id))
        if write is not None:
            self.trace.trace_release(
                led_share, write.state.batches, reason="session", member=member_id
            )
            self._persist(led_share, write)
        self._purgatory.touch(key)

    def acquire(self, led_share: LedShare, command: AcquireCommand) -> AcquireResult | Rejection:
        """Acquire records that were read for a member."""
        settings = self.settings_of(led_share.share_partition.key.group_id)
        share_partition = led_share.share_partition
        state_before = share_partition.end_offset, share_partition.delivery_complete_count
        acquisition_outcome = share_partition.acquire(command, settings, self._clock.elapsed_ms())
        self._time_locks(led_share)
        if isinstance(acquisition_outcome, AcquireResult):
            has_state_changed = state_before != (
                share_partition.end_offset,
                share_partition.delivery_complete_count,
            )
            if acquisition_outcome.ranges or has_state_changed:  # aborted records have no owner
                self.trace.trace_acquisition(
                    led_share, command.member_id, acquisition_outcome.ranges
                )
        return acquisition_outcome

    def _resolved_answer(self, rejection: Rejection | None) -> Pending[Rejection | None]:
        pending_outcome: Pending[Rejection | None] = Pending(self._tasks)
        pending_outcome.resolve(rejection)
        return pending_outcome

    # Persisting

    def _persist(self, led_share: LedShare, write: StateWrite) -> Pending[Rejection | None]:
        """Write a state change to the share coordinator. The outcome is None, or the error for
        which the change was rolled back.
        """
        pending_refusal: Pending[Rejection | None] = Pending(self._tasks)

        def write_unless_faulty(fault_effect: FaultEffect | None) -> None:
            error = error_in(fault_effect)
            if error:
                self._conclude(led_share, write, pending_refusal, error, None)
                return
            (pending_answer,) = self._persister.write((write.state,))
            pending_answer.on_done(
                lambda write_answer: self._conclude(
                    led_share,
                    write,
                    pending_refusal,
                    write_answer.result().error,
                    write_answer.result().message,
                )
            )

        self._fault_points.go_on(
            write_unless_faulty,
            FaultPoint.SHARE_PERSIST,
            Subject(partitions=(led_share.topic_partition,)),
            kind="write",
        )
        return pending_refusal

    def _conclude(
        self,
        led_share: LedShare,
        write: StateWrite,
        pending_refusal: Pending[Rejection | None],
        error: int,
        message: str | None,
    ) -> None:
        share_partition = led_share.share_partition
        conclusion = share_partition.conclude(write.token, error, message, self._clock.elapsed_ms())
        self.trace.trace_persisting(led_share, write.state.batches, conclusion.rejection)
        self._archive(led_share, conclusion.dead_letters)
        if conclusion.rejection is not None and conclusion.rejection.error in FENCING_ERRORS:
            self._forget_share_partition(led_share)
        elif conclusion.wakes_fetches:
            self._purgatory.touch(share_partition.key)
        pending_refusal.resolve(conclusion.rejection)

    def _archive(self, led_share: LedShare, letters: Iterable[DeadLetter]) -> None:
        ordered_letters = sorted(letters, key=attrgetter("first_offset"))
        if ordered_letters:
            task_name = f"dead letters of {led_share.share_partition.name}"
            self._tasks.drive(
                self._send_letters(led_share, ordered_letters), ignore_end, name=task_name
            )

    async def _send_letters(self, led_share: LedShare, letters: Sequence[DeadLetter]) -> None:
        pace = Pace(self._tasks.turns, self._clock.stopwatch_ns)
        group_id = led_share.share_partition.key.group_id
        archive_letter = partial(self._archive_letter, led_share)
        if self._letters.can_send(group_id):
            await self._letters.send(
                group_id, led_share.topic_partition, letters, archive_letter, pace
            )
            return
        for letter in letters:
            archive_letter(letter)
            await rest_where_due(pace, 4)

    def _archive_letter(self, led_share: LedShare, letter: DeadLetter) -> None:
        self._persist(led_share, led_share.share_partition.archive_dead_letter(letter.token))

    # Locks: one timer for the share partition whose next one is due first

    def _time_locks(self, led_share: LedShare) -> None:
        due_ms = led_share.share_partition.next_lock_deadline_ms()
        if due_ms is None or (led_share.due_ms is not None and led_share.due_ms <= due_ms):
            return
        led_share.due_ms = due_ms
        heapq.heappush(self._lock_deadlines, (due_ms, next(self._numbers), led_share))
        self._arm_lock_timer()

    def _arm_lock_timer(self) -> None:
        """Set the timer to the earliest acquisition lock."""
        if not self._lock_deadlines or self._is_stopped:
            return
        due_ms = self._lock_deadlines[0][0]
        if self._timer is not None:
            if self._timed_ms <= due_ms:
                return
            self._timer.cancel()
        self._timed_ms = due_ms
        left_ms = max(due_ms - self._clock.elapsed_ms(), 0)
        self._timer = self._clock.call_at(self._clock.now_ms() + left_ms, self._expire_locks)

    def _expire_locks(self) -> None:
        self._timer = None
        now_ms = self._clock.elapsed_ms()
        for _ in range(LOCKS_AT_ONCE):
            if not self._lock_deadlines or self._lock_deadlines[0][0] > now_ms:
                break
            due_ms, _, led_share = heapq.heappop(self._lock_deadlines)
            if led_share.due_ms != due_ms:
                continue  # it was looked at earlier
            led_share.due_ms = None
            key = led_share.share_partition.key
            if self._led.get(key) is not led_share:
                continue
            settings = self.settings_of(key.group_id)
            write = led_share.share_partition.expire_locks(now_ms, settings)
            if write is not None:
                led_share.lock_timeout_count += sum(
                    batch.last_offset - batch.first_offset + 1 for batch in write.state.batches
                )
                old_cause = self.trace.trace_lock_timeout(settings.record_lock_duration_ms)
                self.trace.trace_release(led_share, write.state.batches, reason="locks")
                self._persist(led_share, write)
                self._purgatory.touch(key)
                self.trace.set_cause(old_cause)
            self._time_locks(led_share)
        self._arm_lock_timer()

    # The end

    def apply(self, leadership_changes: LeadershipChanges, image: ClusterImage) -> None:
        """Drop share partitions that other brokers lead now, that are deleted, or all if
        ``share.version`` was switched off.
        """
        if not self._led:
            return
        if not image.features.get(SHARE_VERSION, 0):
            self._forget_all(tuple(self._led))
            return
        self.forget_partitions(
            topic_partition for topic_partition, _ in leadership_changes.lost_partitions
        )
        self.forget_partitions(leadership_changes.deleted_partitions)

    def forget_partitions(self, topic_partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in topic_partitions:
            self._forget_all(tuple(self._keys_by_log.get(topic_partition, ())))

    def forget_group(
        self, group_id: str, is_empty: Callable[[str], bool]
    ) -> Generator[int, None, None]:
        """Drop the share partitions of a group as long as the group is empty, that is no member has
        a session here. Yield after each.
        """
        for key in tuple(self._keys_by_group.get(group_id, ())):
            if not is_empty(group_id):
                return
            led_share = self._led.get(key)
            if led_share is not None:
                self._forget_share_partition(led_share)
            yield 1

    def stop(self) -> None:
        self._is_stopped = True
        self._letters.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting_loads.clear()

    def _forget_all(self, keys: Iterable[ShareKey]) -> None:
        for key in keys:
            self._forget_share_partition(self._led[key])

    def _forget_share_partition(self, led_share: LedShare) -> None:
        """Fence a share partition and drop it from the cache; the next fetch creates another."""
        key = led_share.share_partition.key
        led_share.share_partition.fence()
        if self._led.get(key) is not led_share:
            return
        del self._led[key]
        self.trace.trace_unload(led_share)
        _drop_key(self._keys_by_group, key.group_id, key)
        if key.group_id not in self._keys_by_group:
            self.meter.groups.pop(key.group_id, None)
        _drop_key(self._keys_by_log, led_share.topic_partition, key)
        self._purgatory.touch(key)


def _drop_key(keys_by_owner: dict[T, dict[ShareKey, None]], owner: T, key: ShareKey) -> None:
    del keys_by_owner[owner][key]
    if not keys_by_owner[owner]:
        del keys_by_owner[owner]


def _offset_not_available(offset_name: str, led_share: LedShare) -> Rejection:
    return Rejection(
        error=ErrorCode.offset_not_available,
        reason=(
            f"Offset for {offset_name} not found for topic partition: {led_share.topic_partition}"
        ),
    )
