"""Handlers of a running cluster, asked directly: no socket, but every answer through the codec."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from tests.support.clusters import real_cluster
from txnsim.api.registry import HANDLERS, SHIPPED
from txnsim.api.request import NoResponse, Request
from txnsim.broker.broker import Broker
from txnsim.errors import ErrorCode
from txnsim.faults.subjects import Subject
from txnsim.server.cluster import SimCluster
from txnsim.types import BrokerId
from txnsim.wire import codec
from txnsim.wire.apis import APIS
from txnsim.wire.batch import Record, build_batch
from txnsim.wire.plain_values import message_from

KEYS: Final = {name: key for key, (name, _) in APIS.items()}
NO_SUCH_ID: Final = uuid.UUID(int=0x1234)
TIMEOUT_MS: Final = 30_000
STAMP_MS: Final = 1_700_000_000_000
NOT_YET: Final = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.concurrent_transactions,
    }
)
"""Errors of a coordinator that is not ready yet."""

_TURNS: Final = 2_000


class Api:
    """Sends requests to the handlers of one broker."""

    def __init__(self, cluster: SimCluster, broker: int = 1) -> None:
        self.cluster = cluster
        self.broker: Broker = cluster.brokers[BrokerId(broker)]

    def on_broker(self, broker: int) -> Api:
        """The handlers of another broker of the same cluster."""
        return Api(self.cluster, broker)

    def request(
        self, api: str, version: int, *, client_id: str = "test", **request_fields: Any
    ) -> Request:
        """A request as the connection hands it to a handler."""
        api_key = KEYS[api]
        cls = codec.request_class(api_key, version)
        if "timeout" in cls.__dataclass_fields__:
            # Without any time a request to the controller is refused.
            request_fields.setdefault("timeout", TIMEOUT_MS)
        message = message_from(cls, request_fields)
        return self.request_in(codec.encode_request(api_key, version, 1, client_id, message)[4:])

    def request_in(self, frame: bytes) -> Request:
        """The request in a frame, as the connection hands it to a handler."""
        header = codec.read_request_header(frame)
        return Request(
            apis=SHIPPED,
            broker=self.broker,
            api_key=header.api_key,
            api_version=header.api_version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
            message=codec.decode_request(header, frame),
        )

    async def ask(self, api: str, version: int, **request_fields: Any) -> Any:
        """The answer as the client decodes it."""
        request = self.request(api, version, **request_fields)
        return read_back(request, await HANDLERS[request.api_key].handle(request))

    def refuse(self, api: str, version: int, error: ErrorCode, **request_fields: Any) -> Any:
        """The answer that fails the whole request."""
        request = self.request(api, version, **request_fields)
        return read_back(request, HANDLERS[request.api_key].refuse(request, error))

    def subject(self, api: str, version: int, **request_fields: Any) -> Subject:
        """The subject of a request, as faults match it."""
        request = self.request(api, version, **request_fields)
        return HANDLERS[request.api_key].subject(request)

    async def until(
        self, is_ready: Callable[[Any], bool], api: str, version: int, **request_fields: Any
    ) -> Any:
        """Repeat a request until ``ready`` accepts the answer."""
        for _ in range(_TURNS):
            answer = await self.ask(api, version, **request_fields)
            if is_ready(answer):
                return answer
            await asyncio.sleep(0.001)
        raise AssertionError(f"{api} stays {answer}")

    async def producer(
        self, transactional_id: str | None = None, *, timeout_ms: int = 60_000
    ) -> tuple[int, int]:
        """A producer id and epoch, once the coordinator is ready to give one."""
        if transactional_id is not None:
            await self.until(
                lambda answer: answer.error_code is ErrorCode.none,
                "FindCoordinator",
                1,
                key=transactional_id,
                key_type=1,
            )
        answer = await self.until(
            lambda answer: answer.error_code not in NOT_YET,
            "InitProducerId",
            4,
            transactional_id=transactional_id,
            transaction_timeout=timeout_ms,
        )
        return answer.producer_id, answer.producer_epoch

    async def state(self, transactional_id: str, expected_state: str) -> Any:
        """The description of a transactional id, once it has reached the state."""
        answer = await self.until(
            lambda answer: answer.transaction_states[0].transaction_state == expected_state,
            "DescribeTransactions",
            0,
            transactional_ids=[transactional_id],
        )
        return answer.transaction_states[0]

    def topic_id(self, topic_name: str) -> uuid.UUID:
        return self.broker.image.topics[topic_name].topic_id


@asynccontextmanager
async def handlers(*, brokers: int = 1, **config_changes: Any) -> AsyncIterator[Api]:
    """Start a real-time cluster; the api of its broker 1."""
    async with real_cluster(brokers=brokers, **config_changes) as cluster:
        yield Api(cluster)


def read_back(request: Request, reply: Any) -> Any:
    """A reply as the client decodes it. ``NoResponse`` is returned as it is."""
    if isinstance(reply, NoResponse):
        return reply
    body = reply if isinstance(reply, bytes) else codec.encode_body(reply)
    frame = codec.frame_response(request.api_key, request.api_version, 1, body)
    return codec.read_response(request.api_key, request.api_version, frame[4:])[1]


def batch(*record_values: bytes, **header: Any) -> bytes:
    header.setdefault("timestamp_ms", STAMP_MS)
    return build_batch(
        [Record(key=b"k", value=record_value) for record_value in record_values or (b"v",)],
        **header,
    )


def produce(
    name: str,
    records: bytes | None,
    *,
    topic_id: uuid.UUID | None = None,
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
) -> dict[str, Any]:
    """Values of a Produce request for one partition."""
    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout": 1_000,
        "topic_data": [
            {
                "name": name,
                "topic_id": topic_id,
                "partition_data": [{"index": partition, "records": records}],
            }
        ],
    }


def fetch(
    topic: str,
    offset: int = 0,
    *,
    topic_id: uuid.UUID | None = None,
    partition: int = 0,
    isolation: int = 0,
    max_wait_ms: int = 0,
    **more_fields: Any,
) -> dict[str, Any]:
    """Values of a Fetch request for one partition; ``more`` goes into the partition."""
    return {
        "max_wait": max_wait_ms,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": isolation,
        "topics": [
            {
                "topic": topic,
                "topic_id": topic_id,
                "partitions": [
                    {
                        "partition": partition,
                        "fetch_offset": offset,
                        "partition_max_bytes": 1 << 20,
                        **more_fields,
                    }
                ],
            }
        ],
    }


def transaction(
    transactional_id: str,
    identity: tuple[int, int],
    topics: dict[str, list[int]],
    *,
    is_verification: bool = False,
) -> dict[str, Any]:
    """Values of AddPartitionsToTxn, in the shapes of old and of new versions."""
    topic_values = [
        {"name": topic_name, "partitions": partitions} for topic_name, partitions in topics.items()
    ]
    producer_id, epoch = identity
    return {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": producer_id,
        "v3_and_below_producer_epoch": epoch,
        "v3_and_below_topics": topic_values,
        "transactions": [
            {
                "transactional_id": transactional_id,
                "producer_id": producer_id,
                "producer_epoch": epoch,
                "verify_only": is_verification,
                "topics": topic_values,
            }
        ],
    }
