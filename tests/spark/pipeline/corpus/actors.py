"""The producers that write to the corpus, and the notebook that records each acknowledged step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.spark.pipeline.corpus.raw_brokers import TRANSACTION, RawBrokers, now_ms, wait_for
from tests.spark.pipeline.corpus.truth import (
    FinishedTransaction,
    OpenTransaction,
    OpenTxnStatus,
    Place,
    SentBatch,
    SentRecord,
    Span,
)
from txnsim.errors import ErrorCode
from txnsim.wire import compression
from txnsim.wire.batch import Record, build_batch

TIMEOUT_MS: Final = 900_000
"""transaction.max.timeout.ms: open transactions don't time out before the brokers have stopped."""
OLD_PRODUCE: Final = 11
NEW_PRODUCE: Final = 12
"""First version of Produce that adds its partition to the transaction (KIP-890)."""
CODECS: Final = {
    codec_name: codec_number for codec_number, codec_name in compression.CODEC_NAMES.items()
}


class Notebook:
    """Acknowledged batches and transactions, in order."""

    def __init__(self, raw: RawBrokers, *, transaction_version: int) -> None:
        self.raw = raw
        self.level = transaction_version
        self.began_ms = now_ms()
        self.sent: list[SentBatch] = []
        self.finished: list[FinishedTransaction] = []
        self.open: list[OpenTransaction] = []
        self.stamp_ms = self.began_ms - 3_600_000
        """Timestamp of the latest record: it begins an hour ago and grows with each batch, so that
        every transaction is old enough for ``find-hanging``.
        """

    def next_stamp(self) -> int:
        """Timestamp for the next batch."""
        self.stamp_ms += 7
        return self.stamp_ms

    def append(
        self,
        partition: Place,
        records: Sequence[SentRecord],
        *,
        codec: str = "none",
        version: int = OLD_PRODUCE,
        transactional_id: str | None = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
    ) -> SentBatch:
        """Send a batch until its leader accepts it, and note it."""
        batch_data = batch_of(
            records,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        )
        offset = self.raw.produce_until_accepted(
            partition, batch_data, version=version, transactional_id=transactional_id
        )
        sent_batch = SentBatch(
            place=partition,
            base_offset=offset,
            codec=codec,
            records=tuple(records),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=is_transactional,
        )
        self.sent.append(sent_batch)
        return sent_batch

    def stamp_records(self, *values: str | None, key: str | None = None) -> tuple[SentRecord, ...]:
        """Records with these values, stamped now."""
        timestamp_ms = self.next_stamp()
        return tuple(
            SentRecord(
                timestamp_ms=timestamp_ms + index,
                key=None if key is None else key.encode(),
                value=None if value is None else value.encode(),
            )
            for index, value in enumerate(values)
        )


def batch_of(
    records: Sequence[SentRecord],
    *,
    codec: str = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
) -> bytes:
    """The encoded bytes of a batch."""
    return build_batch(
        [
            Record(
                timestamp_ms=record.timestamp_ms,
                key=record.key,
                value=record.value,
                headers=record.headers,
            )
            for record in records
        ],
        timestamp_ms=records[0].timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        compression=CODECS[codec],
    )


