"""A group coordinator that loads a cleaned log knows the groups and positions of the whole one,
also those that transactions have committed, aborted or left pending.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.markers import append_marker
from txnsim.group.log_format import encode_batch
from txnsim.group.records import (
    ClassicGroupDeleted,
    ClassicGroupStored,
    GroupRecord,
    OffsetCommitted,
    OffsetDeleted,
)
from txnsim.group.shard import GroupShard
from txnsim.log.answers import Appended
from txnsim.log.cleaner import clean, dirt_of
from txnsim.log.config import LogConfig
from txnsim.log.leader_append import append_coordinator, start_verification
from txnsim.log.partition_log import PartitionLog
from txnsim.releases.rules import LATEST
from txnsim.types import CONSUMER_OFFSETS_TOPIC, TopicPartition

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(
    rules=LATEST,
    roll_bytes=1_500,
    is_compacted=True,
    is_deleted=False,
    min_cleanable_dirty_ratio=0.3,
    delete_retention_ms=1_000,
)
GROUPS = ("g", "h")
PARTITIONS = tuple(TopicPartition("orders", number) for number in range(2))
PRODUCERS = (7, 8)

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("commit"),
            st.sampled_from(GROUPS),
            st.sampled_from(PARTITIONS),
            st.sampled_from((-1, *PRODUCERS)),
        ),
        st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.booleans()),
        st.tuples(st.just("forget"), st.sampled_from(GROUPS), st.sampled_from(PARTITIONS)),
        st.tuples(st.just("store"), st.sampled_from(GROUPS)),
        st.tuples(st.just("drop"), st.sampled_from(GROUPS)),
    ),
    max_size=60,
)


class Twins:
    """The same appends to two logs, of which only one is cleaned."""

    def __init__(self) -> None:
        self.cleaned, self.whole = (
            PartitionLog(
                topic_partition=TopicPartition(CONSUMER_OFFSETS_TOPIC, 0),
                config=CONFIG,
                leader_epoch=0,
            )
            for _ in range(2)
        )
        self.now_ms = NOW_MS
        self.number = 0

    def step(self, step: tuple[object, ...]) -> None:
        """Append what a step says."""
        self.now_ms += 100
        self.number += 1
        match step:
            case ("commit", str() as group, TopicPartition() as partition, int() as producer):
                record = OffsetCommitted(
                    group_id=group,
                    topic_partition=partition,
                    position=self.number,
                    commit_timestamp_ms=self.now_ms,
                )
                self._append(record, producer)
            case ("end", int() as producer, bool() as committed):
                for log in (self.cleaned, self.whole):
                    append_marker(
                        log,
                        producer_id=producer,
                        producer_epoch=0,
                        committed=committed,
                        coordinator_epoch=0,
                        transaction_version=0,
                        now_ms=self.now_ms,
                    )
                    log.advance_high_watermark(log.log_end_offset)
            case ("forget", str() as group, TopicPartition() as partition):
                self._append(OffsetDeleted(group_id=group, topic_partition=partition))
            case ("store", str() as group):
                self._append(ClassicGroupStored(group_id=group, generation=self.number))
            case ("drop", str() as group):
                # As an administrator does it: its positions go, too.
                for partition in PARTITIONS:
                    self._append(OffsetDeleted(group_id=group, topic_partition=partition))
                self._append(ClassicGroupDeleted(group_id=group))

    def _append(self, record: GroupRecord, producer: int = -1) -> None:
        batch = encode_batch(
            [record],
            now_ms=self.now_ms,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
        )
        for log in (self.cleaned, self.whole):
            done = append_coordinator(
                log, batch, now_ms=self.now_ms, guard=self._guard(log, producer)
            )
            assert isinstance(done, Appended), done
            log.advance_high_watermark(log.log_end_offset)

    def _guard(self, log: PartitionLog, producer: int) -> int:
        if producer < 0:
            return 0
        guard = start_verification(
            log,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=-1,
            supports_epoch_bump=False,
            now_ms=self.now_ms,
        )
        assert isinstance(guard, int), guard
        return guard

    def clean(self) -> None:
        """Clean one of them, as far as it is dirty."""
        dirt = dirt_of(self.cleaned, self.now_ms)
        if dirt is not None:
            for _ in clean(self.cleaned, dirt, self.now_ms):
                pass
        self.cleaned.check_invariants()


def known(log: PartitionLog) -> dict[str, object]:
    """What a coordinator that loads the log knows, by group."""
    shard = GroupShard(partition=0, coordinator_epoch=1)
    list(shard.read(log.batches()))
    assert shard.problem is None
    return {
        group_id: (
            sorted(shard.offsets.all_committed(group_id), key=repr),
            sorted(shard.offsets.pending_partitions(group_id)),
            # A group without anything is forgotten with the aborted position that made it.
            getattr(shard.groups.get(group_id), "generation", 0),
        )
        for group_id in GROUPS
    }


@pytest.mark.slow
@given(rounds=st.lists(STEPS, min_size=1, max_size=5))
@settings(max_examples=60)
def test_a_cleaned_log_loads_as_the_whole_one(rounds: list[list[tuple[object, ...]]]) -> None:
    twins = Twins()
    for steps in rounds:
        for step in steps:
            twins.step(step)
        twins.clean()
        assert known(twins.cleaned) == known(twins.whole)
