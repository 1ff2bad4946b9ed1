"""The control port without its nouns: requests, guards, pages, its document."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import weakref
from collections.abc import Iterable, Iterator, MutableMapping
from itertools import pairwise
from typing import Any

import httpx
import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.support.clusters import VirtualCluster, real_cluster, run_cluster
from tests.support.control_port import run_story
from tests.support.learnt_structs import is_learnt
from tests.support.within_environment import within
from txnsim.faults.rule import FaultRule
from txnsim.http._app import INDEX_PATHS, OPERATIONS, ControlApi
from txnsim.http._guard import AccessGuard, AccessRules, is_loopback
from txnsim.http._openapi import document
from txnsim.http.messages import Kill
from txnsim.http.operation import Noun, Operation
from txnsim.http.replies import (
    BODY_BYTES_MAX,
    PIECE_BYTES,
    Body,
    LargeObject,
    Listing,
    OptionalBody,
    RefusedError,
    WithStatus,
    _encode_part,
    as_json,
    no_body_of,
    number_of,
    refusal_response,
)
from txnsim.http.server import ControlServer
from txnsim.http.work_thread import WorkThread
from txnsim.on_demand_imports import missing
from txnsim.runtime.loop_turns import Pace, Turns
from txnsim.runtime.switch_interval import SWITCH_S
from txnsim.runtime.trace import TraceLevel

# Requests read and refused, without any route.


def request(
    body: bytes = b"", query: bytes = b"", headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Request:
    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request({"type": "http", "query_string": query, "headers": [*headers]}, receive)


async def test_an_empty_body_stands_for_the_default_where_there_is_one() -> None:
    assert await OptionalBody[Kill](request(), Kill).read() == Kill()
    with pytest.raises(RefusedError) as error_info:
        await Body[Kill](request(), Kill).read()
    assert error_info.value.status == 422


async def test_a_body_that_is_cut_off_is_no_bug() -> None:
    """The log gets no traceback for such a request."""

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    cut_off = Request({"type": "http", "query_string": b"", "headers": []}, receive)
    with pytest.raises(RefusedError) as error_info:
        await Body[Kill](cut_off, Kill).read()
    assert error_info.value.status == 400


async def test_a_body_is_what_it_says_and_not_too_large() -> None:
    kill = await Body[Kill](request(b'{"lose_unflushed": true}'), Kill).read()
    assert kill.lose_unflushed
    with pytest.raises(RefusedError) as error_info:
        await Body[Kill](request(b" " * (BODY_BYTES_MAX + 1)), Kill).read()
    assert error_info.value.status == 413


@pytest.mark.parametrize("trailing_bytes", [b"}}", b",tru}", b',"a":"\xff"}'])
async def test_a_wrong_value_in_front_of_what_is_no_json_is_refused(trailing_bytes: bytes) -> None:
    with pytest.raises(RefusedError, match="no JSON") as error_info:
        await Body[Kill](request(b'{"lose_unflushed": 5' + trailing_bytes), Kill).read()
    assert error_info.value.status == 422


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"x": ' + b"[" * 9_000 + b"]" * 9_000 + b"}"])
async def test_a_body_that_is_nested_too_deep_is_refused(body: bytes) -> None:
    with pytest.raises(RefusedError, match="nested too deep") as error_info:
        await Body[Kill](request(body), Kill).read()
    assert error_info.value.status == 422
    with pytest.raises(RefusedError, match="nested too deep") as error_info:
        await no_body_of(request(body, headers=((b"content-length", b"7"),)))
    assert error_info.value.status == 400


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
    with pytest.raises(RefusedError, match="no body is wanted here") as error_info:
        await no_body_of(asked)
    assert error_info.value.status == status


async def test_a_body_that_nobody_wants_is_not_too_large() -> None:
    asked = request(b" " * (BODY_BYTES_MAX + 1), headers=((b"content-length", b"1000001"),))
    with pytest.raises(RefusedError) as error_info:
        await no_body_of(asked)
    assert error_info.value.status == 413
    await no_body_of(request(b"garbage that no header announces"))


@pytest.mark.parametrize(("query", "expected_number"), [(b"", 5), (b"n=0", 0), (b"n=9", 9)])
def test_a_number_of_the_query(query: bytes, expected_number: int) -> None:
    assert number_of(request(query=query), "n", default=5, minimum=0, maximum=9) == expected_number


@pytest.mark.parametrize("query", [b"n=10", b"n=-1", b"n=x", b"n="])
def test_what_is_no_number_within_bounds_is_refused(query: bytes) -> None:
    with pytest.raises(RefusedError, match="expected a whole number 0 to 9"):
        number_of(request(query=query), "n", default=5, minimum=0, maximum=9)


async def test_a_refusal_is_an_answer() -> None:
    answer = await refusal_response(request(), RefusedError(409, "do this instead"))
    assert (answer.status_code, answer.body) == (409, b'{"error":"do this instead"}')
    assert as_json([1]).body == b"[1]"


def pace() -> Pace:
    return Pace(Turns(asyncio.get_running_loop()), time_ns)


async def listing_body(elements: Iterable[object], *, bytes_max: int = 10_000_000) -> bytes:
    return await body_of(Listing(elements, pace(), bytes_max=bytes_max))


async def body_of(json_answer: Listing[Any] | LargeObject[Any]) -> bytes:
    answer = await json_answer.response(status=200)
    assert answer.media_type == "application/json"
    if not isinstance(answer, StreamingResponse):
        return bytes(answer.body)
    return b"".join([bytes(chunk) async for chunk in answer.body_iterator])  # type: ignore[arg-type]


def time_ns() -> int:
    """The time of a clock that stands still: breaks come after a number of elements."""
    return 0


@pytest.mark.parametrize("count", [0, 1, 2, PIECE_BYTES // 10, PIECE_BYTES])
async def test_a_list_of_any_length_is_the_json_of_it(count: int) -> None:
    elements = [{"a": number} for number in range(count)]
    assert await listing_body(elements) == msgspec.json.encode(elements)


class Album(msgspec.Struct, rename="camel"):
    """An object with two lists."""

    album_title: str
    pages: tuple[dict[str, int], ...]
    empty_pages: tuple[int, ...] = ()
    is_open: bool = True


@pytest.mark.parametrize("count", [0, 1, 2, PIECE_BYTES // 10, PIECE_BYTES])
async def test_an_object_of_any_length_is_the_json_of_it(count: int) -> None:
    album = Album(album_title='"a"', pages=tuple({"a": number} for number in range(count)))
    answer = LargeObject(album, pace(), bytes_max=10_000_000)
    assert await body_of(answer) == msgspec.json.encode(album)


class Shelf(msgspec.Struct):
    """An object with a list of objects that have lists."""

    albums: tuple[Album, ...]


async def test_a_long_list_within_an_element_is_encoded_in_slices() -> None:
    """100,000 open transactions of one partition were encoded in one step."""
    pages = tuple({"a": number} for number in range(1_000))
    shelf = Shelf(albums=(Album(album_title="a", pages=pages), Album(album_title="b", pages=())))
    answer_pace = pace()
    answer = LargeObject(shelf, answer_pace, bytes_max=10_000_000)
    assert max(len(_encode_part(part)) for part in answer._parts) < 100
    assert await body_of(answer) == msgspec.json.encode(shelf)
    assert answer_pace.has_rested


async def test_an_object_that_is_too_large_is_refused() -> None:
    album = Album(album_title="a", pages=({"a": 1},))
    size = len(msgspec.json.encode(album))
    assert await body_of(LargeObject(album, pace(), bytes_max=size)) == msgspec.json.encode(album)
    with pytest.raises(RefusedError, match="answer_max_bytes"):
        await body_of(LargeObject(album, pace(), bytes_max=size - 1))


class Page(msgspec.Struct, weakref=True):
    """An element that tells when it is released."""

    text: str


async def test_the_elements_of_a_large_object_are_released_as_they_are_sent() -> None:
    released: list[int] = []
    pages = []
    for number in range(3):
        page = Page(text="x" * PIECE_BYTES)
        pages.append(page)
        weakref.finalize(page, released.append, number)
    album = Album(album_title="a", pages=tuple(pages))  # type: ignore[arg-type]
    answer = LargeObject(album, pace(), bytes_max=10_000_000)
    del album, pages, page
    response = await answer.response(status=200)
    assert isinstance(response, StreamingResponse)
    counts = [len(released) async for _ in response.body_iterator]
    assert counts[0] <= 1
    assert released == [0, 1, 2]


async def test_others_have_their_turn_while_a_long_list_is_made() -> None:
    turns: list[int] = []
    numbers_made: list[int] = []

    def another_turn() -> None:
        turns.append(len(numbers_made))
        asyncio.get_running_loop().call_soon(another_turn)

    def elements() -> Iterator[str]:
        for element_number in range(10_000):
            numbers_made.append(element_number)
            yield "x" * 1_000

    another_turn()
    await listing_body(elements(), bytes_max=20_000_000)
    between = [late - early for early, late in pairwise(turns)]
    assert 0 < max(between) < 200, "elements between two turns of the loop"


async def test_a_list_with_more_bytes_than_an_answer_may_have_is_refused_while_it_is_made() -> None:
    numbers_made: list[int] = []

    def elements() -> Iterator[str]:
        for element_number in range(1_000):
            numbers_made.append(element_number)
            yield "x" * 100

    with pytest.raises(RefusedError) as error_info:
        await listing_body(elements(), bytes_max=1_000)
    assert error_info.value.status == 422
    assert len(numbers_made) <= 11


# In front of the control port: names, pages, tokens.


TOKEN = "a-token-of-enough-letters"
PATH = "/api/v1/reset"
NEAR = AccessRules()
FAR = AccessRules(token=TOKEN, is_loopback=False)
BEARER = {"authorization": f"Bearer {TOKEN}"}


def status(access_rules: AccessRules, path: str = PATH, **headers: str) -> int | None:
    headers_by_name = {"host": "localhost:9080"} | {
        k.replace("_", "-"): v for k, v in headers.items()
    }
    complaint = access_rules.complaint(path, headers_by_name)
    return None if complaint is None else complaint[0]


@pytest.mark.parametrize(
    ("host", "expected_number"),
    [
        ("localhost", None),
        ("LOCALHOST:9080", None),
        ("127.0.0.1:1", None),
        ("[::1]:9080", None),
        ("[::1]", None),
        ("", 400),
        ("evil.example", 400),
        ("evil.example:9080", 400),
        ("localhost.evil.example", 400),
        ("127.0.0.1.evil.example:9080", 400),
        ("localhost:evil.example", 400),
    ],
)
def test_on_loopback_only_loopbacks_names_are_answered(
    host: str, expected_number: int | None
) -> None:
    assert status(NEAR, host=host) == expected_number
    assert status(FAR, host=host, **BEARER) is None


@pytest.mark.parametrize("path", [PATH, "/healthz", "/metrics"])
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://localhost:3000", "null", "", "localhost:9080"]
)
def test_a_page_of_another_place_may_not_ask(origin: str, path: str) -> None:
    assert status(NEAR, path, origin=origin) == 403
    assert status(FAR, path, origin=origin, **BEARER) == 403


def test_a_page_of_its_own_may_ask() -> None:
    own_origin = "http://localhost:9080"
    assert status(NEAR, origin=own_origin, sec_fetch_site="same-origin") is None
    assert status(NEAR, sec_fetch_site="none") is None
    assert status(NEAR, sec_fetch_site="cross-site") == 403


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Bearer é",
    ],
)
def test_without_the_token_only_health_and_metrics_are_answered(authorization: str) -> None:
    assert status(FAR, authorization=authorization) == 401
    assert status(FAR, "/openapi.json", authorization=authorization) == 401
    assert status(FAR, "/healthz/", authorization=authorization) == 401
    assert status(FAR, "/healthz", authorization=authorization) is None
    assert status(FAR, "/metrics", authorization=authorization) is None


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_with_the_token_all_is_answered(scheme: str) -> None:
    assert status(FAR, authorization=f"{scheme} {TOKEN}") is None


def test_the_cookie_stands_for_the_token_and_does_not_tell_it() -> None:
    cookie = FAR.cookie
    assert cookie is not None
    assert TOKEN not in cookie
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    pair_text = cookie.partition(";")[0]
    assert status(FAR, cookie=f"a=b; {pair_text}") is None
    assert status(FAR, cookie=pair_text + "x") == 401
    assert status(AccessRules(token=TOKEN + "2"), cookie=pair_text) == 401
    assert NEAR.cookie is None


def test_a_refusal_does_not_repeat_what_was_brought() -> None:
    complaint = FAR.complaint(PATH, {"host": "x", "authorization": "Bearer wrong-token-here"})
    assert complaint is not None
    assert "wrong-token-here" not in complaint[1]


@pytest.mark.parametrize(
    ("address", "is_expected"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("kafka.test", False),
    ],
)
def test_which_addresses_are_loopback(address: str, is_expected: bool) -> None:
    assert is_loopback(address) is is_expected


async def test_a_query_that_is_not_ascii_is_refused_before_anybody_reads_it() -> None:
    sent_messages: list[Any] = []

    async def app(*_: Any) -> None:
        sent_messages.append("let in")

    async def send(message: Any) -> None:
        sent_messages.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    guard = AccessGuard(app, access_rules=NEAR)
    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "http_version": "1.1", "path": PATH, "headers": headers}
    await guard({**scope, "query_string": b"a=\xff"}, receive, send)
    assert sent_messages[0]["status"] == 400
    await guard({**scope, "query_string": b"a=%ff"}, receive, send)
    assert sent_messages[-1] == "let in"


# The control port as a whole: who may ask it.


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example"])
@within(run_story)
async def test_only_loopback_names_are_answered(
    cluster: VirtualCluster, client: httpx.AsyncClient, /, host: str
) -> None:
    assert (await client.get("/healthz", headers={"host": host})).status_code == 400


@pytest.mark.parametrize("path", INDEX_PATHS)
@within(run_story)
async def test_where_people_look_for_what_there_is_they_find_it(
    cluster: VirtualCluster, client: httpx.AsyncClient, /, path: str
) -> None:
    answer = await client.get(path)
    assert answer.status_code == 200
    operations = answer.json()["operations"]
    assert operations["GET /api/v1/faults"]
    assert len(operations) == len(OPERATIONS)


LONG = "9" * 5_000


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", f"/api/v1/brokers/{LONG}", {}),
        ("POST", f"/api/v1/brokers/{LONG}/kill", {}),
        ("GET", f"/api/v1/brokers/{LONG}/log-dir", {}),
        ("POST", f"/api/v1/brokers/1/stop?wait_ms={LONG}", {}),
        ("GET", f"/api/v1/producers?topic=t&partition={LONG}", {}),
        ("GET", f"/api/v1/events?from={LONG}", {}),
        ("GET", "/api/v1/events", {"last-event-id": LONG}),
    ],
)
@within(run_story)
async def test_a_number_of_thousands_of_digits_is_refused(
    cluster: VirtualCluster,
    client: httpx.AsyncClient,
    /,
    method: str,
    path: str,
    headers: dict[str, str],
) -> None:
    await client.post("/api/v1/trace", json={"level": "brief"})
    answer = await client.request(method, path, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"] == "a number of 5000 digits, at most 18 are read"


@within(run_story)
async def test_a_foreign_page_can_neither_reset_nor_kill(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        for path in ("/api/v1/reset", "/api/v1/brokers/1/kill"):
            answer = await client.post(path, headers=headers)
            assert answer.status_code == 403
    assert len(cluster.sim.brokers) == len(cluster.sim.members)


@within(run_story)
async def test_a_body_needs_no_content_type_but_must_be_json(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}  # as curl -d sends it
    answer = await client.post("/api/v1/topics", content=b'{"name": "t"}', headers=form)
    assert answer.status_code == 201
    answer = await client.post("/api/v1/reset", content=b"to=start", headers=form)
    assert answer.status_code == 422


@within(run_story)
async def test_a_path_names_all_of_its_methods(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    answer = await client.put("/api/v1/faults")
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, HEAD, POST")
    assert answer.json()["error"] == "/api/v1/faults knows DELETE, GET, HEAD, POST"
    answer = await client.put("/api/v1/faults/plan")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    missing_answer = await client.get("/api/v1/nowhere")
    assert missing_answer.status_code == 404
    assert "GET /openapi.json" in missing_answer.json()["error"]


# An operation and the route that is made of it.


async def answer(_request: Request) -> Response:
    return Response()


def test_an_operation_knows_the_parameters_of_its_path() -> None:
    operation = Operation("get", "/a/{x}/b/{y}")
    assert operation.parameters == ("x", "y")
    assert operation.route(answer).path == "/a/{x}/b/{y}"
    assert operation.route(answer).methods == {"GET", "HEAD"}


def test_the_last_parameter_may_hold_slashes() -> None:
    operation = Operation("delete", "/a/{x}/b/{y}", takes_slashes=True)
    route = operation.route(answer)
    assert (route.path, route.path_format) == ("/a/{x}/b/{y:path}", "/a/{x}/b/{y}")


class Letters(Noun):
    @Operation("get", "/letters")
    async def all(self, _request: Request) -> Response:
        """Every letter,
        in order.

        What else there is to say is not for the document.
        """
        return Response("ab")


class MoreLetters(Letters):
    @Operation("delete", "/letters")
    async def forget(self, _request: Request) -> Response:
        return Response()


def test_an_operation_is_described_by_the_first_paragraph_of_what_answers_it() -> None:
    (operation,) = Letters.operations()
    assert (operation.method, operation.path, operation.summary) == (
        "get",
        "/letters",
        "Every letter, in order",
    )


def test_a_noun_has_the_operations_of_its_parents_too() -> None:
    assert [operation.method for operation in MoreLetters.operations()] == ["get", "delete"]
    assert [route.methods for route in MoreLetters().routes()] == [{"GET", "HEAD"}, {"DELETE"}]


class FlagsAndWords(Noun):
    @Operation("post", "/words", status="201")
    async def add(self, _request: Request, body: Body[list[str]]) -> list[str]:
        """Return the words of the request's body."""
        return await body.read()

    @Operation("get", "/words", may_take_longer=True)
    async def known(self, _request: Request) -> WithStatus[list[str]]:
        return WithStatus(["a"], 202)


