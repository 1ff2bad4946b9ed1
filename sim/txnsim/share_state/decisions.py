"""What the share coordinator answers about one share partition, and the records that it writes.

A request names epochs. The state epoch is the group coordinator's: it grows when offsets are
altered. The leader epoch is that of the partition's leader. A request with an older epoch than the
coordinator has seen is fenced. The error texts are Kafka's.

Counterpart in Kafka: ShareCoordinatorShard.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.share_state import (
    UNKNOWN_OFFSET,
    DeleteShareState,
    InitializeShareState,
    ReadShareState,
    ShareKey,
    ShareState,
    ShareStateError,
    ShareStateSummary,
    StateBatch,
    WriteShareState,
)
from txnsim.share_state._combining import BackwardsBatchError, combine_in_steps
from txnsim.share_state.records import ShareDeleted, ShareRecord, ShareSnapshot, ShareUpdate
from txnsim.share_state.shard import ShareStateShard
from txnsim.types import Decision
from txnsim.wire.codec import run_to_end

NO_EPOCH: Final = -1
"""An epoch that is not given. Up to 4.3 it is never fenced."""
BATCHES_MAX: Final = 20_000
"""Most batches of one write: twice what a leader may have in flight."""
_BATCHES_PER_CHECK: Final = 1_000
"""Number of batches that are checked between two breaks."""

DEVIATIONS: Final = (
    "The share coordinator refuses a WriteShareGroupState with more than 20,000 batches of a "
    "partition like a record that is too large (UNKNOWN_SERVER_ERROR), also where it is small.",
    "Up to 4.3 a batch of WriteShareGroupState that ends before it begins is kept beside others; "
    "here it is UNKNOWN_SERVER_ERROR in all releases, as in 4.4.",
)

ShareDecision = Decision[ShareRecord, ShareStateError | ShareState | ShareStateSummary, None]
CountPartitions = Callable[[str], int]
"""Topic id -> number of the topic's partitions; 0 if there is no such topic."""

_REASONS: Final = {
    ErrorCode.fenced_leader_epoch: (
        "The leader epoch in the request is older than the epoch on the broker."
    ),
    ErrorCode.fenced_state_epoch: (
        "The coordinator rejected the request because the state epoch did not match."
    ),
    ErrorCode.unknown_topic_or_partition: "This server does not host this topic-partition.",
    ErrorCode.unknown_server_error: (
        "Unable to write share group state: The request included a message larger than the max "
        "message size the server will accept."
    ),
}
_FENCED_REASON_BEFORE_4_4: Final = (
    "The share coordinator rejected the request because the share-group state epoch did not match."
)
_COMBINER_FAILURE_REASON: Final = (
    'Unable to write share group state: Cannot invoke "java.lang.Integer.intValue()" because the '
    'return value of "java.util.TreeMap.get(Object)" is null'
)
"""Text of Kafka's error when PersisterStateBatchCombiner fails on a batch that ends before it
begins.
"""


