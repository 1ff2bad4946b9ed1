"""A share partition against a plain dictionary of records.

The model knows no batches, ranges, indexes or gaps: it has one entry per offset and goes over all
of them. It learns from an answer which records were acquired, checks that they could be, and
predicts all else. A share coordinator of the same kind keeps what was written; a share partition
that is loaded from it goes on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.share_partitions import KEY, PartitionMember
from txnsim.errors import Rejection
from txnsim.interbroker.share_state import ShareState, StateBatch
from txnsim.runtime.rng import RandomStreams
from txnsim.share.commands import (
    TERMINAL,
    AcknowledgementBatch,
    AcknowledgeType,
    AcquireMode,
    AcquireResult,
    DeadLetter,
    ReadBatch,
    RecordState,
    SharePartitionSettings,
    StateWrite,
)
from txnsim.share.partition import SharePartition

WALKS: Final = 300
STEPS: Final = 50
TAKEN: Final = 0.7
FITS: Final = 0.8
RELEASE: Final = AcknowledgeType.RELEASE
LOCK_MS: Final = 10
REFUSED: Final = 15
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState
STATE_BY_ACKNOWLEDGEMENT: Final = {
    AcknowledgeType.GAP: ARCHIVED,
    AcknowledgeType.ACCEPT: ACKNOWLEDGED,
    AcknowledgeType.RELEASE: AVAILABLE,
    AcknowledgeType.REJECT: ARCHIVED,
}


@dataclass
class InFlightRecord:
    """The model's state of one record in flight."""

    state: RecordState
    count: int
    owner: str = ""
    deadline_ms: int | None = None
    token: int | None = None
    """Of the write that is under way for it."""
    before: tuple[RecordState, str] = (AVAILABLE, "")

    @property
    def is_complete(self) -> bool:
        return self.state in TERMINAL and self.token is None


