"""A whole cluster: how it starts and stops, and that faults between brokers break no promise."""

from __future__ import annotations

import asyncio
import uuid

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.support.clusters import (
    VirtualCluster,
    begin_transaction,
    client_of,
    options,
    real_cluster,
    run_cluster,
    until_state,
    values,
)
from tests.support.ports import free_port_before_a_busy_one
from tests.support.raw_connection import WireClient
from tests.support.slow_machine import SLOW_S
from tests.support.within_environment import within
from txnsim.api.registry import shipped_apis
from txnsim.client.producer import Producer
from txnsim.errors import ConfigError
from txnsim.faults.actions import Delay, Drop, Fail, Hold
from txnsim.faults.plan import Action
from txnsim.faults.points import FaultPoint
from txnsim.metadata.image import BrokerImage, ClusterImage, TopicImage
from txnsim.node.peers import CONTROLLER_ID
from txnsim.releases import Fleet, release_named
from txnsim.runtime.real_world import host_name, real_environment
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.security.options import NO_SECURITY, SecureListener, SecurityOptions, SecurityProtocol
from txnsim.server._connection import RequestConnection
from txnsim.server._listener import BrokerListener, Endpoint
from txnsim.server.cluster import (
    TURNS_TO_END,
    SimCluster,
    await_released_tasks,
    first_image,
    kill_starting_brokers,
    registered_brokers,
    undo_disturbances,
)
from txnsim.server.disk_loading import LoadedCluster
from txnsim.server.member import MemberLifeState
from txnsim.server.options import ClusterOptions, check_release, port_step, topics_of
from txnsim.server.user_inputs import LOGGED_CHARACTERS_MAX, advance, input_event
from txnsim.settings import DEFAULTS, Settings
from txnsim.types import BrokerId, IsolationLevel, ProducerId, TopicPartition

# A whole cluster: how it starts and stops, and that faults between brokers break no promise.


REQUEST, RESPONSE = FaultPoint.PEER_REQUEST, FaultPoint.PEER_RESPONSE
P0 = TopicPartition("orders", 0)


# Start and stop


@pytest.mark.parametrize("brokers", [1, 3, 5])
def test_a_cluster_of_any_size_commits(brokers: int) -> None:
    async def main(cluster: VirtualCluster) -> None:
        assert len(cluster.sim.brokers) == brokers
        assert len(cluster.sim.bootstrap.split(",")) == brokers
        async with cluster.client() as client:
            async with await begin_transaction(client, "tx") as producer:
                await producer.send("orders", 0, b"v")
                await producer.commit()
            await until_state(client, "tx", "CompleteCommit")
            assert await values(client, "orders") == [b"v"]
        replicas = cluster.sim.metadata.image.topics["orders"].partitions[0].replicas
        assert len(replicas) == min(3, brokers)

    run_cluster(main, brokers=brokers)


@within(run_virtual, seed=1)
async def test_a_cluster_without_brokers_is_refused(env: VirtualEnvironment) -> None:
    with pytest.raises(ConfigError, match="at least one broker"):
        SimCluster(env, options(brokers=0))


@within(run_virtual, seed=1)
async def test_an_id_that_no_broker_has_is_refused(env: VirtualEnvironment) -> None:
    for first_id in (-1, 2_998):
        with pytest.raises(ConfigError, match="begin at 0, and the controller's is 3000"):
            SimCluster(env, msgspec.structs.replace(options(), first_broker_id=first_id))


@within(run_virtual, seed=1)
async def test_racks_are_given_for_each_broker_or_for_none(env: VirtualEnvironment) -> None:
    with pytest.raises(ConfigError, match="racks: 2 for 3 brokers"):
        SimCluster(env, msgspec.structs.replace(options(), racks=("a", "b")))


def test_a_broker_zero_leads_coordinates_and_commits() -> None:
    async def main(cluster: VirtualCluster) -> None:
        assert sorted(cluster.sim.members) == [0, 1, 2]
        async with cluster.client() as client:
            producer = Producer(client, transactional_id="app")
            await producer.init_transactions()
            for partition in range(3):
                producer.begin()
                await producer.send("orders", partition, b"x")
                await producer.commit()
        await cluster.sim.kill_broker(BrokerId(0))
        await cluster.sim.start_broker(BrokerId(0))

    chosen_options = msgspec.structs.replace(options(), first_broker_id=0)
    run_cluster(main, cluster_options=chosen_options)


