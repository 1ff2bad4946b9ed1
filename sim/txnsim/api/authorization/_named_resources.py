"""Requests that list resources: the forbidden ones are removed, the handler answers for the others,
and the errors are added to its answer.

The handler's own ``refuse`` builds the errors, so they have the form that the API's version needs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from txnsim.api._access import Access
from txnsim.api.authorization._refusal_texts import with_texts
from txnsim.api.request import Handler, NoResponse, Reply, Request
from txnsim.errors import ErrorCode
from txnsim.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from txnsim.wire import codec

R = TypeVar("R")
Guard = Callable[[Request, Access, Handler], Awaitable[Reply]]
"""Lets the handler answer the allowed part of a request."""


class ResourcePart(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a request and its answer that list resources."""

    asked: str
    """Field of the request that lists resources."""
    answered: str
    """Field of the answer that lists their results."""
    error: Callable[[Request, Access, Any], ErrorCode | None]
    """Returns the error of a forbidden element; None for an allowed one."""
    has_entries: bool = False
    """Whether a refusal lists an entry for each element."""
    shown: Callable[[Request, Access, Any], Any] | None = None
    """Returns an element of the answer as the client may see it; None if clients see all of it."""


REFUSED_AT_ONCE: Final = 128
"""Number of elements with their own entries that are refused without a break."""


async def handle_parts(
    request: Request, access: Access, handler: Handler, part: ResourcePart
) -> Reply:
    """Let the handler answer for the allowed elements, and add the errors of the others."""
    allowed, refusals = await split_allowed(
        request, partial(part.error, request, access), getattr(request.message, part.asked)
    )
    if not refusals:
        return await handler.handle(request)
    denied: dict[ErrorCode, list[Any]] = {}
    for element, error in refusals:
        denied.setdefault(error, []).append(element)
    reply = readable(request, await handler.handle(with_elements(request, part.asked, allowed)))
    for error, elements in denied.items():
        refused = await _refuse_elements(request, handler, part, elements, error)
        if isinstance(reply, NoResponse) or isinstance(refused, NoResponse):
            # Produce without acknowledgements: the error closes the connection.
            return reply if reply is NoResponse.NEVER else refused
        reply = with_more_elements(reply, part.answered, refused)
    return reply


async def shown_parts(
    request: Request, access: Access, handler: Handler, part: ResourcePart
) -> Reply:
    """Like ``handle_parts``, for an API of whose answer the client may see only a part."""
    assert part.shown is not None
    answer: Any = await handle_parts(request, access, handler, part)
    elements = getattr(answer, part.answered)
    distinct = {id(element): element for element in elements}  # what is asked for again is one
    show = partial(part.shown, request, access)
    shown_by_id = dict(
        zip(distinct, await request.map_each(show, distinct.values(), weight=4), strict=True)
    )
    shown_elements = tuple([shown_by_id[id(element)] for element in elements])
    return dataclasses.replace(answer, **{part.answered: shown_elements})


async def split_allowed(
    request: Request, denial: Callable[[Any], R | None], elements: Collection[Any]
) -> tuple[list[Any], list[tuple[Any, R]]]:
    """Split elements into the allowed ones, and the denied ones with their denials."""
    allowed: list[Any] = []
    denied: list[tuple[Any, R]] = []
    denials = await request.map_each(denial, elements, weight=4)
    for element, denial_of_element in zip(elements, denials, strict=True):
        if denial_of_element is None:
            allowed.append(element)
        else:
            denied.append((element, denial_of_element))
    return allowed, denied


async def _refuse_elements(
    request: Request, handler: Handler, part: ResourcePart, elements: list[Any], error: ErrorCode
) -> tuple[Any, ...] | NoResponse:
    """The refused elements as the answer lists them."""
    step = REFUSED_AT_ONCE if part.has_entries else len(elements)
    refused_elements: list[Any] = []
    for start in range(0, len(elements), step):
        part_request = with_elements(request, part.asked, elements[start : start + step])
        refused: Any = await with_texts(part_request, handler.refuse(part_request, error))
        if isinstance(refused, NoResponse):
            return refused
        refused_elements += getattr(refused, part.answered)
    return tuple(refused_elements)


def with_elements(request: Request, field: str, elements: list[Any]) -> Request:
    """The request with only these elements."""
    return with_message(request, dataclasses.replace(request.message, **{field: tuple(elements)}))


def with_message(request: Request, message: Any) -> Request:
    """The same request with another message."""
    return msgspec.structs.replace(request, message=message)


def readable(request: Request, reply: Reply) -> Any:
    """The reply as a message, decoded if the handler has already encoded it."""
    if not isinstance(reply, bytes):
        return reply
    key, version = request.api_key, request.api_version
    frame = codec.frame_response(key, version, request.correlation_id, reply)
    return codec.read_response(key, version, frame[4:])[1]


