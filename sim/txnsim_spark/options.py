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
from typing import Final, Self, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from txnsim.errors import BadInputError
from txnsim_spark.schemas import OFFSET_COLUMNS, TABLES, TABLES_BY_PRODUCER, TIME_COLUMNS
from txnsim_spark.stores.uris import is_in_object_store

T = TypeVar("T")
Offsets = Mapping[str, Mapping[int, int]]
"""Topic -> partition -> offset."""

FORMAT: Final = "kafka_log"
BYTE_COSTS: Final = {
    "batches": 1.0,
    "records": 2.0,
    "transactions": 16.0,
    "offsets": 16.0,
    "share_states": 16.0,
}
"""Table -> the cost of a byte of a log, in bytes of a file as Spark's own sources read them. With
Spark's defaults a task takes about a second.
"""
HEADERS_BYTE_COST: Final = 0.25
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


class CrcCheck(Enum):
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
    last line, is the message, with condition and SQL state as in Spark's own errors
    (error-conditions.json).
    """

    condition = "KAFKA_LOG_INVALID_READ"
    sql_state = "42K06"
    is_shown_by_spark = False

    @property
    def text(self) -> str:
        """The message alone."""
        return super().__str__()

    def __str__(self) -> str:
        if not self.is_shown_by_spark:
            return self.text
        return f"[{self.condition}] {self.text} SQLSTATE: {self.sql_state}"

    def shown_by_spark(self) -> Self:
        """A copy, without the frames that led to it, that shows condition and SQL state."""
        shown_error = type(self)(*self.args)
        shown_error.condition, shown_error.sql_state = self.condition, self.sql_state
        shown_error.is_shown_by_spark = True
        return shown_error


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
    check_crc: CrcCheck = CrcCheck.AUTO
    checks_records: bool = False
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
    fails_on_data_loss: bool = True
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
        own_options = _without_catalog_options(options)
        hadoop_settings = {
            option: text for option, text in own_options.items() if option.startswith(HADOOP_PREFIX)
        }
        text_by_name = {
            option.lower().replace("_", ""): text
            for option, text in own_options.items()
            if option not in hadoop_settings
        }
        for option_name in text_by_name:
            if option_name not in _NAME_BY_LOWERCASE:
                raise _unknown_option_error(option_name)
        table = _parse_table(text_by_name)
        if "maxbytespertrigger" in text_by_name and "maxfilespertrigger" in text_by_name:
            raise BadInputError(
                f"format {FORMAT}: maxBytesPerTrigger and maxFilesPerTrigger: give one of them"
            )
        path_texts = _path_texts(text_by_name)
        return cls(
            paths=tuple(
                path
                for path_text in path_texts
                if not is_in_object_store(path_text)
                for path in _directories_of(path_text)
            ),
            uris=tuple(filter(is_in_object_store, path_texts)),
            hadoop=hadoop_settings,
            table=table,
            topics=_set_of_words(text_by_name, "topics", "names", str),
            partitions=_set_of_words(text_by_name, "partitions", "numbers", int),
            producer_ids=_set_of_words(text_by_name, "producerIds", "numbers", int),
            starting_offsets=_offsets_option(
                text_by_name, STARTING_OFFSETS, EARLIEST, _EARLIEST_OFFSET
            ),
            ending_offsets=_offsets_option(text_by_name, ENDING_OFFSETS, LATEST, _LATEST_OFFSET),
            starts_latest=text_by_name.get(STARTING_OFFSETS.lower(), "").lower() == LATEST,
            start_ms=_time_ms(text_by_name, START_TIMESTAMP),
            end_ms=_time_ms(text_by_name, END_TIMESTAMP),
            check_crc=_crc_check(text_by_name.get("checkcrc", CrcCheck.AUTO.value)),
            checks_records=_parse_boolean(
                "checkRecords", text_by_name.get("checkrecords", "false")
            ),
            late_by_max_ms=_whole_number(text_by_name, "lateByMaxMs", "milliseconds"),
            task_bytes=_byte_count(text_by_name, "taskBytes"),
            as_of_ms=_time_ms(text_by_name, "asOf"),
            max_transaction_timeout_ms=_whole_number(
                text_by_name, "maxTransactionTimeoutMs", "milliseconds"
            ),
            fails_on_data_loss=_parse_boolean(
                "failOnDataLoss", text_by_name.get("failondataloss", "true")
            ),
            ignore_missing_files=_boolean_or_none(text_by_name, "ignoreMissingFiles"),
            ignore_corrupt_files=_boolean_or_none(text_by_name, "ignoreCorruptFiles"),
            max_bytes_per_trigger=_byte_count(text_by_name, "maxBytesPerTrigger"),
            max_files_per_trigger=_whole_number(text_by_name, "maxFilesPerTrigger", "segments"),
        )

    @property
    def passes_over_missing(self) -> bool:
        """Whether a read leaves out missing files instead of ending."""
        return bool(self.ignore_missing_files) or self._passes_over_losses

    @property
    def passes_over_corrupt(self) -> bool:
        """Whether a read leaves out damage instead of ending."""
        return bool(self.ignore_corrupt_files) or self._passes_over_losses

    @property
    def _passes_over_losses(self) -> bool:
        return self.follows and not self.fails_on_data_loss


def _parse_table(text_by_name: Mapping[str, str]) -> str:
    """The table to read; every given option must be one of that table."""
    table = text_by_name.get("table", "batches")
    if table not in TABLES:
        raise _wrong_value_error("table", table, f"one of {', '.join(TABLES)}")
    for option_name, tables_of_option in _TABLES_OF_OPTION.items():
        if option_name.lower() in text_by_name and table not in tables_of_option:
            tables_text = f"table{'s' * (len(tables_of_option) > 1)} {', '.join(tables_of_option)}"
            raise BadInputError(f"format {FORMAT}, option {option_name}: only of the {tables_text}")
    return table


def options_kept_by_catalog(options: Mapping[str, str]) -> dict[str, str] | None:
    """The options of a ``CREATE TABLE`` for later reads: without those that the catalog adds, with
    absolute paths, and without settings of stores, which may be secrets. None for any other read.
    """
    if options.get(_PROVIDER_OPTION) != FORMAT:
        return None
    own_options = {
        option_name: option_text
        for option_name, option_text in _without_catalog_options(options).items()
        if option_name not in ("path", "paths") and not option_name.startswith(HADOOP_PREFIX)
    }
    paths = [
        option_text if is_in_object_store(option_text) else str(_absolute_path(option_text))
        for option_text in _path_texts(options)
    ]
    return {**own_options, "paths": msgspec.json.encode(paths).decode()}


def _without_catalog_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """The options without those that Spark's catalog adds to a ``CREATE TABLE``."""
    if options.get(_PROVIDER_OPTION) != FORMAT:
        return options
    return {
        option_name: option_text
        for option_name, option_text in options.items()
        if option_name not in _CATALOG_OPTIONS and not option_name.startswith("option.")
    }


