"""A share coordinator beside a simple model, and beside itself loaded again, also from a log that
was pruned.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from txnsim.errors import Rejection
from txnsim.interbroker.share_state import (
    DeleteShareState,
    InitializeShareState,
    ReadShareState,
    ShareKey,
    ShareState,
    StateBatch,
    WriteShareState,
)
from txnsim.share_state.decisions import ShareDecision, ShareStateDecisions
from txnsim.share_state.log_format import encode_batch
from txnsim.share_state.records import ShareRecord
from txnsim.share_state.shard import ShareStateShard
from txnsim.wire.batch_header import assign

TOPIC = "qHBm7qF0QeCvHxCmWtCZ2w"
KEYS = tuple(ShareKey(group, TOPIC, partition) for group in "gh" for partition in (0, 1))
UPDATES = 3
COLD_MS = 50

keys = st.sampled_from(KEYS)
epochs = st.integers(0, 3)
offsets = st.integers(0, 30)
a_batch = st.builds(
    lambda first_offset, length, state, delivery_count: StateBatch(
        first_offset, first_offset + length, state, delivery_count
    ),
    offsets,
    st.integers(0, 5),
    st.sampled_from((0, 2, 4)),
    st.integers(1, 4),
)


class Model:
    """The state of one share partition, offset by offset."""

    def __init__(self, state_epoch: int, start: int) -> None:
        self.state_epoch = state_epoch
        self.start = start
        self.states: dict[int, tuple[int, int]] = {}
        """Offset -> (delivery count, state)."""

    def write(self, start: int, batches: list[StateBatch]) -> None:
        self.start = max(start, self.start)
        for batch in batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                strength = (batch.delivery_count, batch.delivery_state)
                self.states[offset] = max(strength, self.states.get(offset, strength))
        self.states = {
            offset: state for offset, state in self.states.items() if offset >= self.start
        }


class Coordinator(RuleBasedStateMachine):
    """The requests of clients, and the coordinator's own upkeep."""

    def __init__(self) -> None:
        super().__init__()
        self.shard = fresh()
        self.log: list[tuple[int, ShareRecord]] = []
        self.models: dict[ShareKey, Model] = {}
        self.now_ms = 0
        self.is_pruned = False

    def done(self, decision: ShareDecision | Rejection) -> bool:
        if isinstance(decision, Rejection):
            return False
        self.append(decision.records)
        return True

    def append(self, records: tuple[ShareRecord, ...]) -> None:
        for record in records:
            offset = self.shard.end_offset
            self.log.append((offset, record))
            self.shard.apply(record, record_offset=offset)

    @property
    def decisions(self) -> ShareStateDecisions:
        self.now_ms += 10
        return ShareStateDecisions(
            shard=self.shard, count_partitions=lambda _: 2, now_ms=self.now_ms
        )

    @rule(key=keys, epoch=epochs, start=st.integers(-1, 30))
    def initialize(self, key: ShareKey, epoch: int, start: int) -> None:
        command = InitializeShareState(key=key, state_epoch=epoch, start_offset=start)
        model = self.models.get(key)
        is_fenced = model is not None and epoch < model.state_epoch
        assert self.done(self.decisions.initialize(command)) is not is_fenced
        if not is_fenced:
            self.models[key] = Model(epoch, start)

    @rule(key=keys, leader=epochs)
    def read(self, key: ShareKey, leader: int) -> None:
        self.done(self.decisions.read(ReadShareState(key=key, leader_epoch=leader)))

    @rule(
        key=keys,
        leader=epochs,
        state=epochs,
        start=st.integers(-1, 30),
        batches=st.lists(a_batch, max_size=4),
    )
    def write(
        self, key: ShareKey, leader: int, state: int, start: int, batches: list[StateBatch]
    ) -> None:
        command = WriteShareState(
            key=key,
            state_epoch=state,
            leader_epoch=leader,
            start_offset=start,
            batches=tuple(batches),
        )
        if self.done(self.decisions.write(command)):
            assert self.models[key].state_epoch <= state
            self.models[key].write(start, batches)

    @rule(key=keys)
    def delete(self, key: ShareKey) -> None:
        assert self.done(self.decisions.delete(DeleteShareState(key=key)))
        self.models.pop(key, None)

    @rule()
    def snapshot_the_cold(self) -> None:
        self.now_ms += COLD_MS
        self.append(tuple(self.shard.cold_snapshots(KEYS, now_ms=self.now_ms, age_ms=COLD_MS)))

    @rule()
    def prune(self) -> None:
        redundant_below = self.shard.snapshot_offsets.redundant_below
        entries_left = [entry for entry in self.log if entry[0] >= redundant_below]
        self.is_pruned |= len(entries_left) < len(self.log)
        self.log = entries_left

    @rule()
    def load(self) -> None:
        """Move the coordinator: the new one loads its state from the log."""
        self.shard = self.loaded()

    @invariant()
    def a_loaded_coordinator_knows_the_same(self) -> None:
        loaded_shard = self.loaded()
        assert loaded_shard.states == self.shard.states
        assert loaded_shard.state_epochs == self.shard.state_epochs
        assert loaded_shard.end_offset == self.shard.end_offset
        assert (
            loaded_shard.snapshot_offsets.redundant_below
            == self.shard.snapshot_offsets.redundant_below
        )
        if not self.is_pruned:
            assert loaded_shard.leader_epochs == self.shard.leader_epochs
            assert loaded_shard.update_counts == self.shard.update_counts

    @invariant()
    def the_model_knows_the_same(self) -> None:
        assert self.shard.states.keys() == self.models.keys()
        for key, model in self.models.items():
            leader = self.shard.leader_epochs[key]
            decision = self.decisions.read(ReadShareState(key=key, leader_epoch=leader))
            assert not isinstance(decision, Rejection)
            reply = decision.reply
            assert isinstance(reply, ShareState)
            assert (reply.state_epoch, reply.start_offset) == (model.state_epoch, model.start)
            assert {
                offset: (batch.delivery_count, batch.delivery_state)
                for batch in reply.batches
                for offset in range(batch.first_offset, batch.last_offset + 1)
            } == model.states

    def loaded(self) -> ShareStateShard:
        shard = fresh()
        shard.end_offset = self.shard.end_offset
        batches = (
            assign(encode_batch([record], now_ms=0), base_offset=offset, leader_epoch=0)
            for offset, record in self.log
        )
        for _ in shard.read(batches):
            pass
        assert shard.load_problem is None
        return shard


def fresh() -> ShareStateShard:
    return ShareStateShard(partition=0, coordinator_epoch=0, updates_per_snapshot=UPDATES)


TestCoordinator = Coordinator.TestCase
TestCoordinator.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
