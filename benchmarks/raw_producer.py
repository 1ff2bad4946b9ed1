"""Producers that send prepared frames: what is counted beside them is the broker's work alone.

A frame is made before anything is counted, and of an answer only the error code is looked at, so
a producer may run in the process whose calls are counted. Identities are known ahead: a
transaction of version 2 raises the epoch by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from txnsim.wire import codec
from txnsim.wire.plain_values import message_from
from txnsim.wire.records import Record, build_batch

TOPIC: Final = "calls"
PARTITIONS: Final = 16
GROUP: Final = "calls-group"
PRODUCE, FETCH, METADATA, FIND_COORDINATOR = 0, 1, 3, 10
JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 11, 12, 14
INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN, TXN_OFFSET_COMMIT = 22, 24, 26, 28
VERSIONS: Final = {"v2": (12, 5), "old": (11, 3)}
"""Flow -> versions of Produce and EndTxn."""
CONCURRENT_TRANSACTIONS_CODE: Final = 51
RETRY_S: Final = 0.001
_TIMEOUT_MS: Final = 600_000
_AT_END_TXN: Final = 9
_AT_PRODUCE: Final = 12 + len(TOPIC)
_AT_ADD: Final = 16 + len(TOPIC)
_AT_HEARTBEAT: Final = 8

ConnectFunction = Callable[[str, int, Callable[[], asyncio.Protocol]], Awaitable[Any]]


class RequestStep(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is encoded in advance."""

    broker: int
    frame: bytes
    error_position: int
    """Where the answer has its error code."""


