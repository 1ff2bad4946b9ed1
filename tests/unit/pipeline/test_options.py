"""What a user may give, and what is refused with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from txnsim.errors import BadInputError
from txnsim.pipeline.options import (
    COSTS,
    HEADERS_COST,
    NAMES,
    Check,
    KafkaLogOptions,
)
from txnsim.pipeline.schemas import TABLES


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


def test_names_are_taken_in_any_case_and_with_underscores() -> None:
    assert of(taskBytes="5") == of(TASKBYTES="5") == of(task_bytes="5")


def test_several_paths_stand_in_one_option_or_in_a_list() -> None:
    one = KafkaLogOptions.of({"path": "/a, /b,"})
    listed = KafkaLogOptions.of({"paths": '["/a", "/b"]'})
    assert one == listed
    assert one.paths == (Path("/a"), Path("/b"))


def test_a_comma_in_a_folder_s_name_takes_the_list() -> None:
    assert KafkaLogOptions.of({"paths": '["/a,b"]'}).paths == (Path("/a,b"),)


def test_a_relative_path_is_made_absolute_as_workers_start_elsewhere() -> None:
    assert KafkaLogOptions.of({"path": "logs"}).paths == (Path.cwd() / "logs",)


def test_a_url_of_a_file_is_a_path() -> None:
    assert KafkaLogOptions.of({"path": "file:///a%20b"}).paths == (Path("/a b"),)


def test_topics_are_a_list() -> None:
    assert of(topics="orders, payments,").topics == {"orders", "payments"}


def test_starts_are_offsets_of_replicas_folders() -> None:
    assert of().start_offsets == {}
    assert of(startOffsets='{"/logs/orders-0": 5}').start_offsets == {"/logs/orders-0": 5}


def test_each_table_has_a_cost() -> None:
    assert COSTS.keys() <= TABLES.keys()
    assert min(COSTS.values()) > HEADERS_COST


@pytest.mark.parametrize(
    ("text", "check"), [("auto", Check.AUTO), ("TRUE", Check.ALL), ("false", Check.NONE)]
)
def test_crcs_are_checked_where_a_broker_would_always_or_never(text: str, check: Check) -> None:
    assert of(checkCrc=text).check_crc is check


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
        ({"startOffsets": "5"}, "option startOffsets: '5', expected a JSON object"),
        ({"path": " , "}, "option path is missing"),
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


def test_a_time_of_another_table_and_no_time_are_refused() -> None:
    with pytest.raises(BadInputError, match="option asOf: only of the table findings"):
        of(asOf="1")
    with pytest.raises(BadInputError, match="expected milliseconds since 1970, or ISO 8601"):
        of(table="findings", asOf="noon")
    with pytest.raises(BadInputError, match="a number of milliseconds, 1 or more"):
        of(table="findings", maxTransactionTimeoutMs="0")
