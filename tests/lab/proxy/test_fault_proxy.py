"""The proxy in front of a real cluster: addresses, listeners, faults on what it relays."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints
from uuid import UUID

import msgspec
import pytest

from tests.broker.server.test_connection import first_partition, open_wire
from tests.support.clusters import IMPATIENT, VirtualCluster, options, run_cluster
from tests.support.logs import plain
from tests.support.proxied_cluster import ProxiedCluster, run_proxied
from tests.support.raw_connection import WireClient
from tests.support.within_environment import within
from txnsim.client import requests
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ConnectionLostError
from txnsim.client.producer import Producer
from txnsim.errors import ConfigError, ErrorCode
from txnsim.faults.actions import Fail, Hold, Pass, Rewrite
from txnsim.faults.cluster_actions import Crash
from txnsim.faults.interception import RewriteHow
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.injection.injector import CannotStrikeError
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.server.cluster import SimCluster
from txnsim.testing import SimulatedKafka
from txnsim.testing._foreign_cluster import ForeignKafka
from txnsim.testing.event_loop import LoopThread
from txnsim.testing.options import options_from_keywords
from txnsim.types import TopicPartition
from txnsim.wire import codec, registry
from txnsim.wire.apis import APIS, api_name
from txnsim.wire.plain_values import message_from
from txnsim_lab.proxy import _relay as peek
from txnsim_lab.proxy import addresses
from txnsim_lab.proxy._listeners import LISTENERS_MAX, NodeListeners
from txnsim_lab.proxy._topic_names import TopicNames
from txnsim_lab.proxy.addresses import NodeAddress
from txnsim_lab.proxy.fault_proxy import FaultProxy
from txnsim_lab.proxy.meanings import POINTS, refusal
from txnsim_lab.proxy.options import ProxyOptions, peer_from

# Addresses in answers: all of them are known, and each is rewritten without touching the rest.


PRODUCE, FETCH, METADATA, FIND_COORDINATOR, CLUSTER = 0, 1, 3, 10, 60
SHARE_FETCH = 78


def proxy_address(node: NodeAddress) -> tuple[str, int]:
    return f"proxy-{node.node_id}", 19090 + node.node_id


def hosts_in(cls: Any, path: str) -> Iterator[str]:
    """Paths of the messages in an answer that have a host."""
    names = {field.name for field in fields(cls)}
    if any("host" in name for name in names):
        yield path
    hints = get_type_hints(cls)
    for field in fields(cls):
        for part in parts_of(hints[field.name]):
            yield from hosts_in(part, f"{path}.{field.name}")


def parts_of(hint: Any) -> Iterator[Any]:
    """The message classes in a type annotation."""
    if is_dataclass(hint):
        yield hint
    for part in get_args(hint):
        yield from parts_of(part)


@pytest.mark.slow
def test_every_answer_with_a_host_is_rewritten_or_left_for_a_reason() -> None:
    rewritten = {
        "Metadata.brokers", "DescribeCluster.brokers", "FindCoordinator",
        "FindCoordinator.coordinators", "Produce.node_endpoints", "Fetch.node_endpoints",
        "ShareFetch.node_endpoints", "ShareAcknowledge.node_endpoints",
    }  # fmt: skip
    rewritten_paths: set[str] = set()
    for api_key in APIS:
        for version in registry.versions(api_key):
            paths = set(hosts_in(codec.response_class(api_key, version), api_name(api_key)))
            if paths & rewritten:
                assert addresses.may_have_addresses(api_key, version), (api_name(api_key), version)
            rewritten_paths |= paths
    assert rewritten_paths == rewritten | set(addresses.NOT_REWRITTEN)
    assert not rewritten & set(addresses.NOT_REWRITTEN)


def built(api_key: int, version: int, **values: Any) -> bytes:
    message = message_from(codec.response_class(api_key, version), values)
    return codec.frame_response(api_key, version, 5, codec.encode_body(message))


def rewrite(api_key: int, version: int, frame: bytes) -> tuple[bytes, Any]:
    message = addresses.message_of(api_key, version, frame)
    changed_frame = addresses.rewrite_addresses(api_key, version, frame, message, proxy_address)
    assert int.from_bytes(changed_frame[:4], "big") == len(changed_frame) - 4
    assert changed_frame[4:8] == frame[4:8]
    return changed_frame, codec.read_response(api_key, version, changed_frame[4:])[1]


@pytest.mark.parametrize("version", registry.versions(METADATA))
def test_metadata_leads_to_the_proxy(version: int) -> None:
    brokers = [{"node_id": node_id, "host": f"kafka-{node_id}", "port": 9092} for node_id in (1, 2)]
    frame = built(METADATA, version, brokers=brokers, cluster_id="c", controller_id=1)
    _, message = rewrite(METADATA, version, frame)
    assert [(row.host, row.port) for row in message.brokers] == [
        ("proxy-1", 19091), ("proxy-2", 19092),
    ]  # fmt: skip


@pytest.mark.parametrize("version", registry.versions(FIND_COORDINATOR))
def test_a_coordinator_that_was_found_is_at_the_proxy_and_none_stays_none(version: int) -> None:
    address_fields = {
        "node_id": 2,
        "host": "kafka-2",
        "port": 9092,
        "error_code": 0,
        "error_message": None,
    }
    no_coordinator = {
        "node_id": -1,
        "host": "",
        "port": -1,
        "error_code": 15,
        "error_message": "no",
    }
    for values, expected in ((address_fields, ("proxy-2", 19092)), (no_coordinator, ("", -1))):
        rows: dict[str, Any] = {"coordinators": [{"key": "id", **values}]}
        frame = built(FIND_COORDINATOR, version, **(values if version < 4 else rows))
        changed_frame, message = rewrite(FIND_COORDINATOR, version, frame)
        coordinator = message.coordinators[0] if version >= 4 else message
        assert (coordinator.host, coordinator.port) == expected
        assert (changed_frame == frame) is (values is no_coordinator)


def test_a_list_of_controllers_stays_as_it_is() -> None:
    for endpoint_type, host in ((1, "proxy-1"), (2, "kafka-1")):
        brokers = [{"broker_id": 1, "host": "kafka-1", "port": 9}]
        frame = built(CLUSTER, 2, cluster_id="c", endpoint_type=endpoint_type, brokers=brokers)
        _, message = rewrite(CLUSTER, 2, frame)
        assert message.brokers[0].host == host


def endpoints(*nodes: int) -> list[dict[str, Any]]:
    return [
        {"node_id": node_id, "host": f"kafka-{node_id}", "rack": rack}
        for node_id, rack in zip(nodes, (None, "rack-a", ""), strict=False)
    ]


@pytest.mark.parametrize(
    ("key", "version"), [(PRODUCE, 10), (PRODUCE, 13), (FETCH, 16), (FETCH, 18)]
)
def test_endpoints_at_the_end_are_found_and_nothing_else_changes(key: int, version: int) -> None:
    for nodes in ((), (1,), (1, 2, 3)):
        frame = built(key, version, node_endpoints=endpoints(*nodes))
        tail = addresses.tail_of([frame[:9], frame[9:]])
        assert addresses.ends_with_endpoints(tail) is bool(nodes)
        changed_frame, message = rewrite(key, version, frame)
        assert [(row.host, row.port) for row in message.node_endpoints] == [
            (f"proxy-{node_id}", 19090 + node_id) for node_id in nodes
        ]
        assert [row.rack for row in message.node_endpoints] == [None, "rack-a", ""][: len(nodes)]
        if not nodes:
            assert changed_frame == frame


def test_endpoints_of_share_groups_are_rewritten() -> None:
    frame = built(SHARE_FETCH, 1, node_endpoints=endpoints(4))
    _, message = rewrite(SHARE_FETCH, 1, frame)
    assert message.node_endpoints[0].host == "proxy-4"


def test_records_that_look_like_endpoints_are_no_endpoints() -> None:
    end = b"\x01\x00\x04abc\x00"
    assert addresses.ends_with_endpoints(b"anything" + end)
    assert not addresses.ends_with_endpoints(b"anything" + end + b"\x00\x00")
    assert not addresses.ends_with_endpoints(b"\x01\x00\xff\xff\xff\xff\xff\xff\x00")
    assert not addresses.ends_with_endpoints(b"\x01\x00")
    assert not addresses.ends_with_endpoints(b"")


def test_the_tail_of_a_large_answer_is_not_all_of_it() -> None:
    chunks = [bytes(50_000), b"a" * 20_000, b"b" * 20_000]
    assert addresses.tail_of(chunks) == b"".join(chunks)[-32_768:]
    assert len(addresses.tail_of(chunks[:1])) == 32_768


@pytest.mark.parametrize("version", [0, 2, 3, 4])
def test_versions_are_bounded_by_what_the_proxy_can_read(version: int) -> None:
    rows = [{"api_key": api_key, "max_version": 40} for api_key in (FETCH, 8, METADATA)]
    frame = built(18, version, api_keys=rows)
    changed_frame = addresses.limit_api_versions(version, frame)
    assert len(changed_frame) == len(frame)
    _, message = codec.read_response(18, version, changed_frame[4:])
    assert [api_key.max_version for api_key in message.api_keys] == [18, 40, 13]
    bounded_answer = built(18, version, api_keys=rows[1:2])
    assert addresses.limit_api_versions(version, bounded_answer) is bounded_answer


def test_a_version_nobody_knows_is_answered_in_the_oldest_layout() -> None:
    frame = built(18, 0, error_code=35, api_keys=[{"api_key": FETCH, "max_version": 40}])
    _, message = codec.read_response(18, 0, addresses.limit_api_versions(5, frame)[4:])
    assert message.api_keys[0].max_version == 18
    assert addresses.limit_api_versions(0, frame[:-1]) == frame[:-1], (
        "a row that is cut off is left alone"
    )


# The proxy as a whole: what it stands in front of, and how it starts and ends.


@within(run_proxied)
async def test_every_connection_of_a_client_goes_through_it_after_leaders_move(
    cluster: ProxiedCluster,
) -> None:
    topic_partition = TopicPartition("orders", 0)
    own_addresses = {address for broker in cluster.sim.metadata.image.brokers.values()
           for address in [(broker.host, broker.port)]}  # fmt: skip
    async with Cluster(
        cluster.proxy.bootstrap,
        settings=IMPATIENT,
        clock=cluster.env.clock,
        tasks=cluster.env.tasks,
    ) as client:
        producer = Producer(client, transactional_id="shop")
        await producer.init_transactions()
        for _ in range(3):
            producer.begin()
            await producer.send("orders", 0, b"v")
            await producer.commit()
            cluster.move(topic_partition)
        assert {(broker.host, broker.port) for broker in client.view.brokers}.isdisjoint(
            own_addresses
        )
    assert sum(listener.accepted_count for listener in cluster.proxy.clients) >= 3


@within(run_proxied)
async def test_what_it_can_not_do_is_refused_when_it_is_armed(cluster: ProxiedCluster) -> None:
    with pytest.raises(CannotStrikeError, match="only the simulator"):
        cluster.arm(Hold(), FaultPoint.LOG_APPEND)
    with pytest.raises(CannotStrikeError, match="--peer"):
        cluster.arm(Hold(), FaultPoint.PEER_REQUEST)


@pytest.mark.parametrize("wait_ms", [0, 10_000])
@within(run_virtual, seed=1)
async def test_a_cluster_that_does_not_answer_is_waited_for_where_that_is_wanted(
    env: VirtualEnvironment, wait_ms: int
) -> None:
    proxy = FaultProxy(env, ProxyOptions(bootstrap="127.0.0.1:30001", port=0, wait_ms=wait_ms))
    cluster_options = options(brokers=1)
    sim = SimCluster(env, msgspec.structs.replace(cluster_options, port=30_001))
    starting_task = asyncio.get_running_loop().create_task(proxy.start())
    await asyncio.sleep(1)
    await sim.start()
    if wait_ms:
        await starting_task
        assert proxy.cluster_id is not None
        assert [listener.node_id for listener in proxy.clients] == [1]
    else:
        with pytest.raises(ConnectionLostError, match="30001"):
            await starting_task
    await proxy.stop()
    await sim.stop()


@pytest.mark.parametrize("wait_ms", [0, 10_000])
@within(run_cluster)
async def test_a_broker_that_has_not_heard_of_itself_is_asked_again_where_that_is_wanted(
    cluster: VirtualCluster, wait_ms: int
) -> None:
    rewrite = Rewrite(field="brokers", how=RewriteHow.CLEAR)
    cluster.arm(rewrite, FaultPoint.CLIENT_RESPONSE, api="Metadata", limit=2)
    proxy_options = ProxyOptions(bootstrap=cluster.sim.bootstrap, port=0, wait_ms=wait_ms)
    proxy = FaultProxy(cluster.env, proxy_options)
    if wait_ms:
        await proxy.start()
        assert len(list(proxy.clients)) == len(cluster.sim.brokers)
    else:
        with pytest.raises(ConfigError, match="the cluster names no broker"):
            await proxy.start()
    await proxy.stop()


@within(run_proxied)
async def test_between_brokers_rules_strike_and_addresses_stay(cluster: ProxiedCluster) -> None:
    """Listeners for brokers lead to the given addresses; a listener's name tells the sender."""
    image = cluster.sim.metadata.image
    peer_addresses = tuple(
        NodeAddress(int(n), broker.host, broker.port) for n, broker in image.brokers.items()
    )
    proxy = FaultProxy(
        cluster.env,
        ProxyOptions(bootstrap=cluster.sim.bootstrap, port=0, peer_port=0, peers=peer_addresses),
    )
    await proxy.start()
    for rule_id, source in (("by-2", "broker/2"), ("by-3", "broker/3")):
        proxy.injector.arm(
            FaultRule(id=rule_id, point=FaultPoint.PEER_REQUEST, action=Hold(), source=source)
        )
    wire = await WireClient.open(*proxy.peers.address(1), client_id="broker-2-fetcher-0")
    wire.send(wire.metadata())
    await proxy.injector.wait_until_struck("by-2", timeout_ms=1_000)
    assert await wire.silent_for(5)
    proxy.injector.disarm("by-2")
    _, message = await wire.answer()
    addresses_told = {(row.host, row.port) for row in message.brokers}
    assert addresses_told == {
        (peer_address.host, peer_address.port) for peer_address in peer_addresses
    }
    assert proxy.injector.get("by-3").matched == 0  # type: ignore[union-attr]
    await wire.close()
    await proxy.stop()