@pytest.mark.parametrize("topics", [(("a b", 1),), (("orders", 1), ("orders", 1))])
@within(run_virtual, seed=1)
async def test_a_topic_that_can_not_be_is_named_and_nothing_stays_bound(
    env: VirtualEnvironment,
    topics: tuple[tuple[str, int], ...],
) -> None:
    sim = SimCluster(env, msgspec.structs.replace(options(topics=topics), port=9092))
    with pytest.raises(ConfigError, match=topics[-1][0]):
        await sim.start()
    second_cluster = SimCluster(env, msgspec.structs.replace(options(), port=9092))
    await second_cluster.start()
    await second_cluster.stop()


async def test_a_busy_port_is_refused_and_the_others_are_free_again() -> None:
    with free_port_before_a_busy_one() as port:
        sim = SimCluster(real_environment(), msgspec.structs.replace(options(brokers=2), port=port))
        with pytest.raises(OSError, match=f":{port + 1} is in use"):
            await sim.start()
        server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", port)
        server.close()
        await server.wait_closed()


async def test_the_port_of_a_broker_that_is_down_is_nobody_elses() -> None:
    async def listens(*, reuses_address: bool) -> None:
        server = await asyncio.start_server(
            lambda _r, _w: None, endpoint.host, endpoint.port, reuse_address=reuses_address
        )
        server.close()
        await server.wait_closed()

    sim = SimCluster(real_environment(), options(brokers=2))
    await sim.start()
    second_broker = BrokerId(2)
    endpoint = sim.members[second_broker].endpoints[0]
    await sim.kill_broker(second_broker)
    with pytest.raises(OSError, match="in use"):
        await listens(reuses_address=False)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(endpoint.host, endpoint.port)
    await sim.start_broker(second_broker)
    _, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    writer.close()
    await sim.kill_broker(second_broker)
    await sim.stop()
    await listens(reuses_address=True)


@within(run_virtual, seed=1)
async def test_ports_are_consecutive_and_clients_are_told_the_advertised_host(
    env: VirtualEnvironment,
) -> None:
    cluster_options = msgspec.structs.replace(options(), port=19092, advertised_host="kafka.test")
    sim = SimCluster(env, cluster_options)
    await sim.start()
    assert sim.bootstrap == "kafka.test:19092,kafka.test:19093,kafka.test:19094"
    await sim.stop()


@within(run_virtual, seed=1)
async def test_ports_may_be_given_one_by_one_and_clients_told_others(
    env: VirtualEnvironment,
) -> None:
    cluster = SimCluster(
        env,
        msgspec.structs.replace(
            options(brokers=2),
            ports=(9100, 9200),
            advertised=(("outside.test", 31000), ("outside.test", 31001)),
        ),
    )
    await cluster.start()
    assert [
        endpoint.port for member in cluster.members.values() for endpoint in member.endpoints
    ] == [
        9100,
        9200,
    ]
    assert cluster.bootstrap == "outside.test:31000,outside.test:31001"
    await cluster.stop()


@pytest.mark.parametrize("field_name", ["ports", "advertised"])
@within(run_virtual, seed=1)
async def test_as_many_ports_as_brokers_are_wanted(
    env: VirtualEnvironment, field_name: str
) -> None:
    wrong_value = {"ports": (1,), "advertised": (("outside.test", 1),)}[field_name]
    with pytest.raises(ConfigError, match=f"{field_name}: 1 for 3 brokers, one for each"):
        SimCluster(env, msgspec.structs.replace(options(), **{field_name: wrong_value}))