def test_what_goes_over_the_port_is_said_by_the_signature() -> None:
    add_operation, list_operation = FlagsAndWords.operations()
    assert (add_operation.body, add_operation.answer) == (list[str], list[str])
    assert (list_operation.body, list_operation.answer) == (None, list[str])
    assert Letters.operations()[0].answer is None


async def test_an_answer_has_the_status_of_its_operation_or_its_own() -> None:
    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b'["b"]', "more_body": False}

    request = Request({"type": "http", "headers": []}, receive)
    added_answer, known_words = [
        await route.endpoint(request) for route in FlagsAndWords().routes()
    ]
    assert (added_answer.status_code, added_answer.body) == (201, b'["b"]')
    assert (known_words.status_code, known_words.body) == (202, b'["a"]')


# The control port as a server: on loopback, in the brokers' loop, closed with the cluster.


async def test_it_answers_on_loopback_until_it_is_closed() -> None:
    async with real_cluster(brokers=1) as sim:
        async with ControlServer.of_simulated(sim, port=0) as server:
            assert server.url.startswith("http://127.0.0.1:")
            async with httpx.AsyncClient(timeout=60) as client:
                answer = await client.get(f"{server.url}/healthz")
                assert answer.json()["bootstrap"] == sim.bootstrap
        async with httpx.AsyncClient(timeout=60) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get(f"{server.url}/healthz")


