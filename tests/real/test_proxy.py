"""A fault proxy in front of a real Apache Kafka, also between its brokers: what is held, lost or
doubled there is what a real coordinator and real leaders then have to live with.
"""

from __future__ import annotations

import asyncio
import time  # noqa: TID251 - certificates begin on the real day
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.apache_kafka import ApacheKafka, free_ports
from tests.support.clusters import begin_transaction
from txnsim.client.admin import Admin
from txnsim.client.authentication import ClientSecurity
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError
from txnsim.client.fetching import fetch
from txnsim.client.producer import Producer
from txnsim.client.requests import NewTopic, produce
from txnsim.client.txn_requests import TxnRequests
from txnsim.client.versions import VersionRange
from txnsim.errors import ErrorCode
from txnsim.faults.plan import FaultRule
from txnsim.runtime.real_world import real_environment
from txnsim.security.options import ClientTls, TlsFiles
from txnsim.server.security_demo import Authority
from txnsim.types import IsolationLevel, TopicPartition
from txnsim.wire.batch import Record, build_batch
from txnsim_lab.proxy.addresses import NodeAddress
from txnsim_lab.proxy.fault_proxy import FaultProxy
from txnsim_lab.proxy.options import ProxyOptions

pytestmark = pytest.mark.real

WAIT_MS = 30_000


@pytest.fixture(scope="module")
def kafka() -> Iterator[tuple[ApacheKafka, int]]:
    """A node whose inter-broker listener is advertised at a port of the proxy's."""
    peer_port = free_ports(1)[0] - 1
    # So long waits a coordinator until it sends a marker again.
    patience = {"request.timeout.ms": "8000"}
    with ApacheKafka(peer_port=peer_port, properties=patience) as running_kafka:
        yield running_kafka, peer_port


class ProxiedKafka:
    """The proxy, a client that comes through it, and a topic of one partition."""

    def __init__(self, proxy: FaultProxy, client: Cluster, topic: str) -> None:
        self.proxy = proxy
        self.client = client
        self.topic = topic

    def arm(self, **rule_fields: Any) -> None:
        self.proxy.injector.arm(msgspec.convert({"id": "f", **rule_fields}, FaultRule))

    async def wait_until_struck(self, count: int = 1) -> None:
        await self.proxy.injector.wait_until_struck("f", count=count, timeout_ms=WAIT_MS)

    async def commit(self, transactional_id: str, record_value: bytes) -> None:
        async with await begin_transaction(self.client, transactional_id) as producer:
            await producer.send(self.topic, 0, record_value)
            await producer.commit()

    async def state(self, transactional_id: str) -> str:
        return await state_of(self.client, transactional_id)

    async def until_complete(self, transactional_id: str) -> None:
        async def is_complete() -> bool:
            return await self.state(transactional_id) == "CompleteCommit"

        await self.until(is_complete)

    async def until(self, is_so: Callable[[], Awaitable[bool]]) -> None:
        pause_s = 0.01
        while pause_s < WAIT_MS / 10_000:
            if await is_so():
                return
            await asyncio.sleep(pause_s)
            pause_s *= 1.2
        raise AssertionError("it never became so")

    async def read_committed(self) -> list[bytes | None]:
        """The values that a read_committed reader gets."""
        values: list[bytes | None] = []
        offset = 0
        while True:
            fetch_result = await fetch(
                self.client, self.topic, 0, offset,
                isolation=IsolationLevel.READ_COMMITTED, max_wait_ms=0,
            )  # fmt: skip
            values += [record.value for record in fetch_result.records]
            if fetch_result.next_offset == offset:
                return values
            offset = fetch_result.next_offset


@asynccontextmanager
async def front_of(
    kafka: tuple[ApacheKafka, int], topic: str, **more_options: Any
) -> AsyncIterator[ProxiedKafka]:
    """A proxy in front of the node. Each test has its own topic, as the real coordinator may still
    write the markers of the test before.
    """
    running_kafka, peer_port = kafka
    environment = real_environment(seed=1)
    peer_addresses = tuple(
        NodeAddress(node_id, "127.0.0.1", port) for node_id, port in running_kafka.peers.items()
    )
    options = ProxyOptions(
        bootstrap=running_kafka.bootstrap,
        port=0,
        peers=peer_addresses,
        peer_port=peer_port,
        **more_options,
    )
    proxy = FaultProxy(environment, options)
    await proxy.start()
    settings = ClientSettings(retry_backoff_ms=20, retry_backoff_max_ms=100)
    try:
        async with Cluster(proxy.bootstrap, settings=settings) as client:
            admin = Admin(client)
            await admin.create_topics([NewTopic(name=topic, partitions=1, replication_factor=1)])
            await admin.wait_for_topic(topic)
            yield ProxiedKafka(proxy, client, topic)
    finally:
        await proxy.stop()
        await environment.tasks.close()