@within(run_proxied)
async def test_it_ends_with_its_connections(cluster: ProxiedCluster) -> None:
    cluster.arm(Hold(), FaultPoint.CLIENT_REQUEST)
    wire = await open_wire(cluster)
    wire.send(wire.metadata())
    await cluster.wait_until_struck()
    await cluster.proxy.stop()
    assert await wire.is_closed_by_broker()
    await wire.close()


def test_tests_on_a_foreign_cluster_have_faults_and_their_clients_are_led_there() -> None:
    thread = LoopThread()
    with (
        SimulatedKafka() as other_kafka,
        ForeignKafka.at_address(
            other_kafka.bootstrap, options_from_keywords(topics=["struck"]), thread, has_proxy=True
        ) as kafka,
    ):
        assert set(kafka.bootstrap.split(",")).isdisjoint(other_kafka.bootstrap.split(","))
        fault = kafka.faults.arm(point="client.request", api="Metadata", action="pass")
        with ForeignKafka.at_address(kafka.bootstrap, options_from_keywords(), thread):
            fault.wait_until_struck()
        with pytest.raises(ValueError, match="only the simulator"):
            kafka.faults.arm(point="log.append", action="hold")
    thread.stop()


# What is read of a request without decoding it is what the codec reads.


def produce(version: int, *, acks: int, client_id: str | None, txn: str | None) -> bytes:
    request = requests.produce(
        {TopicPartition("t", 0): plain(record_value=b"v")}, id_by_topic={}, acks=acks
    )
    message = request.build(codec.request_schema(0, version))
    if txn is not None:
        message = replace(message, transactional_id=txn)
    return codec.encode_request(0, version, 7, client_id, message)