async def test_a_busy_port_is_named() -> None:
    async with (
        real_cluster(brokers=1) as sim,
        ControlServer.of_simulated(sim, port=0) as first_server,
    ):
        port = int(first_server.url.rpartition(":")[2])
        with pytest.raises(OSError, match=str(port)):
            await ControlServer.of_simulated(sim, port=port).__aenter__()


async def test_elsewhere_than_on_loopback_it_has_any_name_and_wants_a_token() -> None:
    async with (
        real_cluster(brokers=1) as sim,
        ControlServer.of_simulated(sim, port=0) as local_server,
        ControlServer.of_simulated(sim, port=0, host="0.0.0.0") as open_server,
        httpx.AsyncClient(headers={"host": "kafka.test"}, timeout=60) as client,
    ):
        assert local_server.token is None
        assert open_server.token is not None
        assert len(open_server.token) >= 32
        url = f"http://127.0.0.1:{open_server.url.rpartition(':')[2]}"
        assert (await client.get(f"{url}/healthz")).status_code == 200
        assert (await client.get(f"{url}/api/v1/clock")).status_code == 401
        client.headers["authorization"] = f"Bearer {open_server.token}"
        assert (await client.get(f"{url}/api/v1/clock")).status_code == 200
        assert (await client.get(f"{local_server.url}/healthz")).status_code == 400