async def test_a_real_commit_marker_is_held_and_let_go(kafka: tuple[ApacheKafka, int]) -> None:
    async with front_of(kafka, "held") as proxied_kafka:
        proxied_kafka.arm(
            point="peer.request", api="WriteTxnMarkers", topic=proxied_kafka.topic,
            source="broker/1", committed=True, action={"do": "hold"},
        )  # fmt: skip
        await proxied_kafka.commit("held", b"held")
        await proxied_kafka.wait_until_struck()
        assert await proxied_kafka.state("held") == "PrepareCommit"
        assert await proxied_kafka.read_committed() == [], "committed, and not readable yet"
        assert proxied_kafka.proxy.injector.release("f") >= 1  # sent again, where this took long

        async def is_readable() -> bool:
            return await proxied_kafka.read_committed() == [b"held"]

        await proxied_kafka.until(is_readable)
        await proxied_kafka.until_complete("held")


async def test_brokers_that_log_in_over_tls_have_their_marker_held(tmp_path: Path) -> None:
    """SASL passes the proxy, TLS ends there: each side trusts the certificate of the other."""
    authority = Authority(tmp_path, now_ms=time.time_ns() // 1_000_000)
    node_keys, door_keys = (
        authority.issue(common_name, hosts=["127.0.0.1"]) for common_name in ("node", "door")
    )
    keystore_file = tmp_path / "node.keystore.pem"
    keystore_file.write_bytes(node_keys.key.read_bytes() + node_keys.certificate.read_bytes())
    peer_port = free_ports(1)[0] - 1
    internal = "listener.name.internal"
    login = 'PlainLoginModule required username="node" password="s" user_node="s";'
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SASL_SSL,"
        "CONTROLLER:PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{internal}.sasl.enabled.mechanisms": "PLAIN",
        f"{internal}.plain.sasl.jaas.config": f"org.apache.kafka.common.security.plain.{login}",
        f"{internal}.ssl.keystore.type": "PEM",
        f"{internal}.ssl.keystore.location": str(keystore_file),
        f"{internal}.ssl.truststore.type": "PEM",
        f"{internal}.ssl.truststore.location": str(authority.certificate),
    }
    trusting_tls = ClientTls(authority=authority.certificate.read_text())
    settings = ClientSettings(security=ClientSecurity(tls=trusting_tls))
    peer_tls = TlsFiles(certificate=str(door_keys.certificate), key=str(door_keys.key))
    with ApacheKafka(peer_port=peer_port, properties=properties) as running_kafka:
        running_node = (running_kafka, peer_port)
        async with front_of(
            running_node, "held", peer_tls=peer_tls, settings=settings
        ) as proxied_kafka:
            proxied_kafka.arm(
                point="peer.request", api="WriteTxnMarkers", topic=proxied_kafka.topic,
                source="broker/1", action={"do": "hold"},
            )  # fmt: skip
            await proxied_kafka.commit("held", b"held")
            await proxied_kafka.wait_until_struck()
            assert await proxied_kafka.read_committed() == [], "committed, and not readable yet"
            proxied_kafka.proxy.injector.disarm("f")
            await proxied_kafka.until_complete("held")
            assert await proxied_kafka.read_committed() == [b"held"]


async def test_a_marker_that_is_lost_is_sent_again(kafka: tuple[ApacheKafka, int]) -> None:
    async with front_of(kafka, "lost") as proxied_kafka:
        proxied_kafka.arm(
            point="peer.request", api="WriteTxnMarkers", topic=proxied_kafka.topic, limit=1,
            action={"do": "drop"},
        )  # fmt: skip
        await proxied_kafka.commit("lost", b"lost for a while")
        await proxied_kafka.wait_until_struck()
        assert await proxied_kafka.state("lost") == "PrepareCommit"
        assert await proxied_kafka.read_committed() == []
        await proxied_kafka.until_complete("lost")
        assert await proxied_kafka.read_committed() == [b"lost for a while"]


async def test_a_marker_that_is_doubled_changes_nothing(kafka: tuple[ApacheKafka, int]) -> None:
    async with front_of(kafka, "doubled") as proxied_kafka:
        proxied_kafka.arm(
            point="peer.request", api="WriteTxnMarkers", topic=proxied_kafka.topic,
            action={"do": "duplicate"},
        )  # fmt: skip
        await proxied_kafka.commit("doubled", b"doubled")
        await proxied_kafka.wait_until_struck()
        await proxied_kafka.until_complete("doubled")
        assert await proxied_kafka.read_committed() == [b"doubled"]


