"""Produce at a leader: the order of checks, verification, the wait for replication.

The rows follow ReplicaManager.handleProduceAppend as measured on Apache Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
import struct
import time  # noqa: TID251 - measures CPU time
from typing import Any, cast

import pytest

from tests.support.images import B1, B2, cluster, partition, topic
from tests.support.leader_bench import (
    ADD,
    NEW,
    NOT_LED,
    OLD,
    P0,
    P1,
    UNKNOWN,
    LeaderBench,
    orders,
    part,
    produce,
    settle,
)
from tests.support.logs import NOW, batch
from tests.support.markers import append_marker
from tests.support.replication import TP, ReplicaBench
from txnsim.broker._marker_writes import MarkerWrites
from txnsim.broker.coordinator_host import GroupHost
from txnsim.broker.produce import Outcomes, ProduceCommand, ProduceOutcome
from txnsim.broker.verification import TransactionOperation
from txnsim.errors import ErrorCode, PeerTimeoutError
from txnsim.interbroker.transactions import TxnMarker, WriteTxnMarkersCommand, WriteTxnMarkersReply
from txnsim.releases.rules import LATEST_RULES
from txnsim.replication.append_events import AppendEvents
from txnsim.replication.leader_appends import Commits, LeaderAppends
from txnsim.runtime.trace import TraceLevel
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    CoordinatorEpoch,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)
from txnsim.wire.batch import GZIP, crc_of

E = ErrorCode


@pytest.fixture
async def leader() -> LeaderBench:
    return LeaderBench()


def start(leader: LeaderBench, command: ProduceCommand) -> asyncio.Task[Outcomes]:
    return asyncio.get_running_loop().create_task(leader.producing.produce(command))


async def errors(leader: LeaderBench, command: ProduceCommand) -> dict[TopicPartition, ErrorCode]:
    outcome_by_partition = await leader.producing.produce(command)
    return {
        topic_partition: outcome.error for topic_partition, outcome in outcome_by_partition.items()
    }


def txn(topic_partition: TopicPartition = P0, sequence: int = 0, **transaction_fields: Any) -> Any:
    return part(topic_partition, sequence, is_transactional=True, **transaction_fields)


# Order of checks


async def test_a_plain_batch_is_appended_without_asking_anybody(leader: LeaderBench) -> None:
    outcome_by_partition = await leader.producing.produce(produce(part(P0), part(P1, count=3)))
    assert outcome_by_partition == {
        P0: ProduceOutcome(base_offset=0, log_start_offset=0),
        P1: ProduceOutcome(base_offset=0, log_start_offset=0),
    }
    assert leader.log(P1).high_watermark == 3
    assert leader.requests == []


@pytest.mark.parametrize("name", [CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC])
async def test_internal_topics_are_refused_before_leadership_is_looked_at(name: str) -> None:
    leader = LeaderBench(
        cluster().with_topic(topic(name, partition(1, replicas=(1,)), partition(2)))
    )
    led_partition, unled_partition = TopicPartition(name, 0), TopicPartition(name, 1)
    refusal_error = E.invalid_topic_exception
    assert await errors(leader, produce(part(led_partition), part(unled_partition))) == {
        led_partition: refusal_error,
        unled_partition: refusal_error,
    }
    allowed_command = produce(
        part(led_partition), part(unled_partition), may_write_internal_topics=True
    )
    assert await errors(leader, allowed_command) == {
        led_partition: E.none,
        unled_partition: E.not_leader_or_follower,
    }


async def test_leadership_is_judged_before_the_replicas_in_sync() -> None:
    image = cluster().with_topic(
        topic("orders", partition(2, isr=(2,)), configs={"min.insync.replicas": "2"})
    )
    assert await errors(LeaderBench(image), produce(part(P0))) == {P0: E.not_leader_or_follower}


# Verification


async def test_the_first_transactional_batch_waits_for_the_coordinator(leader: LeaderBench) -> None:
    task = start(leader, produce(txn(P0), txn(P1)))
    await settle()
    assert not task.done()
    (transaction,) = leader.requests[0].command.transactions
    assert transaction.partitions == (P0, P1)
    assert transaction.verify_only
    leader.answer()
    assert {outcome.error for outcome in (await task).values()} == {E.none}
    assert leader.log().producers.open_transaction_of(7) == 0


async def test_an_open_transaction_is_not_verified_again(leader: LeaderBench) -> None:
    task = start(leader, produce(txn(P0)))
    await settle()
    leader.answer()
    await task
    outcome_by_partition = await leader.producing.produce(produce(txn(P0, 1)))
    assert outcome_by_partition[P0].base_offset == 1
    assert len(leader.requests) == 1


async def test_only_the_partitions_that_need_it_are_asked_about(leader: LeaderBench) -> None:
    task = start(leader, produce(txn(P0)))
    await settle()
    leader.answer()
    await task
    task = start(leader, produce(txn(P0, 1), txn(P1, 0), txn(NOT_LED, 0), part(UNKNOWN)))
    await settle()
    assert leader.requests[1].command.transactions[0].partitions == (P1,)
    leader.answer()
    assert {
        topic_partition: outcome.error for topic_partition, outcome in (await task).items()
    } == {
        P0: E.none,
        P1: E.none,
        NOT_LED: E.not_leader_or_follower,
        UNKNOWN: E.unknown_topic_or_partition,
    }


@pytest.mark.parametrize(
    ("answered_error", "operation", "error", "message"),
    [
        (E.transaction_abortable, OLD, E.invalid_txn_state, "not added"),
        (E.transaction_abortable, NEW, E.transaction_abortable, None),
        (E.invalid_txn_state, NEW, E.invalid_txn_state, "not added"),
        (E.producer_fenced, NEW, E.invalid_producer_epoch, None),
        (E.concurrent_transactions, NEW, E.not_enough_replicas, "CONCURRENT_TRANSACTIONS"),
        (E.not_coordinator, ADD, E.not_enough_replicas, "NOT_COORDINATOR"),
    ],
)
async def test_what_the_coordinator_refuses_is_not_appended(
    leader: LeaderBench,
    answered_error: ErrorCode,
    operation: TransactionOperation,
    error: ErrorCode,
    message: str | None,
) -> None:
    task = start(leader, produce(txn(P0), txn(P1), operation=operation))
    await settle()
    leader.answer(answered_error, E.none)
    outcome_by_partition = await task
    assert (outcome_by_partition[P0].error, outcome_by_partition[P0].log_start_offset) == (
        error,
        -1,
    )
    assert message is None or message in (outcome_by_partition[P0].message or "")
    assert (outcome_by_partition[P0].message is None) == (message is None)
    assert outcome_by_partition[P1].error is E.none
    assert leader.log(P0).log_end_offset == 0


async def test_without_an_answer_the_client_is_to_try_again(leader: LeaderBench) -> None:
    task = start(leader, produce(txn(P0)))
    await settle()
    leader.requests[0].answer.fail(PeerTimeoutError("late"))
    assert (await task)[P0].error is E.not_enough_replicas


async def test_verification_may_be_switched_off_but_not_the_implicit_add(
    leader: LeaderBench,
) -> None:
    leader = LeaderBench(
        orders().with_broker_configs("", {"transaction.partition.verification.enable": "false"}),
        transaction_partition_verification_enable=False,
    )
    assert await errors(leader, produce(txn(P0))) == {P0: E.none}
    assert leader.requests == []
    task = start(leader, produce(txn(P1), operation=ADD))
    await settle()
    assert not leader.requests[0].command.transactions[0].verify_only
    leader.answer()
    assert (await task)[P1].error is E.none


async def test_a_stale_epoch_is_refused_before_anybody_is_asked(leader: LeaderBench) -> None:
    task = start(leader, produce(txn(P0, epoch=3), operation=ADD))
    await settle()
    leader.answer()
    await task
    assert await errors(leader, produce(txn(P0, epoch=2), operation=ADD)) == {
        P0: E.invalid_producer_epoch
    }
    assert len(leader.requests) == 1


async def test_a_batch_that_lost_its_guard_meanwhile_is_refused(leader: LeaderBench) -> None:
    """The marker of the aborted transaction comes between verification and append."""
    task = start(leader, produce(txn(P0)))
    await settle()
    append_marker(
        leader.log(),
        producer_id=7,
        producer_epoch=0,
        committed=False,
        coordinator_epoch=0,
        transaction_version=0,
        now_ms=NOW,
    )
    leader.answer()
    assert (await task)[P0].error is E.invalid_txn_state
    assert leader.log().producers.open_transaction_of(7) == -1


# The leader repeats an implicit add (KAFKA-18654)


async def test_an_implicit_add_is_repeated_while_the_last_transaction_is_ending(
    leader: LeaderBench,
) -> None:
    task = start(leader, produce(txn(P0), txn(P1), operation=ADD))
    await settle()
    leader.answer(E.concurrent_transactions, E.none)
    await settle()
    assert len(leader.requests) == 1, "after a pause"
    leader.clock.pass_ms(19)
    await settle()
    assert len(leader.requests) == 1
    leader.clock.pass_ms(1)
    await settle()
    assert leader.requests[1].command == leader.requests[0].command, "the whole call again"
    leader.answer()
    assert {outcome.error for outcome in (await task).values()} == {E.none}
    assert leader.clock.armed_timers == 0


async def test_the_leader_gives_up_after_its_patience_and_says_the_last_answer(
    leader: LeaderBench,
) -> None:
    task = start(leader, produce(txn(P0), operation=ADD))
    for _ in range(5):
        await settle()
        leader.answer(E.concurrent_transactions)
        await settle()
        assert not task.done()
        leader.clock.pass_ms(20)
    await settle()
    assert len(leader.requests) == 6, "at 0, 20, 40, 60, 80 and 100 ms"
    leader.answer(E.concurrent_transactions)
    assert (await task)[P0].error is E.concurrent_transactions


async def test_patience_is_bounded_by_the_request_timeout() -> None:
    leader = LeaderBench(request_timeout_ms=20)
    task = start(leader, produce(txn(P0), operation=ADD))
    for _ in range(2):
        await settle()
        leader.answer(E.concurrent_transactions)
        await settle()
        leader.clock.pass_ms(20)
    await settle()
    assert len(leader.requests) == 2
    assert (await task)[P0].error is E.concurrent_transactions


@pytest.mark.parametrize("operation", [OLD, NEW])
async def test_a_mere_verification_is_not_repeated(
    leader: LeaderBench, operation: TransactionOperation
) -> None:
    task = start(leader, produce(txn(P0), operation=operation))
    await settle()
    leader.answer(E.concurrent_transactions)
    assert (await task)[P0].error is E.not_enough_replicas
    assert len(leader.requests) == 1


async def test_a_producer_that_goes_away_in_the_pause_leaves_no_timer(leader: LeaderBench) -> None:
    task = start(leader, produce(txn(P0), operation=ADD))
    await settle()
    leader.answer(E.concurrent_transactions)
    await settle()
    assert leader.clock.armed_timers == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert leader.clock.armed_timers == 0


# Replication


class _LateReplica:
    """A follower of P0 that fetches only when the test calls ``catch_up``."""

    def __init__(self, leader: LeaderBench) -> None:
        self._leader = leader
        leader.apply(leader.image.with_partition(P0, partition(1, replicas=(1, 2), epoch=1)))
        self.partition = leader.replicas.replicated[P0]

    def catch_up(self) -> None:
        log, clock = self.partition.log, self._leader.clock
        self.partition.followers[BrokerId(2)].note_fetch(
            fetch_offset=log.log_end_offset,
            log_start_offset=0,
            leader_end=log.log_end_offset,
            broker_epoch=2,
            now_ms=clock.monotonic_ms(),
        )
        self._leader.watermarks.advance(self.partition)


async def test_acks_all_waits_for_the_high_watermark(
    leader: LeaderBench,
) -> None:
    replica = _LateReplica(leader)
    task = start(leader, produce(part(P0)))
    await settle()
    assert not task.done()
    replica.catch_up()
    assert (await task)[P0].error is E.none


async def test_acks_one_does_not_wait(leader: LeaderBench) -> None:
    _LateReplica(leader)
    assert await errors(leader, produce(part(P0), acks=1)) == {P0: E.none}


async def test_a_wait_for_replication_ends_at_its_timeout_and_the_record_stays(
    leader: LeaderBench,
) -> None:
    _LateReplica(leader)
    task = start(leader, produce(part(P0), timeout_ms=50))
    await settle()
    leader.clock.pass_ms(50)
    timed_out_outcome = ProduceOutcome(error=E.request_timed_out, base_offset=0, log_start_offset=0)
    assert await task == {P0: timed_out_outcome}, "where the record is"
    assert leader.log().log_end_offset == 1


async def test_a_wait_for_replication_ends_when_leadership_goes(
    leader: LeaderBench,
) -> None:
    _LateReplica(leader)
    task = start(leader, produce(part(P0)))
    await settle()
    leader.apply(leader.image.with_partition(P0, partition(2, replicas=(2, 1), epoch=2)))
    leader.purgatory.release(P0)
    assert (await task)[P0].error is E.not_leader_or_follower


async def test_too_few_in_sync_after_the_append_is_an_error(leader: LeaderBench) -> None:
    replica = _LateReplica(leader)
    task = start(leader, produce(part(P0)))
    await settle()
    replica.partition.min_isr = 3
    replica.partition.log.advance_high_watermark(1)
    leader.purgatory.touch(P0)
    assert (await task)[P0].error is E.not_enough_replicas_after_append
    assert leader.log().log_end_offset == 1


# Trace


async def test_appends_and_refusals_are_in_the_trace(leader: LeaderBench) -> None:
    leader.tracer.level = TraceLevel.FULL
    task = start(leader, produce(txn(P0)))
    await settle()
    leader.answer()
    await task
    await leader.producing.produce(produce(txn(P0, 9)))
    kinds = [event.k for event in leader.tracer.events()]
    assert kinds[:2] == ["verify.ask", "verify.answer"]
    assert {"log.append", "pid.open", "log.hw"} <= set(kinds)
    assert kinds[-1] == "log.reject"


async def test_a_refused_guard_is_in_the_trace(leader: LeaderBench) -> None:
    leader.tracer.level = TraceLevel.FULL
    await leader.producing.produce(produce(txn(NOT_LED), operation=ADD))
    assert [event.k for event in leader.tracer.events()] == ["log.reject"]


def test_a_header_says_what_its_batch_is() -> None:
    header = part(P0, batch_data=batch(3, is_transactional=True)).header
    assert (header.is_transactional, header.base_sequence) == (True, 3)


HEAVY = 100_000
"""Records of a batch that is looked at in several turns."""


@pytest.mark.slow
async def test_others_have_turns_while_many_records_are_looked_at(leader: LeaderBench) -> None:
    production_task = start(leader, produce(part(count=HEAVY, compression=GZIP), acks=1))
    turn_count = 0
    while not production_task.done():
        leader.clock.pass_ms(0)
        await asyncio.sleep(0)
        turn_count += 1
    assert (await production_task)[P0].base_offset == 0
    assert turn_count > 3


@pytest.mark.slow
async def test_nothing_is_decided_before_the_records_are_looked_at(leader: LeaderBench) -> None:
    production_task = start(leader, produce(part(count=HEAVY, compression=GZIP), acks=1))
    await asyncio.sleep(0)
    light_by_partition = await errors(leader, produce(part(), acks=1))
    assert light_by_partition == {P0: E.none}
    while not production_task.done():
        leader.clock.pass_ms(0)
        await asyncio.sleep(0)
    assert (await production_task)[P0].base_offset == 1


async def test_a_heavy_batch_is_refused_as_a_light_one_with_the_log_start_of_then(
    leader: LeaderBench,
) -> None:
    batch_data = bytearray(part(count=HEAVY, compression=GZIP).batch[:-3])
    struct.pack_into(">i", batch_data, 8, len(batch_data) - 12)
    struct.pack_into(">I", batch_data, 17, crc_of(batch_data))
    production_task = start(leader, produce(part(batch_data=bytes(batch_data)), part(P1), acks=1))
    while not production_task.done():
        leader.clock.pass_ms(0)
        await asyncio.sleep(0)
    outcome_by_partition = await production_task
    assert (outcome_by_partition[P0].error, outcome_by_partition[P0].log_start_offset) == (
        E.unknown_server_error,
        0,
    )
    assert outcome_by_partition[P1].error is E.none


# WriteTxnMarkers at a leader: answered per partition, once the markers are committed.


NOBODYS = TopicPartition("orders", 7)
NOT_LOADED = TopicPartition(CONSUMER_OFFSETS_TOPIC, 3)
LOADED = TopicPartition(CONSUMER_OFFSETS_TOPIC, 4)


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
    """A broker without groups, which loads a partition of positions."""

    def refuses_markers(self, topic_partition: TopicPartition) -> bool:
        return topic_partition == NOT_LOADED

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
            rules=LATEST_RULES,
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
    partition_named_twice = TopicPartition("orders", 7)
    task = await bench.write(marker(partition_named_twice, partition_named_twice, TP))
    bench.settle()
    assert not (await task).is_forgotten


async def test_a_repetition_among_many_partitions_is_found_in_one_pass() -> None:
    bench = Bench()
    many_partitions = [TopicPartition("wide", partition) for partition in range(10_000)]
    bench.leader.replicas.hosted.update(dict.fromkeys(many_partitions, bench.leader.log))
    other_partition = TopicPartition("orders", 7)
    begun_s = time.process_time()
    task = await bench.write(marker(*many_partitions, other_partition, other_partition))
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


async def test_a_partition_of_positions_that_are_not_loaded_takes_no_marker() -> None:
    bench = Bench()
    replicas = bench.leader.replicas
    for topic_partition in (NOT_LOADED, LOADED):
        replicas.hosted[topic_partition] = replicas.led[topic_partition] = bench.leader.log
    task = await bench.write(marker(NOT_LOADED))
    assert (await task).results == ((5, ((NOT_LOADED, E.not_leader_or_follower),)),)
    assert bench.leader.log.log_end_offset == 0
    task = await bench.write(marker(LOADED))
    bench.settle()
    assert (await task).results == ((5, ((LOADED, E.none),)),)


async def test_a_marker_that_is_skipped_behind_an_append_that_waits_is_answered() -> None:
    bench = Bench()
    task = await bench.write(marker(TP), marker(NOBODYS, producer=6))
    assert not task.done()
    bench.settle()
    assert not (await task).is_forgotten
    bench.lead(B1, isr=(B1,))
    task = await bench.write(marker(TP), marker(NOBODYS, producer=6))
    bench.settle()
    assert (await task).is_forgotten, "it is written at once"


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
