"""The arguments of a handler, and its answers.

A handler module has a key (``API_KEY``), ``async def handle(request)`` and
``refuse(request, error)``, the answer that fails the whole request with one error: in each element
where the schema has no top-level code, as Kafka's ``AbstractRequest.getErrorResponse`` does.
``subject(request)`` returns the transactional ids and partitions that it is about, for fault plans.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from datetime import timedelta
from enum import Enum
from functools import lru_cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

import msgspec

from txnsim.api._access import Access
from txnsim.broker.broker import Broker
from txnsim.errors import AnswerTooLargeError, ErrorCode, Rejection, UnsupportedRequestError
from txnsim.faults.subjects import NO_SUBJECT, Subject
from txnsim.metadata.client_metrics import RESERVED_IDS
from txnsim.metadata.image import BrokerImage
from txnsim.runtime.loop_turns import Pace, rest_where_due
from txnsim.security.acls import AclOperation
from txnsim.security.principals import ANONYMOUS
from txnsim.wire import codec
from txnsim.wire.apis import API_VERSIONS, FETCHES, HEADER_V3_FROM, api_name
from txnsim.wire.codec import encode_body
from txnsim.wire.registry import version_range

NO_THROTTLE: Final = timedelta(0)

ELEMENTS_PER_CHANGE: Final = 16
"""Weight of an element that changes the image, because every broker applies the new image."""

T = TypeVar("T")
R = TypeVar("R")

UNPACED_MAX: Final = 64
"""Number of elements up to which a request is handled without a pause."""
ELEMENT_BYTES: Final = 128
"""Bytes that an element of an answer counts for before it is encoded: about its size as an
object.
"""
SENT_BYTES_MAX: Final = 2**31 - 2**16
"""Largest answer in bytes. No setting can raise it: a frame states its size in 31 bits, header
included.
"""
READS: Final = frozenset(
    (
        *(2, 3, 9, 10, 15, 16, 23, 29, 32, 35, 41, 46, 48, 50),
        *(55, 60, 61, 65, 66, 69, 74, 75, 77, 87, 89, 90),
    )
)
"""API keys of requests that change nothing: a client that has disconnected needs no answer, and an
answer that would be too large becomes an error.
"""

INVALID_REQUEST_TEXT: Final = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
"""Kafka's text for INVALID_REQUEST where the code has no other one (Errors.INVALID_REQUEST)."""
CLUSTER_OPERATIONS: Final = 8096
"""Bits of every operation on a cluster (AclEntry.supportedOperations): without an authorizer all
of them are allowed.
"""
TOPIC_OPERATIONS: Final = 3576
"""Bits of the operations that apply to a topic."""
NOT_ASKED: Final = -(2**31)
"""Authorized operations where the request does not ask for them."""


class NoResponse(Enum):
    """The ways in which a request gets no answer message."""

    NONE = "nothing is sent, the connection goes on (acks=0)"
    NEVER = "the request is never answered and blocks its connection, as measured on a real broker"
    CLOSE = "the connection is closed"


class ClientLink:
    """A client's connection, as far as handlers need it."""

    __slots__ = (
        *("_close_callbacks", "_is_closed", "client_id", "client_instance_id"),
        *("port", "software_name", "software_version"),
    )

    def __init__(self, port: str = "") -> None:
        self._is_closed = False
        self.port = port
        """The client's own port."""
        self.software_name: str | None = None
        self.software_version: str | None = None
        """The version of the client's software, from its ApiVersions (KIP-511)."""
        self.client_id: str | None = None
        """The client id of the first request that had one."""
        self.client_instance_id: UUID | None = None
        """The client instance id of the first request with header v3 (KIP-1313)."""
        self._close_callbacks: dict[Callable[[ClientLink], None], None] = {}

    def call_at_close(self, forget: Callable[[ClientLink], None]) -> None:
        """Call ``forget`` once the connection has closed."""
        self._close_callbacks[forget] = None

    def settle_instance(self, client_instance_id: UUID | None) -> bool:
        """Note the client instance id of a request with header v3 (KIP-1313): the first one settles
        the connection's, later ones may leave it out.

        Args:
            client_instance_id: The id in the header; None if it has none.

        Returns:
            False if the request is to be refused with INVALID_REQUEST: its id is a reserved one, or
            another one than before, or the first is missing.
        """
        if client_instance_id is None:
            return self.client_instance_id is not None
        if client_instance_id in RESERVED_IDS:
            return False
        if self.client_instance_id is None:
            self.client_instance_id = client_instance_id
        return self.client_instance_id == client_instance_id

    def is_open(self) -> bool:
        return not self._is_closed

    def note_closed(self) -> None:
        """Called when the connection has closed."""
        self._is_closed = True
        for forget in self._close_callbacks:
            forget(self)


