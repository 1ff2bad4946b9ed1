"""Options of the data source ``kafka_log``, read once, on the driver.

A name may be written in any case, with or without underscores, as with Spark's own sources
(``taskBytes``, ``TASKBYTES``, ``task_bytes``). A value is used as it is written, except for true
and false. An unknown option is refused, because a typing error would otherwise change an answer
silently.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from enum import Enum
from glob import glob
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from txnsim.errors import BadInputError
from txnsim_spark.schemas import BY_PRODUCER, OFFSET_COLUMNS, TABLES, TIME_COLUMNS
from txnsim_spark.stores.uris import is_elsewhere

T = TypeVar("T")
Offsets = Mapping[str, Mapping[int, int]]
"""Topic -> partition -> offset."""

FORMAT: Final = "kafka_log"
COSTS: Final = {
    "batches": 1.0,
    "records": 2.0,
    "transactions": 16.0,
    "offsets": 16.0,
    "share_states": 16.0,
}
"""Table -> the cost of a byte of a log, in bytes of a file as Spark's own sources read them. With
Spark's defaults a task takes about a second.
"""
HEADERS_COST: Final = 0.25
"""Cost factor of all other tables."""
OPEN_COST: Final = 1 / 64
"""Cost of opening a segment, as a share of the cost that Spark's own sources assume for a file:
with Spark's default it equals 256 kB of headers.
"""
PATH_SEPARATOR: Final = ","
EARLIEST, LATEST = "earliest", "latest"
_EARLIEST_OFFSET, _LATEST_OFFSET = -2, -1
"""The numbers by which Spark's own source for Kafka writes earliest and latest."""
HADOOP_PREFIX: Final = "fs."
"""Prefix of options that are settings of Hadoop's file systems, as with Spark's own sources."""


class Check(Enum):
    """Which batches get their CRC computed. Compressed batches always do when their records are
    read: it costs little compared with decompression.
    """

    AUTO = "auto"
    """All batches, if the log directory has no clean-shutdown file. Everything that a starting
    broker would cut off after the recovery point is left out.
    """
    ALL = "true"
    NONE = "false"
    """Compressed batches only; nothing is cut off."""


class KafkaLogError(BadInputError):
    """The error that Spark raises if ``kafka_log`` refuses a read or fails: its whole text, and its
    last line, is the message.
    """


class Division(msgspec.Struct, frozen=True, kw_only=True):
    """How a session divides files into tasks; Spark's defaults. Spark's counterpart:
    FilePartition.maxSplitBytes.
    """

    max_partition_bytes: int = 128 << 20
    """``spark.sql.files.maxPartitionBytes``."""
    open_cost_bytes: int = 4 << 20
    """``spark.sql.files.openCostInBytes``."""
    parallelism: int | None = None
    """Minimum number of tasks; None for the number of cores."""


class FileTolerance(msgspec.Struct, frozen=True, kw_only=True):
    """Faults of files that a session's reads ignore, unless their options say otherwise; Spark's
    defaults.
    """

    ignore_missing_files: bool = False
    """``spark.sql.files.ignoreMissingFiles``."""
    ignore_corrupt_files: bool = False
    """``spark.sql.files.ignoreCorruptFiles``."""


class KafkaLogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the data source."""

    paths: tuple[Path, ...]
    """Log directories of brokers, folders of such directories, or replicas' own folders."""
    uris: tuple[str, ...] = ()
    """Paths in object stores, and patterns of them."""
    hadoop: Mapping[str, str] = {}
    """Settings of Hadoop (``fs.…``) for this read; they override the session's."""
    table: str = "batches"
    topics: frozenset[str] = frozenset()
    """The topics to read; empty for all."""
    partitions: frozenset[int] = frozenset()
    """Numbers of the partitions to read; empty for all."""
    producer_ids: frozenset[int] = frozenset()
    """Only rows of these producers are read; empty for all."""
    starting_offsets: Offsets = {}
    """Rows below these offsets are left out; a partition that is not named is read from its
    beginning.
    """
    ending_offsets: Offsets = {}
    """Rows at or above these offsets are left out; a partition that is not named is read to its
    end.
    """
    starts_latest: bool = False
    """Whether a new stream begins at the end of the logs."""
    start_ms: int | None = None
    """Rows of an earlier timestamp are left out."""
    end_ms: int | None = None
    """Rows of this timestamp or a later one are left out."""
    check_crc: Check = Check.AUTO
    check_records: bool = False
    """Look into every batch for the table of errors."""
    late_by_max_ms: int | None = None
    """Maximum disorder of timestamps within a log in milliseconds; None for no limit."""
    task_bytes: int | None = None
    """Bytes of logs per task; None: divided as Spark divides its own files."""
    division: Division = Division()
    as_of_ms: int | None = None
    """For the table ``findings``: the time from which ages are counted; None for the newest time in
    the directories.
    """
    max_transaction_timeout_ms: int | None = None
    """For the table ``findings``: younger transactions are not called hanging; None: 15 minutes."""
    fail_on_data_loss: bool = True
    """Whether a stream ends if unread rows are gone."""
    ignore_missing_files: bool | None = None
    """Whether files that are gone since the read was planned are ignored; None: as the session
    says.
    """
    ignore_corrupt_files: bool | None = None
    """Whether damaged and unreadable files are ignored; None: as the session says."""
    follows: bool = False
    """Whether the read is by a stream, not a batch query."""
    max_bytes_per_trigger: int | None = None
    """Maximum bytes of logs in one batch of a stream; None for all available."""
    max_files_per_trigger: int | None = None
    """Maximum segments in one batch of a stream; None for all available."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> KafkaLogOptions:
        """Parse the options that a user has given.

        Raises:
            BadInputError: An option is missing, unknown or wrong; the message names the option.
        """
        own = _own(options)
        hadoop = {key: value for key, value in own.items() if key.startswith(HADOOP_PREFIX)}
        by_name = {
            key.lower().replace("_", ""): value for key, value in own.items() if key not in hadoop
        }
        for name in by_name:
            if name not in _KNOWN:
                raise _unknown_option(name)
        table = by_name.get("table", "batches")
        if table not in TABLES:
            raise _wrong("table", table, f"one of {', '.join(TABLES)}")
        for name, its_tables in _OF_TABLES.items():
            if name.lower() in by_name and table not in its_tables:
                whose = f"table{'s' * (len(its_tables) > 1)} {', '.join(its_tables)}"
                raise BadInputError(f"format {FORMAT}, option {name}: only of the {whose}")
        if "maxbytespertrigger" in by_name and "maxfilespertrigger" in by_name:
            raise BadInputError(
                f"format {FORMAT}: maxBytesPerTrigger and maxFilesPerTrigger: give one of them"
            )
        texts = _paths(by_name)
        return cls(
            paths=tuple(
                path for text in texts if not is_elsewhere(text) for path in _directories_of(text)
            ),
            uris=tuple(filter(is_elsewhere, texts)),
            hadoop=hadoop,
            table=table,
            topics=_set_of_words(by_name, "topics", "names", str),
            partitions=_set_of_words(by_name, "partitions", "numbers", int),
            producer_ids=_set_of_words(by_name, "producerIds", "numbers", int),
            starting_offsets=_offsets(by_name, STARTING_OFFSETS, EARLIEST, _EARLIEST_OFFSET),
            ending_offsets=_offsets(by_name, ENDING_OFFSETS, LATEST, _LATEST_OFFSET),
            starts_latest=by_name.get(STARTING_OFFSETS.lower(), "").lower() == LATEST,
            start_ms=_time_ms(by_name, "startTimestamp"),
            end_ms=_time_ms(by_name, END_TIMESTAMP),
            check_crc=_check(by_name.get("checkcrc", Check.AUTO.value)),
            check_records=_truth("checkRecords", by_name.get("checkrecords", "false")),
            late_by_max_ms=_number(by_name, "lateByMaxMs", "milliseconds"),
            task_bytes=_size(by_name, "taskBytes"),
            as_of_ms=_time_ms(by_name, "asOf"),
            max_transaction_timeout_ms=_number(by_name, "maxTransactionTimeoutMs", "milliseconds"),
            fail_on_data_loss=_truth("failOnDataLoss", by_name.get("failondataloss", "true")),
            ignore_missing_files=_truth_or_none(by_name, "ignoreMissingFiles"),
            ignore_corrupt_files=_truth_or_none(by_name, "ignoreCorruptFiles"),
            max_bytes_per_trigger=_size(by_name, "maxBytesPerTrigger"),
            max_files_per_trigger=_number(by_name, "maxFilesPerTrigger", "segments"),
        )

    @property
    def passes_over_missing(self) -> bool:
        """Whether a read leaves out missing files instead of ending."""
        return bool(self.ignore_missing_files) or self._goes_on

    @property
    def passes_over_corrupt(self) -> bool:
        """Whether a read leaves out damage instead of ending."""
        return bool(self.ignore_corrupt_files) or self._goes_on

    @property
    def _goes_on(self) -> bool:
        return self.follows and not self.fail_on_data_loss


def kept_by_catalog(options: Mapping[str, str]) -> dict[str, str] | None:
    """The options of a ``CREATE TABLE`` for later reads: without those that the catalog adds, with
    absolute paths, and without settings of stores, which may be secrets. None for any other read.
    """
    if options.get(_PROVIDER) != FORMAT:
        return None
    own_options = {
        name: text
        for name, text in _own(options).items()
        if name not in ("path", "paths") and not name.startswith(HADOOP_PREFIX)
    }
    paths = [text if is_elsewhere(text) else str(_absolute(text)) for text in _paths(options)]
    return {**own_options, "paths": msgspec.json.encode(paths).decode()}


def _own(options: Mapping[str, str]) -> Mapping[str, str]:
    """The options without those that Spark's catalog adds to a ``CREATE TABLE``."""
    if options.get(_PROVIDER) != FORMAT:
        return options
    return {
        name: text
        for name, text in options.items()
        if name not in _OF_CATALOG and not name.startswith("option.")
    }


