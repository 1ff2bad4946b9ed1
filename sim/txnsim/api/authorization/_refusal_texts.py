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

_SILENT: Final = frozenset(
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
    fields = _fields(answer.__class__)
    changes: dict[str, Any] = {}
    for name in fields:
        value = getattr(answer, name)
        if type(value) is tuple and value and _fields(value[0].__class__):
            request.expect(len(value))
            changes[name] = tuple([await with_texts(request, element) for element in value])
    error = getattr(answer, "error_code", ErrorCode.none)
    if _MESSAGE in fields and error in TEXTS:
        text = _text(request, answer, ErrorCode(error))
        if text != answer.error_message:
            changes[_MESSAGE] = text
    await request.have_done(1)
    return dataclasses.replace(answer, **changes) if changes else answer


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    """Field names of a message's class; empty for any other class."""
    if not dataclasses.is_dataclass(kind):
        return ()
    return tuple(field.name for field in dataclasses.fields(kind))


def _text(request: Request, answer: Any, error: ErrorCode) -> str | None:
    if request.api_key in _SILENT:
        return None
    if request.api_key in _ALTER_CONFIGS:
        kind = answer.resource_type
        # These a broker refuses itself, the rest the controller (ConfigAdminManager.preprocess).
        rules = request.broker.release.rules
        if kind == _BROKER_LOGGER or (kind == _BROKER and rules.brokers_guard_their_configs):
            return None
    return TEXTS[error]