_PROVIDER_OPTION: Final = "provider"
_CATALOG_OPTIONS: Final = frozenset(
    {
        _PROVIDER_OPTION,
        "location",
        "owner",
        "external",
        "is_managed_location",
        "comment",
        "collation",
    }
)
STARTING_OFFSETS: Final = "startingOffsets"
ENDING_OFFSETS: Final = "endingOffsets"
START_TIMESTAMP: Final = "startTimestamp"
END_TIMESTAMP: Final = "endTimestamp"
OPTION_NAMES: Final = (
    *("path", "paths", "table", "topics", "partitions", "producerIds"),
    *(STARTING_OFFSETS, ENDING_OFFSETS, START_TIMESTAMP, END_TIMESTAMP),
    *("checkCrc", "checkRecords", "taskBytes", "asOf", "maxTransactionTimeoutMs"),
    *("maxBytesPerTrigger", "maxFilesPerTrigger", "lateByMaxMs", "failOnDataLoss"),
    *("ignoreMissingFiles", "ignoreCorruptFiles"),
)
_NAME_BY_LOWERCASE: Final = {name.lower(): name for name in OPTION_NAMES}
_TABLES_OF_OPTION: Final[Mapping[str, Collection[str]]] = {
    **dict.fromkeys(("asOf", "maxTransactionTimeoutMs"), ("findings",)),
    "partitions": [name for name in TABLES if name != "findings"],
    "producerIds": sorted(TABLES_BY_PRODUCER),
    **dict.fromkeys((STARTING_OFFSETS, ENDING_OFFSETS), OFFSET_COLUMNS),
    **dict.fromkeys((START_TIMESTAMP, END_TIMESTAMP), TIME_COLUMNS),
}
"""Option -> the tables it applies to; an option that is missing here applies to every table."""


def tables_with(option_name: str) -> Collection[str]:
    """Names of the tables that an option applies to."""
    return _TABLES_OF_OPTION.get(
        _NAME_BY_LOWERCASE.get(option_name.lower().replace("_", ""), option_name), TABLES
    )


_BOOLEANS: Final = {"true": True, "false": False}


def _unknown_option_error(option_name: str) -> BadInputError:
    near_names = difflib.get_close_matches(option_name, _NAME_BY_LOWERCASE, n=1)
    hint = (
        f"did you mean {_NAME_BY_LOWERCASE[near_names[0]]}?"
        if near_names
        else f"there are {', '.join(OPTION_NAMES)}"
    )
    return BadInputError(f"format {FORMAT}: there is no option {option_name!r}; {hint}")


def _wrong_value_error(option_name: str, value: str, expected: str) -> BadInputError:
    return BadInputError(f"format {FORMAT}, option {option_name}: {value!r}, expected {expected}")


