"""What a refusal says beside its error code.

Handlers word their refusals for errors of any kind; those of rights have texts of Kafka's own,
which some APIs give and some don't, as measured on a real broker.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from txnsim.api.access import TEXTS
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
    }
)
"""API keys whose refusals say nothing."""
_DESCRIBE_CONFIGS: Final = 32
_BROKER_LOGGER: Final = 8


def worded(api_key: int, answer: Any) -> Any:
    """The answer of a refusal with Kafka's texts."""
    if not dataclasses.is_dataclass(answer):
        return answer
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            changes[field.name] = tuple(worded(api_key, one) for one in value)
    error = getattr(answer, "error_code", ErrorCode.none)
    if hasattr(answer, "error_message") and error in TEXTS:
        changes["error_message"] = _text(api_key, answer, ErrorCode(error))
    return dataclasses.replace(answer, **changes) if changes else answer  # type: ignore[type-var]  # messages are dataclasses, but nothing says so


def _text(api_key: int, answer: Any, error: ErrorCode) -> str | None:
    is_logger = getattr(answer, "resource_type", None) == _BROKER_LOGGER
    if api_key in _SILENT or (is_logger and api_key != _DESCRIBE_CONFIGS):
        return None
    return TEXTS[error]
