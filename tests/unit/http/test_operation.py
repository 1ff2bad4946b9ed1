"""An operation and the route that is made of it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from txnsim.http.operation import Operation


async def answer(_request: Request) -> Response:
    return Response()


def test_an_operation_knows_the_parameters_of_its_path() -> None:
    one = Operation(method="get", path="/a/{x}/b/{y}", summary="Both")
    assert one.parameters == ("x", "y")
    assert one.route(answer).path == "/a/{x}/b/{y}"
    assert one.route(answer).methods == {"GET", "HEAD"}


def test_the_last_parameter_may_hold_slashes() -> None:
    one = Operation(method="delete", path="/a/{x}/b/{y}", summary="Both", takes_slashes=True)
    route = one.route(answer)
    assert (route.path, route.path_format) == ("/a/{x}/b/{y:path}", "/a/{x}/b/{y}")
