"""A broker's life, its parked work, and what its logs do to it."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from tests.support.coordinator import ManualClock
from tests.support.gates import Gates
from tests.support.images import B1
from tests.support.logs import NOW, PID, LogDriver, make_log, plain
from tests.support.peer_network import RecordingNetwork
from tests.support.within_environment import in_virtual_time, within
from txnsim.errors import ErrorCode, PeerDisconnectedError, PeerTimeoutError
from txnsim.faults.actions import Drop, Fail, Hold
from txnsim.faults.plan import Action, FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.injection.injector import Injector
from txnsim.interbroker.lifecycle import (
    BrokerHeartbeatCommand,
    BrokerHeartbeatReply,
    BrokerRegistrationCommand,
    BrokerRegistrationReply,
)
from txnsim.log.config import LogConfig
from txnsim.log.partition_log import PartitionLog
from txnsim.node import purgatory
from txnsim.node.broker_lifecycle import BrokerLifecycle
from txnsim.node.log_events import LogEvents
from txnsim.node.log_gate import FOLLOWER, MARKER
from txnsim.node.peers import Peers
from txnsim.node.purgatory import Purgatory
from txnsim.releases.rules import LATEST_RULES
from txnsim.runtime.tasks import LoopTasks
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.runtime.virtual.run import VirtualEnvironment
from txnsim.settings import DEFAULTS
from txnsim.types import IsolationLevel

# Parked work: answered once, by a touch, a release or the deadline, and then gone.


class Bench:
    """A purgatory on a clock that moves by hand, and a condition to wait for."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        tasks = LoopTasks(asyncio.get_running_loop())
        self.purgatory: Purgatory[str] = Purgatory(self.clock, tasks)
        self.is_condition_met = False
        self.checks = 0

    def check(self, _key: str) -> bool:
        self.checks += 1
        return self.is_condition_met

    async def park(self, *keys: str, timeout_ms: float = 100) -> Any:
        wait_coroutine = self.purgatory.wait(keys, timeout_ms=timeout_ms, check=self.check)
        task = asyncio.get_running_loop().create_task(wait_coroutine)
        await asyncio.sleep(0)
        return task

    def assert_empty(self) -> None:
        assert len(self.purgatory) == 0
        self.clock.pass_ms(1_000)
        assert self.clock.armed_timers == 0, (
            "the timer of all with one timeout is not armed for nobody"
        )


@pytest.fixture(params=["few keys", "many keys"])
async def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bench:
    if request.param == "many keys":
        monkeypatch.setattr(purgatory, "WIDE", 0)
    return Bench()


async def test_a_touch_answers_once_the_condition_holds(bench: Bench) -> None:
    task = await bench.park("a", "b")
    bench.purgatory.touch("a")
    await asyncio.sleep(0)
    assert not task.done()
    bench.is_condition_met = True
    bench.purgatory.touch("b")
    assert await task is True
    bench.assert_empty()
    assert bench.checks == 2


async def test_a_touch_of_another_key_checks_nothing(bench: Bench) -> None:
    task = await bench.park("a")
    bench.is_condition_met = True
    bench.purgatory.touch("c")
    assert bench.checks == 0
    task.cancel()


async def test_the_deadline_is_monotonic_and_says_no(bench: Bench) -> None:
    task = await bench.park("a", timeout_ms=100)
    bench.clock.advance(1_000)
    bench.clock.pass_ms(99)
    await asyncio.sleep(0)
    assert not task.done(), "the cluster clock does not end a long poll"
    bench.clock.pass_ms(1)
    assert await task is False
    bench.assert_empty()


async def test_a_release_answers_whatever_the_condition(bench: Bench) -> None:
    first_wait, second_wait, other_wait = (
        await bench.park("a"),
        await bench.park("a", "b"),
        await bench.park("c"),
    )
    assert len(bench.purgatory) == 3
    bench.purgatory.release("a")
    assert (await first_wait, await second_wait) == (True, True)
    assert not other_wait.done()
    bench.purgatory.release_all()
    assert await other_wait is True
    bench.purgatory.release("a")
    bench.assert_empty()


