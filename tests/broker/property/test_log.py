"""One log against a plain list of what was appended.

The model keeps a list of events and derives everything from it by walking over it: no caches, no
indexes, no shared code. After each step it is compared with the log, and the log with one that is
replayed from the bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.logs import (
    ALL,
    COMMITTED,
    NOW,
    PARTITION,
    UNCOMMITTED,
    consume,
    make_log,
    replayed_log,
)
from tests.support.markers import append_marker
from txnsim.log.answers import Appended, LogRead
from txnsim.log.config import LogConfig
from txnsim.log.leader_append import append_client, start_verification
from txnsim.log.local_log import ENOUGH_BYTES
from txnsim.releases.rules import LATEST_RULES
from txnsim.wire.batch import Record, build_batch, read_batch_header, read_records

PIDS = st.sampled_from([1, 2, 3])
CONFIG = LogConfig(rules=LATEST_RULES, roll_bytes=700, retention_ms=-1, index_interval_bytes=200)
"""A segment holds about eight batches, its index every third."""


class ModelBatch(NamedTuple):
    """A batch or a marker in the model's log."""

    base: int
    last: int
    values: tuple[bytes, ...]
    pid: int
    epoch: int
    sequence: int
    transactional: bool
    outcome: bool | None
    """Of a marker: committed or not."""
    sent: bytes
    stored: bytes
    coordinator_epoch: int = -1
    """Of a marker."""


class KnownProducer(NamedTuple):
    """What the model knows of one producer."""

    epoch: int
    sequence_next: int
    open_since: int
    coordinator_epoch: int


