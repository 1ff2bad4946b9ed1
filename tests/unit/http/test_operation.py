"""An operation and the route that is made of it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from txnsim.http.operation import Noun, Operation


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
