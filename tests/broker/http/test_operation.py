"""An operation and the route that is made of it."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from txnsim.http.operation import Noun, Operation
from txnsim.http.replies import Body, WithStatus


async def answer(_request: Request) -> Response:
    return Response()


def test_an_operation_knows_the_parameters_of_its_path() -> None:
    one = Operation("get", "/a/{x}/b/{y}")
    assert one.parameters == ("x", "y")
    assert one.route(answer).path == "/a/{x}/b/{y}"
    assert one.route(answer).methods == {"GET", "HEAD"}


def test_the_last_parameter_may_hold_slashes() -> None:
    one = Operation("delete", "/a/{x}/b/{y}", takes_slashes=True)
    route = one.route(answer)
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
        """None."""
        return Response()


def test_an_operation_is_described_by_the_first_paragraph_of_what_answers_it() -> None:
    (one,) = Letters.operations()
    assert (one.method, one.path, one.summary) == ("get", "/letters", "Every letter, in order")


def test_a_noun_has_the_operations_of_its_parents_too() -> None:
    assert [one.method for one in MoreLetters.operations()] == ["get", "delete"]
    assert [route.methods for route in MoreLetters().routes()] == [{"GET", "HEAD"}, {"DELETE"}]


class Words(Noun):
    @Operation("post", "/words", status="201")
    async def add(self, _request: Request, body: Body[list[str]]) -> list[str]:
        """Add some."""
        return await body.read()

    @Operation("get", "/words", may_take_longer=True)
    async def known(self, _request: Request) -> WithStatus[list[str]]:
        """Those that are known so far."""
        return WithStatus(["a"], 202)


def test_what_goes_over_the_port_is_said_by_the_signature() -> None:
    add, known = Words.operations()
    assert (add.body, add.answer) == (list[str], list[str])
    assert (known.body, known.answer) == (None, list[str])
    assert Letters.operations()[0].answer is None


async def test_an_answer_has_the_status_of_its_operation_or_its_own() -> None:
    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b'["b"]', "more_body": False}

    request = Request({"type": "http", "headers": []}, receive)
    added, known = [await route.endpoint(request) for route in Words().routes()]
    assert (added.status_code, added.body) == (201, b'["b"]')
    assert (known.status_code, known.body) == (202, b'["a"]')
