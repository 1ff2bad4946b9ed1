"""A client's connection, byte by byte, over asyncio's streams: any request, good or bad, in any
order, on the loop of the cluster.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from tests.support.logs import plain
from txnsim.client import requests
from txnsim.types import TopicPartition
from txnsim.wire import codec

PRODUCE: Final = 0
METADATA: Final = 3
API_VERSIONS: Final = 18
PRODUCE_VERSION: Final = 9
METADATA_VERSION: Final = 1


class WireClient:
    """A connection to a broker that sends requests of the wire protocol."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.client_id = client_id
        self._sent: list[tuple[int, int]] = []

    @classmethod
    async def open(cls, host: str, port: int, *, client_id: str = "wire") -> WireClient:
        return cls(*await asyncio.open_connection(host, port), client_id)

    def frame(self, api_key: int, api_version: int, message: Any) -> bytes:
        """The next request as bytes. Its API and version are kept for reading the answer."""
        correlation_id = self.expect(api_key, api_version)
        return codec.encode_request(api_key, api_version, correlation_id, self.client_id, message)

    def expect(self, api_key: int, api_version: int) -> int:
        """The next correlation id; its answer will be read in this version."""
        self._sent.append((api_key, api_version))
        return len(self._sent)

    def metadata(self) -> bytes:
        """A Metadata request of no topics."""
        message = codec.request_class(METADATA, METADATA_VERSION)(topics=())
        return self.frame(METADATA, METADATA_VERSION, message)

    def produce(
        self, topic_partition: TopicPartition, *, acks: int = 1, value: bytes = b"v"
    ) -> bytes:
        """A Produce request of one plain record."""
        request = requests.produce(
            {topic_partition: plain(record_value=value)}, id_by_topic={}, acks=acks
        )
        message = request.build(codec.request_schema(PRODUCE, PRODUCE_VERSION))
        return self.frame(PRODUCE, PRODUCE_VERSION, message)

    def send(self, data: bytes) -> None:
        """Write bytes."""
        self.writer.write(data)

    async def answer(self) -> tuple[int, Any]:
        """The next answer: correlation id and message."""
        size_bytes = int.from_bytes(await self.reader.readexactly(4), "big")
        frame = await self.reader.readexactly(size_bytes)
        api_key, api_version = self._sent[int.from_bytes(frame[:4], "big") - 1]
        return codec.read_response(api_key, api_version, frame)

    async def silent_for(self, seconds: float) -> bool:
        reading_task = asyncio.get_running_loop().create_task(self.reader.read(1))
        finished_reads, _ = await asyncio.wait((reading_task,), timeout=seconds)
        reading_task.cancel()
        await asyncio.wait((reading_task,))
        return not finished_reads

    async def is_closed_by_broker(self) -> bool:
        """Wait for a byte or the end, and return whether the broker has closed the connection."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionResetError:
            return True

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()