class Walk:
    """A share partition and its records; each step is drawn and checked."""

    def __init__(self, seed: int, met_counts: Counter[str]) -> None:
        self.random = random = RandomStreams(seed).stream("share partition")
        self.met = met_counts
        """What the walks were about, by word."""
        self.settings = SharePartitionSettings(
            delivery_count_limit=random.choice([2, 3, 5, 10]),
            max_record_locks=random.choice([4, 12, 2_000]),
            record_lock_duration_ms=LOCK_MS,
            has_dead_letter_topic=random.random() < 0.5,
        )
        self.log: list[ReadBatch] = []
        self.log_end = 0
        self.log_start = 0
        self.now_ms = 0
        self.kept: dict[int, tuple[int, int]] = {}
        self.kept_start = 0
        self.load()
        self.append()

    def step(self) -> None:
        steps = {
            self.append: 3,
            self.fetch: 10,
            self.acknowledge: 10,
            self.leave: 1,
            self.time_passes: 3,
            self.locks_run_out: 3,
            self.delete_records: 1,
            self.answer: 8 * bool(self.writes),
            self.dead_letter_is_copied: 3 * bool(self.letters),
            self.leader_moves: 0.5,
        }
        self.random.choices(list(steps), list(steps.values()))[0]()
        self.check()

    def member(self) -> str:
        return self.random.choice(["a", "b"])

    def taken(self) -> bool:
        """Whether the share coordinator takes a write."""
        return self.random.random() < TAKEN

    def load(self) -> None:
        """Load a new partition and the model from the state that the share coordinator keeps."""
        self.partition = SharePartition(KEY, "orders", 0)
        self.partition.start_loading()
        batches = (StateBatch(offset, offset, *self.kept[offset]) for offset in sorted(self.kept))
        share_state = ShareState(key=KEY, start_offset=self.kept_start, batches=tuple(batches))
        letters = self.partition.load(share_state, -1, self.settings)
        assert not isinstance(letters, Rejection)
        self.letters = list(letters)
        self.met["dead letters after a load"] += bool(letters)
        self.writes: dict[int, bool] = {}
        """Those that are under way, and whether the share coordinator has taken them."""
        self.records = {
            offset: InFlightRecord(RecordState(state), count)
            for offset, (state, count) in self.kept.items()
        }
        self.start, self.is_count_exact = self.kept_start, True
        self.end = max(self.records, default=self.start)
        self.move_start()

    # What happens

    def append(self) -> None:
        for size in self.random.choices(range(1, 6), k=3):
            last_offset = self.log_end + size - 1
            self.log.append(ReadBatch(base_offset=self.log_end, last_offset=last_offset))
            self.log_end += size

    def fetch(self) -> None:
        member, mode = self.member(), self.random.choice(list(AcquireMode))
        most_records, batch_size = self.random.randint(1, 9), self.random.randint(1, 9)
        can_acquire = self.partition.can_acquire(self.settings)
        next_offset = self.partition.next_offset
        fetch_offset = self.partition.next_fetch_offset()
        assert next_offset == fetch_offset
        assert not any(
            record.state is AVAILABLE and record.token is None
            for offset, record in self.records.items()
            if self.start <= offset < fetch_offset
        )
        if fetch_offset < self.log_start:  # out of range
            self.move_log_start(self.log_start)
            return
        batches = [batch for batch in self.log if batch.last_offset >= fetch_offset][
            : self.random.randint(1, 4)
        ]
        acquisition = PartitionMember(self.partition, member, self.settings).fetch(
            tuple(batches),
            fetch_offset=fetch_offset,
            most=most_records,
            batch_size=batch_size,
            mode=mode,
            now_ms=self.now_ms,
        )
        assert isinstance(acquisition, AcquireResult)
        assert bool(acquisition.ranges) == (can_acquire and bool(batches))
        if mode is AcquireMode.RECORD_LIMIT:
            assert acquisition.count <= most_records
        count_by_offset = {
            offset: acquired_range.delivery_count
            for acquired_range in acquisition.ranges
            for offset in range(acquired_range.first_offset, acquired_range.last_offset + 1)
        }
        assert acquisition.count == len(count_by_offset)
        self.met.update(f"taken {count}" for count in count_by_offset.values())
        self.met["taken in part"] += (
            acquisition.ranges != () and acquisition.ranges[-1].last_offset < self.end
        )
        for offset, count in count_by_offset.items():
            record = self.records.get(offset, InFlightRecord(AVAILABLE, 0))
            assert (record.state, record.token) == (AVAILABLE, None)
            assert count == record.count + 1 <= self.settings.delivery_count_limit
            assert batches[0].base_offset <= offset <= batches[-1].last_offset
            self.records[offset] = InFlightRecord(ACQUIRED, count, member, self.now_ms + LOCK_MS)
        for offset, in_flight_record in self.shown(
            with_old=True
        ):  # the rest of a batch that was given in part
            if in_flight_record.state is AVAILABLE:
                self.records.setdefault(offset, InFlightRecord(AVAILABLE, 0))
        self.end = max(self.end, max(self.records, default=self.start))

    def acknowledge(self) -> None:
        random, member = self.random, self.member()
        held_offsets = [offset for offset, record in self.records.items() if record.owner == member]
        types = random.choices([*AcknowledgeType, RELEASE], k=random.choice([1, 1, 2, 3, 6]))
        first_offset = max(
            min(held_offsets, default=self.start) + random.choice([0, 0, 0, 0, 1, 2, -2]), 0
        )
        last_offset = (
            first_offset + (random.choice([12, 5, 3, 1]) if len(types) == 1 else len(types)) - 1
        )
        if random.random() < FITS and first_offset in held_offsets:
            last_offset = next(
                offset
                for offset in range(first_offset, last_offset + 1)
                if offset == last_offset or offset + 1 not in held_offsets
            )
            types = types[: last_offset - first_offset + 1]
        acknowledgement = AcknowledgementBatch(
            first_offset=first_offset, last_offset=last_offset, types=tuple(types)
        )
        answer = self.partition.acknowledge(member, [acknowledgement], self.settings, self.now_ms)
        offsets = [
            offset for offset in range(first_offset, last_offset + 1) if offset >= self.start
        ]
        moved_records: list[InFlightRecord] = []
        is_refused = bool(offsets) and (
            last_offset not in self.records or not self.reaches(first_offset)
        )
        for offset in [] if is_refused else offsets:
            record = self.records.get(offset)
            if record is None:  # in a gap
                continue
            acknowledge_type = types[0] if len(types) == 1 else types[offset - first_offset]
            is_refused = record.state is not ACQUIRED or record.owner != member
            if is_refused:
                break
            if acknowledge_type is AcknowledgeType.RENEW:
                record.deadline_ms = self.now_ms + LOCK_MS
                continue
            is_rejected = (
                acknowledge_type is AcknowledgeType.REJECT and self.settings.has_dead_letter_topic
            )
            self.move(
                record,
                ARCHIVING if is_rejected else STATE_BY_ACKNOWLEDGEMENT[acknowledge_type],
                token=-1,
            )
            moved_records.append(record)
        assert isinstance(answer, Rejection) == is_refused
        self.met[f"refused {is_refused}, moved {bool(moved_records)}"] += 1
        if is_refused:
            for record in moved_records:
                self.roll_back(record)
        else:
            self.sent(answer, moved_records)

    def reaches(self, first_offset: int) -> bool:
        """Whether a batch begins at or below the offset, or the start offset is above it."""
        return first_offset < self.start or any(
            offset <= first_offset for offset, _ in self.shown(with_old=True)
        )

    def leave(self) -> None:
        member = self.member()
        write = self.partition.release(member, self.settings)
        moved_records = [record for record in self.records.values() if record.owner == member]
        for offset, record in self.records.items():
            if record.owner == member:
                self.move(record, ARCHIVED if offset < self.start else AVAILABLE, token=-1)
        self.sent(write, moved_records)

    def time_passes(self) -> None:
        self.now_ms += self.random.choice([1, LOCK_MS // 2, LOCK_MS])

    def locks_run_out(self) -> None:
        due_ms = self.partition.next_lock_deadline_ms()
        write = self.partition.expire_locks(self.now_ms, self.settings)
        moved_records = []
        for offset, record in self.records.items():
            if record.state is ACQUIRED and (record.deadline_ms or 0) <= self.now_ms:
                self.move(record, ARCHIVED if offset < self.start else AVAILABLE, token=None)
                record.deadline_ms = None
                moved_records.append(record)
        self.met["locks ran out"] += bool(moved_records)
        assert not moved_records or (due_ms is not None and due_ms <= self.now_ms)
        self.sent(write, moved_records, is_transition=False)

    def delete_records(self) -> None:
        if any(
            record.token is not None and record.state is AVAILABLE
            for record in self.records.values()
        ):
            return  # what Kafka makes of that is in test_in_flight.py
        self.log_start = min(self.log_start + self.random.randint(1, 9), self.log_end)
        self.log = [batch for batch in self.log if batch.last_offset >= self.log_start]
        self.move_log_start(self.log_start)

    def move_log_start(self, log_start: int) -> None:
        self.partition.move_log_start(log_start)
        if self.log_start <= self.start:
            return
        for offset, record in self.records.items():
            if self.start <= offset < self.log_start and record.state is AVAILABLE:
                record.state, record.owner = ARCHIVED, ""
        self.start = self.log_start
        self.end = max(self.end, self.start) if self.records else self.start

    def answer(self) -> None:
        token = self.random.choice(sorted(self.writes))
        is_accepted = self.writes.pop(token)
        moved_records = [record for record in self.records.values() if record.token == token]
        error = 0 if is_accepted else REFUSED
        concluded_write = self.partition.conclude(token, error, "text", self.now_ms)
        assert (concluded_write.rejection is not None) == (bool(moved_records) and not is_accepted)
        self.letters += concluded_write.dead_letters
        for record in moved_records:
            if is_accepted:
                record.token = record.deadline_ms = None
            else:
                self.roll_back(record)
        if is_accepted or not moved_records:
            self.move_start()

    def dead_letter_is_copied(self) -> None:
        letter: DeadLetter = self.letters.pop(0)
        write = self.partition.archive_dead_letter(letter.token)
        for offset in range(letter.first_offset, letter.last_offset + 1):
            record = self.records[offset]
            assert record.state is ARCHIVING
            record.state = ARCHIVED
        self.met["dead letters"] += 1
        self.sent(write, [], is_transition=False)

    def leader_moves(self) -> None:
        """Move the leader; the next leader loads the state that was written."""
        self.load()

    # The model

    def move(self, record: InFlightRecord, state: RecordState, token: int | None) -> None:
        is_spent = record.count >= self.settings.delivery_count_limit
        if state is AVAILABLE and is_spent:
            state = ARCHIVING if self.settings.has_dead_letter_topic else ARCHIVED
        record.before = (record.state, record.owner)
        record.state, record.owner, record.token = state, "", token

    def roll_back(self, record: InFlightRecord) -> None:
        record.token = None
        if record.deadline_ms is None or record.deadline_ms > self.now_ms:
            record.state, record.owner = record.before
            self.met["taken back"] += 1
            return
        is_spent = record.count >= self.settings.delivery_count_limit
        self.met[f"taken back after its lock, spent {is_spent}"] += 1
        if is_spent and record.state is ARCHIVING:
            self.is_count_exact = False  # as in Kafka: complete, and not counted
        record.state, record.deadline_ms = ARCHIVED if is_spent else AVAILABLE, None

    def sent(
        self,
        write: StateWrite | Rejection | None,
        moved_records: list[InFlightRecord],
        *,
        is_transition: bool = True,
    ) -> None:
        """Draw whether the share coordinator takes a write, and note the changed records."""
        assert not isinstance(write, Rejection)
        if write is None:
            assert not moved_records
            return
        for record in moved_records:
            record.token = write.token if is_transition else None
        is_accepted = self.writes[write.token] = self.taken()
        if not is_accepted:
            return
        self.kept_start = write.state.start_offset
        for batch in write.state.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                self.kept[offset] = (batch.delivery_state, batch.delivery_count)
        self.kept = {
            offset: kept_state
            for offset, kept_state in self.kept.items()
            if offset >= self.kept_start
        }

    def move_start(self) -> None:
        """Move the model's start offset behind all complete records; near a gap, take Kafka's
        start.
        """
        first_record = self.records.get(self.start)
        has_gap = self.partition._records.gap is not None
        start_before = self.start
        open_offsets = [offset for offset, record in self.records.items() if not record.is_complete]
        if has_gap or first_record is None:
            latest = max(self.start, min(open_offsets, default=self.end + 1))
            assert self.partition.start_offset <= latest
            if self.partition.start_offset < self.start:  # to a gap, as in Kafka
                self.is_count_exact = False
            self.start, self.end = self.partition.start_offset, self.partition.end_offset
        elif first_record.is_complete and not open_offsets:
            self.start = self.end = max(self.records) + 1
        elif first_record.is_complete:
            self.start = max(self.start, min(open_offsets))
        self.met[f"gap {has_gap}, start moved {self.start > start_before}"] += 1
        if not self.partition.in_flight_batch_count:
            self.records.clear()
        self.records = {
            offset: record
            for offset, record in self.records.items()
            if offset >= self.start or not record.is_complete
        }

    # Comparison

    def shown(self, *, with_old: bool = False) -> list[tuple[int, InFlightRecord]]:
        offsets_and_records = []
        for batch in self.partition.in_flight_ranges():
            for offset in range(batch.first_offset, batch.last_offset + 1):
                if with_old or offset >= self.start:
                    offsets_and_records.append(
                        (offset, InFlightRecord(batch.state, batch.delivery_count, batch.member_id))
                    )
        return offsets_and_records

    def check(self) -> None:
        expected_states = {
            offset: (record.state, record.count, record.owner)
            for offset, record in self.records.items()
            if offset >= self.start
        }
        assert {
            offset: (record.state, record.count, record.owner) for offset, record in self.shown()
        } == expected_states
        assert (self.partition.start_offset, self.partition.end_offset) == (self.start, self.end)
        ranges = [*self.partition.holders()]
        assert all(
            (last_offset + 1, member) != (first_offset, other_member)
            for (_, last_offset, member), (first_offset, _, other_member) in pairwise(ranges)
        )
        assert {
            offset: member
            for first_offset, last_offset, member in ranges
            for offset in range(max(first_offset, self.start), last_offset + 1)
        } == {
            offset: owner
            for offset, record in self.records.items()
            if offset >= self.start
            and (owner := record.owner if record.token is None else record.before[1])
        }
        if self.is_count_exact:
            complete = [
                offset
                for offset, record in self.records.items()
                if offset >= self.start and record.state in TERMINAL
            ]
            assert self.partition.delivery_complete_count == len(complete)


MUST_BE_MET: Final = (
    *("taken 1", "taken 2", "taken 3", "taken in part", "taken back", "locks ran out"),
    *("refused False, moved True", "refused True, moved True", "refused True, moved False"),
    "taken back after its lock, spent False",
    *("taken back after its lock, spent True", "gap True, start moved True"),
    *("gap False, start moved True", "dead letters", "dead letters after a load"),
)


def test_a_share_partition_is_what_its_records_are() -> None:
    met_counts: Counter[str] = Counter()

    @settings(max_examples=WALKS, deadline=None)
    @given(seed=st.integers(0, 2**32))
    def walk(seed: int) -> None:
        walk = Walk(seed, met_counts)
        for _ in range(STEPS):
            walk.step()

    walk()
    missing = [word for word in MUST_BE_MET if not met_counts[word]]
    assert not missing, met_counts
