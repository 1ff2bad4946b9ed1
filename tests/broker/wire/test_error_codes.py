"""Errors in answers: at the top, in elements, in tagged fields; those that can't hold any."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import KEYS
from txnsim.errors import ErrorCode
from txnsim.wire import codec
from txnsim.wire.apis import APIS
from txnsim.wire.error_codes import errors_of, position_of_error
from txnsim.wire.registry import versions


def told(message: Any) -> list[int]:
    found: list[int] = []
    teller = errors_of(message.__class__)
    assert teller is not None
    teller(message, found.append)
    return found


def test_the_error_of_an_answer_is_found_unless_it_is_none() -> None:
    made = codec.response_class(KEYS["Heartbeat"], 1)
    for error, expected in ((ErrorCode.none, []), (ErrorCode.unknown_member_id, [25])):
        assert told(codec.build(made, throttle_time=0, error_code=error)) == expected


def test_errors_of_elements_are_found_one_by_one() -> None:
    schema = codec.response_schema(KEYS["AddPartitionsToTxn"], 3)

    def partition(index: int, error: ErrorCode) -> Any:
        return schema.AddPartitionsToTxnPartitionResult(
            partition_index=index, partition_error_code=error
        )

    topics = tuple(
        schema.AddPartitionsToTxnTopicResult(name=name, results_by_partition=partitions)
        for name, partitions in (
            ("a", (partition(0, ErrorCode.none), partition(1, ErrorCode.operation_not_attempted))),
            ("b", (partition(0, ErrorCode.unknown_topic_or_partition),)),
        )
    )
    made = codec.response_class(KEYS["AddPartitionsToTxn"], 3)
    answer = codec.build(made, throttle_time=0, results_by_topic_v3_and_below=topics)
    assert told(answer) == [55, 3]


def test_an_array_that_is_null_has_no_errors() -> None:
    made = codec.response_class(KEYS["CreateAcls"], 3)
    assert told(codec.build(made, throttle_time=0, results=None)) == []


def test_an_answer_without_error_codes_tells_none() -> None:
    assert errors_of(codec.response_schema(KEYS["DescribeQuorum"], 2).Listener) is None


@pytest.mark.parametrize(
    ("api", "version", "position"),
    [("EndTxn", 0, 4), ("Heartbeat", 0, 0), ("Heartbeat", 4, 4), ("AddOffsetsToTxn", 3, 4)],
)
def test_an_error_that_is_always_at_one_place_is_found_in_the_bytes(
    api: str, version: int, position: int
) -> None:
    made = codec.response_class(KEYS[api], version)
    assert position_of_error(made) == position
    values = {"error_code": ErrorCode.not_coordinator, "throttle_time": 0}
    values |= {"producer_id": 1, "producer_epoch": 1} if (api, version) == ("EndTxn", 5) else {}
    body = codec.encode_body(codec.build(made, **values))
    assert int.from_bytes(body[position : position + 2], "big") == ErrorCode.not_coordinator


@pytest.mark.parametrize(("api", "version"), [("Produce", 9), ("AddPartitionsToTxn", 3)])
def test_errors_of_elements_have_no_place(api: str, version: int) -> None:
    assert position_of_error(codec.response_class(KEYS[api], version)) is None


def test_an_answer_of_fixed_width_without_error_has_no_place() -> None:
    assert position_of_error(codec.response_schema(0, 8).BatchIndexAndErrorMessage) is None
    assert position_of_error(codec.response_schema(1, 18).EpochEndOffset) is None


@pytest.mark.slow
def test_every_answer_of_every_version_can_be_looked_at() -> None:
    for key in APIS:
        for version in versions(key):
            errors_of(codec.response_class(key, version))
            position_of_error(codec.response_class(key, version))
