"""Raw requests through either listener of a cluster: the one that speaks what Kafka ships, and
the one that speaks the text of the KIPs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from tests.support.broker_api import KEYS, NOT_YET, batch, produce, transaction
from tests.support.clusters import real_cluster
from tests.support.raw_connection import WireClient
from txnsim.api.kip_text.table import LISTENER
from txnsim.errors import ErrorCode
from txnsim.metadata.image import CLIENT_LISTENER
from txnsim.server.cluster import SimCluster
from txnsim.types import (
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    TopicPartition,
    TransactionalId,
    partition_for,
)
from txnsim.wire import codec
from txnsim.wire.plain_values import message_from

SHIPPED: Final = CLIENT_LISTENER
TEXT: Final = LISTENER
BOTH: Final = (SHIPPED, TEXT)

_PATIENCE: Final = 500
_PAUSE_S: Final = 0.005


class NamedListenerClient:
    """A client of the listeners of one name. It opens a connection for each request."""

    def __init__(self, cluster: SimCluster, listener: str) -> None:
        self.cluster = cluster
        self.listener = listener

    async def ask(
        self,
        api: str,
        version: int,
        *,
        broker: int = 1,
        request_class: Any = None,
        read_as: int | None = None,
        **request_fields: Any,
    ) -> Any:
        """Send a request and decode the answer; None if the broker closes the connection instead.

        Args:
            api: Its name.
            version: Its version.
            broker: Whom to ask.
            request_class: Of the request, where its layout is not Kafka's.
            read_as: Version of the answer's layout, where that is not Kafka's.
            values: Fields of the request by name.
        """
        api_key = KEYS[api]
        host, port = self.cluster.metadata.image.brokers[BrokerId(broker)].address(self.listener)
        wire = await WireClient.open(host, port)
        try:
            cls = request_class or codec.request_class(api_key, version)
            correlation_id = wire.expect(api_key, version if read_as is None else read_as)
            wire.send(
                codec.encode_request(
                    api_key, version, correlation_id, "client", message_from(cls, request_fields)
                )
            )
            return (await wire.answer())[1]
        except asyncio.IncompleteReadError:
            return None
        finally:
            await wire.close()

    async def until(self, api: str, version: int, **request_fields: Any) -> Any:
        """Repeat a request until the coordinator is ready, and return the answer."""
        for _ in range(_PATIENCE):
            answer = await self.ask(api, version, **request_fields)
            if answer.error_code not in NOT_YET:
                return answer
            await asyncio.sleep(_PAUSE_S)
        raise AssertionError(f"{api} stays {answer}")

    async def coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates this id."""
        answer = await self.until("FindCoordinator", 1, key=transactional_id, key_type=1)
        return int(answer.node_id)

    async def producer(self, transactional_id: str) -> tuple[int, int]:
        """Get a producer id and an epoch for a transactional id."""
        answer = await self.until(
            "InitProducerId",
            4,
            broker=await self.coordinator(transactional_id),
            transactional_id=transactional_id,
            transaction_timeout=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        assert answer.error_code is ErrorCode.none
        return answer.producer_id, answer.producer_epoch

    async def add(self, transactional_id: str, identity: tuple[int, int]) -> None:
        """Add the first partition of orders as clients did before transactions v2."""
        answer = await self.ask(
            "AddPartitionsToTxn",
            3,
            broker=await self.coordinator(transactional_id),
            **transaction(transactional_id, identity, {"orders": [0]}),
        )
        (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
        assert result.partition_error_code is ErrorCode.none

    async def produce(
        self,
        version: int,
        transactional_id: str | None,
        identity: tuple[int, int],
        *,
        sequence: int = 0,
    ) -> ErrorCode:
        """Produce a transactional record to the first partition of orders; return the error."""
        producer_id, epoch = identity
        records = batch(
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=transactional_id is not None,
        )
        topic = self.cluster.metadata.image.topics["orders"]
        answer = await self.ask(
            "Produce",
            version,
            broker=topic.partitions[0].leader,
            **produce(
                "orders", records, topic_id=topic.topic_id, transactional_id=transactional_id
            ),
        )
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    async def open_transaction(self, transactional_id: str) -> tuple[int, int]:
        """Open a transaction with one record in the first partition of orders."""
        identity = await self.producer(transactional_id)
        await self.add(transactional_id, identity)
        assert await self.produce(10, transactional_id, identity) is ErrorCode.none
        return identity

    async def end(
        self,
        version: int,
        transactional_id: str,
        identity: tuple[int, int],
        *,
        committed: bool,
        read_as: int | None = None,
    ) -> Any:
        """Send an EndTxn; return the answer."""
        return await self.ask(
            "EndTxn",
            version,
            broker=await self.coordinator(transactional_id),
            read_as=read_as,
            transactional_id=transactional_id,
            producer_id=identity[0],
            producer_epoch=identity[1],
            committed=committed,
        )

    async def describe(self, transactional_id: str, version: int = 0) -> Any:
        answer = await self.ask(
            "DescribeTransactions",
            version,
            broker=await self.coordinator(transactional_id),
            transactional_ids=[transactional_id],
        )
        return answer.transaction_states[0]

    async def wait_for_state(self, transactional_id: str, state: str, version: int = 0) -> Any:
        for _ in range(_PATIENCE):
            description = await self.describe(transactional_id, version)
            if description.transaction_state == state:
                return description
            await asyncio.sleep(_PAUSE_S)
        raise AssertionError(f"{transactional_id} stays {description}")

    async def run_transaction(
        self, transactional_id: str, *, transaction_version: int = 2, committed: bool = True
    ) -> tuple[int, int]:
        """Play a transaction to its end, and return the identity that ended it."""
        identity = await self.open_transaction(transactional_id)
        # v5 there, v4 here: the same protocol.
        version = 3 if transaction_version < 2 else 5 if self.listener == SHIPPED else 4
        answer = await self.end(version, transactional_id, identity, committed=committed)
        assert answer.error_code is ErrorCode.none
        await self.wait_for_state(
            transactional_id, "CompleteCommit" if committed else "CompleteAbort"
        )
        return identity

    async def active_producer(self, producer_id: int) -> Any:
        """The state of a producer at the leader of orders-0."""
        answer = await self.ask(
            "DescribeProducers",
            0,
            broker=self.cluster.metadata.image.topics["orders"].partitions[0].leader,
            topics=[{"name": "orders", "partition_indexes": [0]}],
        )
        (known_producer,) = [
            producer
            for producer in answer.topics[0].partitions[0].active_producers
            if producer.producer_id == producer_id
        ]
        return known_producer

    def home(self, transactional_id: str) -> TopicPartition:
        """The partition of ``__transaction_state`` that keeps this id."""
        topic = self.cluster.metadata.image.topics[TRANSACTION_STATE_TOPIC]
        return TopicPartition(
            TRANSACTION_STATE_TOPIC,
            partition_for(TransactionalId(transactional_id), len(topic.partitions)),
        )

    def move_coordinator(self, transactional_id: str) -> None:
        """Move the coordinator of a transactional id to another broker."""
        home_partition = self.home(transactional_id)
        partition = self.cluster.metadata.image.partition(home_partition)
        assert partition is not None
        new_leader_id = next(broker for broker in partition.isr if broker != partition.leader)
        self.cluster.move_leader(home_partition, new_leader_id)


@asynccontextmanager
async def kip_text_cluster(
    *, follows_kip_text: bool = True, **config_changes: Any
) -> AsyncIterator[SimCluster]:
    """A cluster with both listeners, by default of one broker."""
    config_changes.setdefault("brokers", 1)
    async with real_cluster(
        kip_text=follows_kip_text, topics=(("orders", 1),), **config_changes
    ) as cluster:
        yield cluster
