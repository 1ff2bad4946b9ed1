"""Refuses reads that could only be empty, with the reason: a name that no directory has, files that
this user may not read, a worker that does not see the directory. An empty result would look like
the answer. Faults of only some files are handled by ``file_faults``.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final

from txnsim.errors import BadInputError
from txnsim.storage.regular_file import RegularFile
from txnsim.text import unknown_word_message
from txnsim_spark.options import ENDING_OFFSETS, FORMAT, STARTING_OFFSETS, KafkaLogOptions, Offsets
from txnsim_spark.scan.segments import Replica, SegmentFile, replicas_in

WITHOUT_CONTENT: Final = frozenset({"errors", "segments", "replicas"})
"""Tables that have rows even for files that can't be read."""


def refuse_unknown_names(options: KafkaLogOptions, replicas: Sequence[Replica]) -> None:
    """Refuse a topic or partition that no directory has.

    Args:
        options: The user's options.
        replicas: The replicas that are read.

    Raises:
        BadInputError: A topic or partition is not among them; the message names the option.
    """
    partitions = {str(replica.partition) for replica in replicas}
    places = {str(replica.topic_partition) for replica in replicas}
    for name, named, existing in (
        ("topics", options.topics, {replica.topic for replica in replicas}),
        ("partitions", set(map(str, options.partitions)), partitions),
        (STARTING_OFFSETS, _places(options.starting_offsets), places),
        (ENDING_OFFSETS, _places(options.ending_offsets), places),
    ):
        missing = sorted(named - existing)
        if missing:
            if name == "topics":
                existing = {replica.topic for replica in replicas_in(options.paths)}
            if missing[0] in existing:
                raise BadInputError(
                    f"format {FORMAT}: table {options.table} has nothing of topic {missing[0]}"
                )
            noun = "topic" if name == "topics" else "partition"
            problem = unknown_word_message(noun, missing[0], sorted(existing))
            raise BadInputError(f"format {FORMAT}, option {name}: {problem}")


def may_be_missing(why: str) -> BadInputError:
    """The error that ends a stream whose rows may be incomplete."""
    return BadInputError(
        f"format {FORMAT}: rows may be missing. {why}. The option failOnDataLoss=false goes on with"
        " what is there"
    )


def _places(offsets: Offsets) -> set[str]:
    return {
        f"{topic}-{partition}" for topic, partitions in offsets.items() for partition in partitions
    }


def refuse_unreadable(
    table: str, replicas: Sequence[Replica], segments: Iterable[SegmentFile], problems: list[str]
) -> None:
    """Refuse a read of which nothing can be opened.

    Args:
        table: Name of the table.
        replicas: Replicas whose folders can be listed.
        segments: Their segments.
        problems: Why the other folders can't be listed.

    Raises:
        BadInputError: Nothing can be opened; the message names the first file or folder.
    """
    if table in WITHOUT_CONTENT:
        return
    if not replicas and problems:
        raise BadInputError(f"format {FORMAT}: {problems[0].removesuffix('; passed by')}{_HINT}")
    first_problem = ""
    for path in chain(
        (segment.path for segment in segments if segment.size), _small_files(replicas)
    ):
        why = _why_unread(Path(path))
        if not why:
            return
        first_problem = first_problem or f"{path}: {why}"
    if first_problem:
        raise BadInputError(f"format {FORMAT}: {first_problem}; so are all other files{_HINT}")


_HINT: Final = " (the table errors says it of each)"


def _small_files(replicas: Iterable[Replica]) -> Iterator[str]:
    for replica in replicas:
        with suppress(OSError):  # gone meanwhile
            yield from (
                str(path) for path in sorted(Path(replica.path).iterdir()) if path.is_file()
            )


def _why_unread(path: Path) -> str:
    """Why no byte of a file can be read; empty if it can."""
    try:
        file = RegularFile(path).ranges()
        try:
            file.read_into(memoryview(bytearray(1)), 0)
        finally:
            file.close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def refuse_elsewhere(log_dirs: Iterable[str]) -> None:
    """Refuse a task whose directory is missing on the machine that runs it: each file would count
    as deleted by retention.

    Raises:
        BadInputError: There is no such directory.
    """
    for log_dir in log_dirs:
        if not Path(log_dir).is_dir():
            raise BadInputError(
                f"format {FORMAT}: {log_dir} is no directory on {platform.node()}: driver and"
                " workers have to see it under the same path"
            )
