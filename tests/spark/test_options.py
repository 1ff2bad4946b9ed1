"""What a user may give, and what is refused with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from txnsim.errors import BadInputError
from txnsim_spark.options import (
    COSTS,
    HEADERS_COST,
    NAMES,
    Check,
    KafkaLogOptions,
)
from txnsim_spark.schemas import TABLES


def of(**options: str) -> KafkaLogOptions:
    return KafkaLogOptions.of({"path": "/logs", **options})


def test_only_a_path_is_needed() -> None:
    assert of() == KafkaLogOptions(
        paths=(Path("/logs"),),
        table="batches",
        topics=frozenset(),
        check_crc=Check.AUTO,
        check_records=False,
    )


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        ({"taskBytes": "5"}, "task_bytes", 5),
        ({"TASKBYTES": "5"}, "task_bytes", 5),
        ({"task_bytes": "5"}, "task_bytes", 5),
        ({"path": "/a, /b,"}, "paths", (Path("/a"), Path("/b"))),
        ({"path": "", "paths": '["/a", "/b"]'}, "paths", (Path("/a"), Path("/b"))),
        ({"path": "", "paths": '["/a,b"]'}, "paths", (Path("/a,b"),)),
        ({"path": "logs"}, "paths", (Path.cwd() / "logs",)),  # workers start elsewhere
        ({"path": "file:///a%20b"}, "paths", (Path("/a b"),)),
        ({"topics": "orders, payments,"}, "topics", {"orders", "payments"}),
        ({"path": "", "paths": '["/a", " "]'}, "paths", (Path("/a"),)),
        ({"partitions": "0, 12"}, "partitions", {0, 12}),
        ({"producerIds": "7,8"}, "producer_ids", {7, 8}),
        ({"startingOffsets": "earliest"}, "starting_offsets", {}),
        ({"startingOffsets": "latest"}, "starts_latest", True),
        (
            {"startingOffsets": '{"orders": {"0": 23, "1": -2}}'},
            "starting_offsets",
            {"orders": {0: 23}},
        ),
        ({"endingOffsets": "latest"}, "ending_offsets", {}),
        ({"endingOffsets": '{"a": {"0": 5, "1": -1}}'}, "ending_offsets", {"a": {0: 5}}),
        ({"startTimestamp": "1700000000000"}, "start_ms", 1_700_000_000_000),
        ({"endTimestamp": "2023-11-14T22:13:20"}, "end_ms", 1_700_000_000_000),
        ({"checkCrc": "auto"}, "check_crc", Check.AUTO),
        ({"checkCrc": "TRUE"}, "check_crc", Check.ALL),
        ({"checkCrc": "false"}, "check_crc", Check.NONE),
    ],
)
def test_an_option_is_read_as_it_is_meant(
    options: dict[str, str], field: str, value: object
) -> None:
    assert getattr(of(**options), field) == value


def test_each_table_has_a_cost() -> None:
    assert COSTS.keys() <= TABLES.keys()
    assert min(COSTS.values()) > HEADERS_COST


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tabel": "records"}, "there is no option 'tabel'; did you mean table?"),
        ({"zzz": "1"}, f"there is no option 'zzz'; there are {', '.join(NAMES)}"),
        ({"table": "record"}, "option table: 'record', expected one of batches, fragments"),
        ({"checkCrc": "yes"}, "option checkCrc: 'yes', expected auto, true or false"),
        ({"checkRecords": "1"}, "option checkRecords: '1', expected true or false"),
        ({"taskBytes": "0"}, "option taskBytes: '0', expected a number of bytes"),
        ({"taskBytes": "1k"}, "option taskBytes: '1k', expected a number of bytes"),
        ({"paths": "/a"}, "option paths: '/a', expected a JSON list"),
        ({"startOffsets": "5"}, "no option 'startoffsets'; did you mean startingOffsets?"),
        ({"startingOffsets": "5"}, "option startingOffsets: '5', expected earliest, or JSON such"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "option startingOffsets"),
        ({"startingOffsets": "{}"}, "option startingOffsets: '{}', expected"),
        ({"endingOffsets": "earliest"}, "option endingOffsets: 'earliest', expected latest"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "option endingOffsets"),
        ({"startTimestamp": "noon"}, "option startTimestamp: 'noon', expected milliseconds"),
        ({"topics": " ,"}, "option topics: ' ,', expected names, separated by commas"),
        ({"partitions": ""}, "option partitions: '', expected numbers, separated by commas"),
        ({"producerIds": "seven"}, "option producerIds: 'seven', expected numbers"),
        ({"table": "replicas", "endingOffsets": "latest"}, "endingOffsets: only of the tables"),
        ({"table": "errors", "startTimestamp": "1"}, "option startTimestamp: only of the tables"),
        ({"table": "transactions", "producerIds": "1"}, "producerIds: only of the tables aborted"),
        ({"table": "findings", "partitions": "1"}, "option partitions: only of the tables"),
        ({"path": "", "paths": '[""]'}, "option path is missing"),
        ({"path": " , "}, "option path is missing"),
        ({"asOf": "1"}, "option asOf: only of the table findings"),
        ({"table": "findings", "asOf": "noon"}, "expected milliseconds since 1970, or ISO 8601"),
        ({"table": "findings", "maxTransactionTimeoutMs": "0"}, "milliseconds, 1 or more"),
        ({"maxBytesPerTrigger": "9", "maxFilesPerTrigger": "9"}, "give one of them"),
    ],
)
def test_what_is_wrong_is_refused_by_name(options: dict[str, str], words: str) -> None:
    with pytest.raises(BadInputError, match="format kafka_log") as refused:
        of(**options)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [("1700000000000", 1_700_000_000_000), ("2023-11-14T23:13:20+01:00", 1_700_000_000_000)],
)
def test_findings_are_asked_about_a_time(text: str, time_ms: int) -> None:
    found = of(table="findings", asOf=text, maxTransactionTimeoutMs="60000")
    assert (found.as_of_ms, found.max_transaction_timeout_ms) == (time_ms, 60_000)
