"""Finds circles of dependencies between committed transactions: dirty write (G0), circular
information flow (G1c), read skew (G-single) and lost update (P4). These are Adya's definitions over
the graph of ``check._dependencies``.

Kafka does not isolate writers of different transactional ids from each other. Programs that share
keys, or that act on what others wrote, have to avoid conflicts themselves. If they do not, this
checker reports a circle although every broker worked correctly. A circle between the transactions
of one id is an error of the cluster.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import pairwise

import msgspec

from txnsim.types import TopicPartition
from txnsim_lab.check._visibility import Visibility, visibility, writers_by_offset
from txnsim_lab.check.anomaly import Anomaly, Kind, convict
from txnsim_lab.check.history import History, Transaction
from txnsim_lab.check.observations import Isolation, Outcome, PositionsRead, SentOffsets, Wrote

# Which committed transaction depends on which (Adya's direct serialization graph), and circles in
# such a graph.
#
# A history of logs shows these dependencies:
#
# - *write-write*, by key: one transaction writes the committed last record of a key of a partition,
#   and another transaction writes the next record of that key. Records without a key overwrite
#   nothing;
# - *write-read*: a transaction delivered a record of another transaction to its program
#   (``transaction`` of a Read), and its own outcome may depend on that record;
# - *read-write*: a transaction read a whole partition (``whole`` of a Read), and another
#   transaction has a later record there. So the first one acted as if the other did not exist. A
#   poll is no such read: records that it did not return may have been there.
#
# Appends of two producers to one partition interleave on every healthy Kafka. They are no
# dependency. Kafka promises the order of transactions only within one transactional id, because
# each of them begins after the last one has ended. *Session* dependencies are those between the
# transactions of one id, by the order of their records in a partition.


class Edge(msgspec.Struct, frozen=True, order=True):
    """A dependency of one transaction on another."""

    earlier_label: str
    later_label: str
    reason: str


class Dependencies(msgspec.Struct, frozen=True, kw_only=True):
    """The dependencies between the committed transactions of a history."""

    transactions: dict[str, Transaction]
    """The committed transactions, as answers to their producers or reads show."""
    write_write: tuple[Edge, ...]
    write_read: tuple[Edge, ...]
    read_write: tuple[Edge, ...]
    sessions: dict[str, tuple[Edge, ...]]
    """Order of the records of each transactional id's transactions, by transactional id."""


def dependencies(history: History) -> Dependencies:
    """The dependencies between transactions."""
    return history.derived(_dependencies)


def _dependencies(history: History) -> Dependencies:
    record_visibility = visibility(history)
    committed = {
        label: transaction
        for label, transaction in history.transactions().items()
        if transaction.fate.is_committed
        or (transaction.fate.may_be_committed and _is_visible(transaction, record_visibility))
    }
    logs = writers_by_offset(history, record_visibility)
    return Dependencies(
        transactions=committed,
        write_write=_write_write(committed, logs),
        write_read=_write_read(committed, record_visibility),
        read_write=_read_write(committed, logs),
        sessions=_session_edges(committed, logs),
    )


def _is_visible(transaction: Transaction, record_visibility: Visibility) -> bool:
    return any(record_visibility.sights_of(write) for _, write in transaction.writes)


def _write_write(
    committed: dict[str, Transaction], logs: dict[TopicPartition, dict[int, Wrote]]
) -> tuple[Edge, ...]:
    edges = set()
    for partition, log in sorted(logs.items()):
        last_offsets: dict[tuple[str, str], int] = {}
        for offset, write in sorted(log.items()):
            if write.key is not None and write.transaction in committed:
                last_offsets[write.key, write.transaction] = offset
        offsets_by_key: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for (key, label), offset in last_offsets.items():
            offsets_by_key[key].append((offset, label))
        for key, offsets_and_labels in offsets_by_key.items():
            for (_, earlier_label), (offset, later_label) in pairwise(sorted(offsets_and_labels)):
                explanation = (
                    f"{later_label} overwrote {earlier_label}'s {key!r} at {partition}@{offset}"
                )
                edges.add(Edge(earlier_label, later_label, explanation))
    return tuple(sorted(edges))


def _write_read(
    committed: dict[str, Transaction], record_visibility: Visibility
) -> tuple[Edge, ...]:
    edges = set()
    for reader, transaction in committed.items():
        for _, read in transaction.reads:
            if read.isolation is not Isolation.READ_COMMITTED or read.error:
                continue
            for record in read.records:
                if record.value is None:
                    continue
                writing_labels = {
                    write.transaction
                    for _, write in record_visibility.writers.get((read.place, record.value), ())
                }
                writer = writing_labels.pop() if len(writing_labels) == 1 else None
                if writer in committed and writer != reader:
                    explanation = f"{reader} read {writer}'s {record.value!r} at {read.place}"
                    edges.add(Edge(writer, reader, explanation))
    return tuple(sorted(edges))


