"""A led partition: high watermark by the ISR, and how the ISR changes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.images import B1, B2, B3, TOPIC_ID, partition
from tests.support.logs import NOW, make_log, plain
from txnsim.errors import ErrorCode
from txnsim.interbroker.replication import AlteredPartition, IsrChange
from txnsim.log.config import LogConfig
from txnsim.log.leader_append import append_client
from txnsim.metadata.image import PartitionImage
from txnsim.releases import LATEST_RULES, Rules
from txnsim.replica.partition import (
    Follower,
    LeaderPartition,
    has_caught_up,
    out_of_sync_followers,
    truncation_offset,
)
from txnsim.types import BrokerId, LeaderEpoch, TopicPartition

LAG_MS = 100


class Reader:
    """A follower's fetch session that counts its answers."""

    def __init__(self) -> None:
        self.last_fetch_ms = 40
        self.answers = self.out = 0
        self.partitions_with_news: dict[TopicPartition, None] = {}
        self.stale_partitions: dict[TopicPartition, None] = {}
        self.is_answer_due = False
        self.parked_request: object | None = None

    def answer_soon(self) -> None:
        self.answers += 1
        self.is_answer_due = True

    def note_out_of_isr(self, topic_partition: TopicPartition) -> None:
        self.out += 1


class PartitionBench:
    """A partition that broker 1 leads."""

    def __init__(
        self, *, isr: tuple[int, ...] = (1, 2, 3), min_isr: int = 1, rules: Rules = LATEST_RULES
    ) -> None:
        self.log = make_log(LogConfig(rules=rules), leader_epoch=0)
        self.excluded: set[BrokerId] = set()
        self.image: PartitionImage = partition(1, isr=isr)
        self.partition = LeaderPartition(
            leader=B1,
            log=self.log,
            topic_id=TOPIC_ID,
            may_join=lambda broker, _epoch: broker not in self.excluded,
        )
        self.partition.apply_image(self.image, min_isr=min_isr, now_ms=0)

    def append(self, count: int = 1, *, now_ms: int = 50) -> bool:
        append_client(self.log, plain(count), guard=0, now_ms=NOW)
        return self.partition.note_append(lambda: (LAG_MS, now_ms))

    def fetched(self, broker: BrokerId, offset: int, *, now_ms: int = 50, start: int = 0) -> bool:
        self.partition.followers[broker].note_fetch(
            fetch_offset=offset,
            log_start_offset=start,
            leader_end=self.log.log_end_offset,
            broker_epoch=broker * 10,
            now_ms=now_ms,
        )
        return self.partition.advance_high_watermark(lambda: (LAG_MS, now_ms))

    def publish(self, **changes: Any) -> None:
        values = {"partition_epoch": self.image.partition_epoch + 1, **changes}
        self.image = msgspec.structs.replace(self.image, **values)
        self.partition.apply_image(self.image, min_isr=1, now_ms=60)

    def answer(self, change: IsrChange, **changes: Any) -> IsrChange | None:
        values: dict[str, Any] = {
            "topic_id": TOPIC_ID,
            "topic_partition": change.topic_partition,
            "leader": B1,
            "leader_epoch": LeaderEpoch(0),
            "isr": tuple(broker for broker, _ in change.new_isr),
            "partition_epoch": change.partition_epoch + 1,
            **changes,
        }
        return self.partition.take_answer(AlteredPartition(**values), change)

    def shrink_isr(self, now_ms: int = 1_000) -> IsrChange:
        change = self.partition.shrink_isr(lag_max_ms=LAG_MS, now_ms=now_ms)
        assert change is not None
        return change


# High watermark


def test_the_high_watermark_waits_for_the_whole_isr() -> None:
    partition_bench = PartitionBench()
    assert not partition_bench.append(2)
    assert not partition_bench.fetched(B2, 2)
    assert partition_bench.fetched(B3, 1)
    assert partition_bench.log.high_watermark == 1
    assert partition_bench.fetched(B3, 2)
    assert not partition_bench.fetched(B3, 2)
    assert partition_bench.log.high_watermark == 2


