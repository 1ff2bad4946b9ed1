"""A broker that answers as a test tells it to, speaking frames over a real connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from txnsim.client.versions import ClientApi
from txnsim.wire import codec
from txnsim.wire.codec import FrameReader
from txnsim.wire.plain_values import message_from

CLOSE = "close"
"""Answer of a handler that cuts the connection instead."""
SILENCE = None
"""Answer of a handler that never answers."""

Handler = Callable[["ReceivedRequest"], Any]


class ReceivedRequest:
    """A request that the fake broker has received."""

    def __init__(self, api_key: int, version: int, message: Any) -> None:
        self.api_key = api_key
        self.version = version
        self.message = message

    def answer(self, **answer_fields: Any) -> Any:
        """The response of the request's API and version; fields not given are zero or empty."""
        return message_from(codec.response_class(self.api_key, self.version), answer_fields)


def in_turn(*handlers: Handler) -> Handler:
    """A handler that gives each request to the next of the handlers; the last one is repeated."""
    handlers_left = list(handlers)

    def handle(request: ReceivedRequest) -> Any:
        return (handlers_left.pop(0) if len(handlers_left) > 1 else handlers_left[0])(request)

    return handle


class FakeBroker:
    """A broker with id 1 that by default leads every partition and coordinates every id."""

    def __init__(
        self,
        handlers: Mapping[Any, Handler] | None = None,
        *,
        topics: dict[str, int] | None = None,
        ranges: dict[int, tuple[int, int]] | None = None,
        transaction_version: int = 2,
    ) -> None:
        self.topics = {"t": 2} if topics is None else topics
        self.level = transaction_version
        self.features_epoch = 10
        self.asked: list[ReceivedRequest] = []
        self.ranges = {int(api): (api.own_range.lowest, api.own_range.highest) for api in ClientApi}
        self.ranges |= ranges or {}
        self.handlers: dict[Any, Handler] = {
            ClientApi.API_VERSIONS: self.api_versions,
            ClientApi.METADATA: self.metadata,
            ClientApi.FIND_COORDINATOR: self.find_coordinator,
        }
        self.handlers.update(handlers or {})
        self._connections: set[asyncio.Transport] = set()

    async def __aenter__(self) -> FakeBroker:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Peer(self), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def keys(self) -> list[int]:
        """API keys of the requests that the broker got, without ApiVersions and Metadata."""
        quiet_apis = (ClientApi.API_VERSIONS, ClientApi.METADATA)
        return [request.api_key for request in self.asked if request.api_key not in quiet_apis]

    def of(self, api: ClientApi) -> list[ReceivedRequest]:
        return [request for request in self.asked if request.api_key == api]

    def cut(self) -> None:
        """Cut every connection."""
        for transport in tuple(self._connections):
            transport.abort()

    # What a broker says unless a test has it say something else

    def api_versions(self, request: ReceivedRequest) -> Any:
        features: tuple[Any, ...] = ()
        if request.version >= 3 and self.level:
            row = {
                "name": "transaction.version",
                "max_version_level": self.level,
                "min_version_level": self.level,
            }
            features = (row,)
        return request.answer(
            error_code=0,
            api_keys=[
                {"api_key": range_key, "min_version": low, "max_version": high}
                for range_key, (low, high) in self.ranges.items()
            ],
            finalized_features_epoch=self.features_epoch,
            finalized_features=features,
        )

    def metadata(self, request: ReceivedRequest, leader_id: int = 1, error: int = 0) -> Any:
        topics = request.message.topics
        topic_names = self.topics if topics is None else [row.name for row in topics]
        broker = {"node_id": 1, "host": "127.0.0.1", "port": self.port}
        return request.answer(
            brokers=(broker,),
            cluster_id="fake",
            controller_id=1,
            error_code=0,
            topics=[
                {
                    "error_code": error if topic_name in self.topics else 3,
                    "name": topic_name,
                    "partitions": [
                        {
                            "partition_index": partition_index,
                            "leader_id": leader_id,
                            "leader_epoch": 0,
                            "replica_nodes": (1,),
                            "isr_nodes": (1,),
                        }
                        for partition_index in range(self.topics.get(topic_name, 0))
                    ],
                }
                for topic_name in topic_names
            ],
        )

    def find_coordinator(self, request: ReceivedRequest, error: int = 0) -> Any:
        return coordinator(request, self.port, error=error)


