"""The cluster in a thread of its own."""

from __future__ import annotations

import asyncio
import inspect
import threading
import unittest
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.support.testing_plays import write_committed
from txnsim.errors import ConfigError, SimulationError
from txnsim.injection.injector import UnknownRuleError
from txnsim.testing import _blocking as blocking
from txnsim.testing import _clock_and_brokers as life
from txnsim.testing import _members as members
from txnsim.testing import _recording as recording
from txnsim.testing import _topics as topics
from txnsim.testing import cluster, faults
from txnsim.testing._blocking import SimulatedKafka
from txnsim.testing._virtual import START_MS, run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.event_loop import LoopThread
from txnsim.testing.options import options_from_keywords
from txnsim.value_errors import WrongValueError

TWINS = {
    blocking.Faults: faults.AsyncFaults,
    blocking.Fault: faults.AsyncFault,
    blocking.Clock: life.AsyncClock,
    blocking.Brokers: life.AsyncBrokers,
    blocking.Leaders: life.AsyncLeaders,
    blocking.BlockingTopics: topics.AsyncTopics,
    blocking.Transactions: topics.AsyncTransactions,
    blocking.Members: members.AsyncMembers,
    blocking.Member: members.AsyncMember,
    blocking.Trace: recording.AsyncTrace,
    blocking.SimulatedKafka: cluster.AsyncSimulatedKafka,
}


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
def test_a_twin_has_every_coroutine_of_its_model(twin: type[Any]) -> None:
    coroutines = {
        attribute_name
        for attribute_name, member in vars(TWINS[twin]).items()
        if inspect.iscoroutinefunction(member) and not attribute_name.startswith("_")
    }
    assert coroutines - vars(twin).keys() == set()


@pytest.mark.parametrize(
    "make",
    [
        lambda kafka: kafka.faults.arm(point="client.reqest", action="drop"),
        lambda kafka: kafka.faults.release("nope"),
        lambda kafka: kafka.leaders.move("nope"),
    ],
)
def test_a_mistake_of_the_caller_shows_the_callers_line_alone(
    make: Callable[[SimulatedKafka], object],
) -> None:
    error_types = (WrongValueError, UnknownRuleError, ConfigError)
    with SimulatedKafka(brokers=1) as kafka, pytest.raises(error_types) as error_info:
        make(kafka)
    shown_entries = [entry for entry in error_info.traceback if not entry.ishidden(error_info)]
    assert {entry.path.name for entry in shown_entries} == {"test_blocking.py"}


def test_everything_can_be_done_from_a_thread_that_blocks() -> None:
    with SimulatedKafka(topics={"orders": 1}, faults_may_miss=True) as kafka:
        assert kafka.bootstrap.count(",") == 2
        assert kafka.bootstrap_servers == kafka.bootstrap.split(",")
        assert kafka.asynchronous.bootstrap_servers == kafka.bootstrap_servers
        fault = kafka.faults.arm(id="idle", point="client.request", api="EndTxn", action="hold")
        assert (fault.id, fault.rule.api, fault.matched, fault.struck, fault.held) == (
            *("idle", "EndTxn"), 0, 0, 0,
        )  # fmt: skip
        with pytest.raises(TimeoutError):
            fault.wait_until_struck(timeout_ms=1)
        with pytest.raises(AssertionError, match="idle"):
            kafka.assert_all_faults_struck()
        assert fault.release() == 0
        fault.disarm()
        assert kafka.faults.never_struck() == ("idle",)
        assert kafka.brokers.states() == {1: "running", 2: "running", 3: "running"}
        assert kafka.leaders.of("orders") in (1, 2, 3)
        kafka.topics.create("more")
        assert kafka.topics.committed("more") == []
        kafka.assert_exactly_once([], "orders")
        kafka.assert_no_hanging_transactions()
        assert kafka.transactions.list() == ()
        assert kafka.clock.advance(1_000) > 0
        kafka.trace.note("done")
        assert kafka.trace.story()[-1].text == "done"
        kafka.reset()
        assert kafka.topics.names() == ("orders",)
        assert kafka.cluster.options.brokers == 3


IDLE: Final[dict[str, Any]] = {
    "id": "idle",
    "point": "client.request",
    "api": "EndTxn",
    "action": "hold",
}


def ends_its_block(kafka: SimulatedKafka) -> None:
    with kafka:
        kafka.faults.arm(**IDLE)


def stop_with_idle_rule(kafka: SimulatedKafka) -> None:
    kafka.start()
    kafka.faults.arm(**IDLE)
    kafka.stop()


def reset_with_idle_rule(kafka: SimulatedKafka) -> None:
    with kafka:
        kafka.faults.arm(**IDLE)
        kafka.reset()
        kafka.faults.arm(point="client.request", api="EndTxn", action="hold", may_miss=True)


def ends_its_block_where_an_error_is_handled(kafka: SimulatedKafka) -> None:
    try:
        raise ValueError
    except ValueError:
        ends_its_block(kafka)


