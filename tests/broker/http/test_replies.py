"""Requests read and refused, without any route."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, MutableMapping
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse

from txnsim.http.messages import Kill
from txnsim.http.replies import (
    BODY_BYTES_MAX,
    PIECE_BYTES,
    Body,
    Listing,
    OptionalBody,
    RefusedError,
    as_json,
    no_body_of,
    number_of,
    refused,
)
from txnsim.runtime.turns import Pace, Turns


def request(
    body: bytes = b"", query: bytes = b"", headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Request:
    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request({"type": "http", "query_string": query, "headers": [*headers]}, receive)


async def test_an_empty_body_stands_for_the_default_where_there_is_one() -> None:
    assert await OptionalBody[Kill](request(), Kill).read() == Kill()
    with pytest.raises(RefusedError) as caught:
        await Body[Kill](request(), Kill).read()
    assert caught.value.status == 422


async def test_a_body_that_is_cut_off_is_no_bug() -> None:
    """A traceback of each would be 3.5 kB of log."""

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    cut_off = Request({"type": "http", "query_string": b"", "headers": []}, receive)
    with pytest.raises(RefusedError) as caught:
        await Body[Kill](cut_off, Kill).read()
    assert caught.value.status == 400


async def test_a_body_is_what_it_says_and_not_too_large() -> None:
    wanted = await Body[Kill](request(b'{"lose_unflushed": true}'), Kill).read()
    assert wanted.lose_unflushed
    with pytest.raises(RefusedError) as caught:
        await Body[Kill](request(b" " * (BODY_BYTES_MAX + 1)), Kill).read()
    assert caught.value.status == 413


@pytest.mark.parametrize("rest", [b"}}", b",tru}", b',"a":"\xff"}'])
async def test_a_wrong_value_in_front_of_what_is_no_json_is_refused(rest: bytes) -> None:
    with pytest.raises(RefusedError, match="no JSON") as caught:
        await Body[Kill](request(b'{"lose_unflushed": 5' + rest), Kill).read()
    assert caught.value.status == 422


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"x": ' + b"[" * 9_000 + b"]" * 9_000 + b"}"])
async def test_a_body_that_is_nested_too_deep_is_refused(body: bytes) -> None:
    with pytest.raises(RefusedError, match="nested too deep") as caught:
        await Body[Kill](request(body), Kill).read()
    assert caught.value.status == 422
    with pytest.raises(RefusedError, match="nested too deep") as caught:
        await no_body_of(request(body, headers=((b"content-length", b"7"),)))
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", None), (b"{}", None), (b"garbage", 400), (b"{", 400), (b"\xff", 400)],
)
@pytest.mark.parametrize("header", [(b"content-length", b"7"), (b"transfer-encoding", b"chunked")])
async def test_a_body_that_nobody_wants_is_at_least_json(
    body: bytes, status: int | None, header: tuple[bytes, bytes]
) -> None:
    asked = request(body, headers=(header,))
    if status is None:
        await no_body_of(asked)
        return
    with pytest.raises(RefusedError, match="no body is wanted here") as caught:
        await no_body_of(asked)
    assert caught.value.status == status


async def test_a_body_that_nobody_wants_is_not_too_large() -> None:
    asked = request(b" " * (BODY_BYTES_MAX + 1), headers=((b"content-length", b"1000001"),))
    with pytest.raises(RefusedError) as caught:
        await no_body_of(asked)
    assert caught.value.status == 413
    await no_body_of(request(b"garbage that no header announces"))


@pytest.mark.parametrize(("query", "found"), [(b"", 5), (b"n=0", 0), (b"n=9", 9)])
def test_a_number_of_the_query(query: bytes, found: int) -> None:
    assert number_of(request(query=query), "n", default=5, least=0, most=9) == found


@pytest.mark.parametrize("query", [b"n=10", b"n=-1", b"n=x", b"n="])
def test_what_is_no_number_within_bounds_is_refused(query: bytes) -> None:
    with pytest.raises(RefusedError, match="expected a whole number 0 to 9"):
        number_of(request(query=query), "n", default=5, least=0, most=9)


async def test_a_refusal_is_an_answer() -> None:
    answer = await refused(request(), RefusedError(409, "do this instead"))
    assert (answer.status_code, answer.body) == (409, b'{"error":"do this instead"}')
    assert as_json([1]).body == b"[1]"


async def listed(elements: Iterable[object], *, bytes_max: int = 10_000_000) -> bytes:
    loop = asyncio.get_running_loop()
    pace = Pace(Turns(loop), time_ns)
    answer = await Listing(elements, pace, bytes_max=bytes_max).response(status=200)
    assert answer.media_type == "application/json"
    if not isinstance(answer, StreamingResponse):
        return bytes(answer.body)
    return b"".join([bytes(piece) async for piece in answer.body_iterator])  # type: ignore[arg-type]


def time_ns() -> int:
    """Of a clock on which no time passes: breaks come after so many elements."""
    return 0


@pytest.mark.parametrize("count", [0, 1, 2, PIECE_BYTES // 10, PIECE_BYTES])
async def test_a_list_of_any_length_is_the_json_of_it(count: int) -> None:
    elements = [{"a": number} for number in range(count)]
    assert await listed(elements) == msgspec.json.encode(elements)


async def test_others_have_their_turn_while_a_long_list_is_made() -> None:
    turns: list[int] = []
    made: list[int] = []

    def another_turn() -> None:
        turns.append(len(made))
        asyncio.get_running_loop().call_soon(another_turn)

    def elements() -> Iterator[str]:
        for number in range(10_000):
            made.append(number)
            yield "x" * 1_000

    another_turn()
    await listed(elements(), bytes_max=20_000_000)
    between = [late - early for early, late in pairwise(turns)]
    assert 0 < max(between) < 200, "elements between two turns of the loop"


async def test_a_list_with_more_bytes_than_an_answer_may_have_is_refused_while_it_is_made() -> None:
    made: list[int] = []

    def elements() -> Iterator[str]:
        for number in range(1_000):
            made.append(number)
            yield "x" * 100

    with pytest.raises(RefusedError) as caught:
        await listed(elements(), bytes_max=1_000)
    assert caught.value.status == 422
    assert len(made) <= 11
