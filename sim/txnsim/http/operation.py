"""One route of the control port as a value, which stands above the method that answers it: what the
router serves and the OpenAPI document tells.

Both are made from it, so that neither can have a route that the other lacks.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from types import MethodType, UnionType
from typing import Any, Final, overload

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


class Operation(msgspec.Struct, frozen=True):
    """A method on a path."""

    method: str
    path: str
    """Parameters in braces."""
    summary: str = ""
    """The first paragraph of the docstring of what answers it."""
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

    def __call__(self, method: Callable[[Any, Request], Awaitable[Response]]) -> Answered:
        """The method of a ``Noun`` that answers it, whose docstring says what it does."""
        first, _, _ = inspect.cleandoc(method.__doc__ or "").partition("\n\n")
        summary = " ".join(first.split()).removesuffix(".")
        return Answered(msgspec.structs.replace(self, summary=summary), method)

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


class Answered(msgspec.Struct, frozen=True):
    """An operation, and the method that answers it; on an instance it is that method."""

    operation: Operation
    method: Callable[[Any, Request], Awaitable[Response]]

    @overload
    def __get__(self, noun: None, kind: type[Noun]) -> Answered: ...
    @overload
    def __get__(self, noun: Noun, kind: type[Noun]) -> Answerer: ...
    def __get__(self, noun: Noun | None, kind: type[Noun]) -> Answered | Answerer:
        """What a class and an instance have of it."""
        return self if noun is None else MethodType(self.method, noun)


class Noun:
    """The answers to the operations of one noun, over one cluster."""

    @classmethod
    def operations(cls) -> tuple[Operation, ...]:
        """All of them, in the order in which they are declared."""
        return tuple(one.operation for one in cls._answered())

    def routes(self) -> list[Route]:
        """One for each."""
        return [one.operation.route(MethodType(one.method, self)) for one in self._answered()]

    @classmethod
    def _answered(cls) -> list[Answered]:
        kinds = reversed(cls.__mro__)
        return [one for kind in kinds for one in vars(kind).values() if isinstance(one, Answered)]
