"""Random small histories at the edge: a third of them is convicted, each judge convicts some and
acquits most.

Half are drawn line by line from a few names, offsets and times, with weights that depend on a
theme. Half are textbook histories in which a few lines were left out, repeated, moved, altered, or
added from a neighbour.
They need not be what a cluster can do. The judges are asked what such a history proves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from random import Random  # noqa: TID251 - the type of a stream, which txnsim.runtime draws from the seed
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from txnsim.types import TopicPartition
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import (
    Aborted,
    AcknowledgeType,
    AcquiredRecord,
    Added,
    Began,
    Cleaned,
    Deleted,
    Described,
    Ended,
    Healed,
    Initialised,
    Isolation,
    Listed,
    Listing,
    Outcome,
    Position,
    PositionsRead,
    Producers,
    ProducerSeen,
    Read,
    Record,
    Seen,
    SentOffsets,
    ShareAcknowledged,
    ShareFetched,
    ShareLeft,
    ShareStart,
    Wrote,
)

T = TypeVar("T")

TEXTBOOK: Final = sorted((Path(__file__).parent.parent / "histories").glob("*.jsonl"))
PACES_MS: Final = ((1,), (1, 1, 10, 1_000), (1, 10, 40_000, 70_000), (1, 70_000, 1_300_000))
LENGTH_MIN, LENGTH_MAX = 3, 16

ERRORS: Final = (
    *("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"),
    *("INVALID_PRODUCER_ID_MAPPING", "UNKNOWN_PRODUCER_ID", "CONCURRENT_TRANSACTIONS"),
    *("OUT_OF_ORDER_SEQUENCE_NUMBER", "NOT_COORDINATOR"),
)
STATES: Final = (
    *("Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Empty"),
    "PrepareEpochFence",
)

THEMES: Final[Sequence[dict[str, int]]] = (
    # Writes and reads
    {"began": 2, "wrote": 5, "ended": 4, "read": 5, "healed": 1},
    {"wrote": 5, "ended": 2, "read": 3},
    {"began": 2, "wrote": 5, "ended": 1, "read": 1},
    {"wrote": 4, "ended": 3, "read": 4, "deleted": 1},
    # Positions
    {"ended": 1, "sent_offsets": 4, "positions_read": 4},
    {"wrote": 1, "ended": 2, "read": 5, "sent_offsets": 3, "positions_read": 1},
    {"wrote": 3, "ended": 2, "read": 4, "sent_offsets": 4, "deleted": 1},
    # Order of one producer
    {"wrote": 9, "read": 1},
    # Readers, logs, coordinators
    {"read": 9, "described": 1},
    {"producers": 5, "described": 4, "listed": 1, "read": 5},
    {"producers": 5, "described": 3, "read": 6, "wrote": 3, "ended": 2, "cleaned": 2},
    {"described": 9, "wrote": 1, "healed": 1, "read": 3},
    {"initialised": 1, "wrote": 3, "ended": 4, "healed": 1},
    # Producers
    {"initialised": 1, "began": 1, "added": 3, "wrote": 4, "sent_offsets": 2, "ended": 2},
    {"initialised": 2, "began": 2, "wrote": 5, "ended": 3, "aborted": 1, "described": 1},
    {"initialised": 1, "wrote": 5, "sent_offsets": 1, "ended": 1},
    # Share groups
    {"wrote": 4, "ended": 2, "share_fetched": 6, "share_acknowledged": 3, "share_start": 2},
    {"wrote": 2, "share_fetched": 6, "share_acknowledged": 1, "share_left": 1, "share_start": 1},
    # All at once
    {
        **{"initialised": 2, "began": 2, "added": 2, "wrote": 4, "sent_offsets": 2, "ended": 3},
        **{"read": 4, "positions_read": 2, "described": 2, "listed": 1, "producers": 2},
        **{"aborted": 1, "cleaned": 1, "deleted": 1, "healed": 1},
    },
)


def small_history(random: Random) -> list[Seen]:
    is_drawn = random.random() < 0.5
    return _in_order(_Drawing(random).lines() if is_drawn else _altered_example(random))


def _in_order(observations: Iterable[Seen]) -> list[Seen]:
    """As the page on histories asks for it: by the time of the answers; and a client asks after its
    last answer.
    """
    last_answer_ms: dict[str, int] = {}
    lines_in_order = []
    for line in sorted(observations, key=lambda line: line.at_ms):
        if line.asked_ms is not None:
            asked_ms = max(min(line.asked_ms, line.at_ms), last_answer_ms.get(line.who, 0))
            line = replace(line, asked_ms=asked_ms)
        last_answer_ms[line.who] = line.at_ms
        lines_in_order.append(line)
    return lines_in_order


# Line by line


class _Drawing:
    """A history that is being drawn."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._theme = random.choice(THEMES)
        self._trouble = random.choice((0.02, 0.1, 0.4))
        self._usually = random.choice((0.3, 0.8, 0.97))
        self._pace_ms = random.choice(PACES_MS)
        self._ids = ("a", "b", "c")[: random.randint(1, 3)]
        self._labels = [(f"T{number}", random.choice(self._ids)) for number in range(4)]
        self._labels = self._labels[: random.randint(1, 4)]
        self._places = [TopicPartition("t", 0), TopicPartition("t", 1)][: random.randint(1, 2)]
        self._keys = random.choice(((None,), (None, "k"), ("k", "l")))
        self._errors = self._choose(ERRORS[:2], ERRORS[2:5], ERRORS[5:6], ERRORS[6:7], ERRORS)
        self._logs: dict[TopicPartition, list[Record]] = {
            topic_partition: [] for topic_partition in self._places
        }
        for topic_partition in self._places if self._chance(0.5) else ():
            values = ("x0", "x1", "x2")[: random.randint(1, 3)]
            self._logs[topic_partition] = [
                Record(offset=index, value=value) for index, value in enumerate(values)
            ]
        self._known: list[Wrote] = []
        self._state = random.choice(STATES)
        self._start_ms = random.choice((0, 0, None, 10))
        self._start_offset = random.choice((0, 0, 1))
        self._epochs = dict.fromkeys(self._ids, 0)
        self._now_ms = 0

    def lines(self) -> list[Seen]:
        lines: list[Seen] = []
        if self._chance(0.7) and ({"began", "initialised"} & self._theme.keys()):
            for transactional_id in self._ids:
                lines.append(self._initialised(transactional_id))
                for label, owner in self._labels:
                    if owner == transactional_id and self._chance(0.6):
                        lines.append(self._began(label, owner))
        steps = [f"_{name}" for name in self._theme]
        weights = list(self._theme.values())
        for _ in range(self._random.randint(LENGTH_MIN, LENGTH_MAX)):
            step: Callable[[], Seen] = getattr(self, self._random.choices(steps, weights)[0])
            lines.append(step())
        if "ended" in self._theme and self._chance(0.4):
            lines += [self._ended(*label_and_owner) for label_and_owner in self._labels]
        return lines

    # Chance

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _choose(self, *choices: T) -> T:
        return self._random.choice(choices)

    def _usual(self, usual: T, *other_choices: T) -> T:
        """The first one, more or less often in each history."""
        return usual if self._chance(self._usually) else self._choose(*other_choices)

    def _when(self, client_name: str) -> dict[str, Any]:
        self._now_ms += self._choose(*self._pace_ms)
        time_fields = {}
        if self._chance(0.3):
            time_fields = {"asked_ms": self._now_ms - self._choose(0, 1, 5, 2_000)}
        return {"at_ms": self._now_ms, "who": client_name, **time_fields}

    def _outcome(self) -> dict[str, Any]:
        if not self._chance(self._trouble + 0.1):
            return {}
        outcome = self._choose(Outcome.FAILED, Outcome.FAILED, Outcome.UNKNOWN)
        return {"outcome": outcome, "error": self._choose(*self._errors)}

    def _identity(self, transactional_id: str) -> dict[str, Any]:
        if not self._chance(0.6):
            return {}
        producer_id, epoch = self._producer_of(transactional_id), self._epochs[transactional_id]
        if self._chance(self._trouble / 2):
            producer_id, epoch = self._choose(1, 2), self._choose(0, 1, 2)
        return {"producer_id": producer_id, "producer_epoch": epoch}

    def _producer_of(self, transactional_id: str) -> int:
        return self._ids.index(transactional_id) + 1

    def _client_name(self, transactional_id: str) -> str:
        return "z" if self._chance(self._trouble / 2) else f"p{transactional_id}"

    def _offset(self, topic_partition: TopicPartition) -> int:
        end = len(self._logs[topic_partition])
        return end if self._chance(0.3) else self._random.randint(0, end)

    # Producers

    def _initialised(self, chosen_id: str | None = None) -> Seen:
        transactional_id = chosen_id or self._choose(*self._ids)
        outcome = self._outcome()
        if not outcome and self._chance(0.5):
            self._epochs[transactional_id] = self._choose(0, 1, 2)
        given_identity = {
            "producer_id": self._producer_of(transactional_id),
            "producer_epoch": self._epochs[transactional_id],
        }
        return Initialised(
            **self._when(self._client_name(transactional_id)),
            transactional_id=transactional_id,
            timeout_ms=self._usual(60_000, None, 1_000, 120_000),
            **(outcome or given_identity),
        )

    def _began(self, transaction_label: str | None = None, owner: str | None = None) -> Seen:
        if transaction_label is None or owner is None:
            transaction_label, owner = self._choose(*self._labels)
        return Began(
            **self._when(f"p{owner}"), transaction=transaction_label, transactional_id=owner
        )

    def _added(self) -> Seen:
        transaction_label, owner = self._choose(*self._labels)
        return Added(
            **self._when(self._client_name(owner)),
            transaction=transaction_label,
            partitions=self._choose((), tuple(self._places), tuple(self._places[:1])),
            **self._outcome(),
            **self._identity(owner),
        )

    def _wrote(self) -> Seen:
        if self._known and self._chance(0.12):
            earlier_wrote = self._choose(*self._known)
            return replace(earlier_wrote, **self._when(earlier_wrote.who), **self._outcome())
        label, owner = self._choose(*self._labels)
        topic_partition = self._choose(*self._places)
        log, outcome = self._logs[topic_partition], self._outcome()
        is_new = not self._chance(0.1)
        record_value = f"v{len(self._known)}" if is_new else self._choose("v0", "v1", "v2", None)
        key = self._choose(*self._keys)
        offset = len(log) if self._chance(0.9) else self._choose(-1, 0, 1, len(log) + 1)
        if outcome.get("outcome") is not Outcome.FAILED:
            log.append(Record(offset=len(log), value=record_value, key=key))
        observed_write = Wrote(
            **self._when(self._client_name(owner)),
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            transaction=None if self._chance(0.15) else label,
            value=record_value,
            key=key,
            item=self._choose(None, None, "i", "j", f"i{len(self._known)}"),
            of=self._inputs(),
            offset=-1 if outcome else offset,
            **outcome,
            **self._identity(owner),
            sequence=self._choose(None, len(log), self._choose(0, 1, 2, 3)),
        )
        self._known.append(observed_write)
        return observed_write

    def _inputs(self) -> tuple[Position, ...]:
        if not self._chance(0.2):
            return ()
        topic_partition = self._choose(*self._places)
        return (
            Position(
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                offset=self._offset(topic_partition),
            ),
        )

    def _sent_offsets(self) -> Seen:
        label, owner = self._choose(*self._labels)
        topic_partition = self._places[0]
        return SentOffsets(
            **self._when(self._choose("r", "s", f"p{owner}")),
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            transaction=None if self._chance(0.2) else label,
            group=self._choose("g", "g", "g", "h"),
            position=self._offset(topic_partition),
            member=self._choose(None, None, "r", "s"),
            **self._outcome(),
            **self._identity(owner),
        )

    def _ended(self, transaction_label: str | None = None, owner: str | None = None) -> Seen:
        if transaction_label is None or owner is None:
            transaction_label, owner = self._choose(*self._labels)
        next_fields: dict[str, Any] = {}
        if self._chance(0.3):
            next_fields = {
                "next_producer_id": self._choose(None, self._producer_of(owner), 9),
                "next_producer_epoch": self._choose(0, 1, 2),
            }
        return Ended(
            **self._when(self._client_name(owner)),
            transaction=transaction_label,
            commit=self._chance(0.75),
            **self._outcome(),
            **self._identity(owner),
            **next_fields,
        )

    # Readers

    def _read(self) -> Seen:
        topic_partition = self._choose(*self._places)
        log = self._logs[topic_partition]
        end = len(log) + self._choose(0, 0, 1, 2)
        asked_offset = 0 if self._chance(0.6) else self._choose(*range(end + 1))
        end_offset = (
            asked_offset if self._chance(0.25) else self._choose(end, *range(asked_offset, end + 1))
        )
        records = [
            record
            for record in log[asked_offset:end_offset]
            if record.value is None or not self._chance(0.2)
        ]
        if records and self._chance(self._trouble / 2):
            moved_record = self._choose(*records)
            records.append(replace(moved_record, offset=self._choose(0, 1, 2, 3)))
        stable_offset = self._usual(
            *self._choose((end, end_offset), (end_offset, -1)), *range(end + 1)
        )
        return Read(
            **self._when(self._usual("r", "s", "pa")),
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            transaction=self._choose(None, self._choose(*self._labels)[0]),
            isolation=self._choose(*[Isolation.READ_COMMITTED] * 5, Isolation.READ_UNCOMMITTED),
            asked=asked_offset,
            records=tuple(records),
            next_offset=end_offset,
            whole=self._chance(0.3),
            last_stable_offset=stable_offset,
            high_watermark=self._usual(end + 1, end, max(stable_offset, end), -1),
            log_start_offset=self._usual(0, -1, 1),
            leader_epoch=self._usual(None, 0, 1),
            error="NOT_LEADER_OR_FOLLOWER" if self._chance(self._trouble / 8) else "",
        )

    def _positions_read(self) -> Seen:
        topic_partition = self._places[0]
        offset = self._offset(topic_partition)
        position = Position(
            topic=topic_partition.topic, partition=topic_partition.partition, offset=offset
        )
        return PositionsRead(
            **self._when(self._choose("r", "s", "pa")),
            group=self._choose("g", "g", "g", "h"),
            positions=(position,) if self._chance(0.9) else (),
            transaction=self._choose(None, self._choose(*self._labels)[0]),
            error="UNSTABLE_OFFSET_COMMIT" if self._chance(self._trouble / 8) else "",
        )

    def _share_fetched(self) -> Seen:
        topic_partition = self._places[0]
        return ShareFetched(
            **self._when(self._choose("m", "n")),
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            group="g" if self._chance(0.9) else "h",
            isolation=self._choose(*Isolation),
            records=tuple(
                AcquiredRecord(
                    offset=record.offset, value=record.value, delivery_count=self._usual(1, 2, 3)
                )
                for record in self._logs[topic_partition]
                if self._chance(0.4)
            ),
            lock_ms=self._usual(30_000, None, 100),
            delivery_limit=self._choose(None, 2),
            leader_epoch=self._usual(None, 0, 1),
            **(self._outcome() if self._chance(0.3) else {}),
        )

    def _share_acknowledged(self) -> Seen:
        topic_partition = self._places[0]
        first_offset = self._offset(topic_partition)
        return ShareAcknowledged(
            **self._when(self._choose("m", "n")),
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            group="g",
            first=first_offset,
            last=first_offset + self._choose(0, 0, 1),
            type=self._choose(*AcknowledgeType),
            **self._outcome(),
        )

    def _share_left(self) -> Seen:
        return ShareLeft(**self._when(self._choose("m", "n")), group="g")

    def _share_start(self) -> Seen:
        topic_partition = self._places[0]
        return ShareStart(
            **self._when("o"),
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            group="g",
            start_offset=self._choose(0, self._offset(topic_partition), -1),
            is_set=self._chance(0.1),
        )

    # Operators

    def _described(self) -> Seen:
        transactional_id = self._ids[0] if self._chance(0.7) else self._choose(*self._ids)
        error = ""
        if self._chance(self._trouble / 3):
            error = self._choose("TRANSACTIONAL_ID_NOT_FOUND", "NOT_COORDINATOR")
        return Described(
            **self._when("o"),
            transactional_id=transactional_id,
            state=self._usual(self._state, *STATES),
            producer_id=self._usual(1, self._producer_of(transactional_id), -1),
            producer_epoch=self._usual(0, 1),
            timeout_ms=self._usual(60_000, None, 2_147_483_647, 120_000),
            start_ms=self._usual(self._start_ms, 0, None, 1_000, -1),
            partitions=tuple(self._places[: self._choose(0, 1, 2)]),
            error=error,
        )

    def _listed(self) -> Seen:
        listing = Listing(
            transactional_id="a", producer_id=self._choose(1, 2), state=self._choose(*STATES)
        )
        return Listed(**self._when("o"), transactions=self._choose((), (listing,)))

    def _producers(self) -> Seen:
        topic_partition = self._places[0] if self._chance(0.8) else self._choose(*self._places)
        producer_seen = ProducerSeen(
            producer_id=self._usual(1, 2),
            producer_epoch=0,
            start_offset=self._usual(self._start_offset, 0, 1, None),
        )
        return Producers(
            **self._when("o"),
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            producers=(producer_seen,) if self._chance(0.9) else (),
            error="NOT_LEADER_OR_FOLLOWER" if self._chance(self._trouble / 8) else "",
        )

    def _aborted(self) -> Seen:
        topic_partition = self._choose(*self._places)
        return Aborted(
            **self._when("o"),
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            producer_id=self._choose(1, 2, 3),
            **self._outcome(),
        )

    def _cleaned(self) -> Seen:
        topic_partition = self._places[0]
        return Cleaned(
            **self._when("o"), topic=topic_partition.topic, partition=topic_partition.partition
        )

    def _deleted(self) -> Seen:
        time_fields = self._when("o")
        time_fields["asked_ms"] = time_fields["at_ms"] - self._choose(0, 1, 10)
        for topic_partition in self._places:
            self._logs[topic_partition].clear()
        return Deleted(**time_fields, topic="t", **self._outcome())

    def _healed(self) -> Seen:
        return Healed(**self._when("o"))