@pytest.mark.parametrize(
    ("isr", "ends", "expected_number"),
    [
        ((1, 2, 3), (5, 7), 5),
        ((1, 3), (5, 7), 7),
        ((1,), (5, 7), 10),
        ((1, 2, 3), (-1, 7), 0),
        ((1, 2, 3), (10, 12), 10),
    ],
)
def test_it_is_the_least_end_of_those_who_are_waited_for(
    isr: tuple[int, ...], ends: tuple[int, int], expected_number: int
) -> None:
    partition_bench = PartitionBench(isr=isr)
    partition_bench.append(10)
    partition_bench.excluded.update((B2, B3))  # none of them is about to join
    for broker, end in zip((B2, B3), ends, strict=True):
        partition_bench.fetched(broker, end)
    assert partition_bench.log.high_watermark == expected_number


def test_a_leader_alone_in_the_isr_does_not_wait() -> None:
    partition_bench = PartitionBench(isr=(1,))
    assert partition_bench.append()
    assert partition_bench.log.high_watermark == 1


def test_an_append_asks_for_no_time_while_a_follower_in_sync_has_yet_to_fetch_it() -> None:
    told_times_ms: list[int] = []

    def read_lag_and_now() -> tuple[int, int]:
        told_times_ms.append(50)
        return LAG_MS, 50

    for isr, expected_times_ms in (((1, 3), []), ((1,), [50])):
        partition_bench = PartitionBench(isr=isr)
        append_client(partition_bench.log, plain(), guard=0, now_ms=NOW)
        is_moved = partition_bench.partition.note_append(read_lag_and_now)
        assert (is_moved, told_times_ms) == (bool(expected_times_ms), expected_times_ms)


def test_the_high_watermark_rests_while_too_few_are_in_sync() -> None:
    partition_bench = PartitionBench(isr=(1,), min_isr=2)
    assert partition_bench.partition.is_under_min_isr
    assert len(partition_bench.partition.maximal_isr) < partition_bench.partition.min_isr
    assert not partition_bench.append()
    assert partition_bench.log.high_watermark == 0


def test_before_3_7_the_high_watermark_goes_on_while_too_few_are_in_sync() -> None:
    partition_bench = PartitionBench(
        isr=(1,), min_isr=2, rules=Rules(high_watermark_needs_min_isr=False)
    )
    assert partition_bench.append()
    assert partition_bench.log.high_watermark == 1
    assert partition_bench.partition.is_under_min_isr
    assert len(partition_bench.partition.maximal_isr) < partition_bench.partition.min_isr


def test_before_3_7_more_replicas_may_be_demanded_than_there_are() -> None:
    for rules, is_under in ((LATEST_RULES, False), (Rules(min_isr_is_bounded=False), True)):
        assert PartitionBench(min_isr=4, rules=rules).partition.is_under_min_isr is is_under


def test_the_leader_waits_for_a_replica_that_is_coming_back() -> None:
    partition_bench = PartitionBench(isr=(1, 3))
    partition_bench.append(2, now_ms=50)
    assert partition_bench.fetched(B3, 2)
    partition_bench.fetched(B2, 2)
    partition_bench.append(2, now_ms=60)
    assert not partition_bench.fetched(B3, 4, now_ms=60)
    partition_bench.excluded.add(B2)
    assert partition_bench.fetched(B3, 4, now_ms=60), "who may not join is not waited for"


def test_the_leader_waits_for_a_replica_from_the_request_that_it_joins_the_isr() -> None:
    """The controller may have added the replica already (LeaderAndIsr.maximalIsr)."""
    partition_bench = PartitionBench(isr=(1, 3))
    partition_bench.append(2)
    partition_bench.fetched(B3, 2)
    partition_bench.fetched(B2, 2)
    change = partition_bench.partition.expand_isr(partition_bench.partition.followers[B2])
    assert change is not None
    partition_bench.excluded.add(B2)
    partition_bench.append(2)
    assert not partition_bench.fetched(B3, 4)
    partition_bench.answer(change, error=ErrorCode.ineligible_replica)
    assert partition_bench.fetched(B3, 4), "the controller has not taken it in"


