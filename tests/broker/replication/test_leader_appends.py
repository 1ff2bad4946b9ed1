"""Appends of a leader, and what follows: replicas in sync, budgets, deletions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.clusters import VirtualCluster, begin_transaction, run_cluster
from tests.support.images import B1, B2, B3, broker
from tests.support.logs import NOW, plain
from tests.support.peer_network import future_of
from tests.support.replication import TP, ReplicaBench
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.fetching import fetch
from txnsim.client.producer import Producer
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.interbroker.replication import AlterPartitionCommand
from txnsim.log.answers import Appended, AppendRejection
from txnsim.log.leader_append import append_client, append_coordinator
from txnsim.log.partition_log import PartitionLog
from txnsim.node.log_gate import DATA
from txnsim.node.peers import CONTROLLER_ID
from txnsim.replica.log_budget import held_bytes, replicas_by_partition
from txnsim.replication.append_events import AppendEvents
from txnsim.replication.budget_keeper import BudgetKeeper
from txnsim.replication.deletions import Deletions, LateDeletion
from txnsim.replication.leader_appends import Appends, Commits, LeaderAppends, WaitingBatch
from txnsim.runtime.trace import TraceLevel
from txnsim.types import TopicPartition

# One append, whatever is brought: asked, written, replicated, told.


class PlainBatch(WaitingBatch, frozen=True):
    """A batch for the log of a bench, or for no log."""

    def subject(self) -> Subject:
        return Subject()


def a_batch(bench: ReplicaBench, *, is_led: bool = True) -> PlainBatch:
    def find() -> PartitionLog | Rejection:
        if is_led:
            return bench.leader.log
        return Rejection(error=ErrorCode.not_leader_or_follower, reason="")

    return PlainBatch(partial(append_coordinator, batch=plain()), find)


async def await_append(
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
        self.leader.note_append(log)
        commit_wait_future = self.commits.wait_for_commit(
            log, appended.last_offset, timeout_ms=timeout_ms
        )
        return future_of(commit_wait_future)


async def test_an_append_is_reported_and_replicated() -> None:
    bench = Bench()
    appends: Appends = []
    appended = await await_append(bench.appends.append(a_batch(bench), appends))
    assert isinstance(appended, Appended)
    assert appends == [(bench.leader.log, 0)]
    assert bench.leader.log.high_watermark == 0
    bench.settle()
    assert bench.leader.log.high_watermark == 1


async def test_where_the_log_is_not_led_nothing_happens() -> None:
    bench = Bench()
    appends: Appends = []
    rejection = await await_append(bench.appends.append(a_batch(bench, is_led=False), appends))
    assert isinstance(rejection, Rejection)
    assert not appends


async def test_a_full_disk_refuses_and_takes_the_directory_offline() -> None:
    bench = Bench()
    gates = bench.leader.gates
    gates.disk.is_full = True
    assert not bench.appends.is_open
    appends: Appends = []
    rejection = await await_append(bench.appends.append(a_batch(bench), appends))
    assert isinstance(rejection, Rejection)
    assert rejection.error is ErrorCode.kafka_storage_error
    second_append = bench.appends.append_admitted(bench.leader.log, a_batch(bench))
    assert isinstance(second_append, Rejection)
    assert gates.failures == 2
    assert bench.leader.log.log_end_offset == 0
    admission = await bench.appends.admit(Subject(), DATA)
    assert isinstance(admission, Rejection)


async def test_a_refusal_of_the_log_is_the_answer() -> None:
    bench = Bench()
    bench.publish(bench.image.with_topic_configs("orders", {"max.message.bytes": "1"}))
    for trace_level in (TraceLevel.OFF, TraceLevel.FULL):
        bench.tracer.level = trace_level
        rejection = await await_append(bench.appends.append(a_batch(bench), []))
        assert isinstance(rejection, Rejection)
        assert rejection.error is ErrorCode.message_too_large


async def test_too_few_in_sync_tell_where_the_log_begins() -> None:
    bench = Bench(min_isr=2)
    assert bench.appends.refuse_too_few_replicas(bench.leader.log) is None
    bench.lead(B1, isr=(B1,))
    rejection = bench.appends.refuse_too_few_replicas(bench.leader.log)
    assert isinstance(rejection, AppendRejection)
    assert (rejection.error, rejection.log_start_offset) == (ErrorCode.not_enough_replicas, 0)


@pytest.fixture
def touched_keys_of_purgatory(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    touched_keys: list[object] = []
    monkeypatch.setattr(
        "txnsim.node.purgatory.Purgatory.touch", lambda _self, key: touched_keys.append(key)
    )
    return touched_keys


def test_without_followers_an_append_is_replicated(touched_keys_of_purgatory: list[object]) -> None:
    bench = ReplicaBench(replicas=(B1,))
    bench.append(plain())
    assert (bench.leader.log.high_watermark, touched_keys_of_purgatory) == (1, []), "nobody waits"
    bench.leader.purgatory.parked[TP] = {}
    bench.append(plain())
    assert touched_keys_of_purgatory == [TP]


def test_with_followers_an_append_is_answered_once_they_have_it(
    touched_keys_of_purgatory: list[object],
) -> None:
    bench = ReplicaBench(replicas=(B1, B2))
    bench.settle()
    touched_keys_of_purgatory.clear()
    bench.append(plain())
    assert touched_keys_of_purgatory == []
    bench.settle()
    assert touched_keys_of_purgatory == [TP]


def test_the_leader_alone_in_the_isr_replicates_at_once(
    touched_keys_of_purgatory: list[object],
) -> None:
    bench = ReplicaBench(replicas=(B1, B2), isr=(B1,))
    bench.leader.purgatory.parked[TP] = {}
    touched_keys_of_purgatory.clear()
    bench.append(plain())
    assert touched_keys_of_purgatory == [TP]


def test_what_moves_is_in_the_trace() -> None:
    bench = ReplicaBench(replicas=(B1, B2))
    bench.settle()
    bench.tracer.level = TraceLevel.FULL
    bench.append(plain())
    assert list(bench.tracer.events()) == []
    bench.settle()
    assert [event.k for event in bench.tracer.events()] == ["log.hw", "log.lso"]


def test_a_deletion_reaches_followers_and_waiting_requests(
    touched_keys_of_purgatory: list[object],
) -> None:
    bench = ReplicaBench(replicas=(B1, B2))
    bench.append(plain(2))
    bench.settle()
    touched_keys_of_purgatory.clear()
    bench.leader.log.delete_records_before(1)
    bench.leader.watermarks.note_raised_log_start(bench.leader.log)
    assert touched_keys_of_purgatory == [TP]
    bench.settle()
    assert bench.nodes[B2].log.log_start_offset == 1
    assert touched_keys_of_purgatory.count(TP) > 1


def test_without_followers_a_deletion_reaches_waiting_requests(
    touched_keys_of_purgatory: list[object],
) -> None:
    bench = ReplicaBench(replicas=(B1,))
    append_client(bench.leader.log, plain(), guard=0, now_ms=NOW)
    bench.leader.watermarks.note_raised_log_start(bench.leader.log)
    assert touched_keys_of_purgatory == [TP]


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
    old_leader_node = bench.leader
    bench.lead(B2, isr=(B2,))
    old_leader_node.purgatory.release(TP)
    bench.settle()
    assert await task is ErrorCode.not_leader_or_follower


async def test_an_isr_that_became_too_small_meanwhile_is_an_error() -> None:
    bench = Bench(min_isr=2)
    bench.isolate(B2)
    log = bench.leader.log
    append_client(log, plain(), guard=0, now_ms=NOW)
    bench.leader.note_append(log)
    task = asyncio.get_running_loop().create_task(bench.commits.wait([(log, 0)], timeout_ms=1_000))
    await asyncio.sleep(0)
    bench.lead(B1, isr=(B1,))
    log.advance_high_watermark(1)
    bench.leader.purgatory.touch(TP)
    bench.settle()
    assert await task == {TP: ErrorCode.not_enough_replicas_after_append}


# A cluster whose logs reach their budget goes on, and says so once.


BUDGET = 4 * 2**20
ORDERS = TopicPartition("orders", 0)
RECORD = b"v" * 40_000


def held_bytes_of(cluster: VirtualCluster) -> int:
    broker_logs = [member.disk for member in cluster.sim.members.values()]
    return sum(map(held_bytes, replicas_by_partition(broker_logs)))


async def write(
    app_cluster: Cluster, transaction_count: int, transactional_id: str = "app"
) -> None:
    async with Producer(app_cluster, transactional_id=transactional_id) as producer:
        await producer.init_transactions()
        for transaction_number in range(transaction_count):
            producer.begin()
            for partition in range(3):
                producer.send("orders", partition, RECORD, key=str(transaction_number).encode())
            await producer.commit()


@pytest.mark.usefixtures("all_levels")
def test_the_oldest_records_go_on_every_replica_and_a_read_below_is_out_of_range() -> None:
    async def main(cluster: VirtualCluster) -> tuple[list[int], int, list[str]]:
        async with cluster.client() as app_cluster:
            highest = 0
            for _ in range(10):
                await write(app_cluster, 10)
                highest = max(highest, held_bytes_of(cluster))
            await asyncio.sleep(1)
            starts = [
                log.log_start_offset
                for member in cluster.sim.members.values()
                for log in member.disk
                if log.topic_partition == ORDERS
            ]
            with pytest.raises(ClientError) as error_info:
                await fetch(app_cluster, "orders", 0, 0)
            assert error_info.value.error is ErrorCode.offset_out_of_range
            fetch_result = await fetch(app_cluster, "orders", 0, starts[0])
            assert fetch_result.records[0].value == RECORD
            reasons = [
                str(event.d["reason"])
                for event in cluster.env.tracer.events()
                if event.k == "log.start"
            ]
            return starts, highest, reasons

    with capture_logs() as logs:
        starts, highest, reasons = run_cluster(
            main, log_budget_bytes=BUDGET, trace_level=TraceLevel.BRIEF
        )
    assert starts[0] > 0
    assert len(set(starts)) == 1, "followers let go what the leader lets go"
    assert highest <= BUDGET
    assert set(reasons) == {"log-budget"}
    budget_events = [line["event"] for line in logs if "budget" in line["event"]]
    assert budget_events == [
        "the logs have reached their budget of 4 MiB (--log-budget): the oldest closed segments "
        "go from now on"
    ]


def test_internal_topics_are_cleaned_without_waiting_for_the_timer() -> None:
    async def main(cluster: VirtualCluster) -> int:
        async with cluster.client() as app_cluster:
            await write(app_cluster, 120)
            batches = [
                sum(map(len, log.local.segments))
                for member in cluster.sim.members.values()
                for log in member.disk
                if log.topic_partition == cluster.home("app")
            ]
            return max(batches)

    settings = {
        "brokers": 1,
        "internal_log_segment_bytes": 2_500,
        "log_cleaner_backoff_ms": 3_600_000,
    }
    bounded = run_cluster(main, log_budget_bytes=BUDGET, **settings)
    grown = run_cluster(main, log_budget_bytes=0, **settings)
    assert bounded < grown / 3


def test_an_open_transaction_keeps_its_records() -> None:
    async def main(cluster: VirtualCluster) -> list[bytes | None]:
        async with (
            cluster.client() as app_cluster,
            await begin_transaction(app_cluster, "open") as producer,
        ):
            producer.send("orders", 0, b"first of the transaction")
            await producer.flush()
            await write(app_cluster, 60)
            await producer.commit()
            fetch_result = await fetch(app_cluster, "orders", 0, 0)
            return [record.value for record in fetch_result.records][:1]

    assert run_cluster(main, log_budget_bytes=BUDGET, brokers=1) == [b"first of the transaction"]


def test_what_was_on_the_disks_before_is_allowed_beside_the_budget() -> None:
    async def main(cluster: VirtualCluster) -> tuple[int, int]:
        async with cluster.client() as app_cluster:
            await write(app_cluster, 5)
        disk_by_broker_id = {
            broker_id: member.disk for broker_id, member in cluster.sim.members.items()
        }
        keeper = BudgetKeeper(BUDGET, cluster.env, list)
        keeper.begin(disk_by_broker_id)
        return keeper.budget, BUDGET + held_bytes_of(cluster)

    kept_bytes, expected_number = run_cluster(main, brokers=1)
    assert kept_bytes == expected_number > BUDGET


# ``isr_changes``: Leaders ask the controller for other ISRs, one request at a time, until they are
# answered.


def isr_commands(bench: ReplicaBench) -> list[AlterPartitionCommand]:
    return [command for _, _, command in bench.sent if isinstance(command, AlterPartitionCommand)]


def lagging() -> ReplicaBench:
    """A bench in which broker 3 is cut off and lacks a record."""
    bench = ReplicaBench()
    bench.settle()
    bench.isolate(B3)
    bench.append(plain())
    bench.settle()
    return bench


def test_who_does_not_fetch_falls_out_after_its_time_and_frees_the_others() -> None:
    bench = lagging()
    bench.settle(seconds=29)
    assert list(bench.partition.isr) == [B1, B2, B3]
    assert bench.leader.log.high_watermark == 0
    bench.settle(seconds=17)
    assert list(bench.partition.isr) == [B1, B2]
    assert bench.leader.log.high_watermark == 1
    (command,) = isr_commands(bench)
    assert (command.broker_id, command.broker_epoch) == (B1, 1)


def test_while_the_process_stood_still_no_follower_fell_behind() -> None:
    bench = lagging()
    bench.clock.pass_ms(60_000)
    bench.settle(seconds=1)
    assert list(bench.partition.isr) == [B1, B2, B3]
    bench.settle(seconds=15)
    assert list(bench.partition.isr) == [B1, B2]


def test_it_comes_back_when_it_has_caught_up() -> None:
    bench = lagging()
    bench.settle(seconds=46)
    bench.heal(B3)
    bench.settle(seconds=3)
    assert list(bench.partition.isr) == [B1, B2, B3]
    assert bench.nodes[B3].log.log_end_offset == 1


def test_an_idle_follower_stays_in_sync() -> None:
    bench = ReplicaBench()
    bench.append(plain())
    bench.settle(seconds=120)
    assert list(bench.partition.isr) == [B1, B2, B3]
    assert isr_commands(bench) == []


def test_without_an_answer_it_is_asked_again_with_growing_pauses() -> None:
    bench = lagging()
    bench.cut.add(CONTROLLER_ID)
    bench.settle(seconds=60)
    try_count = len(isr_commands(bench))
    assert 10 < try_count < 40
    assert bench.leader.log.high_watermark == 0, "until it is granted the larger ISR counts"
    bench.cut.discard(CONTROLLER_ID)
    bench.settle(seconds=2)
    assert list(bench.partition.isr) == [B1, B2]


def test_who_has_stopped_asks_nothing() -> None:
    bench = lagging()
    bench.cut.add(CONTROLLER_ID)
    bench.settle(seconds=46)
    bench.leader.isr_changes.stop()
    try_count = len(isr_commands(bench))
    bench.settle(seconds=60)
    assert len(isr_commands(bench)) <= try_count + 1


def test_an_answer_for_a_partition_that_is_led_no_more_is_nothing() -> None:
    bench = lagging()
    leader = bench.leader
    for _ in range(450):
        bench.clock.pass_ms(100)
    leader.replicas.replicated.clear()
    bench.settle(seconds=1)
    assert bench.partition.isr in ((B1, B2), (B1, B2, B3))
    assert leader.log.high_watermark == 0


@pytest.mark.usefixtures("all_levels")
def test_that_the_controller_never_answers_is_told_once() -> None:
    bench = lagging()
    bench.cut.add(CONTROLLER_ID)
    with capture_logs() as lines:
        bench.settle(seconds=120)
    failing_lines = [line for line in lines if line["event"] == "isr.change.failing"]
    assert len(failing_lines) == 1
    assert str(TP) in failing_lines[0]["reason"]


# DeleteRecords is answered when every live replica has deleted.


Outcome = dict[object, int | ErrorCode | LateDeletion]


class DeletionsBench(ReplicaBench):
    """Broker 1 leads four records, broker 2 follows."""

    def __init__(self, replicas: tuple[int, ...] = (1, 2)) -> None:
        super().__init__(
            replicas=tuple(broker_id for broker_id in (B1, B2) if broker_id in replicas)
        )
        self.settle()
        self.append(plain(4))
        self.settle(seconds=1)
        leader = self.leader
        self.deletions = Deletions(
            replicas=leader.replicas, purgatory=leader.purgatory, watermarks=leader.watermarks
        )

    async def delete(self, offset: int, timeout_ms: int = 1_000) -> asyncio.Task[Outcome]:
        assert self.deletions.delete(self.leader.log, offset) == offset
        task = asyncio.get_running_loop().create_task(
            self.deletions.wait({TP: offset}, timeout_ms=timeout_ms)
        )
        await asyncio.sleep(0)
        return task  # type: ignore[return-value]


async def test_alone_it_is_over_at_once() -> None:
    bench = DeletionsBench(replicas=(1,))
    assert await (await bench.delete(3)) == {TP: 3}


async def test_followers_delete_in_the_same_turn() -> None:
    bench = DeletionsBench()
    task = await bench.delete(3)
    assert not task.done()
    bench.settle()
    assert await task == {TP: 3}
    assert bench.nodes[B2].log.log_start_offset == 3


async def test_a_follower_away_for_too_long_is_reported() -> None:
    bench = DeletionsBench()
    bench.isolate(B2)
    task = await bench.delete(3, timeout_ms=200)
    bench.settle(seconds=1)
    assert await task == {TP: LateDeletion(low_watermark=0)}


async def test_who_is_known_to_be_away_is_not_waited_for() -> None:
    bench = DeletionsBench()
    bench.isolate(B2)
    bench.publish(bench.image.with_broker(broker(2, is_alive=False)))
    assert await (await bench.delete(3)) == {TP: 3}


async def test_lost_leadership_ends_the_wait() -> None:
    bench = DeletionsBench()
    bench.isolate(B2)
    task = await bench.delete(3)
    old_leader_node = bench.leader
    bench.lead(B2)
    old_leader_node.purgatory.release(TP)
    bench.settle()
    assert await task == {TP: ErrorCode.not_leader_or_follower}
