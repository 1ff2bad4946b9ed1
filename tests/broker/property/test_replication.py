"""Three replicas under random writes, markers, elections, outages and restarts: whatever happens,
bounds are in order, committed records agree, and in the end all replicas know the same.
"""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support.images import B1, B2, B3
from tests.support.logs import batch
from tests.support.markers import append_marker
from tests.support.replica_checks import batches_below, epochs_of
from tests.support.replication import ALL, TP, Node, ReplicaBench
from txnsim.errors import Rejection
from txnsim.log.leader_append import append_client, start_verification
from txnsim.log.partition_log import PartitionLog
from txnsim.types import BrokerId

PRODUCERS: Final = st.integers(1, 3)
BROKERS: Final = st.sampled_from(ALL)


class Replication(RuleBasedStateMachine):
    """Disturbs a bench of replicas, and compares their logs."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = ReplicaBench(min_isr=1)
        self.bench.settle()
        self.sequences: dict[int, int] = {}
        self.committed: tuple[bytes, ...] = ()
        self.deleted_below = 0
        """The highest log start that a leader told: below it replicas may differ. One that was cut
        off keeps its own records there: of an epoch before its first a leader says that it ends
        where its log starts (LeaderEpochFileCache.endOffsetFor).
        """

    def leaders(self) -> list[tuple[BrokerId, Node]]:
        """The brokers that take themselves for the partition's leader."""
        return [(key, node) for key, node in self.bench.nodes.items() if TP in node.replicas.led]

    # Writing

    @rule(producer=PRODUCERS, count=st.integers(1, 3), is_zombie=st.booleans())
    def write(self, producer: int, count: int, is_zombie: bool) -> None:
        """A transactional batch goes to the leader, or to one who still believes to be it."""
        leaders = self.leaders()
        if not leaders:
            return
        _, node = leaders[-1] if is_zombie else leaders[0]
        log = node.replicas.led[TP]
        known_producer = {
            all_producer.producer_id: all_producer for all_producer in log.producers.all_producers()
        }.get(producer)
        sequence = (
            0
            if known_producer is None or known_producer.last_sequence < 0
            else known_producer.last_sequence + 1
        )
        guard = start_verification(
            log,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequence,
            supports_epoch_bump=False,
            now_ms=self.bench.clock.now_ms(),
        )
        assert not isinstance(guard, Rejection)
        batch_data = batch(sequence, producer_id=producer, count=count, is_transactional=True)
        result = append_client(log, batch_data, guard=guard, now_ms=self.bench.clock.now_ms())
        assert not isinstance(result, Rejection), result
        node.note_append(log)

    @rule(producer=PRODUCERS, committed=st.booleans())
    def end(self, producer: int, committed: bool) -> None:
        """Send a marker to every broker that takes itself for the leader; it may come late."""
        for _, node in self.leaders():
            log = node.replicas.led[TP]
            append_marker(
                log,
                producer_id=producer,
                producer_epoch=0,
                committed=committed,
                coordinator_epoch=1,
                transaction_version=0,
                now_ms=self.bench.clock.now_ms(),
            )
            node.note_append(log)

    # Disturbances

    @rule(broker=BROKERS)
    def isolate(self, broker: BrokerId) -> None:
        """Cut a broker off; the controller makes another broker of the ISR the leader."""
        bench = self.bench
        if bench.cut:
            return
        bench.settle()
        partition = bench.partition
        other_replicas = tuple(replica for replica in partition.isr if replica != broker)
        bench.isolate(broker)
        if partition.leader == broker and other_replicas:
            bench.lead(other_replicas[0], isr=other_replicas)
        elif broker in partition.isr and other_replicas:
            bench.lead(partition.leader, isr=other_replicas)

    @rule()
    def heal(self) -> None:
        """Reconnect every broker that was cut off."""
        for broker in sorted(self.bench.cut):
            self.bench.heal(broker)

    @rule(broker=BROKERS)
    def elect(self, broker: BrokerId) -> None:
        """Make a broker of the ISR the leader."""
        if broker in self.bench.partition.isr and broker not in self.bench.cut:
            self.bench.lead(broker)

    @rule(broker=BROKERS)
    def restart(self, broker: BrokerId) -> None:
        """Restart a broker's process on the same disk."""
        if broker not in self.bench.cut:
            self.bench.restart(broker)
            if broker == self.bench.partition.leader:
                self.bench.lead(broker)

    @rule(seconds=st.integers(0, 3))
    def wait(self, seconds: int) -> None:
        """Let virtual time pass."""
        self.bench.settle(seconds=seconds)

    @rule(share=st.integers(0, 4))
    def delete(self, share: int) -> None:
        """Delete a share of the records at the leader."""
        bench = self.bench
        if bench.partition.leader in bench.cut:
            return
        log = bench.leader.replicas.led[TP]
        log.delete_records_before(log.high_watermark * share // 4)
        self.deleted_below = max(self.deleted_below, log.log_start_offset)
        bench.leader.watermarks.note_raised_log_start(log)

    # Judgement

    @invariant()
    def bounds_are_in_order(self) -> None:
        """In every log: last stable offset, high watermark and log end are in ascending order."""
        for node in self.bench.nodes.values():
            log = node.log
            assert log.last_stable_offset <= log.high_watermark <= log.log_end_offset
            log.check_invariants()

    @invariant()
    def committed_records_agree(self) -> None:
        """All replicas in the ISR have the same records below their least high watermark."""
        logs = [node.log for node in self.bench.nodes.values()]
        start = max(self.deleted_below, *(log.log_start_offset for log in logs))
        end = min(log.high_watermark for log in logs)
        committed_logs = {
            tuple(
                data for data in batches_below(log, end) if int.from_bytes(data[:8], "big") >= start
            )
            for log in logs
        }
        assert len(committed_logs) == 1

    @invariant()
    def what_was_committed_stays(self) -> None:
        """A clean election loses nothing: the leader's committed records only grow."""
        bench = self.bench
        if bench.partition.leader in bench.cut:
            return
        log = bench.leader.log
        batches_now = tuple(log.batches())
        batch_by_offset = {int.from_bytes(data[:8], "big"): data for data in batches_now}
        for data in self.committed:
            offset = int.from_bytes(data[:8], "big")
            if offset >= max(self.deleted_below, log.log_start_offset):
                assert batch_by_offset.get(offset) == data, f"the record at {offset} is gone"
        self.committed = batches_below(log, log.high_watermark)

    def teardown(self) -> None:
        """At the end, heal all brokers and check that all replicas are the same."""
        for broker in sorted(self.bench.cut):
            self.bench.heal(broker)
        self.bench.settle(seconds=12)
        first_log, *other_logs = [node.log for node in self.bench.nodes.values()]
        for log in other_logs:
            # What deleted records told is kept by a replica that had them (KIP-360). A replica that
            # was cut off or reloaded since then does not know it, and a restart may lower its log
            # start to 0 again.
            if self.deleted_below == 0:
                assert known_by_bytes(log) == known_by_bytes(first_log)
            assert log.high_watermark == first_log.high_watermark == first_log.log_end_offset
        assert self.bench.partition.isr == (B1, B2, B3)


def known_by_bytes(log: PartitionLog) -> object:
    """The part of a log's state that follows from its bytes alone."""
    state = log.snapshot()
    return (state.log_end_offset, state.ongoing, state.aborted, epochs_of(state.producers))


TestReplication = Replication.TestCase
TestReplication.settings = settings(max_examples=30, stateful_step_count=30)


@pytest.mark.parametrize("has_restarted", [False, True])
def test_what_was_deleted_may_be_another_record_on_a_replica_that_was_cut_off(
    has_restarted: bool,
) -> None:
    replication = Replication()
    replication.elect(B2)
    replication.isolate(B2)
    replication.end(1, False)
    replication.wait(0)
    replication.heal()
    replication.delete(4)
    if has_restarted:
        replication.restart(B1)
        replication.wait(1)
    else:
        replication.isolate(B1)
    first_batche_by_broker_id = {
        broker: next(iter(node.log.batches())) for broker, node in replication.bench.nodes.items()
    }
    assert (
        first_batche_by_broker_id[B1]
        == first_batche_by_broker_id[B3]
        != first_batche_by_broker_id[B2]
    )
    replication.bounds_are_in_order()
    replication.committed_records_agree()
    replication.what_was_committed_stays()
    replication.teardown()
