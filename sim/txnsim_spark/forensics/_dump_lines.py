"""Parses the lines that Kafka's ``kafka-dump-log`` prints, by the names of their fields. Pure.

Releases print the same fields in other orders, with other capitals and with more fields between:
2.8 has ``| offset: 1 isValid: true crc: null … CreateTime: …`` where 2.7 and 3.1 have ``| offset: 1
CreateTime: …``. So a line is known by its first field, and its fields are looked up by name. Text
that people post contains more: a log collector's prefix, JSON of a container's log, colours, other
line ends. ``unwrap_lines`` removes these. Kafka's counterpart: DumpLogSegments, read in 2.5.1,
2.7.2, 2.8.2, 3.1.2, 3.9.1, 4.0.0 and 4.4.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PureWindowsPath
from typing import Any, Final

import msgspec

from txnsim.types import TopicPartition

_ANSI: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_JSON_TEXT_FIELDS: Final = ("log", "message", "msg", "line", "@message", "textPayload", "MESSAGE")
"""Fields in which container runtimes and log collectors keep a line."""
_JSON_DEPTH_MAX: Final = 3

_FILE_LINE: Final = re.compile(
    r"Dumping (?P<path>.+\.(?:log|snapshot|index|timeindex|txnindex|checkpoint))\s*$"
)
_LINE_START: Final = re.compile(
    r"Dumping \S|baseOffset: \d|\|?[ \t]*\boffset: \d|\bproducerId: -?\d"
    r"|(?:Log s|S)tarting offset: "
)
_DIGITS: Final = re.compile(r"\d+(?:[.,]\d+)*")
_EDGE_CHARACTERS: Final = " \t|>"
"""Characters around a line: indentation, the ``>`` of a quotation, the ``|`` that the tool
prints.
"""

_FIELD: Final = re.compile(r"(\w+): (\S+)")
_TIMESTAMP_FIELDS: Final = ("CreateTime", "LogAppendTime", "NoTimestampType")
_HEADER_KEYS: Final = re.compile(
    r" headerKeys: \[(?P<keys>.*?)\](?= key: | payload: | endTxnMarker: |$)"
)
_KEY_OR_PAYLOAD: Final = re.compile(r" (?:key|payload): ")
_MARKER: Final = re.compile(r" endTxnMarker: (?P<marker>COMMIT|ABORT)\b")
_OPEN_SINCE: Final = re.compile(r"(?:Some\((?P<scala>\d+)\)|OptionalLong\[(?P<java>\d+)\])")
_NOT_OPEN: Final = frozenset({"None", "OptionalLong.empty"})
_REPLICA_FOLDER: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_TOOL_ERROR: Final = re.compile(
    r"Exception in thread \".*|^Error: (?:Could not|Unable|A JNI|LinkageError|Main method).*"
)
"""Java's words for an exception; a record's value may contain them, too. Before 2.8 they follow on
the line of a record that could not be decoded.
"""
_TOOL_REMARK: Final = re.compile(
    r"SLF4J: |log4j:|Found timestamp mismatch|Mismatches in |Non-consecutive offsets "
    r"|Index offset: |Log segment .* has no data|Snapshot |(?:The following|Following) indexes "
    r"|\s*at [\w.$]+\("
    r"|\|?\s*(?:key|payload): |\s*\|?\s*$"
)
"""Remarks of the tool and of its libraries, and records without their metadata."""

_OLD_ENTRY: Final = re.compile(
    r" key: transaction_metadata::transactionalId=(?P<id>.*?) payload: (?P<payload>.*)"
)
_OLD_FIELDS: Final = re.compile(
    r"producerId:(?P<id>-?\d+),producerEpoch:(?P<epoch>-?\d+),state=(?P<state>\w+),"
    r"partitions=\[(?P<partitions>.*?)\].*?txnTimeoutMs=(?P<timeout>-?\d+)"
)
_DELETED_PAYLOADS: Final = frozenset({"<DELETE>", "null", ""})


class DumpedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A line ``Dumping …``: the following lines are from this file."""

    path: str
    replica: str
    """Path of the replica's folder."""
    partition: TopicPartition | None
    """None where the folder is not named after a partition."""
    suffix: str
    offset: int | None
    """The offset in the file's name."""


class DumpedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A line ``baseOffset: …``; or a record of a release before 2.1, which prints no batches."""

    first_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    is_control: bool
    timestamp_ms: int
    is_valid: bool
    """Whether its checksum is right."""
    marker: str | None = None
    """``COMMIT`` or ``ABORT`` where the same line says it."""


class DumpedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A line ``| offset: …``: a record of the preceding batch."""

    offset: int
    timestamp_ms: int
    marker: str | None
    text: str
    """The whole line, for a decoder of key and value."""


class DumpedProducer(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a ``.snapshot``: the state of a producer on this partition."""

    producer_id: int
    producer_epoch: int
    start_offset: int | None
    """First offset of its open transaction; None without one."""
    timestamp_ms: int


class DumpedStart(msgspec.Struct, frozen=True):
    """A line ``Starting offset: …``: the tool begins to read this segment."""


class ToolError(msgspec.Struct, frozen=True):
    """The tool has ended with an error, so the rest of its file is not in the text."""

    message: str


class IncompleteLine(msgspec.Struct, frozen=True):
    """A batch or producer that lacks fields: cut short, or printed by an unknown release."""


class OtherLine(msgspec.Struct, frozen=True):
    """Any other line."""

    is_known: bool
    """True for remarks of the tool, SLF4J's warnings and lines of indexes."""


DumpLine = (
    DumpedFile
    | DumpedBatch
    | DumpedRecord
    | DumpedProducer
    | DumpedStart
    | ToolError
    | IncompleteLine
    | OtherLine
)


class DumpedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The newest state of a transactional id in a dumped transaction log."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    partitions: frozenset[TopicPartition]
    written_ms: int


class DumpLineReader:
    """Reads the lines of a text one after the other.

    It keeps two things: the kind of file that is being dumped, as an index has lines that look like
    records; and the shape of the prefix of that file's first line, as only lines with a prefix of
    the same shape are the tool's: a value with several lines may look like one.
    """

    __slots__ = ("_prefix", "_suffix")

    def __init__(self) -> None:
        self._prefix = ""
        self._suffix: str | None = None

    def read(self, text: str) -> DumpLine:
        """Parse a line; ``text`` comes from ``unwrap_lines``."""
        if (error_match := _TOOL_ERROR.search(text)) is not None and not _KEY_OR_PAYLOAD.search(
            text
        ):
            return ToolError(error_match[0].strip())
        if (start_match := _LINE_START.search(text)) is not None:
            prefix, line = (
                text[: start_match.start()],
                text[start_match.start() :].lstrip(_EDGE_CHARACTERS),
            )
            if (file_match := _FILE_LINE.match(line)) is not None:
                self._prefix = _prefix_shape(prefix)
                dumped_file = _dumped_file(file_match["path"].strip())
                self._suffix = dumped_file.suffix
                return dumped_file
            if _prefix_shape(prefix) == self._prefix:
                return self._parse_line(line)
        is_in_other_file = self._suffix not in (".log", ".snapshot", None)
        unprefixed_line = text[_prefix_length(text, self._prefix) :]
        return OtherLine(
            is_known=is_in_other_file or _TOOL_REMARK.match(unprefixed_line) is not None
        )

    def begins_line(self, text: str) -> bool:
        """Whether a batch, record, producer or file begins with this line; False for the rest of a
        wrapped line.
        """
        start_match = _LINE_START.search(text)
        return (
            start_match is not None and _prefix_shape(text[: start_match.start()]) == self._prefix
        )

    def _parse_line(self, line: str) -> DumpLine:
        match self._suffix:
            case ".log" | None:
                return _parse_log_line(line)
            case ".snapshot":
                return (
                    _parse_producer(line)
                    if line.startswith("producerId: ")
                    else OtherLine(is_known=False)
                )
            case _:
                return OtherLine(is_known=True)


def unwrap_lines(text: str, json_depth: int = 0) -> Iterator[str]:
    """The lines of the tool in a line of a file: without colours, line ends, and JSON around them.

    Args:
        text: A line as it was read.
        json_depth: How many wrappings of JSON were taken off already.
    """
    text = _ANSI.sub("", text).rstrip("\r\n")
    if json_depth < _JSON_DEPTH_MAX and text.lstrip().startswith("{"):
        json_text = _json_text(text)
        if json_text is not None:
            for line in json_text.split("\n") if json_text else ("",):
                if line or "\n" not in json_text:
                    yield from unwrap_lines(line, json_depth + 1)
            return
    yield text


def entry_of(text: str, timestamp_ms: int) -> DumpedEntry | str | None:
    """The state of a transactional id in a decoded record of the transaction log.

    Args:
        text: The line of the record.
        timestamp_ms: Timestamp of the record.

    Returns:
        The state; only the transactional id if the record deletes it; None if the record is not
        decoded, or has an unknown form.
    """
    _, separator, key_text = text.partition(" key: {")
    if separator:
        return _json_entry("{" + key_text, timestamp_ms)
    if (entry_match := _OLD_ENTRY.search(text)) is None:
        return None
    if (field_match := _OLD_FIELDS.search(entry_match["payload"])) is not None:
        return _old_entry(entry_match["id"], field_match, timestamp_ms)
    return str(entry_match["id"]) if entry_match["payload"].strip() in _DELETED_PAYLOADS else None


# Lines


def _prefix_shape(line_prefix: str) -> str:
    """The part of a collector's prefix that stays the same from line to line: without times and
    numbers.
    """
    return _DIGITS.sub("0", line_prefix).strip(_EDGE_CHARACTERS)


def _prefix_length(text: str, prefix_shape: str) -> int:
    """Number of characters of a line that match the shape of the prefix."""
    if not prefix_shape:
        return 0
    length_max = min(len(text), 4 * len(prefix_shape) + 64)
    prefix_ends = (
        prefix_end
        for prefix_end in range(length_max, 0, -1)
        if _prefix_shape(text[:prefix_end]) == prefix_shape
    )
    return next(prefix_ends, 0)


def _dumped_file(path: str) -> DumpedFile:
    # PureWindowsPath takes both separators; a broker on Windows has the other one.
    file_path = PureWindowsPath(path)
    folder_match = _REPLICA_FOLDER.fullmatch(file_path.parent.name)
    return DumpedFile(
        path=path,
        replica=str(file_path.parent),
        partition=folder_match
        and TopicPartition(folder_match["topic"], int(folder_match["partition"])),
        suffix=file_path.suffix,
        offset=int(file_path.stem) if file_path.stem.isdecimal() else None,
    )


def _parse_log_line(line: str) -> DumpLine:
    if line.startswith("baseOffset: "):
        return _parse_batch(line)
    if line.startswith("offset: "):
        return _parse_record(line)
    if line.startswith(("Log starting offset: ", "Starting offset: ")):
        return DumpedStart()
    return OtherLine(is_known=False)


def _parse_batch(line: str) -> DumpedBatch | IncompleteLine:
    text_by_field = dict(_FIELD.findall(line))
    field_numbers = _field_numbers(
        text_by_field, "baseOffset", "lastOffset", "producerId", "producerEpoch", *_TIMESTAMP_FIELDS
    )
    flag_texts = (text_by_field.get("isTransactional"), text_by_field.get("isControl"))
    # A size follows the time in every release: with it the time is whole, too.
    if (
        len(field_numbers) != 5
        or "size" not in text_by_field
        or not {"true", "false"}.issuperset(flag_texts)
    ):
        return IncompleteLine()
    first_offset, last_offset, producer_id, epoch, timestamp_ms = field_numbers
    return DumpedBatch(
        first_offset=first_offset,
        last_offset=last_offset,
        producer_id=producer_id,
        producer_epoch=epoch,
        is_transactional=flag_texts[0] == "true",
        is_control=flag_texts[1] == "true",
        timestamp_ms=timestamp_ms,
        is_valid=text_by_field.get("isvalid", "true") == "true",
    )


def _parse_record(line: str) -> DumpLine:
    content_match = _KEY_OR_PAYLOAD.search(line)
    metadata_text = line if content_match is None else line[: content_match.start()]
    # Keys of headers are anything, so what they say is not a field.
    metadata_text = _HEADER_KEYS.sub("", metadata_text)
    text_by_field = dict(_FIELD.findall(metadata_text))
    field_numbers = _field_numbers(text_by_field, "offset", *_TIMESTAMP_FIELDS)
    if len(field_numbers) != 2:
        return IncompleteLine()
    offset, timestamp_ms = field_numbers
    marker_match = _MARKER.search(metadata_text)
    id_and_epoch = _field_numbers(text_by_field, "producerId", "producerEpoch")
    if len(id_and_epoch) == 2 and text_by_field.get("isTransactional") in ("true", "false"):
        return DumpedBatch(
            first_offset=offset,
            last_offset=offset,
            producer_id=id_and_epoch[0],
            producer_epoch=id_and_epoch[1],
            is_transactional=text_by_field["isTransactional"] == "true",
            is_control=marker_match is not None,
            timestamp_ms=timestamp_ms,
            is_valid=text_by_field.get("isvalid", "true") == "true",
            marker=marker_match and marker_match["marker"],
        )
    return DumpedRecord(
        offset=offset,
        timestamp_ms=timestamp_ms,
        marker=marker_match and marker_match["marker"],
        text=line,
    )


def _parse_producer(line: str) -> DumpedProducer | IncompleteLine:
    text_by_field = dict(_FIELD.findall(line))
    field_numbers = _field_numbers(text_by_field, "producerId", "producerEpoch")
    first_offset_text = text_by_field.get("currentTxnFirstOffset", "")
    open_since_match = _OPEN_SINCE.fullmatch(first_offset_text)
    if len(field_numbers) != 2 or (open_since_match is None and first_offset_text not in _NOT_OPEN):
        return IncompleteLine()
    # Before 3.0 only the last batch has a time, and a producer without one has none.
    timestamps = (
        _field_numbers(text_by_field, "lastTimestamp")
        or _field_numbers(text_by_field, "timestamp")
        or [-1]
    )
    return DumpedProducer(
        producer_id=field_numbers[0],
        producer_epoch=field_numbers[1],
        start_offset=None
        if open_since_match is None
        else int(open_since_match["scala"] or open_since_match["java"]),
        timestamp_ms=timestamps[0],
    )


def _field_numbers(text_by_field: Mapping[str, str], *field_names: str) -> list[int]:
    """The fields that are present and whole numbers."""
    field_values = (text_by_field.get(field_name, "") for field_name in field_names)
    return [int(value) for value in field_values if value.lstrip("-").isdecimal()]


# Wrappings and entries


def _json_text(text: str) -> str | None:
    """The tool's line inside a JSON object of a log collector; None where it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    for name in _JSON_TEXT_FIELDS:
        if isinstance(value.get(name), str):
            return str(value[name]).rstrip("\r\n")
    return None


def _json_entry(content: str, timestamp_ms: int) -> DumpedEntry | str | None:
    try:
        key, key_end = json.JSONDecoder().raw_decode(content)
        transactional_id = str(key["data"]["transactionalId"])
        payload = content[key_end:].removeprefix(" payload: ").strip()
        if payload in _DELETED_PAYLOADS:
            return transactional_id
        return _entry_of_json(transactional_id, json.loads(payload)["data"], timestamp_ms)
    except (ValueError, KeyError, TypeError, RecursionError):
        # Another kind of key, a version that the tool does not know, or a line that was cut.
        return None


def _entry_of_json(
    transactional_id: str, data: Mapping[str, Any], timestamp_ms: int
) -> DumpedEntry:
    listed_topics = data["transactionPartitions"] or ()
    return DumpedEntry(
        transactional_id=transactional_id,
        producer_id=int(data["producerId"]),
        producer_epoch=int(data["producerEpoch"]),
        state=str(data["transactionStatus"]),
        timeout_ms=int(data["transactionTimeoutMs"]),
        partitions=frozenset(
            TopicPartition(str(topic["topic"]), int(partition_number))
            for topic in listed_topics
            for partition_number in topic["partitionIds"]
        ),
        written_ms=timestamp_ms,
    )


def _old_entry(transactional_id: str, field_match: re.Match[str], timestamp_ms: int) -> DumpedEntry:
    partition_names = [
        name.strip() for name in field_match["partitions"].split(",") if name.strip()
    ]
    return DumpedEntry(
        transactional_id=transactional_id,
        producer_id=int(field_match["id"]),
        producer_epoch=int(field_match["epoch"]),
        state=field_match["state"],
        timeout_ms=int(field_match["timeout"]),
        partitions=frozenset(
            TopicPartition(topic, int(number_text))
            for topic, _, number_text in (name.rpartition("-") for name in partition_names)
        ),
        written_ms=timestamp_ms,
    )
