"""One route of the control port as a value: what the router serves and the OpenAPI document tells.

Both are made from it, so that neither can have a route that the other lacks.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from types import UnionType
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from txnsim.http.replies import no_body_of

Answerer = Callable[[Request], Awaitable[Response]]

JSON: Final = "application/json"
PREFIX: Final = "/api/v1"


Message = type | UnionType
"""What goes over the port: a struct, or one of several."""


class Query(msgspec.Struct, frozen=True):
    """A parameter behind the question mark."""

    name: str
    summary: str
    kind: str = "integer"
    """``integer``, ``string`` or ``boolean``."""
    many: bool = False
    """It may be given several times."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """A method on a path."""

    method: str
    path: str
    """Parameters in braces."""
    summary: str
    answer: Message | None = None
    """What its JSON is; None where it is none."""
    media_type: str = JSON
    """Of an answer that is no JSON."""
    status: str = "200"
    also: tuple[str, ...] = ()
    """Further statuses of the same answer."""
    may_take_longer: bool = False
    """Then 202 comes with the state so far, and the work goes on."""
    body: Message | None = None
    is_list: bool = False
    """The answer is an array of it."""
    body_is_list: bool = False
    """The body is an array of it."""
    body_is_optional: bool = False
    query: tuple[Query, ...] = ()
    refusals: tuple[str, ...] = ()
    takes_slashes: bool = False
    """The last parameter of the path may hold slashes, as transactional ids do."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters in the path."""
        return tuple(re.findall(r"{(\w+)}", self.path))

    def route(self, answerer: Answerer) -> Route:
        """The route on which ``answerer`` obeys it."""
        path = self.path
        if self.takes_slashes:
            name = self.parameters[-1]
            path = path.replace(f"{{{name}}}", f"{{{name}:path}}")
        if self.body is not None:
            return Route(path, answerer, methods=[self.method.upper()])

        async def without_body(request: Request) -> Response:
            await no_body_of(request)
            return await answerer(request)

        return Route(path, without_body, methods=[self.method.upper()])
