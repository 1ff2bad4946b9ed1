"""acks=-1: an append is answered when it is committed, or can't be any more."""

from __future__ import annotations

import asyncio

from tests.support.images import B1, B2
from tests.support.logs import NOW, plain
from tests.support.peer_network import future_of
from tests.support.replication import TP, ReplicaBench
from txnsim.errors import ErrorCode
from txnsim.log.answers import Appended
from txnsim.log.leader_append import append_client, append_coordinator
from txnsim.replication.commits import Commits


class Bench(ReplicaBench):
    """Broker 1 leads, broker 2 follows."""

    def __init__(self, min_isr: int = 1) -> None:
        super().__init__(replicas=(B1, B2), min_isr=min_isr)
        self.settle()
        node = self.leader
        self.commits = Commits(replicas=node.replicas, purgatory=node.purgatory)

    def begin(self, timeout_ms: int = 1_000) -> asyncio.Future[ErrorCode]:
        log = self.leader.log
        appended = append_coordinator(log, plain(), now_ms=NOW)
        assert isinstance(appended, Appended)
        self.leader.appended(log)
        waiting = self.commits.committed(log, appended.last_offset, timeout_ms=timeout_ms)
        return future_of(waiting)


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
