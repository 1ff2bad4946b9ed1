"""Resolves placeholders in a step.

- ``$p.pid``, ``$p.epoch+1``, ``$v``: a variable, or an attribute of it, plus or minus a number
- ``~name``: a name that only this play uses, as for topics and transactional ids
- ``{$batch: {...}}``: a record batch (``batches``); ``{$hex: 00ff}``: bytes; ``{$uuid: ...}``
- ``{$times: [3, x]}``: a text, repeated
- ``{$share: [~g, $t.id, 0]}``: the key of a share partition
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

import msgspec

from txnsim.client.raw.connection import RawConnection
from txnsim.errors import ErrorCode
from txnsim.types import uuid_text
from txnsim_lab.conformance._book.batches import batch_from

Variables = dict[str, Any]

_VARIABLE_RE: Final = re.compile(r"\$(\w+)(?:\.(\w+))?([+-]\d+)?")


class Producer(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a producer in a play."""

    id: str | None
    pid: int
    epoch: int


class PlayTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of a play, with its id."""

    name: str
    id: Any


class CaseError(Exception):
    """A step of the casebook can't be played; the message names the step."""


class TooLateError(CaseError):
    """On a busy machine a transaction timed out before its step."""


def resolve_placeholders(value: Any, variables: Variables, make_name: Callable[[str], str]) -> Any:
    """Replace all placeholders in a value.

    Args:
        value: The value as in the file.
        variables: Variables by name.
        make_name: Makes a name that only this play uses.
    """
    if isinstance(value, str):
        return _resolve_text(value, variables, make_name)
    if isinstance(value, list | tuple):
        return [resolve_placeholders(element, variables, make_name) for element in value]
    if not isinstance(value, Mapping):
        return value
    resolved_fields = {
        key: resolve_placeholders(element, variables, make_name) for key, element in value.items()
    }
    match resolved_fields:
        case {"$batch": fields}:
            return batch_from(fields)
        case {"$hex": digits}:
            return bytes.fromhex(digits)
        case {"$uuid": text}:
            return uuid.UUID(text)
        case {"$times": [times, text]}:
            return text * times
        case {"$share": [group_id, topic_id, partition]}:
            return f"{group_id}:{uuid_text(topic_id)}:{partition}"
    return resolved_fields


def _resolve_text(value: str, variables: Variables, make_name: Callable[[str], str]) -> Any:
    if value.startswith("~"):
        return make_name(value[1:])
    if not value.startswith("$") or value.startswith(("$batch", "$hex", "$times")):
        return value
    match = _VARIABLE_RE.fullmatch(value)
    if match is None or match[1] not in variables:
        raise CaseError(f"{value}: known are {', '.join(sorted(variables))}")
    variable = variables[match[1]]
    if match[2]:
        variable = getattr(variable, match[2])
    return variable + int(match[3]) if match[3] else variable


def value_at_path(answer: Any, path: str) -> Any:
    """The value at a path such as ``topics.0.partitions.1.error_code`` in an answer; None if the
    path does not exist. ``*`` takes every element of a list.
    """
    path_parts = path.split(".")
    for index, path_part in enumerate(path_parts):
        if path_part == "*":
            rest_of_path = ".".join(path_parts[index + 1 :])
            return [
                value_at_path(element, rest_of_path) if rest_of_path else element
                for element in answer
            ]
        if path_part.lstrip("-").isdigit():
            if not isinstance(answer, tuple | list) or int(path_part) >= len(answer):
                return None
            answer = answer[int(path_part)]
        else:
            answer = getattr(answer, path_part, None)
    return answer


def error_codes(answer: Any) -> Iterator[ErrorCode]:
    if isinstance(answer, ErrorCode):
        yield answer
    elif is_dataclass(answer):
        for field in fields(answer):
            yield from error_codes(getattr(answer, field.name))
    elif isinstance(answer, tuple | list):
        for element in answer:
            yield from error_codes(element)


def check_fields(api_key: int, fields: Mapping[str, Any]) -> None:
    """Checks that some version of the request has each field.

    Raises:
        CaseError: A field is unknown; the message lists the known ones.
    """
    try:
        RawConnection.check(api_key, fields)
    except TypeError as error:
        raise CaseError(str(error)) from None
