"""WriteTxnMarkers at a leader: answered per partition, once the markers are committed."""

from __future__ import annotations

import asyncio
import time  # noqa: TID251 - measures CPU time
from typing import cast

from tests.support.images import B1, B2
from tests.support.replication import TP, ReplicaBench
from txnsim.broker._group_host import GroupHost
from txnsim.broker.broker import MarkerWrites
from txnsim.errors import ErrorCode
from txnsim.interbroker.transactions import TxnMarker, WriteTxnMarkersCommand, WriteTxnMarkersReply
from txnsim.releases.rules import LATEST
from txnsim.replication.append_events import AppendEvents
from txnsim.replication.leader_appends import Commits, LeaderAppends
from txnsim.types import CoordinatorEpoch, ProducerEpoch, ProducerId, TopicPartition

NOBODYS = TopicPartition("orders", 7)


def marker(*partitions: TopicPartition, producer: int = 5, epoch: int = 0) -> TxnMarker:
    return TxnMarker(
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(epoch),
        committed=True,
        coordinator_epoch=CoordinatorEpoch(1),
        transaction_version=0,
        partitions=partitions or (TP,),
    )


class NoGroups:
    """A broker without groups."""

    def refuses_markers(self, topic_partition: TopicPartition) -> bool:
        return topic_partition == NOBODYS

    def marker_written(self, *_: object) -> None:
        pass


class Bench(ReplicaBench):
    """Broker 1 leads, broker 2 follows."""

    def __init__(self, *, min_isr: int = 1) -> None:
        super().__init__(replicas=(B1, B2), min_isr=min_isr, request_timeout_ms=500)
        self.settle()
        node = self.leader
        self.writes = MarkerWrites(
            replicas=node.replicas,
            appends=LeaderAppends(
                clock=self.clock,
                replicas=node.replicas,
                watermarks=node.watermarks,
                gate=node.gates.log,
                log_events=AppendEvents(self.tracer, "broker/1"),
            ),
            commits=Commits(replicas=node.replicas, purgatory=node.purgatory),
            groups=cast(GroupHost, NoGroups()),
            rules=LATEST,
        )

    async def write(self, *markers: TxnMarker) -> asyncio.Task[WriteTxnMarkersReply]:
        task = asyncio.get_running_loop().create_task(
            self.writes.write(WriteTxnMarkersCommand(markers=markers))
        )
        await asyncio.sleep(0)
        return task


async def test_markers_are_answered_when_they_are_committed() -> None:
    bench = Bench()
    task = await bench.write(marker(TP, NOBODYS))
    assert not task.done()
    bench.settle()
    (result,) = (await task).results
    assert result == (5, ((TP, ErrorCode.none), (NOBODYS, ErrorCode.unknown_topic_or_partition)))
    assert bench.nodes[B2].log.log_end_offset == 1


async def test_a_partition_that_is_named_twice_is_marked_once_and_not_answered() -> None:
    bench = Bench()
    task = await bench.write(marker(TP, TP))
    bench.settle()
    reply = await task
    assert reply.is_forgotten
    assert bench.leader.log.log_end_offset == 1
    twice_elsewhere = TopicPartition("orders", 7)
    task = await bench.write(marker(twice_elsewhere, twice_elsewhere, TP))
    bench.settle()
    assert not (await task).is_forgotten


async def test_a_repetition_among_many_partitions_is_found_in_one_pass() -> None:
    bench = Bench()
    many = [TopicPartition("wide", number) for number in range(10_000)]
    bench.leader.replicas.hosted.update(dict.fromkeys(many, bench.leader.log))
    elsewhere = TopicPartition("orders", 7)
    begun_s = time.process_time()
    task = await bench.write(marker(*many, elsewhere, elsewhere))
    bench.settle()
    assert not (await task).is_forgotten
    assert time.process_time() - begun_s < 2, "a look at all of them for each one takes 5 s"


async def test_a_marker_that_is_not_replicated_in_time_is_asked_for_again_by_its_sender() -> None:
    bench = Bench()
    bench.isolate(B2)
    task = await bench.write(marker(TP, NOBODYS))
    bench.settle(seconds=1)
    (result,) = (await task).results
    assert dict(result[1]) == {
        TP: ErrorCode.request_timed_out,
        NOBODYS: ErrorCode.unknown_topic_or_partition,
    }


async def test_too_few_in_sync_write_nothing() -> None:
    bench = Bench(min_isr=2)
    bench.lead(B1, isr=(B1,))
    (result,) = (await (await bench.write(marker()))).results
    assert result[1] == ((TP, ErrorCode.not_enough_replicas),)
    assert bench.leader.log.log_end_offset == 0


async def test_who_does_not_lead_says_so() -> None:
    bench = Bench()
    bench.lead(B2)
    (result,) = (await (await bench.write(marker()))).results
    assert result[1] == ((TP, ErrorCode.not_leader_or_follower),)


async def test_a_marker_without_a_producer_fails_the_request() -> None:
    bench = Bench()
    task = await bench.write(marker(producer=5), marker(producer=-1))
    bench.settle()
    results = (await task).results
    assert {error for _, errors in results for _, error in errors} == {
        ErrorCode.unknown_server_error
    }
