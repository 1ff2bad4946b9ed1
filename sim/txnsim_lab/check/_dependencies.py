"""Circles of dependencies between committed transactions: dirty write (G0), circular information
flow (G1c), read skew (G-single) and lost update (P4). These are Adya's definitions over the graph
of ``check._graph``.

Kafka does not isolate writers of different transactional ids from each other. Programs that share
keys, or that act on what others wrote, have to avoid conflicts themselves. If they do not, this
checker reports a circle although every broker worked correctly. A circle between the transactions
of one id is an error of the cluster.
"""

from __future__ import annotations

from collections import defaultdict

from txnsim.types import TopicPartition
from txnsim_lab.check._graph import Dependencies, Edge, circle, dependencies
from txnsim_lab.check.anomaly import Anomaly, Kind, convict
from txnsim_lab.check.history import History, Transaction
from txnsim_lab.check.observations import Isolation, Outcome, PositionsRead, SentOffsets


def dirty_writes(history: History) -> tuple[Anomaly, ...]:
    """G0: a circle of write-write dependencies; or, among the transactions of one transactional id,
    of the order of their records.
    """
    known = dependencies(history)
    found = []
    for edges in (known.write_write, *known.sessions.values()):
        path = circle(edges)
        if path:
            found.append(_circle(Kind.DIRTY_WRITE, known, path))
    return tuple(found)


def circular_information_flow(history: History) -> tuple[Anomaly, ...]:
    """G1c: a circle of write-write and write-read dependencies, at least one of which is of the
    latter kind.
    """
    known = dependencies(history)
    path = circle((*known.write_write, *known.write_read), through=known.write_read)
    return (_circle(Kind.CIRCULAR_INFORMATION_FLOW, known, path),) if path else ()


def read_skews(history: History) -> tuple[Anomaly, ...]:
    """G-single: a circle with exactly one read-write dependency; the others are write-write and
    write-read.
    """
    known = dependencies(history)
    path = circle((*known.write_write, *known.write_read), through=known.read_write)
    return (_circle(Kind.READ_SKEW, known, path),) if path else ()


def _circle(kind: Kind, known: Dependencies, path: tuple[Edge, ...]) -> Anomaly:
    members = [known.transactions[edge.before] for edge in path]
    evidence = [index for member in members for index, _ in (*member.writes, *member.ends)]
    reads = [index for member in members for index, _ in member.reads]
    used = [] if kind is Kind.DIRTY_WRITE else reads
    return convict(kind, ", and ".join(edge.why for edge in path), *evidence, *used)


# Lost updates

_Register = tuple[str, TopicPartition, int]
"""The record that both had read: its key or group, its place and its version."""


def lost_updates(history: History) -> tuple[Anomaly, ...]:
    """P4: two committed transactions read the same version, and each replaced it. So one of them
    acted as if the other did not exist.

    A version is the last record of a key that a transaction got by its Reads and then wrote again.
    It can also be the position of a group that the transaction got and sent again, if no
    observation sets the group back to it.
    """
    committed = dependencies(history).transactions
    readers: dict[_Register, dict[str, list[int]]] = defaultdict(dict)
    for label, transaction in committed.items():
        for register, evidence in _replaced_keys(transaction):
            readers[register][label] = evidence
    for label, register, evidence in _replaced_positions(history, committed):
        readers[register][label] = evidence
    found = []
    for (what, place, version), updates in sorted(readers.items()):
        if len(updates) > 1:
            labels = sorted(updates)
            because = (
                f"{' and '.join(labels)} each replaced {what} as it stood at {place}@{version}"
            )
            evidence = [index for label in labels for index in updates[label]]
            found.append(convict(Kind.LOST_UPDATE, because, *evidence))
    return tuple(found)


def _replaced_keys(transaction: Transaction) -> list[tuple[_Register, list[int]]]:
    found = []
    for index, wrote in transaction.acknowledged:
        if wrote.key is None:
            continue
        versions = [
            (record.offset, at)
            for at, read in transaction.reads
            if at < index and read.place == wrote.place
            if read.isolation is Isolation.READ_COMMITTED and not read.error
            for record in read.records
            if record.key == wrote.key
        ]
        if versions:
            version, at = max(versions)
            found.append(((f"key {wrote.key!r}", wrote.place, version), [at, index]))
    return found


def _replaced_positions(
    history: History, committed: dict[str, Transaction]
) -> list[tuple[str, _Register, list[int]]]:
    set_to: dict[tuple[str, TopicPartition, int], int] = defaultdict(int)
    for _, sent in history.all_of(SentOffsets):
        if sent.outcome is not Outcome.FAILED:
            set_to[sent.group, sent.place, sent.position] += 1
    got: dict[tuple[str, str, TopicPartition], tuple[int, int]] = {}
    found = []
    for index, seen in enumerate(history):
        if isinstance(seen, PositionsRead) and seen.transaction in committed:
            for position in () if seen.error else seen.positions:
                got[seen.transaction, seen.group, position.place] = (position.offset, index)
        elif isinstance(seen, SentOffsets) and seen.transaction in committed:
            version, at = got.get((seen.transaction, seen.group, seen.place), (-1, -1))
            unique = set_to[seen.group, seen.place, version] < 2
            if at >= 0 and version != seen.position and unique and seen.outcome is Outcome.OK:
                register = (f"the position of {seen.group}", seen.place, version)
                found.append((seen.transaction, register, [at, index]))
    return found