async def test_a_stop_ends_what_still_waits() -> None:
    """A held request, an open transaction and a connection do not delay the stop."""
    async with asyncio.timeout(SLOW_S):
        async with real_cluster() as sim, client_of(sim.environment, sim) as client:
            producer = await begin_transaction(client, "tx")
            await producer.send("orders", 0, b"v")
            cluster = VirtualCluster(sim.environment, sim)  # type: ignore[arg-type]
            cluster.arm(Hold(), FaultPoint.CLIENT_REQUEST, api="EndTxn")
            ending_task = asyncio.get_running_loop().create_task(producer.commit())
            await cluster.wait_until_struck()
            listeners = sim.listeners
            ending_task.cancel()
            await asyncio.wait((ending_task,))
    assert not any(listener.connections for listener in listeners)
    assert not sim.brokers


@within(run_cluster)
async def test_moving_a_leader_to_where_it_can_not_be_is_refused(cluster: VirtualCluster) -> None:
    with pytest.raises(ConfigError, match="broker 9 is no replica that is in sync and lives"):
        cluster.sim.move_leader(P0, BrokerId(9))
    with pytest.raises(ConfigError, match="does not exist"):
        cluster.sim.move_leader(TopicPartition("orders", 9), BrokerId(1))


# Faults between brokers

FAULTS: list[Action] = [Hold(), Delay(delay_ms=2_000), Drop(), Fail(error="NOT_COORDINATOR")]


@pytest.mark.parametrize("action", FAULTS, ids=lambda action: type(action).__name__)
@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "WriteTxnMarkers"])
@pytest.mark.parametrize("point", [REQUEST, RESPONSE])
@pytest.mark.parametrize("transaction_version", [1, 2])
def test_one_fault_between_brokers_delays_a_transaction_and_no_more(
    transaction_version: int, point: FaultPoint, api: str, action: Action
) -> None:
    async def main(cluster: VirtualCluster) -> None:
        cluster.arm(action, point, api=api, limit=1)
        async with cluster.client() as client:
            async with await begin_transaction(client, "tx") as producer:
                all_sends_future = asyncio.gather(
                    *(producer.send("orders", i, b"v") for i in range(3))
                )
                if isinstance(action, Hold):
                    releasing_task = cluster.env.tasks.spawn(release(cluster), name="release")
                await all_sends_future
                await producer.commit()
                if isinstance(action, Hold):
                    await releasing_task
            await until_state(client, "tx", "CompleteCommit")
            assert await values(client, "orders") == [b"v"] * 3
            every = await values(client, "orders", isolation=IsolationLevel.READ_UNCOMMITTED)
            assert every == [b"v"] * 3, "once each"
        (rule,) = cluster.sim.injector.rules()
        assert rule.struck == 1

    run_cluster(main, level=transaction_version)


async def release(cluster: VirtualCluster) -> None:
    await cluster.wait_until_struck()
    await asyncio.sleep(1)
    cluster.sim.injector.release("f")


@pytest.mark.slow
@within(run_cluster)
async def test_producer_ids_come_although_the_controller_is_slow(cluster: VirtualCluster) -> None:
    cluster.arm(Drop(), REQUEST, api="AllocateProducerIds", limit=1)
    async with cluster.client() as client, Producer(client, transactional_id="tx") as producer:
        producer_identity = await producer.init_transactions()
        assert producer_identity.producer_epoch == 0
        assert cluster.sim.injector.rules()[0].struck == 1


# The metadata that a cluster starts with.


APIS = shipped_apis(release_named("4.3"), has_unstable_versions=False, has_telemetry=False)
SETTINGS = Settings(cluster_id="abc", transaction_version=1)


def image_of(
    *ids: int, loaded_cluster: LoadedCluster | None = None, security: SecurityOptions = NO_SECURITY
) -> ClusterImage:
    return first_image(
        [
            BrokerImage(broker_id=BrokerId(broker_id), epoch=broker_id, host="h", port=9)
            for broker_id in ids
        ],
        settings=SETTINGS,
        security=security,
        fleet=Fleet(),
        draw_salt=bytes,
        loaded_cluster=loaded_cluster,
    )


def disk_of(*ids: int, image: ClusterImage | None = None) -> LoadedCluster:
    return LoadedCluster(
        image=image or ClusterImage(cluster_id="abc"),
        logs={BrokerId(broker_id): () for broker_id in ids},
        first_producer_id=ProducerId(0),
        size=0,
        losses=(),
        left_out=(),
    )


def endpoint(host: str, port: int, listener: str = "PLAINTEXT") -> Endpoint:
    return Endpoint(host=host, port=port, apis=msgspec.structs.replace(APIS, listener=listener))


