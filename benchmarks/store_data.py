"""Log directories of brokers over some hours. Each segment holds the batches of one hour, with the
indexes and the snapshot that a broker writes beside it. In every fifth partition one transaction
hangs, and the hour in which it began is known.

``python -m benchmarks.store_data DIR --brokers 50 --partitions 100 --hours 24``
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.log_data import entry, make_replica, write_meta
from txnsim.log.producer_state import SnapshotEntry
from txnsim.releases.rules import LATEST
from txnsim.storage import names, producer_snapshot
from txnsim.storage._indexes import encode_indexes
from txnsim.storage.checkpoints import encode_leader_epochs, encode_offsets
from txnsim.txn.log_format import encode_batch
from txnsim.txn.state import TransactionState
from txnsim.types import TopicPartition, TransactionVersion
from txnsim.wire.batch import Record, assign, build_batch, read_batch_header
from txnsim.wire.control import control_batch

BEGAN_MS: Final = 1_790_000_000_000 // 86_400_000 * 86_400_000
HOUR_MS: Final = 3_600_000
FACTOR: Final = 3
STRAY: Final = 900_000
RECORDS: Final = 10
HANGING_HOURS: Final = {1: 18, 6: 9}
"""Last digit of a partition -> the hour in which a transaction begins that hangs."""


class Hours(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for."""

    brokers: int = 1
    partitions: int = 20
    hours: int = 24
    transactions: int = 10
    """Of an hour."""


def make(directory: Path, made: Hours) -> int:
    """Make the directories of all brokers.

    Returns:
        How many segments of user topics.
    """
    homes = [directory / f"broker-{one}" for one in range(made.brokers)]
    for number, home in enumerate(homes):
        home.mkdir(parents=True)
        write_meta(home, node_id=number)
    factor = min(FACTOR, made.brokers)
    ends: list[dict[TopicPartition, int]] = [{} for _ in homes]
    flushed: list[dict[TopicPartition, int]] = [{} for _ in homes]
    for partition in range(made.partitions):
        place = TopicPartition("orders", partition)
        files, last, end = _replica(made, partition)
        for copy in range(factor):
            broker = (partition + copy) % made.brokers
            _write(homes[broker], place, files)
            ends[broker][place], flushed[broker][place] = end, last
    place = TopicPartition("__transaction_state", 0)
    coordinator = b"".join(_coordinator(made))
    for broker in range(factor):
        _write(homes[broker], place, {names.Suffix.LOG.at(0): coordinator})
    for home, high, low in zip(homes, ends, flushed, strict=True):
        (home / names.FileName.HIGH_WATERMARKS).write_text(encode_offsets(high))
        (home / names.FileName.RECOVERY_POINTS).write_text(encode_offsets(low))
    return made.partitions * factor * made.hours


def _write(home: Path, place: TopicPartition, files: dict[str, bytes]) -> None:
    folder = make_replica(home, place.topic, place.partition)
    (folder / names.FileName.LEADER_EPOCHS).write_text(encode_leader_epochs([(0, 0)]))
    for name, data in files.items():
        (folder / name).write_bytes(data)


def _replica(made: Hours, partition: int) -> tuple[dict[str, bytes], int, int]:
    """(files, base offset of the last segment, log end) of a partition's replicas."""
    files: dict[str, bytes] = {}
    offset = base = 0
    sequences: defaultdict[int, int] = defaultdict(int)
    known: dict[int, SnapshotEntry] = {}
    for hour in range(made.hours):
        base = offset
        batches: list[bytes] = []
        for batch in _hour(made, partition, hour, sequences):
            batches.append(assign(batch, base_offset=offset, leader_epoch=0))
            header = read_batch_header(batches[-1])
            before = known.get(header.producer_id)
            is_open = before is not None and before.txn_first_offset >= 0
            first = before.txn_first_offset if is_open and before is not None else offset
            known[header.producer_id] = SnapshotEntry(
                header.producer_id,
                0,
                *(
                    (before.last_sequence, before.last_offset, before.offset_delta)
                    if header.is_control and before is not None
                    else (header.last_sequence, header.last_offset, header.last_offset - offset)
                ),
                header.max_timestamp_ms,
                0 if header.is_control else -1,
                -1 if header.is_control else first,
            )
            offset = header.last_offset + 1
        index, times = encode_indexes(batches, base_offset=base, index_interval_bytes=4_096)
        files[names.Suffix.LOG.at(base)] = b"".join(batches)
        files[names.Suffix.INDEX.at(base)] = index
        files[names.Suffix.TIME_INDEX.at(base)] = times
        snapshot = names.Suffix.SNAPSHOT.at(offset)
        if hour + 1 < made.hours:
            files[snapshot] = producer_snapshot.encode(known.values())
    return files, base, offset


def _hour(
    made: Hours, partition: int, hour: int, sequences: defaultdict[int, int]
) -> Iterator[bytes]:
    pause_ms = HOUR_MS // (made.transactions + 1)
    for number in range(made.transactions):
        at_ms = BEGAN_MS + hour * HOUR_MS + number * pause_ms
        producer = 1_000 + partition * 100 + number % 3
        yield _data(producer, sequences, at_ms)
        if hour == HANGING_HOURS.get(partition % 10) and not number:
            yield _data(STRAY + partition, sequences, at_ms + 1)
        yield control_batch(
            producer_id=producer,
            producer_epoch=0,
            committed=number % 5 > 0,
            coordinator_epoch=0,
            base_offset=0,
            leader_epoch=0,
            timestamp_ms=at_ms + 2,
        )


def _data(producer: int, sequences: defaultdict[int, int], at_ms: int) -> bytes:
    batch = build_batch(
        [Record(key=b"key-%d" % one, value=b"v" * 90) for one in range(RECORDS)],
        timestamp_ms=at_ms,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequences[producer],
        transactional=True,
    )
    sequences[producer] += RECORDS
    return batch


def _coordinator(made: Hours) -> Iterator[bytes]:
    """What it knows: that those that ended did; of those that hang, nothing."""
    end_ms = BEGAN_MS + made.hours * HOUR_MS
    for offset in range(made.partitions * 3):
        producer = 1_000 + offset // 3 * 100 + offset % 3
        ended = TransactionState.COMPLETE_COMMIT
        record = entry(f"app-{producer}", producer, ended, frozenset(), end_ms - 900)
        batch = encode_batch(
            [record], level=TransactionVersion.TV_1, now_ms=end_ms - 900, rules=LATEST
        )
        yield assign(batch, base_offset=offset, leader_epoch=0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make them, and print how many segments there are."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store_data")
    parser.add_argument("directory", type=Path)
    defaults = Hours()
    for name in ("brokers", "partitions", "hours", "transactions"):
        parser.add_argument(f"--{name}", type=int, default=getattr(defaults, name))
    args = parser.parse_args(arguments)
    made = Hours(
        brokers=args.brokers,
        partitions=args.partitions,
        hours=args.hours,
        transactions=args.transactions,
    )
    sys.stdout.write(f"{make(args.directory, made)} segments\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
