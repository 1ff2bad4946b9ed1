"""A producer without transactions that writes to the same partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from txnsim.client.producer import Producer, RecordMetadata
from txnsim.errors import ClientError
from txnsim_lab.scenario.actors.base import ClientActor, Surroundings
from txnsim_lab.scenario.call_results import NONE, CallResult, failure
from txnsim_lab.scenario.recorder import Batch, encode_value, values_text
from txnsim_lab.scenario.steps_model import UPDATE, Call, required

AT_ONCE_MAX: Final = 200
"""Limit of unacknowledged records in a call with ``count``."""
TOLD_MAX: Final = 5
"""Up to this number of records, the trace names each offset."""


class BystanderActor(ClientActor):
    """An idempotent producer of ``txnsim.client``."""

    def __init__(self, name: str, surroundings: Surroundings) -> None:
        super().__init__(name, surroundings)
        self._producer: Producer | None = None

    async def call(
        self, call: Call, *, expected_code: str, sent: Callable[[], object]
    ) -> CallResult:
        """Append the records; the result has the offset of the first one."""
        del expected_code  # a client's own retries are what a bystander does
        producer = await self._writer()
        sent()
        answers: list[CallResult] = []
        pending: list[tuple[Batch, asyncio.Future[RecordMetadata]]] = []
        at_once = 1 if call.count is None else AT_ONCE_MAX
        for batch in _records(call):
            pending.append((batch, self._send(producer, batch)))
            if len(pending) == at_once:
                answers += await self._await_answers(pending)
                pending = []
        answers += await self._await_answers(pending)
        self._tell(call, [answer.offset for answer in answers])
        refused = (answer for answer in answers if answer.error != NONE)
        return next(refused, answers[0])

    def _send(self, producer: Producer, batch: Batch) -> asyncio.Future[RecordMetadata]:
        partition = batch.partition
        return producer.send(
            partition.topic, partition.partition, encode_value(batch.values[0]), key=batch.key
        )

    async def _await_answers(
        self, pending: Iterable[tuple[Batch, asyncio.Future[RecordMetadata]]]
    ) -> list[CallResult]:
        answers = []
        for batch, acknowledgement in pending:
            try:
                answer = CallResult(offset=(await acknowledgement).offset)
            except ClientError as error:
                answer = failure(error)
            self._around.recorder.note_write(self.name, None, batch, answer)
            answers.append(answer)
        return answers

    async def _writer(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(await self._ready(), idempotent=True)
        return self._producer

    def _tell(self, call: Call, offsets: list[int]) -> None:
        values = call.records
        if call.count is not None:
            text = f"{call.count} records acknowledged, the last at {offsets[-1]}"
        elif len(values) > TOLD_MAX:
            text = f"{len(values)} records acknowledged, the last at {offsets[-1]}"
        else:
            text = f"{values_text(values)} acknowledged at {', '.join(map(str, offsets))}"
        self._around.tell(self.name, text)

    async def close(self) -> None:
        """Close the producer."""
        if self._producer is not None:
            await self._producer.close()
        await super().close()


def _records(call: Call) -> Iterator[Batch]:
    """One batch per record: those that the call names, or ``count`` updates of ``keys`` keys in
    turn.
    """
    if call.count is None:
        for value in call.records:
            yield _batch(call, value, call.key)
        return
    for number in range(call.count):
        key = call.key if call.keys is None else f"key-{number % call.keys}".encode()
        value = f"{call.value or UPDATE}-{number}"
        yield _batch(call, value, key)


def _batch(call: Call, value: str | None, key: bytes | None) -> Batch:
    partition = required(call.partition)
    return Batch(partition=partition, values=(value,), key=key, item=call.item, of=call.inputs)
