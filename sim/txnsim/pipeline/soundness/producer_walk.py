"""What producers do in one stretch of a log, batch by batch, and where they break Kafka's rules.

The state is that of a partition (``txnsim.log.producer_state``), and it is empty at the beginning.
The rules are those by which a leader accepts a batch (``txnsim.log.append_info``), so this walk and
a broker decide alike. What depends on batches before the stretch is left to ``chain``.
"""

from __future__ import annotations

from typing import Final

from txnsim.errors import ErrorCode
from txnsim.log.append_info import Refusal, check_data, check_marker
from txnsim.log.producer_state import (
    NO_OFFSET,
    ProducerEntry,
    ProducerState,
    SnapshotEntry,
)
from txnsim.log.replicated import described
from txnsim.pipeline.soundness.parts import (
    AbortedStretch,
    FirstData,
    FirstMarker,
    ProducerStretch,
    Stretch,
)
from txnsim.pipeline.soundness.violations import Broken, Invariant
from txnsim.releases.rules import LATEST
from txnsim.wire.batch import ABORT, COMMIT, BatchHeader, ControlRecord

RULES: Final = {
    ErrorCode.out_of_order_sequence_number: Invariant.SEQUENCE,
    ErrorCode.invalid_producer_epoch: Invariant.PRODUCER_EPOCH,
    ErrorCode.invalid_txn_state: Invariant.OUTSIDE_TRANSACTION,
    ErrorCode.transaction_coordinator_fenced: Invariant.COORDINATOR_EPOCH,
}
"""Error of a leader that refuses a batch -> rule that the batch breaks."""
EXPECTED: Final = {
    Invariant.SEQUENCE: "the sequence after the last one, 0 in a new epoch",
    Invariant.PRODUCER_EPOCH: "the producer's epoch or a higher one",
    Invariant.OUTSIDE_TRANSACTION: "only transactional batches until the marker",
    Invariant.COORDINATOR_EPOCH: "the coordinator's epoch or a higher one",
}


class _Seen:
    """What is kept of a producer beside its state."""

    __slots__ = ("first_data", "first_marker", "keeps_batches", "last_offset")

    def __init__(self) -> None:
        self.first_data: FirstData | None = None
        self.first_marker: FirstMarker | None = None
        self.keeps_batches = True
        self.last_offset = NO_OFFSET

    def stretch(self, left: SnapshotEntry) -> ProducerStretch:
        """All of it, once the stretch is over."""
        return ProducerStretch(
            first_data=self.first_data,
            first_marker=self.first_marker,
            left=left,
            last_offset=self.last_offset,
            keeps_batches=self.keeps_batches,
        )


