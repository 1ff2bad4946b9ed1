"""A route of the control port as a value, which decorates the method that answers it. The router
and the OpenAPI document are made from it.

So neither can have a route that the other lacks.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from types import GenericAlias, MethodType, UnionType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints, overload

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.operator_login import operator_login
from txnsim.http.replies import (
    Body,
    LargeObject,
    Listing,
    OptionalBody,
    RefusedError,
    WithStatus,
    as_json,
    no_body_of,
)
from txnsim.runtime.loop_turns import Pace
from txnsim.server.cluster import SimCluster
from txnsim.types import TopicPartition

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

Answerer = Callable[..., Awaitable[Any]]
"""Answers an operation; takes the request, and a ``Body`` if the operation has one."""

Responder = Callable[[Request], Awaitable[Response]]

JSON: Final = "application/json"
PREFIX: Final = "/api/v1"


Message = type | UnionType


class Query(msgspec.Struct, frozen=True):
    """A parameter of the query string."""

    name: str
    summary: str
    kind: str = "integer"
    """``integer``, ``string`` or ``boolean``."""
    many: bool = False
    """Whether it may be repeated."""


class Operation(msgspec.Struct, frozen=True):
    """A method on a path.

    The signature of the answering method gives the types: ``answer`` is its return type (or that
    inside a ``WithStatus``, ``LargeObject`` or ``Listing``; None for a ``Response``), ``body`` that
    of its ``Body`` or ``OptionalBody``.
    """

    method: str
    path: str
    """The path, with parameters in braces."""
    summary: str = ""
    """The first paragraph of the answering method's docstring."""
    answer: Message | None = None
    """Type of the JSON answer; None for other answers."""
    media_type: str = JSON
    status: str = "200"
    also: tuple[str, ...] = ()
    """Further statuses with the same answer."""
    may_take_longer: bool = False
    """Whether 202 may come with the state so far while the work continues."""
    body: Message | None = None
    has_optional_body: bool = False
    query: tuple[Query, ...] = ()
    refusals: tuple[str, ...] = ()
    takes_slashes: bool = False
    """Whether the last path parameter may contain slashes, as transactional ids do."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the path parameters."""
        return tuple(re.findall(r"{(\w+)}", self.path))

    def __call__(self, method: Answerer) -> AnsweredOperation:
        """Bind the method of a ``Noun`` to the operation; its docstring is the summary."""
        first_paragraph, _, _ = inspect.cleandoc(method.__doc__ or "").partition("\n\n")
        summary = " ".join(first_paragraph.split()).removesuffix(".")
        type_hints = get_type_hints(method)
        answer_type, body_type = type_hints["return"], type_hints.get("body")
        while get_origin(answer_type) in (WithStatus, LargeObject):
            (answer_type,) = get_args(answer_type)
        if get_origin(answer_type) is Listing:
            answer_type = GenericAlias(list, get_args(answer_type))
        described_operation = msgspec.structs.replace(
            self,
            summary=summary,
            answer=None if answer_type is Response else answer_type,
            body=None if body_type is None else get_args(body_type)[0],
            has_optional_body=get_origin(body_type) is OptionalBody,
        )
        return AnsweredOperation(described_operation, method)

    def route(self, answerer: Answerer) -> Route:
        """The route on which ``answerer`` serves this operation."""
        path = self.path
        if self.takes_slashes:
            last_parameter = self.parameters[-1]
            path = path.replace(f"{{{last_parameter}}}", f"{{{last_parameter}:path}}")
        return Route(path, self.responder(answerer), methods=[self.method.upper()])

    def responder(self, answerer: Answerer) -> Responder:
        """A function that reads a request for ``answerer`` and writes its answer."""

        async def respond(request: Request) -> Response:
            if self.body is None:
                await no_body_of(request)
                answer = await answerer(request)
            else:
                reader = OptionalBody if self.has_optional_body else Body
                answer = await answerer(request, reader(request, self.body))
            if isinstance(answer, Response):
                return answer
            status = int(self.status)
            if isinstance(answer, WithStatus):
                answer, status = answer.value, answer.status
            if isinstance(answer, Listing | LargeObject):
                return await answer.response(status=status)
            return as_json(answer, status=status)

        return respond


