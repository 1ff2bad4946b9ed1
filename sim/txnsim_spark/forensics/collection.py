"""What one broker's log directories tell a search for hanging transactions, in one small archive.

``logs collect`` reads on the broker what ``find-hanging`` reads there: small files, the segments
behind the newest snapshots, coordinators' logs, the copy of the metadata log. The archive holds the
results and no records. The archives of all brokers are judged in one place (``collected_reading``),
by the same functions.

A running broker goes on writing meanwhile. Its notes are read before its logs, so a log has at
least what the notes say. A replica whose end was read in the middle of a write is read again.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from txnsim.errors import BadInputError
from txnsim.files import whole
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition
from txnsim_spark.engine import Progress
from txnsim_spark.forensics._coordinator_log import Replayed, replayed
from txnsim_spark.forensics._evidence import Assignment, StartBatch
from txnsim_spark.forensics._metadata_copies import known_topics_in
from txnsim_spark.forensics._read_notes import Gap, ReadNotes
from txnsim_spark.forensics._start_batch import Lookups
from txnsim_spark.forensics.find_hanging import NOT_JUDGED, Opened, Reading, Search
from txnsim_spark.forensics.replica_state import ReplicaState
from txnsim_spark.forensics.verdicts import OpenTxn
from txnsim_spark.scan.log_dirs import meta_of
from txnsim_spark.scan.log_seek import markers_in
from txnsim_spark.targets import refuse_existing

VERSION: Final = 1
MANIFEST: Final = "manifest.json"
REPLICAS: Final = "replicas.msgpack"
COORDINATORS: Final = "coordinators.msgpack"
METADATA: Final = "metadata.msgpack"
TRIES: Final = 3
"""That a replica is read whose end makes no sense, while its broker may run."""
MEMBER_BYTES_MAX: Final = 4 << 30
"""Limit for a member of an archive, by its declared and by its actual size."""
MANIFEST_BYTES_MAX: Final = 16 << 20
FREE_BYTES: Final = 1 << 30
"""Memory that reading an archive may take. It does not depend on the archive's size."""
MEMORY_TIMES_MAX: Final = 50
"""And so many times the size of the file, where that is more: it is packed, and an entry of two
bytes is an object of a hundred.
"""

T = TypeVar("T")


class CollectedTxn(msgspec.Struct, frozen=True, kw_only=True):
    """An open transaction, with what was looked up about it."""

    txn: OpenTxn
    start_batch: StartBatch
    gaps: tuple[Gap, ...] = ()


class CollectedReplica(msgspec.Struct, frozen=True, kw_only=True):
    """A replica."""

    state: ReplicaState
    """Without its segments."""
    unread_bytes: int = 0
    """Bytes left to read, which were read for the archive."""
    was_read: bool = False
    notes: ReadNotes = ReadNotes()
    opened: tuple[CollectedTxn, ...] = ()
    markers: Mapping[int, int] = {}
    """Producer id -> offset of its last marker, of those at ``markers_from`` and behind."""
    markers_from: int = 0


class CollectedLog(msgspec.Struct, frozen=True, kw_only=True):
    """A replica of a partition of ``__transaction_state``, replayed."""

    path: str
    log: Replayed


class CollectedMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of the metadata log."""

    assignments: tuple[tuple[TopicPartition, Assignment], ...]
    topic_ids: Mapping[str, str] | None = None
    """Name -> id of the topics that live; None in archives of older releases."""
    removed: frozenset[str] = frozenset()
    """Ids of topics that were deleted, as far back as its records go."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Contents and costs of an archive."""

    version: int = VERSION
    collected_at_ms: int
    brokers: tuple[int, ...]
    log_dirs: tuple[str, ...]
    replicas: int
    coordinator_logs: int
    open_transactions: int
    segment_bytes: int
    """Of all segments in the directories."""
    read_bytes: int
    """Of segments that were read."""
    read_again: int
    """Replicas whose end was caught in the middle of a write."""
    newest_ms: int
    """The newest time that the broker's notes bear."""
    metadata_age: tuple[int, int] | None
    """Of the copy of the metadata log; null where there is none."""
    is_metadata_whole: bool = False
    """Whether the copy of the metadata log exists and is complete."""
    cluster_id: str = ""
    problems: tuple[str, ...]


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of an archive."""

    manifest: Manifest
    replicas: tuple[CollectedReplica, ...]
    logs: tuple[CollectedLog, ...]
    metadata: CollectedMetadata | None


def collect(paths: Sequence[Path], *, now_ms: int, progress: Progress) -> Collection:
    """Read log directories of a broker that runs or has stopped.

    Args:
        paths: Its log directories.
        now_ms: This machine's clock.
        progress: Called with what is done now.

    Raises:
        MissingExtraError: Much is to be read, and the libraries of the compiled walk are missing.
    """
    search = Search(paths=tuple(paths), now_ms=now_ms, never_spark=True)
    reading = Reading(search, progress=progress)
    states = list(reading.states())
    opened = dict(reading.opened(_judged(states)))
    read = dict.fromkeys((one.replica.path for one in states), reading)
    again: set[str] = set()
    for _ in range(TRIES - 1):
        odd = [one for one in states if not one.is_clean and _is_odd(one, read)]
        if not odd:
            break
        again.update(one.replica.path for one in odd)
        _read_again(odd, states, opened, read, search, progress)
    problems = {problem: None for one in dict.fromkeys(read.values()) for problem in one.problems}
    found = [
        _replica(state, read[state.replica.path], opened)
        for state in states
        if state.replica.topic != TRANSACTION_STATE_TOPIC
    ]
    logs = tuple(
        CollectedLog(path=one.replica.path, log=replayed(one, problems.setdefault))
        for one in states
        if one.replica.topic == TRANSACTION_STATE_TOPIC
    )
    log_dirs = tuple(dict.fromkeys(one.replica.log_dir for one in states))
    known = known_topics_in(map(Path, log_dirs), problems.setdefault)
    coordinators = [
        CollectedReplica(state=_light(one))
        for one in states
        if one.replica.topic == TRANSACTION_STATE_TOPIC
    ]
    return Collection(
        manifest=Manifest(
            collected_at_ms=now_ms,
            brokers=tuple(sorted({one.replica.broker for one in states})),
            log_dirs=log_dirs,
            replicas=len(found),
            coordinator_logs=len(logs),
            open_transactions=sum(len(one.opened) for one in found),
            segment_bytes=sum(segment.size for one in states for segment in one.segments),
            read_bytes=sum(_bytes_read(one) for one in states),
            read_again=len(again),
            newest_ms=reading.newest_note_ms,
            metadata_age=known.age,
            is_metadata_whole=bool(known.brokers),
            cluster_id=_cluster_of(log_dirs),
            problems=tuple(sorted(problems)),
        ),
        replicas=(*found, *coordinators),
        logs=logs,
        metadata=None
        if known.age is None
        else CollectedMetadata(
            assignments=tuple(known.assignments.items()),
            topic_ids=known.topic_ids,
            removed=known.removed,
        ),
    )


def _cluster_of(log_dirs: Iterable[str]) -> str:
    told = (meta_of(Path(log_dir)) for log_dir in log_dirs)
    return next((meta.cluster_id for meta in told if meta is not None), "")


def _judged(states: Sequence[ReplicaState]) -> list[ReplicaState]:
    return [one for one in states if one.replica.topic not in NOT_JUDGED]


def _is_odd(state: ReplicaState, read: Mapping[str, Reading]) -> bool:
    """Whether its end may have been caught in the middle of a write."""
    return bool(state.damage) or read[state.replica.path].notes_on(state).cut_off is not None


def _read_again(
    odd: Sequence[ReplicaState],
    states: list[ReplicaState],
    opened: dict[str, Mapping[int, OpenTxn]],
    read: dict[str, Reading],
    search: Search,
    progress: Progress,
) -> None:
    paths = tuple(Path(one.replica.path) for one in odd)
    reading = Reading(msgspec.structs.replace(search, paths=paths), progress=progress)
    newer = {one.replica.path: one for one in reading.states()}
    found = reading.opened(_judged(list(newer.values())))
    for number, state in enumerate(states):
        path = state.replica.path
        if path in newer:
            states[number] = newer[path]
            read[path] = reading
            opened.pop(path, None)
    opened.update(found)


def _replica(state: ReplicaState, reading: Reading, opened: Opened) -> CollectedReplica:
    notes = reading.notes_on(state)
    (cut,) = reading.as_read([state])
    lookups = Lookups(cut, opened.get(state.replica.path, {}))
    markers_from, markers = _markers(state)
    return CollectedReplica(
        state=_light(cut),
        unread_bytes=state.unread_bytes,
        was_read=bool(state.unread),
        notes=notes,
        opened=tuple(
            CollectedTxn(
                txn=txn,
                start_batch=lookups.start_batch_of(txn),
                gaps=lookups.gaps_behind(notes, txn.start_offset),
            )
            for txn in lookups.dated().values()
        ),
        markers=markers,
        markers_from=markers_from,
    )


def _light(state: ReplicaState) -> ReplicaState:
    return msgspec.structs.replace(state, segments=(), unread=(), seeds={})


def _bytes_read(state: ReplicaState) -> int:
    if state.replica.topic == TRANSACTION_STATE_TOPIC:
        return sum(one.size for one in state.segments)
    return max(state.unread_bytes, _last_bytes(state))


def _last_bytes(state: ReplicaState) -> int:
    return state.segments[-1].size if state.segments else 0


def _markers(state: ReplicaState) -> tuple[int, dict[int, int]]:
    """(first offset searched for markers, last marker per producer)."""
    filled = [one for one in state.segments if one.size]
    first = state.unread[0].base_offset if state.unread else state.ends.end_offset
    if filled:
        first = min(first, filled[-1].base_offset)
    found: dict[int, int] = {}
    for segment in filled:
        if segment.base_offset >= first:
            with suppress(OSError):  # reported where the replica was looked at
                found.update(markers_in(segment, segment.base_offset))
    return first, found


# The archive


def write_archive(target: Path, collection: Collection) -> int:
    """Write an archive; how many bytes it has.

    Raises:
        BadInputError: It is there already, or can't be written.
    """
    refuse_existing(target, "file")
    with whole(target) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        manifest = msgspec.json.format(msgspec.json.encode(collection.manifest), indent=2)
        archive.writestr(MANIFEST, manifest)
        archive.writestr(REPLICAS, msgspec.msgpack.encode(collection.replicas))
        archive.writestr(COORDINATORS, msgspec.msgpack.encode(collection.logs))
        if collection.metadata is not None:
            archive.writestr(METADATA, msgspec.msgpack.encode(collection.metadata))
    return target.stat().st_size


def is_archive(path: Path) -> bool:
    """Whether a path is a file, as archives are, and no log directory."""
    return path.is_file()


def manifest_of(path: Path) -> Manifest:
    """What is in an archive.

    Raises:
        BadInputError: It is none, or of another version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            data = _read(archive, path, MANIFEST, at_most=MANIFEST_BYTES_MAX)
            version = msgspec.json.decode(data, type=_Version).version
            if version != VERSION:
                raise BadInputError(f"{path}: an archive of version {version}, {VERSION} is read")
            return msgspec.json.decode(data, type=Manifest)
    except _NO_ARCHIVE as error:
        raise BadInputError(f"{path}: no archive of 'txnsim logs collect': {error}") from error