async def test_a_token_that_is_given_is_wanted_on_loopback_too() -> None:
    async with (
        real_cluster(brokers=1) as sim,
        ControlServer.of_simulated(sim, port=0, token="a-token-of-enough-letters") as server,
        httpx.AsyncClient(timeout=60) as client,
    ):
        assert server.token == "a-token-of-enough-letters"
        assert (await client.post(f"{server.url}/api/v1/reset")).status_code == 401


async def test_a_request_that_has_two_ends_is_refused_and_nothing_behind_it_is_read() -> None:
    """RFC 9112, 6.1: programs in between may take either end, and see one request or two."""
    async with (
        real_cluster(brokers=1) as sim,
        ControlServer.of_simulated(sim, port=0) as server,
    ):
        host, _, port = server.url.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head_text = f"POST /api/v1/reset HTTP/1.1\r\nHost: {host}:{port}\r\n"
        lengths = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(f"{head_text}{lengths}0\r\n\r\n{head_text}Content-Length: 0\r\n\r\n".encode())
        answers = (await reader.read()).decode()
        writer.close()
    assert answers.startswith("HTTP/1.1 400 ")
    assert answers.count("HTTP/1.1 ") == 1
    assert "Transfer-Encoding" in answers


async def test_a_stream_ends_when_the_port_is_closed() -> None:
    async with real_cluster(brokers=1, trace_level=TraceLevel.BRIEF) as sim:
        server = await ControlServer.of_simulated(sim, port=0).__aenter__()
        url = f"{server.url}/api/v1/events?kind=note"
        async with httpx.AsyncClient(timeout=30) as client, client.stream("GET", url) as answer:
            lines = answer.aiter_lines()
            assert await anext(lines) == ": connected"
            sim.environment.tracer.emit("note", "test", data={"text": "here"})
            line = await anext(lines)
            while not line.startswith("data: "):
                line = await anext(lines)
            assert '"text":"here"' in line
            await server.__aexit__(None, None, None)
            assert [line async for line in lines if line] == []


