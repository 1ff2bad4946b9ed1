"""Frames to requests and replies to bytes: with breaks it is the same as without."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from typing import Any

import msgspec
import pytest

from tests.support.raw_wire import message_from
from txnsim.api.kip_text.table import KIP_TEXT
from txnsim.api.parsing import SMALL_BYTES, encoded_with_breaks, joined, parsed_with_breaks
from txnsim.api.registry import SHIPPED
from txnsim.api.request import NO_LINK, ApiTable, ClientLink, parsed
from txnsim.errors import (
    AnswerTooLargeError,
    ErrorCode,
    MalformedFrameError,
    UnsupportedRequestError,
    WorkIsOverError,
)
from txnsim.runtime.turns import Pace, Turns
from txnsim.wire import codec
from txnsim.wire.messages.write_txn_markers_kip_664 import WriteTxnMarkersRequest
from txnsim.wire.values import Rows


def frame(key: int, version: int, **values: object) -> bytes:
    message = message_from(codec.request_class(key, version), values)
    return codec.encode_request(key, version, 7, "c", message)[4:]


@dataclasses.dataclass
class Origin:
    """A connection as far as its requests tell of it."""

    apis: ApiTable
    client_host: str = "/127.0.0.1"
    principal: str = "User:alice"
    link: ClientLink = NO_LINK


NO_BROKER: Any = None


def read(data: bytes, apis: ApiTable = SHIPPED) -> dict[str, Any]:
    return msgspec.structs.asdict(parsed(data, Origin(apis), NO_BROKER))


async def read_slowly(data: bytes, slow: Pace, apis: ApiTable = SHIPPED) -> dict[str, Any]:
    return msgspec.structs.asdict(await parsed_with_breaks(data, Origin(apis), NO_BROKER, slow))


def pace() -> Pace:
    return Pace(Turns(asyncio.get_running_loop()), lambda: 0)


async def test_a_large_request_is_the_same_with_breaks() -> None:
    data = frame(3, 9, topics=[{"name": f"topic-{number}"} for number in range(3_000)])
    slow = pace()
    assert await read_slowly(data, slow) == read(data)
    assert slow.has_rested


async def test_what_a_handler_reads_in_a_way_of_its_own_is_read_in_one_go() -> None:
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "txn_start_offset": 5}]}]
    marker = {"producer_id": 7, "producer_epoch": 0, "topics": topics}
    message = message_from(WriteTxnMarkersRequest, {"markers": [marker]})
    data = codec.encode_request(27, 1, 7, "c", message)[4:]
    assert await read_slowly(data, pace(), KIP_TEXT) == read(data, KIP_TEXT)


async def test_a_handler_has_a_last_word_on_what_can_be_read() -> None:
    kinds = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
    many = [kinds] * 3_000
    good, bad = frame(30, 3, creations=many), frame(30, 3, creations=[*many, {}])
    slow = pace()
    assert await read_slowly(good, slow) == read(good)
    assert slow.has_rested
    with pytest.raises(MalformedFrameError):
        read(bad)
    with pytest.raises(MalformedFrameError):
        await read_slowly(bad, pace())


async def test_a_newer_client_learns_the_versions_also_in_a_large_frame() -> None:
    data = bytes((0, 18, 0, 99)) + bytes(4) + b"\xff\xff" + bytes(30_000)
    found = await read_slowly(data, pace())
    assert (found["refused"], found["api_version"]) == (ErrorCode.unsupported_version, 0)
    assert found == read(data)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (bytes((3, 231)) + bytes(20), UnsupportedRequestError),
        (bytes((0, 3, 0, 99)) + bytes(20), UnsupportedRequestError),
        (bytes((0, 3, 0, 1)) + bytes(4) + b"\xff\xff\x7f\xff\xff\xff", MalformedFrameError),
    ],
)
async def test_what_is_no_request_is_refused(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        read(data)
    with pytest.raises(error):
        await read_slowly(data, pace())


@pytest.mark.parametrize("nested", [True, False])
async def test_a_large_reply_has_the_same_bytes_with_breaks(*, nested: bool) -> None:
    numbers = range(3_000)
    if nested:
        partitions = [{"partition_index": number} for number in numbers]
        topics = [{"name": "t", "partitions": partitions}, {"name": "u", "partitions": partitions}]
    else:
        topics = [{"name": f"topic-{number}"} for number in numbers]
    reply = message_from(codec.response_class(3, 9), {"topics": topics, "cluster_id": "c"})
    slow = pace()
    gone_over: list[Any] = []
    pieces = await encoded_with_breaks(reply, slow, gone_over.append, limit=1 << 20)
    assert b"".join(pieces) == codec.encode_body(reply)
    assert slow.has_rested
    assert gone_over == [reply]


async def test_what_is_there_again_is_encoded_once_and_has_the_same_bytes() -> None:
    partitions = [{"partition_index": number} for number in range(3_000)]
    topics = [{"name": "t", "partitions": partitions}, {"name": "u", "partitions": ()}]
    once = message_from(codec.response_class(3, 9), {"topics": topics, "cluster_id": "c"})
    first, second = once.topics
    reply = dataclasses.replace(once, topics=(first, second, first, first, second))
    pieces = await encoded_with_breaks(reply, pace(), id, limit=1 << 20)
    assert b"".join(pieces) == codec.encode_body(reply)
    assert max(Counter(map(id, pieces)).values()) == 3


@pytest.mark.parametrize("repeats", [1, 3])
async def test_an_answer_that_is_too_large_is_given_up_while_it_grows(repeats: int) -> None:
    topics = [{"name": f"topic-{number}"} for number in range(3_000 // repeats)]
    reply = message_from(codec.response_class(3, 9), {"topics": topics, "cluster_id": "c"})
    reply = dataclasses.replace(reply, topics=reply.topics * repeats)
    gone_over: list[Any] = []
    with pytest.raises(AnswerTooLargeError):
        await encoded_with_breaks(reply, pace(), gone_over.append, limit=20_000)
    assert gone_over == []


async def test_nobody_is_left_who_waits_for_an_answer() -> None:
    topics = [{"name": f"topic-{number}"} for number in range(3_000)]
    reply = message_from(codec.response_class(3, 9), {"topics": topics, "cluster_id": "c"})
    slow = pace()
    slow.is_wanted = lambda: False
    with pytest.raises(WorkIsOverError):
        await encoded_with_breaks(reply, slow, id, limit=1 << 20)


async def test_a_large_reply_has_few_pieces_and_large_ones_are_not_copied() -> None:
    schema = codec.response_schema(0, 9)
    large = bytes(SMALL_BYTES)
    assert list(joined([b"a", b"b", large, b"c"])) == [b"ab", large, b"c"]
    assert next(joined([large])) is large
    errors = Rows(
        lambda number: schema.BatchIndexAndErrorMessage(
            batch_index=number, batch_index_error_message="no key"
        ),
        range(50_000),
    )
    partition = codec.build(
        schema.PartitionProduceResponse,
        index=0,
        error_code=ErrorCode.invalid_record,
        base_offset=-1,
        record_errors=errors,
    )
    topic = schema.TopicProduceResponse(name="t", partition_responses=(partition,))
    reply = codec.build(codec.response_class(0, 9), responses=(topic,), throttle_time=0)
    slow = pace()
    pieces = await encoded_with_breaks(reply, slow, id, limit=1 << 24)
    assert slow.has_rested
    assert len(pieces) < 200
    read = codec.read_response(0, 9, bytes(5) + b"".join(pieces))[1]
    found = read.responses[0].partition_responses[0].record_errors
    assert [one.batch_index for one in found] == list(range(50_000))


@pytest.mark.parametrize(
    ("key", "values", "told"),
    [
        (26, {"transactional_ids": "t"}, "EndTxnRequest has no field transactional_ids; it has"),
        (8, {"topics": [{"topic": "t"}]}, "OffsetCommitRequest.topics has no field topic;"),
    ],
)
def test_the_helper_of_tests_takes_no_field_that_no_version_has(
    key: int, values: dict[str, Any], told: str
) -> None:
    """It was left out as one of another version is, and the test asked something else."""
    with pytest.raises(TypeError, match=told):
        message_from(codec.request_class(key, 2), values)


def test_the_helper_of_tests_takes_fields_of_other_versions() -> None:
    old = message_from(codec.request_class(24, 0), {"transactions": [{"verify_only": True}]})
    assert old.__version__ == 0
