"""What happens in the corpus before its brokers stop for the first time: one function per topic.

Each step waits for its acknowledgement, and nothing else writes to the same partition meanwhile, so
the notebook knows every offset without reading a log. Leaders are on broker 1, unless a story puts
one on broker 2.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from tests.spark.pipeline.corpus.actors import CODECS, Actor, Notebook, batch_of
from tests.spark.pipeline.corpus.raw_brokers import TRANSACTION, RawBrokers, wait_for
from tests.spark.pipeline.corpus.truth import (
    CommittedOffset,
    FinishedTransaction,
    OpenTransaction,
    Place,
    SentRecord,
    Span,
)
from txnsim.errors import ErrorCode
from txnsim.wire.batch import iter_batches

BOTH: Final = (1, 2)
SMALL: Final = {"internal.segment.bytes": "1024"}
"""Topic configs for segments of a few batches; only test settings of a broker allow that."""
TINY: Final = {"internal.segment.bytes": "512"}
CLEANED: Final = {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}
CLEANED_RECORDS: Final = 22
"""Greatest number of records and markers in a cleaned partition: the last values of eight keys,
eight markers, and the six records at the end.
"""
FORGETFUL: Final = {
    "transactional.id.expiration.ms": "3000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}
"""Properties of brokers that soon forget transactional ids."""
VERIFICATION: Final = "transaction.partition.verification.enable"
DAY_MS: Final = 86_400_000
UNKNOWN_PRODUCER: Final = 4_000_000
"""A producer id that no coordinator has ever given away."""


def levels(notebook: Notebook) -> None:
    """Transactions at each level of ``transaction.version``, and one left open at each level."""
    raw = notebook.raw
    raw.create_topic("levels", partitions=[BOTH] * 3)
    for transaction_version in (0, 1, 2):
        if transaction_version > 0:
            raw.set_transaction_version(transaction_version, is_upgrade=True)
            notebook.level = transaction_version
        partition = Place("levels", transaction_version)
        producer = Actor(notebook, f"level-{transaction_version}")
        producer.send(partition, "first", "second")
        producer.finish()
        producer.send(partition, "never")
        producer.finish(committed=False)
        staying_actor = Actor(notebook, f"level-{transaction_version}-open")
        staying_actor.send(partition, "staying")
        staying_actor.leave_open("open", f"left open at transaction.version {transaction_version}")
        producer.send(partition, "behind what is open")
        producer.finish()


def down_and_up(notebook: Notebook) -> None:
    """The level goes down to 1 and up to 2 again, with a transaction at each."""
    raw = notebook.raw
    raw.create_topic("down-and-up", partitions=[BOTH])
    partition = Place("down-and-up", 0)
    new_actor = Actor(notebook, "down-and-up-new", is_new=True)
    new_actor.send(partition, "in transactions v2")
    new_actor.finish()
    raw.set_transaction_version(1, is_upgrade=False)
    notebook.level = 1
    old_actor = Actor(notebook, "down-and-up-old")
    old_actor.send(partition, "in the old flow")
    old_actor.finish(committed=False)
    raw.set_transaction_version(2, is_upgrade=True)
    notebook.level = 2
    new_actor.send(partition, "and again in v2")
    new_actor.finish(committed=False)


def orders(notebook: Notebook) -> Actor:
    """Producers of both protocols and without transactions, side by side in all codecs, over many
    segments. One transaction stays open from the first segment to the last; its actor is returned.
    """
    notebook.raw.create_topic("orders", partitions=[BOTH] * 3, configs=SMALL)
    first_partition, second_partition, third_partition = (
        Place("orders", index) for index in range(3)
    )
    long_actor = Actor(notebook, "orders-long")
    long_actor.send(first_partition, "long 0")
    old_actor = Actor(notebook, "orders-old")
    new_actor = Actor(notebook, "orders-new", is_new=True)
    for turn in range(12):
        codec = tuple(CODECS)[turn % len(CODECS)]
        values = [f"{codec} {turn} {'x' * 60} {index}" for index in range(4)]
        old_actor.send(first_partition, *values, codec=codec)
        new_actor.send(first_partition, *values[:2], codec=codec, key=f"key-{turn % 4}")
        old_actor.send(second_partition, *values, codec=codec)
        notebook.append(third_partition, notebook.stamp_records(*values), codec=codec)
        old_actor.finish(committed=turn % 3 != 0)
        new_actor.send(third_partition, values[0])
        if turn % 4 == 1:
            long_actor.send(first_partition, f"long {turn}", codec=codec)
        new_actor.finish(committed=turn % 4 != 0)
    long_actor.leave_open("open", "Ongoing over many segments")
    return long_actor


def codecs(notebook: Notebook) -> None:
    """A partition per codec, on one broker only: a committed, an aborted and an open
    transaction.
    """
    notebook.raw.create_topic("codecs", partitions=[(1,), (2,)] * 2 + [(1,)])
    for codec_index, codec in enumerate(CODECS):
        partition = Place("codecs", codec_index)
        producer = Actor(notebook, f"codec-{codec}", is_new=codec_index % 2 == 0)
        for committed in (True, False):
            for batch in range(3):
                producer.send(
                    partition, *(f"{batch} {'ab' * 40} {n}" for n in range(8)), codec=codec
                )
            producer.finish(committed=committed)
        staying_actor = Actor(notebook, f"codec-{codec}-open")
        staying_actor.send(partition, *("open" * 20 for _ in range(5)), codec=codec)
        staying_actor.leave_open("open", f"left open, records in {codec}")


def plain(notebook: Notebook) -> None:
    raw = notebook.raw
    raw.create_topic("plain", partitions=[(1,)] * 2)
    raw.create_topic(
        "stamped", partitions=[(2,)], configs={"message.timestamp.type": "LogAppendTime"}
    )
    partition = Place("plain", 0)
    timestamp_ms = notebook.next_stamp()
    odd_records = (
        SentRecord(timestamp_ms=timestamp_ms, key=None, value=None),
        SentRecord(timestamp_ms=timestamp_ms + 5, key=b"", value=b""),
        SentRecord(timestamp_ms=timestamp_ms - 3, key=b"\xff\x00", value=bytes(range(256))),
        SentRecord(
            timestamp_ms=timestamp_ms, value=b"h", headers=(("a", b"1"), ("a", None), ("", b""))
        ),
        SentRecord(timestamp_ms=timestamp_ms, key="ключ".encode(), value="значение".encode()),
    )
    for codec in CODECS:
        notebook.append(partition, odd_records, codec=codec)
    notebook.append(
        partition,
        (SentRecord(timestamp_ms=timestamp_ms, value=b"0123456789" * 20_000),),
        codec="zstd",
    )
    notebook.append(Place("stamped", 0), notebook.stamp_records("a", "b"), codec="lz4")
    _idempotent(notebook, Place("plain", 1))


def _idempotent(notebook: Notebook, partition: Place) -> None:
    """Sequences that wrap around, a bumped epoch, a duplicate that is not appended."""
    producer_id, epoch = identity(notebook.raw)
    records = notebook.stamp_records("a", "b", "c", "d")
    for sequence in (2**31 - 2, 2):
        batch = notebook.append(
            partition,
            records,
            base_sequence=sequence,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
    repeated_batch = batch_of(
        records,
        base_sequence=batch.base_sequence,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    notebook.raw.produce_until_accepted(partition, repeated_batch, version=11)
    notebook.append(
        partition,
        notebook.stamp_records("e"),
        base_sequence=0,
        producer_id=producer_id,
        producer_epoch=epoch + 1,
    )


def identity(raw: RawBrokers) -> tuple[int, int]:
    """A new producer id and epoch without a transactional id."""
    answer = raw.until(
        lambda answer: answer.error_code == ErrorCode.none,
        "InitProducerId",
        4,
        transactional_id=None,
        transaction_timeout=60_000,
        producer_id=-1,
        producer_epoch=-1,
    )
    return int(answer.producer_id), int(answer.producer_epoch)


def forgotten(notebook: Notebook) -> tuple[str, ...]:
    """Transactional ids that expire, so that their last record is a tombstone; for brokers with
    ``FORGETFUL``.
    """
    raw = notebook.raw
    raw.create_topic("forgotten", partitions=[BOTH])
    transactional_ids = tuple(f"forgotten-{number}" for number in range(2))
    for transactional_id in transactional_ids:
        producer = Actor(notebook, transactional_id)
        producer.send(Place("forgotten", 0), "by somebody who is forgotten")
        producer.finish(committed=transactional_id == transactional_ids[0])
    wait_for(
        lambda: [raw.ask("ListTransactions", 0, broker=broker_id) for broker_id in raw.brokers],
        lambda answers: not any(answer.transaction_states for answer in answers),
        "transactional ids to expire",
    )
    return transactional_ids


def expired(notebook: Notebook) -> tuple[tuple[Place, int], ...]:
    """A producer that its partition forgets at once, as its records are two days old, and a
    producer that is kept because its transaction is open.
    """
    raw = notebook.raw
    raw.create_topic("expired", partitions=[BOTH])
    partition = Place("expired", 0)
    producer_id, epoch = identity(raw)
    old_stamp_ms = notebook.stamp_ms - 2 * DAY_MS
    notebook.append(
        partition,
        (SentRecord(timestamp_ms=old_stamp_ms, value=b"old"),),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
    )
    staying_actor = Actor(notebook, "expired-open")
    staying_actor.send_told(
        partition, (SentRecord(timestamp_ms=old_stamp_ms, value=b"old, but open"),)
    )
    staying_actor.leave_open("open", "its records are older than a producer is remembered")
    wait_for(
        lambda: [row.producer_id for row in active_producers(raw, partition)],
        lambda ids: ids == [staying_actor.producer_id],
        "a producer to be forgotten",
    )
    return ((partition, producer_id),)


def active_producers(raw: RawBrokers, partition: Place) -> Any:
    """The active producers of a partition, by DescribeProducers of its leader."""
    topics = [{"name": partition.topic, "partition_indexes": [partition.partition]}]
    answer = raw.ask("DescribeProducers", 0, broker=raw.leader(partition), topics=topics)
    return answer.topics[0].partitions[0].active_producers


def trimmed(notebook: Notebook) -> None:
    """A log whose first records are deleted, up to the middle of a segment."""
    raw = notebook.raw
    raw.create_topic("trimmed", partitions=[BOTH], configs=TINY)
    partition = Place("trimmed", 0)
    producer = Actor(notebook, "trimmed")
    for turn in range(6):
        producer.send(partition, *(f"{turn} {'y' * 50} {index}" for index in range(3)))
        producer.finish(committed=turn % 2 == 0)
    partitions = [{"partition_index": 0, "offset": 10}]
    raw.ask(
        "DeleteRecords",
        2,
        broker=raw.leader(partition),
        topics=[{"name": partition.topic, "partitions": partitions}],
        timeout=30_000,
    )
    wait_for(lambda: raw.offset(partition, -2), lambda start: start == 10, "records to be deleted")


def compacted(notebook: Notebook) -> None:
    """Logs that the cleaner has cleaned, with transactions, tombstones and gaps.

    In one log, tombstones and markers are removed as well; in a partition with an open transaction
    the cleaner stops before that.
    """
    raw = notebook.raw
    raw.create_topic("compacted", partitions=[BOTH] * 2, configs=CLEANED)
    raw.create_topic("swept", partitions=[BOTH], configs={**CLEANED, "delete.retention.ms": "0"})
    for partition in (Place("compacted", 0), Place("compacted", 1), Place("swept", 0)):
        transactional_id = f"{partition.topic}-{partition.partition}"
        if partition.partition == 1:
            staying_actor = Actor(notebook, f"{transactional_id}-open")
            staying_actor.send(partition, "open", key="a")
            staying_actor.leave_open("open", "the cleaner may not pass it")
        producer = Actor(notebook, transactional_id, is_new=partition.topic == "swept")
        for turn in range(8):
            codec = tuple(CODECS)[turn % len(CODECS)]
            value = None if turn == 5 else f"{turn} {'z' * 40}"
            for key in ("a", "b", f"once-{turn}"):
                producer.send(partition, value, codec=codec, key=key)
            producer.finish(committed=turn % 4 != 3)
        for turn in range(6):  # what is active is never cleaned
            notebook.append(
                partition, notebook.stamp_records(f"last {'z' * 80}", key=f"last-{turn}")
            )
    for partition in (Place("compacted", 0), Place("swept", 0)):
        wait_for(
            partial(records_left, raw, partition),
            lambda record_count: record_count <= CLEANED_RECORDS,
            f"{partition} to be cleaned",
        )


def records_left(raw: RawBrokers, partition: Place) -> int:
    """Number of records and markers in a partition, by the headers of its batches."""
    count, offset = 0, raw.offset(partition, -2)
    while True:
        row = {"partition": partition.partition, "fetch_offset": offset}
        answer = raw.ask(
            "Fetch",
            12,
            broker=raw.leader(partition),
            replica_id=-1,
            max_wait=0,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[
                {"topic": partition.topic, "partitions": [{**row, "partition_max_bytes": 1 << 20}]}
            ],
        )
        headers = [
            batch_header
            for _, batch_header in iter_batches(answer.responses[0].partitions[0].records or b"")
        ]
        if not headers:
            return count
        count += sum(batch_header.records_count for batch_header in headers)
        offset = headers[-1].last_offset + 1


def fenced(notebook: Notebook) -> None:
    """Transactions that were not ended by their producers: they were fenced, timed out or
    bumped.
    """
    raw = notebook.raw
    raw.create_topic("fenced", partitions=[BOTH])
    partition = Place("fenced", 0)
    actor = Actor(notebook, "fenced")
    sent_batch = actor.send(partition, "by the one who is fenced")
    epoch = actor.producer_epoch
    second_actor = Actor(notebook, "fenced")  # its InitProducerId ends what the first one had begun
    second_actor.touched[partition] = [sent_batch]
    second_actor.note_finished(committed=False, epoch=epoch, marker_epoch=epoch + 1)
    late_batch = batch_of(
        notebook.stamp_records("too late"),
        producer_id=actor.producer_id,
        producer_epoch=epoch,
        base_sequence=1,
        is_transactional=True,
    )
    error, _ = raw.produce(partition, late_batch, version=11, transactional_id="fenced")
    assert error == ErrorCode.invalid_producer_epoch, error.name
    second_actor.send(partition, "by the one who came after")
    second_actor.finish()
    slow_actor = Actor(notebook, "timed-out", timeout_ms=100)
    slow_actor.send(partition, "too slow")
    epoch = slow_actor.producer_epoch
    slow_actor.note_finished(committed=False, epoch=epoch, marker_epoch=epoch + 1)
    bumped_actor = Actor(notebook, "bumped")
    bumped_actor.send(partition, "before the bump")
    bumped_actor.finish()
    bumped_actor.init(as_myself=True)
    bumped_actor.send(partition, "after the bump")
    bumped_actor.finish(committed=False)


def ghosts(notebook: Notebook) -> None:
    """Hanging transactions, each made in another way, with healthy ones between them."""
    raw = notebook.raw
    replica_lists = [BOTH, BOTH, (2, 1), BOTH, (2, 1), BOTH, BOTH, BOTH]
    raw.create_topic("ghosts", partitions=replica_lists, configs=TINY)
    ghost_partitions = [Place("ghosts", index) for index in range(8)]
    raw.configure(4, "", {VERIFICATION: "false"})
    never_actor = Actor(notebook, "ghost-never-added")
    _send_unasked(never_actor, ghost_partitions[0], "nobody was told")
    never_actor.leave_open("hanging", "Produce without AddPartitionsToTxn")
    late_actor = Actor(notebook, "ghost-late")
    late_actor.send(ghost_partitions[1], "in time")
    late_actor.finish(committed=False)
    _send_unasked(late_actor, ghost_partitions[1], "too late")
    late_actor.leave_open("hanging", "Produce after the abort")
    busy_actor = Actor(notebook, "ghost-busy")
    busy_actor.send(ghost_partitions[3], "a partition that was added")
    busy_actor.leave_open("open", "Ongoing, with this partition")
    busy_actor.touched.clear()
    _send_unasked(busy_actor, ghost_partitions[2], "one that was not")
    busy_actor.leave_open("hanging", "Ongoing, but without this partition")
    _stranger(notebook, ghost_partitions[4])
    _spread(notebook, ghost_partitions[5])
    _fenced_ghost(notebook, ghost_partitions[6])
    _repair_hanging(notebook, ghost_partitions[7])
    raw.configure(4, "", {VERIFICATION: None})


def _send_unasked(actor: Actor, partition: Place, *values: str, codec: str = "none") -> None:
    actor.send_told(partition, actor.book.stamp_records(*values), codec=codec, skips_adding=True)


def _stranger(notebook: Notebook, partition: Place) -> None:
    """A hanging transaction of a producer id that no coordinator knows."""
    sent_batch = notebook.append(
        partition,
        notebook.stamp_records("who is this?"),
        transactional_id="ghost-stranger",
        producer_id=UNKNOWN_PRODUCER,
        producer_epoch=7,
        base_sequence=0,
        is_transactional=True,
    )
    notebook.open.append(
        OpenTransaction(
            place=partition,
            producer_id=UNKNOWN_PRODUCER,
            producer_epoch=7,
            start_offset=sent_batch.base_offset,
            last_timestamp_ms=sent_batch.records[-1].timestamp_ms,
            verdict="hanging",
            why="a producer id that was never given away",
        )
    )


def _spread(notebook: Notebook, partition: Place) -> None:
    """A hanging transaction over many segments, in every codec, with other transactions in
    between.
    """
    ghost_actor = Actor(notebook, "ghost-spread")
    other_actor = Actor(notebook, "ghost-spread-other", is_new=True)
    for turn in range(8):
        codec = tuple(CODECS)[turn % len(CODECS)]
        _send_unasked(
            ghost_actor,
            partition,
            *(f"{turn} {'g' * 40} {index}" for index in range(3)),
            codec=codec,
        )
        other_actor.send(partition, *(f"{turn} {'o' * 70} {index}" for index in range(2)))
        other_actor.finish(committed=turn % 2 == 0)
    ghost_actor.leave_open("hanging", "Produce without AddPartitionsToTxn, over many segments")


def _fenced_ghost(notebook: Notebook, partition: Place) -> None:
    """A hanging transaction whose transactional id has a later epoch by now, and commits
    elsewhere.
    """
    ghost_actor = Actor(notebook, "ghost-fenced")
    _send_unasked(ghost_actor, partition, "left behind")
    ghost_actor.leave_open("hanging", "its transactional id has a later epoch by now")
    next_actor = Actor(notebook, "ghost-fenced")
    next_actor.send(Place("levels", 0), "elsewhere")
    next_actor.finish()


def _repair_hanging(notebook: Notebook, partition: Place) -> None:
    """A transaction that hung until an operator aborted it, with a marker that no coordinator
    sent.
    """
    ghost_actor = Actor(notebook, "ghost-repaired")
    _send_unasked(ghost_actor, partition, "was hanging")
    write_marker(
        notebook.raw, ghost_actor, partition, epoch=ghost_actor.producer_epoch, committed=False
    )
    ghost_actor.note_finished(committed=False, epoch=ghost_actor.producer_epoch)


def write_marker(
    raw: RawBrokers, actor: Actor, partition: Place, *, epoch: int, committed: bool
) -> None:
    """Send WriteTxnMarkers to the leader, without the coordinator."""
    marker = {
        "producer_id": actor.producer_id,
        "producer_epoch": epoch,
        "transaction_result": committed,
        "topics": [{"name": partition.topic, "partition_indexes": [partition.partition]}],
        "coordinator_epoch": 0,
    }
    answer = raw.ask("WriteTxnMarkers", 1, broker=raw.leader(partition), markers=[marker])
    error = ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)
    assert error == ErrorCode.none, error.name


def undecided(notebook: Notebook) -> None:
    """A transaction that stays in PrepareCommit: the coordinator's marker has an older epoch than
    the partition.
    """
    raw = notebook.raw
    raw.create_topic("undecided", partitions=[BOTH] * 2)
    first_partition, second_partition = Place("undecided", 0), Place("undecided", 1)
    producer = Actor(notebook, "undecided")
    batch_by_partition = {
        partition: producer.send(partition, "sent before")
        for partition in (first_partition, second_partition)
    }
    epoch = producer.producer_epoch
    write_marker(raw, producer, first_partition, epoch=epoch + 1, committed=False)
    producer.end(committed=True)
    wait_for(
        lambda: raw.offset(second_partition, -1), lambda end: end == 2, "the marker that is taken"
    )
    transaction = raw.describe_transaction("undecided")
    assert transaction.transaction_state == "PrepareCommit", transaction
    for partition, committed, marker_epoch in (
        (first_partition, False, epoch + 1),
        (second_partition, True, epoch),
    ):
        offset = batch_by_partition[partition].base_offset
        notebook.finished.append(
            FinishedTransaction(
                transactional_id="undecided",
                producer_id=producer.producer_id,
                producer_epoch=epoch,
                marker_epoch=marker_epoch,
                committed=committed,
                level=notebook.level,
                spans=(
                    Span(place=partition, first_offset=offset, last_offset=offset, marker_offset=1),
                ),
            )
        )
    raw.configure(4, "", {VERIFICATION: "false"})
    producer.forget()
    producer.sequences.clear()
    producer.producer_epoch = epoch + 1
    _send_unasked(producer, first_partition, "sent after")
    producer.leave_open("undecided", "PrepareCommit, and its marker is refused as too old")
    raw.configure(4, "", {VERIFICATION: None})


def positions(notebook: Notebook) -> CommittedOffset:
    """Offsets of groups that were sent in transactions: committed, aborted, and pending; returns
    the pending one.
    """
    raw = notebook.raw
    producer = Actor(notebook, "positions")
    for offset, end in ((5, True), (99, False)):
        commit_offset(raw, producer, "txn-group", Place("orders", 0), offset)
        producer.end(committed=end)
        raw.until_state("positions", "CompleteCommit", "CompleteAbort")
    staying_actor = Actor(notebook, "positions-open")
    pending_offset = CommittedOffset(
        group="txn-group", place=Place("orders", 1), offset=7, metadata="at 7"
    )
    commit_offset(
        raw, staying_actor, pending_offset.group, pending_offset.place, pending_offset.offset
    )
    return pending_offset


def commit_offset(raw: RawBrokers, actor: Actor, group: str, partition: Place, offset: int) -> None:
    """Send AddOffsetsToTxn and TxnOffsetCommit."""
    member = {
        "transactional_id": actor.transactional_id,
        "producer_id": actor.producer_id,
        "producer_epoch": actor.producer_epoch,
    }
    answer = raw.ask_coordinator(
        "AddOffsetsToTxn", 3, actor.transactional_id, TRANSACTION, group_id=group, **member
    )
    assert answer.error_code == ErrorCode.none, answer
    row = {
        "partition_index": partition.partition,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": f"at {offset}",
    }
    answer = raw.ask_coordinator(
        "TxnOffsetCommit",
        3,
        group,
        0,
        group_id=group,
        generation_id=-1,
        member_id="",
        topics=[{"name": partition.topic, "partitions": [row]}],
        **member,
    )
    assert answer.topics[0].partitions[0].error_code == ErrorCode.none, answer