def _read_write(
    committed: dict[str, Transaction], logs: dict[TopicPartition, dict[int, Wrote]]
) -> tuple[Edge, ...]:
    edges = set()
    for reader, transaction in committed.items():
        for _, read in transaction.reads:
            if not read.whole or read.isolation is not Isolation.READ_COMMITTED or read.error:
                continue
            for offset, write in logs.get(read.place, {}).items():
                writer = write.transaction
                if writer in committed and writer != reader and offset >= read.next_offset:
                    explanation = (
                        f"{reader} read {read.place} before {writer} wrote {write.value!r} there"
                    )
                    edges.add(Edge(reader, writer, explanation))
    return tuple(sorted(edges))


def _session_edges(
    committed: dict[str, Transaction], logs: dict[TopicPartition, dict[int, Wrote]]
) -> dict[str, tuple[Edge, ...]]:
    edges: dict[str, set[Edge]] = defaultdict(set)
    for partition, log in logs.items():
        last_labels: dict[str, str] = {}
        for offset, write in sorted(log.items()):
            if write.transaction is None or write.transaction not in committed:
                continue
            owner = committed[write.transaction].transactional_id
            if owner is None:
                continue
            earlier_label = last_labels.get(owner, write.transaction)
            if earlier_label != write.transaction:
                explanation = (
                    f"{write.transaction} wrote {partition}@{offset} behind {earlier_label}"
                )
                edges[owner].add(Edge(earlier_label, write.transaction, explanation))
            last_labels[owner] = write.transaction
    return {owner: tuple(sorted(session_edges)) for owner, session_edges in sorted(edges.items())}


# Circles


def circle(edges: Iterable[Edge], *, through: Iterable[Edge] | None = None) -> tuple[Edge, ...]:
    """A shortest circle; empty if there is none.

    Args:
        edges: Edges of the graph.
        through: The circle has one of these edges; any edge unless given. Edges that are not in the
            graph occur once in the circle.
    """
    edges_by_label: dict[str, list[Edge]] = defaultdict(list)
    plain_edges, closing_edges = tuple(edges), tuple(through or ())
    circular_edges = frozenset(_edges_on_circles((*plain_edges, *closing_edges)))
    for edge in plain_edges:
        if edge in circular_edges:
            edges_by_label[edge.earlier_label].append(edge)
    candidate_edges = sorted(
        circular_edges if through is None else circular_edges.intersection(closing_edges)
    )
    found_circles = (
        (edge, *path)
        for edge in candidate_edges
        if (path := _find_path(edges_by_label, edge.later_label, edge.earlier_label)) is not None
    )
    return min(found_circles, key=lambda path_edges: (len(path_edges), path_edges), default=())


def _edges_on_circles(edges: tuple[Edge, ...]) -> tuple[Edge, ...]:
    """The edges between cycles; none in a healthy history."""
    reachable_edges = _without_dead_ends(
        edges, {edge: (edge.earlier_label, edge.later_label) for edge in edges}
    )
    return _without_dead_ends(
        reachable_edges, {edge: (edge.later_label, edge.earlier_label) for edge in reachable_edges}
    )


def _without_dead_ends(
    edges: tuple[Edge, ...], writers_by_edge: dict[Edge, tuple[str, str]]
) -> tuple[Edge, ...]:
    """Remove the edges to which no circle leads (Kahn's algorithm). ``writers_by_edge`` has the two
    ends of each edge in the direction of travel.
    """
    next_labels: dict[str, list[str]] = defaultdict(list)
    incoming_counts: dict[str, int] = defaultdict(int)
    for from_label, to_label in writers_by_edge.values():
        next_labels[from_label].append(to_label)
        incoming_counts[to_label] += 1
    dead_end_labels = [
        from_label for from_label in next_labels if from_label not in incoming_counts
    ]
    for label in dead_end_labels:  # grows on the way
        for to_label in next_labels.get(label, ()):
            incoming_counts[to_label] -= 1
            if not incoming_counts[to_label]:
                dead_end_labels.append(to_label)
    unreachable = set(dead_end_labels)
    return tuple(edge for edge in edges if writers_by_edge[edge][0] not in unreachable)


def _find_path(
    edges_by_label: dict[str, list[Edge]], first_label: str, last_label: str
) -> tuple[Edge, ...] | None:
    edge_by_label: dict[str, Edge] = {}
    labels_to_visit = deque([first_label])
    while labels_to_visit:
        label = labels_to_visit.popleft()
        for edge in edges_by_label.get(label, ()):
            if edge.later_label != first_label and edge.later_label not in edge_by_label:
                edge_by_label[edge.later_label] = edge
                labels_to_visit.append(edge.later_label)
    if last_label not in edge_by_label:
        return None
    path: list[Edge] = []
    while last_label != first_label:
        path.append(edge_by_label[last_label])
        last_label = edge_by_label[last_label].earlier_label
    return tuple(reversed(path))


def dirty_writes(history: History) -> tuple[Anomaly, ...]:
    """G0: a circle of write-write dependencies; or, among the transactions of one transactional id,
    a circle in the order of their records.
    """
    dependency_graph = dependencies(history)
    anomalies = []
    for edges in (dependency_graph.write_write, *dependency_graph.sessions.values()):
        path = circle(edges)
        if path:
            anomalies.append(_convict_circle(Kind.DIRTY_WRITE, dependency_graph, path))
    return tuple(anomalies)