NO_LINK: Final = ClientLink()
"""For requests without a connection."""


class Request(msgspec.Struct, kw_only=True, eq=False):
    """A client's request: its header, its decoded message, the broker that received it."""

    pace: Pace | None = None
    """The pace of a large request, which is handled in slices."""
    subject: Subject | None = None
    """What the request is about, once its message has been dropped."""
    link: ClientLink = NO_LINK
    client_host: str = ""
    """The client's address as Kafka writes it: ``/127.0.0.1``."""
    access: Access | None = None
    """The client's rights; None without an authorizer, which allows everything."""
    expected: int = 0
    """Number of elements announced so far; many of them need a pace."""
    answered: int = 0
    """Number of answer elements announced so far, beyond those that the request's size bounds."""
    principal: str = ANONYMOUS
    """The client's principal: ``User:alice``."""
    apis: ApiTable
    broker: Broker
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    message: Any = None
    body_offset: int = 0
    """Where the message begins in the frame."""
    refused: ErrorCode | None = None
    """The error that answers the request at once: of an ApiVersions of a future version, or of a
    header with a wrong client instance id.
    """

    async def map_each(
        self,
        call: Callable[[T], R],
        elements: Collection[T],
        *,
        weight: int | Callable[[T], int] = 1,
    ) -> list[R]:
        """The result of ``call`` for each element, in order. Long lists have breaks, in which other
        requests run, so don't decide before the call and act on it afterwards.

        Args:
            call: Called with each element.
            elements: Elements of the request, or of what it asks for.
            weight: Work of one element; 1 is some microseconds.
        """
        if not isinstance(weight, int):
            return await self._map_weighed(call, elements, weight)
        self.expect(len(elements) * weight)
        pace = self.pace
        if pace is None:
            return [call(element) for element in elements]
        mapped_elements = []
        for element in elements:
            mapped_elements.append(call(element))
            if pace.has_done(weight):
                await pace.yield_turn()
        return mapped_elements

    async def _map_weighed(
        self, call: Callable[[T], R], elements: Collection[T], weight_of: Callable[[T], int]
    ) -> list[R]:
        """Like ``map_each``, for elements of different weights."""
        self.expect(len(elements))
        mapped_elements = []
        for element in elements:
            weight_done = weight_of(element)
            if self.pace is None:
                self.expect(weight_done)
            mapped_elements.append(call(element))
            await self.note_done(weight_done)
        return mapped_elements

    async def each_heavy(
        self, call: Callable[[T], Awaitable[R]], elements: Collection[T]
    ) -> list[R]:
        """The result of ``call`` for each element, in order, where results may be large: ``call``
        announces the size of each (``announce_answer``) before it builds it. A repeated element
        shares its result.
        """
        self.expect(len(elements))
        result_by_element: dict[T, tuple[R, int]] = {}
        answers_of_elements = []
        for element in elements:
            result_and_count = result_by_element.get(element)
            if result_and_count is None:
                answered_before = self.answered
                answer_of_element = await call(element)
                result_and_count = result_by_element[element] = (
                    answer_of_element,
                    self.answered - answered_before,
                )
            else:
                self.announce_answer(result_and_count[1])
            answers_of_elements.append(result_and_count[0])
            await self.note_done(1)
        return answers_of_elements

    def announce_answer(self, element_count: int, size_bytes: int = 0) -> None:
        """Announce elements that are about to be built, with their size in bytes if they may be
        long.

        Raises:
            AnswerTooLargeError: The answer would be too large, and is not built.
        """
        self.answered += element_count + size_bytes // ELEMENT_BYTES
        self.expect(element_count + size_bytes // ELEMENT_BYTES)
        max_bytes = self.broker.metadata.settings.answer_max_bytes
        if self.answered * ELEMENT_BYTES > max_bytes:
            raise AnswerTooLargeError(
                f"the answer to {api_name(self.api_key)} takes more than {max_bytes:,} bytes"
            )

    @property
    def bytes_max(self) -> int:
        """Greatest size of the answer in bytes."""
        settings = self.broker.metadata.settings
        record_bytes = settings.fetch_max_bytes if self.api_key in FETCHES else 0
        return min(settings.answer_max_bytes + record_bytes, SENT_BYTES_MAX)

    async def note_done(self, element_count: int) -> None:
        """Count elements as done, and take a break if it is time."""
        await rest_where_due(self.pace, element_count)

    def expect(self, element_count: int) -> None:
        """Announce a number of elements to process: many of them need breaks."""
        self.expected += element_count
        if self.expected > UNPACED_MAX and self.pace is None:
            environment = self.broker.environment
            self.pace = Pace(environment.tasks.turns, environment.clock.stopwatch_ns)
            if self.api_key in READS:
                self.pace.is_wanted = self.link.is_open

    def pace_of(self, element_count: int) -> Pace | None:
        """The pace for a number of elements; None up to ``UNPACED_MAX`` of them."""
        self.expect(element_count)
        return self.pace if element_count > UNPACED_MAX else None

    @property
    def schema(self) -> ModuleType:
        """The message classes of the answer in this version."""
        return codec.response_schema(self.api_key, self.api_version)

    @property
    def has_no_time(self) -> bool:
        """Whether the timeout of a request to the controller is too short to do anything. A broker
        forwards it with what remains of its ``timeout``; if nothing remains, the whole request is
        refused with REQUEST_TIMED_OUT (ForwardingManager). Any other request is processed at once
        here.
        """
        return bool(self.message.timeout <= NO_THROTTLE)

    @property
    def handler(self) -> Handler:
        """The handler of the request's API on this listener."""
        return self.apis.handlers[self.api_key]

    def refuse(self, error: ErrorCode) -> Reply:
        """The answer that fails the whole request, as this listener's handler builds it."""
        return self.handler.refuse(self, error)

    def address_of(self, broker: BrokerImage) -> dict[str, Any]:
        """Host and port of another broker, on its listener of the same name as the one that
        received this request.
        """
        host, port = broker.address(self.apis.listener)
        return {"host": host, "port": port}

    def answer(self, **field_values: object) -> Any:
        """Build the answer's message from the values that this version has; without throttling."""
        return answer(self.api_key, self.api_version, **field_values)


def answer(api_key: int, api_version: int, **field_values: object) -> Any:
    """Build an answer's message from the values that this version has; without throttling."""
    return codec.build(
        codec.response_class(api_key, api_version), throttle_time=NO_THROTTLE, **field_values
    )


Reply = object
"""A message of the response schema, its encoded body as ``bytes``, or a ``NoResponse``."""


class Handler:
    """A handler, as ``api.registry`` lists it. Its module is imported when first needed."""

    handle: Callable[[Request], Coroutine[Any, Any, Reply]]
    """Answers the request."""
    refuse: Callable[[Request, ErrorCode], Reply]
    """Builds the answer that fails the whole request with one error."""
    subject: Callable[[Request], Subject]
    """Returns the transactional ids and partitions that the request is about."""
    decode: Callable[[codec.RequestHeader, bytes], Any]
    """Decodes the message of a frame."""
    check: Callable[[Any], None] | None
    """Raises MalformedFrameError for a message that decodes, but that Kafka's classes would
    refuse.
    """

    def __init__(self, *, api_key: int, module: str, **replaced_parts: Callable[..., Any]) -> None:
        """Name the handler's module; it is not imported yet.

        Args:
            api_key: The API key.
            module: The full name of the module.
            replaced_parts: Parts that replace those of the module.
        """
        self.key = api_key
        self.name = api_name(api_key)
        self._module_name = module
        self._replaced_parts = replaced_parts
        self.__dict__.update(replaced_parts)

    @property
    def kind(self) -> str:
        """Name of the folder of the handler's module, such as ``groups``."""
        return self._module_name.split(".")[-2].removeprefix("_")

    @property
    def versions(self) -> tuple[int, int]:
        """Lowest and highest version that the handler understands: all for which there are
        messages.
        """
        return version_range(self.key)

    def __getattr__(self, part_name: str) -> Any:
        if part_name not in _HANDLER_PARTS:
            raise AttributeError(part_name)
        module_part = getattr(
            import_module(self._module_name), part_name, _HANDLER_PARTS[part_name]
        )
        setattr(self, part_name, module_part)
        return module_part

    def with_parts(self, **replaced_parts: Any) -> Handler:
        """The same handler with some parts replaced."""
        return Handler(
            api_key=self.key, module=self._module_name, **{**self._replaced_parts, **replaced_parts}
        )


def no_subject(_request: Request) -> Subject:
    """The subject of requests that name no transaction, partition or group."""
    return NO_SUBJECT


_HANDLER_PARTS: Final[Mapping[str, Any]] = {
    "handle": None,
    "refuse": None,
    "subject": no_subject,
    "decode": codec.decode_request,
    "check": None,
}
"""The parts of a handler module, with their defaults."""


class ApiTable(msgspec.Struct, frozen=True, kw_only=True):
    """The APIs and versions that one kind of listener serves."""

    listener: str
    """The listener's name. Answers give the addresses of other brokers' listeners of that name
    (``BrokerImage.address``).
    """
    handlers: Mapping[int, Handler]
    accepted: Mapping[int, tuple[int, int]]
    """API key -> versions that are answered; any other version closes the connection."""
    advertised: Mapping[int, tuple[int, int]]
    """API key -> versions that ApiVersions lists."""


def error_fields(rejection: object) -> dict[str, Any]:
    """Error code and message of one result: those of a ``Rejection``, or success."""
    if not isinstance(rejection, Rejection):
        return {"error_code": ErrorCode.none, "error_message": None}
    return {"error_code": rejection.error, "error_message": rejection.reason or None}


def invalid(reason: str) -> Rejection:
    """INVALID_REQUEST with its own message."""
    return Rejection(error=ErrorCode.invalid_request, reason=reason)


def refuse_at_top_level(
    *, has_error_name: bool = False, **other_fields: object
) -> Callable[[Request, ErrorCode], Reply]:
    """A handler's ``refuse`` where the answer has one error code, at its top level.

    Args:
        has_error_name: Whether the answer's error message is the name of the error.
        other_fields: The other fields of the answer.
    """

    def refuse(request: Request, error: ErrorCode) -> Reply:
        if has_error_name:
            return request.answer(error_code=error, error_message=error.name, **other_fields)
        return request.answer(error_code=error, **other_fields)

    return refuse


def may_describe(request: Request) -> Callable[[str], bool] | None:
    """A function that says whether the client may describe a topic; None if it may describe all."""
    access = request.access
    return None if access is None else partial(access.may_topic, AclOperation.DESCRIBE)


class RequestSender(Protocol):
    """The client that sent a request, as its listener knows it."""

    apis: ApiTable
    client_host: str
    principal: str
    link: ClientLink


def parse_request(
    frame: bytes, sender: RequestSender, broker: Broker, *, is_decoded: bool = True
) -> Request:
    """Read a frame: the header, and the message unless ``is_decoded`` is False.

    Raises:
        UnsupportedRequestError: The table has no such API or version.
        MalformedFrameError: The frame is not a request.
    """
    header = codec.read_request_header(frame)
    api_key, api_version = header.api_key, header.api_version
    apis = sender.apis
    handler = apis.handlers.get(api_key)
    if handler is None:
        raise UnsupportedRequestError(f"API key {api_key} is not supported")
    lowest, highest = apis.accepted[api_key]
    request = Request(
        apis=apis,
        broker=broker,
        api_key=api_key,
        api_version=api_version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
        body_offset=header.body_offset,
        client_host=sender.client_host,
        principal=sender.principal,
        link=sender.link,
    )
    if not lowest <= api_version <= highest:
        if api_key != API_VERSIONS:
            raise UnsupportedRequestError(
                f"{api_name(api_key)} v{api_version} is not supported, only v{lowest} to v{highest}"
            )
        # A client with a newer version gets the answer in v0, which lists the versions to use.
        request.api_version, request.refused = 0, ErrorCode.unsupported_version
    elif is_decoded:
        request.message = handler.decode(header, frame)
        if handler.check is not None:
            handler.check(request.message)
    link = sender.link
    if link.client_id is None:
        link.client_id = header.client_id
    if api_key in HEADER_V3_FROM and api_version >= HEADER_V3_FROM[api_key]:
        # Header v3 names its client once per connection (KAFKA-20926).
        request.client_id = link.client_id
        if not link.settle_instance(header.client_instance_id):
            request.refused = ErrorCode.invalid_request
    return request


# Answers prepared once
#
# Building a message and encoding it costs more than deciding what it says. So the commonest answers
# are encoded once per shape, by the ordinary codec, and kept as bytes; where numbers differ they
# are encoded with numbers that occur nowhere else, and the bytes around them are kept. Nothing here
# knows a layout.

ANSWERS_MAX: Final = 16_384
"""Greatest number of prepared answers per API; one takes some hundred bytes."""

_MARKED_INT64: Final = 0x5AA5_1234_5678_9ABC
_MARKED_INT16: Final = 0x5AA5


class ByteGap:
    """The encoded bytes around a gap of adjacent numbers in a body."""

    __slots__ = ("_bytes_after", "_bytes_before", "_numbers")

    def __init__(self, struct_layout: str, build_message: Callable[[tuple[int, ...]], Any]) -> None:
        """Encode ``make(marks)`` with marker numbers, and find where they are.

        Args:
            struct_layout: Layout of the numbers as ``struct`` writes them: ``q`` and ``h`` only.
            build_message: Builds the message with given numbers.
        """
        self._numbers = struct.Struct(">" + struct_layout)
        marker_numbers = tuple(
            _MARKED_INT64 + index if format_code == "q" else _MARKED_INT16 + index
            for index, format_code in enumerate(struct_layout)
        )
        marker_bytes = self._numbers.pack(*marker_numbers)
        body = encode_body(build_message(marker_numbers))
        assert body.count(marker_bytes) == 1, f"{struct_layout} is not found once in {body!r}"
        self._bytes_before, self._bytes_after = body.split(marker_bytes)

    def fill(self, *gap_numbers: int) -> bytes:
        """The body with ``gap_numbers`` encoded in its gap."""
        return self._bytes_before + self._numbers.pack(*gap_numbers) + self._bytes_after


prepared: Final = lru_cache(maxsize=ANSWERS_MAX)
"""Decorates a function from the shape of an answer to its bytes or its ``ByteGap``; the results are
cached.
"""


@prepared
def only_error(api_key: int, api_version: int, error: int) -> bytes:
    return encode_body(answer(api_key, api_version, error_code=error))