class ProducerWalk:
    """Takes the batches of one stretch, in order.

    Args:
        file: Name of the segment, for findings.
        start: First offset of the stretch.
        has_sequences: Clients wrote it, not a coordinator.
        expiration_ms: After how long without a batch a broker forgets a producer.
    """

    def __init__(self, file: str, start: int, *, has_sequences: bool, expiration_ms: int) -> None:
        self._file = file
        self._start = start
        self._has_sequences = has_sequences
        self._expiration_ms = expiration_ms
        self._state = ProducerState()
        self._seen: dict[int, _Seen] = {}
        self._aborted: list[AbortedStretch] = []
        self.broken: list[Broken] = []

    # Commands

    def take_data(self, header: BatchHeader, position: int) -> None:
        """The next batch of data of a producer."""
        entry = self._state.find(header.producer_id)
        seen = self._seen_of(header)
        is_judged = self._judge_data(header, position, entry, seen)
        if seen.first_data is None:
            seen.first_data = FirstData(header=header, position=position, is_judged=is_judged)
        seen.keeps_batches = False
        self._state.apply(described(b"", header))

    def take_marker(self, header: BatchHeader, position: int, control: ControlRecord) -> None:
        """The next marker of a producer."""
        assert control.type in (ABORT, COMMIT)
        entry = self._state.find(header.producer_id)
        seen = self._seen_of(header)
        opened_at = NO_OFFSET if entry is None else entry.txn_first_offset
        is_first = seen.first_marker is None
        self._tell(refusal_of_marker(entry, header, control), header, position)
        if is_first:
            seen.first_marker = FirstMarker(
                header=header, control=control, position=position, opened_at=opened_at
            )
        elif opened_at == NO_OFFSET:
            self.broken.append(idle_marker(self._file, header, position, header.producer_epoch))
        if entry is not None and entry.producer_epoch != header.producer_epoch:
            seen.keeps_batches = False
        others_since = self._end(header, control)
        if control.type == ABORT and (is_first or opened_at != NO_OFFSET):
            self._aborted.append(
                AbortedStretch(
                    producer_id=header.producer_id,
                    marker_offset=header.base_offset,
                    opened_at=opened_at,
                    others_since=others_since,
                )
            )

    # Queries

    def stretch(self, end: int) -> Stretch:
        """What is left of the batches taken, up to the offset ``end``."""
        return Stretch(
            start=self._start,
            end=end,
            producers=tuple(
                self._seen[saved.producer_id].stretch(saved) for saved in self._state.to_snapshot()
            ),
            aborted=tuple(self._aborted),
        )

    # Steps

    def _seen_of(self, header: BatchHeader) -> _Seen:
        seen = self._seen.get(header.producer_id)
        if seen is None:
            seen = self._seen[header.producer_id] = _Seen()
        seen.last_offset = header.last_offset
        return seen

    def _judge_data(
        self, header: BatchHeader, position: int, entry: ProducerEntry | None, seen: _Seen
    ) -> bool:
        """Tell what is wrong with a batch; whether the stretch knew enough to say."""
        if entry is None:
            return False
        if seen.keeps_batches and header.producer_epoch == entry.producer_epoch:
            return False  # its sequence goes on from a batch before the stretch
        refusal = refusal_of_data(
            entry,
            header,
            has_sequences=self._has_sequences,
            expiration_ms=self._expiration_ms,
        )
        self._tell(refusal, header, position)
        return True

    def _end(self, header: BatchHeader, control: ControlRecord) -> int:
        """Apply a marker; since when another producer's transaction is open, -1 if none is."""
        apply_marker(self._state, header, control)
        self._state.release_below(header.base_offset + 1)
        first = self._state.first_undecided_offset()
        return NO_OFFSET if first is None else first

    def _tell(self, refusal: Refusal | None, header: BatchHeader, position: int) -> None:
        if refusal is not None:
            self.broken.append(refused(refusal, self._file, header, position))


def refusal_of_data(
    entry: ProducerEntry, header: BatchHeader, *, has_sequences: bool, expiration_ms: int
) -> Refusal | None:
    """Why a leader with this state of the producer would have refused a batch of data; None where
    it would not, or may have forgotten the producer and taken it for a new one. ``has_sequences``:
    clients wrote it, not a coordinator.
    """
    if header.max_timestamp_ms - entry.last_timestamp >= expiration_ms:
        return None
    return check_data(
        entry,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_client=has_sequences,
        verification=None,
        rules=LATEST,
    )


def refusal_of_marker(
    entry: ProducerEntry | None, header: BatchHeader, control: ControlRecord
) -> Refusal | None:
    """Why a leader with this state of the producer would have refused a marker; None where it would
    not.
    """
    return check_marker(
        entry,
        producer_epoch=header.producer_epoch,
        coordinator_epoch=control.coordinator_epoch,
        transaction_version=0,  # by which version it was written, no marker says
        rules=LATEST,
    )


def apply_marker(state: ProducerState, header: BatchHeader, control: ControlRecord) -> None:
    """A marker is in the log: it ends its producer's transaction, if one is open."""
    state.apply_marker(
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        coordinator_epoch=control.coordinator_epoch,
        committed=control.type == COMMIT,
        offset=header.base_offset,
        timestamp=header.max_timestamp_ms,
    )


def refused(refusal: Refusal, file: str, header: BatchHeader, position: int) -> Broken:
    """A batch in the log that a leader would have refused."""
    rule = RULES[refusal.error]
    return Broken(
        rule=rule,
        file=file,
        position=position,
        offset=header.base_offset,
        found=refusal.reason,
        expected=EXPECTED[rule],
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
    )


def idle_marker(file: str, header: BatchHeader, position: int, producer_epoch: int) -> Broken:
    """A marker that ended nothing: sound, but worth a look where somebody misses a transaction."""
    return Broken(
        rule=Invariant.IDLE_MARKER,
        file=file,
        position=position,
        offset=header.base_offset,
        found=f"a marker of producer {header.producer_id}, which has no transaction open",
        expected="a transaction that it ends",
        producer_id=header.producer_id,
        producer_epoch=producer_epoch,
        is_notice=True,
    )