def test_a_cluster_is_formatted_unless_there_are_disks() -> None:
    image = image_of(1, 2)
    assert (image.cluster_id, list(image.brokers)) == ("abc", [1, 2])
    assert image.features["transaction.version"] == 1
    assert image.topics == {}


def test_users_have_credentials_from_the_beginning() -> None:
    image = image_of(1, security=SecurityOptions(scram_users={"ann": "secret"}))
    assert {user_name for user_name, _ in image.scram} == {"ann"}


def test_brokers_register_with_what_the_disks_say() -> None:
    topic = TopicImage(name="t", topic_id=uuid.UUID(int=1), partitions=())
    stored_image = ClusterImage(cluster_id="disk", offset=500, features={"transaction.version": 2})
    image = image_of(0, 7, loaded_cluster=disk_of(0, 7, image=stored_image.with_topic(topic)))
    assert (image.cluster_id, list(image.topics), image.features) == (
        "disk",
        ["t"],
        {"transaction.version": 2},
    )
    assert [broker.epoch for broker in image.brokers.values()] == [502, 503]
    assert image.offset == 503


def test_brokers_are_told_by_their_ids_and_all_their_endpoints() -> None:
    options = ClusterOptions(brokers=2, loaded=disk_of(0, 7))
    endpoints = [
        (endpoint("127.0.0.1", 1), endpoint("127.0.0.1", 2, "TLS")),
        (endpoint("127.0.0.1", 3),),
    ]
    first_broker, second_broker = registered_brokers(options, endpoints)
    assert (first_broker.broker_id, first_broker.host, first_broker.port) == (0, "127.0.0.1", 1)
    assert first_broker.addresses == {"TLS": ("127.0.0.1", 2)}
    assert (second_broker.broker_id, second_broker.port, second_broker.addresses) == (7, 3, {})


def test_what_is_advertised_is_told() -> None:
    options = ClusterOptions(brokers=1, advertised=(("kafka.test", 99),))
    (broker,) = registered_brokers(
        options, [(endpoint("127.0.0.1", 1), endpoint("127.0.0.1", 2, "TLS"))]
    )
    assert broker.address("PLAINTEXT") == ("kafka.test", 99)
    assert broker.address("TLS") == ("127.0.0.1", 2)
    options = ClusterOptions(brokers=1, advertised_host="box")
    assert registered_brokers(options, [(endpoint("127.0.0.1", 1),)])[0].host == "box"


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_clients_are_told_this_machines_name_where_it_listens_everywhere(host: str) -> None:
    assert (
        registered_brokers(ClusterOptions(brokers=1), [(endpoint(host, 1),)])[0].host == host_name()
    )


def test_the_port_that_is_advertised_is_that_of_one_broker() -> None:
    for brokers, ports in ((1, [19_092]), (2, [9_092, 9_093])):
        options = ClusterOptions(brokers=brokers, advertised_host="h", advertised_port=19_092)
        endpoints = [(endpoint("", 9_092 + broker_number),) for broker_number in range(brokers)]
        assert [broker.port for broker in registered_brokers(options, endpoints)] == ports


# What a user does to a cluster is the root of what follows.


@within(run_virtual, seed=1)
async def test_an_input_is_the_cause_of_what_is_done_inside(env: VirtualEnvironment) -> None:
    with input_event(env, "kill", broker=2, lose_unflushed=False, as_version=None):
        env.tracer.emit("node.down", "broker/2")
    env.tracer.emit("note", "x")
    input_done_event, down_event, event_after = env.tracer.events()
    assert (input_done_event.k, input_done_event.p, env.tracer.nodes[input_done_event.n]) == (
        "input",
        (),
        "user",
    )
    assert input_done_event.d == {"do": "kill", "args": {"broker": 2}, "at": env.clock.now_ms()}
    assert (down_event.p, event_after.p) == ((input_done_event.i,), ())


@within(run_virtual, seed=1)
async def test_what_a_fault_does_is_no_input(env: VirtualEnvironment) -> None:
    hit = env.tracer.emit("fault.hit", "fault")
    env.tracer.set_cause(hit)
    with input_event(env, "kill", broker=2):
        env.tracer.emit("node.down", "broker/2")
    assert [event.p for event in env.tracer.events()] == [(), (hit,)]


