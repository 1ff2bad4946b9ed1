"""Followers: what they fetch, cut off and go on with, and their sessions."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, cast

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.images import B1, B2, B3, TOPIC_ID, broker
from tests.support.logs import NOW, batch, plain
from tests.support.markers import append_marker
from tests.support.replication import TP, Node, ReplicaBench
from txnsim.controller.controller import TopicToCreate
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Drop
from txnsim.faults.points import FaultPoint
from txnsim.interbroker.replication import (
    ReplicaFetchCommand,
    ReplicaFetchedPartition,
    ReplicaFetchPartition,
    ReplicaFetchReply,
    ReplicaOffsetCommand,
)
from txnsim.log.leader_append import append_client, start_verification
from txnsim.log.partition_log import PartitionLog
from txnsim.log.replicated import describe_batch
from txnsim.metadata.image import TopicImage
from txnsim.replication.replica_sessions import BATCHES_MAX
from txnsim.runtime.tasks import Pending
from txnsim.runtime.trace import TraceLevel
from txnsim.types import LeaderEpoch, TopicPartition
from txnsim.wire.batch import assign

# Followers take over what their leaders have written, cut off what those never had, and go on after
# errors.


def bench(**changes: Any) -> ReplicaBench:
    replica_bench = ReplicaBench(**changes)
    replica_bench.settle()
    return replica_bench


def log_ends(replica_bench: ReplicaBench) -> list[int]:
    return [node.log.log_end_offset for node in replica_bench.nodes.values()]


def bytes_of(log: PartitionLog) -> tuple[bytes, ...]:
    return tuple(log.batches())


def fetches(replica_bench: ReplicaBench, since: int = 0) -> list[ReplicaFetchCommand]:
    return [
        command
        for _, _, command in replica_bench.sent[since:]
        if isinstance(command, ReplicaFetchCommand)
    ]


def events_of_kind(replica_bench: ReplicaBench, kind: str) -> list[tuple[str, dict[str, Any]]]:
    tracer = replica_bench.tracer
    return [
        (tracer.nodes[event.n], cast(dict[str, Any], event.d))
        for event in tracer.events()
        if event.k == kind
    ]


def write_behind(node: Node, count: int) -> None:
    """Records that a leader writes while no follower fetches them."""
    for _ in range(count):
        log = node.replicas.led[TP]
        append_client(log, plain(), guard=0, now_ms=NOW)
        node.note_append(log)


# The way of a record


def test_an_append_is_everywhere_and_committed_in_the_same_turn() -> None:
    replica_bench = bench()
    since = len(replica_bench.sent)
    assert replica_bench.append(plain(3)) == 0
    assert log_ends(replica_bench) == [3, 0, 0]
    assert replica_bench.leader.log.high_watermark == 0
    replica_bench.settle()
    assert log_ends(replica_bench) == [3, 3, 3]
    assert replica_bench.leader.log.high_watermark == 3
    stored_bytes = bytes_of(replica_bench.leader.log)
    for node in replica_bench.nodes.values():
        assert all(a is b for a, b in zip(bytes_of(node.log), stored_bytes, strict=True)), (
            "references"
        )
    assert len(fetches(replica_bench, since)) == 2, "one exchange per follower"


def test_appends_of_one_turn_travel_together() -> None:
    replica_bench = bench()
    since = len(replica_bench.sent)
    for _ in range(5):
        replica_bench.append(plain())
    replica_bench.settle()
    assert log_ends(replica_bench) == [5, 5, 5]
    assert len(fetches(replica_bench, since)) == 2


def test_a_follower_hears_of_the_high_watermark_when_the_wait_is_over() -> None:
    replica_bench = bench()
    replica_bench.append(plain())
    replica_bench.settle()
    assert replica_bench.nodes[B2].log.high_watermark == 0
    replica_bench.settle(seconds=1)
    assert replica_bench.nodes[B2].log.high_watermark == 1


def test_two_images_in_one_turn_delay_no_acknowledgement() -> None:
    replica_bench = bench()
    replica_bench.settle(seconds=60)  # idle followers wait long now
    since = len(replica_bench.sent)
    replica_bench.lead(B1)
    replica_bench.lead(B1)
    replica_bench.append(plain())
    replica_bench.settle()
    assert replica_bench.leader.log.high_watermark == 1
    fetches_of_b2 = [fetch for fetch in fetches(replica_bench, since) if fetch.replica_id == B2]
    assert [len(fetch.partitions) for fetch in fetches_of_b2] == [1, 1]  # both images, the batch


def test_an_older_answer_that_brings_a_batch_is_acknowledged() -> None:
    replica_bench = bench()
    replica_bench.settle(seconds=60)
    replica_bench.append(plain())
    # As when another partition changes: the next request leaves while the answer is on its way.
    replica_bench.tasks.run_soon(replica_bench.nodes[B2].fetchers._fetcher_by_leader[B1].send)
    replica_bench.settle()
    assert replica_bench.nodes[B2].log.log_end_offset == 1
    assert replica_bench.leader.log.high_watermark == 1


def test_a_follower_far_behind_gets_so_many_batches_at_a_time() -> None:
    replica_bench = bench()
    replica_bench.isolate(B3)
    replica_bench.lead(B1, isr=(B1, B2))
    write_behind(replica_bench.leader, 3 * BATCHES_MAX)
    replica_bench.settle()
    since = len(replica_bench.sent)
    replica_bench.heal(B3)
    replica_bench.settle(seconds=12)
    assert log_ends(replica_bench) == [3 * BATCHES_MAX] * 3
    fetch_offsets = [
        fetch.partitions[0].fetch_offset
        for fetch in fetches(replica_bench, since)
        if fetch.replica_id == B3 and fetch.partitions
    ]
    assert fetch_offsets == [0, BATCHES_MAX, 2 * BATCHES_MAX, 3 * BATCHES_MAX]


def test_a_request_names_only_what_has_changed() -> None:
    replica_bench = bench()
    replica_bench.append(plain())
    replica_bench.settle()
    first_fetch, *other_fetches = [
        fetch for fetch in fetches(replica_bench) if fetch.replica_id == B2
    ]
    assert [len(first_fetch.partitions), first_fetch.session_epoch] == [1, 0]
    replica_bench.settle(seconds=60)
    idle_request = fetches(replica_bench)[-1]
    assert idle_request.partitions == ()
    assert idle_request.max_wait_ms == replica_bench.settings.replica_lag_time_max_ms // 4
    assert other_fetches[-1].partitions[0].fetch_offset == 1
    since = len(replica_bench.sent)
    replica_bench.settle(seconds=60)
    assert len(fetches(replica_bench, since)) <= 2 * 9, "an idle follower asks seldom"


def test_a_transaction_is_known_to_every_replica() -> None:
    replica_bench = bench()
    log = replica_bench.leader.replicas.led[TP]
    guard = start_verification(
        log, producer_id=7, producer_epoch=0, base_sequence=0, supports_epoch_bump=False, now_ms=NOW
    )
    assert isinstance(guard, int)
    append_client(log, batch(0, producer_id=7, is_transactional=True), guard=guard, now_ms=NOW)
    replica_bench.leader.note_append(log)
    replica_bench.settle()
    assert replica_bench.nodes[B3].log.producers.open_transaction_of(7) == 0
    append_marker(
        log,
        producer_id=7,
        producer_epoch=0,
        committed=False,
        coordinator_epoch=2,
        transaction_version=0,
        now_ms=NOW,
    )
    replica_bench.leader.note_append(log)
    replica_bench.settle(seconds=1)
    assert replica_bench.nodes[B3].log.snapshot() == log.snapshot()
    assert log.snapshot().aborted


# Truncation


def test_a_tail_that_no_other_replica_had_is_cut_off() -> None:
    replica_bench = bench()
    replica_bench.append(plain())
    replica_bench.settle(seconds=1)
    replica_bench.isolate(B1)
    write_behind(replica_bench.nodes[B1], 3)
    replica_bench.lead(B2, isr=(B2, B3))
    replica_bench.settle(seconds=2)
    replica_bench.append(plain(2))
    replica_bench.settle()
    assert log_ends(replica_bench) == [4, 3, 3]
    replica_bench.tracer.level = TraceLevel.FULL
    replica_bench.heal(B1)
    replica_bench.settle(seconds=2)
    assert events_of_kind(replica_bench, "log.truncate") == [
        ("broker/1/log/orders-0", {"tp": "orders-0", "epoch": 1, "to": 1})
    ]
    assert log_ends(replica_bench) == [3, 3, 3]
    assert bytes_of(replica_bench.nodes[B1].log) == bytes_of(replica_bench.nodes[B2].log)
    assert (
        replica_bench.nodes[B1].log.snapshot().leader_epochs
        == replica_bench.nodes[B2].log.snapshot().leader_epochs
    )
    assert list(replica_bench.partition.isr) == [B1, B2, B3]


def test_logs_that_part_twice_meet_step_by_step() -> None:
    replica_bench = bench()
    replica_bench.append(plain())
    replica_bench.settle(seconds=1)
    for leader, follower_ids in ((B2, (B1, B3)), (B1, (B2, B3)), (B2, (B1, B3))):
        for follower_id in follower_ids:
            replica_bench.isolate(follower_id)
        replica_bench.lead(leader, isr=(leader,))
        write_behind(replica_bench.nodes[leader], 2)
        for follower_id in follower_ids:
            replica_bench.cut.discard(follower_id)
        replica_bench.isolate(leader)
        replica_bench.publish(replica_bench.image)
    replica_bench.heal(B2)
    replica_bench.lead(B1, isr=(B1,))
    write_behind(replica_bench.nodes[B1], 1)
    replica_bench.settle(seconds=5)
    assert len({bytes_of(node.log) for node in replica_bench.nodes.values()}) == 1
    replica_bench.nodes[B3].log.check_invariants()


def test_a_follower_behind_the_log_start_begins_there() -> None:
    replica_bench = bench()
    replica_bench.append(plain(4))
    replica_bench.settle(seconds=1)
    replica_bench.isolate(B3)
    replica_bench.lead(B1, isr=(B1, B2))
    replica_bench.append(plain(4))
    replica_bench.settle(seconds=1)
    assert replica_bench.leader.log.delete_records_before(6) == 6
    replica_bench.leader.watermarks.note_raised_log_start(replica_bench.leader.log)
    replica_bench.settle()
    assert replica_bench.nodes[B2].log.log_start_offset == 6
    replica_bench.nodes[B3].log.truncate_to(2, now_ms=NOW)
    replica_bench.tracer.level = TraceLevel.FULL
    replica_bench.heal(B3)
    replica_bench.settle(seconds=3)
    # The leader's log starts in the middle of a batch, which comes whole.
    assert [data["to"] for _, data in events_of_kind(replica_bench, "log.truncate")] == [6, 4]
    assert [data["to"] for _, data in events_of_kind(replica_bench, "log.start")] == [6, 4, 6]
    assert replica_bench.nodes[B3].log.log_end_offset == 8
    assert replica_bench.nodes[B3].log.log_start_offset == 6
    offset_commands = [
        command for _, _, command in replica_bench.sent if isinstance(command, ReplicaOffsetCommand)
    ]
    assert [command.timestamp_ms for command in offset_commands] in ([], [-1, -2])


def test_a_follower_beyond_an_empty_leader_is_cut_to_its_end() -> None:
    replica_bench = bench()
    replica_bench.append(plain(2))
    replica_bench.settle(seconds=1)
    replica_bench.isolate(B1)
    replica_bench.nodes[B2].log.restart_at(0, now_ms=NOW)  # its disk was lost
    replica_bench.lead(B2, isr=(B2,))
    replica_bench.settle(seconds=3)
    assert log_ends(replica_bench)[1:] == [0, 0]


# Errors


def test_a_cut_link_is_tried_again_and_nothing_is_lost() -> None:
    replica_bench = bench()
    replica_bench.isolate(B3)
    replica_bench.append(plain())
    replica_bench.settle(seconds=5)
    assert log_ends(replica_bench) == [1, 1, 0]
    assert replica_bench.leader.log.high_watermark == 0, "it is still in the ISR"
    replica_bench.cut.discard(B3)
    replica_bench.settle(seconds=2)
    assert log_ends(replica_bench) == [1, 1, 1]
    assert replica_bench.leader.log.high_watermark == 1


def test_a_leader_that_has_not_heard_of_it_is_asked_again_later() -> None:
    replica_bench = bench()
    replica_bench.isolate(B2)
    replica_bench.lead(B2)
    replica_bench.cut.discard(B2)
    replica_bench.settle(seconds=1)
    assert TP not in replica_bench.nodes[B2].replicas.led
    replica_bench.heal(B2)
    replica_bench.settle(seconds=3)
    replica_bench.append(plain())
    replica_bench.settle()
    assert log_ends(replica_bench) == [1, 1, 1]


def test_batches_of_a_later_leader_are_left_alone() -> None:
    replica_bench = bench()
    follower_node = replica_bench.nodes[B2]
    later_batch = assign(plain(), base_offset=0, leader_epoch=9)
    replica_bench.leader.log.append(describe_batch(later_batch), now_ms=NOW)
    replica_bench.leader.note_append(replica_bench.leader.log)
    replica_bench.settle()
    assert follower_node.log.log_end_offset == 0


def test_a_session_that_the_leader_has_forgotten_is_begun_again() -> None:
    replica_bench = bench()
    replica_bench.leader.sessions._by_follower.clear()
    replica_bench.append(plain())
    replica_bench.settle(seconds=40)
    assert log_ends(replica_bench) == [1, 1, 1]


def test_who_has_stopped_takes_nothing_over() -> None:
    replica_bench = bench()
    replica_bench.append(plain())
    replica_bench.nodes[B3].stop()
    replica_bench.settle(seconds=2)
    assert log_ends(replica_bench) == [1, 1, 0]


def test_a_deleted_topic_is_fetched_no_more() -> None:
    replica_bench = bench()
    replica_bench.publish(replica_bench.image.without_topic("orders"))
    since = len(replica_bench.sent)
    replica_bench.settle(seconds=20)
    assert [fetch for fetch in fetches(replica_bench, since) if fetch.partitions] == []


def test_errors_of_a_partition_pause_it() -> None:
    replica_bench = bench()
    leader = replica_bench.leader
    partition = leader.replicas.replicated.pop(TP)
    replica_bench.nodes[B2].fetchers.stop()
    replica_bench.restart(B2)
    since = len(replica_bench.sent)
    replica_bench.settle(seconds=3)
    assert len(fetches(replica_bench, since)) >= 2
    leader.replicas.replicated[TP] = partition
    replica_bench.append(plain())
    replica_bench.settle(seconds=2)
    assert replica_bench.nodes[B2].log.log_end_offset == 1


def test_a_superseded_answer_under_watch_asks_for_nothing() -> None:
    """Otherwise two requests of one follower would supersede each other for ever."""

    async def main(cluster: VirtualCluster) -> int:
        cluster.arm(Drop(), FaultPoint.CLIENT_REQUEST, api="EndTxn")  # somebody watches, no more
        for topic_number in range(5):
            created_topic = cluster.sim.metadata.create_topic(
                TopicToCreate(name=f"t{topic_number}", partition_count=3, replication_factor=3)
            )
            assert isinstance(created_topic, TopicImage)
            await asyncio.sleep(0.001)
        await asyncio.sleep(5)
        tracer = cluster.sim.environment.tracer
        event_count_before = len(tracer)
        await asyncio.sleep(10)
        return len(tracer) - event_count_before

    assert run_cluster(main, trace_level=TraceLevel.FULL) < 1_000


@pytest.mark.usefixtures("all_levels")
def test_a_leader_that_never_answers_is_told_once() -> None:
    replica_bench = bench()
    replica_bench.isolate(B3)
    with capture_logs() as lines:
        replica_bench.settle(seconds=120)
    failing_lines = [line for line in lines if line["event"] == "replica.fetch.failing"]
    assert [(failing_line["leader"], failing_line["error"]) for failing_line in failing_lines] == [
        (B1, failing_lines[0]["error"])
    ]
    replica_bench.heal(B3)
    replica_bench.append(plain())
    replica_bench.settle(seconds=2)
    assert log_ends(replica_bench) == [1, 1, 1]
    assert not replica_bench.nodes[B3].fetchers.leader_failures.tried


# A leader and its followers' requests: what is refused, what is answered, what waits.


def position(offset: int = 0, **changes: Any) -> ReplicaFetchPartition:
    values: dict[str, Any] = {
        "topic_id": TOPIC_ID,
        "topic_partition": TP,
        "current_leader_epoch": 0,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": 0,
        "high_watermark": 0,
        **changes,
    }
    return ReplicaFetchPartition(**values)


class Follower:
    """Broker 2, which sends only the requests that the test tells it to send."""

    def __init__(self, **changes: Any) -> None:
        self.bench = ReplicaBench(**changes)
        for node_id in (B2, B3):
            self.bench.nodes[node_id].fetchers.stop()
        self.bench.settle()
        self.sessions = self.bench.leader.sessions
        self.session_id = 0
        self.epoch = 0

    def ask(self, *positions: ReplicaFetchPartition, **changes: Any) -> Pending[ReplicaFetchReply]:
        values: dict[str, Any] = {
            "replica_id": B2,
            "replica_epoch": 2,
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "session_id": self.session_id,
            "session_epoch": self.epoch,
            "partitions": positions,
            **changes,
        }
        answer_future = self.sessions.fetch(ReplicaFetchCommand(**values))
        self.epoch += 1
        return answer_future

    def fetch(self, *positions: ReplicaFetchPartition, **changes: Any) -> ReplicaFetchReply:
        answer_future = self.ask(*positions, **changes)
        assert answer_future.done()
        self.session_id = answer_future.result().session_id
        return answer_future.result()

    def park(self, *positions: ReplicaFetchPartition, **changes: Any) -> Pending[ReplicaFetchReply]:
        answer_future = self.ask(*positions, **changes)
        assert not answer_future.done()
        return answer_future

    def told(
        self, fetch_partition: ReplicaFetchPartition, **changes: Any
    ) -> ReplicaFetchedPartition:
        (partition,) = self.fetch(fetch_partition, **changes).partitions
        return partition


# Refusals


@pytest.mark.parametrize(
    ("replica_fetch_partition", "error"),
    [
        (position(current_leader_epoch=1), ErrorCode.unknown_leader_epoch),
        (position(9), ErrorCode.offset_out_of_range),
        (position(0, last_fetched_epoch=5), ErrorCode.offset_out_of_range),
        (position(topic_id=uuid.UUID(int=1)), ErrorCode.unknown_topic_id),
        (
            position(topic_partition=TopicPartition("orders", 4)),
            ErrorCode.unknown_topic_or_partition,
        ),
    ],
)
def test_a_position_that_can_not_be_is_refused(
    replica_fetch_partition: ReplicaFetchPartition, error: ErrorCode
) -> None:
    assert Follower().told(replica_fetch_partition).error is error


def test_the_epoch_of_the_last_leader_is_fenced() -> None:
    follower = Follower()
    follower.bench.lead(B1)
    assert follower.told(position()).error is ErrorCode.fenced_leader_epoch


def test_who_is_no_replica_is_not_known() -> None:
    follower = Follower(replicas=(B1, B3))
    assert follower.told(position()).error is ErrorCode.unknown_leader_epoch


def test_a_partition_without_followers_has_none() -> None:
    follower = Follower(replicas=(B1,))
    assert follower.told(position()).error is ErrorCode.unknown_leader_epoch


def test_a_process_that_was_replaced_is_refused() -> None:
    follower = Follower()
    image = follower.bench.image
    follower.bench.publish(image.with_broker(msgspec.structs.replace(broker(2), epoch=20)))
    assert follower.told(position()).error is ErrorCode.not_leader_or_follower
    assert not follower.park(position(), replica_epoch=20, session_epoch=0).done()


def test_a_diverging_follower_learns_where_it_diverges() -> None:
    follower = Follower()
    follower.bench.append(plain(2))
    follower.bench.lead(B1)
    follower.bench.append(plain(2))
    partition = follower.told(position(3, current_leader_epoch=1, last_fetched_epoch=0))
    assert (partition.error, partition.diverging_epoch) == (0, (0, 2))


# Sessions


def test_a_session_is_known_by_its_id_and_counts_its_requests() -> None:
    follower = Follower()
    follower.bench.append(plain())
    first_reply = follower.fetch(position())
    assert first_reply.session_id > 0
    wrong_answer_future = follower.ask(session_id=99)
    assert wrong_answer_future.result().error is ErrorCode.fetch_session_id_not_found
    second_answer_future = follower.ask(session_id=first_reply.session_id, session_epoch=7)
    assert second_answer_future.result().error is ErrorCode.invalid_fetch_session_epoch


def test_a_new_session_replaces_the_old_one() -> None:
    follower = Follower()
    parked_fetch_future = follower.park(position())
    follower.epoch = 0
    second_fetch_future = follower.park(position())
    assert parked_fetch_future.result().partitions == ()
    assert not second_fetch_future.done()


def test_a_forgotten_partition_is_no_news() -> None:
    follower = Follower()
    follower.bench.append(plain())
    follower.fetch(position())
    parked_fetch_future = follower.park(forgotten_partitions=((TOPIC_ID, TP),))
    follower.bench.append(plain())
    follower.bench.settle()
    assert not parked_fetch_future.done()


def test_a_partition_may_be_named_by_its_topics_id_alone() -> None:
    follower = Follower()
    follower.bench.append(plain())
    unnamed_partition = TopicPartition("", 0)
    assert follower.told(position(topic_partition=unnamed_partition)).topic_partition == TP
    parked_fetch_future = follower.park(
        position(1, topic_partition=unnamed_partition),
        forgotten_partitions=((TOPIC_ID, unnamed_partition),),
    )
    assert not parked_fetch_future.done()
    unknown_topic_id = uuid.UUID(int=5)
    strange_partition = follower.told(
        position(topic_id=unknown_topic_id, topic_partition=unnamed_partition), session_epoch=0
    )
    assert strange_partition.error is ErrorCode.unknown_topic_or_partition


# Waiting


def test_an_append_ends_the_wait_after_the_present_callback() -> None:
    follower = Follower()
    parked_fetch_future = follower.park(position())
    follower.bench.append(plain())
    follower.bench.append(plain())
    assert not parked_fetch_future.done()
    follower.bench.settle()
    (partition,) = parked_fetch_future.result().partitions
    assert [batch.base_offset for batch in partition.batches] == [0, 1]


def test_who_has_more_than_the_leader_hears_at_once_where_the_log_starts() -> None:
    follower = Follower()
    follower.bench.append(plain(4))
    follower.bench.leader.log.advance_high_watermark(4)
    follower.bench.leader.log.delete_records_before(3)
    (partition,) = follower.fetch(position(4, last_fetched_epoch=0)).partitions
    assert (partition.log_start_offset, partition.batches) == (3, ())
    parked_fetch_future = follower.park(position(4, last_fetched_epoch=0, log_start_offset=3))
    assert not parked_fetch_future.done()


def test_a_wait_without_news_ends_at_its_deadline() -> None:
    follower = Follower()
    first_fetch_future = follower.park(position(), max_wait_ms=300)
    follower.bench.settle(seconds=1)
    assert first_fetch_future.result().partitions == ()
    follower.session_id = first_fetch_future.result().session_id
    second_fetch_future = follower.park(max_wait_ms=2_000)
    follower.bench.clock.pass_ms(1_900)
    assert not second_fetch_future.done()
    third_fetch_future = follower.park(max_wait_ms=200)
    assert second_fetch_future.done(), "a follower has one request out"
    follower.bench.clock.pass_ms(150)
    assert not third_fetch_future.done()
    follower.bench.clock.pass_ms(50)
    assert third_fetch_future.done()


def test_who_does_not_want_to_wait_does_not() -> None:
    assert Follower().fetch(position(), max_wait_ms=0).partitions == ()


def test_a_stopping_broker_lets_its_followers_go() -> None:
    follower = Follower()
    parked_fetch_future = follower.park(position())
    follower.sessions.stop()
    assert parked_fetch_future.done()


def test_a_position_is_an_acknowledgement() -> None:
    follower = Follower(replicas=(B1, B2))
    follower.bench.append(plain(2))
    assert follower.told(position()).high_watermark == 0
    follower.park(position(2))
    assert follower.bench.leader.log.high_watermark == 2


def test_an_answer_has_a_size() -> None:
    follower = Follower()
    for _ in range(3):
        follower.bench.append(plain())
    size_bytes = len(plain())
    partition = follower.told(position(), max_bytes=2 * size_bytes)
    assert [batch.base_offset for batch in partition.batches] == [0, 1, 2], (
        "of the partition's limit"
    )
    replicas = follower.bench.leader.replicas
    replicas.dynamic_settings = msgspec.structs.replace(
        replicas.dynamic_settings, replica_fetch_max_bytes=2 * size_bytes
    )
    assert len(follower.told(position()).batches) == 2


def test_the_next_answer_reports_lost_leadership() -> None:
    follower = Follower()
    parked_fetch_future = follower.park(position())
    follower.bench.leader.replicas.replicated[TP].leader_epoch = LeaderEpoch(1)
    follower.bench.append(plain())
    follower.bench.settle()
    assert [partition.error for partition in parked_fetch_future.result().partitions] == [
        ErrorCode.not_leader_or_follower
    ]


# In-sync replicas


def test_a_follower_that_has_caught_up_joins_the_isr() -> None:
    follower = Follower(isr=(B1,))
    follower.bench.append(plain())
    assert follower.bench.leader.log.high_watermark == 1
    follower.fetch(position())
    follower.bench.settle()
    assert list(follower.bench.partition.isr) == [B1]
    follower.park(position(1))
    follower.bench.settle()
    assert list(follower.bench.partition.isr) == [B1, B2]


def test_who_may_not_join_yet_is_looked_at_with_each_fetch() -> None:
    follower = Follower(isr=(B1,))
    image = follower.bench.image
    follower.bench.publish(image.with_broker(broker(2, is_alive=False)))
    follower.park(position())
    follower.bench.settle()
    assert list(follower.bench.partition.isr) == [B1]
    follower.bench.publish(follower.bench.image.with_broker(broker(2)))
    follower.session_id = 1
    follower.park(max_wait_ms=9_000)
    follower.bench.settle()
    assert list(follower.bench.partition.isr) == [B1, B2]


# Offsets


@pytest.mark.parametrize(("timestamp", "offset"), [(-1, 4), (-2, 3)])
def test_a_follower_out_of_range_learns_the_ends(timestamp: int, offset: int) -> None:
    follower = Follower(replicas=(B1,))
    follower.bench.append(plain(4))
    follower.bench.leader.log.delete_records_before(3)
    reply = follower.sessions.list_offset(
        ReplicaOffsetCommand(
            replica_id=B2, topic_partition=TP, current_leader_epoch=0, timestamp_ms=timestamp
        )
    )
    assert (reply.error, reply.offset) == (0, offset)
    old_reply = follower.sessions.list_offset(
        ReplicaOffsetCommand(
            replica_id=B2, topic_partition=TP, current_leader_epoch=3, timestamp_ms=timestamp
        )
    )
    assert old_reply.error is ErrorCode.unknown_leader_epoch
    assert NOW