class LogAgainstList(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.log = make_log(CONFIG)
        self.events: list[ModelBatch] = []
        self.high_watermark = 0
        self.log_start = 0
        self.settled = 0
        self.is_reloaded = False
        self.leader_epoch = 0
        self.values = 0

    # The model

    def known(self, producer_id: int) -> KnownProducer:
        epoch, sequence_next, open_since_ms, coordinator_epoch = -1, 0, -1, -1
        for event in self.events:
            if event.pid != producer_id:
                continue
            if event.outcome is not None:
                sequence_next = sequence_next if event.epoch == epoch else 0
                open_since_ms = -1
                coordinator_epoch = event.coordinator_epoch
            else:
                sequence_next = event.sequence + len(event.values)
                if event.transactional and open_since_ms < 0:
                    open_since_ms = event.base
            epoch = event.epoch
        return KnownProducer(epoch, sequence_next, open_since_ms, coordinator_epoch)

    def outcome_of(self, event: ModelBatch) -> tuple[bool, int] | None:
        """(committed, offset of the marker) of the transaction that a batch belongs to."""
        for later_event in self.events:
            if (
                later_event.outcome is not None
                and later_event.pid == event.pid
                and later_event.base > event.base
            ):
                return later_event.outcome, later_event.base
        return None

    @property
    def log_end(self) -> int:
        return self.events[-1].last + 1 if self.events else 0

    def stable(self) -> int:
        first_open = self.high_watermark
        for event in self.events:
            if event.transactional and event.outcome is None:
                outcome = self.outcome_of(event)
                if outcome is None or outcome[1] >= max(self.high_watermark, self.settled):
                    first_open = min(first_open, event.base)
                    break
        if first_open < self.log_start:
            return next(
                (event.base for event in self.events if event.last >= self.log_start),
                self.log_start,
            )
        return first_open

    def expected(self, start: int, upper: int, *, committed: bool) -> list[bytes]:
        values = []
        for event in self.events:
            if event.outcome is not None:
                continue
            if committed and event.transactional:
                outcome = self.outcome_of(event)
                if outcome is None or not outcome[0]:
                    continue
            for offset, value in enumerate(event.values, start=event.base):
                if start <= offset < upper:
                    values.append(value)
        return values

    # Appending

    def make(
        self, producer_id: int, *, count: int, epoch: int, sequence: int, is_transactional: bool
    ) -> tuple[bytes, tuple[bytes, ...]]:
        record_values = tuple(b"%d" % (self.values + number) for number in range(count))
        self.values += count
        batch_data = build_batch(
            [Record(key=b"k", value=record_value) for record_value in record_values],
            timestamp_ms=NOW,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        return batch_data, record_values

    def send(self, batch_data: bytes, *, guard: int = 0) -> Any:
        return append_client(self.log, batch_data, guard=guard, now_ms=NOW)

    def accept(
        self,
        answer: Any,
        data: bytes,
        values: tuple[bytes, ...],
        *,
        is_success: bool | None = None,
        coordinator_epoch: int = -1,
    ) -> None:
        assert isinstance(answer, Appended), answer
        assert answer.base_offset == self.log_end
        assert answer.last_offset == self.log_end + max(len(values), 1) - 1
        *_, stored_batch = self.log.batches()
        header = read_batch_header(stored_batch)
        self.events.append(
            ModelBatch(
                base=answer.base_offset,
                last=answer.last_offset,
                values=values,
                pid=header.producer_id,
                epoch=header.producer_epoch,
                sequence=header.base_sequence,
                transactional=header.is_transactional,
                outcome=is_success,
                sent=data,
                stored=stored_batch,
                coordinator_epoch=coordinator_epoch,
            )
        )

    def refused(self, answer: Any, error: int) -> None:
        assert not isinstance(answer, Appended), answer
        assert answer.error == error, answer

    def guard(self, producer_id: int, producer: KnownProducer, *, is_tv2: bool = False) -> int:
        guard = start_verification(
            self.log,
            producer_id=producer_id,
            producer_epoch=max(producer.epoch, 0),
            base_sequence=producer.sequence_next,
            supports_epoch_bump=is_tv2,
            now_ms=NOW,
        )
        assert isinstance(guard, int)
        assert (guard == 0) == (producer.open_since >= 0)
        return guard

    @rule(count=st.integers(1, 3))
    def append_without_producer(self, count: int) -> None:
        batch_data, values = self.make(
            -1, count=count, epoch=-1, sequence=-1, is_transactional=False
        )
        self.accept(self.send(batch_data), batch_data, values)

    @rule(producer_id=PIDS, count=st.integers(1, 3), bumps_epoch=st.booleans())
    def append_idempotent(self, producer_id: int, count: int, bumps_epoch: bool) -> None:
        producer = self.known(producer_id)
        epoch, sequence = max(producer.epoch, 0), producer.sequence_next
        if bumps_epoch and producer.epoch >= 0:
            epoch, sequence = epoch + 1, 0
        batch_data, values = self.make(
            producer_id, count=count, epoch=epoch, sequence=sequence, is_transactional=False
        )
        if producer.open_since >= 0:
            self.refused(self.send(batch_data), 48)
        else:
            self.accept(self.send(batch_data), batch_data, values)

    @rule(producer_id=PIDS, count=st.integers(1, 3))
    def append_in_transaction(self, producer_id: int, count: int) -> None:
        producer = self.known(producer_id)
        guard = self.guard(producer_id, producer)
        batch_data, values = self.make(
            producer_id,
            count=count,
            epoch=max(producer.epoch, 0),
            sequence=producer.sequence_next,
            is_transactional=True,
        )
        self.accept(self.send(batch_data, guard=guard), batch_data, values)

    @rule(
        producer_id=PIDS,
        committed=st.booleans(),
        bumps_epoch=st.booleans(),
        transaction_version=st.sampled_from([0, 1, 2]),
        step=st.sampled_from([0, 0, 0, 1, -1]),
    )
    def end(
        self,
        producer_id: int,
        committed: bool,
        bumps_epoch: bool,
        transaction_version: int,
        step: int = 0,
    ) -> None:
        """By the coordinator that was here last, by a newer one, or by one that is over."""
        producer = self.known(producer_id)
        coordinator_epoch = max(0, producer.coordinator_epoch + step)
        answer = append_marker(
            self.log,
            producer_id=producer_id,
            producer_epoch=max(producer.epoch, 0) + bumps_epoch,
            committed=committed,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
            now_ms=NOW,
        )
        if transaction_version == 2 and not bumps_epoch and producer.open_since >= 0:
            self.refused(answer, 47)
        elif coordinator_epoch < producer.coordinator_epoch:
            self.refused(answer, 52)
        else:
            self.accept(answer, b"", (), is_success=committed, coordinator_epoch=coordinator_epoch)

    # What must be refused

    @rule(producer_id=PIDS, is_transactional=st.booleans(), gap=st.integers(1, 9))
    def leave_a_gap(self, producer_id: int, is_transactional: bool, gap: int) -> None:
        producer = self.known(producer_id)
        if producer.epoch < 0:
            return
        batch_data, _ = self.make(
            producer_id,
            count=1,
            epoch=producer.epoch,
            sequence=producer.sequence_next + gap,
            # Only inside an open one: a guard that is never used would hold back what follows.
            is_transactional=is_transactional and producer.open_since >= 0,
        )
        self.refused(self.send(batch_data), 45)

    @rule(producer_id=PIDS, is_transactional=st.booleans())
    def come_as_a_zombie(self, producer_id: int, is_transactional: bool) -> None:
        producer = self.known(producer_id)
        if producer.epoch < 1:
            return
        batch_data, _ = self.make(
            producer_id,
            count=1,
            epoch=producer.epoch - 1,
            sequence=0,
            is_transactional=is_transactional,
        )
        self.refused(self.send(batch_data, guard=99), 47)

    @rule(producer_id=PIDS, bumps_epoch=st.booleans())
    def come_late(self, producer_id: int, bumps_epoch: bool) -> None:
        """Append a batch whose verification was followed by a marker, which removes the guard."""
        producer = self.known(producer_id)
        if producer.open_since >= 0:
            return
        guard = self.guard(producer_id, producer)
        batch_data, _ = self.make(
            producer_id,
            count=1,
            epoch=max(producer.epoch, 0),
            sequence=producer.sequence_next,
            is_transactional=True,
        )
        self.end(
            producer_id=producer_id, committed=False, bumps_epoch=bumps_epoch, transaction_version=0
        )
        self.refused(self.send(batch_data, guard=guard), 47 if bumps_epoch else 48)

    @rule(producer_id=PIDS)
    def send_again(self, producer_id: int) -> None:
        events_of_producer = [
            event for event in self.events if event.pid == producer_id and event.outcome is None
        ]
        if not events_of_producer or events_of_producer[-1].epoch != self.known(producer_id).epoch:
            return
        answer = self.send(events_of_producer[-1].sent)
        assert isinstance(answer, Appended)
        assert answer.duplicate
        assert (answer.base_offset, answer.last_offset) == (
            events_of_producer[-1].base,
            events_of_producer[-1].last,
        )

    # Reading a part

    @rule(start=st.integers(0, 60), max_bytes=st.integers(0, 500))
    def read_a_part(self, start: int, max_bytes: int) -> None:
        """The list of aborted transactions names all that the returned batches touch, and nothing
        that was not aborted.
        """
        start = max(self.log_start, min(start, self.log_end))
        read = self.log.read(start, max_bytes=max_bytes, isolation=COMMITTED)
        assert isinstance(read, LogRead)
        assert read.aborted is not None
        if not read.records:
            assert read.aborted == ()
            assert start >= self.stable()
            return
        upper = read_batch_header(read.records[-1]).last_offset + 1
        touched_transactions, aborted = [], []
        began: dict[int, int] = {}
        for event in self.events:
            if event.outcome is None:
                if event.transactional:
                    began.setdefault(event.pid, event.base)
                continue
            first_offset = began.pop(event.pid, None)
            if first_offset is not None and not event.outcome:
                aborted.append((event.pid, first_offset))
                if first_offset < upper and event.base >= start:
                    touched_transactions.append((event.pid, first_offset))
        listed_transactions = [(entry.producer_id, entry.first_offset) for entry in read.aborted]
        assert [
            entry for entry in listed_transactions if entry in touched_transactions
        ] == touched_transactions
        assert set(listed_transactions) <= set(aborted)

    # Bounds and leaders

    @rule(step=st.integers(0, 4))
    def replicate(self, step: int) -> None:
        """Advance the high watermark by at most ``step`` batches."""
        ends = [event.last + 1 for event in self.events if event.last >= self.high_watermark]
        if ends[:step]:
            self.high_watermark = ends[:step][-1]
            assert self.log.advance_high_watermark(self.high_watermark)

    @precondition(lambda self: self.log_end - self.high_watermark > 9 and self.log_start == 0)
    @rule(keep=st.integers(0, 6))
    def fail_over(self, keep: int) -> None:
        """Another leader; what was not replicated may be lost.

        Of transactions that end before the snapshot that the reload begins with it no longer tells
        which are not replicated (ProducerStateManager.truncateAndReload takes all for replicated).
        """
        events_below = [event for event in self.events if event.last < self.high_watermark]
        end = self.log_end
        self.events = self.events[: len(events_below) + keep]
        if self.log_end < end:
            offsets = [offset for offset, _ in self.log.producers.snapshots.all_snapshots()]
            self.settled = max((offset for offset in offsets if offset <= self.log_end), default=0)
        self.log.truncate_to(self.log_end, now_ms=NOW)
        self.is_reloaded = True
        self.leader_epoch += 1
        self.log.become_leader(self.leader_epoch)

    @precondition(lambda self: self.high_watermark - self.log_start > 20)
    @rule(back=st.integers(0, 15))
    def delete_records(self, back: int) -> None:
        offset = self.high_watermark - back
        self.log_start = max(self.log_start, offset)
        assert self.log.delete_records_before(offset) == self.log_start

    @precondition(lambda self: self.log_end == self.high_watermark and self.log_start == 0)
    @rule()
    def restart(self) -> None:
        """Restart: a snapshot knows the last batch and the open transaction of each producer."""
        self.log.reopen(self.high_watermark, log_start_offset=self.log.log_start_offset, now_ms=NOW)
        self.is_reloaded = True

    @rule()
    def remove_what_is_deleted(self) -> None:
        self.log.delete_old_segments(NOW)

    # Comparing

    @invariant()
    def bounds_agree(self) -> None:
        log = self.log
        log.check_invariants()
        assert log.log_end_offset == self.log_end
        assert log.log_start_offset == self.log_start
        assert log.high_watermark == self.high_watermark
        assert log.last_stable_offset == self.stable()
        undecided = [
            event.base
            for event in self.events
            if event.transactional and event.outcome is None and self.outcome_of(event) is None
        ]
        assert log.producers.state.first_undecided_offset() == (undecided[0] if undecided else None)

    @invariant()
    def producers_agree(self) -> None:
        producer_by_id = {
            producer.producer_id: producer for producer in self.log.producers.all_producers()
        }
        assert set(producer_by_id) == {event.pid for event in self.events if event.pid >= 0}
        for producer_id, producer in producer_by_id.items():
            modelled = self.known(producer_id)
            assert producer.producer_epoch == modelled.epoch
            assert producer.coordinator_epoch == modelled.coordinator_epoch
            assert producer.txn_first_offset == modelled.open_since
            assert producer.last_sequence == modelled.sequence_next - 1

    @invariant()
    def nobody_steps_back(self) -> None:
        """Epochs of producers and coordinators never fall, so no record follows a marker that has
        shut its epoch out.
        """
        for producer_id in {event.pid for event in self.events if event.pid >= 0}:
            events_of_producer = [event for event in self.events if event.pid == producer_id]
            epochs = [event.epoch for event in events_of_producer]
            coordinators = [
                event.coordinator_epoch for event in events_of_producer if event.outcome is not None
            ]
            assert epochs == sorted(epochs)
            assert coordinators == sorted(coordinators)

    @invariant()
    def readers_see_exactly_what_is_decided(self) -> None:
        stable_offset = self.log.last_stable_offset
        for start in {self.log_start, (self.log_start + self.log_end) // 2, self.log_end}:
            assert consume(self.log, start) == self.expected(start, stable_offset, committed=True)
        stored_batches = self.stored_to_read()
        values_read = [
            record.value
            for batch_data in stored_batches
            if not read_batch_header(batch_data).is_control
            for record in read_records(batch_data)
            if record.offset >= self.log_start
        ]
        assert values_read == self.expected(self.log_start, self.high_watermark, committed=False)
        assert self.log.readable_bytes(self.log_start, UNCOMMITTED) in (
            sum(map(len, stored_batches)),
            ENOUGH_BYTES,
        )
        assert self.log.latest_offset(COMMITTED) == stable_offset

    def stored_to_read(self) -> list[bytes]:
        """All that a read_uncommitted reader gets, one segment after the other."""
        records_read: list[bytes] = []
        position = self.log_start
        while True:
            read = self.log.read(position, max_bytes=ALL, isolation=UNCOMMITTED)
            assert isinstance(read, LogRead)
            if not read.records:
                return records_read
            records_read += read.records
            position = read_batch_header(read.records[-1]).last_offset + 1

    @invariant()
    def the_replayed_log_is_the_living_one(self) -> None:
        reread_log = replayed_log(
            [event.stored for event in self.events],
            topic_partition=PARTITION,
            config=CONFIG,
            leader_epoch=self.leader_epoch,
            high_watermark=self.high_watermark,
        )
        reread_log.check_invariants()
        live_state, replayed_state = self.log.snapshot(), reread_log.snapshot()
        if self.log_start == 0 and not self.is_reloaded:
            assert live_state == replayed_state
        for producer, full_producer in zip(
            live_state.producers, replayed_state.producers, strict=True
        ):
            batches = producer.batches
            assert batches == full_producer.batches[len(full_producer.batches) - len(batches) :]
            assert bool(batches) == bool(full_producer.batches)
            assert replace(producer, batches=()) == replace(full_producer, batches=())
        assert live_state.ongoing == replayed_state.ongoing
        assert live_state.unreplicated == tuple(
            (first_offset, marker)
            for first_offset, marker in replayed_state.unreplicated
            if marker >= self.settled
        )
        first_kept = next(
            (read_batch_header(batch_data).base_offset for batch_data in self.log.batches()),
            self.log_end,
        )
        assert live_state.aborted == tuple(
            aborted_txn
            for aborted_txn in replayed_state.aborted
            if aborted_txn.last_offset >= first_kept
        )


TestLogAgainstList = pytest.mark.slow(LogAgainstList.TestCase)
TestLogAgainstList.settings = settings(max_examples=60, stateful_step_count=50)
