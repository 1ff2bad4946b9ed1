"""The message of a refusal, beside its error code.

Handlers build refusals for any kind of error. For missing rights Kafka has its own messages, which
some APIs send and others don't, as measured on a real broker.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, Final

from txnsim.api._access import TEXTS
from txnsim.api.request import Request
from txnsim.errors import ErrorCode

DEVIATIONS: Final = (
    "Where the controller, or DescribeAcls, refuses for want of rights, Apache Kafka's message "
    "prints the request as a Java object; here it is the error's own text.",
)

_APIS_WITHOUT_TEXT: Final = frozenset(
    {
        0,  # Produce
        15,  # DescribeGroups
        19,  # CreateTopics has a text of its own
        37,  # CreatePartitions
        48,  # DescribeClientQuotas
        50,  # DescribeUserScramCredentials
        68,  # ConsumerGroupHeartbeat
        69,  # ConsumerGroupDescribe
        76,  # ShareGroupHeartbeat
        77,  # ShareGroupDescribe
        78,  # ShareFetch
        79,  # ShareAcknowledge
        88,  # StreamsGroupHeartbeat
        89,  # StreamsGroupDescribe
        93,  # StreamsGroupTopologyDescriptionUpdate
    }
)
"""API keys whose refusals have no message."""
_MESSAGE: Final = "error_message"
_ALTER_CONFIGS: Final = frozenset({33, 44})
"""AlterConfigs and IncrementalAlterConfigs."""
_BROKER: Final = 4
_BROKER_LOGGER: Final = 8


async def with_texts(request: Request, answer: Any) -> Any:
    """The refusal with Kafka's messages; breaks in a large one."""
    field_names = _field_names(answer.__class__)
    changed_fields: dict[str, Any] = {}
    for field_name in field_names:
        field_value = getattr(answer, field_name)
        if type(field_value) is tuple and field_value and _field_names(field_value[0].__class__):
            request.expect(len(field_value))
            changed_fields[field_name] = tuple(
                [await with_texts(request, element) for element in field_value]
            )
    error = getattr(answer, "error_code", ErrorCode.none)
    if _MESSAGE in field_names and error in TEXTS:
        error_text = _error_text(request, answer, ErrorCode(error))
        if error_text != answer.error_message:
            changed_fields[_MESSAGE] = error_text
    await request.note_done(1)
    return dataclasses.replace(answer, **changed_fields) if changed_fields else answer


@cache
def _field_names(message_class: Any) -> tuple[str, ...]:
    """Field names of a message's class; empty for any other class."""
    if not dataclasses.is_dataclass(message_class):
        return ()
    return tuple(field.name for field in dataclasses.fields(message_class))


def _error_text(request: Request, answer: Any, error: ErrorCode) -> str | None:
    if request.api_key in _APIS_WITHOUT_TEXT:
        return None
    if request.api_key in _ALTER_CONFIGS:
        resource_type = answer.resource_type
        # These a broker refuses itself, the rest the controller (ConfigAdminManager.preprocess).
        release_rules = request.broker.release.rules
        if resource_type == _BROKER_LOGGER or (
            resource_type == _BROKER and release_rules.brokers_guard_their_configs
        ):
            return None
    return TEXTS[error]
