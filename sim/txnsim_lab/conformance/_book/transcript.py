"""Answers of a broker as plain values, so that those of two brokers can be compared. ``Transcript``
records every answer of a play in order; ``differences`` lists where two transcripts differ. Only
this module normalises what may differ between two correct brokers: ids that a broker generates,
addresses, times, and the order of lists for which Kafka defines no order.
"""

from __future__ import annotations

import re
import uuid
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

from txnsim.errors import ErrorCode
from txnsim.wire.batch import iter_batches, read_control_record
from txnsim.wire.records import iter_records

PlainValue = Any

# Normalised: everything in which two correct brokers may differ.
ADDRESS_FIELDS: Final = frozenset({"host", "port", "cluster_id", "log_dir"})
DISK_SPACE_FIELDS: Final = frozenset({"total_bytes", "usable_bytes"})
GENERATED_ID_FIELDS: Final = {
    "producer_id": "producer",
    "producer_ids": "producer",
    "session_id": "session",
}
"""Fields with ids that a broker generates; they are replaced by their order of appearance."""
BROKER_ID_FIELDS: Final = frozenset(
    {"broker_id", "controller_id", "isr_nodes", "leader_id", "node_id", "replica_nodes"}
)
NO_SESSION: Final = ("session_id", 0)
METADATA_EPOCH_FIELDS: Final = frozenset({"finalized_features_epoch"})
"""Fields with an epoch that is an offset of the metadata log."""
CLOCK_TIME_MIN_MS: Final = 1_750_000_000_000
"""Times from this one on were read from a clock; the records of cases have earlier ones."""
UNORDERED_LISTS: Final = {
    "active_producers": ("producer_id",),
    "configs": ("name",),
    "finalized_features": ("name",),
    "partition_indexes": (),
    "markers": ("producer_id",),
    "partition_responses": ("index",),
    "partitions of DeleteRecordsPartitionResult": ("partition_index",),
    "partitions of ListOffsetsPartitionResponse": ("partition_index",),
    "partitions of WritableTxnMarkerPartitionResult": ("partition_index",),
    "partitions of int": (),
    "topics of TopicData": ("topic",),
    "topics of WritableTxnMarkerTopicResult": ("name",),
    "topics of CreatableTopicResult": ("name",),
    "topics of DescribeShareGroupOffsetsResponseTopic": ("topic_name",),
    "partitions of DescribeShareGroupOffsetsResponsePartition": ("partition_index",),
    "responses of AlterShareGroupOffsetsResponseTopic": ("topic_name",),
    "partitions of AlterShareGroupOffsetsResponsePartition": ("partition_index",),
    "responses of DeleteShareGroupOffsetsResponseTopic": ("topic_name",),
    "responses of DeletableTopicResult": ("name",),
    "topics of DescribeLogDirsTopic": ("name",),
    "partitions of DescribeLogDirsPartition": ("partition_index",),
    "results of CreatePartitionsTopicResult": ("name",),
    "results_by_partition": ("partition_index",),
    "results_by_topic_v3_and_below": ("name",),
    "subscribed_topic_names": (),
    "supported_features": ("name",),
    "topic_results": ("name",),
    "transaction_states": ("transactional_id",),
    "groups of ListedGroup": ("group_id",),
    "results of DeletableGroupResult": ("group_id",),
    "unknown_state_filters": (),
}
"""Lists for which Kafka defines no order (hash maps), with the fields to sort by."""
SORT_FIELD_BY_ELEMENT: Final = {
    "DescribedGroupMember": "member_id",
    "JoinGroupResponseMember": "member_id",
    "Member": "member_id",
    "TopicPartitions": "topic_id",
}
TEXT_FIELDS: Final = frozenset({"assignment", "member_assignment", "member_metadata", "metadata"})
"""Fields with bytes that are no record batches."""
GENERATED_NAME_FIELDS: Final = frozenset({"leader", "member_id"})
"""Fields with names that a broker may have generated."""
TEXT_BYTES_MAX: Final = 1_000
"""Keys and values of records up to this length are written out."""
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - compared after dropping the zone
_WINDOW_IN_TEXT: Final = re.compile(r"within \[-?\d+, -?\d+\]")
"""Matches the window of allowed times in a message, which moves with the clock."""
_ID_IN_TEXT: Final = re.compile(r"\b[A-Za-z0-9_-]{22}\b")
_UUID_IN_TEXT: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Transcript:
    """The answers of one broker to one case.

    Args:
        play_prefix: Prefix of the names that only this play uses; it is replaced by ``~``.
        run_prefix: Beginning of ``play_prefix`` that all plays of a run have; it is removed.
        broker_id: Id of the broker; it is replaced by 1.
    """

    def __init__(self, *, play_prefix: str = "", run_prefix: str = "", broker_id: int = 1) -> None:
        self.entries: list[tuple[str, PlainValue]] = []
        self._ordinal_text_by_id: dict[tuple[str, object], str] = {}
        self._play_prefix = play_prefix
        self._run_prefix = run_prefix.encode()
        self._broker_id = broker_id

    def note(self, label: str, answer: object) -> None:
        """Record an answer."""
        self.entries.append((label, self._normalise(answer, "")))

    def _normalise(self, value: Any, field_name: str) -> PlainValue:
        if is_dataclass(value) and not isinstance(value, type):
            return {
                field.name: self._normalise(getattr(value, field.name), field.name)
                for field in fields(value)
            }
        match value:
            case ErrorCode():
                return f"{int(value)} {value.name}"
            case Enum():
                return value.value
            case tuple() | list():
                return self._normalise_list(value, field_name)
            case dict():
                return {
                    key: self._normalise(inner_value, key) for key, inner_value in value.items()
                }
            case timedelta():
                return value // timedelta(milliseconds=1)
            case datetime():
                return self._normalise_number(
                    round((value.replace(tzinfo=None) - _EPOCH).total_seconds() * 1000), field_name
                )
            case uuid.UUID():
                return self._ordinal_of("uuid", value)
            case bytes() | bytearray() | memoryview() if field_name in TEXT_FIELDS:
                return self._without_play_names(
                    _plain_text(self._without_prefix(bytes(value))) or ""
                )
            case bytes() | bytearray() | memoryview():
                return self._plain_batches(bytes(value))
            case bool() | None:
                return value
            case float():
                return value
            case int():
                return self._normalise_number(value, field_name)
        if field_name in ADDRESS_FIELDS:
            return f"some {field_name}"
        value = self._without_play_names(value)
        value = _UUID_IN_TEXT.sub(lambda match: self._ordinal_of("id", match[0]), value)
        if field_name in GENERATED_NAME_FIELDS and _ID_IN_TEXT.fullmatch(value):
            return self._ordinal_of("id", value)
        if field_name.endswith("error_message"):
            return _WINDOW_IN_TEXT.sub("within some window", _ID_IN_TEXT.sub("some-id", value))
        return value

    def _normalise_list(self, values: Any, field_name: str) -> PlainValue:
        element_kind = type(values[0]).__name__ if values else ""
        sort_fields = UNORDERED_LISTS.get(
            field_name, UNORDERED_LISTS.get(f"{field_name} of {element_kind}")
        )
        if sort_fields is not None:
            values = sort_by_fields(values, *sort_fields)
        plain_values = [self._normalise(value, field_name) for value in values]
        sort_field = SORT_FIELD_BY_ELEMENT.get(element_kind)
        return (
            plain_values
            if sort_field is None
            else sorted(plain_values, key=lambda plain_value: plain_value[sort_field])
        )

    def _without_prefix(self, name_bytes: bytes) -> bytes:
        """Remove the run's prefix from names in bytes, and correct the two bytes of length before
        each name.
        """
        if not self._run_prefix:
            return name_bytes
        bytes_so_far, *name_pieces = name_bytes.split(self._run_prefix)
        for name_piece in name_pieces:
            name_length = int.from_bytes(bytes_so_far[-2:], "big") - len(self._run_prefix)
            bytes_so_far = bytes_so_far[:-2] + name_length.to_bytes(2, "big") + name_piece
        return bytes_so_far

    def _without_play_names(self, text: str) -> str:
        if not self._play_prefix:
            return text
        bare_prefix = self._play_prefix.removeprefix(self._run_prefix.decode())
        return text.replace(self._play_prefix, "~").replace(bare_prefix, "~")

    def _normalise_number(self, value: int, field_name: str) -> PlainValue:
        if (field_name in ADDRESS_FIELDS or field_name in DISK_SPACE_FIELDS) and value >= 0:
            return f"some {field_name}"
        if field_name in BROKER_ID_FIELDS and value == self._broker_id:
            return 1
        if field_name in GENERATED_ID_FIELDS and value >= 0 and (field_name, value) != NO_SESSION:
            return self._ordinal_of(GENERATED_ID_FIELDS[field_name], value)
        if field_name in METADATA_EPOCH_FIELDS and value >= 0:
            return "some epoch"
        return "now" if value >= CLOCK_TIME_MIN_MS and value < 1 << 62 else int(value)

    def _ordinal_of(self, id_kind: str, value: object) -> str:
        ordinal = (
            sum(1 for numbered_kind, _ in self._ordinal_text_by_id if numbered_kind == id_kind) + 1
        )
        return self._ordinal_text_by_id.setdefault((id_kind, value), f"{id_kind} #{ordinal}")

    def _plain_batches(self, record_bytes: bytes) -> PlainValue:
        """Stored batches, as their headers and records."""
        batches: list[PlainValue] = []
        batch_end = 0
        for batch_start, header in iter_batches(record_bytes):
            batch_end = batch_start + header.size
            batch = record_bytes[batch_start:batch_end]
            plain_batch = {
                "base_offset": header.base_offset,
                "leader_epoch": header.leader_epoch,
                "attributes": header.attributes,
                "producer_id": self._normalise_number(header.producer_id, "producer_id"),
                "producer_epoch": header.producer_epoch,
                "base_sequence": header.base_sequence,
                "max_timestamp": self._normalise_number(header.max_timestamp_ms, ""),
                "count": header.records_count,
            }
            if header.is_control:
                plain_batch["control"] = str(read_control_record(batch))
            else:
                plain_batch["records"] = [
                    [record.offset, _plain_text(record.key), _plain_text(record.value)]
                    for record in iter_records(batch)
                ]
            batches.append(plain_batch)
        if batch_end < len(record_bytes):
            batches.append(f"the first {len(record_bytes) - batch_end} bytes of another one")
        return batches