async def test_a_cancelled_waiter_leaves_nothing_behind(bench: Bench) -> None:
    task = await bench.park("a", "b")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    bench.assert_empty()
    bench.purgatory.touch("a")
    assert bench.checks == 0


async def test_one_touch_answers_all_that_wait_oldest_first(bench: Bench) -> None:
    order: list[str] = []
    tasks = [await bench.park("a") for _ in "abc"]
    for name, task in zip("abc", tasks, strict=True):
        task.set_name(name)
        task.add_done_callback(lambda finished_task: order.append(finished_task.get_name()))
    bench.is_condition_met = True
    bench.purgatory.touch("a")
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "c"]


async def test_a_waiter_that_is_cancelled_after_its_answer_hears_nothing_twice(
    bench: Bench,
) -> None:
    task = await bench.park("a")
    bench.is_condition_met = True
    bench.purgatory.touch("a")
    task.cancel()
    bench.clock.pass_ms(1_000)
    with pytest.raises(asyncio.CancelledError):
        await task
    bench.assert_empty()


async def test_those_with_one_timeout_share_a_timer_and_keep_their_deadlines(bench: Bench) -> None:
    first_wait = await bench.park("a", timeout_ms=100)
    bench.clock.pass_ms(40)
    second_wait, other_wait = (
        await bench.park("a", timeout_ms=100),
        await bench.park("a", timeout_ms=70),
    )
    assert bench.clock.armed_timers == 2
    bench.clock.pass_ms(60)
    await asyncio.sleep(0)
    assert await first_wait is False
    assert not second_wait.done()
    bench.clock.pass_ms(10)
    assert await other_wait is False
    bench.clock.pass_ms(30)
    assert await second_wait is False
    bench.assert_empty()


async def test_an_answer_does_not_interrupt_the_touch_that_caused_it(bench: Bench) -> None:
    task = await bench.park("a")
    bench.is_condition_met = True
    bench.purgatory.touch("a")
    assert not task.done()
    assert await task is True


async def test_a_check_learns_what_was_touched(bench: Bench) -> None:
    touched_keys: list[str] = []

    def check(key: str) -> bool:
        touched_keys.append(key)
        return key == "b"

    wait_task = asyncio.get_running_loop().create_task(
        bench.purgatory.wait(("a", "b"), timeout_ms=60_000, check=check)
    )
    await asyncio.sleep(0)
    bench.purgatory.touch("a")
    bench.purgatory.touch("b")
    assert await wait_task
    assert touched_keys == ["a", "b"]


MANY = 3 * purgatory.AT_ONCE


async def test_very_many_that_wait_for_a_key_are_checked_in_slices(bench: Bench) -> None:
    order: list[int] = []
    tasks = [await bench.park("a", "b") for _ in range(MANY)]
    for task_number, task in enumerate(tasks):
        task.add_done_callback(lambda _, number=task_number: order.append(number))
    bench.purgatory.touch("a")
    assert 0 < bench.checks <= purgatory.AT_ONCE, "the first slice"
    bench.is_condition_met = True
    bench.purgatory.touch("a")
    bench.purgatory.touch("b")
    assert await asyncio.gather(*tasks) == [True] * MANY
    assert sorted(order) == list(range(MANY))
    bench.assert_empty()


async def test_very_many_are_released_in_slices_and_at_once_where_the_broker_stops(
    bench: Bench,
) -> None:
    released = [await bench.park("a") for _ in range(MANY)]
    bench.purgatory.release("a")
    assert 0 < len(bench.purgatory) < MANY
    assert await asyncio.gather(*released) == [True] * MANY
    stopped_waits = [await bench.park("a") for _ in range(MANY)]
    bench.purgatory.touch("a")
    bench.purgatory.release_all()
    assert len(bench.purgatory) == 0
    assert await asyncio.gather(*stopped_waits) == [True] * MANY
    bench.assert_empty()