@pytest.mark.parametrize("version", [3, 8, 9, 12])
@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("client_id", [None, "", "app"])
@pytest.mark.parametrize("txn", [None, "shop"])
def test_acks_are_found_and_asked_for_again_while_they_are_not_there(
    version: int, acks: int, client_id: str | None, txn: str | None
) -> None:
    request_behind_bytes = b"before" + produce(version, acks=acks, client_id=client_id, txn=txn)
    size_bytes, key, version_read, correlation_id, length = peek.unpack_head(
        request_behind_bytes, 6
    )
    assert (size_bytes, key, version_read, correlation_id) == (
        len(request_behind_bytes) - 10,
        0,
        version,
        7,
    )
    assert peek.client_id_of(request_behind_bytes, 6, length) == client_id
    assert peek.produce_is_answered(request_behind_bytes, 6, version, length) is (acks != 0)
    answers = {
        peek.produce_is_answered(
            request_behind_bytes[: 6 + peek.HEAD_BYTES + extra_bytes], 6, version, length
        )
        for extra_bytes in range(12)
    }
    assert answers <= {None, acks != 0}
    assert None in answers


def test_a_header_may_have_tagged_fields() -> None:
    plain_one = produce(9, acks=0, client_id="app", txn=None)
    tag_position = peek.HEAD_BYTES + 3
    tagged = plain_one[:tag_position] + b"\x01\x05\x02xx" + plain_one[tag_position + 1 :]
    assert peek.produce_is_answered(tagged, 0, 9, 3) is False


