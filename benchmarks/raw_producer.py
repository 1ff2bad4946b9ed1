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
PRODUCE_AND_END_VERSIONS: Final = {"v2": (12, 5), "old": (11, 3)}
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
        self._received_bytes = b""
        self._answer_future: asyncio.Future[bytes] | None = None
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Pass on each complete answer."""
        self._received_bytes += data
        frame_size = int.from_bytes(self._received_bytes[:4], "big") + 4
        if len(self._received_bytes) >= max(8, frame_size) and self._answer_future is not None:
            answer_bytes, self._received_bytes = (
                self._received_bytes[4:frame_size],
                self._received_bytes[frame_size:],
            )
            answer_future, self._answer_future = self._answer_future, None
            answer_future.set_result(answer_bytes)

    async def ask(self, frame: bytes) -> bytes:
        """Send one request; return its answer."""
        self._answer_future = asyncio.get_running_loop().create_future()
        self._transport.write(frame)
        return await self._answer_future

    async def call(self, api_key: int, api_version: int, **field_values: Any) -> Any:
        """Send one request of these values; return its decoded answer."""
        answer_bytes = await self.ask(encode_request_frame(api_key, api_version, **field_values))
        return codec.read_response(api_key, api_version, answer_bytes)[1]

    def close(self) -> None:
        self._transport.close()


def encode_request_frame(api_key: int, api_version: int, **field_values: Any) -> bytes:
    """Encode a whole request."""
    request = message_from(codec.request_class(api_key, api_version), field_values)
    return codec.encode_request(api_key, api_version, 1, "calls", request)


class RawProducer:
    """A transactional id with a connection to each broker."""

    def __init__(
        self, connect: ConnectFunction, bootstrap: str, transactional_id: str, txn_flow: str
    ) -> None:
        self._connect = connect
        self._bootstrap = bootstrap
        self.transactional_id = transactional_id
        self._txn_flow = txn_flow
        self._connection_by_broker: dict[int, RawConnection] = {}
        self._leader_by_partition: dict[int, int] = {}
        self._coordinator_id = self._group_coordinator_id = 0
        self._producer_id = self._epoch = -1
        self._last_partition = sum(transactional_id.encode()) % PARTITIONS
        self._next_sequences = [0] * PARTITIONS

    async def open(self) -> None:
        """Connect, find coordinators and leaders, and get a producer id."""
        host, port = self._bootstrap.split(",")[0].rsplit(":", 1)
        _, bootstrap_connection = await self._connect_to(host, int(port))
        topic_requests = ({"name": TOPIC},)
        metadata = await bootstrap_connection.call(
            METADATA, 9, topics=topic_requests, allow_auto_topic_creation=True
        )
        for broker in metadata.brokers:
            _, self._connection_by_broker[broker.node_id] = await self._connect_to(
                broker.host, broker.port
            )
        while metadata.topics[0].error_code or any(
            partition.error_code for partition in metadata.topics[0].partitions
        ):
            await asyncio.sleep(0.05)
            metadata = await bootstrap_connection.call(METADATA, 9, topics=topic_requests)
        self._leader_by_partition = {
            partition.partition_index: partition.leader_id
            for partition in metadata.topics[0].partitions
        }
        self._coordinator_id = await self._find_coordinator(
            bootstrap_connection, self.transactional_id, 1
        )
        self._group_coordinator_id = await self._find_coordinator(bootstrap_connection, GROUP, 0)
        while True:
            init_response = await self._connection_by_broker[self._coordinator_id].call(
                INIT_PRODUCER_ID,
                4,
                transactional_id=self.transactional_id,
                transaction_timeout=_TIMEOUT_MS,
                producer_id=-1,
                producer_epoch=-1,
            )
            if not init_response.error_code:
                break
            await asyncio.sleep(0.05)
        self._producer_id, self._epoch = init_response.producer_id, init_response.producer_epoch
        bootstrap_connection.close()

    def close(self) -> None:
        for connection in self._connection_by_broker.values():
            connection.close()

    async def run_steps(self, steps: list[RequestStep]) -> None:
        """Send requests one after the other; repeat a request after CONCURRENT_TRANSACTIONS."""
        for step in steps:
            connection = self._connection_by_broker[step.broker]
            while True:
                answer_bytes = await connection.ask(step.frame)
                error_code = int.from_bytes(
                    answer_bytes[step.error_position : step.error_position + 2], "big"
                )
                if not error_code:
                    break
                assert error_code == CONCURRENT_TRANSACTIONS_CODE, f"error {error_code}"
                await asyncio.sleep(RETRY_S)

    # Steps

    def make_transaction_steps(self, transaction_count: int) -> list[RequestStep]:
        """Encode the requests of transactions of one record each, on the partitions in turn."""
        steps: list[RequestStep] = []
        for _ in range(transaction_count):
            self._last_partition = (self._last_partition + 1) % PARTITIONS
            if self._txn_flow == "old":
                steps.append(self.make_add_step())
            steps += (self.make_produce_step(), self.make_end_step())
        return steps

    def make_add_step(self) -> RequestStep:
        """Encode an AddPartitionsToTxn request of the flow before transactions v2."""
        topic_fields = ({"name": TOPIC, "partitions": (self._last_partition,)},)
        frame = encode_request_frame(
            ADD_PARTITIONS,
            3,
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=topic_fields,
        )
        return RequestStep(broker=self._coordinator_id, frame=frame, error_position=_AT_ADD)

    def make_wide_transaction_steps(self, partition_count: int) -> list[RequestStep]:
        """Encode the requests of a transaction with a record on each of some partitions."""
        batch_by_partition = {
            partition: self._build_batch(0) for partition in range(partition_count)
        }
        return [
            self._encode_produce_step(
                PRODUCE_AND_END_VERSIONS["v2"][0], self.transactional_id, batch_by_partition
            ),
            self.make_end_step(),
        ]

    def make_produce_step(self) -> RequestStep:
        """Encode a Produce of one record of 100 bytes in the transaction."""
        batch = self._build_batch(self._next_sequences[self._last_partition])
        self._next_sequences[self._last_partition] += 1
        return self._encode_produce_step(
            PRODUCE_AND_END_VERSIONS[self._txn_flow][0],
            self.transactional_id,
            {self._last_partition: batch},
        )

    def make_plain_produce_step(self) -> RequestStep:
        """Encode a Produce request outside of a transaction."""
        batch = build_batch([Record(value=b"v" * 100)], timestamp_ms=1_700_000_000_000)
        return self._encode_produce_step(12, None, {0: batch})

    def _build_batch(self, sequence: int) -> bytes:
        return build_batch(
            [Record(value=b"v" * 100)],
            timestamp_ms=1_700_000_000_000,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            is_transactional=True,
        )

    def _encode_produce_step(
        self, version: int, transactional_id: str | None, batch_by_partition: dict[int, bytes]
    ) -> RequestStep:
        partition_fields = tuple(
            {"index": index, "records": batch} for index, batch in batch_by_partition.items()
        )
        frame = encode_request_frame(
            PRODUCE,
            version,
            transactional_id=transactional_id,
            acks=-1,
            timeout=30_000,
            topic_data=({"name": TOPIC, "partition_data": partition_fields},),
        )
        return RequestStep(
            broker=self._leader_by_partition[min(batch_by_partition)],
            frame=frame,
            error_position=_AT_PRODUCE,
        )

    def make_end_step(self) -> RequestStep:
        """Encode an EndTxn request that commits; afterwards the producer has its next transaction's
        identity.
        """
        frame = encode_request_frame(
            END_TXN,
            PRODUCE_AND_END_VERSIONS[self._txn_flow][1],
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=True,
        )
        if self._txn_flow == "v2":
            self._epoch += 1
            self._next_sequences = [0] * PARTITIONS
        return RequestStep(broker=self._coordinator_id, frame=frame, error_position=_AT_END_TXN)

    def make_fetch_step(self) -> RequestStep:
        """Encode a Fetch of what is on partition 0, one batch at most."""
        partition_fields = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
        frame = encode_request_frame(
            FETCH,
            12,
            replica_id=-1,
            max_wait=500,
            min_bytes=1,
            max_bytes=1,
            session_epoch=-1,
            topics=({"topic": TOPIC, "partitions": (partition_fields,)},),
        )
        return RequestStep(
            broker=self._leader_by_partition[0], frame=frame, error_position=_AT_END_TXN
        )

    def make_offset_commit_step(self) -> RequestStep:
        """Encode a TxnOffsetCommit request in the current transaction."""
        partition_fields = {
            "partition_index": 0,
            "committed_offset": 1,
            "committed_leader_epoch": -1,
        }
        frame = encode_request_frame(
            TXN_OFFSET_COMMIT,
            5,
            transactional_id=self.transactional_id,
            group_id=GROUP,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            generation_id=-1,
            topics=({"name": TOPIC, "partitions": (partition_fields,)},),
        )
        return RequestStep(broker=self._group_coordinator_id, frame=frame, error_position=_AT_ADD)

    async def join_group_and_make_heartbeat_step(self) -> RequestStep:
        """Join a classic group; return the member's Heartbeat request."""
        connection = self._connection_by_broker[self._group_coordinator_id]
        group_fields: dict[str, Any] = {"group_id": f"{GROUP}-classic", "protocol_type": "consumer"}
        member_id = ""
        for _ in range(2):
            join_response = await connection.call(
                JOIN_GROUP,
                5,
                **group_fields,
                session_timeout=45_000,
                rebalance_timeout=45_000,
                member_id=member_id,
                protocols=({"name": "range", "metadata": b""},),
            )
            member_id = join_response.member_id
        group_fields = {
            "group_id": group_fields["group_id"],
            "generation_id": join_response.generation_id,
            "member_id": member_id,
        }
        member_assignments = ({"member_id": member_id, "assignment": b"a"},)
        await connection.call(SYNC_GROUP, 3, **group_fields, assignments=member_assignments)
        frame = encode_request_frame(HEARTBEAT, 3, **group_fields)
        return RequestStep(
            broker=self._group_coordinator_id, frame=frame, error_position=_AT_HEARTBEAT
        )

    # Parts

    async def _connect_to(self, host: str, port: int) -> tuple[Any, RawConnection]:
        connection = RawConnection()
        return await self._connect(host, port, lambda: connection), connection

    async def _find_coordinator(
        self, connection: RawConnection, coordinator_key: str, key_type: int
    ) -> int:
        while True:
            coordinator_response = await connection.call(
                FIND_COORDINATOR, 3, key=coordinator_key, key_type=key_type
            )
            if not coordinator_response.error_code:
                return int(coordinator_response.node_id)
            await asyncio.sleep(0.05)
