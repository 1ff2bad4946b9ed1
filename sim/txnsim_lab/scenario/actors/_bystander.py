"""A producer without transactions that writes to the same partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from txnsim.client.producer import Producer, RecordMetadata
from txnsim.errors import ClientError
from txnsim_lab.scenario.actors.base import ClientActor, Surroundings
from txnsim_lab.scenario.call_results import NONE, CallResult, failure
from txnsim_lab.scenario.recorder import SentBatch, encode_value, values_text
from txnsim_lab.scenario.steps_model import UPDATE_VALUE, Call, required

UNACKNOWLEDGED_MAX: Final = 200
"""Limit of unacknowledged records in a call with ``count``."""
NAMED_OFFSETS_MAX: Final = 5
"""Up to this number of records, the trace names each offset."""


class BystanderActor(ClientActor):
    """An idempotent producer of ``txnsim.client``."""

    def __init__(self, name: str, surroundings: Surroundings) -> None:
        super().__init__(name, surroundings)
        self._producer: Producer | None = None

    async def call(
        self, call: Call, *, expected_code: str, on_sent: Callable[[], object]
    ) -> CallResult:
        """Append the records; the result has the offset of the first one."""
        del expected_code  # a client's own retries are what a bystander does
        producer = await self._open_writer()
        on_sent()
        call_results: list[CallResult] = []
        pending_batches: list[tuple[SentBatch, asyncio.Future[RecordMetadata]]] = []
        batches_at_once = 1 if call.count is None else UNACKNOWLEDGED_MAX
        for batch in _batches_of_call(call):
            pending_batches.append((batch, self._send_record(producer, batch)))
            if len(pending_batches) == batches_at_once:
                call_results += await self._await_answers(pending_batches)
                pending_batches = []
        call_results += await self._await_answers(pending_batches)
        self._trace_summary(call, [answer.offset for answer in call_results])
        refused_answers = (answer for answer in call_results if answer.error != NONE)
        return next(refused_answers, call_results[0])

    def _send_record(self, producer: Producer, batch: SentBatch) -> asyncio.Future[RecordMetadata]:
        partition = batch.partition
        return producer.send(
            partition.topic, partition.partition, encode_value(batch.values[0]), key=batch.key
        )

    async def _await_answers(
        self, pending_batches: Iterable[tuple[SentBatch, asyncio.Future[RecordMetadata]]]
    ) -> list[CallResult]:
        call_results = []
        for batch, acknowledgement_future in pending_batches:
            try:
                answer = CallResult(offset=(await acknowledgement_future).offset)
            except ClientError as error:
                answer = failure(error)
            self._surroundings.recorder.note_write(self.name, None, batch, answer)
            call_results.append(answer)
        return call_results

    async def _open_writer(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(await self._ready(), idempotent=True)
        return self._producer

    def _trace_summary(self, call: Call, offsets: list[int]) -> None:
        values = call.records
        if call.count is not None:
            summary = f"{call.count} records acknowledged, the last at {offsets[-1]}"
        elif len(values) > NAMED_OFFSETS_MAX:
            summary = f"{len(values)} records acknowledged, the last at {offsets[-1]}"
        else:
            summary = f"{values_text(values)} acknowledged at {', '.join(map(str, offsets))}"
        self._surroundings.tell(self.name, summary)

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.close()
        await super().close()


def _batches_of_call(call: Call) -> Iterator[SentBatch]:
    """One batch per record: those that the call names, or ``count`` updates of ``keys`` keys in
    turn.
    """
    if call.count is None:
        for value in call.records:
            yield _batch_of_record(call, value, call.key)
        return
    for record_index in range(call.count):
        key = call.key if call.keys is None else f"key-{record_index % call.keys}".encode()
        value = f"{call.value or UPDATE_VALUE}-{record_index}"
        yield _batch_of_record(call, value, key)


def _batch_of_record(call: Call, record_value: str | None, record_key: bytes | None) -> SentBatch:
    partition = required(call.partition)
    return SentBatch(
        partition=partition, values=(record_value,), key=record_key, item=call.item, of=call.inputs
    )