def test_what_no_broker_could_read_is_left_to_the_broker() -> None:
    request = produce(9, acks=0, client_id="app", txn=None)
    tag_position = peek.HEAD_BYTES + 3
    assert peek.produce_is_answered(request[:tag_position] + b"\xff" * 8, 0, 9, 3) is True


def handshake(mechanism: str, version: int) -> bytes:
    schema = codec.request_schema(17, version)
    return codec.encode_request(
        17, version, 3, "app", schema.SaslHandshakeRequest(mechanism=mechanism)
    )


@pytest.mark.parametrize("version", [0, 1])
def test_the_mechanism_is_read(version: int) -> None:
    assert peek.mechanism_of(handshake("PLAIN", version)) == "PLAIN"
    assert peek.mechanism_of(handshake("PLAIN", version)[:-2]) is None


@pytest.mark.parametrize(
    ("mechanism", "version", "is_refused", "token_count"),
    [
        ("GSSAPI", 0, True, 0),
        ("GSSAPI", 1, True, 0),
        ("PLAIN", 0, False, 1),
        ("PLAIN", 1, False, 0),
        ("SCRAM-SHA-256", 0, False, 2),
        ("SOMETHING-NEW", 0, True, 0),
        ("SOMETHING-NEW", 1, False, 0),
    ],
)
def test_what_passes_and_what_does_not(
    mechanism: str, version: int, is_refused: bool, token_count: int
) -> None:
    assert peek.is_refused(mechanism, version) is is_refused
    assert peek.bare_token_count(mechanism, version) == token_count