class RawConnection(asyncio.Protocol):
    """A connection that sends one request at a time, as a frame, and reads its answer."""

    def __init__(self) -> None:
        self._data = b""
        self._waiting: asyncio.Future[bytes] | None = None
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Pass on each complete answer."""
        self._data += data
        frame_size = int.from_bytes(self._data[:4], "big") + 4
        if len(self._data) >= max(8, frame_size) and self._waiting is not None:
            answer, self._data = self._data[4:frame_size], self._data[frame_size:]
            future, self._waiting = self._waiting, None
            future.set_result(answer)

    async def ask(self, frame: bytes) -> bytes:
        """Send one request; return its answer."""
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(frame)
        return await self._waiting

    async def call(self, api_key: int, api_version: int, **values: Any) -> Any:
        """Send one request of these values; return its decoded answer."""
        answer = await self.ask(frame_of(api_key, api_version, **values))
        return codec.read_response(api_key, api_version, answer)[1]

    def close(self) -> None:
        self._transport.close()


def frame_of(api_key: int, api_version: int, **values: Any) -> bytes:
    """A whole request."""
    message = message_from(codec.request_class(api_key, api_version), values)
    return codec.encode_request(api_key, api_version, 1, "calls", message)


class RawProducer:
    """A transactional id with a connection to each broker."""

    def __init__(self, connect: ConnectFunction, bootstrap: str, name: str, protocol: str) -> None:
        self._connect = connect
        self._bootstrap = bootstrap
        self.name = name
        self._protocol = protocol
        self._connections: dict[int, RawConnection] = {}
        self._leaders: dict[int, int] = {}
        self._coordinator = self._group_coordinator = 0
        self._producer_id = self._epoch = -1
        self._partition = sum(name.encode()) % PARTITIONS
        self._sequences = [0] * PARTITIONS

    async def open(self) -> None:
        """Connect, find coordinators and leaders, and get a producer id."""
        host, port = self._bootstrap.split(",")[0].rsplit(":", 1)
        _, bootstrap_connection = await self._connect_to(host, int(port))
        topics = ({"name": TOPIC},)
        metadata = await bootstrap_connection.call(
            METADATA, 9, topics=topics, allow_auto_topic_creation=True
        )
        for broker in metadata.brokers:
            _, self._connections[broker.node_id] = await self._connect_to(broker.host, broker.port)
        while metadata.topics[0].error_code or any(
            partition.error_code for partition in metadata.topics[0].partitions
        ):
            await asyncio.sleep(0.05)
            metadata = await bootstrap_connection.call(METADATA, 9, topics=topics)
        self._leaders = {
            partition.partition_index: partition.leader_id
            for partition in metadata.topics[0].partitions
        }
        self._coordinator = await self._find_coordinator(bootstrap_connection, self.name, 1)
        self._group_coordinator = await self._find_coordinator(bootstrap_connection, GROUP, 0)
        while True:
            answer = await self._connections[self._coordinator].call(
                INIT_PRODUCER_ID,
                4,
                transactional_id=self.name,
                transaction_timeout=_TIMEOUT_MS,
                producer_id=-1,
                producer_epoch=-1,
            )
            if not answer.error_code:
                break
            await asyncio.sleep(0.05)
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
        bootstrap_connection.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    async def run(self, steps: list[RequestStep]) -> None:
        """Send requests one after the other; repeat a request after CONCURRENT_TRANSACTIONS."""
        for step in steps:
            connection = self._connections[step.broker]
            while True:
                answer = await connection.ask(step.frame)
                error = int.from_bytes(answer[step.error_position : step.error_position + 2], "big")
                if not error:
                    break
                assert error == CONCURRENT_TRANSACTIONS_CODE, f"error {error}"
                await asyncio.sleep(RETRY_S)

    # Steps

    def transactions(self, count: int) -> list[RequestStep]:
        """The requests of ``count`` transactions of one record each, on the partitions in turn."""
        steps: list[RequestStep] = []
        for _ in range(count):
            self._partition = (self._partition + 1) % PARTITIONS
            if self._protocol == "old":
                steps.append(self.add_partition())
            steps += (self.produce(), self.end())
        return steps

    def add_partition(self) -> RequestStep:
        """An AddPartitionsToTxn request of the protocol before transactions v2."""
        topics = ({"name": TOPIC, "partitions": (self._partition,)},)
        frame = frame_of(
            ADD_PARTITIONS,
            3,
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=topics,
        )
        return RequestStep(broker=self._coordinator, frame=frame, error_position=_AT_ADD)

    def wide_transaction(self, partition_count: int) -> list[RequestStep]:
        """The requests of a transaction with a record on each of ``partitions`` partitions."""
        batches = {partition: self._batch(0) for partition in range(partition_count)}
        return [self._produce(VERSIONS["v2"][0], self.name, batches), self.end()]

    def produce(self) -> RequestStep:
        """Produce of one record of 100 bytes in the transaction."""
        batch = self._batch(self._sequences[self._partition])
        self._sequences[self._partition] += 1
        return self._produce(VERSIONS[self._protocol][0], self.name, {self._partition: batch})

    def plain_produce(self) -> RequestStep:
        """A Produce request outside of a transaction."""
        batch = build_batch([Record(value=b"v" * 100)], timestamp_ms=1_700_000_000_000)
        return self._produce(12, None, {0: batch})

    def _batch(self, sequence: int) -> bytes:
        return build_batch(
            [Record(value=b"v" * 100)],
            timestamp_ms=1_700_000_000_000,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            is_transactional=True,
        )

    def _produce(self, version: int, name: str | None, batches: dict[int, bytes]) -> RequestStep:
        data = tuple({"index": index, "records": batch} for index, batch in batches.items())
        frame = frame_of(
            PRODUCE,
            version,
            transactional_id=name,
            acks=-1,
            timeout=30_000,
            topic_data=({"name": TOPIC, "partition_data": data},),
        )
        return RequestStep(
            broker=self._leaders[min(batches)], frame=frame, error_position=_AT_PRODUCE
        )

    def end(self) -> RequestStep:
        """An EndTxn request that commits; afterwards the producer has its next transaction's
        identity.
        """
        frame = frame_of(
            END_TXN,
            VERSIONS[self._protocol][1],
            transactional_id=self.name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=True,
        )
        if self._protocol == "v2":
            self._epoch += 1
            self._sequences = [0] * PARTITIONS
        return RequestStep(broker=self._coordinator, frame=frame, error_position=_AT_END_TXN)

    def fetch(self) -> RequestStep:
        """Fetch of what is on partition 0, one batch at most."""
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
        frame = frame_of(
            FETCH,
            12,
            replica_id=-1,
            max_wait=500,
            min_bytes=1,
            max_bytes=1,
            session_epoch=-1,
            topics=({"topic": TOPIC, "partitions": (partition,)},),
        )
        return RequestStep(broker=self._leaders[0], frame=frame, error_position=_AT_END_TXN)

    def commit_offset(self) -> RequestStep:
        """A TxnOffsetCommit request in the current transaction."""
        partition = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
        frame = frame_of(
            TXN_OFFSET_COMMIT,
            5,
            transactional_id=self.name,
            group_id=GROUP,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            generation_id=-1,
            topics=({"name": TOPIC, "partitions": (partition,)},),
        )
        return RequestStep(broker=self._group_coordinator, frame=frame, error_position=_AT_ADD)

    async def join_group(self) -> RequestStep:
        """Join a classic group; return the member's Heartbeat request."""
        connection = self._connections[self._group_coordinator]
        group_fields: dict[str, Any] = {"group_id": f"{GROUP}-classic", "protocol_type": "consumer"}
        member_id = ""
        for _ in range(2):
            membership = await connection.call(
                JOIN_GROUP,
                5,
                **group_fields,
                session_timeout=45_000,
                rebalance_timeout=45_000,
                member_id=member_id,
                protocols=({"name": "range", "metadata": b""},),
            )
            member_id = membership.member_id
        group_fields = {
            "group_id": group_fields["group_id"],
            "generation_id": membership.generation_id,
            "member_id": member_id,
        }
        assignments = ({"member_id": member_id, "assignment": b"a"},)
        await connection.call(SYNC_GROUP, 3, **group_fields, assignments=assignments)
        frame = frame_of(HEARTBEAT, 3, **group_fields)
        return RequestStep(
            broker=self._group_coordinator, frame=frame, error_position=_AT_HEARTBEAT
        )

    # Parts

    async def _connect_to(self, host: str, port: int) -> tuple[Any, RawConnection]:
        connection = RawConnection()
        return await self._connect(host, port, lambda: connection), connection

    async def _find_coordinator(self, connection: RawConnection, key: str, key_type: int) -> int:
        while True:
            coordinator = await connection.call(FIND_COORDINATOR, 3, key=key, key_type=key_type)
            if not coordinator.error_code:
                return int(coordinator.node_id)
            await asyncio.sleep(0.05)
