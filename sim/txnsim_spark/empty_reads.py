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
from txnsim_spark.options import (
    ENDING_OFFSETS,
    FORMAT,
    STARTING_OFFSETS,
    KafkaLogError,
    KafkaLogOptions,
    Offsets,
)
from txnsim_spark.scan.segments import Replica, SegmentFile, replicas_in

TABLES_WITHOUT_CONTENT: Final = frozenset({"errors", "segments", "replicas"})
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
    existing_partitions = {str(replica.topic_partition) for replica in replicas}
    for option_name, asked_names, existing_names in (
        ("topics", options.topics, {replica.topic for replica in replicas}),
        ("partitions", set(map(str, options.partitions)), partitions),
        (STARTING_OFFSETS, _partition_names(options.starting_offsets), existing_partitions),
        (ENDING_OFFSETS, _partition_names(options.ending_offsets), existing_partitions),
    ):
        missing_names = sorted(asked_names - existing_names)
        if missing_names:
            if option_name == "topics":
                existing_names = {replica.topic for replica in replicas_in(options.paths)}
            if missing_names[0] in existing_names:
                raise BadInputError(
                    f"format {FORMAT}: table {options.table} has nothing of topic"
                    f" {missing_names[0]}"
                )
            noun = "topic" if option_name == "topics" else "partition"
            problem = unknown_word_message(noun, missing_names[0], sorted(existing_names))
            raise BadInputError(f"format {FORMAT}, option {option_name}: {problem}")


class LostRowsError(KafkaLogError):
    """Rows of a stream may be missing."""

    condition = "KAFKA_LOG_DATA_LOSS"
    sql_state = "22000"  # as KAFKA_DATA_LOSS of Spark's own source for Kafka


def lost_rows_error(reason: str) -> LostRowsError:
    """The error that ends a stream whose rows may be incomplete."""
    return LostRowsError(
        f"format {FORMAT}: rows may be missing. {reason}. The option failOnDataLoss=false goes on"
        " with"
        " what is there"
    )


def _partition_names(offsets: Offsets) -> set[str]:
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
    if table in TABLES_WITHOUT_CONTENT:
        return
    if not replicas and problems:
        raise BadInputError(
            f"format {FORMAT}: {problems[0].removesuffix('; passed by')}{_ERRORS_TABLE_HINT}"
        )
    first_problem = ""
    for path in chain(
        (segment.path for segment in segments if segment.size), _small_files(replicas)
    ):
        reason = _read_failure(Path(path))
        if not reason:
            return
        first_problem = first_problem or f"{path}: {reason}"
    if first_problem:
        raise BadInputError(
            f"format {FORMAT}: {first_problem}; so are all other files{_ERRORS_TABLE_HINT}"
        )


_ERRORS_TABLE_HINT: Final = " (the table errors says it of each)"


def _small_files(replicas: Iterable[Replica]) -> Iterator[str]:
    for replica in replicas:
        with suppress(OSError):  # gone meanwhile
            yield from (
                str(path) for path in sorted(Path(replica.path).iterdir()) if path.is_file()
            )


def _read_failure(path: Path) -> str:
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


def refuse_missing_directories(log_dirs: Iterable[str]) -> None:
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
