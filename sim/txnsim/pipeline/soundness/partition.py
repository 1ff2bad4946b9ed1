"""All replicas of one partition, once their segments have been walked over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from txnsim.errors import CorruptLogRecordError
from txnsim.log.producer_state import SnapshotEntry
from txnsim.pipeline.soundness.chain import judge_replica
from txnsim.pipeline.soundness.replica_rules import Replica, judge_replicas
from txnsim.pipeline.soundness.violations import Broken, Invariant, Violation, why
from txnsim.storage import checkpoints, names, producer_snapshot
from txnsim.storage.regular_file import SMALL_BYTES_MAX, read_regular


def judge_partition(replicas: Sequence[Replica]) -> Iterator[Violation]:
    """All that is wrong with each replica and between them.

    Args:
        replicas: By broker, each with at least one part, by offset.

    Raises:
        OSError: A file can't be read.
    """
    for facts, parts in replicas:
        directory = Path(facts.replica.path)
        snapshots, broken = read_snapshots(directory)
        for one in (*broken, *_unreadable_epochs(directory)):
            yield facts.finding(one, segment_end=parts[-1].end_offset)
        yield from judge_replica(facts, parts, snapshots)
    yield from judge_replicas(replicas)


def read_snapshots(
    directory: Path,
) -> tuple[dict[int, tuple[SnapshotEntry, ...]], tuple[Broken, ...]]:
    """The readable snapshots of a replica by offset, and what is wrong with the others."""
    found: dict[int, tuple[SnapshotEntry, ...]] = {}
    broken: list[Broken] = []
    for offset, path in names.numbered_files(directory, names.SNAPSHOT_SUFFIX):
        try:
            found[offset] = producer_snapshot.decode(read_regular(path))
        except (OSError, CorruptLogRecordError) as error:
            broken.append(
                Broken(
                    rule=Invariant.UNREADABLE_FILE,
                    file=path.name,
                    offset=offset,
                    found=why(error),
                    expected="a snapshot of producers (ProducerSnapshot.json)",
                )
            )
    return found, tuple(broken)


def read_epochs(directory: Path) -> tuple[tuple[int, int], ...] | None:
    """(leader epoch, first offset) of a replica's checkpoint; None without a readable one."""
    path = directory / names.LEADER_EPOCHS_NAME
    try:
        return checkpoints.decode_leader_epochs(_text(path), place=path.name)
    except (OSError, UnicodeDecodeError, CorruptLogRecordError):
        return None


def _unreadable_epochs(directory: Path) -> Iterator[Broken]:
    path = directory / names.LEADER_EPOCHS_NAME
    try:
        checkpoints.decode_leader_epochs(_text(path), place=path.name)
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError, CorruptLogRecordError) as error:
        yield Broken(
            rule=Invariant.UNREADABLE_FILE,
            file=path.name,
            found=why(error),
            expected="leader epochs with their first offsets (LeaderEpochCheckpointFile)",
        )


def _text(path: Path) -> str:
    return read_regular(path, SMALL_BYTES_MAX).decode()
