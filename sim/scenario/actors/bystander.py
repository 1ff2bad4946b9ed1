"""Somebody else, who writes to the same partitions without transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from sim.client.cluster import Cluster
from sim.client.errors import ClientError
from sim.client.producer import Producer
from sim.scenario.actors.base import Surroundings
from sim.scenario.answers import Answer, failure
from sim.scenario.recorder import Batch
from sim.scenario.steps_model import Call

AT_ONCE_MAX: Final = 1_000
"""Records that are on their way at once."""
TOLD_MAX: Final = 5
"""Records that are named one by one in a story."""


class BystanderActor:
    """An idempotent producer of ``sim.client``."""

    def __init__(self, name: str, around: Surroundings) -> None:
        self.name = name
        self._around = around
        self._cluster: Cluster | None = None
        self._producer: Producer | None = None

    async def call(self, call: Call, *, wanted: str, sent: Callable[[], object]) -> Answer:
        """Append; the answer has the offset of the first record."""
        del wanted  # a client's own retries are what a bystander does
        producer = await self._ready()
        sent()
        first = Answer()
        offsets: list[int] = []
        for number, (key, value) in enumerate(_records(call)):
            answer = await self._append(producer, call, key, value)
            offsets.append(answer.offset)
            first = answer if number == 0 or answer.error != first.error else first
        self._tell(call, offsets)
        return first

    async def _append(
        self, producer: Producer, call: Call, key: bytes | None, value: str
    ) -> Answer:
        place = call.partition
        assert place is not None, "the file was accepted"
        try:
            written = await producer.send(place.topic, place.partition, value.encode(), key=key)
        except ClientError as error:
            answer = failure(error)
        else:
            answer = Answer(offset=written.offset)
        batch = Batch(partition=place, values=(value,), key=key, item=call.item)
        self._around.recorder.wrote(self.name, None, batch, answer)
        return answer

    async def _ready(self) -> Producer:
        if self._producer is None:
            self._cluster = self._around.client(self.name)
            await self._cluster.connect()
            self._producer = Producer(self._cluster, idempotent=True)
        return self._producer

    def _tell(self, call: Call, offsets: list[int]) -> None:
        values = call.records
        if call.count is not None:
            text = f"{call.count} records acknowledged, the last at {offsets[-1]}"
        elif len(values) > TOLD_MAX:
            text = f"{len(values)} records acknowledged, the last at {offsets[-1]}"
        else:
            text = f"{', '.join(values)} acknowledged at {', '.join(map(str, offsets))}"
        self._around.tell(self.name, text)

    async def give_up(self, call: Call) -> None:
        """Never asked for: nothing of a bystander is in the background."""

    async def close(self) -> None:
        """Leave."""
        if self._producer is not None:
            await self._producer.close()
        if self._cluster is not None:
            await self._cluster.close()


def _records(call: Call) -> Iterator[tuple[bytes | None, str]]:
    """Key and value of each record: those named, or ``count`` under ``keys`` keys in turn."""
    if call.count is None:
        yield from ((call.key, value) for value in call.records)
        return
    for number in range(call.count):
        key = call.key if call.keys is None else f"key-{number % call.keys}".encode()
        yield key, f"{call.value or 'update'}-{number}"
