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

    request_field: str
    """Field of the request that lists resources."""
    answer_field: str
    """Field of the answer that lists their results."""
    error: Callable[[Request, Access, Any], ErrorCode | None]
    """Returns the error of a forbidden element; None for an allowed one."""
    has_entries: bool = False
    """Whether a refusal lists an entry for each element."""
    show_element: Callable[[Request, Access, Any], Any] | None = None
    """Returns an element of the answer as the client may see it; None if clients see all of it."""


REFUSED_AT_ONCE: Final = 128
"""Number of elements with their own entries that are refused without a break."""


async def handle_parts(
    request: Request, access: Access, handler: Handler, resource_part: ResourcePart
) -> Reply:
    """Let the handler answer for the allowed elements, and add the errors of the others."""
    allowed_elements, refusals = await split_allowed(
        request,
        partial(resource_part.error, request, access),
        getattr(request.message, resource_part.request_field),
    )
    if not refusals:
        return await handler.handle(request)
    elements_by_error: dict[ErrorCode, list[Any]] = {}
    for element, error in refusals:
        elements_by_error.setdefault(error, []).append(element)
    reply = readable(
        request,
        await handler.handle(with_elements(request, resource_part.request_field, allowed_elements)),
    )
    for error, elements in elements_by_error.items():
        refused_elements = await _refuse_elements(request, handler, resource_part, elements, error)
        if isinstance(reply, NoResponse) or isinstance(refused_elements, NoResponse):
            # Produce without acknowledgements: the error closes the connection.
            return reply if reply is NoResponse.NEVER else refused_elements
        reply = with_more_elements(reply, resource_part.answer_field, refused_elements)
    return reply


async def shown_parts(
    request: Request, access: Access, handler: Handler, resource_part: ResourcePart
) -> Reply:
    """Like ``handle_parts``, for an API of whose answer the client may see only a part."""
    assert resource_part.show_element is not None
    answer: Any = await handle_parts(request, access, handler, resource_part)
    elements = getattr(answer, resource_part.answer_field)
    elements_by_id = {
        id(element): element for element in elements
    }  # what is asked for again is one
    show_element = partial(resource_part.show_element, request, access)
    shown_by_id = dict(
        zip(
            elements_by_id,
            await request.map_each(show_element, elements_by_id.values(), weight=4),
            strict=True,
        )
    )
    shown_elements = tuple([shown_by_id[id(element)] for element in elements])
    return dataclasses.replace(answer, **{resource_part.answer_field: shown_elements})


async def split_allowed(
    request: Request, denial_of: Callable[[Any], R | None], elements: Collection[Any]
) -> tuple[list[Any], list[tuple[Any, R]]]:
    """Split elements into the allowed ones, and the denied ones with their denials."""
    allowed_elements: list[Any] = []
    denied_elements: list[tuple[Any, R]] = []
    denials = await request.map_each(denial_of, elements, weight=4)
    for element, denial_of_element in zip(elements, denials, strict=True):
        if denial_of_element is None:
            allowed_elements.append(element)
        else:
            denied_elements.append((element, denial_of_element))
    return allowed_elements, denied_elements


async def _refuse_elements(
    request: Request,
    handler: Handler,
    resource_part: ResourcePart,
    elements: list[Any],
    error: ErrorCode,
) -> tuple[Any, ...] | NoResponse:
    """The refused elements as the answer lists them."""
    slice_length = REFUSED_AT_ONCE if resource_part.has_entries else len(elements)
    refused_elements: list[Any] = []
    for slice_start in range(0, len(elements), slice_length):
        part_request = with_elements(
            request, resource_part.request_field, elements[slice_start : slice_start + slice_length]
        )
        refusal: Any = await with_texts(part_request, handler.refuse(part_request, error))
        if isinstance(refusal, NoResponse):
            return refusal
        refused_elements += getattr(refusal, resource_part.answer_field)
    return tuple(refused_elements)


def with_elements(request: Request, list_field: str, elements: list[Any]) -> Request:
    """The request with only these elements."""
    return with_message(
        request, dataclasses.replace(request.message, **{list_field: tuple(elements)})
    )


def with_message(request: Request, message: Any) -> Request:
    """The same request with another message."""
    return msgspec.structs.replace(request, message=message)


def readable(request: Request, reply: Reply) -> Any:
    """The reply as a message, decoded if the handler has already encoded it."""
    if not isinstance(reply, bytes):
        return reply
    api_key, api_version = request.api_key, request.api_version
    frame = codec.frame_response(api_key, api_version, request.correlation_id, reply)
    return codec.read_response(api_key, api_version, frame[4:])[1]