# The OpenAPI document: whole, and of the routes that there are.


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found_refs = {value["$ref"]} if "$ref" in value else set()
        return found_refs.union(*map(references, value.values()))
    if isinstance(value, list):
        return set().union(*map(references, value))
    return set()


def test_every_reference_is_in_the_document() -> None:
    api_document = document(OPERATIONS)
    assert references(api_document) <= {
        f"#/components/schemas/{schema_name}"
        for schema_name in api_document["components"]["schemas"]
    }
    json.dumps(api_document)


def test_the_document_describes_the_routes_that_there_are() -> None:
    async def main(cluster: VirtualCluster) -> set[tuple[str, str]]:
        web_app = ControlApi(cluster.sim).app()
        return {
            (method.lower(), route.path_format)
            for route in web_app.routes
            if isinstance(route, Route)
            for method in (route.methods or ())
            if method != "HEAD"
        }

    described_routes = {
        (method, path)
        for path, methods in document(OPERATIONS)["paths"].items()
        for method in methods
    }
    index = {("get", path) for path in (*INDEX_PATHS, "/openapi.json")}
    page = {("get", "/"), ("get", "/ui/{path}")} if "txnsim_lab" not in missing() else set()
    assert run_cluster(main) == described_routes | index | page


def test_an_operation_names_the_parameters_of_its_path() -> None:
    for path, methods in document(OPERATIONS)["paths"].items():
        path_parameters = set(re.findall(r"{(\w+)}", path))
        for operation in methods.values():
            named_parameters = {
                parameter["name"]
                for parameter in operation.get("parameters", ())
                if parameter["in"] == "path"
            }
            assert named_parameters == path_parameters
            assert operation["summary"]
            assert operation["responses"]


