"""Requests that are refused as a whole: each API, the right it asks for, its error."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.broker_api import KEYS
from tests.support.logs import plain
from tests.support.rights import ERRORS, NAMES, TOPIC, WHOLE, WRITTEN
from tests.support.security import GuardedApi, acl
from txnsim.api.authorization._whole_requests import CHECKS
from txnsim.errors import ErrorCode
from txnsim.security.acls import AclOperation, ResourceType


@pytest.mark.parametrize(("name", "version", "values", "needs"), WHOLE)
async def test_each_right_is_asked_for_and_enough(
    api: GuardedApi,
    name: str,
    version: int,
    values: dict[str, Any],
    needs: list[tuple[ResourceType, AclOperation]],
) -> None:
    for resource_type, operation in needs:
        assert errors_of(await api.ask(name, version, **values)) == {ERRORS[resource_type]}
        api.grant(acl(resource_type, NAMES[resource_type], operation))
    assert not errors_of(await api.ask(name, version, **values)) & set(ERRORS.values())


def test_the_table_has_every_row() -> None:
    tried_apis = {KEYS[name] for name, *_ in WHOLE}
    assert tried_apis == CHECKS.keys()


async def test_what_is_not_transactional_needs_no_transactional_id(api: GuardedApi) -> None:
    api.grant(acl(TOPIC, "orders", AclOperation.WRITE))
    values = {
        **WRITTEN,
        "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": plain()}]}],
    }
    answer = await api.ask("Produce", 9, **values)
    assert errors_of(answer) == {ErrorCode.none}
    answer = await api.ask("Produce", 9, **{**values, "transactional_id": None})
    assert errors_of(answer) == {ErrorCode.none}


def errors_of(answer: Any) -> set[ErrorCode]:
    """Every error code of an answer, at any depth."""
    errors: set[ErrorCode] = set()
    if isinstance(answer, tuple):
        for element in answer:
            errors |= errors_of(element)
    elif hasattr(answer, "__dataclass_fields__"):
        for field_name in answer.__dataclass_fields__:
            field_value = getattr(answer, field_name)
            if isinstance(field_value, ErrorCode):
                errors.add(field_value)
            else:
                errors |= errors_of(field_value)
    return errors