@within(run_virtual, seed=1)
async def test_time_that_is_let_go_on_is_told(env: VirtualEnvironment) -> None:
    advance(env, 5_000)
    (event,) = env.tracer.events()
    assert event.d == {
        "do": "advance", "args": {"ms": 5_000}, "at": env.clock.now_ms() - 5_000
    }  # fmt: skip


@within(run_virtual, seed=1, trace_level=TraceLevel.OFF)
async def test_while_the_trace_is_off_only_the_deed_is_done(env: VirtualEnvironment) -> None:
    advance(env, 5_000)
    assert (env.clock.advanced_ms, len(env.tracer)) == (5_000, 0)


@pytest.mark.usefixtures("all_levels")
def test_what_a_user_does_is_logged_also_without_a_trace() -> None:
    async def main(env: VirtualEnvironment) -> None:
        with input_event(env, "kill", broker=2, lose_unflushed=False):
            pass
        with input_event(env, "create-topic", configs={"k" * 2_000: "v"}):
            pass
        with input_event(env, "create-topics"):
            pass
        advance(env, 31_000)
        with pytest.raises(ConfigError), input_event(env, "stop", broker=9):
            raise ConfigError("there is no broker 9")

    with capture_logs() as logs:
        run_virtual(main, seed=1, trace_level=TraceLevel.OFF)
    logged = [(line["event"], line["log_level"]) for line in logs]
    assert logged == [
        ("user.kill", "info"),
        ("user.create-topic", "info"),
        ("user.advance", "info"),
        ("user.stop", "info"),
        ("user.refused", "info"),
    ]
    assert (logs[4]["do"], logs[4]["why"]) == ("stop", "there is no broker 9")
    assert (logs[0]["broker"], logs[2]["ms"]) == (2, 31_000)
    assert len(logs[1]["configs"]) == LOGGED_CHARACTERS_MAX + 1
    assert "lose_unflushed" not in logs[0]


def test_brokers_are_numbered_from_where_it_is_asked_for() -> None:
    assert ClusterOptions(brokers=3, first_broker_id=0).broker_ids == (0, 1, 2)
    check_release(
        ClusterOptions(brokers=2, first_broker_id=7, as_version=("8=3.9",)),
        transaction_version=None,
    )


def test_brokers_are_numbered_from_one() -> None:
    assert ClusterOptions(brokers=3).broker_ids == (1, 2, 3)


@pytest.mark.parametrize(
    ("ports", "brokers", "step"),
    [
        ((), 3, 1),
        ((9095,), 3, 1),
        ((9093,), 2, 2),  # a step of 1 gives broker 2 in clear what broker 1 has for TLS
        ((9093, 9094), 3, 3),
        ((0,), 3, 1),  # a free port collides with none
    ],
)
def test_no_two_listeners_want_the_same_port(
    ports: tuple[int, ...], brokers: int, step: int
) -> None:
    security = SecurityOptions(
        listeners=tuple(
            SecureListener(name=f"L{port_index}", protocol=SecurityProtocol.SASL_SSL, port=port)
            for port_index, port in enumerate(ports)
        )
    )
    assert port_step(ClusterOptions(brokers=brokers, port=9092, security=security)) == step


@pytest.mark.parametrize(
    ("description", "topics"),
    [
        ("orders", {"orders": 1}),
        ("orders:3", {"orders": 3}),
        ("orders:3, payments", {"orders": 3, "payments": 1}),
        (["orders", "payments:6"], {"orders": 1, "payments": 6}),
        (("orders",), {"orders": 1}),
        ({"orders": 3}, {"orders": 3}),
        ((), {}),
    ],
)
def test_topics_in_any_form(description: object, topics: dict[str, int]) -> None:
    assert topics_of(description) == topics


@pytest.mark.parametrize(
    "description",
    ["", "orders:", "orders:0", "orders:x", ":3", 3, [3], {"orders": 0}, {"orders": True}],
)
def test_topics_of_no_form_are_refused(description: object) -> None:
    with pytest.raises(ConfigError, match="expected NAME or NAME:PARTITIONS, as orders:3"):
        topics_of(description)


