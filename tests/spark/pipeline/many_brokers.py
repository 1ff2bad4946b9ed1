"""Log directories of many brokers that run: ``python -m tests.spark.pipeline.many_brokers OUT
BROKERS REPLICAS``.

Each partition has three replicas, one of them a little behind. One in a hundred has a transaction
that hangs, one in a hundred a living one. The logs are a few kinds, copied; ids and places differ.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.broker_dirs import BrokerDir, forget_the_end, move
from tests.support.logs import NOW, LogDriver
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_offsets
from txnsim.txn.state import TxnTransition
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition

FACTOR: Final = 3
COORDINATORS: Final = 50
IDS: Final = 40
"""Transactional ids per coordinator's log."""
RARE: Final = 100
DONE, HANGING, ALIVE = range(3)


class Kind(NamedTuple):
    """The files of a log, and its end."""

    files: tuple[tuple[str, bytes], ...]
    end: int


def make(directory: Path, brokers: int, replicas: int) -> None:
    """Make them.

    Args:
        directory: To be made.
        brokers: How many.
        replicas: On each of them, of user topics.
    """
    kinds = {kind: [_kind(kind, is_behind=late) for late in (False, True)] for kind in range(3)}
    ends: list[dict[TopicPartition, int]] = [{} for _ in range(brokers)]
    homes = [BrokerDir(directory / f"broker-{one}", one).path for one in range(brokers)]
    for partition in range(brokers * replicas // FACTOR):
        kind = {1: HANGING, 2: ALIVE}.get(partition % RARE, DONE)
        place = TopicPartition(f"topic-{partition // RARE}", partition % RARE)
        for number in range(FACTOR):
            broker = (partition + number) % brokers
            made = kinds[kind][number == FACTOR - 1]
            _write(homes[broker] / names.directory_name(place), made)
            ends[broker][place] = kinds[kind][1].end
    for number in range(COORDINATORS):
        _coordinator(homes, ends, number)
    for home, known in zip(homes, ends, strict=True):
        (home / names.FileName.HIGH_WATERMARKS).write_text(encode_offsets(known))
        (home / names.FileName.RECOVERY_POINTS).write_text(encode_offsets(dict.fromkeys(known, 0)))


def _write(folder: Path, kind: Kind) -> None:
    folder.mkdir()
    for name, data in kind.files:
        (folder / name).write_bytes(data)


def _kind(kind: int, *, is_behind: bool) -> Kind:
    driver = LogDriver()
    for turn in range(20):
        driver.txn(2 * turn, count=2, pid=1_000)
        driver.end(committed=turn % 2 == 0, pid=1_000)
    if kind != DONE:
        driver.txn(0, pid=2_000 + kind)
    if not is_behind:
        driver.txn(40, count=2, pid=1_000)
        driver.end(committed=True, pid=1_000)
    with tempfile.TemporaryDirectory() as scratch:
        folder = BrokerDir(Path(scratch) / "broker").replica(driver)
        forget_the_end(folder)
        files = tuple(
            (one.name, one.read_bytes())
            for one in sorted(folder.iterdir())
            if one.suffix == names.Suffix.LOG or one.name == names.FileName.LEADER_EPOCHS
        )
    return Kind(files, driver.log.high_watermark)


def _coordinator(homes: list[Path], ends: list[dict[TopicPartition, int]], number: int) -> None:
    records: list[TxnTransition] = []
    for one in range(IDS):
        name, pid = f"app-{number}-{one}", 10_000 + number * IDS + one
        place = TopicPartition(f"topic-{one}", number)
        records += [move("Ongoing", place, name=name, pid=pid), move("Empty", name=name, pid=pid)]
    if number == 0:
        alive = [TopicPartition(f"topic-{one}", ALIVE) for one in range(5_000)]
        records.append(move("Ongoing", *alive, name="alive", pid=2_000 + ALIVE, at_ms=NOW))
    with tempfile.TemporaryDirectory() as scratch:
        whole = BrokerDir(Path(scratch) / "broker").coordinator(*records, partition=number)
        files = tuple((one.name, one.read_bytes()) for one in sorted(whole.iterdir()))
    place = TopicPartition(TRANSACTION_STATE_TOPIC, number)
    for copy in range(min(FACTOR, len(homes))):
        broker = (number + copy) % len(homes)
        _write(homes[broker] / names.directory_name(place), Kind(files, len(records)))
        ends[broker][place] = len(records)


if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
