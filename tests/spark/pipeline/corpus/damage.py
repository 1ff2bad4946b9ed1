"""Damages ends of files as an unclean stop may leave them, always in the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from tests.spark.pipeline.corpus.truth import Damage, LoadedLog, OpenTransaction, Place, Stage
from txnsim.storage.names import Suffix
from txnsim.wire.batch import BatchHeader, iter_batches

_PAGE: Final = bytes(4_096)


def _cut_in_records(path: Path, position: int, size: int) -> str:
    _cut(path, position + size - 5)
    return "cut within the records of the last batch"


def _cut_in_header(path: Path, position: int, size: int) -> str:
    _cut(path, position + BatchHeader.SIZE - 20)
    return "cut within the header of the last batch"


def _zeros_behind(path: Path, position: int, size: int) -> str:
    _cut(path, position + size // 2)
    with path.open("ab") as file:
        file.write(_PAGE)
    return "the second half of the last batch is zeros, and a page of them behind it"


def _flip_bit(path: Path, position: int, size: int) -> str:
    file_bytes = bytearray(path.read_bytes())
    file_bytes[position + size - 3] ^= 0x10
    path.write_bytes(file_bytes)
    return "a bit of the last batch is flipped, its CRC is wrong"


def _cut_in_length(path: Path, position: int, size: int) -> str:
    _cut(path, position + 11)
    path.with_suffix(Suffix.INDEX).unlink()
    return "cut within the length of the last batch, its index lost"


def _marker_lost(path: Path, position: int, size: int) -> str:
    _cut(path, position + size - 1)
    return "the last byte of the last marker is lost"


_WAYS: Final[tuple[Callable[[Path, int, int], str], ...]] = (
    _cut_in_records,
    _cut_in_header,
    _zeros_behind,
    _flip_bit,
    _cut_in_length,
    _marker_lost,
)


def tear(stage_folder: Path, last_offset_by_partition: Mapping[Place, int]) -> tuple[Damage, ...]:
    """Damage the last batch of each partition.

    Args:
        stage: Directory with ``broker-N``.
        last_offsets: Partition → offset of its last batch; broker 1 has the even partitions, broker
            2 the others.
    """
    damages = []
    for (partition, offset), make_way in zip(
        sorted(last_offset_by_partition.items()), _WAYS, strict=True
    ):
        broker = 1 + partition.partition % 2
        folder = stage_folder / f"broker-{broker}" / f"{partition.topic}-{partition.partition}"
        path = max(folder.glob(f"*{Suffix.LOG}"))
        batches = [(start, batch_header) for start, batch_header in iter_batches(path.read_bytes())]
        position, batch_header = batches[-1]
        assert batch_header.base_offset == offset, (partition, batch_header.base_offset, offset)
        damage_kind = make_way(path, position, path.stat().st_size - position)
        damages.append(
            Damage(
                place=partition, broker=broker, file=path.name, what=damage_kind, sound_end=offset
            )
        )
    return tuple(damages)


def as_torn(
    killed_stage: Stage, damage: tuple[Damage, ...], loaded_logs: tuple[LoadedLog, ...]
) -> Stage:
    """The truth about the damaged copy: an open transaction there has lost its last batch, and a
    finished one is open if its marker is lost.
    """
    end_by_partition = {fault.place: fault.sound_end for fault in damage}
    last_ms: dict[tuple[Place, int], int] = {}
    for sent_batch in killed_stage.sent:
        if (
            sent_batch.place in end_by_partition
            and sent_batch.base_offset < end_by_partition[sent_batch.place]
        ):
            timestamp_ms = max(record.timestamp_ms for record in sent_batch.records)
            last_ms[sent_batch.place, sent_batch.producer_id] = timestamp_ms
    open_transactions = [
        msgspec.structs.replace(row, last_timestamp_ms=last_ms[row.place, row.producer_id])
        if row.place in end_by_partition
        else row
        for row in killed_stage.open
    ]
    transactions_left = []
    for transaction in killed_stage.finished:
        span = transaction.spans[0]
        if end_by_partition.get(span.place) != span.marker_offset:
            transactions_left.append(transaction)
            continue
        open_transactions.append(
            OpenTransaction(
                place=span.place,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                start_offset=span.first_offset,
                last_timestamp_ms=last_ms[span.place, transaction.producer_id],
                verdict="hanging",
                why="its marker is lost with the end of the file",
                transactional_id=transaction.transactional_id,
            )
        )
    return msgspec.structs.replace(
        killed_stage,
        name="torn",
        finished=tuple(transactions_left),
        open=tuple(sorted(open_transactions, key=lambda row: (row.place, row.producer_id))),
        damage=damage,
        loaded=loaded_logs,
    )


def _cut(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)