def test_followers_hear_of_records_and_of_the_high_watermark() -> None:
    partition_bench = PartitionBench(isr=(1, 2))
    reader = partition_bench.partition.followers[B2].reader = Reader()
    reader.parked_request = "a Fetch that waits"
    partition_bench.append()
    topic_partition = partition_bench.log.topic_partition
    assert (list(reader.partitions_with_news), reader.stale_partitions, reader.answers) == (
        [topic_partition],
        {},
        1,
    )
    partition_bench.append()
    assert reader.answers == 1, "what is appended meanwhile goes into the same answer"
    partition_bench.fetched(B2, 1)
    assert list(reader.stale_partitions) == [topic_partition]
    reader.partitions_with_news.clear()
    reader.is_answer_due = False
    partition_bench.partition.note_raised_log_start()
    assert (list(reader.partitions_with_news), reader.answers) == ([topic_partition], 2)
    reader.partitions_with_news.clear()
    partition_bench.partition.note_raised_log_start()
    assert (list(reader.partitions_with_news), reader.answers) == ([topic_partition], 2), (
        "the same answer tells it"
    )


def test_who_had_all_was_up_to_date_when_it_asked_last() -> None:
    partition_bench = PartitionBench()
    partition_bench.append()
    partition_bench.fetched(B2, 1, now_ms=10)
    follower = partition_bench.partition.followers[B2]
    follower.reader = Reader()
    partition_bench.append(now_ms=90)
    assert follower.caught_up_ms == 40
    follower.reader.last_fetch_ms = 95
    partition_bench.append(now_ms=99)
    assert follower.caught_up_ms == 40, "it lags by now"


def test_the_low_watermark_is_that_of_the_slowest_live_replica() -> None:
    partition_bench = PartitionBench(isr=(1, 2))
    partition_bench.append(4)
    partition_bench.fetched(B2, 4, start=1)
    partition_bench.fetched(B3, 4, start=0)
    partition_bench.log.delete_records_before(3)
    assert partition_bench.partition.low_watermark(lambda _: True) == 0
    assert partition_bench.partition.low_watermark(lambda broker: broker == B2) == 1
    assert partition_bench.partition.low_watermark(lambda _: False) == 3


# Metadata


def test_a_new_epoch_forgets_where_the_followers_were() -> None:
    partition_bench = PartitionBench()
    partition_bench.append()
    partition_bench.fetched(B2, 1)
    partition_bench.publish(isr=(B1, B2))
    assert partition_bench.partition.followers[B2].log_end_offset == 1
    partition_bench.publish(leader_epoch=LeaderEpoch(1))
    assert partition_bench.partition.followers[B2].log_end_offset == -1


def test_older_metadata_changes_nothing_but_the_minimum() -> None:
    partition_bench = PartitionBench()
    partition_bench.partition.apply_image(
        msgspec.structs.replace(partition_bench.image, isr=(B1,)), min_isr=9, now_ms=0
    )
    assert list(partition_bench.partition.isr) == [B1, B2, B3]
    assert partition_bench.partition.min_isr == 3


def test_a_replica_that_falls_out_is_reported() -> None:
    partition_bench = PartitionBench()
    reader = partition_bench.partition.followers[B2].reader = Reader()
    partition_bench.publish(isr=(B1, B3))
    assert reader.out == 1


# Changes of the ISR


def test_who_has_not_kept_up_falls_out_once_the_controller_agrees() -> None:
    partition_bench = PartitionBench()
    partition_bench.append()
    partition_bench.fetched(B2, 1, now_ms=990)
    change = partition_bench.shrink_isr()
    assert change.new_isr == ((B1, -1), (B2, 20))
    assert list(partition_bench.partition.isr) == [B1, B2, B3]
    assert partition_bench.partition.shrink_isr(lag_max_ms=LAG_MS, now_ms=2_000) is None, (
        "one wish at a time"
    )
    assert partition_bench.answer(change) is None
    assert list(partition_bench.partition.isr) == [B1, B2]
    assert partition_bench.partition.advance_high_watermark(lambda: (LAG_MS, 1_000))