_PROVIDER: Final = "provider"
_OF_CATALOG: Final = frozenset(
    {_PROVIDER, "location", "owner", "external", "is_managed_location", "comment", "collation"}
)
STARTING_OFFSETS: Final = "startingOffsets"
ENDING_OFFSETS: Final = "endingOffsets"
END_TIMESTAMP: Final = "endTimestamp"
NAMES: Final = (
    *("path", "paths", "table", "topics", "partitions", "producerIds"),
    *(STARTING_OFFSETS, ENDING_OFFSETS, "startTimestamp", END_TIMESTAMP),
    *("checkCrc", "checkRecords", "taskBytes", "asOf", "maxTransactionTimeoutMs"),
    *("maxBytesPerTrigger", "maxFilesPerTrigger", "lateByMaxMs", "failOnDataLoss"),
    *("ignoreMissingFiles", "ignoreCorruptFiles"),
)
_KNOWN: Final = {name.lower(): name for name in NAMES}
_OF_TABLES: Final[Mapping[str, Collection[str]]] = {
    **dict.fromkeys(("asOf", "maxTransactionTimeoutMs"), ("findings",)),
    "partitions": [name for name in TABLES if name != "findings"],
    "producerIds": sorted(BY_PRODUCER),
    **dict.fromkeys((STARTING_OFFSETS, ENDING_OFFSETS), OFFSET_COLUMNS),
    **dict.fromkeys(("startTimestamp", END_TIMESTAMP), TIME_COLUMNS),
}
"""Option -> the tables it applies to; an option that is missing here applies to every table."""


def tables_with(name: str) -> Collection[str]:
    """Names of the tables that an option applies to."""
    return _OF_TABLES.get(_KNOWN.get(name.lower().replace("_", ""), name), TABLES)


_TRUTH: Final = {"true": True, "false": False}


def _unknown_option(name: str) -> BadInputError:
    near = difflib.get_close_matches(name, _KNOWN, n=1)
    hint = f"did you mean {_KNOWN[near[0]]}?" if near else f"there are {', '.join(NAMES)}"
    return BadInputError(f"format {FORMAT}: there is no option {name!r}; {hint}")


def _wrong(name: str, value: str, expected: str) -> BadInputError:
    return BadInputError(f"format {FORMAT}, option {name}: {value!r}, expected {expected}")