def test_a_level_that_no_release_knows_is_refused() -> None:
    old_options = ClusterOptions(as_version=("3.6",))
    check_release(old_options, transaction_version=0)
    check_release(old_options, transaction_version=None)
    with pytest.raises(ConfigError, match=r"brokers of 3\.6 know it up to 0 only"):
        check_release(old_options, transaction_version=1)


# A broker's listener: bound before its broker exists, silent until opened, gone when closed.


@within(run_cluster)
async def test_what_clients_send_before_the_broker_lives_is_answered_once_it_does(
    cluster: VirtualCluster,
) -> None:
    listener = BrokerListener(
        environment=cluster.env, settings=DEFAULTS, make_connection=RequestConnection
    )
    port = (await listener.bind(Endpoint(host="127.0.0.1", port=0))).port
    wire = await WireClient.open("127.0.0.1", port)
    wire.send(wire.metadata())
    assert await wire.silent_for(60)
    listener.open(cluster.sim.brokers[BrokerId(1)])
    assert (await wire.answer())[0] == 1
    assert listener.node == "broker/1"
    await listener.close()
    assert await wire.is_closed_by_broker()
    assert not listener.connections
    await wire.close()
    with pytest.raises(ConnectionRefusedError):
        await WireClient.open("127.0.0.1", port)


@within(run_virtual, seed=1)
async def test_closing_one_that_was_never_bound_is_harmless(env: VirtualEnvironment) -> None:
    await BrokerListener(
        environment=env, settings=DEFAULTS, make_connection=RequestConnection
    ).close()


async def test_the_port_is_free_again_after_a_close() -> None:
    async with real_cluster(brokers=1) as sim:
        (broker,) = sim.metadata.image.alive_brokers()
        wire = await WireClient.open(broker.host, broker.port)
        wire.send(wire.metadata())
        assert (await wire.answer())[0] == 1
    assert await wire.is_closed_by_broker()
    await wire.close()
    server = await asyncio.start_server(lambda _r, _w: None, broker.host, broker.port)
    server.close()
    await server.wait_closed()


async def test_a_port_in_use_is_refused() -> None:
    async with real_cluster(brokers=1) as sim:
        (broker,) = sim.metadata.image.alive_brokers()
        other_listener = BrokerListener(
            environment=sim.environment, settings=DEFAULTS, make_connection=RequestConnection
        )
        with pytest.raises(OSError, match=str(broker.port)):
            await other_listener.bind(Endpoint(host=broker.host, port=broker.port))


# A cluster brought to rest.


@within(run_cluster)
async def test_a_start_is_ended_and_brokers_that_run_are_left_alone(
    cluster: VirtualCluster,
) -> None:
    sim = cluster.sim
    await sim.kill_broker(BrokerId(1))
    starting_task = asyncio.get_running_loop().create_task(sim.start_broker(BrokerId(1)))
    await asyncio.sleep(0.1)
    assert sim.members[BrokerId(1)].state is MemberLifeState.STARTING
    await kill_starting_brokers(sim.members.values())
    assert starting_task.done()
    assert "killed while it started" in str(starting_task.exception())
    assert [member.state.name for member in sim.members.values()] == ["DOWN", "RUNNING", "RUNNING"]
    await kill_starting_brokers(sim.members.values())  # there is none


@within(run_cluster)
async def test_links_and_clock_are_right_again(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    sim.isolate(BrokerId(2))
    cluster.env.clock.shift(-5_000)
    undo_disturbances(cluster.env, (CONTROLLER_ID, *sim.members))
    assert not sim.is_isolated(BrokerId(2))
    assert cluster.env.clock.advanced_ms == 0


async def test_what_was_let_go_has_its_turns() -> None:
    turn_count = 0

    async def deep(depth: int) -> None:
        nonlocal turn_count
        for _ in range(depth):
            await asyncio.sleep(0)
            turn_count += 1

    task = asyncio.get_running_loop().create_task(deep(TURNS_TO_END - 2))
    await await_released_tasks()
    assert task.done()
    assert turn_count == TURNS_TO_END - 2