def test_a_replica_that_keeps_up_stays_in_the_isr() -> None:
    partition_bench = PartitionBench()
    assert partition_bench.partition.shrink_isr(lag_max_ms=LAG_MS, now_ms=50) is None


def test_who_has_caught_up_comes_back_and_counts_from_the_wish_on() -> None:
    partition_bench = PartitionBench(isr=(1,))
    partition_bench.append(2)
    partition_bench.fetched(B2, 1)
    follower = partition_bench.partition.followers[B2]
    assert partition_bench.partition.expand_isr(follower) is None, "it lacks what is committed"
    partition_bench.fetched(B2, 2)
    change = partition_bench.partition.expand_isr(follower)
    assert change is not None
    assert change.new_isr == ((B1, -1), (B2, 20))
    assert not partition_bench.append(), "the larger ISR counts"
    assert partition_bench.partition.expand_isr(partition_bench.partition.followers[B3]) is None
    partition_bench.answer(change)
    assert list(partition_bench.partition.isr) == [B1, B2]
    assert partition_bench.partition.expand_isr(follower) is None


def test_who_may_not_join_is_not_asked_for() -> None:
    partition_bench = PartitionBench(isr=(1,))
    partition_bench.excluded.add(B2)
    partition_bench.fetched(B2, 0)
    assert partition_bench.partition.expand_isr(partition_bench.partition.followers[B2]) is None


@pytest.mark.parametrize(
    ("error", "is_repeated", "may_ask_again"),
    [
        (ErrorCode.ineligible_replica, False, True),
        (ErrorCode.operation_not_attempted, False, True),
        (ErrorCode.fenced_leader_epoch, False, False),
        (ErrorCode.invalid_update_version, False, False),
        (ErrorCode.unknown_server_error, True, False),
    ],
)
def test_what_the_controller_refuses(
    error: ErrorCode, is_repeated: bool, may_ask_again: bool
) -> None:
    partition_bench = PartitionBench()
    partition_bench.append()
    change = partition_bench.shrink_isr()
    assert (partition_bench.answer(change, error=error) is change) == is_repeated
    assert list(partition_bench.partition.isr) == [B1, B2, B3]
    second_change = partition_bench.partition.shrink_isr(lag_max_ms=LAG_MS, now_ms=2_000)
    assert (second_change is not None) == may_ask_again


def test_an_answer_that_metadata_has_overtaken_is_nothing() -> None:
    partition_bench = PartitionBench()
    partition_bench.append()
    change = partition_bench.shrink_isr()
    partition_bench.publish(isr=(B1,))
    assert partition_bench.answer(change) is None
    assert list(partition_bench.partition.isr) == [B1]


@pytest.mark.parametrize(
    "stale_fields", [{"leader_epoch": LeaderEpoch(5)}, {"partition_epoch": -1}]
)
def test_an_answer_of_another_time_is_nothing(stale_fields: dict[str, Any]) -> None:
    partition_bench = PartitionBench()
    partition_bench.append()
    change = partition_bench.shrink_isr()
    assert partition_bench.answer(change, **stale_fields) is None
    assert list(partition_bench.partition.isr) == [B1, B2, B3]


def follower(broker_id: BrokerId = B2, *, offset: int = 0, caught_up_ms: int = 0) -> Follower:
    follower_state = Follower(broker_id)
    follower_state.log_end_offset = offset
    follower_state.caught_up_ms = caught_up_ms
    return follower_state


def note_fetch_of(follower_state: Follower, offset: int, *, leader_end: int, now_ms: int) -> None:
    follower_state.note_fetch(
        fetch_offset=offset,
        log_start_offset=0,
        leader_end=leader_end,
        broker_epoch=1,
        now_ms=now_ms,
    )