# ``pages``: A page trades the token of its URL for a cookie.


SESSION = "/api/v1/session"


async def test_the_token_is_traded_for_a_cookie_that_opens_the_port() -> None:
    async with real_cluster(brokers=1) as sim:
        web_app = ControlApi(sim).app(AccessRules(token=TOKEN, is_loopback=False))
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=web_app), base_url="http://kafka.test:9080"
        ) as page_client:
            refused_answer = await page_client.post(SESSION)
            assert refused_answer.status_code == 401
            assert refused_answer.headers["www-authenticate"] == "Bearer"
            assert "set-cookie" not in refused_answer.headers
            answer = await page_client.post(SESSION, headers={"Authorization": f"Bearer {TOKEN}"})
            assert (answer.status_code, answer.content) == (204, b"")
            assert "SameSite=Strict" in answer.headers["set-cookie"]
            assert answer.headers["cache-control"] == "no-store"
            assert (await page_client.get("/api/v1/clock")).status_code == 200
            assert (await page_client.get("/openapi.json")).status_code == 200


async def test_work_ends_at_its_limit_of_time_and_the_next_one_is_done() -> None:
    thread = WorkThread("work")

    def endless() -> None:
        while True:
            pass

    assert await thread.do_within(60.0, lambda: 1) == 1
    outcomes = await asyncio.gather(
        thread.do_within(0.05, endless),
        thread.do_within(0.01, lambda: 2),
        return_exceptions=True,
    )
    assert [isinstance(outcome, TimeoutError) for outcome in outcomes] == [True, True]
    assert await thread.do_within(60.0, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        await thread.do_within(60.0, lambda: 1 // 0)
    thread.close()


async def test_where_no_token_is_wanted_there_is_no_cookie() -> None:
    async with real_cluster(brokers=1) as sim:
        web_app = ControlApi(sim).app()
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=web_app), base_url="http://localhost"
        ) as page_client:
            answer = await page_client.post(SESSION)
    assert answer.status_code == 204
    assert "set-cookie" not in answer.headers


async def test_the_lock_changes_hands_often_while_there_is_work() -> None:
    interval_before = sys.getswitchinterval()
    thread = WorkThread("work")
    assert await thread.do(sys.getswitchinterval) == pytest.approx(SWITCH_S)
    assert sys.getswitchinterval() == interval_before
    with pytest.raises(ZeroDivisionError):
        await thread.do(lambda: 1 // 0)
    assert sys.getswitchinterval() == interval_before
    thread.close()
    with pytest.raises(RuntimeError):
        await thread.do(sys.getswitchinterval)


def test_what_threads_read_is_known_to_msgspec_before_they_begin() -> None:
    """msgspec learnt types at first use, and two threads that did so at once ended the server by
    SIGSEGV (seen with two requests of a page; three threads that read a rule: 1 of 12 processes).
    """
    assert is_learnt(FaultRule)
