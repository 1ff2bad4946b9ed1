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
from txnsim.share_state._combining import BackwardsBatchError, combining
from txnsim.share_state.records import ShareDeleted, ShareRecord, ShareSnapshot, ShareUpdate
from txnsim.share_state.shard import ShareStateShard
from txnsim.types import Decision
from txnsim.wire.codec import run_to_end

NO_EPOCH: Final = -1
"""An epoch that is not given. Up to 4.3 it is never fenced."""
BATCHES_MAX: Final = 20_000
"""Most batches of one write: twice what a leader may have in flight."""
_LOOKED_AT: Final = 1_000
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

_TEXTS: Final = {
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
_FENCED_BEFORE_4_4: Final = (
    "The share coordinator rejected the request because the share-group state epoch did not match."
)
_TRIPPED: Final = (
    'Unable to write share group state: Cannot invoke "java.lang.Integer.intValue()" because the '
    'return value of "java.util.TreeMap.get(Object)" is null'
)
"""Text of Kafka's error when PersisterStateBatchCombiner fails on a batch that ends before it
begins.
"""


class Deciding(msgspec.Struct, frozen=True, kw_only=True):
    """Decides about commands on one shard at one point in time."""

    shard: ShareStateShard
    count: CountPartitions
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
        is_again = old_state is not None and old_state.state_epoch == state_epoch
        if is_again and self.shard.rules.share_states_are_made_once:
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
        passes = NO_EPOCH if self.shard.rules.share_reads_pass_without_epoch else None
        refusal = (
            self._check_numbers(key, leader_epoch=leader_epoch)
            or self._check_initialized(key, "Read")
            or self._fence_leader(key, leader_epoch, passes=passes)
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
        noted = WriteShareState(
            key=key,
            state_epoch=state.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )
        change = run_to_end(self._change(noted, leader_epoch=leader_epoch))
        return Decision(records=(change,), reply=reply)

    def write(self, command: WriteShareState) -> ShareDecision | Rejection:
        """Do the same as ``writing``, without breaks."""
        return run_to_end(self.writing(command))

    def writing(self, command: WriteShareState) -> Generator[int, None, ShareDecision | Rejection]:
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
            change = yield from self._change(command, leader_epoch=state.leader_epoch)
            if (yield from _has_backwards((*state.batches, *command.batches))):
                yield from combining(
                    state.batches,
                    change.batches,
                    start_offset=change.start_offset,
                    rules=self.shard.rules,
                )
        except BackwardsBatchError:
            return Rejection(error=ErrorCode.unknown_server_error, reason=_TRIPPED)
        return Decision(records=(change,), reply=ShareStateError(key=key))

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
        checked = epochs if self.shard.rules.share_epochs_are_checked else {}
        for name, number in {"partition_id": key.partition, **checked}.items():
            if number < 0:
                text = f"The {name.replace('_', ' ')} cannot be a negative number."
                return Rejection(error=ErrorCode.invalid_request, reason=text)
        return None

    def _fence_leader(
        self, key: ShareKey, epoch: int, *, passes: int | None = NO_EPOCH
    ) -> Rejection | None:
        if epoch == passes or self.shard.leader_epochs.get(key, epoch) <= epoch:
            return None
        return _rejection_of(ErrorCode.fenced_leader_epoch)

    def _fence_state(self, key: ShareKey, epoch: int) -> Rejection | None:
        if epoch == NO_EPOCH or self.shard.state_epochs.get(key, epoch) <= epoch:
            return None
        if self.shard.rules.share_state_fences_are_brief:
            return _rejection_of(ErrorCode.fenced_state_epoch)
        return Rejection(error=ErrorCode.fenced_state_epoch, reason=_FENCED_BEFORE_4_4)

    def _check_initialized(self, key: ShareKey, operation: str) -> Rejection | None:
        if key in self.shard.states:
            return None
        text = f"{operation} operation on uninitialized share partition not allowed."
        return Rejection(error=ErrorCode.invalid_request, reason=text)

    def _check_topic(self, key: ShareKey) -> Rejection | None:
        if key.partition < self.count(key.topic_id):
            return None
        return _rejection_of(ErrorCode.unknown_topic_or_partition)

    def _change(
        self, command: WriteShareState, *, leader_epoch: int
    ) -> Generator[int, None, ShareSnapshot | ShareUpdate]:
        """The record of a write: an update, or after ``updates_per_snapshot`` updates the whole
        state. Yield numbers of batches, for breaks.
        """
        state, rules = self.shard.states[command.key], self.shard.rules
        start_offset, complete = command.start_offset, command.delivery_complete_count
        if rules.share_starts_never_go_back:
            if start_offset == state.start_offset:
                complete = max(complete, state.delivery_complete_count)
            elif start_offset < state.start_offset:
                complete = state.delivery_complete_count
            start_offset = max(start_offset, state.start_offset)
        is_update = self.shard.update_counts.get(command.key, 0) < self.shard.updates_per_snapshot
        batches = yield from combining(
            () if is_update else state.batches,
            command.batches,
            start_offset=start_offset,
            rules=rules,
        )
        if is_update:
            return ShareUpdate(
                key=command.key,
                snapshot_epoch=state.snapshot_epoch,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                delivery_complete_count=complete,
                batches=batches,
            )
        return ShareSnapshot(
            key=command.key,
            snapshot_epoch=state.snapshot_epoch + 1,
            state_epoch=state.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=state.start_offset if start_offset == UNKNOWN_OFFSET else start_offset,
            delivery_complete_count=complete,
            create_timestamp_ms=self.now_ms,
            write_timestamp_ms=self.now_ms,
            batches=batches,
        )


def _has_backwards(batches: Sequence[StateBatch]) -> Generator[int, None, bool]:
    for start in range(0, len(batches), _LOOKED_AT):
        part = batches[start : start + _LOOKED_AT]
        if any(batch.last_offset < batch.first_offset for batch in part):
            return True
        yield len(part)
    return False


def _rejection_of(error: ErrorCode) -> Rejection:
    return Rejection(error=error, reason=_TEXTS[error])
