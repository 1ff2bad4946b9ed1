"""A leader and its followers' requests: what is refused, what is answered, what waits."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
import pytest

from tests.support.images import B1, B2, B3, TOPIC_ID, broker
from tests.support.logs import NOW, plain
from tests.support.replication import TP, ReplicaBench
from txnsim.errors import ErrorCode
from txnsim.interbroker.replication import (
    ReplicaFetchCommand,
    ReplicaFetchedPartition,
    ReplicaFetchPartition,
    ReplicaFetchReply,
    ReplicaOffsetCommand,
)
from txnsim.runtime.tasks import Pending
from txnsim.types import LeaderEpoch, TopicPartition


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
    """Broker 2, asking by hand."""

    def __init__(self, **changes: Any) -> None:
        self.bench = ReplicaBench(**changes)
        for node in (B2, B3):
            self.bench.nodes[node].fetchers.stop()
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
        answer = self.sessions.fetch(ReplicaFetchCommand(**values))
        self.epoch += 1
        return answer

    def fetch(self, *positions: ReplicaFetchPartition, **changes: Any) -> ReplicaFetchReply:
        answer = self.ask(*positions, **changes)
        assert answer.done()
        self.session_id = answer.result().session_id
        return answer.result()

    def park(self, *positions: ReplicaFetchPartition, **changes: Any) -> Pending[ReplicaFetchReply]:
        answer = self.ask(*positions, **changes)
        assert not answer.done()
        return answer

    def told(self, position: ReplicaFetchPartition, **changes: Any) -> ReplicaFetchedPartition:
        (told,) = self.fetch(position, **changes).partitions
        return told


# Refusals


@pytest.mark.parametrize(
    ("wanted", "error"),
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
    wanted: ReplicaFetchPartition, error: ErrorCode
) -> None:
    assert Follower().told(wanted).error is error


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
    told = follower.told(position(3, current_leader_epoch=1, last_fetched_epoch=0))
    assert (told.error, told.diverging) == (0, (0, 2))


# Sessions


def test_a_session_is_known_by_its_id_and_counts_its_requests() -> None:
    follower = Follower()
    follower.bench.append(plain())
    first = follower.fetch(position())
    assert first.session_id > 0
    wrong = follower.ask(session_id=99)
    assert wrong.result().error is ErrorCode.fetch_session_id_not_found
    again = follower.ask(session_id=first.session_id, session_epoch=7)
    assert again.result().error is ErrorCode.invalid_fetch_session_epoch


def test_a_new_session_replaces_the_old_one() -> None:
    follower = Follower()
    parked = follower.park(position())
    follower.epoch = 0
    second = follower.park(position())
    assert parked.result().partitions == ()
    assert not second.done()


def test_a_forgotten_partition_is_no_news() -> None:
    follower = Follower()
    follower.bench.append(plain())
    follower.fetch(position())
    parked = follower.park(forgotten=((TOPIC_ID, TP),))
    follower.bench.append(plain())
    follower.bench.settle()
    assert not parked.done()


def test_a_partition_may_be_named_by_its_topics_id_alone() -> None:
    follower = Follower()
    follower.bench.append(plain())
    unnamed = TopicPartition("", 0)
    assert follower.told(position(topic_partition=unnamed)).topic_partition == TP
    parked = follower.park(position(1, topic_partition=unnamed), forgotten=((TOPIC_ID, unnamed),))
    assert not parked.done()
    nobody = uuid.UUID(int=5)
    strange = follower.told(position(topic_id=nobody, topic_partition=unnamed), session_epoch=0)
    assert strange.error is ErrorCode.unknown_topic_or_partition


# Waiting


def test_an_append_ends_the_wait_after_the_present_callback() -> None:
    follower = Follower()
    parked = follower.park(position())
    follower.bench.append(plain())
    follower.bench.append(plain())
    assert not parked.done()
    follower.bench.settle()
    (told,) = parked.result().partitions
    assert [batch.base_offset for batch in told.batches] == [0, 1]


def test_who_has_more_than_the_leader_hears_at_once_where_the_log_starts() -> None:
    follower = Follower()
    follower.bench.append(plain(4))
    follower.bench.leader.log.advance_high_watermark(4)
    follower.bench.leader.log.delete_records_before(3)
    (told,) = follower.fetch(position(4, last_fetched_epoch=0)).partitions
    assert (told.log_start_offset, told.batches) == (3, ())
    parked = follower.park(position(4, last_fetched_epoch=0, log_start_offset=3))
    assert not parked.done()


def test_a_wait_without_news_ends_at_its_deadline() -> None:
    follower = Follower()
    first = follower.park(position(), max_wait_ms=300)
    follower.bench.settle(seconds=1)
    assert first.result().partitions == ()
    follower.session_id = first.result().session_id
    second = follower.park(max_wait_ms=2_000)
    follower.bench.clock.pass_ms(1_900)
    assert not second.done()
    third = follower.park(max_wait_ms=200)
    assert second.done(), "a follower has one request out"
    follower.bench.clock.pass_ms(150)
    assert not third.done()
    follower.bench.clock.pass_ms(50)
    assert third.done()


def test_who_does_not_want_to_wait_does_not() -> None:
    assert Follower().fetch(position(), max_wait_ms=0).partitions == ()


def test_a_stopping_broker_lets_its_followers_go() -> None:
    follower = Follower()
    parked = follower.park(position())
    follower.sessions.stop()
    assert parked.done()


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
    size = len(plain())
    told = follower.told(position(), max_bytes=2 * size)
    assert [batch.base_offset for batch in told.batches] == [0, 1, 2], "of the partition's limit"
    replicas = follower.bench.leader.replicas
    replicas.dynamic = msgspec.structs.replace(replicas.dynamic, replica_fetch_max_bytes=2 * size)
    assert len(follower.told(position()).batches) == 2


def test_the_next_answer_reports_lost_leadership() -> None:
    follower = Follower()
    parked = follower.park(position())
    follower.bench.leader.replicas.replicated[TP].leader_epoch = LeaderEpoch(1)
    follower.bench.append(plain())
    follower.bench.settle()
    assert [told.error for told in parked.result().partitions] == [ErrorCode.not_leader_or_follower]


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
    follower.bench.publish(image.with_broker(broker(2, alive=False)))
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
    reply = follower.sessions.offset(
        ReplicaOffsetCommand(
            replica_id=B2, topic_partition=TP, current_leader_epoch=0, timestamp_ms=timestamp
        )
    )
    assert (reply.error, reply.offset) == (0, offset)
    old = follower.sessions.offset(
        ReplicaOffsetCommand(
            replica_id=B2, topic_partition=TP, current_leader_epoch=3, timestamp_ms=timestamp
        )
    )
    assert old.error is ErrorCode.unknown_leader_epoch
    assert NOW
