"""Handles files that differ from the plan of a ``kafka_log`` read. They raise an error, unless an
option ignores them: fewer rows would look like the answer. The options are those of Spark's own
sources: ``ignoreMissingFiles`` for files and folders that are gone, ``ignoreCorruptFiles`` for all
other faults. What they ignore is a row of the table ``errors``. Spark's counterpart: FileScanRDD.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from txnsim_spark.options import FORMAT, KafkaLogError, KafkaLogOptions
from txnsim_spark.scan.segments import SegmentDamage, SegmentFile
from txnsim_spark.stores.uris import refuse_outage

IGNORE_MISSING: Final = "ignoreMissingFiles"
IGNORE_CORRUPT: Final = "ignoreCorruptFiles"


class LogFileError(KafkaLogError):
    """A file of a log directory can't be read as it was planned.

    Args:
        problem: A sentence with the file, the place in it and what is wrong.
        hint: Advice for a user of the data source.
    """

    condition = "KAFKA_LOG_UNREADABLE_FILE"
    sql_state = "KD001"  # as Spark's FAILED_READ_FILE

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem, hint)
        self.problem = problem
        self._hint = hint

    @property
    def text(self) -> str:
        return f"format {FORMAT}: {self.problem}. {self._hint}".rstrip()


class MissingLogFileError(LogFileError):
    """A file or folder that was planned is gone."""

    condition = "KAFKA_LOG_MISSING_FILE"


class CorruptLogFileError(LogFileError):
    """A file is damaged, shorter than planned, or can't be read."""

    condition = "KAFKA_LOG_CORRUPT_FILE"


def refuse_damage(segment: SegmentFile, damage: SegmentDamage, options: KafkaLogOptions) -> None:
    """Refuse a segment that has lost records, unless the options ignore that.

    Args:
        segment: The segment, up to its planned size.
        damage: The place where it becomes malformed.
        options: Options of the read.

    Raises:
        CorruptLogFileError: Records are lost; the message names file, byte and offset.
        OSError: The segment can't be read any more.
    """
    from txnsim_spark.scan.log_end import is_log_end  # planning does without numpy

    if options.passes_over_corrupt or is_log_end(segment, damage):
        return
    cut_text = ""
    if segment.is_recovered and damage.offset is not None:
        cut_text = f", from offset {damage.offset} on; a starting broker cuts the log off there"
    raise CorruptLogFileError(
        f"{segment.path}, byte {damage.position}: {damage.reason}{cut_text}", _corrupt_hint(options)
    )


def refuse_file(path: Path, reason: str, options: KafkaLogOptions) -> None:
    """Refuse a small file whose content is malformed, unless the options ignore that.

    Raises:
        CorruptLogFileError: The file is refused.
    """
    refuse_problem(reason if reason.startswith(str(path)) else f"{path}: {reason}", options)


def refuse_problem(problem: str, options: KafkaLogOptions) -> None:
    """Refuse a file or folder, unless the options ignore the problem. ``problem`` is a sentence
    that begins with its path.

    Raises:
        CorruptLogFileError: The file is refused.
    """
    if not options.passes_over_corrupt:
        raise CorruptLogFileError(problem, _corrupt_hint(options))


def refuse_unreadable(error: OSError, path: str, options: KafkaLogOptions) -> None:
    """Refuse a file or folder that the operating system can't open or read, unless the options
    ignore that.

    Args:
        error: The error of the system.
        path: The file, if the error does not name it.
        options: Options of the read.

    Raises:
        MissingLogFileError: The file is gone.
        CorruptLogFileError: The file exists, but can't be read.
        BadInputError: A store does not answer; no option ignores that.
    """
    refuse_outage(error)
    unreadable_path = error.filename or path
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        if not options.passes_over_missing:
            raise MissingLogFileError(
                f"{unreadable_path} is gone since the read was planned",
                "Retention of a running broker, a copy that goes on or a disk that was unmounted"
                f" takes files: load again to read what is there now. {_missing_hint(options)}",
            ) from error
    elif not options.passes_over_corrupt:
        reason = error.strerror or str(error)
        raise CorruptLogFileError(f"{unreadable_path}: {reason}", _corrupt_hint(options)) from error


def _corrupt_hint(options: KafkaLogOptions) -> str:
    if options.follows:
        return "The option failOnDataLoss=false goes on with what is there"
    return (
        f"The option {IGNORE_CORRUPT}=true reads the rest, and the table errors then names what is"
        " passed over"
    )


def _missing_hint(options: KafkaLogOptions) -> str:
    if options.follows:
        return "The option failOnDataLoss=false goes on with what is there"
    return f"The option {IGNORE_MISSING}=true reads the rest"
