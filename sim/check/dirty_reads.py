"""Reads of what must not be seen: records of transactions that did not commit (G1a), and a last
stable offset that stands inside of a transaction (G1b).

Readers that asked for read_uncommitted are promised neither. Adya: PL-2, proscribed phenomena G1a
and G1b; Kafka: KIP-98, "Consumers with read_committed only see committed transactional messages".
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

from sim.check.anomaly import Anomaly, Kind, convict
from sim.check.history import History, Transaction
from sim.check.observations import UNKNOWN_OFFSET, Wrote
from sim.check.visibility import visibility
from sim.types import TopicPartition


def aborted_reads(history: History) -> tuple[Anomaly, ...]:
    """G1a: a read_committed reader got a record of a transaction that can't have committed.

    That is one whose producer asked for an abort, or was refused the commit, and has no commit that
    took effect or may have. A value that somebody else has written as well convicts only if that
    holds for all of them.
    """
    seen = visibility(history)
    transactions = history.transactions()
    found = []
    for (place, value), sights in seen.sights.items():
        writers = [
            transactions[wrote.transaction] if wrote.transaction is not None else None
            for _, wrote in seen.writers.get((place, value), ())
        ]
        if not writers or not all(writer and writer.fate.aborted for writer in writers):
            continue
        writer = writers[0]
        assert writer is not None, "all of them are transactions"
        found.append(
            convict(
                Kind.ABORTED_READ,
                f"{history[sights[0].index].who} read {value!r} at {place}@{sights[0].offset}, but "
                f"{writer.label} was not committed",
                sights[0].index,
                *(index for index, _ in seen.writers[place, value]),
                *(index for index, _ in writer.ends),
            )
        )
    return tuple(found)


def intermediate_reads(history: History) -> tuple[Anomaly, ...]:
    """G1b, of a log: readers were let into a transaction while it went on behind.

    On one partition a transaction is undecided from its first record to its marker, and the last
    stable offset never lies behind the first unstable offset (``UnifiedLog``). A Read that
    delivered an early record of a transaction and whose last stable offset is at or before a later
    one of the same transaction saw an intermediate state of it.
    """
    found = []
    for transaction in history.transactions().values():
        for place, writes in _placed(transaction).items():
            culprit = _split(history, place, writes)
            if culprit is None:
                continue
            at, early, late = culprit
            found.append(
                convict(
                    Kind.INTERMEDIATE_READ,
                    f"{history[at].who} read {early[1].value!r} of {transaction.label} at "
                    f"{place}@{early[1].offset} while the last stable offset stood before "
                    f"{late[1].value!r} of it at {late[1].offset}",
                    at,
                    early[0],
                    late[0],
                )
            )
    return tuple(found)


def _placed(transaction: Transaction) -> dict[TopicPartition, list[tuple[int, Wrote]]]:
    """The acknowledged writes of a transaction by partition, in the order of the log."""
    placed: dict[TopicPartition, list[tuple[int, Wrote]]] = defaultdict(list)
    for index, wrote in transaction.acknowledged:
        if wrote.offset != UNKNOWN_OFFSET:
            placed[wrote.place].append((index, wrote))
    for writes in placed.values():
        writes.sort(key=lambda pair: (pair[1].offset, pair[0]))
    return placed


def _split(
    history: History, place: TopicPartition, writes: list[tuple[int, Wrote]]
) -> tuple[int, tuple[int, Wrote], tuple[int, Wrote]] | None:
    """The first Read whose last stable offset lies between two of the writes, and these."""
    offsets = [wrote.offset for _, wrote in writes]
    if offsets[0] == offsets[-1]:
        return None
    by_record = {(wrote.offset, wrote.value): (index, wrote) for index, wrote in writes}
    for at, read in history.committed_reads(place):
        if not offsets[0] < read.last_stable_offset <= offsets[-1]:
            continue
        for record in read.records:
            early = by_record.get((record.offset, record.value))
            if early is not None:
                return at, early, writes[bisect_left(offsets, read.last_stable_offset)]
    return None
