"""A tiny cluster that does nothing wrong, and what is seen of it: histories that no checker may
convict, whatever is asked of it, in any order, with answers lost on the way.

Not a Kafka: a few lists and rules. A transaction's markers come one by one, a leader may be new and
know less than the old one, producers are replaced, time out and lose answers, logs are cleaned and
cut off at their start, the topic is deleted and made again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from txnsim.types import TopicPartition
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import (
    Added,
    Began,
    Cleaned,
    Deleted,
    Described,
    Ended,
    Initialised,
    Isolation,
    Listed,
    Listing,
    Observation,
    Outcome,
    Position,
    PositionsRead,
    Producers,
    ProducerSeen,
    Read,
    Record,
    SentOffsets,
    Wrote,
)

TIMEOUT_MS: Final = 60_000
PARTITIONS: Final = (TopicPartition("t", 0), TopicPartition("t", 1))
INPUT: Final = TopicPartition("in", 0)
MARKER: Final = "marker"


class LogRecord(NamedTuple):
    """A record, or another entry, at one offset."""

    value: str
    key: str | None
    label: str | None


class Log:
    """The entries of one partition's log."""

    def __init__(self) -> None:
        self.entries: dict[int, LogRecord] = {}
        self.end = 0
        self.start = 0
        self.first_offsets: dict[str, int] = {}
        """Where each open transaction begins."""
        self.aborted: set[str] = set()
        self.leader_epoch = 0

    @property
    def stable(self) -> int:
        return max(min(self.first_offsets.values(), default=self.end), self.start)

    def append(self, entry: LogRecord) -> int:
        offset, self.end = self.end, self.end + 1
        self.entries[offset] = entry
        if entry.label is not None and entry.value != MARKER:
            self.first_offsets.setdefault(entry.label, offset)
        return offset

    def mark(self, label: str, *, is_commit: bool) -> None:
        self.append(LogRecord(MARKER, None, None))
        self.first_offsets.pop(label, None)
        if not is_commit:
            self.aborted.add(label)


class Producer:
    """A producer, and the coordinator's entry of its transactional id."""

    def __init__(self, id_number: int) -> None:
        self.id = f"app-{id_number}"
        self.producer_id = id_number
        self.epoch = -1
        self.label: str | None = None
        """Of the transaction that the program is in."""
        self.fenced = False
        self.instance = 0
        self.position = 0
        self.sequences: dict[TopicPartition, int] = {}
        # The coordinator
        self.state = "Empty"
        self.partitions: list[TopicPartition] = []
        self.began_ms = 0
        self.pending_position: int | None = None
        self.commits = False

    @property
    def who(self) -> str:
        return f"{self.id}#{self.instance}"

    @property
    def group(self) -> str:
        return f"group of {self.id}"

    @property
    def busy(self) -> bool:
        """Whether the coordinator has decided and not completed the producer's transaction."""
        return self.state.startswith("Prepare")


