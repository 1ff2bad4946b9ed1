"""Bugs that were put in by hand: each takes one thing away that the cores do.

A mutation patches a function for the time of its exam: where a module calls a function of another
one, the name in the calling module is patched. None of them was looked at when the weights of runs
were chosen (``txnsim_lab.simulation._defaults``). None counts how often it was called, so that a
run repeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tests.lab.known_bugs.conditions import (
    are_old,
    has_epoch,
    has_markers,
    has_stray,
    is_another,
    is_old,
    is_owned,
)
from tests.lab.known_bugs.patches import (
    Patch,
    but_not,
    does_nothing,
    gives,
    makes,
    with_named_arguments,
)
from txnsim.broker import _marker_writes as marker_writes
from txnsim.broker.coordinator_host import GroupHost
from txnsim.broker.verification import TransactionOperation, VerificationQueues
from txnsim.controller import isr_requests, leadership, registrations
from txnsim.coordinators._ownership import Ownership
from txnsim.coordinators.group import service as group_service
from txnsim.coordinators.txn import _transition_effects as marker_sender
from txnsim.coordinators.txn import _transition_effects as txn_writer
from txnsim.coordinators.txn import service as scans
from txnsim.coordinators.txn import service as txn_service
from txnsim.errors import ErrorCode, Rejection
from txnsim.group._offsets import NO_RECORD_LIMIT, GroupOffsets
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.consumer import MemberTarget
from txnsim.group.consumer_group import ConsumerGroup
from txnsim.group.records import OffsetDeleted
from txnsim.group.shard import GroupShard
from txnsim.log import cleaner, leader_append
from txnsim.log.answers import NO_TIMESTAMP, Appended
from txnsim.log.cleaner import CleanedTxns
from txnsim.log.partition_log import EpochCache, PartitionLog
from txnsim.log.producer_state import NO_OFFSET, PartitionProducers
from txnsim.log.producer_state_manager import ProducerSnapshots, ProducerStateManager
from txnsim.log.txn_index import TxnIndex
from txnsim.log.verification import VerificationEntries
from txnsim.metadata import partition_changes
from txnsim.metadata.partition_changes import Election
from txnsim.replica import partition as partition_module
from txnsim.replica.partition import LeaderPartition
from txnsim.replica.replicas import Replicas
from txnsim.replication.leader_appends import Commits
from txnsim.runtime.tasks import Pending
from txnsim.txn import machine, machine_end, machine_init, markers
from txnsim.txn.markers import MarkerQueue, NoLeader
from txnsim.txn.producer_ids import ProducerIdAllocator
from txnsim.txn.state import PREPARED_STATES, Tombstone, TransactionState

_but = msgspec.structs.replace


class Mutation(msgspec.Struct, frozen=True):
    """A bug: a patch of one function."""

    owner: Any
    """A class, or the module that calls the function."""
    name: str
    patch: Patch
    what: str


# Coordinator of transactions


def _as_if_new(function: Any) -> Any:
    def wrong(txn: Any, command: Any, **keywords: Any) -> Any:
        if is_old(None, (txn, command), {}):
            command = _but(command, producer_epoch=txn.producer_epoch)
        return function(txn, command, **keywords)

    return wrong


_at_present_epoch: Final = Patch(_as_if_new, is_old)


def _open_ids_expire(result: Any, txn: Any, *, now_ms: int, expiration_ms: int) -> Any:
    is_old = txn.last_update_timestamp_ms <= now_ms - expiration_ms
    is_open = txn.state is TransactionState.ONGOING and txn.pending_state is None
    return Tombstone(transactional_id=txn.transactional_id) if is_old and is_open else result


def _same_epoch(function: Any) -> Any:
    def wrong(txn: Any, **keywords: Any) -> Any:
        return function(txn, **{**keywords, "producer_epoch": max(0, txn.producer_epoch)})

    return wrong


def _without_partitions(function: Any) -> Any:
    def wrong(records: Any, **keywords: Any) -> Any:
        emptied_records = [
            _but(record, partitions=frozenset())
            if getattr(record, "state", None) in PREPARED_STATES
            else record
            for record in records
        ]
        return function(emptied_records, **keywords)

    return wrong


_COORDINATOR: Final[Mapping[str, Mutation]] = {
    "verification-always-agrees": Mutation(
        txn_service,
        "decide_verify",
        makes(
            lambda result, _txn, command, **_: (
                result
                if isinstance(result, Rejection)
                else _but(
                    result,
                    partition_errors=tuple((partition, 0) for partition in command.partitions),
                )
            )
        ),
        "a coordinator confirms partitions that were never added",
    ),
    "verification-forgets-epoch": Mutation(
        txn_service,
        "decide_verify",
        _at_present_epoch,
        "a coordinator confirms partitions for an epoch that is fenced",
    ),
    "add-forgets-epoch": Mutation(
        txn_service,
        "decide_add_partitions",
        _at_present_epoch,
        "a fenced producer adds partitions to the transaction of the one that fenced it",
    ),
    "add-replaces-partitions": Mutation(
        machine,
        "to_ongoing",
        makes(lambda to, _txn, *, partitions, **_: _but(to, partitions=partitions)),
        "partitions that are added take the place of those before",
    ),
    "no-timeout": Mutation(
        scans, "is_timed_out", gives(answer=False), "no transaction is aborted for its timeout"
    ),
    "open-ids-expire": Mutation(
        scans, "decide_expiry", makes(_open_ids_expire), "ids expire with an open transaction"
    ),
    "end-forgets-epoch": Mutation(
        txn_service,
        "decide_end_txn",
        _at_present_epoch,
        "EndTxn of a fenced producer is obeyed",
    ),
    "other-end-is-confirmed": Mutation(
        machine_end,
        "_has_asked_outcome",
        gives(answer=True),
        "a commit that is repeated after an abort is confirmed",
    ),
    "v2-end-keeps-epoch": Mutation(
        machine_end,
        "to_prepared_v2",
        makes(lambda to, txn, **_: _but(to, producer_epoch=txn.producer_epoch)),
        "an end under transactions v2 does not raise the epoch",
    ),
    "fence-keeps-epoch": Mutation(
        machine_end,
        "fence_epoch_of",
        makes(lambda _epoch, txn, _rules: txn.producer_epoch),
        "a fence before transactions v2 aborts at the same epoch",
    ),
    "init-keeps-epoch": Mutation(
        machine_init,
        "to_empty",
        Patch(_same_epoch),
        "a new session gets the epoch of the one before",
    ),
    "init-forgets-expected": Mutation(
        txn_service,
        "decide_init_producer_id",
        Patch(
            lambda function: (
                lambda txn, command, **keywords: function(
                    txn, _but(command, expected_identity=None), **keywords
                )
            ),
            lambda _result, args, _named: args[1].expected_identity is not None,
        ),
        "the identity that InitProducerId names is not compared (KIP-360)",
    ),
    "first-marker-completes": Mutation(
        marker_sender,
        "acknowledge_markers",
        makes(lambda txn, *_: _but(txn, partitions=frozenset())),
        "a transaction is complete when the first of its leaders has answered",
    ),
    "partitions-outlive-transaction": Mutation(
        marker_sender,
        "to_complete",
        makes(lambda to, txn, **_: _but(to, partitions=txn.partitions)),
        "the next transaction has the partitions of the last one",
    ),
    "prepared-record-without-partitions": Mutation(
        txn_writer,
        "encode_batch",
        Patch(_without_partitions),
        "the record of a prepared end has no partitions",
    ),
    "load-misses-last-record": Mutation(
        txn_service,
        "read_in_steps",
        Patch(lambda function: lambda chunks, **keywords: function(list(chunks)[:-1], **keywords)),
        "a coordinator that loads does not read the last batch",
    ),
    "same-block-of-ids": Mutation(
        ProducerIdAllocator,
        "allocate",
        makes(lambda result, allocator, *_, **__: (allocator, result[1])),
        "the controller hands the same block of producer ids to two brokers",
    ),
}


# Markers on their way


def _one_leader(function: Any) -> Any:
    def wrong(queue: Any, debt: Any, partitions: Any, leader_of: Any) -> Any:
        leaders = {partition: leader_of(partition) for partition in sorted(partitions)}
        known_leaders = [leader for leader in leaders.values() if not isinstance(leader, NoLeader)]
        kept_partitions = [
            partition
            for partition, leader in leaders.items()
            if not known_leaders or leader == known_leaders[0]
        ]
        return function(queue, debt, kept_partitions, leader_of)

    return wrong


def _forgetting_unknown(function: Any) -> Any:
    def wrong(queue: Any) -> Any:
        queue.leader_unknown = []
        return function(queue)

    return wrong


def _only_where_open(function: Any) -> Any:
    def wrong(log: PartitionLog, marker: Any, *, now_ms: int) -> Any:
        if log.producers.open_transaction_of(marker.producer_id) != NO_OFFSET:
            return function(log, marker, now_ms=now_ms)
        last_offset = max(0, log.log_end_offset - 1)
        return Appended(
            base_offset=last_offset,
            last_offset=last_offset,
            log_append_time_ms=NO_TIMESTAMP,
            log_start_offset=log.log_start_offset,
        )

    return wrong


_MARKERS: Final[Mapping[str, Mutation]] = {
    "lost-markers-are-not-repeated": Mutation(
        MarkerQueue,
        "on_lost",
        makes(lambda result, *_: [_but(debt, partitions_to_retry=frozenset()) for debt in result]),
        "markers in a request without an answer are not sent again",
    ),
    "markers-without-leader-are-dropped": Mutation(
        MarkerQueue,
        "take_waiting",
        Patch(_forgetting_unknown, before=lambda args, _: args[0].leader_unknown),
        "a marker whose leader is not known is dropped",
    ),
    "markers-outlive-coordinator": Mutation(
        MarkerQueue,
        "drop_partition",
        does_nothing((), unless=has_markers),
        "a coordinator that has moved still sends its markers",
    ),
    "refused-marker-counts": Mutation(
        markers,
        "marker_outcome",
        makes(
            lambda result, *_, **__: (
                None
                if result is None
                else _but(
                    result,
                    written_partitions=result.written_partitions | result.partitions_to_retry,
                    partitions_to_retry=frozenset(),
                )
            )
        ),
        "a marker that was refused for a passing reason counts as written",
    ),
    "load-owes-no-markers": Mutation(
        marker_sender.MarkerSender,
        "owe",
        but_not(lambda *_, is_load=False, **__: is_load),
        "a coordinator that loads sends no markers of prepared transactions",
    ),
    "markers-of-first-coordinator": Mutation(
        marker_sender,
        "debt_of",
        with_named_arguments(coordinator_epoch=0),
        "markers carry the coordinator epoch of the first coordinator",
    ),
    "markers-for-one-leader": Mutation(
        MarkerQueue,
        "route",
        Patch(_one_leader),
        "markers go to the leader of the first partition only",
    ),
    "idle-marker-is-skipped": Mutation(
        marker_writes,
        "append_marker",
        Patch(_only_where_open),
        "a marker is acknowledged without a write where no transaction is open",
    ),
    "old-coordinator-writes-markers": Mutation(
        leader_append,
        "check_marker",
        Patch(
            with_named_arguments(coordinator_epoch=1 << 30).wrong,
            lambda result, *_: result is not None,
        ),
        "a leader takes markers of a coordinator that was replaced",
    ),
    "markers-before-load": Mutation(
        GroupHost,
        "refuses_markers",
        gives(answer=False),
        "a marker is taken before the positions that it ends are loaded (KAFKA-17507)",
    ),
}


# Producers of a partition


def _epoch_stays(function: Any) -> Any:
    def wrong(partition_producers: PartitionProducers, **keywords: Any) -> Any:
        entry = partition_producers.find(keywords["producer_id"])
        epoch = None if entry is None else entry.producer_epoch
        result = function(partition_producers, **keywords)
        if epoch is not None:
            partition_producers.by_id[keywords["producer_id"]].producer_epoch = epoch
        return result

    return wrong


def _newest_is_first(function: Any) -> Any:
    def wrong(state: Any, batch: Any) -> Any:
        aborted = function(state, batch)
        entry = state.find(batch.producer_id)
        if not batch.is_control and entry is not None and entry.txn_first_offset != NO_OFFSET:
            state._ongoing.pop(entry.txn_first_offset, None)
            entry.txn_first_offset = batch.base_offset
            state._ongoing[batch.base_offset] = batch.producer_id
        return aborted

    return wrong


def _open_ones_expire(result: Any, state: Any, *, now_ms: int, expiration_ms: int, **_: Any) -> Any:
    old_entries = [
        entry for entry in state.entries() if now_ms - entry.last_timestamp >= expiration_ms
    ]
    for entry in old_entries:
        state.remove(entry.producer_id)
    return (*result, *(entry.producer_id for entry in old_entries))


_PRODUCERS: Final[Mapping[str, Mutation]] = {
    "marker-leaves-no-epoch": Mutation(
        PartitionProducers,
        "apply_marker",
        Patch(_epoch_stays, before=has_epoch),
        "a marker does not raise the epoch that the partition knows",
    ),
    "open-since-newest-batch": Mutation(
        PartitionProducers,
        "apply",
        Patch(_newest_is_first),
        "a transaction counts as open since its newest batch, not its first",
    ),
    "ended-holds-nothing-back": Mutation(
        PartitionProducers,
        "first_unstable_offset",
        Patch(
            lambda _function: lambda state: state.first_undecided_offset(),
            lambda result, args, _named: bool(result != args[0].first_undecided_offset()),
        ),
        "the last stable offset passes a marker that is not replicated",
    ),
    "no-sequences": Mutation(
        leader_append, "_check_sequence", gives(), "sequences of batches are not checked"
    ),
    "no-stale-epochs": Mutation(
        leader_append, "_stale_epoch", gives(), "a leader takes batches and markers of older epochs"
    ),
    "guard-outlives-marker": Mutation(
        VerificationEntries,
        "on_marker",
        does_nothing(unless=lambda args, _: args[1] in args[0].entries),
        "a marker leaves the guard of a verification that is on its way",
    ),
    "guard-outlives-leader": Mutation(
        VerificationEntries,
        "clear",
        does_nothing(unless=lambda args, _: args[0].entries),
        "a broker that starts again takes its old guards",
    ),
    "open-producers-expire": Mutation(
        PartitionProducers,
        "expire",
        Patch(makes(_open_ones_expire).wrong, are_old),
        "producers expire amid a transaction",
    ),
    "snapshot-without-open-transactions": Mutation(
        PartitionProducers,
        "to_snapshot",
        makes(
            lambda result, *_: tuple(_but(entry, txn_first_offset=NO_OFFSET) for entry in result)
        ),
        "a snapshot of producers has none of their open transactions (Redpanda #30003)",
    ),
    "snapshot-without-marked-producers": Mutation(
        PartitionProducers,
        "to_snapshot",
        makes(
            lambda result, *_: tuple(batch for batch in result if batch.last_offset != NO_OFFSET)
        ),
        "a snapshot leaves out producers of which only a marker is known",
    ),
    "snapshots-outlive-truncation": Mutation(
        ProducerSnapshots,
        "keep_between",
        does_nothing(unless=has_stray),
        "snapshots from behind the end of the log are kept",
    ),
    "no-snapshots": Mutation(
        ProducerSnapshots, "take_snapshot", does_nothing(), "no snapshot of producers is taken"
    ),
    "truncation-forgets-producers": Mutation(
        ProducerStateManager,
        "reload",
        does_nothing(unless=is_another),
        "producers survive a truncation",
    ),
    "unknown-coordinator-verifies": Mutation(
        VerificationQueues,
        "ask",
        Patch(
            lambda function: (
                lambda queues, **keywords: (
                    _verified_queue(queues)
                    if queues.coordinator_of(keywords["transactional_id"]) is None
                    else function(queues, **keywords)
                )
            )
        ),
        "a transaction whose coordinator is not known counts as verified",
    ),
    "lost-verification-passes": Mutation(
        VerificationQueues,
        "_fail_txn",
        Patch(
            lambda function: (
                lambda queues, request, error, **keywords: (
                    queues._resolve_txn(request, {})
                    if error is ErrorCode.network_exception
                    else function(queues, request, error, **keywords)
                )
            ),
            lambda _result, args, _named: args[2] is ErrorCode.network_exception,
        ),
        "a verification whose answer was lost counts as passed",
    ),
    "one-partition-is-added": Mutation(
        VerificationQueues,
        "ask",
        Patch(
            lambda function: (
                lambda queues, **keywords: function(
                    queues,
                    **{
                        **keywords,
                        "partitions": keywords["partitions"][:1]
                        if keywords["operation"] is TransactionOperation.ADD_PARTITION
                        else keywords["partitions"],
                    },
                )
            ),
            lambda _result, _args, keywords: len(keywords["partitions"]) > 1,
        ),
        "a Produce of transactions v2 adds only the first of its partitions",
    ),
}


def _verified_queue(queues: Any) -> Any:
    answer_future: Pending[Any] = Pending(queues.tasks)
    answer_future.resolve({})
    return answer_future


# Log, readers, replication


def _one_too_far(function: Any) -> Any:
    getter = function.fget

    def stable(log: PartitionLog) -> int:
        offset: int = getter(log)
        return min(offset + 1, log.high_watermark)

    return property(stable)


def _cutting(function: Any) -> Any:
    def wrong(log: PartitionLog, leader_epoch: int) -> None:
        function(log, leader_epoch)
        if log.log_end_offset > log.log_start_offset:
            log.truncate_to(log.log_end_offset - 1, now_ms=0)

    return wrong


def _alone(_function: Any) -> Any:
    def wrong(partition: Any, _terms: Any) -> bool:
        has_moved: bool = partition.log.advance_high_watermark(partition.log.log_end_offset)
        for follower in partition.followers.values() if has_moved else ():
            if follower.reader is not None:
                follower.reader.stale_partitions[partition.topic_partition] = None
        return has_moved

    return wrong


def _commit_at_once(_function: Any) -> Any:
    def wrong(commits: Any, *_: Any, **__: Any) -> Any:
        answer_future: Pending[ErrorCode] = Pending(commits.purgatory.tasks)
        answer_future.resolve(ErrorCode.none)
        return answer_future

    return wrong


def _aborted_count(_function: Any) -> Any:
    def wrong(txns: Any, header: Any) -> bool:
        txns._advance_to(header.last_offset)
        if header.is_transactional:
            txns._committed.add(header.producer_id)
        return False

    return wrong


_LOG: Final[Mapping[str, Mutation]] = {
    "lso-one-too-far": Mutation(
        PartitionLog, "last_stable_offset", Patch(_one_too_far), "readers see one offset too many"
    ),
    "aborted-range-forgotten": Mutation(
        TxnIndex,
        "append",
        but_not(lambda _index, entry: entry.last_stable_offset <= entry.last_offset),
        "an abort is not noted while another transaction is open",
    ),
    "one-aborted-range": Mutation(
        TxnIndex,
        "lookup",
        makes(lambda result, *_: result[:1]),
        "a reader is told of one aborted transaction at most",
    ),
    "aborted-ranges-outlive-truncation": Mutation(
        TxnIndex, "truncate_to", does_nothing(), "aborts are remembered that were cut off"
    ),
    "epochs-outlive-truncation": Mutation(
        EpochCache, "truncate_to", does_nothing(), "leader epochs are remembered that were cut off"
    ),
    "acknowledged-record-cut": Mutation(
        PartitionLog,
        "become_follower",
        Patch(_cutting),
        "a new follower cuts its last record off, committed or not",
    ),
    "follower-takes-all-as-replicated": Mutation(
        PartitionLog,
        "follow_high_watermark",
        Patch(
            lambda function: lambda log, _offset: function(log, log.log_end_offset),
            lambda _result, args, _named: args[1] != args[0].log_end_offset,
        ),
        "a follower takes its log end for the high watermark",
    ),
    "leader-waits-for-nobody": Mutation(
        LeaderPartition,
        "advance_high_watermark",
        Patch(_alone),
        "the high watermark does not wait for followers",
    ),
    "acks-all-waits-for-nobody": Mutation(
        Commits,
        "are_late",
        gives(answer=False),
        "acks=all and markers are answered before they are replicated",
    ),
    "coordinators-wait-for-nobody": Mutation(
        Commits,
        "wait_for_commit",
        Patch(_commit_at_once),
        "coordinators answer before their records are replicated",
    ),
    "joins-before-it-has-caught-up": Mutation(
        partition_module,
        "has_caught_up",
        gives(answer=True),
        "a follower joins the ISR with the first Fetch",
    ),
    "joins-before-the-epoch-s-start": Mutation(
        partition_module,
        "has_caught_up",
        makes(
            lambda _, follower, *, high_watermark, **__: follower.log_end_offset >= high_watermark
        ),
        "a follower joins the ISR before it has the start of its leader's epoch",
    ),
    "any-replica-leads": Mutation(
        partition_changes,
        "_elect",
        Patch(
            lambda function: (
                lambda partition, change, *args: function(
                    partition, _but(change, election=Election.UNCLEAN), *args
                )
            )
        ),
        "a replica that is out of sync is elected where no other is left",
    ),
    "same-leader-epoch": Mutation(
        leadership,
        "changed_partition",
        makes(
            lambda result, partition, _change: (
                None if result is None else _but(result, leader_epoch=partition.leader_epoch)
            )
        ),
        "a new leader gets the leader epoch of the one before",
    ),
    "unclean-broker-stays-in-sync": Mutation(
        registrations,
        "after_unclean_shutdown",
        makes(lambda _result, image, *_: image),
        "a broker that may have lost records is still in sync when it comes back",
    ),
    "isr-is-not-checked": Mutation(
        isr_requests,
        "_refusal",
        gives(ErrorCode.none),
        "an old leader may alter its partition",
    ),
    "fetch-forgets-leader-epoch": Mutation(
        Replicas, "_epoch_mismatch", gives(), "a reader with another leader epoch is served"
    ),
    "cleaner-passes-open-transactions": Mutation(
        cleaner,
        "first_uncleanable_offset",
        makes(lambda _result, log, _now_ms: log.local.active_base_offset),
        "the cleaner goes beyond the last stable offset",
    ),
    "cleaner-takes-aborts-for-commits": Mutation(
        CleanedTxns,
        "on_data",
        Patch(_aborted_count),
        "the cleaner keeps aborted records, not the abort",
    ),
    "moved-coordinator-goes-on": Mutation(
        Ownership,
        "unload",
        does_nothing(unless=is_owned),
        "a coordinator whose partition has moved still answers",
    ),
    "loading-coordinator-answers": Mutation(
        Ownership,
        "begin_load",
        Patch(
            lambda _function: (
                lambda owned, partition, epoch: owned.loading.update({partition: epoch})
            ),
            lambda result, *_: result is not None,
        ),
        "a coordinator answers from its old entries while it loads them again",
    ),
    "move-is-not-noticed": Mutation(
        Ownership,
        "is_current",
        gives(answer=True),
        "work that has waited for the log does not look whether the coordinator moved",
    ),
}


# Groups


def _same_generation(function: Any) -> Any:
    def wrong(group: ClassicGroup, *, now_ms: int) -> None:
        function(group, now_ms=now_ms)
        group.generation = max(1, group.generation - 1)

    return wrong


def _pending_go(result: Any, shard: GroupShard, group: Any, **_: Any) -> Any:
    pending_partitions = shard.offsets.pending_partitions(group.group_id)
    deletions = (
        OffsetDeleted(group_id=group.group_id, topic_partition=topic_partition)
        for topic_partition in pending_partitions
    )
    return (*result, *deletions)


def _with_the_marker(function: Any) -> Any:
    def wrong(offsets: Any, producer_id: Any, *, marker_offset: int, **keywords: Any) -> Any:
        for pending in offsets._pending.get(producer_id, {}).values():
            for topic_partition, (record, _) in pending.items():
                pending[topic_partition] = record, marker_offset
        return function(offsets, producer_id, marker_offset=marker_offset, **keywords)

    return wrong


def _has_later_commit(args: tuple[Any, ...], _named: dict[str, Any]) -> bool:
    """Whether a commit outside of transactions was written after a pending one."""
    offsets, producer_id = args
    return any(
        (committed := offsets._committed.get(group_id, {}).get(topic_partition)) is not None
        and committed.record_offset > record_offset
        for group_id, pending in offsets._pending.get(producer_id, {}).items()
        for topic_partition, (_, record_offset) in pending.items()
    )


_GROUPS: Final[Mapping[str, Mutation]] = {
    "abort-leaves-positions-pending": Mutation(
        GroupOffsets,
        "apply_marker",
        but_not(lambda *_, committed, **__: not committed),
        "an abort does not end pending positions",
    ),
    "abort-commits-positions": Mutation(
        GroupOffsets,
        "apply_marker",
        with_named_arguments(committed=True),
        "positions of an aborted transaction count",
    ),
    "older-position-wins": Mutation(
        GroupOffsets,
        "apply_marker",
        Patch(_with_the_marker, before=_has_later_commit),
        "a marker takes a position from before a plain commit for the newer one",
    ),
    "load-takes-pending-for-committed": Mutation(
        GroupShard,
        "_load_batch",
        Patch(
            lambda function: (
                lambda shard, chunk, position, _producer: function(shard, chunk, position, None)
            ),
            lambda _result, args, _named: args[3] is not None,
        ),
        "a group coordinator that loads takes pending positions for committed ones",
    ),
    "load-forgets-markers": Mutation(
        GroupShard,
        "_load_marker",
        does_nothing(),
        "a group coordinator that loads reads no markers",
    ),
    "pending-looks-stable": Mutation(
        GroupOffsets,
        "is_pending",
        gives(answer=False),
        "a read of stable positions does not wait for open transactions",
    ),
    "expiry-removes-pending": Mutation(
        group_service, "expire_offsets", makes(_pending_go), "expiry removes pending positions"
    ),
    "positions-before-replication": Mutation(
        group_service,
        "fetch_offsets",
        with_named_arguments(high_watermark=NO_RECORD_LIMIT),
        "positions are shown before they are replicated",
    ),
    "positions-outlive-topic": Mutation(
        group_service, "delete_topic_offsets", gives(()), "positions of a deleted topic stay"
    ),
    "any-generation-commits": Mutation(
        ClassicGroup, "check_offset_commit", gives(), "members of older generations may commit"
    ),
    "any-member-epoch-commits": Mutation(
        ConsumerGroup, "check_offset_commit", gives(), "members at any epoch may commit (KIP-848)"
    ),
    "same-generation": Mutation(
        ClassicGroup, "next_generation", Patch(_same_generation), "a rebalance keeps the generation"
    ),
    "static-member-is-not-fenced": Mutation(
        ClassicGroup,
        "check_member",
        Patch(
            lambda function: lambda group, member_id, _instance: function(group, member_id, None),
            lambda _result, args, _named: args[2] is not None,
        ),
        "a static member that was replaced is not fenced (KIP-345)",
    ),
    "given-before-it-is-revoked": Mutation(
        MemberTarget,
        "still_has",
        gives(answer=False),
        "a partition is given to a member before the last one has let it go",
    ),
}


MUTATIONS: Final[Mapping[str, Mutation]] = {
    **_COORDINATOR,
    **_MARKERS,
    **_PRODUCERS,
    **_LOG,
    **_GROUPS,
}