# Being up to date


def test_who_asks_for_the_end_is_up_to_date_now() -> None:
    follower_state = follower()
    note_fetch_of(follower_state, 10, leader_end=10, now_ms=50)
    assert follower_state.caught_up_ms == 50
    assert (
        follower_state.log_end_offset,
        follower_state.broker_epoch,
        follower_state.last_fetch_ms,
    ) == (10, 1, 50)


def test_who_has_what_there_was_at_its_last_fetch_was_up_to_date_then() -> None:
    follower_state = follower()
    note_fetch_of(follower_state, 0, leader_end=10, now_ms=50)
    assert follower_state.caught_up_ms == 0
    note_fetch_of(follower_state, 10, leader_end=20, now_ms=90)
    assert follower_state.caught_up_ms == 50
    note_fetch_of(follower_state, 12, leader_end=30, now_ms=130)
    assert follower_state.caught_up_ms == 50, "it falls behind"


@pytest.mark.parametrize(
    ("offset", "caught_up_ms", "is_caught_up"),
    [(10, 0, True), (9, 0, False), (9, 900, True), (9, 899, False)],
)
def test_up_to_date_is_who_has_all_or_had_so_not_long_ago(
    offset: int, caught_up_ms: int, is_caught_up: bool
) -> None:
    follower_state = follower(offset=offset, caught_up_ms=caught_up_ms)
    assert (
        follower_state.is_caught_up(leader_end=10, lag_max_ms=LAG_MS, now_ms=1_000) == is_caught_up
    )


@pytest.mark.parametrize(("is_in_isr", "is_caught_up"), [(True, True), (False, False)])
def test_a_new_leader_trusts_the_isr_for_a_while(is_in_isr: bool, is_caught_up: bool) -> None:
    follower_state = follower(offset=7)
    follower_state.reset(is_in_isr=is_in_isr, leader_end=9, now_ms=5)
    assert follower_state.log_end_offset == follower_state.log_start_offset == -1
    assert follower_state.is_caught_up(leader_end=9, lag_max_ms=LAG_MS, now_ms=5) == is_caught_up


# The ISR


def test_out_of_sync_are_members_of_the_isr_that_have_not_kept_up() -> None:
    followers = [follower(B2, offset=3), follower(B3, offset=3, caught_up_ms=950)]
    late_followers = out_of_sync_followers(
        followers, {B2, B3}, leader_end=10, lag_max_ms=LAG_MS, now_ms=1_000
    )
    assert late_followers == (B2,)
    assert (
        out_of_sync_followers(followers, {B3}, leader_end=10, lag_max_ms=LAG_MS, now_ms=1_000) == ()
    )


@pytest.mark.parametrize(("offset", "has_joined"), [(4, False), (5, False), (6, True), (9, True)])
def test_who_joins_has_all_that_is_committed_and_all_from_before_this_leader(
    offset: int, has_joined: bool
) -> None:
    follower_state = follower(offset=offset)
    assert has_caught_up(follower_state, high_watermark=5, epoch_start_offset=6) == has_joined


# Truncation


@pytest.mark.parametrize(
    ("leader", "follower_answer", "offset"),
    [
        ((3, 7), (3, 9), 7),  # the same epoch ended earlier there
        ((3, 9), (3, 7), 7),  # or here
        ((3, 7), (2, 4), 4),  # we don't know that epoch: back to the one before, and ask again
        ((3, 7), (-1, -1), 7),  # we know of no epoch at all
        ((-1, 8), (-1, -1), 8),
        ((3, 90), (3, 80), 10),
    ],
)
def test_a_diverging_follower_goes_back_to_where_both_agree(
    leader: tuple[int, int], follower_answer: tuple[int, int], offset: int
) -> None:
    assert (
        truncation_offset(log_end_offset=10, leader_answer=leader, follower_answer=follower_answer)
        == offset
    )
