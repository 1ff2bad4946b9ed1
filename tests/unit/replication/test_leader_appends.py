"""One append, whatever is brought: asked, written, replicated, told."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Any

from tests.support.images import B1, B2
from tests.support.logs import plain
from tests.support.replication import ReplicaBench
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.log.answers import Appended, AppendRejection
from txnsim.log.leader_append import append_coordinator
from txnsim.log.partition_log import PartitionLog
from txnsim.node.log_gate import DATA
from txnsim.replication.append_events import AppendEvents
from txnsim.replication.leader_appends import Appends, LeaderAppends, WaitingBatch
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
