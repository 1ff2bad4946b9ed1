"""Faults by the asynchronous door."""

from __future__ import annotations

import pytest

from tests.support.testing_plays import client
from tests.support.within import within
from txnsim.client.producer import Producer
from txnsim.errors import ConfigError
from txnsim.faults.actions import Delay, Drop, Hold
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.testing._virtual import run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.faults import fault_rule

HELD = {"point": "client.request", "api": "EndTxn", "action": "hold"}


@within(run_virtual, topics=["orders"])
async def test_a_fault_is_armed_struck_waited_for_and_released(kafka: AsyncSimulatedKafka) -> None:
    fault = await kafka.faults.arm(**HELD)
    assert (fault.id, fault.struck, fault.rule.api) == ("fault-1", 0, "EndTxn")
    assert await kafka.faults.never_struck() == ("fault-1",)
    async with client(kafka) as cluster, Producer(cluster, transactional_id="app") as producer:
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 0, b"one")
        committing = kafka.rebuilt.environment.tasks.spawn(producer.commit(), name="commit")
        await fault.wait_until_struck()
        assert (fault.matched, fault.struck, fault.held) == (1, 1, 1)
        assert await fault.release() == 1
        await committing
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
    with pytest.raises(KeyError) as other:
        await kafka.faults.disarm("late")
    assert str(other.value) == "no armed rule 'late'; did you mean later? there are: later"


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
    crash = await kafka.faults.arm(point="now", action={"do": "crash", "broker": 1})
    await crash.wait_until_struck()
    assert (await kafka.brokers.states())[1] == "down"
    again = await kafka.faults.arm(
        point="now", action={"do": "move-leader", "topic": "nowhere", "partition": 0, "to": 2}
    )
    with pytest.raises(LookupError, match="nowhere"):
        await again.wait_until_struck()
    assert again.failure is not None
    assert await kafka.faults.never_struck() == (again.id,)
    *_, state = await kafka.faults.states()
    assert state.failure == again.failure


RULE = FaultRule(id="late", point=FaultPoint.CLIENT_REQUEST, api="Produce", action=Hold())


@pytest.mark.parametrize(
    ("given", "fields"),
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
def test_every_form_comes_to_the_same_rule(given: object, fields: dict[str, object]) -> None:
    assert fault_rule(given, fields, default_id="fault-1") == RULE


def test_without_an_id_it_gets_one() -> None:
    made = fault_rule(
        None,
        {"point": "client.request", "action": {"do": "delay", "delay_ms": 7}, "topic": None},
        default_id="fault-1",
    )
    assert made == FaultRule(
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