class HealthyCluster:
    """It, its clients, and the history that they write.

    Args:
        choices: Numbers that decide what happens: which operation, on what, and how it is answered.
    """

    def __init__(self, choices: list[int]) -> None:
        self.history = History()
        self._choices = iter(choices)
        self._now_ms = 0
        self._number = 0
        self.logs = {topic_partition: Log() for topic_partition in PARTITIONS}
        self.producers = [Producer(1), Producer(2)]
        self._readers: dict[tuple[str, TopicPartition], int] = {}
        self._is_stopped = False
        self._sent_ms: int | None = None
        """When the requests were sent whose answers are late."""
        for producer in self.producers:
            self._initialise(producer)

    def run(self) -> History:
        """Run operations until all choices are used up."""
        operations: tuple[Callable[[], None], ...] = (
            self._begin_or_write,
            self._begin_or_write,
            self._begin_or_write,
            self._end_transaction,
            self._send_position,
            self._marker,
            self._marker,
            self._read,
            self._read,
            self._write_plainly,
            self._look_as_operator,
            self._pass_time,
            self._replace,
            self._new_leader,
            self._clean_log,
            self._delete,
            self._make_again,
            self._read_in_transaction,
        )
        while not self._is_stopped:
            operations[self._pick(len(operations))]()
        return self.history

    def settle(self) -> None:
        """End all transactions, write all markers, and read everything by another reader."""
        for producer in self.producers:
            if producer.state == "Ongoing":
                self._decide(producer, is_commit=False)
            self._finish(producer)
            self._initialise(producer)
        for topic_partition, log in self.logs.items():
            self._readers["last", topic_partition] = log.start
            for _ in range(2):
                self._deliver("last", topic_partition, upto=log.end)

    # Chance and time

    def _pick(self, choice_count: int) -> int:
        number = next(self._choices, None)
        self._is_stopped = number is None
        return (number or 0) % choice_count

    def _note_observation(
        self, observation_class: type[Observation], client_name: str, **observation_fields: object
    ) -> None:
        observation_fields.setdefault(
            "asked_ms", self._now_ms if self._sent_ms is None else self._sent_ms
        )
        self._now_ms += 1
        self.history.add(
            observation_class(at_ms=self._now_ms, who=client_name, **observation_fields)
        )  # type: ignore[arg-type] # a kind of Seen, and its own fields

    def _outcome(self) -> tuple[bool, Outcome]:
        """Draw whether a request takes effect, and which answer its sender gets."""
        return (
            (True, Outcome.OK),
            (True, Outcome.OK),
            (True, Outcome.OK),
            (True, Outcome.UNKNOWN),
            (False, Outcome.UNKNOWN),
        )[self._pick(5)]

    # Producers

    def _producer(self) -> Producer:
        return self.producers[self._pick(len(self.producers))]

    def _initialise(self, producer: Producer) -> None:
        """Initialise the producer again; its open transaction is aborted."""
        if producer.state == "Ongoing":
            self._decide(producer, is_commit=False)
        self._finish(producer)
        producer.epoch += 1
        producer.label, producer.fenced, producer.state = None, False, "Empty"
        producer.sequences = {}
        self._note_observation(
            Initialised,
            producer.who,
            transactional_id=producer.id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            timeout_ms=TIMEOUT_MS,
        )

    def _replace(self) -> None:
        producer = self._producer()
        old_client, transaction_label = producer.who, producer.label
        producer.instance += 1
        self._initialise(producer)
        if transaction_label is not None and self._pick(2):
            self._note_observation(
                Ended,
                old_client,
                transaction=transaction_label,
                commit=True,
                outcome=Outcome.FAILED,
                error="PRODUCER_FENCED",
            )

    def _begin_or_write(self) -> None:
        producer = self._producer()
        if producer.label is None:
            self._number += 1
            producer.label = f"{producer.id}/{self._number}"
            self._note_observation(
                Began, producer.who, transaction=producer.label, transactional_id=producer.id
            )
            return
        topic_partition = PARTITIONS[self._pick(len(PARTITIONS))]
        if self._is_request_refused(producer, Added, partitions=(topic_partition,)):
            return
        if producer.state != "Ongoing":
            producer.state, producer.began_ms = "Ongoing", self._now_ms
        if topic_partition not in producer.partitions:
            producer.partitions.append(topic_partition)
        self._note_observation(
            Added, producer.who, transaction=producer.label, partitions=(topic_partition,)
        )
        self._write(producer, topic_partition)

    def _is_request_refused(
        self, producer: Producer, observation_class: type[Observation], **fields: object
    ) -> bool:
        """Whether the coordinator refuses a request; note the refusal."""
        error = "PRODUCER_FENCED" if producer.fenced else "CONCURRENT_TRANSACTIONS"
        if not (producer.fenced or producer.busy):
            return False
        self._note_observation(
            observation_class,
            producer.who,
            transaction=producer.label,
            outcome=Outcome.FAILED,
            error=error,
            **fields,
        )
        if producer.fenced:
            self._initialise(producer)
        return True

    def _write(self, producer: Producer, topic_partition: TopicPartition) -> None:
        assert producer.label is not None
        self._number += 1
        record_value = f"v{self._number}"
        key = (None, None, f"key of {producer.id}")[self._pick(3)]
        has_effect, outcome = self._outcome()
        offset = -1
        if has_effect:
            offset = self.logs[topic_partition].append(LogRecord(record_value, key, producer.label))
        sequence = producer.sequences.get(topic_partition, 0)
        producer.sequences[topic_partition] = sequence + 1
        is_told = outcome is Outcome.OK and self._pick(4) > 0
        self._note_observation(
            Wrote,
            producer.who,
            transaction=producer.label,
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            value=record_value,
            key=key,
            item=record_value,
            outcome=outcome,
            offset=offset if is_told else -1,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            sequence=sequence,
        )
        if outcome is Outcome.UNKNOWN:  # a careful program gives up
            self._initialise_after(producer, is_commit=False)

    def _initialise_after(self, producer: Producer, *, is_commit: bool) -> None:
        assert producer.label is not None
        self._note_observation(
            Ended,
            producer.who,
            transaction=producer.label,
            commit=is_commit,
            outcome=Outcome.UNKNOWN,
            asked_ms=self._now_ms,
        )
        self._initialise(producer)

    def _end_transaction(self) -> None:
        producer = self._producer()
        is_commit = self._pick(3) > 0
        if producer.label is None or producer.state != "Ongoing":
            if producer.label is not None and producer.fenced:
                self._is_request_refused(producer, Ended, commit=is_commit)
            return
        has_effect, outcome = self._outcome()
        if has_effect:
            self._decide(producer, is_commit=is_commit)
        if outcome is Outcome.UNKNOWN:
            self._initialise_after(producer, is_commit=is_commit)
            return
        self._note_observation(
            Ended,
            producer.who,
            transaction=producer.label,
            commit=is_commit,
            asked_ms=self._now_ms,
        )
        producer.label = None

    def _send_position(self) -> None:
        producer = self._producer()
        if producer.label is None or producer.state != "Ongoing":
            return
        self._positions(producer.who, producer, transaction=producer.label)
        self._number += 1
        producer.pending_position = self._number
        self._note_observation(
            SentOffsets,
            producer.who,
            transaction=producer.label,
            group=producer.group,
            topic=INPUT.topic,
            partition=INPUT.partition,
            position=self._number,
        )

    def _positions(self, client_name: str, producer: Producer, *, transaction: str | None) -> None:
        position = Position(topic="in", partition=0, offset=producer.position)
        self._note_observation(
            PositionsRead,
            client_name,
            transaction=transaction,
            group=producer.group,
            positions=(position,),
        )

    def _write_plainly(self) -> None:
        topic_partition = PARTITIONS[self._pick(len(PARTITIONS))]
        self._number += 1
        record_value = f"v{self._number}"
        has_effect, outcome = self._outcome()
        key = (None, "plain key")[self._pick(2)]
        offset = (
            self.logs[topic_partition].append(LogRecord(record_value, key, None))
            if has_effect
            else -1
        )
        self._note_observation(
            Wrote,
            "bystander",
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            value=record_value,
            key=key,
            outcome=outcome,
            offset=offset if outcome is Outcome.OK else -1,
        )

    # Coordinator

    def _decide(self, producer: Producer, *, is_commit: bool) -> None:
        producer.state = "PrepareCommit" if is_commit else "PrepareAbort"
        producer.commits = is_commit

    def _marker(self) -> None:
        """Let one owed marker arrive."""
        producer = self._producer()
        if not producer.busy:
            return
        label = self._label_in_log(producer)
        if producer.partitions:
            topic_partition = producer.partitions.pop(self._pick(len(producer.partitions)))
            if label is not None:
                self.logs[topic_partition].mark(label, is_commit=producer.commits)
            else:
                self.logs[topic_partition].append(LogRecord(MARKER, None, None))
        if not producer.partitions:
            if producer.pending_position is not None and producer.commits:
                producer.position = producer.pending_position
            producer.pending_position = None
            producer.state = "CompleteCommit" if producer.commits else "CompleteAbort"

    def _label_in_log(self, producer: Producer) -> str | None:
        """The transaction of this producer that is open somewhere: it has one at a time."""
        for log in self.logs.values():
            for label in log.first_offsets:
                if label.startswith(producer.id + "/"):
                    return label
        return None

    def _finish(self, producer: Producer) -> None:
        while producer.busy:
            label = self._label_in_log(producer)
            for topic_partition in producer.partitions:
                if label is not None:
                    self.logs[topic_partition].mark(label, is_commit=producer.commits)
            producer.partitions = []
            if producer.pending_position is not None and producer.commits:
                producer.position = producer.pending_position
            producer.pending_position = None
            producer.state = "CompleteCommit" if producer.commits else "CompleteAbort"

    def _pass_time(self) -> None:
        """Let time pass: finish decided transactions, and abort those beyond their timeout."""
        for producer in self.producers:
            self._finish(producer)
        self._now_ms += (1_000, 30_000, 70_000)[self._pick(3)]
        for producer in self.producers:
            is_too_old = self._now_ms - producer.began_ms > TIMEOUT_MS
            if producer.state == "Ongoing" and is_too_old:
                self._decide(producer, is_commit=False)
                self._finish(producer)
                producer.fenced = True

    # Readers

    def _read(self) -> None:
        client_name = ("reader", "another", "dirty")[self._pick(3)]
        self._deliver(client_name, PARTITIONS[self._pick(len(PARTITIONS))], upto=self._pick(7) + 1)

    def _read_in_transaction(self) -> None:
        """Let a program read all records as a part of its transaction."""
        producer = self._producer()
        if producer.label is None:
            return
        for topic_partition, log in self.logs.items():
            self._readers[producer.who, topic_partition] = log.start
            self._deliver(producer.who, topic_partition, upto=log.end, transaction=producer.label)

    def _deliver(
        self,
        client_name: str,
        topic_partition: TopicPartition,
        *,
        upto: int,
        transaction: str | None = None,
    ) -> None:
        """Deliver at most ``upto`` entries of a partition to a reader."""
        log = self.logs[topic_partition]
        asked_offset = self._readers.setdefault((client_name, topic_partition), log.start)
        common: dict[str, object] = {
            "topic": topic_partition.topic,
            "partition": topic_partition.partition,
            "asked": asked_offset,
            "transaction": transaction,
            "log_start_offset": log.start,
            "leader_epoch": log.leader_epoch,
        }
        if not log.start <= asked_offset <= log.end:
            self._note_observation(
                Read, client_name, next_offset=asked_offset, error="OFFSET_OUT_OF_RANGE", **common
            )
            self._readers[client_name, topic_partition] = log.start
            return
        is_dirty = client_name == "dirty"
        next_offset = max(
            asked_offset, min(asked_offset + upto, log.end if is_dirty else log.stable)
        )
        records = tuple(
            Record(offset=offset, value=entry.value, key=entry.key)
            for offset, entry in sorted(log.entries.items())
            if asked_offset <= offset < next_offset and entry.value != MARKER
            if is_dirty or entry.label not in log.aborted
        )
        self._readers[client_name, topic_partition] = next_offset
        self._note_observation(
            Read,
            client_name,
            isolation=Isolation.READ_UNCOMMITTED if is_dirty else Isolation.READ_COMMITTED,
            records=records,
            next_offset=next_offset,
            last_stable_offset=-1 if is_dirty else log.stable,
            high_watermark=log.end,
            **common,
        )

    # Operators

    def _look_as_operator(self) -> None:
        producer = self._producer()
        match self._pick(4):
            case 0:
                self._note_observation(
                    Described,
                    "operator",
                    transactional_id=producer.id,
                    state=producer.state,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    timeout_ms=TIMEOUT_MS,
                    start_ms=producer.began_ms,
                    partitions=tuple(producer.partitions),
                )
            case 1:
                listings = tuple(
                    Listing(
                        transactional_id=producer.id,
                        producer_id=producer.producer_id,
                        state=producer.state,
                    )
                    for producer in self.producers
                )
                self._note_observation(Listed, "operator", transactions=listings)
            case 2:
                self._positions("operator", producer, transaction=None)
            case _:
                topic_partition = PARTITIONS[self._pick(len(PARTITIONS))]
                self._note_observation(
                    Producers,
                    "operator",
                    topic=topic_partition.topic,
                    partition=topic_partition.partition,
                    producers=tuple(self._open_on(topic_partition)),
                )

    def _open_on(self, topic_partition: TopicPartition) -> list[ProducerSeen]:
        open_producers = []
        for producer in self.producers:
            offsets = [
                offset
                for label, offset in self.logs[topic_partition].first_offsets.items()
                if label.startswith(producer.id + "/")
            ]
            open_producers.append(
                ProducerSeen(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    start_offset=min(offsets, default=None),
                )
            )
        return open_producers

    # Logs

    def _new_leader(self) -> None:
        """Elect a new leader, which does not know the old leader's last stable offset yet."""
        topic_partition = PARTITIONS[self._pick(len(PARTITIONS))]
        log = self.logs[topic_partition]
        log.leader_epoch += 1
        asked_offset = max(self._readers.get(("reader", topic_partition), log.start), log.start)
        earlier_offset = max(log.start, min(asked_offset, log.stable) - self._pick(3))
        self._note_observation(
            Read,
            "reader",
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            asked=asked_offset,
            next_offset=asked_offset,
            last_stable_offset=earlier_offset,
            high_watermark=earlier_offset,
            log_start_offset=log.start,
            leader_epoch=log.leader_epoch,
        )
        log.leader_epoch += 1

    def _clean_log(self) -> None:
        """Keep only the last record of each key below the last stable offset."""
        topic_partition = PARTITIONS[self._pick(len(PARTITIONS))]
        log = self.logs[topic_partition]
        last_offsets: dict[str, int] = {}
        for offset, entry in sorted(log.entries.items()):
            if entry.key is not None and offset < log.stable and entry.label not in log.aborted:
                offset_before = last_offsets.get(entry.key)
                if offset_before is not None:
                    del log.entries[offset_before]
                last_offsets[entry.key] = offset
        self._note_observation(
            Cleaned, "operator", topic=topic_partition.topic, partition=topic_partition.partition
        )

    def _delete(self) -> None:
        """Delete the oldest records, at most up to the last stable offset."""
        log = self.logs[PARTITIONS[self._pick(len(PARTITIONS))]]
        log.start = min(log.start + self._pick(4), log.stable)

    def _make_again(self) -> None:
        """The topic is deleted and made again. Somebody may have been answered by the old one, and
        hear of it when the deletion is over.
        """
        if self._pick(4):
            return
        has_effect, outcome = self._outcome()
        asked_ms, old_log_by_partition = self._now_ms, self.logs
        late_action = (None, self._read, self._write_plainly, self._look_as_operator)[self._pick(4)]
        self._note_observation(Deleted, "operator", topic="t", asked_ms=asked_ms, outcome=outcome)
        if late_action is not None:
            self._sent_ms = asked_ms
            late_action()
            self._sent_ms = None
        if has_effect:
            self.logs = {topic_partition: Log() for topic_partition in old_log_by_partition}
