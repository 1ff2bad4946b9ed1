"""A trace, followed event by event, as facts for the judge (``txnsim.verdict``) after each of them.

The state (``trace.state``) only assigns what events carry. What a verdict needs besides stands
here: which coordinators serve, whether a leader is up, who waits, whether recording runs, what was
decided, and what applications asked and were answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

import msgspec

from txnsim.runtime.trace import Event, TraceLevel
from txnsim.trace.story import transactional_id_of
from txnsim.trace.trace_file import Recording
from txnsim.types import INTERNAL_TOPICS, TopicPartition
from txnsim.verdict.contradictions import ProducerMarker, contradictions
from txnsim.verdict.facts import (
    ClusterFacts,
    MarkerSending,
    OpenTxnFacts,
    OwedMarkerFacts,
    PartitionFacts,
    ShareGroupFacts,
    TransactionFacts,
    WrongData,
)
from txnsim_lab.trace._applications import Applications
from txnsim_lab.trace._faults_and_decisions import FaultsAndDecisions, partition_of
from txnsim_lab.trace.payload_error import WRONG_FIELD_ERRORS, PayloadError
from txnsim_lab.trace.state import TraceState, owed_by

_SENDINGS: Final[Mapping[str, MarkerSending]] = {
    "refused": MarkerSending.ABANDONED,  # given up, as the coordinator does
    "abandoned": MarkerSending.ABANDONED,
}
COMPARED_MAX: Final = 100
"""Newest markers of a producer on a partition that are compared with its decisions."""


class OperatorMarker(msgspec.Struct, frozen=True, kw_only=True):
    """A marker that an operator has written."""

    transactional_id: str | None
    """None where the trace does not name it."""
    producer_id: int
    is_commit: bool


class FollowedTrace(msgspec.Struct, kw_only=True):
    """What a trace tells up to an event."""

    state: TraceState = msgspec.field(default_factory=TraceState)
    faults_and_decisions: FaultsAndDecisions = msgspec.field(default_factory=FaultsAndDecisions)
    applications: Applications = msgspec.field(default_factory=Applications)
    position: int = -1
    """Of the last event."""
    coordinator_by_partition: dict[int, str] = {}
    """Partition of the transaction log -> the node that serves it; empty for none."""
    ready_leader_by_partition: dict[str, int] = {}
    """Partition -> the broker that has taken the leadership and runs."""
    replicas_by_partition: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    """Partition -> replicas and those in sync, as far as events tell."""
    opened_ms: dict[tuple[str, int], int | None] = {}
    """(partition, producer id) -> timestamp of the first batch of its open transaction."""
    attempt_counts: dict[str, int] = {}
    """Key of an owed marker -> the number of its last attempt."""
    readers: dict[int, tuple[str, str, frozenset[str]]] = {}
    """Position of a wait -> broker, client, and the partitions that it waits for."""
    lost_fences: set[str] = msgspec.field(default_factory=set)
    """Transactional ids whose epoch a fence has raised, and the fence is not written."""
    stopped_at: int | None = None
    """Position of the event with which recording stopped; None while it runs."""
    contradiction_by_place: dict[tuple[TopicPartition, int], WrongData] = {}
    """(partition, offset of a marker) -> what contradicts a coordinator's decision."""
    last_markers: dict[tuple[str, int], tuple[int, bool, int]] = {}
    """(partition, producer id) -> producer epoch, whether it is a COMMIT, and coordinator epoch of
    the producer's last marker, if no record of the producer has followed.
    """
    repeated_markers: dict[tuple[str, int], bool] = {}
    """(partition, offset of a marker that repeats the one before) -> whether a coordinator that was
    loaded later has sent it.
    """
    client_marker_requests: set[int] = msgspec.field(default_factory=set)
    """Positions of WriteTxnMarkers requests of clients, and of what faults did to them."""
    operator_markers: dict[tuple[str, int], OperatorMarker] = {}
    """(partition, offset of a marker) -> the marker, of those that an operator has written:
    applications ask their coordinator, which asks the leader itself.
    """
    deleted_partitions: set[str] = msgspec.field(default_factory=set)
    """Those that were deleted and are not made again."""
    has_ended: bool = False
    """Whether the cluster is being stopped."""
    is_opening: bool = False
    """Whether a snapshot has begun and is not whole yet."""

    @classmethod
    def of(
        cls, events: Iterable[Event], nodes: Sequence[str], *, level: str = TraceLevel.FULL
    ) -> Self:
        followed_trace = cls(state=TraceState(level=level))
        for event in events:
            followed_trace.follow(event, nodes)
        return followed_trace

    @classmethod
    def of_recording(cls, recording: Recording, *, at: int | None = None) -> Self:
        """Follow a recording up to an event; to its end unless given."""
        return cls.of(recording.events_through(at), recording.nodes, level=recording.level)

    def follow(self, event: Event, nodes: Sequence[str]) -> None:
        """Apply the next event.

        Raises:
            PayloadError: A field of its payload is missing or wrong.
        """
        payload = event.d if isinstance(event.d, Mapping) else {}
        node = nodes[event.n]
        self.position = event.i
        self.state.follow(event, nodes)
        try:
            self.faults_and_decisions.follow(event)
            self.applications.follow(event, node)
            self._follow_cluster(event, node, payload)
        except WRONG_FIELD_ERRORS as error:
            raise PayloadError.of_event(event, error) from error

    def forget(self, position: int) -> None:
        """Forget what was decided and asked before a position, like a reader without it."""
        self.faults_and_decisions.forget(position)
        self.applications.forget(position)

    def _follow_cluster(self, event: Event, node: str, payload: Mapping[str, Any]) -> None:
        if self.has_ended:
            return  # how a cluster is taken down at the end of a run is no part of its story
        match event.k:
            case "msg.recv" if payload.get("api") == "WriteTxnMarkers":
                if not payload.get("response") and str(payload["peer"]).startswith("client/"):
                    self.client_marker_requests.add(event.i)
            case "msg.hold" | "msg.dup" | "fault.hit" | "fault.release":
                if not self.client_marker_requests.isdisjoint(event.p):
                    self.client_marker_requests.add(event.i)
            case "node.role" if payload.get("role") == "leader":
                self.ready_leader_by_partition[payload["tp"]] = int(node.split("/")[1])
                self.deleted_partitions.discard(payload["tp"])
                self._note_opened(payload["tp"], payload.get("producers", ()))
            case "node.down" if payload.get("role") == "broker":
                self._broker_down(node)
            case "leader.changed":
                self._leader_changed(payload)
            case "topic.deleted":
                self._topic_deleted(payload)
            case "cluster.reset":
                self._clear_tables()
                self.applications.forget_all()
                self.contradiction_by_place.clear()
            case "txn.load":
                self.coordinator_by_partition[_log_partition(node)] = node
            case "txn.unload":
                if self.coordinator_by_partition.get(_log_partition(node)) == node:
                    self.coordinator_by_partition[_log_partition(node)] = ""
            case "pid.open":
                self.opened_ms[payload["tp"], payload["pid"]] = payload.get("timestamp")
            case "log.start":
                self._log_start_moved(payload)
            case "log.append":
                self.last_markers.pop((payload["tp"], payload["pid"]), None)
            case "marker.written":
                self._marker_written(event, payload)
            case "txn.complete":
                self.lost_fences.discard(transactional_id_of(event.tx))
            case "marker.owed":
                self.attempt_counts.pop(f"{event.tx} {payload['tp']}", None)
            case "marker.sent":
                self.attempt_counts[f"{event.tx} {payload['tp']}"] = payload.get("attempt", 1)
            case "reader.wait":
                self.readers[event.i] = node, payload["client"], frozenset(payload["partitions"])
            case "reader.end":
                for wait_position in event.p:
                    self.readers.pop(wait_position, None)
            case "input" if payload.get("do") == "stop-cluster":
                self.has_ended = True
            case "trace.off":
                self.stopped_at = event.i
            case "snapshot":
                self._snapshot(event, payload)

    def _broker_down(self, node: str) -> None:
        broker_id = int(node.split("/")[1])
        for wait_position in [
            wait_position for wait_position, reader in self.readers.items() if reader[0] == node
        ]:
            del self.readers[wait_position]
        for partition in [
            partition
            for partition, leader in self.ready_leader_by_partition.items()
            if leader == broker_id
        ]:
            del self.ready_leader_by_partition[partition]
        for index, coordinator in self.coordinator_by_partition.items():
            if coordinator.startswith(f"{node}/"):
                self.coordinator_by_partition[index] = ""

    def _leader_changed(self, payload: Mapping[str, Any]) -> None:
        partition = payload["tp"]
        self.replicas_by_partition[partition] = tuple(payload["replicas"]), tuple(payload["isr"])
        self.ready_leader_by_partition.pop(partition, None)  # until that one tells of its log
        self.deleted_partitions.discard(partition)

    def _topic_deleted(self, payload: Mapping[str, Any]) -> None:
        for index in range(payload["partitions"]):
            name = f"{payload['topic']}-{index}"
            self.deleted_partitions.add(name)
            self.ready_leader_by_partition.pop(name, None)
            self.replicas_by_partition.pop(name, None)
            self._forget_opened(name)
            for markers in (self.last_markers, self.repeated_markers, self.operator_markers):
                for key in [key for key in markers if key[0] == name]:
                    del markers[key]
            self.faults_and_decisions.forget_partition(TopicPartition(payload["topic"], index))
            self.applications.forget_partition(name)
            for partition_and_offset in [
                partition_and_offset
                for partition_and_offset in self.contradiction_by_place
                if str(partition_and_offset[0]) == name
            ]:
                del self.contradiction_by_place[partition_and_offset]

    def _forget_opened(self, partition: str) -> None:
        for key in [key for key in self.opened_ms if key[0] == partition]:
            del self.opened_ms[key]

    def _log_start_moved(self, payload: Mapping[str, Any]) -> None:
        log = self.state.logs.get(payload["tp"])
        if log is not None:
            for producer_id, producer in log["producers"].items():
                if 0 <= producer["first"] < payload["to"]:
                    self.opened_ms[payload["tp"], int(producer_id)] = None

    def _marker_written(self, event: Event, payload: Mapping[str, Any]) -> None:
        if not self.client_marker_requests.isdisjoint(event.p):
            self.operator_markers[payload["tp"], payload["offset"]] = OperatorMarker(
                transactional_id=transactional_id_of(event.tx) or None,
                producer_id=payload["pid"],
                is_commit=bool(payload["committed"]),
            )
        marker_key = payload["tp"], payload["pid"]
        marker = payload["epoch"], bool(payload["committed"]), payload.get("coordinator_epoch", -1)
        last_marker = self.last_markers.get(marker_key)
        if last_marker is not None and last_marker[:2] == marker[:2]:
            is_later = marker[2] > last_marker[2]
            self.repeated_markers[payload["tp"], payload["offset"]] = is_later
        self.last_markers[marker_key] = marker

    def _note_opened(self, partition: str, producers: Iterable[Mapping[str, Any]]) -> None:
        self._forget_opened(partition)
        for producer in producers:
            self.opened_ms[partition, producer["pid"]] = producer.get("since")

    def _snapshot(self, event: Event, payload: Mapping[str, Any]) -> None:
        if payload["part"] == 0:
            if self.stopped_at is not None:
                self.forget(event.i)
            self._clear_tables()
            self.is_opening = True
            for node in payload.get("coordinators", ()):
                self.coordinator_by_partition[_log_partition(node)] = (
                    node if node.startswith("broker/") else ""
                )
        for log in payload["partitions"]:
            if log.get("led"):
                self.ready_leader_by_partition[log["tp"]] = log["leader"]
            self._note_opened(log["tp"], log.get("producers", ()))
        for transaction in payload["transactions"]:
            if transaction.get("is_fence_lost"):
                self.lost_fences.add(transactional_id_of(transaction["tx"]))
        if payload["last"]:
            self.is_opening = False

    def _clear_tables(self) -> None:
        for table in (
            self.coordinator_by_partition,
            self.ready_leader_by_partition,
            self.replicas_by_partition,
            self.opened_ms,
        ):
            table.clear()
        self.attempt_counts.clear()
        self.lost_fences.clear()
        self.readers.clear()
        self.last_markers.clear()
        self.repeated_markers.clear()
        self.client_marker_requests.clear()
        self.operator_markers.clear()
        self.deleted_partitions.clear()
        self.stopped_at = None

    # Facts

    def facts(self, partition: str | None = None) -> ClusterFacts:
        """The facts after the last event, of one partition or of all."""
        return ClusterFacts(
            now_ms=self.state.now_ms,
            partitions=tuple(
                self._partition_facts(name, log)
                for name, log in self.state.logs.items()
                if partition in (None, name)
                and (partition_of(name).topic not in INTERNAL_TOPICS or _has_open(log))
            ),
            transactions=tuple(self._transaction_facts()),
            owed_markers=tuple(self._owed_markers()),
            unserved_coordinators=tuple(
                sorted(index for index, node in self.coordinator_by_partition.items() if not node)
            ),
            wrong_data=tuple(self.wrong_data()),
            ignorance=self._ignorance_sentence(),
        )

    def _ignorance_sentence(self) -> str | None:
        if self.stopped_at is not None:
            return f"recording stopped at #{self.stopped_at}"
        return "recording has just begun" if self.is_opening else None

    def _partition_facts(self, name: str, log: Mapping[str, Any]) -> PartitionFacts:
        partition, leader_id = partition_of(name), log["leader"]
        replicas, isr = self.replicas_by_partition.get(name, ((), ()))
        if self.ready_leader_by_partition.get(name) != leader_id:
            return PartitionFacts(
                partition=partition,
                leader_id=leader_id,
                is_leader_up=False,
                replicas=replicas,
                isr=isr,
            )
        is_brief = self.state.level != TraceLevel.FULL
        return PartitionFacts(
            partition=partition,
            leader_id=leader_id,
            log_start=log["start"],
            last_stable_offset=log["lso"],
            high_watermark=max(log["end"], log["lso"]) if is_brief else log["hw"],
            is_watermark_known=not is_brief,
            open_txns=tuple(
                self._open_txn_facts(name, int(producer_id), producer)
                for producer_id, producer in log["producers"].items()
                if producer["first"] >= 0
            ),
            readers=tuple(
                sorted({client for _, client, waited in self.readers.values() if name in waited})
            ),
            share_groups=tuple(sorted(self._share_groups(name), key=lambda group: group.group_id)),
        )

    def _open_txn_facts(
        self, name: str, producer_id: int, producer: Mapping[str, Any]
    ) -> OpenTxnFacts:
        return OpenTxnFacts(
            producer_id=producer_id,
            producer_epoch=producer["epoch"],
            first_offset=producer["first"],
            last_write_ms=producer["timestamp"],
            since_ms=self.opened_ms.get((name, producer_id)),
            decided=self.faults_and_decisions.decision_of(
                partition_of(name),
                producer_id=producer_id,
                producer_epoch=producer["epoch"],
                first_offset=producer["first"],
                opening_position=producer["i"],
                last_timestamp_ms=producer["timestamp"],
                transaction=self._transaction_of(producer_id),
            ),
        )

    def _transaction_of(self, producer_id: int) -> Mapping[str, Any] | None:
        return next(
            (
                transaction
                for transaction in self.state.transactions.values()
                if transaction["pid"] == producer_id
            ),
            None,
        )

    def _share_groups(self, name: str) -> Iterator[ShareGroupFacts]:
        """Share groups that skip open transactions, with their start offsets."""
        for share_key, share in self.state.shares.items():
            group, _, share_partition = share_key.rpartition(" ")
            if share_partition == name and share["isolation"] == "read_committed":
                yield ShareGroupFacts(group_id=group, start_offset=share["start"])

    def _is_served(self, node: str) -> bool:
        return self.coordinator_by_partition.get(_log_partition(node), node) == node

    def _transaction_facts(self) -> Iterator[TransactionFacts]:
        for transactional_id, transaction in self.state.transactions.items():
            if not self._is_served(transaction["node"]):
                continue
            started_ms = transaction.get("started_ms", -1)
            yield TransactionFacts(
                transactional_id=transactional_id,
                coordinator_id=broker_of(transaction["node"]),
                state=transaction["state"],
                producer_id=transaction["pid"],
                producer_epoch=transaction["epoch"],
                partitions=frozenset(map(partition_of, transaction["partitions"])),
                timeout_ms=transaction.get("timeout_ms", -1),
                started_ms=started_ms if started_ms >= 0 else None,
                is_ending=transaction["state"] == "Ongoing"
                and (
                    str(transaction.get("pending")).startswith("Prepare")
                    or transactional_id in self.lost_fences
                ),
            )

    def _owed_markers(self) -> Iterator[OwedMarkerFacts]:
        for owed_key, owed_marker in self.state.owed.items():
            transactional_id, name = owed_by(owed_key)
            transaction = self.state.transactions.get(transactional_id)
            if transaction is None:
                continue
            sending = _SENDINGS.get(owed_marker["how"], MarkerSending.UNDER_WAY)
            held_by = None
            if sending is MarkerSending.UNDER_WAY:
                held_by = self._holding_rule(transaction, name)
                if held_by is not None:
                    sending = MarkerSending.HELD
                elif self.attempt_counts.get(owed_key, 1) > 1:
                    sending = MarkerSending.RETRIED
            yield OwedMarkerFacts(
                transactional_id=transactional_id,
                partition=partition_of(name),
                is_commit=bool(owed_marker["committed"]),
                sending=sending,
                held_by=held_by,
            )

    def _holding_rule(self, transaction: Mapping[str, Any], name: str) -> str | None:
        """The rule that holds a marker, or the request before it to the same broker."""
        log = self.state.logs.get(name)
        return self.faults_and_decisions.marker_hold(
            transaction["pid"],
            name,
            source=f"broker/{broker_of(transaction['node'])}",
            target=None if log is None else f"broker/{log['leader']}",
        )

    def wrong_data(self) -> Iterator[WrongData]:
        """Records whose end on a partition is not what was decided, or answered."""
        self._compare_markers()
        yield from self.contradiction_by_place.values()
        for contradiction in self.applications.wrong_data():
            if (contradiction.partition, contradiction.offset) not in self.contradiction_by_place:
                yield contradiction

    def _compare_markers(self) -> None:
        """Compare new markers with the decisions."""
        faults_and_decisions = self.faults_and_decisions
        for marker_key in (
            faults_and_decisions.changed_producers & faults_and_decisions.markers.keys()
        ):
            partition, producer_id = marker_key
            markers = faults_and_decisions.markers[marker_key]
            newest_markers = markers[-COMPARED_MAX:]
            since_ms = markers[-COMPARED_MAX - 1].timestamp_ms if len(markers) > COMPARED_MAX else 0
            for contradiction in contradictions(
                partition,
                producer_id,
                faults_and_decisions.producer_ids.get(producer_id),
                [
                    decision
                    for decision in faults_and_decisions.decisions_by_producer.get(producer_id, ())
                    if decision.start_timestamp_ms >= since_ms
                ],
                [
                    ProducerMarker(
                        offset=marker.offset,
                        producer_epoch=marker.producer_epoch,
                        is_commit=marker.is_commit,
                        written_at=marker.timestamp_ms,
                        has_ended_records=marker.timestamp_ms
                        in faults_and_decisions.ending_markers,
                    )
                    for marker in newest_markers
                ],
            ):
                self.contradiction_by_place[contradiction.partition, contradiction.offset] = (
                    contradiction
                )
        faults_and_decisions.changed_producers.clear()


def _has_open(log: Mapping[str, Any]) -> bool:
    return any(producer["first"] >= 0 for producer in log["producers"].values())


def broker_of(node: str) -> int:
    """Id of the broker in a node's name; -1 if no broker has the coordinator's partition."""
    name_parts = node.split("/")
    return int(name_parts[1]) if name_parts[0] == "broker" else -1


def _log_partition(node: str) -> int:
    return int(node.rpartition("/")[2])