async def test_very_many_deadlines_end_at_their_time(bench: Bench) -> None:
    tasks = [await bench.park("a") for _ in range(MANY)]
    bench.clock.pass_ms(100)
    bench.clock.pass_ms(0)
    bench.clock.pass_ms(0)
    assert await asyncio.gather(*tasks) == [False] * MANY
    bench.assert_empty()


async def test_what_happens_while_it_prepares_is_not_missed(bench: Bench) -> None:
    touched_keys: list[str] = []
    gate_event = asyncio.Event()

    async def prepare() -> bool:
        await gate_event.wait()
        return bool(touched_keys)

    def check(key: str) -> bool:
        touched_keys.append(key)
        return False

    async def wait() -> bool:
        return await bench.purgatory.wait(("a", "b"), timeout_ms=100, check=check, prepare=prepare)

    task = asyncio.get_running_loop().create_task(wait())
    await asyncio.sleep(0)
    bench.purgatory.touch("b")
    assert touched_keys == ["b"]
    gate_event.set()
    assert await task is True
    bench.assert_empty()


async def test_who_is_released_while_it_prepares_waits_no_more(bench: Bench) -> None:
    async def prepare() -> bool:
        bench.purgatory.release("a")
        return False

    waits_coroutine = bench.purgatory.wait(
        ("a",), timeout_ms=100, check=bench.check, prepare=prepare
    )
    assert await waits_coroutine is True
    bench.assert_empty()


# A broker's registration, heartbeats and shutdown, against a controller that is a list of answers.


UNFENCED = BrokerHeartbeatReply(is_caught_up=True, is_fenced=False)
FENCED = BrokerHeartbeatReply(is_caught_up=False)
GO = BrokerHeartbeatReply(should_shut_down=True)
REGISTRATION = BrokerRegistrationCommand(
    broker_id=B1, cluster_id="c", incarnation_id=uuid.UUID(int=1), host="h", port=1
)