class ShareStateDecisions(msgspec.Struct, frozen=True, kw_only=True):
    """Decides about commands on one shard at one point in time."""

    shard: ShareStateShard
    count_partitions: CountPartitions
    now_ms: int

    def initialize(self, command: InitializeShareState) -> ShareDecision | Rejection:
        """Create or replace the state; only the snapshot epoch of an old state is continued."""
        key, state_epoch = command.key, command.state_epoch
        refusal = (
            self._check_numbers(key, state_epoch=state_epoch)
            or self._fence_state(key, state_epoch)
            or self._check_topic(key)
        )
        if refusal is not None:
            return refusal
        old_state = self.shard.states.get(key)
        if (
            self.shard.rules.share_states_are_made_once
            and old_state is not None
            and old_state.state_epoch == state_epoch
        ):
            return Decision(reply=ShareStateError(key=key))
        snapshot = ShareSnapshot(
            key=key,
            snapshot_epoch=0 if old_state is None else old_state.snapshot_epoch + 1,
            state_epoch=state_epoch,
            start_offset=command.start_offset,
            delivery_complete_count=-1 if command.start_offset == UNKNOWN_OFFSET else 0,
            create_timestamp_ms=self.now_ms,
            write_timestamp_ms=self.now_ms,
        )
        return Decision(records=(snapshot,), reply=ShareStateError(key=key))

    def read(self, command: ReadShareState) -> ShareDecision | Rejection:
        """Answers with the state, for a partition's leader. A new leader epoch is also written to
        the log.
        """
        key, leader_epoch = command.key, command.leader_epoch
        unfenced_epoch = NO_EPOCH if self.shard.rules.share_reads_pass_without_epoch else None
        refusal = (
            self._check_numbers(key, leader_epoch=leader_epoch)
            or self._check_initialized(key, "Read")
            or self._fence_leader(key, leader_epoch, unfenced_epoch=unfenced_epoch)
            or self._check_topic(key)
        )
        if refusal is not None:
            return refusal
        state = self.shard.states[key]
        reply = ShareState(
            key=key,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            batches=state.batches,
        )
        if leader_epoch in (NO_EPOCH, self.shard.leader_epochs[key]):
            return Decision(reply=reply)
        leader_epoch_write = WriteShareState(
            key=key,
            state_epoch=state.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )
        change_record = run_to_end(
            self._change_record(leader_epoch_write, leader_epoch=leader_epoch)
        )
        return Decision(records=(change_record,), reply=reply)

    def write(self, command: WriteShareState) -> ShareDecision | Rejection:
        """Do the same as ``write_in_steps``, without breaks."""
        return run_to_end(self.write_in_steps(command))

    def write_in_steps(
        self, command: WriteShareState
    ) -> Generator[int, None, ShareDecision | Rejection]:
        """Add a leader's changes to the state. Yield numbers of batches, for breaks.

        Kafka fails on a batch that ends before it begins, unless it is alone; then it fails on the
        next write.
        """
        key, leader_epoch, state_epoch = command.key, command.leader_epoch, command.state_epoch
        refusal = (
            self._check_numbers(key, leader_epoch=leader_epoch, state_epoch=state_epoch)
            or self._check_initialized(key, "Write")
            or self._fence_leader(key, leader_epoch)
            or self._fence_state(key, state_epoch)
            or self._check_topic(key)
        )
        if refusal is None and len(command.batches) > BATCHES_MAX:
            refusal = _rejection_of(ErrorCode.unknown_server_error)
        if refusal is not None:
            return refusal
        state = self.shard.states[key]
        try:
            change_record = yield from self._change_record(command, leader_epoch=state.leader_epoch)
            if (yield from _has_backwards_batch((*state.batches, *command.batches))):
                yield from combine_in_steps(
                    state.batches,
                    change_record.batches,
                    start_offset=change_record.start_offset,
                    release_rules=self.shard.rules,
                )
        except BackwardsBatchError:
            return Rejection(error=ErrorCode.unknown_server_error, reason=_COMBINER_FAILURE_REASON)
        return Decision(records=(change_record,), reply=ShareStateError(key=key))

    def delete(self, command: DeleteShareState) -> ShareDecision | Rejection:
        """Delete the state; without a state the request succeeds, too."""
        key = command.key
        refusal = self._check_numbers(key) or self._check_topic(key)
        if refusal is not None:
            return refusal
        records = (ShareDeleted(key=key),) if key in self.shard.states else ()
        return Decision(records=records, reply=ShareStateError(key=key))

    def summarize(self, command: ReadShareState) -> ShareDecision | Rejection:
        """Answers with the state without its batches, for the group coordinator; checks no
        epoch.
        """
        key = command.key
        refusal = self._check_numbers(key) or self._check_topic(key)
        if refusal is not None:
            return refusal
        state = self.shard.states.get(key)
        if state is None:
            return Decision(reply=ShareStateSummary(key=key))
        summary = ShareStateSummary(
            key=key,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )
        return Decision(reply=summary)

    # Parts

    def _check_numbers(self, key: ShareKey, **epochs: int) -> Rejection | None:
        """Reject the first negative number with INVALID_REQUEST."""
        checked_epochs = epochs if self.shard.rules.share_epochs_are_checked else {}
        for field_name, field_value in {"partition_id": key.partition, **checked_epochs}.items():
            if field_value < 0:
                reason = f"The {field_name.replace('_', ' ')} cannot be a negative number."
                return Rejection(error=ErrorCode.invalid_request, reason=reason)
        return None

    def _fence_leader(
        self, key: ShareKey, leader_epoch: int, *, unfenced_epoch: int | None = NO_EPOCH
    ) -> Rejection | None:
        if (
            leader_epoch == unfenced_epoch
            or self.shard.leader_epochs.get(key, leader_epoch) <= leader_epoch
        ):
            return None
        return _rejection_of(ErrorCode.fenced_leader_epoch)

    def _fence_state(self, key: ShareKey, state_epoch: int) -> Rejection | None:
        if state_epoch == NO_EPOCH or self.shard.state_epochs.get(key, state_epoch) <= state_epoch:
            return None
        if self.shard.rules.share_state_fences_are_brief:
            return _rejection_of(ErrorCode.fenced_state_epoch)
        return Rejection(error=ErrorCode.fenced_state_epoch, reason=_FENCED_REASON_BEFORE_4_4)

    def _check_initialized(self, key: ShareKey, operation_name: str) -> Rejection | None:
        if key in self.shard.states:
            return None
        reason = f"{operation_name} operation on uninitialized share partition not allowed."
        return Rejection(error=ErrorCode.invalid_request, reason=reason)

    def _check_topic(self, key: ShareKey) -> Rejection | None:
        if key.partition < self.count_partitions(key.topic_id):
            return None
        return _rejection_of(ErrorCode.unknown_topic_or_partition)

    def _change_record(
        self, command: WriteShareState, *, leader_epoch: int
    ) -> Generator[int, None, ShareSnapshot | ShareUpdate]:
        """The record of a write: an update, or after ``updates_per_snapshot`` updates the whole
        state. Yield numbers of batches, for breaks.
        """
        state, release_rules = self.shard.states[command.key], self.shard.rules
        start_offset, complete_count = command.start_offset, command.delivery_complete_count
        if release_rules.share_starts_never_go_back:
            if start_offset == state.start_offset:
                complete_count = max(complete_count, state.delivery_complete_count)
            elif start_offset < state.start_offset:
                complete_count = state.delivery_complete_count
            start_offset = max(start_offset, state.start_offset)
        is_update = self.shard.update_counts.get(command.key, 0) < self.shard.updates_per_snapshot
        batches = yield from combine_in_steps(
            () if is_update else state.batches,
            command.batches,
            start_offset=start_offset,
            release_rules=release_rules,
        )
        if is_update:
            return ShareUpdate(
                key=command.key,
                snapshot_epoch=state.snapshot_epoch,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                delivery_complete_count=complete_count,
                batches=batches,
            )
        return ShareSnapshot(
            key=command.key,
            snapshot_epoch=state.snapshot_epoch + 1,
            state_epoch=state.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=state.start_offset if start_offset == UNKNOWN_OFFSET else start_offset,
            delivery_complete_count=complete_count,
            create_timestamp_ms=self.now_ms,
            write_timestamp_ms=self.now_ms,
            batches=batches,
        )


def _has_backwards_batch(batches: Sequence[StateBatch]) -> Generator[int, None, bool]:
    for slice_start in range(0, len(batches), _BATCHES_PER_CHECK):
        batch_slice = batches[slice_start : slice_start + _BATCHES_PER_CHECK]
        if any(batch.last_offset < batch.first_offset for batch in batch_slice):
            return True
        yield len(batch_slice)
    return False


def _rejection_of(error: ErrorCode) -> Rejection:
    return Rejection(error=error, reason=_REASONS[error])