class Actor:
    """A transactional producer whose steps are method calls.

    Args:
        book: Notes the acknowledged steps.
        transactional_id: The transactional id.
        new: Use transactions v2: no AddPartitionsToTxn, and EndTxn v5 returns the next identity.
        timeout_ms: transaction.timeout.ms.
    """

    def __init__(
        self,
        notebook: Notebook,
        transactional_id: str,
        *,
        is_new: bool = False,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        self.book = notebook
        self.transactional_id = transactional_id
        self.new = is_new
        self.timeout_ms = timeout_ms
        self.sequences: dict[Place, int] = {}
        self.touched: dict[Place, list[SentBatch]] = {}
        self.added: set[Place] = set()
        self.producer_id = -1
        self.producer_epoch = -1
        self.init()

    def init(self, *, as_myself: bool = False) -> None:
        """Send InitProducerId, which fences earlier producers of this id; ``as_myself`` bumps the
        own epoch (KIP-360).
        """
        raw = self.book.raw
        answer = raw.ask_coordinator(
            "InitProducerId",
            4,
            self.transactional_id,
            TRANSACTION,
            transactional_id=self.transactional_id,
            transaction_timeout=self.timeout_ms,
            producer_id=self.producer_id if as_myself else -1,
            producer_epoch=self.producer_epoch if as_myself else -1,
        )
        assert answer.error_code == ErrorCode.none, (self.transactional_id, answer)
        self._become(answer.producer_id, answer.producer_epoch)

    def _become(self, producer_id: int, producer_epoch: int) -> None:
        if (producer_id, producer_epoch) != (self.producer_id, self.producer_epoch):
            self.sequences.clear()
        self.producer_id, self.producer_epoch = producer_id, producer_epoch

    def add(self, *partitions: Place) -> None:
        """Send AddPartitionsToTxn, as in transactions v1."""
        answer = self.book.raw.ask_coordinator(
            "AddPartitionsToTxn",
            3,
            self.transactional_id,
            TRANSACTION,
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[
                {"name": place_of_topic.topic, "partitions": [place_of_topic.partition]}
                for place_of_topic in partitions
            ],
        )
        for topic in answer.results_by_topic_v3_and_below:
            for row in topic.results_by_partition:
                error = ErrorCode(row.partition_error_code)
                assert error == ErrorCode.none, (self.transactional_id, topic.name, error.name)
        self.added.update(partitions)

    def send(
        self, partition: Place, *values: str | None, codec: str = "none", key: str | None = None
    ) -> SentBatch:
        """Send a batch of records in the transaction."""
        return self.send_told(partition, self.book.stamp_records(*values, key=key), codec=codec)

    def send_told(
        self,
        partition: Place,
        records: Sequence[SentRecord],
        *,
        codec: str = "none",
        skips_adding: bool = False,
    ) -> SentBatch:
        """Send a batch of given records in the transaction; ``skips_adding`` does not add the
        partition before.
        """
        if not self.new and not skips_adding and partition not in self.added:
            self.add(partition)
        sequence = self.sequences.get(partition, 0)
        sent_batch = self.book.append(
            partition,
            records,
            codec=codec,
            version=NEW_PRODUCE if self.new else OLD_PRODUCE,
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        self.sequences[partition] = sequence + len(records)
        self.touched.setdefault(partition, []).append(sent_batch)
        return sent_batch

    def end(self, *, committed: bool) -> None:
        """Send EndTxn until the coordinator accepts it."""
        answer = self.book.raw.ask_coordinator(
            "EndTxn",
            5 if self.new else 3,
            self.transactional_id,
            TRANSACTION,
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=committed,
        )
        assert answer.error_code == ErrorCode.none, (self.transactional_id, answer)
        if self.new:
            self._become(answer.producer_id, answer.producer_epoch)

    def finish(self, *, committed: bool = True) -> FinishedTransaction:
        """End the transaction, wait for its markers, and note both."""
        epoch = self.producer_epoch
        self.end(committed=committed)
        return self.note_finished(committed=committed, epoch=epoch)

    def note_finished(
        self, *, committed: bool, epoch: int, marker_epoch: int | None = None
    ) -> FinishedTransaction:
        """Wait until the coordinator has completed the transaction, and note the offsets of its
        markers.

        Nobody else may write to these partitions meanwhile: each marker is then the last record.
        """
        raw = self.book.raw
        description = raw.until_state(
            self.transactional_id, "CompleteCommit", "CompleteAbort", "Empty"
        )
        told_epoch = (
            int(description.producer_epoch)
            if description.producer_id == self.producer_id
            else epoch
        )
        finished_transaction = FinishedTransaction(
            transactional_id=self.transactional_id,
            producer_id=self._written_by(),
            producer_epoch=epoch,
            marker_epoch=told_epoch if marker_epoch is None else marker_epoch,
            committed=committed,
            level=self.book.level,
            spans=tuple(
                Span(
                    place=partition,
                    first_offset=batches[0].base_offset,
                    last_offset=batches[-1].base_offset + len(batches[-1].records) - 1,
                    marker_offset=self._marker_offset(partition, batches[-1]),
                )
                for partition, batches in sorted(self.touched.items())
            ),
        )
        self.book.finished.append(finished_transaction)
        self.forget()
        return finished_transaction

    def _written_by(self) -> int:
        for batches in self.touched.values():
            return batches[-1].producer_id
        return self.producer_id

    def _marker_offset(self, partition: Place, last_batch: SentBatch) -> int:
        raw = self.book.raw
        end_offset = last_batch.base_offset + len(last_batch.records)
        end = wait_for(
            lambda: raw.offset(partition, -1),
            lambda offset: offset > end_offset,
            f"marker on {partition}",
        )
        return int(end) - 1

    def forget(self) -> None:
        """Forget the partitions of the transaction, because it has ended or is noted otherwise."""
        self.touched.clear()
        self.added.clear()

    def leave_open(
        self,
        verdict_text: OpenTxnStatus,
        reason: str,
        *,
        brokers: tuple[int, ...] = (),
        chosen_partitions: Sequence[Place] = (),
    ) -> None:
        """Note the transaction as left open on these partitions, by default on all."""
        for partition, batches in sorted(self.touched.items()):
            if chosen_partitions and partition not in chosen_partitions:
                continue
            self.book.open.append(
                OpenTransaction(
                    place=partition,
                    producer_id=batches[0].producer_id,
                    producer_epoch=batches[-1].producer_epoch,
                    start_offset=batches[0].base_offset,
                    last_timestamp_ms=max(record.timestamp_ms for record in batches[-1].records),
                    verdict=verdict_text,
                    why=reason,
                    transactional_id=self.transactional_id,
                    brokers=brokers,
                )
            )