@pytest.mark.parametrize("version", [0, 1])
def test_a_refusal_names_no_other_mechanism(version: int) -> None:
    frame = peek.refuse_mechanism(handshake("GSSAPI", version))
    correlation_id, message = codec.read_response(17, version, frame[4:])
    assert correlation_id == 3
    assert message.error_code == ErrorCode.unsupported_sasl_mechanism
    assert message.mechanisms == ()


# Listeners: one per node, for good; new nodes get theirs, nodes that move are followed.


def listeners_of(cluster: ProxiedCluster, **options: Any) -> NodeListeners:
    listener_options = {
        "host": "127.0.0.1",
        "advertised_host": "me.test",
        "port": 40_000,
        **options,
    }
    return NodeListeners(cluster.proxy, **listener_options)


@within(run_proxied)
async def test_a_nodes_port_is_its_own_and_it_is_followed_where_it_moves(
    cluster: ProxiedCluster,
) -> None:
    listeners = listeners_of(cluster)
    await listeners.learn([NodeAddress(7, "a", 1), NodeAddress(2, "b", 2)])
    assert listeners.bootstrap == "me.test:40002,me.test:40007"
    await asyncio.gather(*(listeners.learn([NodeAddress(9, "c", 3)]) for _ in range(3)))
    await listeners.learn([NodeAddress(7, "elsewhere", 11)])
    assert [(listener.node_id, listener.upstream) for listener in listeners] == [
        (2, ("b", 2)), (7, ("elsewhere", 11)), (9, ("c", 3)),
    ]  # fmt: skip
    assert listeners.address(7) == ("me.test", 40_007)
    await listeners.close()


