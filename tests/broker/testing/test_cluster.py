"""``SimulatedKafka`` and what hangs on it: topics, faults, members, life, judgement."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta

import msgspec
import pytest

from tests.support.clusters import begin_transaction
from tests.support.testing_plays import HANGING, client, write_aborted, write_committed
from tests.support.within_environment import within
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.members.membership import GroupProtocol
from txnsim.client.producer import Producer
from txnsim.errors import ClientError, ConfigError
from txnsim.faults.actions import Delay, Drop, Hold
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.testing import SimulatedKafka
from txnsim.testing._foreign_cluster import SIMULATED_ONLY_FEATURES, ForeignKafka, skip_unsupported
from txnsim.testing._verdict_assertions import all_faults_struck, no_hanging_transactions
from txnsim.testing._virtual import run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.event_loop import LoopThread
from txnsim.testing.faults import FaultState, fault_rule
from txnsim.testing.options import options_from_keywords
from txnsim.types import TopicPartition, partition_for

# Faults by the asynchronous API.


HELD = {"point": "client.request", "api": "EndTxn", "action": "hold"}


@within(run_virtual, topics=["orders"])
async def test_a_fault_is_armed_struck_waited_for_and_released(kafka: AsyncSimulatedKafka) -> None:
    fault = await kafka.faults.arm(**HELD)
    assert (fault.id, fault.struck, fault.rule.api) == ("fault-1", 0, "EndTxn")
    assert await kafka.faults.never_struck() == ("fault-1",)
    async with client(kafka) as cluster, await begin_transaction(cluster, "app") as producer:
        await producer.send("orders", 0, b"one")
        committing_task = kafka.rebuilt.environment.tasks.spawn(producer.commit(), name="commit")
        await fault.wait_until_struck()
        assert (fault.matched, fault.struck, fault.held) == (1, 1, 1)
        assert await fault.release() == 1
        await committing_task
        await fault.disarm()
    assert await kafka.faults.never_struck() == ()
    (state,) = await kafka.faults.states()
    assert (state.struck, state.held, state.released, state.in_force) == (1, 0, 1, False)


@within(run_virtual, faults_may_miss=True)
async def test_a_rule_that_can_strike_nothing_warns_and_says_so_again_in_the_end(
    kafka: AsyncSimulatedKafka,
) -> None:
    with pytest.warns(UserWarning, match=r"fault-1 can strike nothing: broker: no broker '9'"):
        await kafka.faults.arm(broker=9, **HELD)
    with pytest.raises(AssertionError, match=r"nothing matched.*\n    broker: no broker '9'"):
        await kafka.assert_all_faults_struck()


@within(run_virtual, faults_may_miss=True)
async def test_a_wait_in_vain_ends_in_time(kafka: AsyncSimulatedKafka) -> None:
    await kafka.faults.arm(id="late", **HELD)
    with pytest.raises(TimeoutError, match="0 of 1 strikes within 500 ms"):
        await kafka.faults.wait_until_struck("late", timeout_ms=500)
    await kafka.faults.disarm_all()
    with pytest.raises(KeyError) as nothing:
        await kafka.faults.release("late")
    assert str(nothing.value) == "no rule 'late': none is armed"
    await kafka.faults.arm(id="later", **HELD)
    with pytest.raises(KeyError) as error_info:
        await kafka.faults.disarm("late")
    assert str(error_info.value) == "no armed rule 'late'; did you mean later? there are: later"


@within(run_virtual, topics=["orders"], faults_may_miss=True)
async def test_then_is_an_action_by_its_name_too(kafka: AsyncSimulatedKafka) -> None:
    move = {"do": "move-leader", "topic": "orders", "partition": 0}
    fault = await kafka.faults.arm(point="client.request", action=move, then="drop")
    assert fault.rule.then == Drop()


@within(run_virtual, faults_may_miss=True)
async def test_every_rule_counts_that_should_strike_whoever_armed_it(
    kafka: AsyncSimulatedKafka,
) -> None:
    await kafka.faults.arm(id="tolerant", may_miss=True, **HELD)
    kafka.cluster.injector.arm(
        FaultRule(id="other-door", point=FaultPoint.CLIENT_REQUEST, api="EndTxn", action=Hold())
    )
    assert await kafka.faults.never_struck() == ("other-door",)
    await kafka.faults.disarm("tolerant")
    assert [state.in_force for state in await kafka.faults.states()] == [False, True]
    kafka.faults.forget()
    assert [state.rule.id for state in await kafka.faults.states()] == ["other-door"]


@within(run_virtual, faults_may_miss=True)
async def test_two_rules_of_one_name_are_refused(kafka: AsyncSimulatedKafka) -> None:
    await kafka.faults.arm(id="late", **HELD)
    with pytest.raises(ValueError, match="'late' is armed already"):
        await kafka.faults.arm(id="late", **HELD)


@within(run_virtual, faults_may_miss=True)
async def test_the_cluster_itself_is_struck(kafka: AsyncSimulatedKafka) -> None:
    crash_fault = await kafka.faults.arm(point="now", action={"do": "crash", "broker": 1})
    await crash_fault.wait_until_struck()
    assert (await kafka.brokers.states())[1] == "down"
    impossible_fault = await kafka.faults.arm(
        point="now", action={"do": "move-leader", "topic": "nowhere", "partition": 0, "to": 2}
    )
    with pytest.raises(LookupError, match="nowhere"):
        await impossible_fault.wait_until_struck()
    assert impossible_fault.failure is not None
    assert await kafka.faults.never_struck() == (impossible_fault.id,)
    *_, state = await kafka.faults.states()
    assert state.failure == impossible_fault.failure


RULE = FaultRule(id="late", point=FaultPoint.CLIENT_REQUEST, api="Produce", action=Hold())


@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        (RULE, {}),
        (None, {"id": "late", "point": "client.request", "api": "Produce", "action": "hold"}),
        ({"id": "late", "point": "client.request", "api": "Produce", "action": {"do": "hold"}}, {}),
        ("id: late\npoint: client.request\napi: Produce\naction: {do: hold}\n", {}),
        (
            "point: client.request\naction: {do: drop}\n",
            {"id": "late", "api": "Produce", "action": Hold()},
        ),
    ],
    ids=["rule", "keywords", "mapping", "yaml", "yaml and keywords"],
)
def test_every_form_comes_to_the_same_rule(rule: object, fields: dict[str, object]) -> None:
    assert fault_rule(rule, fields, default_id="fault-1") == RULE


def test_without_an_id_it_gets_one() -> None:
    rule = fault_rule(
        None,
        {"point": "client.request", "action": {"do": "delay", "delay_ms": 7}, "topic": None},
        default_id="fault-1",
    )
    assert rule == FaultRule(
        id="fault-1", point=FaultPoint.CLIENT_REQUEST, action=Delay(delay_ms=7)
    )


def test_keywords_change_a_rule() -> None:
    assert fault_rule(RULE, {"limit": 1}, default_id="x").limit == 1


def test_what_is_no_rule_is_refused_with_its_field() -> None:
    with pytest.raises(ValueError, match=r"apis: no field 'apis'; did you mean api\?"):
        fault_rule(None, {"point": "client.request", "apis": "x", "action": "hold"}, default_id="x")
    with pytest.raises(ValueError, match="api 'Prodce' is no API of Kafka's"):
        fault_rule(RULE, {"api": "Prodce"}, default_id="x")
    with pytest.raises(ConfigError, match="rule:1: no YAML"):
        fault_rule("{", {}, default_id="x")


# The cluster in the caller's loop.


async def test_it_runs_in_the_caller_s_loop_over_tcp() -> None:
    async with AsyncSimulatedKafka(topics={"orders": 3}, transaction_version=1) as kafka:
        async with Cluster(kafka.bootstrap) as outside_cluster:
            (topic,) = await Admin(outside_cluster).describe_topics(["orders"])
        assert len(topic.partitions) == 3
        assert kafka.cluster.metadata.image.features["transaction.version"] == 1
        with pytest.raises(RuntimeError, match="runs already"):
            await kafka.start()
    await kafka.stop()
    assert kafka.was_started


async def test_it_can_be_started_again_and_reset() -> None:
    kafka = AsyncSimulatedKafka(brokers=1)
    with pytest.raises(RuntimeError, match="does not run"):
        _ = kafka.bootstrap
    await kafka.start()
    await kafka.topics.create("orders")
    await kafka.faults.arm(point="client.request", api="EndTxn", action="hold", may_miss=True)
    bootstrap = kafka.bootstrap
    await kafka.reset()
    assert kafka.bootstrap == bootstrap
    assert await kafka.topics.names() == ()
    assert await kafka.faults.states() == ()
    await kafka.stop()
    await kafka.start()
    await kafka.stop()


async def arm_in_vain(kafka: AsyncSimulatedKafka) -> None:
    await kafka.faults.arm(id="idle", point="client.request", api="EndTxn", action="hold")


@within(run_virtual, faults_may_miss=True)
async def test_a_fault_that_never_struck_fails_the_assertion(kafka: AsyncSimulatedKafka) -> None:
    await arm_in_vain(kafka)
    with pytest.raises(AssertionError, match="idle: nothing matched"):
        await kafka.assert_all_faults_struck()


async def ends_its_block(kafka: AsyncSimulatedKafka) -> None:
    async with kafka:
        await arm_in_vain(kafka)


async def stop_with_idle_rule(kafka: AsyncSimulatedKafka) -> None:
    await kafka.start()
    await arm_in_vain(kafka)
    await kafka.stop()


async def fails_before_it_is_stopped(kafka: AsyncSimulatedKafka) -> None:
    await kafka.start()
    try:
        await arm_in_vain(kafka)
        raise ValueError("mine")
    finally:
        await kafka.stop()


@pytest.mark.parametrize("end", [ends_its_block, stop_with_idle_rule])
async def test_a_fault_that_never_struck_is_told_at_the_end(
    end: Callable[[AsyncSimulatedKafka], Awaitable[None]],
) -> None:
    kafka = AsyncSimulatedKafka(brokers=1)
    with pytest.raises(AssertionError, match="idle: nothing matched"):
        await end(kafka)
    assert not kafka.rebuilt.is_running


async def test_what_the_test_has_raised_is_told_alone() -> None:
    kafka = AsyncSimulatedKafka(brokers=1)
    with pytest.raises(ValueError, match="mine") as error_info:
        await fails_before_it_is_stopped(kafka)
    assert error_info.value.__context__ is None
    assert not kafka.rebuilt.is_running


def test_a_fault_that_never_struck_is_told_at_the_end_of_a_virtual_run() -> None:
    with pytest.raises(AssertionError, match="idle: nothing matched"):
        run_virtual(arm_in_vain, brokers=1)
    run_virtual(arm_in_vain, brokers=1, faults_may_miss=True)


def test_what_can_not_be_had_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="expected a whole number"):
        AsyncSimulatedKafka(brokers="three")  # type: ignore[arg-type]


@pytest.mark.parametrize("is_virgin", [False, True])
def test_the_first_client_waits_for_a_coordinator_only_in_a_virgin_cluster(
    *, is_virgin: bool
) -> None:
    async def main(kafka: AsyncSimulatedKafka) -> None:
        async with client(kafka) as cluster, Producer(cluster, transactional_id="app") as producer:
            await producer.init_transactions()
        refused_events = [
            event
            for event in await kafka.trace.events()
            if b"COORDINATOR_LOAD_IN_PROGRESS" in msgspec.json.encode(event.d)
        ]
        assert bool(refused_events) == is_virgin
        assert await kafka.topics.names() == ("orders",)

    run_virtual(main, topics=["orders"], trace="full", virgin=is_virgin)


def test_a_factor_above_the_number_of_brokers_is_obeyed_and_the_cluster_starts() -> None:
    async def main(kafka: AsyncSimulatedKafka) -> None:
        async with (
            client(kafka, api_timeout_ms=5_000) as cluster,
            Producer(cluster, transactional_id="app") as producer,
        ):
            with pytest.raises(ClientError) as error_info:
                await producer.init_transactions()
        assert "coordinator" in str(error_info.value).lower()

    run_virtual(main, brokers=1, settings={"transaction.state.log.replication.factor": 3})


# Topics and transactions by the asynchronous API.


GHOST = {"transaction_version": 0, "settings": {"transaction.partition.verification.enable": False}}
"""A world in which transactions come to hang: no verification, no transactions v2."""


@within(run_virtual, topics=["orders"])
async def test_topics_are_created_with_their_configs(kafka: AsyncSimulatedKafka) -> None:
    await kafka.topics.create("more", 2, configs={"cleanup.policy": "compact"})
    assert await kafka.topics.names() == ("more", "orders")
    image = kafka.cluster.metadata.image.topics["more"]
    assert [len(partition.replicas) for partition in image.partitions] == [3, 3]
    assert image.configs["cleanup.policy"] == "compact"
    await kafka.topics.create("single", replication_factor=1)
    with pytest.raises(ConfigError, match="topic more: "):
        await kafka.topics.create("more")


@within(run_virtual, topics=["orders"])
async def test_how_far_a_partition_is(kafka: AsyncSimulatedKafka) -> None:
    await write_committed(kafka, "orders", "a", "b")
    partition_offsets = await kafka.topics.offsets("orders")
    assert (
        partition_offsets.log_start,
        partition_offsets.last_stable,
        partition_offsets.high_watermark,
    ) == (0, 3, 3)


@within(run_virtual, topics=["orders"])
async def test_transactions_are_listed_described_and_waited_for(kafka: AsyncSimulatedKafka) -> None:
    assert await kafka.transactions.describe("app") is None
    with pytest.raises(TimeoutError, match="app is not known after 100 ms, not Empty"):
        await kafka.transactions.wait_for_state("app", "Empty", timeout_ms=100)
    await write_aborted(kafka, "orders", "a")
    description = await kafka.transactions.wait_for_state("app", "Empty", "CompleteAbort")
    (listed_transaction,) = await kafka.transactions.list()
    assert (listed_transaction.transactional_id, listed_transaction.state) == (
        "app",
        "CompleteAbort",
    )
    assert description.producer_id == listed_transaction.producer_id
    (producer,) = await kafka.transactions.producers("orders")
    assert (producer.producer_id, producer.txn_start_offset) == (
        listed_transaction.producer_id,
        None,
    )


def test_what_hangs_is_found_and_repaired() -> None:
    async def main(kafka: AsyncSimulatedKafka) -> None:
        async with client(kafka) as cluster:
            producer = await begin_transaction(cluster, "app", delivery_timeout_ms=300)
            await producer.send("orders", 0, b"first")
            fault = await kafka.faults.arm(
                point="client.request", api="Produce", transactional_id="app", action="hold"
            )
            late_send_future = producer.send("orders", 0, b"late")
            await fault.wait_until_struck()
            with pytest.raises(Exception, match="orders"):
                await late_send_future
            await producer.abort()
            await fault.release()
            await fault.disarm()
            await producer.close()
        await kafka.transactions.wait_for_state("app", "CompleteAbort", "Empty")
        (judged_transaction,) = await kafka.transactions.hanging()
        assert "without this partition" in judged_transaction.reason
        with pytest.raises(AssertionError, match="1 transaction hangs"):
            await kafka.assert_no_hanging_transactions()
        (repair,) = await kafka.transactions.repair()
        assert repair.outcome == "repaired"
        await kafka.assert_no_hanging_transactions()

    run_virtual(main, topics=["orders"], **GHOST)


@within(run_virtual, topics=["orders"])
async def test_where_nobody_could_look_something_may_hang(kafka: AsyncSimulatedKafka) -> None:
    await write_committed(kafka, "orders", "a")
    await kafka.faults.arm(point="client.request", api="DescribeProducers", action="drop")
    with pytest.raises(ClientError):
        await kafka.assert_no_hanging_transactions()


def test_topics_are_grown_and_deleted_in_the_middle_of_a_test() -> None:
    async def main(kafka: AsyncSimulatedKafka) -> None:
        await kafka.topics.grow("orders", 3)
        assert len(kafka.cluster.metadata.image.topics["orders"].partitions) == 3
        assert (await kafka.topics.offsets("orders", 2)).high_watermark == 0
        with pytest.raises(ConfigError, match="topic orders: INVALID_PARTITIONS"):
            await kafka.topics.grow("orders", 2)
        await kafka.topics.delete("orders")
        assert await kafka.topics.names() == ()
        with pytest.raises(ConfigError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await kafka.topics.delete("orders")

    run_virtual(main, topics=["orders"])


def test_where_a_group_and_an_id_live_is_asked_for_by_name() -> None:
    async def main(kafka: AsyncSimulatedKafka) -> None:
        group = await kafka.topics.of_group("billing")
        assert group == TopicPartition("__consumer_offsets", partition_for("billing", 50))
        state_partition = await kafka.topics.of_transactional_id("shop")
        assert state_partition == TopicPartition("__transaction_state", partition_for("shop", 50))

    run_virtual(main)


# Clock, brokers and leaders by the asynchronous API.


@within(run_virtual)
async def test_a_duration_is_read_at_once_and_a_cluster_goes_on(
    kafka: AsyncSimulatedKafka,
) -> None:
    ms_before = await kafka.clock.now_ms()
    for refused_duration in (1.5, "2 minutes", 10**15):
        with pytest.raises(ValueError, match=r"duration|advanced"):
            await kafka.clock.advance(refused_duration)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"duration|set"):
            await kafka.clock.jump(refused_duration)  # type: ignore[arg-type]
    assert await kafka.clock.now_ms() < ms_before + 1_000
    await kafka.clock.advance(60e3)  # type: ignore[arg-type]
    await kafka.clock.advance("2m")
    assert await kafka.clock.jump("1s") >= ms_before + 181_000
    async with client(kafka) as cluster, Producer(cluster, transactional_id="app") as producer:
        await producer.init_transactions()


@within(run_virtual, topics=["orders"])
async def test_an_advance_lets_a_transaction_time_out_and_a_jump_does_not(
    kafka: AsyncSimulatedKafka,
) -> None:
    async with client(kafka) as cluster, await begin_transaction(cluster, "app") as producer:
        await producer.send("orders", 0, b"one")
        ms_before = await kafka.clock.now_ms()
        assert await kafka.clock.jump(-60_000) < ms_before
        assert await kafka.clock.jump(60_000) >= ms_before
        assert (await kafka.transactions.wait_for_state("app", "Ongoing")).state == "Ongoing"
        assert await kafka.clock.advance(timedelta(minutes=2)) >= ms_before + 120_000
        await kafka.transactions.wait_for_state("app", "CompleteAbort")
        with pytest.raises(ValueError, match="set a clock back"):
            await kafka.clock.advance(-1)


@within(run_virtual)
async def test_one_broker_s_clock_is_set_alone(kafka: AsyncSimulatedKafka) -> None:
    ms_before = await kafka.clock.now_ms()
    assert await kafka.clock.jump(timedelta(hours=1), broker=2) >= ms_before + 3_600_000
    assert await kafka.clock.now_ms() < ms_before + 60_000
    with pytest.raises(ConfigError, match="there is no broker 9"):
        await kafka.clock.jump(1, broker=9)


@within(run_virtual)
async def test_brokers_stop_die_are_cut_off_and_come_back(kafka: AsyncSimulatedKafka) -> None:
    await kafka.brokers.stop(1)
    await kafka.brokers.kill(2)
    assert await kafka.brokers.states() == {1: "down", 2: "down", 3: "running"}
    await kafka.brokers.start(1)
    await kafka.brokers.start(2)
    assert set((await kafka.brokers.states()).values()) == {"running"}
    await kafka.brokers.isolate(3, from_clients=True)
    await kafka.brokers.heal(3)
    with pytest.raises(ConfigError, match="there is no broker 9"):
        await kafka.brokers.stop(9)


@within(run_virtual, topics=["orders"])
async def test_leaders_move(kafka: AsyncSimulatedKafka) -> None:
    first_leader_id = await kafka.leaders.of("orders")
    second_leader_id = await kafka.leaders.move("orders")
    assert second_leader_id != first_leader_id
    assert await kafka.leaders.of("orders") == second_leader_id
    assert await kafka.leaders.move("orders", to=first_leader_id) == first_leader_id
    assert await kafka.leaders.coordinator_of("app") in (1, 2, 3)
    with pytest.raises(ConfigError, match="no partition orders-7"):
        await kafka.leaders.of("orders", 7)


@within(run_virtual, brokers=1, topics=["orders"])
async def test_a_partition_of_one_replica_has_nowhere_to_go(kafka: AsyncSimulatedKafka) -> None:
    with pytest.raises(ConfigError, match="orders-0: no other replica is in sync"):
        await kafka.leaders.move("orders")


# Tests on a cluster that somebody else has started; here another simulator plays it.


@pytest.fixture(scope="module")
def other_kafka() -> Iterator[SimulatedKafka]:
    with SimulatedKafka(topics=["taken"]) as kafka:
        yield kafka


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.stop()


def test_topics_are_made_before_and_deleted_after(
    other_kafka: SimulatedKafka, thread: LoopThread
) -> None:
    with ForeignKafka.at_address(
        other_kafka.bootstrap, options_from_keywords(topics={"mine": 2}), thread
    ) as kafka:
        kafka.topics.create("more")
        assert {"mine", "more", "taken"} <= set(kafka.topics.names())
        kafka.assert_exactly_once([], "mine")
        kafka.assert_no_hanging_transactions()
        assert kafka.topics.offsets("mine", 1).high_watermark == 0
    assert set(other_kafka.topics.names()) == {"taken"}


def test_a_topic_that_is_there_is_left_alone(
    other_kafka: SimulatedKafka, thread: LoopThread
) -> None:
    foreign = ForeignKafka.at_address(
        other_kafka.bootstrap, options_from_keywords(topics=["taken"]), thread
    )
    with pytest.raises(ConfigError, match="choose another name, or delete what is there"):
        foreign.start()
    assert "taken" in other_kafka.topics.names()


@pytest.mark.parametrize("field_name", SIMULATED_ONLY_FEATURES)
def test_what_only_a_simulator_has_skips_with_the_reason(
    field_name: str, other_kafka: SimulatedKafka, thread: LoopThread
) -> None:
    with (
        ForeignKafka.at_address(other_kafka.bootstrap, options_from_keywords(), thread) as kafka,
        pytest.raises(pytest.skip.Exception, match=r"which only a simulated cluster has"),
    ):
        call(getattr(kafka, field_name))


def call(note_reached: Callable[[], object]) -> None:
    """A method is skipped when the test calls it, any other attribute when the test reads it."""
    note_reached()


def test_what_is_not_there_at_all_is_an_error(
    other_kafka: SimulatedKafka, thread: LoopThread
) -> None:
    with (
        ForeignKafka.at_address(other_kafka.bootstrap, options_from_keywords(), thread) as kafka,
        pytest.raises(AttributeError),
    ):
        _ = kafka.fault


def test_a_wait_in_vain_fails_and_does_not_skip(
    other_kafka: SimulatedKafka, thread: LoopThread
) -> None:
    with (
        ForeignKafka.at_address(other_kafka.bootstrap, options_from_keywords(), thread) as kafka,
        pytest.raises(TimeoutError, match="nobody is not Ongoing within 10 ms"),
    ):
        kafka.transactions.wait_for_state("nobody", "Ongoing", timeout_ms=10)


def test_an_address_where_nobody_is_is_named(thread: LoopThread) -> None:
    with pytest.raises(ConfigError, match=r"--txnsim-bootstrap 127\.0\.0\.1:1"):
        ForeignKafka.at_address("127.0.0.1:1", options_from_keywords(), thread).start()


def test_a_marker_that_asks_for_what_can_not_be_given_skips() -> None:
    skip_unsupported({"topics": ["orders"], "faults_may_miss": True})
    with pytest.raises(pytest.skip.Exception, match=r"needs brokers=1, as_version='3.6'"):
        skip_unsupported({"brokers": 1, "as_version": "3.6"})


# Assertions and their messages.


def state(*, strike_count: int = 0, matched: int = 0, may_miss: bool = False) -> FaultState:
    return FaultState(
        rule=FaultRule(id="late", point=FaultPoint.CLIENT_REQUEST, action=Hold()),
        matched=matched,
        struck=strike_count,
        held=0,
        released=0,
        may_miss=may_miss,
        in_force=True,
    )


def test_what_hangs_fails_a_test() -> None:
    no_hanging_transactions((), bootstrap="b:1")
    with pytest.raises(AssertionError, match="1 transaction hangs:\n  orders-1 since offset 3"):
        no_hanging_transactions((HANGING,), bootstrap="b:1")


def test_a_fault_that_never_struck_is_named() -> None:
    all_faults_struck([state(strike_count=1), state(may_miss=True)])
    with pytest.raises(AssertionError, match=r"late: nothing matched: \{"):
        all_faults_struck([state()])
    with pytest.raises(AssertionError, match=r"late: 2 crossings matched: \{"):
        all_faults_struck([state(matched=2)])


@within(run_virtual, topics={"input": 2, "output": 1})
async def test_topics_are_compared_by_what_readers_see(kafka: AsyncSimulatedKafka) -> None:
    await write_committed(kafka, "input", "a", "b")
    await write_aborted(kafka, "input", "c")
    await write_committed(kafka, "output", "A", "B")
    await write_aborted(kafka, "output", "B")
    await kafka.assert_exactly_once("input", "output", derive=bytes.upper)
    await kafka.assert_exactly_once(["A", b"B"], "output")
    await kafka.assert_exactly_once("input", "output", derive=lambda value: [value.upper()])
    await write_committed(kafka, "output", "B", "C")
    with pytest.raises(AssertionError) as error_info:
        await kafka.assert_exactly_once("input", "output", derive=bytes.upper)
    assert str(error_info.value).splitlines() == [
        "not exactly once, from input to output:",
        "more than once: 1 record",
        "  'B' (written there in a transaction that is aborted)",
        "aborted, but read: 1 record",
        "  'C'",
    ]
    with pytest.raises(TypeError, match="found 7"):
        await kafka.assert_exactly_once([7], "output")


IN0, IN1 = TopicPartition("in", 0), TopicPartition("in", 1)
SETTINGS = {"group.initial.rebalance.delay.ms": 0}


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_rebalance_between_two_members(protocol: GroupProtocol) -> None:
    with SimulatedKafka(topics={"in": 2}, settings=SETTINGS) as kafka:
        first_member = kafka.members.join(
            "g", ["in"], until=[IN0, IN1], protocol=protocol, name="first"
        )
        assert first_member.poll() == ()
        first_member.seek(IN0, 0)
        assert first_member.positions == {IN0: 0, IN1: 0}
        metadata_before = first_member.metadata
        second_members = []

        def join() -> None:
            second_members.append(kafka.members.join("g", ["in"], protocol=protocol, name="second"))

        thread = threading.Thread(target=join)
        thread.start()
        while len(first_member.assigned) != 1:
            first_member.poll()
        thread.join()
        lost_partitions = {IN0, IN1} - first_member.assigned
        second_members[0].poll(until=lost_partitions)
        with pytest.raises(ClientError, match=r"ILLEGAL_GENERATION|STALE_MEMBER_EPOCH"):
            first_member.commit(dict.fromkeys(lost_partitions, 0), metadata=metadata_before)
        first_member.stand_still()
        first_member.leave()
        second_members[0].commit()


def test_a_member_of_a_foreign_cluster_ends_with_the_test() -> None:
    thread = LoopThread()
    with (
        SimulatedKafka(topics={"in": 2}, settings=SETTINGS) as simulated_kafka,
        ForeignKafka.at_address(
            simulated_kafka.bootstrap, options_from_keywords(), thread
        ) as kafka,
        kafka.members.join("g", ["in"], until=[IN0, IN1]) as member,
    ):
        member.poll()
        kafka.members.join("other", ["in"], until=[IN0, IN1])
    thread.stop()