# From a textbook


def _altered_example(random: Random) -> list[Seen]:
    path = random.choice(TEXTBOOK)
    kind = path.name.partition(".")[0]
    neighbours = [
        neighbour_path
        for neighbour_path in TEXTBOOK
        if neighbour_path.name.partition(".")[0] == kind
    ]
    lines = list(_read_example(path))
    for _ in range(random.choice((0, 1, 1, 2, 3, 4))):
        if not lines:
            break
        line_index = random.randrange(len(lines))
        chance = random.random()
        if chance < 0.15:
            del lines[line_index]
        elif chance < 0.4:
            lines.append(random.choice(_read_example(random.choice(neighbours))))
        elif chance < 0.5:
            later_ms = random.choice((1, 10_000, 70_000, 1_300_000))
            lines.append(replace(lines[line_index], at_ms=lines[-1].at_ms + later_ms))
        elif chance < 0.6:
            lines[line_index] = replace(lines[line_index], at_ms=random.choice(lines).at_ms + 1)
        else:
            lines[line_index] = _with_another_field(random, lines[line_index], random.choice(lines))
    return lines


@cache
def _read_example(path: Path) -> Sequence[Seen]:
    return tuple(History.from_lines(path.read_bytes()))


def _with_another_field(random: Random, observation: Seen, like: Seen) -> Seen:
    """The line with one field replaced by another line's value, left out, or changed a little."""
    names = [
        field_name
        for field_name in observation.__struct_fields__
        if field_name not in ("seen", "event", "at_ms")
    ]
    field_name = random.choice(names)
    field_value = getattr(observation, field_name)
    if field_name == "error":
        other_value: object = random.choice((*ERRORS, ""))
    elif field_name == "outcome":
        other_value = random.choice(list(Outcome))
    elif field_name == "state":
        other_value = random.choice(STATES)
    elif isinstance(field_value, tuple) and field_value and random.random() < 0.5:
        other_value = field_value[:-1]
    elif isinstance(field_value, bool):
        other_value = not field_value
    elif isinstance(field_value, int):
        other_value = max(field_value + random.choice((-1, 1, -100_000, 100_000)), -1)
    else:
        other_value = getattr(like, field_name, field_value)
    try:
        return msgspec.convert(
            msgspec.to_builtins(replace(observation, **{field_name: other_value})),
            type(observation),
            strict=True,
        )
    except msgspec.ValidationError:
        return observation  # such a line can't be written