@within(run_proxied)
async def test_a_port_that_is_none_or_taken_is_named(cluster: ProxiedCluster) -> None:
    with pytest.raises(ConfigError, match="60000 \\+ 9000"):
        await listeners_of(cluster, port=60_000).learn([NodeAddress(9_000, "a", 1)])
    listeners = listeners_of(cluster)
    await listeners.learn([NodeAddress(1, "a", 1)])
    with pytest.raises(OSError, match="40001"):
        await listeners_of(cluster).learn([NodeAddress(1, "a", 1)])
    await listeners.close()


@within(run_proxied)
async def test_a_node_that_is_new_while_clients_wait_gets_a_free_port_at_need(
    cluster: ProxiedCluster,
) -> None:
    first_listeners, late_listeners = listeners_of(cluster), listeners_of(cluster)
    await first_listeners.learn([NodeAddress(1, "a", 1)])
    await late_listeners._learn_late([NodeAddress(1, "a", 1)])
    assert late_listeners.address(1)[1] not in (40_001, 0)
    await late_listeners._learn_late([NodeAddress(2, "a", 1)])
    assert late_listeners.address(2)[1] == 40_002
    await first_listeners.close()
    await late_listeners.close()


@within(run_proxied)
async def test_a_cluster_that_names_any_number_of_brokers_gets_so_many_listeners(
    cluster: ProxiedCluster,
) -> None:
    """The proxy opens a listener per broker, so it limits their number."""
    listeners = listeners_of(cluster, port=0)
    with pytest.raises(ConfigError, match=f"{LISTENERS_MAX} of them already"):
        await listeners._learn_late(
            [NodeAddress(listener_number, "a", 1) for listener_number in range(LISTENERS_MAX + 1)]
        )
    assert len(list(listeners)) == LISTENERS_MAX
    await listeners.close()


@within(run_proxied, trace_level=TraceLevel.FULL)
async def test_connections_are_traced(cluster: ProxiedCluster) -> None:
    start = len(cluster.env.tracer)
    wire = await WireClient.open(*cluster.address(first_partition()))
    wire.send(wire.metadata())
    await wire.answer()
    await wire.close()
    await asyncio.sleep(1)
    port = cluster.address(first_partition())[1]
    event_kinds = [
        event.k
        for event in cluster.env.tracer.events(start)
        if event.k.startswith("conn.") and "->" in str(event.d)
    ]
    assert event_kinds == ["conn.open", "conn.close"], port


# What a proxy can't do is refused with the reason; all else it can.


def rule(point: FaultPoint, action: Any = None, **rule_fields: Any) -> FaultRule:
    return FaultRule(id="f", point=point, action=action or Hold(), **rule_fields)


@pytest.mark.parametrize("point", [point for point in FaultPoint if point is not FaultPoint.NOW])
def test_only_what_passes_can_be_struck(point: FaultPoint) -> None:
    reason = refusal(rule(point, Pass()), has_peers=True)
    assert (reason is None) is (point in POINTS)
    if reason is not None:
        assert "only the simulator" in reason
        assert "client.request" in reason, "it says what a proxy knows"