class NodeBench:
    """A broker's ``BrokerLifecycle``; the test answers for the controller."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.network = RecordingNetwork()
        self.told: list[object] = []
        self.lifecycle = BrokerLifecycle(
            broker_id=B1,
            peers=Peers(
                network=self.network,  # type: ignore[arg-type]
                broker_id=B1,
                request_timeout_ms=30_000,
            ),
            clock=self.clock,
            settings=DEFAULTS,
            metadata_offset=lambda: 42,
        )

    def register(self) -> None:
        self.lifecycle.register(
            REGISTRATION,
            on_registered=lambda epoch: self.told.append(("registered", epoch)),
            on_unfenced=lambda: self.told.append("unfenced"),
        )

    def shut_down(self) -> None:
        self.lifecycle.shut_down(lambda: self.told.append("may stop"))

    @property
    def count(self) -> int:
        return len(self.network.sent)

    @property
    def last(self) -> Any:
        return self.network.sent[-1].command

    def answer(self, reply: object) -> None:
        answer_future = self.network.sent[-1].answer
        if isinstance(reply, Exception):
            answer_future.fail(reply)
        else:
            answer_future.resolve(reply)


def test_a_broker_registers_until_it_may_and_then_asks_to_be_unfenced() -> None:
    node_bench = NodeBench()
    node_bench.register()
    assert node_bench.last == REGISTRATION
    assert node_bench.network.sent[-1].timeout_ms == 4_500, "half a session"
    node_bench.answer(BrokerRegistrationReply(error=ErrorCode.duplicate_broker_registration))
    node_bench.clock.advance(1_999)
    assert node_bench.count == 1
    node_bench.clock.advance(1)
    node_bench.answer(PeerTimeoutError("nobody there"))
    node_bench.clock.advance(2_000)
    node_bench.answer(BrokerRegistrationReply(broker_epoch=9))
    assert node_bench.told == [("registered", 9)]
    node_bench.clock.advance(10)
    assert node_bench.last == BrokerHeartbeatCommand(
        broker_id=B1, broker_epoch=9, metadata_offset=42
    )
    node_bench.answer(FENCED)
    node_bench.clock.advance(2_000)
    node_bench.answer(UNFENCED)
    assert node_bench.told == [("registered", 9), "unfenced"]
    assert not node_bench.lifecycle.is_fenced
    node_bench.clock.advance(2_000)
    node_bench.answer(UNFENCED)
    assert node_bench.told == [("registered", 9), "unfenced"], "once"


def test_a_heartbeat_waits_for_the_answer_to_the_last_one() -> None:
    node_bench = NodeBench()
    node_bench.lifecycle.go_on(5)
    assert node_bench.count == 0
    node_bench.clock.advance(2_000)
    assert (node_bench.count, node_bench.last.broker_epoch) == (1, 5)
    node_bench.clock.advance(60_000)
    assert node_bench.count == 1
    node_bench.answer(PeerDisconnectedError("cut"))
    node_bench.clock.advance(2_000)
    assert node_bench.count == 2


def test_a_controlled_shutdown_is_asked_for_until_it_is_granted() -> None:
    node_bench = NodeBench()
    node_bench.lifecycle.go_on(5)
    node_bench.shut_down()
    node_bench.clock.advance(0)
    assert node_bench.last.want_shut_down
    node_bench.answer(UNFENCED)
    node_bench.clock.advance(50)
    assert node_bench.count == 2
    node_bench.answer(UNFENCED)
    node_bench.clock.advance(50)
    assert node_bench.count == 2
    node_bench.clock.advance(1_950)
    node_bench.answer(GO)
    assert node_bench.told == ["may stop"]
    node_bench.clock.advance(60_000)
    assert node_bench.count == 3, "nothing is sent any more"


def test_a_shutdown_follows_the_heartbeat_that_is_under_way() -> None:
    node_bench = NodeBench()
    node_bench.lifecycle.go_on(5)
    node_bench.clock.advance(2_000)
    node_bench.shut_down()
    assert node_bench.count == 1
    node_bench.answer(UNFENCED)
    node_bench.clock.advance(0)
    assert (node_bench.count, node_bench.last.want_shut_down) == (2, True)


def test_after_a_failure_nothing_is_sent_at_once() -> None:
    node_bench = NodeBench()
    node_bench.lifecycle.go_on(5)
    node_bench.clock.advance(2_000)
    node_bench.shut_down()
    node_bench.answer(BrokerHeartbeatReply(error=ErrorCode.stale_broker_epoch))
    node_bench.clock.advance(1_999)
    assert node_bench.count == 1
    node_bench.clock.advance(1)
    assert node_bench.count == 2


def test_who_is_stopped_says_nothing_more_and_hears_nothing() -> None:
    node_bench = NodeBench()
    node_bench.register()
    node_bench.lifecycle.stop()
    node_bench.answer(BrokerRegistrationReply(broker_epoch=9))
    assert node_bench.told == []
    other_bench = NodeBench()
    other_bench.lifecycle.go_on(5)
    other_bench.clock.advance(2_000)
    other_bench.lifecycle.stop()
    other_bench.answer(UNFENCED)
    other_bench.clock.advance(60_000)
    assert (other_bench.count, other_bench.lifecycle.is_fenced) == (1, False)


def test_a_shutdown_that_the_controller_wants_is_obeyed_without_being_asked_for() -> None:
    node_bench = NodeBench()
    node_bench.lifecycle.go_on(5)
    node_bench.clock.advance(2_000)
    node_bench.answer(GO)
    assert node_bench.lifecycle.is_stopped
    assert node_bench.told == []


# The gate before a broker's logs: who may append, and what of an append reaches the disk.


SOMETHING = Subject()
BY_TWO = LogConfig(rules=LATEST_RULES, roll_bytes=2 * len(plain()), retention_ms=-1)
"""Two batches of one record fill a segment."""


class LogGateBench:
    def __init__(self, env: VirtualEnvironment) -> None:
        self.injector = Injector(clock=env.clock, tracer=env.tracer, tasks=env.tasks, rng=env.rng)
        self.gates = Gates(env.tasks, interceptor=self.injector)
        self.gate = self.gates.log
        self.tasks = env.tasks

    def arm(self, action: Action, point: FaultPoint, **rule_fields: Any) -> None:
        self.injector.arm(FaultRule(id="f", point=point, action=action, **rule_fields))

    def append(self, log_driver: LogDriver, *, is_abort: bool = False) -> PartitionLog:
        """Append a batch or an ABORT marker, and tell the gate."""
        log = log_driver.log
        durable_before, end = self.gate.durable_part(log), log.log_end_offset
        if is_abort:
            log_driver.end(committed=False)
        else:
            log_driver.append(plain())
        self.gate.after_append(log, durable_before, abort_marker_offset=end if is_abort else None)
        return log


run = in_virtual_time(LogGateBench)


@within(run)
async def test_the_gate_is_open_while_no_rule_is_armed(node_bench: LogGateBench) -> None:
    def is_open() -> bool:
        return node_bench.gate.is_open

    assert is_open()
    assert await node_bench.gate.admit(SOMETHING, kind=MARKER) is None
    node_bench.gates.disk.is_full = True
    assert not is_open()
    node_bench.gates.disk.is_full = False
    node_bench.arm(Hold(), FaultPoint.CLIENT_REQUEST)
    assert not is_open()


@within(run)
async def test_a_full_disk_takes_the_directory_offline_with_the_first_write(
    node_bench: LogGateBench,
) -> None:
    assert node_bench.gate.refuse_full() is None
    node_bench.gates.disk.is_full = True
    assert node_bench.gates.failures == 0
    error = await node_bench.gate.admit(SOMETHING, kind=MARKER)
    assert error is ErrorCode.kafka_storage_error
    assert node_bench.gates.failures == 1


@within(run)
async def test_a_rule_refuses_what_it_names(node_bench: LogGateBench) -> None:
    node_bench.arm(Fail(error="NOT_ENOUGH_REPLICAS"), FaultPoint.LOG_APPEND, role="follower")
    admit = node_bench.gate.admit
    assert await admit(SOMETHING, kind=MARKER) is None
    error = await admit(SOMETHING, kind=MARKER, role=FOLLOWER)
    assert error is ErrorCode.not_enough_replicas


@within(run)
async def test_who_is_held_while_its_broker_stops_appends_nothing(node_bench: LogGateBench) -> None:
    node_bench.arm(Hold(), FaultPoint.LOG_APPEND)
    append_task = node_bench.tasks.spawn(
        node_bench.gate.admit(SOMETHING, kind=MARKER), name="append"
    )
    await asyncio.sleep(0)
    node_bench.gates.fault_points.stop()
    node_bench.injector.release("f")
    assert await append_task is ErrorCode.not_leader_or_follower


# Behind an append


def two_segments(node_bench: LogGateBench) -> LogDriver:
    log_driver = LogDriver(BY_TWO)
    for _ in range(3):
        node_bench.append(log_driver)
    return log_driver


@within(run)
async def test_a_segment_that_ends_is_flushed_and_its_producers_are_noted(
    node_bench: LogGateBench,
) -> None:
    node_bench.arm(Hold(), FaultPoint.CLIENT_REQUEST)
    log = two_segments(node_bench).log
    assert (log.local.recovery_point, log.producers.newest_snapshot_offset) == (2, 2)


@within(run)
async def test_without_anybody_to_ask_it_is_the_same(node_bench: LogGateBench) -> None:
    log = two_segments(node_bench).log
    assert (log.local.recovery_point, log.producers.newest_snapshot_offset) == (2, 2)


@within(run)
async def test_a_flush_that_is_lost_leaves_more_to_be_lost(node_bench: LogGateBench) -> None:
    node_bench.arm(Drop(), FaultPoint.LOG_FLUSH)
    assert two_segments(node_bench).log.local.recovery_point == 0


@within(run)
async def test_a_flush_that_waits_is_done_later(node_bench: LogGateBench) -> None:
    node_bench.arm(Hold(), FaultPoint.LOG_FLUSH)
    log = two_segments(node_bench).log
    assert log.local.recovery_point == 0
    node_bench.injector.release("f")
    await asyncio.sleep(0.001)
    assert log.local.recovery_point == 2


@within(run)
async def test_a_flush_that_fails_takes_the_directory_offline(node_bench: LogGateBench) -> None:
    node_bench.arm(Fail(error="KAFKA_STORAGE_ERROR"), FaultPoint.LOG_FLUSH)
    assert two_segments(node_bench).log.local.recovery_point == 0
    assert node_bench.gates.failures == 1


@within(run)
async def test_a_snapshot_that_is_lost_is_not_there(node_bench: LogGateBench) -> None:
    node_bench.arm(Drop(), FaultPoint.LOG_INDEX, kind="producer-snapshot")
    log = two_segments(node_bench).log
    assert log.producers.newest_snapshot_offset is None
    assert log.local.recovery_point == 2


@within(run)
async def test_a_lost_note_of_an_abort_hides_it_from_readers(node_bench: LogGateBench) -> None:
    node_bench.arm(Drop(), FaultPoint.LOG_INDEX, kind="aborted-range", limit=1)
    log_driver = LogDriver()
    for sequence in range(2):
        log_driver.txn(sequence)
        node_bench.append(log_driver, is_abort=True)
    read = log_driver.log.read(0, max_bytes=10_000, isolation=IsolationLevel.READ_COMMITTED)
    assert [aborted_txn.first_offset for aborted_txn in getattr(read, "aborted", ())] == [2]


def test_what_is_no_longer_there_can_be_lost_again() -> None:
    log = make_log()
    log.local.index.remove(7)
    log.producers.snapshots.remove(7)
    log.local.lose_flush(7)
    log.local.flush_up_to(7)
    assert 7 not in log.local.index
    assert (log.producers.newest_snapshot_offset, log.local.recovery_point) == (None, 0)


# What happens to a log besides appends, in the trace.


def test_a_log_that_loses_an_end_says_where_it_ends_and_begins() -> None:
    driver, tracer = LogDriver(), Tracer(lambda: 0, level=TraceLevel.FULL, is_strict=True)
    events, log = LogEvents(tracer, "broker/1"), driver.log
    driver.txn(0)
    driver.txn(1)
    driver.settle()
    log.delete_records_before(1)
    events.trace_start(log, "DeleteRecords")
    log.restart_at(7, now_ms=NOW)
    events.trace_truncation(log)
    events.trace_expiry(log, (PID,))
    start = {"tp": "orders-0", "to": 1, "lso": 1, "open": [PID], "reason": "DeleteRecords"}
    assert [(event.k, event.d) for event in tracer.events()] == [
        ("log.start", start),
        ("log.truncate", {"tp": "orders-0", "epoch": 0, "to": 7}),
        ("pid.expire", {"tp": "orders-0", "pid": PID, "rule": "producer.expires"}),
    ]
    assert {tracer.nodes[event.n] for event in tracer.events()} == {"broker/1/log/orders-0"}


def test_a_timer_is_the_cause_of_what_it_finds() -> None:
    tracer = Tracer(lambda: 0, level=TraceLevel.FULL, is_strict=True)
    events = LogEvents(tracer, "broker/1")
    cause_before = events.trace_timer("retention", 300_000)
    events.trace_expiry(LogDriver().log, (PID,))
    fired_event, expired_event = tracer.events()
    assert (fired_event.k, fired_event.p, fired_event.d) == (
        "timer.fire", (), {"timer": "retention", "waited_ms": 300_000}
    )  # fmt: skip
    assert expired_event.p == (fired_event.i,)
    assert tracer.set_cause(cause_before) == fired_event.i