def with_more_elements(reply: Any, field: str, elements: tuple[Any, ...]) -> Any:
    """The reply with additional elements."""
    return dataclasses.replace(reply, **{field: (*getattr(reply, field), *elements)})


# Which element is forbidden


def _topic(operation: AclOperation, field: str = "name") -> Any:
    """A part whose elements are topics."""

    def error(request: Request, access: Access, element: Any) -> ErrorCode | None:
        name = topic_name(request, element, field)
        return None if name is None else access.denial(operation, ResourceType.TOPIC, name)

    return error


def topic_name(request: Request, element: Any, field: str = "name") -> str | None:
    """The name of a topic that an element gives by name or id. None for an unknown id: the handler
    answers that, because ids are no secret.
    """
    name = getattr(element, field, None)
    topic_id = getattr(element, "topic_id", None)
    if name or topic_id is None:
        return None if name is None else str(name)
    return request.broker.image.topic_names.get(topic_id)


def _leader_epoch(request: Request, access: Access, element: Any) -> ErrorCode | None:
    """The error of an element of OffsetForLeaderEpoch; followers may ask too."""
    if access.may_cluster(AclOperation.CLUSTER_ACTION):
        return None
    error: ErrorCode | None = _topic(AclOperation.DESCRIBE, "topic")(request, access, element)
    return error


def by_id(operation: AclOperation, kind: ResourceType) -> Any:
    """A part whose elements are group ids or transactional ids."""

    def error(_request: Request, access: Access, name: str) -> ErrorCode | None:
        return access.denial(operation, kind, name)

    return error


_BY_CONFIG_TYPE: Final = {
    2: ResourceType.TOPIC,
    4: ResourceType.CLUSTER,  # BROKER
    8: ResourceType.CLUSTER,  # BROKER_LOGGER
    16: ResourceType.CLUSTER,  # CLIENT_METRICS
    32: ResourceType.GROUP,
}
"""ConfigResource.Type -> the type of resource on which a right is required."""


_NO_LOGGERS: Final = frozenset({8})


def _configs(operation: AclOperation, *, excluded: frozenset[int] = frozenset()) -> Any:
    """A part whose elements are config resources; ``excluded`` are types that the API does not
    know.
    """

    def error(_request: Request, access: Access, element: Any) -> ErrorCode | None:
        number = int(element.resource_type)
        kind = None if number in excluded else _BY_CONFIG_TYPE.get(number)
        if kind is None:
            return None  # the handler refuses it
        is_cluster = kind is ResourceType.CLUSTER
        return access.denial(operation, kind, CLUSTER_NAME if is_cluster else element.resource_name)

    return error


PARTS: Final[Mapping[int, ResourcePart]] = {
    # Produce
    0: ResourcePart(asked="topic_data", answered="responses", error=_topic(AclOperation.WRITE)),
    # ListOffsets
    2: ResourcePart(asked="topics", answered="topics", error=_topic(AclOperation.DESCRIBE)),
    # OffsetCommit
    8: ResourcePart(asked="topics", answered="topics", error=_topic(AclOperation.READ)),
    # DeleteRecords
    21: ResourcePart(asked="topics", answered="topics", error=_topic(AclOperation.DELETE)),
    # OffsetForLeaderEpoch
    23: ResourcePart(asked="topics", answered="topics", error=_leader_epoch),
    # TxnOffsetCommit
    28: ResourcePart(asked="topics", answered="topics", error=_topic(AclOperation.READ)),
    # DescribeConfigs
    32: ResourcePart(
        asked="resources",
        answered="results",
        error=_configs(AclOperation.DESCRIBE_CONFIGS),
        has_entries=True,
    ),
    # AlterConfigs
    33: ResourcePart(
        asked="resources",
        answered="responses",
        error=_configs(AclOperation.ALTER_CONFIGS, excluded=_NO_LOGGERS),
        has_entries=True,
    ),
    # CreatePartitions
    37: ResourcePart(asked="topics", answered="results", error=_topic(AclOperation.ALTER)),
    # DeleteGroups
    42: ResourcePart(
        asked="groups_names",
        answered="results",
        error=by_id(AclOperation.DELETE, ResourceType.GROUP),
    ),
    # IncrementalAlterConfigs
    44: ResourcePart(
        asked="resources",
        answered="responses",
        error=_configs(AclOperation.ALTER_CONFIGS),
        has_entries=True,
    ),
    # DescribeProducers
    61: ResourcePart(asked="topics", answered="topics", error=_topic(AclOperation.READ)),
}
"""API key -> the part of the request that lists resources."""