def _read(archive: zipfile.ZipFile, path: Path, name: str, *, at_most: int) -> bytes:
    """A part. What it says of its size is somebody's word: no more is unpacked than may be.

    Raises:
        BadInputError: It is larger.
    """
    info = archive.getinfo(name)
    if info.file_size <= at_most:
        with archive.open(info) as part:
            data = part.read(at_most + 1)
        if len(data) <= at_most:
            return data
    raise BadInputError(f"{path}: {name} has more than {at_most:,} bytes, more than are read")


@contextmanager
def _bounded_memory(path: Path) -> Iterator[None]:
    """Let this process take so much more memory for a file; more is a MemoryError. Where the system
    does not know what a process has there is no bound.
    """
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text("ascii").split()[5])
    except (ImportError, OSError):
        yield
        return
    more = max(FREE_BYTES, MEMORY_TIMES_MAX * path.stat().st_size)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = pages * resource.getpagesize() + more
    soft = wanted if before[0] == resource.RLIM_INFINITY else min(wanted, before[0])
    resource.setrlimit(resource.RLIMIT_DATA, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


_NO_ARCHIVE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    KeyError,
    OSError,
    EOFError,
    RuntimeError,
    msgspec.MsgspecError,
)
"""What reading bytes of others raises; RuntimeError where they want a password."""


class _Version(msgspec.Struct, frozen=True):
    version: int


def member_of(path: Path, name: str, kind: type[T]) -> T:
    """One part of an archive.

    Args:
        path: The archive.
        name: ``REPLICAS``, ``COORDINATORS`` or ``METADATA``.
        kind: Its type.

    Raises:
        BadInputError: It can't be read.
    """
    try:
        with zipfile.ZipFile(path) as archive, _bounded_memory(path):
            data = _read(archive, path, name, at_most=MEMBER_BYTES_MAX)
            return msgspec.msgpack.decode(data, type=kind)
    except MemoryError:
        raise BadInputError(
            f"{path}: {name} takes far more memory than the file is large"
        ) from None
    except _NO_ARCHIVE as error:
        raise BadInputError(f"{path}: {name}: {error}") from error