def circular_information_flow(history: History) -> tuple[Anomaly, ...]:
    """G1c: a circle of write-write and write-read dependencies, with at least one write-read
    dependency.
    """
    dependency_graph = dependencies(history)
    path = circle(
        (*dependency_graph.write_write, *dependency_graph.write_read),
        through=dependency_graph.write_read,
    )
    return (
        (_convict_circle(Kind.CIRCULAR_INFORMATION_FLOW, dependency_graph, path),) if path else ()
    )


def read_skews(history: History) -> tuple[Anomaly, ...]:
    """G-single: a circle with exactly one read-write dependency; the others are write-write and
    write-read.
    """
    dependency_graph = dependencies(history)
    path = circle(
        (*dependency_graph.write_write, *dependency_graph.write_read),
        through=dependency_graph.read_write,
    )
    return (_convict_circle(Kind.READ_SKEW, dependency_graph, path),) if path else ()


def _convict_circle(kind: Kind, dependency_graph: Dependencies, path: tuple[Edge, ...]) -> Anomaly:
    circle_transactions = [dependency_graph.transactions[edge.earlier_label] for edge in path]
    evidence_indexes = [
        index
        for transaction in circle_transactions
        for index, _ in (*transaction.writes, *transaction.ends)
    ]
    read_indexes = [index for transaction in circle_transactions for index, _ in transaction.reads]
    read_indexes_used = [] if kind is Kind.DIRTY_WRITE else read_indexes
    return convict(
        kind, ", and ".join(edge.reason for edge in path), *evidence_indexes, *read_indexes_used
    )


# Lost updates

_Register = tuple[str, TopicPartition, int]
"""The record that both transactions had read: its key or group, its partition and its version."""


def lost_updates(history: History) -> tuple[Anomaly, ...]:
    """P4: two committed transactions read the same version, and each replaced it. So one of them
    acted as if the other did not exist.

    A version is the last record of a key that a transaction got by its Reads and then wrote again.
    It can also be the position of a group that the transaction got and sent again, if no
    observation sets the group back to it.
    """
    committed = dependencies(history).transactions
    evidence_by_register: dict[_Register, dict[str, list[int]]] = defaultdict(dict)
    for label, transaction in committed.items():
        for register, evidence_indexes in _replaced_keys(transaction):
            evidence_by_register[register][label] = evidence_indexes
    for label, register, evidence_indexes in _replaced_positions(history, committed):
        evidence_by_register[register][label] = evidence_indexes
    anomalies = []
    for (register_name, partition, version), evidence_by_label in sorted(
        evidence_by_register.items()
    ):
        if len(evidence_by_label) > 1:
            updating_labels = sorted(evidence_by_label)
            reason = (
                f"{' and '.join(updating_labels)} each replaced {register_name} as it stood at"
                f" {partition}@{version}"
            )
            evidence_indexes = [
                index for label in updating_labels for index in evidence_by_label[label]
            ]
            anomalies.append(convict(Kind.LOST_UPDATE, reason, *evidence_indexes))
    return tuple(anomalies)


def _replaced_keys(transaction: Transaction) -> list[tuple[_Register, list[int]]]:
    replacements = []
    for index, write in transaction.acknowledged:
        if write.key is None:
            continue
        versions_read = [
            (record.offset, read_index)
            for read_index, read in transaction.reads
            if read_index < index and read.place == write.place
            if read.isolation is Isolation.READ_COMMITTED and not read.error
            for record in read.records
            if record.key == write.key
        ]
        if versions_read:
            version, read_index = max(versions_read)
            replacements.append(((f"key {write.key!r}", write.place, version), [read_index, index]))
    return replacements


def _replaced_positions(
    history: History, committed: dict[str, Transaction]
) -> list[tuple[str, _Register, list[int]]]:
    position_counts: dict[tuple[str, TopicPartition, int], int] = defaultdict(int)
    for _, sent_offsets in history.all_of(SentOffsets):
        if sent_offsets.outcome is not Outcome.FAILED:
            position_counts[sent_offsets.group, sent_offsets.place, sent_offsets.position] += 1
    position_read_by_place: dict[tuple[str, str, TopicPartition], tuple[int, int]] = {}
    replacements = []
    for index, observation in enumerate(history):
        if isinstance(observation, PositionsRead) and observation.transaction in committed:
            for position in () if observation.error else observation.positions:
                position_read_by_place[
                    observation.transaction, observation.group, position.place
                ] = (
                    position.offset,
                    index,
                )
        elif isinstance(observation, SentOffsets) and observation.transaction in committed:
            version, read_index = position_read_by_place.get(
                (observation.transaction, observation.group, observation.place), (-1, -1)
            )
            is_unique = position_counts[observation.group, observation.place, version] < 2
            if (
                read_index >= 0
                and version != observation.position
                and is_unique
                and observation.outcome is Outcome.OK
            ):
                register = (f"the position of {observation.group}", observation.place, version)
                replacements.append((observation.transaction, register, [read_index, index]))
    return replacements