async def test_an_answer_to_a_verification_is_replaced(kafka: tuple[ApacheKafka, int]) -> None:
    """The leader gives its producer the error of the replaced answer."""
    async with front_of(kafka, "unsure") as proxied_kafka:
        proxied_kafka.arm(
            point="peer.response", api="AddPartitionsToTxn", transactional_id="unsure", limit=1,
            action={"do": "error", "error": "COORDINATOR_LOAD_IN_PROGRESS"},
        )  # fmt: skip
        await proxied_kafka.commit("unsure", b"asked again")
        await proxied_kafka.wait_until_struck()


async def test_a_client_meets_an_error_that_no_broker_made(kafka: tuple[ApacheKafka, int]) -> None:
    async with front_of(kafka, "moved") as proxied_kafka:
        proxied_kafka.arm(
            point="client.request", api="EndTxn", transactional_id="moved", limit=1,
            action={"do": "error", "error": "NOT_COORDINATOR"},
        )  # fmt: skip
        await proxied_kafka.commit("moved", b"after all")
        await proxied_kafka.wait_until_struck()


async def test_without_the_proxy_nothing_between_brokers_gets_through(
    kafka: tuple[ApacheKafka, int],
) -> None:
    """A broker can't reach even itself without the proxy, as docs/proxy.md says."""
    running_kafka, _ = kafka
    async with front_of(kafka, "closed") as proxied_kafka:
        written_identity, old_identity, new_identity = [
            await identity(proxied_kafka.client, n) for n in ("written", "old", "new")
        ]
        assert await add(proxied_kafka.client, "written", written_identity) == ErrorCode.none
        assert await write(proxied_kafka.client, "written", written_identity, V1) == ErrorCode.none
    async with Cluster(running_kafka.bootstrap) as client:
        # What was written before can be ended; its marker is owed.
        end_request = TxnRequests(
            "written", producer_id=written_identity[0], producer_epoch=written_identity[1]
        ).end(committed=True, accepted_versions=VersionRange(3, 4))
        assert (await client.ask(1, end_request)).error_code == ErrorCode.none
        assert await state_of(client, "written") == "PrepareCommit"
        # Nothing can be written: the leader can't ask the coordinator.
        assert await add(client, "old", old_identity) == ErrorCode.none
        assert await write(client, "old", old_identity, V1) == ErrorCode.not_enough_replicas
        assert await state_of(client, "old") == "Ongoing"
        assert await write(client, "new", new_identity, V2) == ErrorCode.not_enough_replicas
        assert await state_of(client, "new") == "Empty"
    async with front_of(kafka, "opened") as proxied_kafka:
        await proxied_kafka.until_complete("written")


V1, V2 = VersionRange(9, 11), VersionRange(12, 12)
"""Of Produce: from 12 on its leader adds the partition (transactions v2)."""
CLOSED = TopicPartition("closed", 0)


async def identity(client: Cluster, transactional_id: str) -> tuple[int, int]:
    assigned_identity = await Producer(
        client, transactional_id=transactional_id
    ).init_transactions()
    return assigned_identity.producer_id, assigned_identity.producer_epoch


async def add(client: Cluster, transactional_id: str, identity: tuple[int, int]) -> ErrorCode:
    request = TxnRequests(
        transactional_id, producer_id=identity[0], producer_epoch=identity[1]
    ).add_partitions(partitions=[CLOSED])
    answer = await client.ask(1, request)
    ((row,),) = [topic.results_by_partition for topic in answer.results_by_topic_v3_and_below]
    return ErrorCode(row.partition_error_code)


async def write(
    client: Cluster, transactional_id: str, identity: tuple[int, int], version_range: VersionRange
) -> ErrorCode:
    batch = build_batch(
        [Record(value=b"a")],
        timestamp_ms=client.clock.now_ms(),
        producer_id=identity[0],
        producer_epoch=identity[1],
        base_sequence=0,
        is_transactional=True,
    )
    answer = await client.ask(
        1,
        produce(
            {CLOSED: batch},
            id_by_topic={},
            transactional_id=transactional_id,
            accepted_versions=version_range,
        ),
    )
    ((row,),) = [topic.partition_responses for topic in answer.responses]
    return ErrorCode(row.error_code)


async def state_of(client: Cluster, transactional_id: str) -> str:
    description = (await Admin(client).describe_transactions((transactional_id,)))[transactional_id]
    assert not isinstance(description, ClientError)
    return description.state
