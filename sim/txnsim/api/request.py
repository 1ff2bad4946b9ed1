"""What a handler is given and what it may answer.

A handler module has a key (``KEY``), the versions it understands (``VERSIONS``), ``async def
handle(request)`` and ``refuse(request, error)``, the answer that fails the whole request with one
error: in each element where the schema has no top-level code, as Kafka's
``AbstractRequest.getErrorResponse`` does. ``subject(request)`` tells a fault plan whom the request
is about.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from enum import Enum
from functools import partial
from types import ModuleType
from typing import Any, Final

import msgspec

from txnsim.api.access import Access
from txnsim.broker.broker import Broker
from txnsim.errors import ErrorCode
from txnsim.metadata.image import BrokerImage
from txnsim.security.acls import Operation
from txnsim.security.principals import ANONYMOUS
from txnsim.types import Subject
from txnsim.wire import codec

NO_THROTTLE: Final = timedelta(0)
NOBODY: Final = Subject()


INVALID_REQUEST_TEXT: Final = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
"""What Kafka says where nobody gave INVALID_REQUEST a text of its own (Errors.INVALID_REQUEST)."""
CLUSTER_OPERATIONS: Final = 8096
"""Bits of every operation on a cluster (AclEntry.supportedOperations): without an authorizer all
of them are allowed.
"""
TOPIC_OPERATIONS: Final = 3576
"""The same for a topic."""
NOT_ASKED: Final = -(2**31)
"""Authorized operations where nobody asked for them."""


class Answer(Enum):
    """Answers without a message."""

    NONE = "nothing is sent, the connection goes on (acks=0)"
    NEVER = "the request is never answered and blocks its connection, as measured on a real broker"
    CLOSE = "the connection is closed"


class ClientLink:
    """A client's connection as far as handlers know of it."""

    __slots__ = ("_at_close", "port", "software_name", "software_version")

    def __init__(self, port: str = "") -> None:
        self.port = port
        """The client's own."""
        self.software_name: str | None = None
        self.software_version: str | None = None
        """As the client's ApiVersions tells (KIP-511)."""
        self._at_close: dict[Callable[[ClientLink], None], None] = {}

    def at_close(self, forget: Callable[[ClientLink], None]) -> None:
        """Call this once the connection has ended."""
        self._at_close[forget] = None

    def closed(self) -> None:
        """The connection has ended."""
        for forget in self._at_close:
            forget(self)


NO_LINK: Final = ClientLink()
"""Of requests that come by no connection."""


class Request:
    """One request of a client: its header, its decoded message, the broker it reached."""

    __slots__ = (
        "access",
        "api_key",
        "api_version",
        "apis",
        "broker",
        "client_host",
        "client_id",
        "correlation_id",
        "link",
        "message",
        "principal",
    )

    def __init__(
        self,
        *,
        apis: ApiTable,
        broker: Broker,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        message: Any,
        client_host: str = "",
        principal: str = ANONYMOUS,
        link: ClientLink = NO_LINK,
    ) -> None:
        self.link = link
        """The connection by which it came."""
        self.client_host = client_host
        """The client's address as Kafka tells it: ``/127.0.0.1``."""
        self.access: Access | None = None
        """What the client may do; None where everybody may do everything."""
        self.principal = principal
        """Who asks: ``User:alice``."""
        self.apis = apis
        self.broker = broker
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.message = message

    @property
    def schema(self) -> ModuleType:
        """The message classes of the answer in this version."""
        return codec.response_schema(self.api_key, self.api_version)

    def refuse(self, error: ErrorCode) -> Reply:
        """The answer that fails the whole request, in the words of this listener."""
        return self.apis.handlers[self.api_key].refuse(self, error)

    def address_of(self, broker: BrokerImage) -> dict[str, Any]:
        """Host and port of a broker's listener of the name under which this request came."""
        host, port = broker.address(self.apis.listener)
        return {"host": host, "port": port}

    def answer(self, **values: object) -> Any:
        """The answer's message with those values that this version has; no throttling."""
        return answer(self.api_key, self.api_version, **values)


def answer(api_key: int, api_version: int, **values: object) -> Any:
    """An answer's message with those values that this version has; no throttling."""
    return codec.build(
        codec.response_class(api_key, api_version), throttle_time=NO_THROTTLE, **values
    )


Reply = object
"""A message of the response schema, its encoded body as ``bytes``, or an ``Answer``."""


class Handler(msgspec.Struct, frozen=True, kw_only=True):
    """A handler module as ``api.registry`` keeps it."""

    key: int
    name: str
    versions: tuple[int, int]
    handle: Callable[[Request], Coroutine[Any, Any, Reply]]
    """Answers the request."""
    refuse: Callable[[Request, ErrorCode], Reply]
    """Fails the whole request with one error."""
    subject: Callable[[Request], Subject]
    """Whom the request is about."""
    decode: Callable[[codec.RequestHeader, bytes], Any] = codec.decode_request
    """From a frame to the message."""


class ApiTable(msgspec.Struct, frozen=True, kw_only=True):
    """What one kind of listener speaks."""

    listener: str
    """Its name: answers lead to other brokers' listeners of that name (``BrokerImage.address``)."""
    handlers: Mapping[int, Handler]
    accepted: Mapping[int, tuple[int, int]]
    """API key -> versions that are answered; anything else closes the connection."""
    advertised: Mapping[int, tuple[int, int]]
    """API key -> versions as ApiVersions tells them."""


def nobody(_request: Request) -> Subject:
    """The subject of requests that are about nobody in particular."""
    return NOBODY


def may_describe(request: Request) -> Callable[[str], bool] | None:
    """Whether who asks may describe a topic, for cores that leave topics out; None: always."""
    access = request.access
    return None if access is None else partial(access.may_topic, Operation.DESCRIBE)