@pytest.mark.parametrize(
    "end",
    [
        ends_its_block,
        stop_with_idle_rule,
        reset_with_idle_rule,
        ends_its_block_where_an_error_is_handled,
    ],
)
def test_a_fault_that_never_struck_is_told_at_the_end(
    end: Callable[[SimulatedKafka], None],
) -> None:
    threads_before = set(threading.enumerate())
    with pytest.raises(
        AssertionError, match="never struck:\n  idle: nothing matched"
    ) as error_info:
        end(SimulatedKafka(brokers=1))
    assert "fault-1" not in str(error_info.value)
    assert set(threading.enumerate()) <= threads_before
    end(SimulatedKafka(brokers=1, faults_may_miss=True))


def fails_in_its_block(kafka: SimulatedKafka) -> None:
    with kafka:
        kafka.faults.arm(**IDLE)
        raise ValueError("mine")


def fails_before_it_is_stopped(kafka: SimulatedKafka) -> None:
    kafka.start()
    try:
        kafka.faults.arm(**IDLE)
        raise ValueError("mine")
    finally:
        kafka.stop()


@pytest.mark.parametrize("fail", [fails_in_its_block, fails_before_it_is_stopped])
def test_what_the_test_has_raised_is_told_alone(fail: Callable[[SimulatedKafka], None]) -> None:
    with pytest.raises(ValueError, match="mine") as error_info:
        fail(SimulatedKafka(brokers=1))
    assert error_info.value.__context__ is None


def test_unittest_fails_by_a_fault_that_never_struck() -> None:
    class Tests(unittest.TestCase):
        def test_it(self) -> None:
            kafka = self.enterContext(SimulatedKafka(brokers=1))
            kafka.faults.arm(**IDLE)

    result = unittest.TestResult()
    Tests("test_it").run(result)
    ((_, failure_text),) = result.failures
    assert "armed, but never struck:\n  idle: nothing matched" in failure_text


def test_its_thread_ends_with_it() -> None:
    threads_before = set(threading.enumerate())
    kafka = SimulatedKafka(brokers=1)
    kafka.start()
    with pytest.raises(RuntimeError, match="runs already"):
        kafka.start()
    kafka.stop()
    kafka.stop()
    assert set(threading.enumerate()) <= threads_before


def test_a_failed_start_leaves_no_thread_behind() -> None:
    threads_before = set(threading.enumerate())
    with pytest.raises(ConfigError, match="at least one broker"):
        SimulatedKafka(brokers=0).start()
    assert set(threading.enumerate()) <= threads_before


def test_several_share_a_thread() -> None:
    thread = LoopThread()
    with (
        SimulatedKafka.from_description(
            options_from_keywords(brokers=1), thread=thread
        ) as first_kafka,
        SimulatedKafka.from_description(
            options_from_keywords(brokers=1), thread=thread
        ) as second_kafka,
    ):
        assert first_kafka.bootstrap != second_kafka.bootstrap
        assert first_kafka.asynchronous.cluster_loop is second_kafka.asynchronous.cluster_loop
    assert thread.is_alive
    thread.stop()


async def test_its_cluster_is_there_for_coroutines_too() -> None:
    with SimulatedKafka(brokers=1) as kafka:
        fault = await kafka.asynchronous.faults.arm(
            point="client.request", api="EndTxn", action="hold", may_miss=True
        )
        await fault.disarm()
        assert await kafka.asynchronous.brokers.states() == {1: "running"}


# Virtual time for tests of others.


@pytest.mark.slow
def test_an_hour_passes_in_no_time_and_the_same_seed_is_the_same_run() -> None:
    async def main(kafka: AsyncSimulatedKafka) -> str:
        await write_committed(kafka, "orders", "a")
        await asyncio.sleep(3_600)
        tracer = kafka.rebuilt.tracer
        assert tracer is not None
        return tracer.hash

    runs = [run_virtual(main, seed=seed, brokers=1, topics=["orders"]) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_options_and_start_can_be_chosen() -> None:
    async def main(kafka: AsyncSimulatedKafka) -> tuple[int, int]:
        return len(await kafka.brokers.states()), await kafka.clock.now_ms()

    brokers, now_ms = run_virtual(main, brokers=1)
    assert brokers == 1
    assert 0 <= now_ms - START_MS < 60_000
    assert run_virtual(main, start_ms=5_000_000)[1] < 6_000_000
    with pytest.raises(ConfigError, match="no option 'partitions'; there are"):
        run_virtual(main, partitions=1)


def test_it_can_not_be_reset_and_a_wait_for_nothing_is_an_error() -> None:
    async def reset(kafka: AsyncSimulatedKafka) -> None:
        with pytest.raises(ConfigError, match="virtual time can't be reset"):
            await kafka.reset()

    run_virtual(reset)
    clusters: list[AsyncSimulatedKafka] = []

    async def never(kafka: AsyncSimulatedKafka) -> None:
        await kafka.stop()
        await asyncio.Event().wait()

    with pytest.raises(SimulationError):
        run_virtual(never, keep=clusters.append)
    assert clusters[0].rebuilt.tracer is not None