def _path_texts(options: Mapping[str, str]) -> list[str]:
    """The paths in ``path`` (separated by commas) and ``paths`` (a JSON list, as ``load([…])``
    gives it).
    """
    path_texts = [
        path_text.strip()
        for path_text in options.get("path", "").split(PATH_SEPARATOR)
        if path_text.strip()
    ]
    if "paths" in options:
        try:
            path_texts += filter(str.strip, msgspec.json.decode(options["paths"], type=list[str]))
        except (msgspec.DecodeError, RecursionError) as error:
            raise _wrong_value_error(
                "paths", options["paths"], "a JSON list of directories"
            ) from error
    if not path_texts:
        raise BadInputError(
            f"format {FORMAT}: option path is missing: log directories, separated by commas (in"
            " CREATE TABLE name no columns: Spark keeps the options with those of the source)"
        )
    return path_texts


def _directories_of(path_text: str) -> list[Path]:
    """The directories for a path or pattern, as absolute paths, so that the driver and every worker
    name them alike.
    """
    named_path = _absolute_path(path_text)
    matches = [] if named_path.exists() else sorted(glob(str(named_path)))
    return [Path(path) for path in matches] or [named_path]


def _absolute_path(path_text: str) -> Path:
    """The absolute path: workers start in other folders."""
    url = urlsplit(path_text)
    return Path(unquote(url.path) if url.scheme == "file" else path_text).absolute()


def _set_of_words(
    options: Mapping[str, str], option_name: str, expected: str, parse_word: Callable[[str], T]
) -> frozenset[T]:
    """Values separated by commas; empty if the option is not given. An empty list is refused: it is
    meant as none, but all would be read.
    """
    text = options.get(option_name.lower())
    if text is None:
        return frozenset()
    try:
        parsed_words = frozenset(
            parse_word(word.strip()) for word in text.split(",") if word.strip()
        )
    except ValueError:
        parsed_words = frozenset()
    if not parsed_words:
        raise _wrong_value_error(option_name, text, f"{expected}, separated by commas")
    return parsed_words


def _offsets_option(
    options: Mapping[str, str], option_name: str, default_word: str, word_offset: int
) -> Offsets:
    """Offsets in the form of Spark's own source for Kafka: a word for all partitions, or a JSON
    object, in which a number may stand for the word.
    """
    text = options.get(option_name.lower(), default_word)
    if text.lower() == default_word or (option_name == STARTING_OFFSETS and text.lower() == LATEST):
        return {}
    try:
        offsets_by_topic = msgspec.json.decode(text, type=dict[str, dict[int, int]])
    except (msgspec.DecodeError, RecursionError):
        offsets_by_topic = {}
    offsets = [offset for partitions in offsets_by_topic.values() for offset in partitions.values()]
    if not offsets or any(offset < 0 and offset != word_offset for offset in offsets):
        expected_form = (
            f'{default_word}, or JSON such as {{"orders": {{"0": 23, "1": {word_offset}}}}}'
        )
        raise _wrong_value_error(option_name, text, expected_form)
    return {
        topic: {partition: offset for partition, offset in partitions.items() if offset >= 0}
        for topic, partitions in offsets_by_topic.items()
    }


def _time_ms(options: Mapping[str, str], option_name: str) -> int | None:
    text = options.get(option_name.lower())
    return None if text is None else time_ms_of(text, option_name)


def _crc_check(text: str) -> CrcCheck:
    for crc_check in CrcCheck:
        if text.lower() == crc_check.value:
            return crc_check
    raise _wrong_value_error("checkCrc", text, "auto, true or false")


def _parse_boolean(option_name: str, text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise _wrong_value_error(option_name, text, "true or false")
    return _BOOLEANS[text.lower()]


def _boolean_or_none(options: Mapping[str, str], option_name: str) -> bool | None:
    text = options.get(option_name.lower())
    return None if text is None else _parse_boolean(option_name, text)


def time_ms_of(text: str, option_name: str = "asOf") -> int:
    """Parse a point in time: milliseconds since 1970, or ISO 8601, in UTC unless it names a zone.

    Raises:
        BadInputError: The text is neither.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        parsed_time = datetime.fromisoformat(text)
    except ValueError as error:
        raise _wrong_value_error(
            option_name, text, "milliseconds since 1970, or ISO 8601"
        ) from error
    parsed_time = parsed_time if parsed_time.tzinfo is not None else parsed_time.replace(tzinfo=UTC)
    return int(parsed_time.timestamp() * 1_000)


def _byte_count(options: Mapping[str, str], option_name: str) -> int | None:
    """Parse a number of bytes, with or without a unit, as Spark writes sizes
    (JavaUtils.byteStringAs).
    """
    text = options.get(option_name.lower())
    if text is None:
        return None
    match = _SIZE_TEXT.fullmatch(text.strip().lower())
    if match is None or not int(match[1]):
        raise _wrong_value_error(option_name, text, "a size such as 1048576, 200k, 64m or 1g")
    return int(match[1]) << 10 * "bkmgtp".index(match[2] or match[3] or "b")


_SIZE_TEXT: Final = re.compile(r"([0-9]+)\s*(?:([bkmgtp])|([kmgtp])b)?")


def _whole_number(options: Mapping[str, str], option_name: str, unit: str) -> int | None:
    text = options.get(option_name.lower())
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise _wrong_value_error(option_name, text, f"a number of {unit}, 1 or more")
    return int(text)