def _paths(options: Mapping[str, str]) -> list[str]:
    """The paths in ``path`` (separated by commas) and ``paths`` (a JSON list, as ``load([…])``
    gives it).
    """
    texts = [text.strip() for text in options.get("path", "").split(PATH_SEPARATOR) if text.strip()]
    if "paths" in options:
        try:
            texts += filter(str.strip, msgspec.json.decode(options["paths"], type=list[str]))
        except msgspec.DecodeError as error:
            raise _wrong("paths", options["paths"], "a JSON list of directories") from error
    if not texts:
        raise BadInputError(
            f"format {FORMAT}: option path is missing: log directories, separated by commas (in"
            " CREATE TABLE name no columns: Spark keeps the options with those of the source)"
        )
    return texts


def _directories_of(text: str) -> list[Path]:
    """The directories for a path or pattern, as absolute paths, so that the driver and every worker
    name them alike.
    """
    named = _absolute(text)
    matches = [] if named.exists() else sorted(glob(str(named)))
    return [Path(path) for path in matches] or [named]


def _absolute(text: str) -> Path:
    """The absolute path: workers start in other folders."""
    url = urlsplit(text)
    return Path(unquote(url.path) if url.scheme == "file" else text).absolute()


def _set_of_words(
    options: Mapping[str, str], name: str, expected: str, parse: Callable[[str], T]
) -> frozenset[T]:
    """Values separated by commas; empty if the option is not given. An empty list is refused: it is
    meant as none, but all would be read.
    """
    text = options.get(name.lower())
    if text is None:
        return frozenset()
    try:
        parsed = frozenset(parse(word.strip()) for word in text.split(",") if word.strip())
    except ValueError:
        parsed = frozenset()
    if not parsed:
        raise _wrong(name, text, f"{expected}, separated by commas")
    return parsed


def _offsets(options: Mapping[str, str], name: str, word: str, number: int) -> Offsets:
    """Offsets in the form of Spark's own source for Kafka: a word for all partitions, or a JSON
    object, in which a number may stand for the word.
    """
    text = options.get(name.lower(), word)
    if text.lower() == word or (name == STARTING_OFFSETS and text.lower() == LATEST):
        return {}
    try:
        by_topic = msgspec.json.decode(text, type=dict[str, dict[int, int]])
    except msgspec.DecodeError:
        by_topic = {}
    offsets = [offset for partitions in by_topic.values() for offset in partitions.values()]
    if not offsets or any(offset < 0 and offset != number for offset in offsets):
        expected = f'{word}, or JSON such as {{"orders": {{"0": 23, "1": {number}}}}}'
        raise _wrong(name, text, expected)
    return {
        topic: {partition: offset for partition, offset in partitions.items() if offset >= 0}
        for topic, partitions in by_topic.items()
    }


def _time_ms(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    return None if text is None else time_ms_of(text, name)


def _check(text: str) -> Check:
    for check in Check:
        if text.lower() == check.value:
            return check
    raise _wrong("checkCrc", text, "auto, true or false")


def _truth(name: str, text: str) -> bool:
    if text.lower() not in _TRUTH:
        raise _wrong(name, text, "true or false")
    return _TRUTH[text.lower()]


def _truth_or_none(options: Mapping[str, str], name: str) -> bool | None:
    text = options.get(name.lower())
    return None if text is None else _truth(name, text)


def time_ms_of(text: str, name: str = "asOf") -> int:
    """Parse a point in time: milliseconds since 1970, or ISO 8601, in UTC unless it names a zone.

    Raises:
        BadInputError: The text is neither.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise _wrong(name, text, "milliseconds since 1970, or ISO 8601") from error
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return int(when.timestamp() * 1_000)


def _size(options: Mapping[str, str], name: str) -> int | None:
    """Parse a number of bytes, with or without a unit, as Spark writes sizes
    (JavaUtils.byteStringAs).
    """
    text = options.get(name.lower())
    if text is None:
        return None
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None or not int(match[1]):
        raise _wrong(name, text, "a size such as 1048576, 200k, 64m or 1g")
    return int(match[1]) << 10 * "bkmgtp".index(match[2] or match[3] or "b")


_SIZE: Final = re.compile(r"([0-9]+)\s*(?:([bkmgtp])|([kmgtp])b)?")


def _number(options: Mapping[str, str], name: str, unit: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise _wrong(name, text, f"a number of {unit}, 1 or more")
    return int(text)