def with_more_elements(reply: Any, list_field: str, elements: tuple[Any, ...]) -> Any:
    """The reply with additional elements."""
    return dataclasses.replace(reply, **{list_field: (*getattr(reply, list_field), *elements)})


# Which element is forbidden


def _topic_error(operation: AclOperation, name_field: str = "name") -> Any:
    """A ``ResourcePart`` of a request that lists topics."""

    def error(request: Request, access: Access, element: Any) -> ErrorCode | None:
        named_topic = topic_name(request, element, name_field)
        return (
            None
            if named_topic is None
            else access.denial(operation, ResourceType.TOPIC, named_topic)
        )

    return error


def topic_name(request: Request, element: Any, name_field: str = "name") -> str | None:
    """The name of a topic that an element gives by name or id. None for an unknown id: the handler
    answers that, because ids are no secret.
    """
    given_name = getattr(element, name_field, None)
    topic_id = getattr(element, "topic_id", None)
    if given_name or topic_id is None:
        return None if given_name is None else str(given_name)
    return request.broker.image.topic_names.get(topic_id)


def _leader_epoch_error(request: Request, access: Access, element: Any) -> ErrorCode | None:
    """The error of an element of OffsetForLeaderEpoch; followers may ask too."""
    if access.may_cluster(AclOperation.CLUSTER_ACTION):
        return None
    error: ErrorCode | None = _topic_error(AclOperation.DESCRIBE, "topic")(request, access, element)
    return error


def by_id(operation: AclOperation, resource_type: ResourceType) -> Any:
    """A part whose elements are group ids or transactional ids."""

    def error(_request: Request, access: Access, resource_name: str) -> ErrorCode | None:
        return access.denial(operation, resource_type, resource_name)

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


def _config_error(
    operation: AclOperation, *, excluded_config_types: frozenset[int] = frozenset()
) -> Any:
    """A part whose elements are config resources; ``excluded_config_types`` are types that the
    API does not know.
    """

    def error(_request: Request, access: Access, element: Any) -> ErrorCode | None:
        config_type = int(element.resource_type)
        resource_type = (
            None if config_type in excluded_config_types else _BY_CONFIG_TYPE.get(config_type)
        )
        if resource_type is None:
            return None  # the handler refuses it
        is_cluster = resource_type is ResourceType.CLUSTER
        return access.denial(
            operation, resource_type, CLUSTER_NAME if is_cluster else element.resource_name
        )

    return error


PARTS: Final[Mapping[int, ResourcePart]] = {
    # Produce
    0: ResourcePart(
        request_field="topic_data", answer_field="responses", error=_topic_error(AclOperation.WRITE)
    ),
    # ListOffsets
    2: ResourcePart(
        request_field="topics", answer_field="topics", error=_topic_error(AclOperation.DESCRIBE)
    ),
    # OffsetCommit
    8: ResourcePart(
        request_field="topics", answer_field="topics", error=_topic_error(AclOperation.READ)
    ),
    # DeleteRecords
    21: ResourcePart(
        request_field="topics", answer_field="topics", error=_topic_error(AclOperation.DELETE)
    ),
    # OffsetForLeaderEpoch
    23: ResourcePart(request_field="topics", answer_field="topics", error=_leader_epoch_error),
    # TxnOffsetCommit
    28: ResourcePart(
        request_field="topics", answer_field="topics", error=_topic_error(AclOperation.READ)
    ),
    # DescribeConfigs
    32: ResourcePart(
        request_field="resources",
        answer_field="results",
        error=_config_error(AclOperation.DESCRIBE_CONFIGS),
        has_entries=True,
    ),
    # AlterConfigs
    33: ResourcePart(
        request_field="resources",
        answer_field="responses",
        error=_config_error(AclOperation.ALTER_CONFIGS, excluded_config_types=_NO_LOGGERS),
        has_entries=True,
    ),
    # CreatePartitions
    37: ResourcePart(
        request_field="topics", answer_field="results", error=_topic_error(AclOperation.ALTER)
    ),
    # DeleteGroups
    42: ResourcePart(
        request_field="groups_names",
        answer_field="results",
        error=by_id(AclOperation.DELETE, ResourceType.GROUP),
    ),
    # IncrementalAlterConfigs
    44: ResourcePart(
        request_field="resources",
        answer_field="responses",
        error=_config_error(AclOperation.ALTER_CONFIGS),
        has_entries=True,
    ),
    # DescribeProducers
    61: ResourcePart(
        request_field="topics", answer_field="topics", error=_topic_error(AclOperation.READ)
    ),
}
"""API key -> the part of the request that lists resources."""