class AnsweredOperation(msgspec.Struct, frozen=True):
    """An operation and the method that answers it; accessed on an instance it is that bound
    method.
    """

    operation: Operation
    method: Answerer

    @overload
    def __get__(self, noun: None, kind: type[Noun]) -> AnsweredOperation: ...
    @overload
    def __get__(self, noun: Noun, kind: type[Noun]) -> Answerer: ...
    def __get__(self, noun: Noun | None, kind: type[Noun]) -> AnsweredOperation | Answerer:
        """The declaration on the class, the bound method on an instance."""
        return self if noun is None else MethodType(self.method, noun)


class Noun:
    """The operations about one noun, such as topics, with the methods that answer them."""

    @classmethod
    def operations(cls) -> tuple[Operation, ...]:
        return tuple(
            answered_operation.operation for answered_operation in cls._answered_operations()
        )

    def routes(self) -> list[Route]:
        return [
            answered_operation.operation.route(MethodType(answered_operation.method, self))
            for answered_operation in self._answered_operations()
        ]

    def responders(self) -> list[tuple[Operation, Responder]]:
        """Each operation with its responder, for callers without a router."""
        return [
            (
                answered_operation.operation,
                answered_operation.operation.responder(MethodType(answered_operation.method, self)),
            )
            for answered_operation in self._answered_operations()
        ]

    @classmethod
    def _answered_operations(cls) -> list[AnsweredOperation]:
        noun_classes = reversed(cls.__mro__)
        return [
            attribute
            for noun_class in noun_classes
            for attribute in vars(noun_class).values()
            if isinstance(attribute, AnsweredOperation)
        ]


class ClusterNoun(Noun):
    """A noun of a simulated cluster."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster

    def _pace(self) -> Pace:
        environment = self._cluster.environment
        return Pace(environment.tasks.turns, environment.clock.stopwatch_ns)

    def _listing(
        self, elements: Iterable[T] | AsyncGenerator[Iterable[T]], pace: Pace | None = None
    ) -> Listing[T]:
        """A list of any length, which is built in slices."""
        bytes_max = self._cluster.options.settings.answer_max_bytes
        return Listing(elements, pace or self._pace(), bytes_max=bytes_max)

    def _large_object(self, value: S) -> LargeObject[S]:
        """An object with long lists, which is encoded in slices."""
        bytes_max = self._cluster.options.settings.answer_max_bytes
        return LargeObject(value, self._pace(), bytes_max=bytes_max)

    def partition(self, topic: str, partition: int) -> TopicPartition:
        """An existing partition.

        Raises:
            RefusedError: The partition does not exist.
        """
        topic_image = self._cluster.metadata.image.topics.get(topic)
        if topic_image is None:
            raise RefusedError(404, f"there is no topic {topic!r}; GET {PREFIX}/topics lists them")
        if not 0 <= partition < len(topic_image.partitions):
            raise RefusedError(
                404,
                f"{topic} has partitions 0 to {len(topic_image.partitions) - 1}, not {partition}",
            )
        return TopicPartition(topic, partition)

    def outside(self, settings: ClientSettings, *, is_traced: bool = False) -> Cluster:
        """A client of the cluster, not connected yet; refuses with 503 if no broker runs. With
        ``is_traced`` its calls appear in the cluster's trace, like those of an application.
        """
        environment, bootstrap = self._cluster.environment, self._cluster.bootstrap
        login = operator_login(self._cluster.options.security)
        if login is not None:
            bootstrap = self._cluster.bootstrap_of(login[0])
            settings = msgspec.structs.replace(settings, security=login[1])
        if not bootstrap:
            raise RefusedError(503, "no broker lives: POST /api/v1/brokers/1/start starts one")
        return Cluster(
            bootstrap,
            settings=settings,
            clock=environment.clock,
            tasks=environment.tasks,
            tracer=environment.tracer if is_traced else None,
        )
