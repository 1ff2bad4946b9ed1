"""Positions and pending positions (OffsetMetadataManager.replay*)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from txnsim.group._offsets import NO_RECORD_LIMIT, GroupOffsets
from txnsim.group.records import OffsetCommitted, OffsetDeleted
from txnsim.types import ProducerId, TopicPartition

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
PID = ProducerId(7)


def commit(
    offsets: GroupOffsets,
    position: int,
    *,
    record_offset: int,
    producer_id: ProducerId | None = None,
    topic_partition: TopicPartition = P0,
    replicated: int = NO_RECORD_LIMIT,
) -> None:
    record = OffsetCommitted(
        group_id="g", topic_partition=topic_partition, position=position, commit_timestamp_ms=1
    )
    offsets.apply_commits(
        (record,), base_offset=record_offset, producer_id=producer_id, high_watermark=replicated
    )


def delete(offsets: GroupOffsets, *, record_offset: int, replicated: int = NO_RECORD_LIMIT) -> None:
    record = OffsetDeleted(group_id="g", topic_partition=P0)
    offsets.apply_delete(record, record_offset=record_offset, high_watermark=replicated)


def end(
    offsets: GroupOffsets,
    *,
    marker_offset: int,
    committed: bool = True,
    replicated: int = NO_RECORD_LIMIT,
) -> None:
    offsets.apply_marker(
        PID, is_commit=committed, marker_offset=marker_offset, high_watermark=replicated
    )


def position(offsets: GroupOffsets, record_limit: int = NO_RECORD_LIMIT) -> int | None:
    committed = offsets.committed_offset("g", P0, record_limit=record_limit)
    return None if committed is None else committed.position


def has_any(offsets: GroupOffsets) -> bool:
    return bool([*offsets.committed_offsets("g"), *offsets.pending_partitions("g")])


def test_the_last_commit_is_the_position() -> None:
    offsets = GroupOffsets()
    assert position(offsets) is None
    commit(offsets, 5, record_offset=0)
    commit(offsets, 3, record_offset=1)
    assert position(offsets) == 3
    assert [committed_offset.position for committed_offset in offsets.committed_offsets("g")] == [3]
    assert has_any(offsets)
    assert offsets.group_ids() == ("g",)


def test_a_position_that_is_not_replicated_is_seen_by_those_who_ask_for_it() -> None:
    offsets = GroupOffsets()
    commit(offsets, 5, record_offset=0, replicated=0)
    commit(offsets, 6, record_offset=1, replicated=0)
    assert (position(offsets, record_limit=0), position(offsets, record_limit=1)) == (None, 5)
    assert position(offsets) == 6
    assert list(offsets.committed_offsets("g", record_limit=0)) == []
    commit(offsets, 7, record_offset=2, replicated=2)
    assert (position(offsets, record_limit=2), position(offsets, record_limit=1)) == (
        6,
        None,
    )  # 5 is let go


def test_pending_positions_wait_for_the_marker() -> None:
    offsets = GroupOffsets()
    commit(offsets, 5, record_offset=0)
    commit(offsets, 8, record_offset=1, producer_id=PID)
    commit(offsets, 9, record_offset=2, producer_id=PID)
    assert position(offsets) == 5
    assert offsets.is_pending("g", P0)
    assert offsets.pending_partitions("g") == (P0,)
    assert offsets.pending_producers() == (PID,)
    end(offsets, marker_offset=3)
    assert position(offsets) == 9
    assert not offsets.is_pending("g", P0)
    assert offsets.pending_producers() == ()


def test_a_committed_transaction_shows_its_positions_when_the_marker_is_replicated() -> None:
    offsets = GroupOffsets()
    commit(offsets, 5, record_offset=0)
    commit(offsets, 9, record_offset=1, producer_id=PID)
    end(offsets, marker_offset=2, replicated=2)
    assert (position(offsets, record_limit=2), position(offsets, record_limit=3)) == (5, 9)


def test_an_aborted_transaction_leaves_no_trace() -> None:
    offsets = GroupOffsets()
    commit(offsets, 9, record_offset=0, producer_id=PID)
    commit(offsets, 9, record_offset=1, producer_id=PID, topic_partition=P1)
    end(offsets, marker_offset=2, committed=False)
    assert not has_any(offsets)
    end(offsets, marker_offset=3)  # nothing is pending: harmless
    assert position(offsets) is None


def test_a_plain_commit_after_the_pending_one_wins() -> None:
    offsets = GroupOffsets()
    commit(offsets, 30, record_offset=30, producer_id=PID)
    commit(offsets, 35, record_offset=35)
    end(offsets, marker_offset=40)
    assert position(offsets) == 35


def test_two_producers_can_have_the_same_partition_pending() -> None:
    offsets = GroupOffsets()
    commit(offsets, 1, record_offset=0, producer_id=PID)
    commit(offsets, 2, record_offset=1, producer_id=ProducerId(8))
    end(offsets, marker_offset=2)
    assert position(offsets) == 1
    assert offsets.is_pending("g", P0)


def test_of_two_pending_positions_an_aborted_one_leaves_the_other() -> None:
    offsets = GroupOffsets()
    commit(offsets, 1, record_offset=0, producer_id=PID)
    commit(offsets, 2, record_offset=1, producer_id=ProducerId(8))
    end(offsets, marker_offset=2, committed=False)
    assert position(offsets) is None
    assert offsets.is_pending("g", P0)


def test_a_tombstone_takes_pending_positions_with_it() -> None:
    offsets = GroupOffsets()
    commit(offsets, 1, record_offset=0)
    commit(offsets, 2, record_offset=1, producer_id=PID)
    commit(offsets, 3, record_offset=2, producer_id=PID, topic_partition=P1)
    delete(offsets, record_offset=3)
    assert position(offsets) is None
    assert not offsets.is_pending("g", P0)
    end(offsets, marker_offset=4)
    assert position(offsets) is None
    assert offsets.committed_offset("g", P1) is not None


def test_a_tombstone_for_a_group_that_only_has_something_pending() -> None:
    offsets = GroupOffsets()
    commit(offsets, 2, record_offset=0, producer_id=PID)
    delete(offsets, record_offset=1)
    assert not has_any(offsets)


def test_a_deleted_position_is_seen_until_the_tombstone_is_replicated() -> None:
    offsets = GroupOffsets()
    commit(offsets, 1, record_offset=0)
    commit(offsets, 4, record_offset=0, topic_partition=P1)
    delete(offsets, record_offset=1, replicated=1)
    assert (position(offsets, record_limit=1), position(offsets)) == (1, None)
    assert has_any(offsets)
    offsets.prune(high_watermark=1)
    assert position(offsets, record_limit=1) == 1
    offsets.prune(high_watermark=2)
    assert position(offsets, record_limit=1) is None
    assert offsets.committed_offset("g", P1) is not None


def test_a_commit_after_a_tombstone_counts_even_if_it_was_pending_before() -> None:
    offsets = GroupOffsets()
    commit(offsets, 1, record_offset=0)
    delete(offsets, record_offset=5, replicated=1)
    commit(offsets, 2, record_offset=4, producer_id=PID)
    end(offsets, marker_offset=6)
    assert position(offsets) == 2


def test_an_uncommitted_offset_is_dropped_at_once() -> None:
    offsets = GroupOffsets()
    commit(offsets, 1, record_offset=0, replicated=0)
    delete(offsets, record_offset=1, replicated=0)
    assert position(offsets, record_limit=1) is None
    delete(offsets, record_offset=2)
    assert not has_any(offsets)


def test_what_a_marker_will_decide_can_be_asked() -> None:
    offsets = GroupOffsets()
    assert offsets.pending_positions_of(PID) == ()
    commit(offsets, 5, record_offset=0, producer_id=PID)
    assert offsets.pending_positions_of(PID) == (("g", P0, 5),)
    end(offsets, marker_offset=1)
    assert offsets.pending_positions_of(PID) == ()


def test_positions_are_counted_and_found_by_group_and_topic() -> None:
    offsets = GroupOffsets()
    commit(offsets, 5, record_offset=0)
    commit(offsets, 6, record_offset=1, topic_partition=P1, producer_id=PID)
    assert (offsets.count_of_group("g"), offsets.partitions_of_group("g")) == (1, (P0,))
    assert (offsets.count_on_topic("t"), offsets.positions_on_topic("t")) == (
        2,
        (("g", P0), ("g", P1)),
    )
    assert (offsets.count_of_group("other"), offsets.partitions_of_group("other")) == (0, ())
    assert (offsets.count_on_topic("other"), offsets.positions_on_topic("other")) == (0, ())


def test_positions_of_a_deleted_topic_are_hidden_and_those_of_its_successor_are_not() -> None:
    offsets = GroupOffsets()
    commit(offsets, 5, record_offset=0)
    commit(offsets, 6, record_offset=1, topic_partition=P1, producer_id=PID)
    offsets.hide_topic("t", end_offset=2)
    assert position(offsets) is None
    assert not list(offsets.committed_offsets("g"))
    assert offsets.is_of_deleted_topic("g", P0)
    assert offsets.is_of_deleted_topic("g", P1)
    other_partition = TopicPartition("other", 0)
    commit(offsets, 7, record_offset=2, topic_partition=other_partition)
    (visible_offset,) = offsets.committed_offsets("g")
    assert visible_offset.topic_partition == other_partition
    commit(offsets, 1, record_offset=2)
    commit(offsets, 2, record_offset=3, topic_partition=P1, producer_id=PID)
    assert position(offsets) == 1
    assert not offsets.is_of_deleted_topic("g", P0)
    assert not offsets.is_of_deleted_topic("g", P1)


def test_a_tombstone_that_is_not_replicated_is_of_no_topic() -> None:
    offsets = GroupOffsets()
    commit(offsets, 5, record_offset=0)
    delete(offsets, record_offset=1, replicated=1)
    offsets.hide_topic("t", end_offset=2)
    assert position(offsets) is None
    assert position(offsets, record_limit=1) is not None


def test_a_commit_over_a_tombstone_is_not_pruned_with_it() -> None:
    offsets = GroupOffsets()
    commit(offsets, 5, record_offset=0, replicated=1)
    delete(offsets, record_offset=1, replicated=1)
    commit(offsets, 6, record_offset=2, replicated=1)
    offsets.prune(high_watermark=NO_RECORD_LIMIT)
    assert position(offsets) == 6


@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=5),
            st.sampled_from((None, PID)),
            st.sampled_from((0, 3, NO_RECORD_LIMIT)),
        ),
        max_size=4,
    )
)
def test_a_batch_of_commits_is_as_its_commits_one_by_one(
    batches: list[tuple[list[tuple[int, int]], ProducerId | None, int]],
) -> None:
    """A partition may be in a batch twice, and one that has a position may become pending."""
    offsets_at_once, offsets_one_by_one = GroupOffsets(), GroupOffsets()
    end_offset = 0
    for commits, producer_id, high_watermark in batches:
        records = [
            OffsetCommitted(
                group_id="g",
                topic_partition=TopicPartition("t", partition),
                position=offset,
                commit_timestamp_ms=1,
            )
            for partition, offset in commits
        ]
        offsets_at_once.apply_commits(
            records,
            base_offset=end_offset,
            producer_id=producer_id,
            high_watermark=high_watermark,
        )
        for record_offset, record in enumerate(records, end_offset):
            offsets_one_by_one.apply_commits(
                (record,),
                base_offset=record_offset,
                producer_id=producer_id,
                high_watermark=high_watermark,
            )
        end_offset += len(records)
    for record_limit in range(end_offset + 1):
        assert [*offsets_at_once.committed_offsets("g", record_limit=record_limit)] == [
            *offsets_one_by_one.committed_offsets("g", record_limit=record_limit)
        ]
    assert offsets_at_once.pending_positions_of(PID) == offsets_one_by_one.pending_positions_of(PID)
    assert offsets_at_once.pending_counts == offsets_one_by_one.pending_counts
    assert offsets_at_once.count_on_topic("t") == offsets_one_by_one.count_on_topic("t")
