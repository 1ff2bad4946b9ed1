"""One append, whatever is brought: asked, written, replicated, told."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

import pytest

from tests.support.images import B1, B2
from tests.support.logs import NOW, plain
from tests.support.peer_network import future_of
from tests.support.replication import TP, ReplicaBench
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.log.answers import Appended, AppendRejection
from txnsim.log.leader_append import append_client, append_coordinator
from txnsim.log.partition_log import PartitionLog
from txnsim.node.log_gate import DATA
from txnsim.replication.append_events import AppendEvents
from txnsim.replication.leader_appends import Appends, Commits, LeaderAppends, WaitingBatch
from txnsim.runtime.trace import TraceLevel


class Plain(WaitingBatch, frozen=True):
    """A batch for the log of a bench, or for no log."""

    def subject(self) -> Subject:
        return Subject()


def a_batch(bench: ReplicaBench, *, is_led: bool = True) -> Plain:
    def find() -> PartitionLog | Rejection:
        if is_led:
            return bench.leader.log
        return Rejection(error=ErrorCode.not_leader_or_follower, reason="")

    return Plain(partial(append_coordinator, batch=plain()), find)


async def settled(
    result: Appended | Rejection | Coroutine[Any, Any, Appended | Rejection],
) -> Appended | Rejection:
    return result if isinstance(result, Appended | Rejection) else await result


class Bench(ReplicaBench):
    """Broker 1 leads, broker 2 follows."""

    def __init__(self, min_isr: int = 1) -> None:
        super().__init__(replicas=(B1, B2), min_isr=min_isr)
        self.settle()
        node = self.leader
        self.appends = LeaderAppends(
            clock=self.clock,
            replicas=node.replicas,
            watermarks=node.watermarks,
            gate=node.gates.log,
            log_events=AppendEvents(self.tracer, "broker/1"),
        )
        self.commits = Commits(replicas=node.replicas, purgatory=node.purgatory)

    def begin(self, timeout_ms: int = 1_000) -> asyncio.Future[ErrorCode]:
        log = self.leader.log
        appended = append_coordinator(log, plain(), now_ms=NOW)
        assert isinstance(appended, Appended)
        self.leader.appended(log)
        waiting = self.commits.committed(log, appended.last_offset, timeout_ms=timeout_ms)
        return future_of(waiting)


async def test_an_append_is_reported_and_replicated() -> None:
    bench = Bench()
    appends: Appends = []
    appended = await settled(bench.appends.append(a_batch(bench), appends))
    assert isinstance(appended, Appended)
    assert appends == [(bench.leader.log, 0)]
    assert bench.leader.log.high_watermark == 0
    bench.settle()
    assert bench.leader.log.high_watermark == 1


async def test_where_the_log_is_not_led_nothing_happens() -> None:
    bench = Bench()
    appends: Appends = []
    refused = await settled(bench.appends.append(a_batch(bench, is_led=False), appends))
    assert isinstance(refused, Rejection)
    assert not appends


async def test_a_full_disk_refuses_and_takes_the_directory_offline() -> None:
    bench = Bench()
    gates = bench.leader.gates
    gates.disk.is_full = True
    assert not bench.appends.is_open
    appends: Appends = []
    refused = await settled(bench.appends.append(a_batch(bench), appends))
    assert isinstance(refused, Rejection)
    assert refused.error is ErrorCode.kafka_storage_error
    again = bench.appends.append_admitted(bench.leader.log, a_batch(bench))
    assert isinstance(again, Rejection)
    assert gates.failures == 2
    assert bench.leader.log.log_end_offset == 0
    admitted = await bench.appends.admit(Subject(), DATA)
    assert isinstance(admitted, Rejection)


async def test_a_refusal_of_the_log_is_the_answer() -> None:
    bench = Bench()
    bench.publish(bench.image.with_topic_configs("orders", {"max.message.bytes": "1"}))
    for level in (TraceLevel.OFF, TraceLevel.FULL):
        bench.tracer.level = level
        refused = await settled(bench.appends.append(a_batch(bench), []))
        assert isinstance(refused, Rejection)
        assert refused.error is ErrorCode.message_too_large


async def test_too_few_in_sync_tell_where_the_log_begins() -> None:
    bench = Bench(min_isr=2)
    assert bench.appends.refuse_few(bench.leader.log) is None
    bench.lead(B1, isr=(B1,))
    refused = bench.appends.refuse_few(bench.leader.log)
    assert isinstance(refused, AppendRejection)
    assert (refused.error, refused.log_start_offset) == (ErrorCode.not_enough_replicas, 0)


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    seen: list[object] = []
    monkeypatch.setattr(
        "txnsim.node.purgatory.Purgatory.touch", lambda _self, key: seen.append(key)
    )
    return seen


def test_without_followers_an_append_is_replicated(touched: list[object]) -> None:
    bench = ReplicaBench(replicas=(B1,))
    bench.append(plain())
    assert (bench.leader.log.high_watermark, touched) == (1, []), "nobody waits"
    bench.leader.purgatory.parked[TP] = {}
    bench.append(plain())
    assert touched == [TP]


def test_with_followers_an_append_is_answered_once_they_have_it(touched: list[object]) -> None:
    bench = ReplicaBench(replicas=(B1, B2))
    bench.settle()
    touched.clear()
    bench.append(plain())
    assert touched == []
    bench.settle()
    assert touched == [TP]


def test_the_leader_alone_in_the_isr_replicates_at_once(touched: list[object]) -> None:
    bench = ReplicaBench(replicas=(B1, B2), isr=(B1,))
    bench.leader.purgatory.parked[TP] = {}
    touched.clear()
    bench.append(plain())
    assert touched == [TP]


def test_what_moves_is_in_the_trace() -> None:
    bench = ReplicaBench(replicas=(B1, B2))
    bench.settle()
    bench.tracer.level = TraceLevel.FULL
    bench.append(plain())
    assert list(bench.tracer.events()) == []
    bench.settle()
    assert [event.k for event in bench.tracer.events()] == ["log.hw", "log.lso"]


def test_a_deletion_reaches_followers_and_waiting_requests(touched: list[object]) -> None:
    bench = ReplicaBench(replicas=(B1, B2))
    bench.append(plain(2))
    bench.settle()
    touched.clear()
    bench.leader.log.delete_records_before(1)
    bench.leader.watermarks.log_start_raised(bench.leader.log)
    assert touched == [TP]
    bench.settle()
    assert bench.nodes[B2].log.log_start_offset == 1
    assert touched.count(TP) > 1


def test_without_followers_a_deletion_reaches_waiting_requests(touched: list[object]) -> None:
    bench = ReplicaBench(replicas=(B1,))
    append_client(bench.leader.log, plain(), guard=0, now_ms=NOW)
    bench.leader.watermarks.log_start_raised(bench.leader.log)
    assert touched == [TP]


async def test_an_append_is_answered_when_the_followers_have_it() -> None:
    bench = Bench()
    task = bench.begin()
    assert not task.done()
    bench.settle()
    assert await task is ErrorCode.none


async def test_a_leader_alone_waits_for_no_follower() -> None:
    bench = Bench()
    bench.lead(B1, isr=(B1,))
    assert await bench.begin(timeout_ms=1) is ErrorCode.none
    assert await bench.commits.wait([(bench.leader.log, 0)], timeout_ms=1) == {}


async def test_who_waits_too_long_hears_so_and_the_record_stays() -> None:
    bench = Bench()
    bench.isolate(B2)
    task = bench.begin(timeout_ms=300)
    bench.settle(seconds=1)
    assert await task is ErrorCode.request_timed_out
    assert bench.leader.log.log_end_offset == 1


async def test_who_loses_the_leadership_says_so() -> None:
    bench = Bench()
    bench.isolate(B2)
    task = bench.begin()
    old = bench.leader
    bench.lead(B2, isr=(B2,))
    old.purgatory.release(TP)
    bench.settle()
    assert await task is ErrorCode.not_leader_or_follower


async def test_an_isr_that_became_too_small_meanwhile_is_an_error() -> None:
    bench = Bench(min_isr=2)
    bench.isolate(B2)
    log = bench.leader.log
    append_client(log, plain(), guard=0, now_ms=NOW)
    bench.leader.appended(log)
    task = asyncio.get_running_loop().create_task(bench.commits.wait([(log, 0)], timeout_ms=1_000))
    await asyncio.sleep(0)
    bench.lead(B1, isr=(B1,))
    log.advance_high_watermark(1)
    bench.leader.purgatory.touch(TP)
    bench.settle()
    assert await task == {TP: ErrorCode.not_enough_replicas_after_append}