def _plain_text(data: bytes | None) -> str | None:
    """Bytes as text; long ones as their length and checksum."""
    if data is None:
        return None
    if len(data) > TEXT_BYTES_MAX:
        return f"{len(data)} bytes, CRC {zlib.crc32(data):08x}"
    return bytes(data).decode("utf-8", "backslashreplace")


def sort_by_fields(values: Iterable[Any], *field_names: str) -> list[Any]:
    """Sort values by these fields; without fields, by the values themselves."""

    def key(element: Any) -> list[Any]:
        sort_values = (
            [getattr(element, field_name) for field_name in field_names]
            if field_names
            else [element]
        )
        return [(sort_value is not None, sort_value) for sort_value in sort_values]

    return sorted(values, key=key)


def differences(expected_transcript: Transcript, actual_transcript: Transcript) -> Iterator[str]:
    """The answers in which the second transcript differs from the first, one line each."""
    for (label, expected_answer), (actual_label, actual_answer) in zip(
        expected_transcript.entries, actual_transcript.entries, strict=False
    ):
        if label != actual_label:
            yield f"{label}: the stories part here, the other side asked {actual_label}"
            return
        yield from _value_differences(label, expected_answer, actual_answer)
    if len(expected_transcript.entries) != len(actual_transcript.entries):
        yield f"{len(expected_transcript.entries)} answers against {len(actual_transcript.entries)}"


def _value_differences(path: str, expected: PlainValue, actual: PlainValue) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        for field_name in {**expected, **actual}:
            yield from _value_differences(
                f"{path}.{field_name}",
                expected.get(field_name, "absent"),
                actual.get(field_name, "absent"),
            )
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, (expected_element, actual_element) in enumerate(
            zip(expected, actual, strict=True)
        ):
            yield from _value_differences(f"{path}[{index}]", expected_element, actual_element)
    elif expected != actual:
        yield f"{path}: {expected!r} != {actual!r}"