@pytest.mark.parametrize("point", [FaultPoint.PEER_REQUEST, FaultPoint.PEER_RESPONSE])
def test_without_peers_nothing_passes_between_brokers(point: FaultPoint) -> None:
    assert "--peer" in (refusal(rule(point), has_peers=False) or "")
    assert refusal(rule(point), has_peers=True) is None


def test_a_proxy_has_no_hands_on_the_cluster() -> None:
    reason = refusal(rule(FaultPoint.CLIENT_REQUEST, Crash()), has_peers=True)
    assert "no hands" in (reason or "")


@pytest.mark.parametrize(
    ("api", "is_known"), [(None, True), ("Produce", True), (26, True), ("Envelope", False)]
)
def test_an_error_needs_an_answer_that_can_be_made(api: str | int | None, is_known: bool) -> None:
    reason = refusal(
        rule(FaultPoint.CLIENT_REQUEST, Fail(error="NOT_COORDINATOR"), api=api), has_peers=False
    )
    assert (reason is None) is is_known
    assert is_known or "Envelope" in (reason or "")


def test_a_proxy_does_not_know_client_instances() -> None:
    rule_of_instance = rule(
        FaultPoint.CLIENT_REQUEST, Pass(), client_instance_id="ABEiM0RVZneImaq7zN3u_w"
    )
    assert "client instance" in (refusal(rule_of_instance, has_peers=True) or "")


# Names of topics are learned, and it is known which are not known.


ID = UUID(int=7)


def topic(topic_id: UUID | None, name: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(topic_id=topic_id, name=name)


def test_a_name_is_known_once_it_was_learned() -> None:
    names = TopicNames()
    produce_stub = SimpleNamespace(topic_data=[topic(ID)])
    fetch_answer = SimpleNamespace(topics=[topic(ID)])
    assert names.has_unknown_topic(produce_stub)
    assert names.has_unknown_topic(fetch_answer)
    names.learn(SimpleNamespace(topics=[topic(ID, "orders"), topic(UUID(int=8), None)]))
    assert names.names == {ID: "orders"}
    assert not names.has_unknown_topic(produce_stub)
    assert not names.has_unknown_topic(fetch_answer)


def test_topics_that_are_named_need_no_names() -> None:
    names = TopicNames()
    topic_stub = SimpleNamespace(name="orders")
    assert not names.has_unknown_topic(SimpleNamespace(topic_data=[topic_stub]))
    assert not names.has_unknown_topic(SimpleNamespace(topics=None))
    assert not names.has_unknown_topic(SimpleNamespace())
    names.learn(SimpleNamespace(topics=[topic_stub]))
    assert names.names == {}


# Options that make no sense are refused, and the message names them.


def test_a_peer_is_a_node_and_where_it_is() -> None:
    assert peer_from("3=kafka-3:9094") == NodeAddress(3, "kafka-3", 9094)
    assert peer_from("1=[::1]:9094") == NodeAddress(1, "::1", 9094)


@pytest.mark.parametrize("text", ["", "1", "1=", "1=host", "x=host:1", "1=:9", "1=host:x"])
def test_anything_else_is_no_peer(text: str) -> None:
    with pytest.raises(ConfigError, match="NODE=HOST:PORT"):
        peer_from(text)


def test_clients_are_told_where_to_connect() -> None:
    assert ProxyOptions(bootstrap="b:1").host_for_clients == "127.0.0.1"
    assert ProxyOptions(bootstrap="b:1", host="10.0.0.1").host_for_clients == "10.0.0.1"
    open_options = ProxyOptions(bootstrap="b:1", host="0.0.0.0", advertised_host="me.test")
    assert open_options.host_for_clients == "me.test"
    with pytest.raises(ConfigError, match="--advertised-host"):
        _ = ProxyOptions(bootstrap="b:1", host="0.0.0.0").host_for_clients