def coordinator(request: ReceivedRequest, port: int = 1, *, error: int = 0) -> Any:
    """An answer to FindCoordinator that names broker 1, or an error for every key."""
    node_id = -1 if error else 1
    common = {"node_id": node_id, "host": "127.0.0.1", "port": port, "error_code": error}
    if request.version < 4:
        return request.answer(error_message=None, **common)
    return request.answer(
        coordinators=[
            {"key": coordinator_key, **common}
            for coordinator_key in request.message.coordinator_keys
        ]
    )


def produce_answer(error: int = 0, offset: int = 0) -> Handler:
    """A handler that gives every partition of a Produce request this outcome."""

    def handle(request: ReceivedRequest) -> Any:
        if request.message.acks == 0:
            return SILENCE
        return request.answer(
            responses=[
                {
                    "name": topic.name,
                    "partition_responses": [
                        {
                            "index": row.index,
                            "error_code": error,
                            "base_offset": -1 if error else offset,
                        }
                        for row in topic.partition_data
                    ],
                }
                for topic in request.message.topic_data
            ]
        )

    return handle


def init_answer(error: int = 0, *, producer_id: int = 7, epoch: int = 0) -> Handler:
    return lambda request: request.answer(
        error_code=error,
        producer_id=-1 if error else producer_id,
        producer_epoch=-1 if error else epoch,
    )


def add_partitions_answer(*errors: int) -> Handler:
    """An answer to AddPartitionsToTxn; the errors go to the partitions in order, the last one to
    the rest.
    """

    def handle(request: ReceivedRequest) -> Any:
        errors_left: list[int] = list(errors or (0,))
        return request.answer(
            results_by_topic_v3_and_below=[
                {
                    "name": topic.name,
                    "results_by_partition": [
                        {
                            "partition_index": partition_index,
                            "partition_error_code": errors_left.pop(0)
                            if len(errors_left) > 1
                            else errors_left[0],
                        }
                        for partition_index in topic.partitions
                    ],
                }
                for topic in request.message.v3_and_below_topics
            ]
        )

    return handle


def end_answer(error: int = 0, *, producer_id: int = 7, epoch: int = 1) -> Handler:
    """An answer to EndTxn; versions below 5 carry no identity."""
    return lambda request: request.answer(
        error_code=error,
        producer_id=-1 if error else producer_id,
        producer_epoch=-1 if error else epoch,
    )


class _Peer(asyncio.Protocol):
    """A connection that handles its requests one by one, in order."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker
        self._reader = FrameReader(1 << 24)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._broker._connections.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._broker._connections.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.receive_data(data):
            self._handle(frame)

    def _handle(self, frame: bytes) -> None:
        header = codec.read_request_header(frame)
        message = codec.decode_request(header, frame)
        request = ReceivedRequest(header.api_key, header.api_version, message)
        self._broker.asked.append(request)
        answer = self._broker.handlers[header.api_key](request)
        if answer is SILENCE:
            return
        if answer == CLOSE:
            self._transport.abort()
        elif isinstance(answer, bytes):
            self._transport.write(answer)
        else:
            version = answer.__version__
            body = codec.encode_body(answer)
            self._transport.write(
                codec.frame_response(header.api_key, version, header.correlation_id, body)
            )


__all__: Sequence[str] = (
    "CLOSE",
    "SILENCE",
    "FakeBroker",
    "ReceivedRequest",
    "add_partitions_answer",
    "coordinator",
    "end_answer",
    "in_turn",
    "init_answer",
    "produce_answer",
)


def producers_of(request: ReceivedRequest, *states: Any, error: int = 0) -> Any:
    """The answer to DescribeProducers: the same for each partition."""
    return request.answer(
        topics=[
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": partition_index,
                        "error_code": error,
                        "active_producers": states,
                    }
                    for partition_index in topic.partition_indexes
                ],
            }
            for topic in request.message.topics
        ]
    )
