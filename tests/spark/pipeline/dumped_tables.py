"""Formats rows of ``kafka_log`` as the lines that ``kafka-dump-log`` prints for the same bytes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from txnsim.storage import names
from txnsim.types import TopicPartition

Row = Mapping[str, Any]
SEQUENCE_SPAN: Final = 1 << 31
NO_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"


def by_file(
    rows: Iterable[Row], suffix: names.Suffix, number: str, line: Callable[[Row], str]
) -> dict[Path, list[str]]:
    """Formatted lines by file.

    Args:
        rows: Rows of one table, in the order of the files.
        suffix: Suffix of the files.
        number: Column with the number in the file names.
        line: Formats a row.
    """
    lines_by_file: defaultdict[Path, list[str]] = defaultdict(list)
    for row in rows:
        lines_by_file[file_of(row, suffix, number)].append(line(row))
    return dict(lines_by_file)


def file_of(row: Row, suffix: names.Suffix, number: str = "segment_base_offset") -> Path:
    """The file that a row comes from."""
    folder_path = names.directory_name(TopicPartition(row["topic"], row["partition"]))
    return Path(row["log_dir"], folder_path, suffix.file_name(row[number]))


def batch_line(row: Row) -> str:
    """A row of the table ``batches`` as a line."""
    base = _number_or_minus_one(row["base_sequence"])
    span = row["last_offset"] - row["base_offset"]
    last_sequence = -1 if base == -1 else (base + span) % SEQUENCE_SPAN
    horizon = f"[{row['base_timestamp_ms']}]" if row["has_delete_horizon"] else ".empty"
    fields = {
        "baseOffset": row["base_offset"],
        "lastOffset": row["last_offset"],
        "count": row["records"],
        "baseSequence": base,
        "lastSequence": last_sequence,
        "producerId": _number_or_minus_one(row["producer_id"]),
        "producerEpoch": _number_or_minus_one(row["producer_epoch"]),
        "partitionLeaderEpoch": row["leader_epoch"],
        "isTransactional": _truth_word(row["is_transactional"]),
        "isControl": _truth_word(row["is_control"]),
        "deleteHorizonMs": f"OptionalLong{horizon}",
        "position": row["position"],
        row["timestamp_type"]: row["max_timestamp_ms"],
        "size": row["size_bytes"],
        "magic": 2,
        "compresscodec": row["codec"],
        "crc": row["crc"],
        "isvalid": _truth_word(row["is_valid"]),
    }
    return _fields_line(fields)


def record_line(row: Row) -> str:
    """A row of the table ``records`` as a line, with keys and values in hexadecimal digits."""
    key, value = row["key"], row["value"]
    fields = {
        "offset": row["offset"],
        row["timestamp_type"]: row["timestamp_ms"],
        "keySize": -1 if key is None else len(key),
        "valueSize": -1 if value is None else len(value),
        "sequence": _number_or_minus_one(row["sequence"]),
        "headerKeys": f"[{','.join(header['key'] for header in row['headers'])}]",
    }
    if row["is_control"]:
        if row["coordinator_epoch"] is not None:
            fields["endTxnMarker"] = row["control_type"].upper()
            fields["coordinatorEpoch"] = row["coordinator_epoch"]
    else:
        fields |= {"key": bytes(key).hex()} if key is not None else {}
        fields |= {"payload": bytes(value).hex()} if value is not None else {}
    return "| " + _fields_line(fields).rstrip()


def snapshot_line(row: Row) -> str:
    """A row of the table ``producer_state`` as a line."""
    open_offset = row["open_offset"]
    fields = {
        "producerId": row["producer_id"],
        "producerEpoch": row["producer_epoch"],
        "coordinatorEpoch": _number_or_minus_one(row["coordinator_epoch"]),
        "currentTxnFirstOffset": "OptionalLong"
        + (".empty" if open_offset is None else f"[{open_offset}]"),
        "lastTimestamp": row["last_timestamp_ms"],
    }
    if row["last_offset"] is not None:
        last_sequence = row["last_sequence"]
        fields |= {
            "firstSequence": (last_sequence - row["offset_delta"]) % SEQUENCE_SPAN
            if last_sequence >= 0
            else last_sequence,
            "lastSequence": last_sequence,
            "lastOffset": row["last_offset"],
            "offsetDelta": row["offset_delta"],
            "timestamp": row["last_timestamp_ms"],
        }
    return _fields_line(fields)


def aborted_line(row: Row) -> str:
    """A row of the table ``aborted`` as a line."""
    return _fields_line(
        {
            "version": 0,
            "producerId": row["producer_id"],
            "firstOffset": row["first_offset"],
            "lastOffset": row["marker_offset"],
            "lastStableOffset": row["last_stable_offset"],
        }
    )


def transaction_values(row: Row) -> tuple[str, dict[str, Any] | None]:
    """Key and value of a row of the table ``transactions``, in the words of the coordinator's
    schema.
    """
    if row["is_tombstone"]:
        return row["transactional_id"], None
    partitions: defaultdict[str, list[int]] = defaultdict(list)
    for partition in row["partitions"]:
        partitions[partition["topic"]].append(partition["partition"])
    return row["transactional_id"], {
        "version": row["value_version"],
        "producerId": row["producer_id"],
        "previousProducerId": _number_or_minus_one(row["previous_producer_id"]),
        "nextProducerId": _number_or_minus_one(row["next_producer_id"]),
        "producerEpoch": row["producer_epoch"],
        "transactionTimeoutMs": row["timeout_ms"],
        "transactionStatus": row["state"],
        "transactionPartitions": {topic: sorted(many) for topic, many in partitions.items()},
        "transactionLastUpdateTimestampMs": row["last_update_timestamp_ms"],
        "transactionStartTimestampMs": _number_or_minus_one(row["start_timestamp_ms"]),
        "clientTransactionVersion": row["client_transaction_version"],
    }


def dumped_transaction(line: str) -> tuple[str, dict[str, Any] | None]:
    """Key and value from a line that the decoder of the transaction log printed."""
    key, printed_value = decode_line(line)
    if printed_value is None:
        return key["data"]["transactionalId"], None
    data = printed_value["data"]
    return key["data"]["transactionalId"], {
        # What is at its default is left out of tagged fields, or not in version 0 at all.
        "version": int(printed_value["version"]),
        "previousProducerId": -1,
        "nextProducerId": -1,
        "clientTransactionVersion": 0,
        **data,
        "transactionPartitions": {
            transaction_partition["topic"]: sorted(transaction_partition["partitionIds"])
            for transaction_partition in data["transactionPartitions"] or ()
        },
    }


def offset_values(row: Row) -> dict[str, Any]:
    """Values of a row of the table ``offsets``: kind, group and versions of any record, all of a
    commit.
    """
    values = {
        "type": row["key_version"],
        "group": row["group_id"],
        "version": row["value_version"],
    }
    if row["kind"] == "offset_commit":
        values |= {"topic": row["committed_topic"], "partition": row["committed_partition"]}
        if not row["is_tombstone"]:
            values |= {
                "offset": row["committed_offset"],
                "leaderEpoch": _number_or_minus_one(row["committed_leader_epoch"]),
                "metadata": row["committed_metadata"],
                "commitTimestamp": row["commit_timestamp_ms"],
                "topicId": row["committed_topic_id"],
            }
    return values


def dumped_offset(line: str) -> dict[str, Any]:
    """Values from a line that the decoder of offsets printed."""
    key, printed_value = decode_line(line)
    data = key["data"]
    values = {
        "type": int(key["type"]),
        "group": data.get("group", data.get("groupId")),
        "version": None if printed_value is None else int(printed_value["version"]),
    }
    if key["type"] in ("0", "1"):
        values |= {"topic": data["topic"], "partition": data["partition"]}
        if printed_value is not None:
            fields = {"leaderEpoch": -1, "topicId": None, **printed_value["data"]}
            # Zeros stand for an id that the coordinator does not know.
            fields["topicId"] = None if fields["topicId"] == NO_TOPIC_ID else fields["topicId"]
            names = ("offset", "leaderEpoch", "metadata", "commitTimestamp", "topicId")
            values |= {name: fields[name] for name in names}
    return values


def decode_line(line: str) -> tuple[Any, Any]:
    """(key, value) of a line of a coordinator's record; the value of a tombstone is None."""
    _, _, value_text = line.partition(" key: ")
    key, _, printed_value = value_text.partition(" payload: ")
    return json.loads(key), None if printed_value == "<DELETE>" else json.loads(printed_value)


def _fields_line(fields: Mapping[str, Any]) -> str:
    return " ".join(f"{name}: {value}" for name, value in fields.items())


def _number_or_minus_one(value: Any) -> Any:
    return -1 if value is None else value


def _truth_word(value: Any) -> str:
    return str(bool(value)).lower()
