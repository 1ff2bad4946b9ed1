"""Keeps the results of a search in a file, so that the next search reads only new data
(``find-hanging --since``). The answer equals that of a search that reads everything. For each sound
segment the file has what each producer did there and which offsets are missing. A closed segment of
the same size is not read again; of the last segment only the rest is read, as a section. If two
logs have a batch with the same offset and leader epoch, all earlier batches are the same, too
(Kafka's log matching). So the last batch that was read shows whether another leader has cut the log
back since. If so, or if anything else does not fit, the replica is read from the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.errors import BadInputError
from txnsim.files import read_given, write_whole
from txnsim.wire.batch import read_batch_header
from txnsim_spark.forensics.replica_state import ReplicaMemory, ReplicaState
from txnsim_spark.scan.log_seek import header_at, last_batch_position
from txnsim_spark.stores.mirror import with_store_names

if TYPE_CHECKING:
    from txnsim_spark.forensics._read_compiled import ReplicaRead

VERSION: Final = 1
MEMORY_BYTES_MAX: Final = 1 << 30
"""Largest state of a search, in bytes; a replica takes some hundred."""


class _MemoryFile(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    replicas: Mapping[str, ReplicaMemory] = {}
    """Path of the replica's folder -> what was read of it."""


class Memory:
    """The results of a search, kept in a file for the next one.

    Args:
        path: The file; for a first search it does not exist yet.

    Raises:
        BadInputError: The file is of another kind.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._new_replicas: dict[str, ReplicaMemory] = {}
        try:
            memory_file = msgspec.msgpack.decode(
                read_given(path, bytes_max=MEMORY_BYTES_MAX), type=_MemoryFile
            )
        except FileNotFoundError:
            memory_file = _MemoryFile(version=VERSION)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise BadInputError(f"{path}: no state of 'find-hanging --since': {error}") from error
        if memory_file.version != VERSION:
            raise BadInputError(f"{path}: of version {memory_file.version}, {VERSION} is read")
        self._old_replicas = memory_file.replicas

    def with_memory(self, state: ReplicaState) -> ReplicaState:
        """The replica's state with the results of the previous search."""
        replica_memory = self._old_replicas.get(with_store_names(state.replica.path))
        if replica_memory is None or not _memory_is_valid(replica_memory, state):
            replica_memory = ReplicaMemory()
        return msgspec.structs.replace(state, memory=replica_memory)

    def take(self, state: ReplicaState, read: ReplicaRead) -> None:
        """Keep the result for a replica. Without its last segment nothing would tell whether the
        log was cut back.
        """
        if not read.segment_memories:
            return
        last_segment = next(
            segment
            for segment in reversed(state.unread_segments)
            if segment.base_offset in read.segment_memories
        )
        try:
            position, header = last_batch_position(last_segment)
        except OSError:  # gone meanwhile
            return
        if header:
            self._new_replicas[with_store_names(state.replica.path)] = ReplicaMemory(
                topic_id=state.topic_id,
                end_offset=read_batch_header(header).last_offset + 1,
                newest=last_segment.base_offset,
                last_position=position,
                last_header=header,
                segments={
                    base_offset: segment_memory
                    for base_offset, segment_memory in read.segment_memories.items()
                    if base_offset <= last_segment.base_offset
                },
            )

    def write(self) -> None:
        """Write the file for the next search.

        Raises:
            ConfigError: The file can't be written.
        """
        data = msgspec.msgpack.encode(_MemoryFile(version=VERSION, replicas=self._new_replicas))
        write_whole(self._path, data)


def _memory_is_valid(replica_memory: ReplicaMemory, state: ReplicaState) -> bool:
    """Whether the log still has the last read batch at its position."""
    newest_base_offset = replica_memory.newest
    segment = next(
        (segment for segment in state.segments if segment.base_offset == newest_base_offset), None
    )
    if segment is None or segment.size < replica_memory.segments[newest_base_offset].size:
        return False
    try:
        has_same_last_batch = (
            header_at(segment, replica_memory.last_position) == replica_memory.last_header
        )
    except OSError:  # told by who reads it
        return False
    return has_same_last_batch and replica_memory.topic_id == state.topic_id
