"""AlterClientQuotas: set, tried, removed, and what is told of entities that are named twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api
from txnsim.errors import ErrorCode

E = ErrorCode
RATE = "producer_byte_rate"


def entry(*ops: tuple[str, float | None], user: str | None = "u") -> dict[str, Any]:
    return {
        "entity": [{"entity_type": "user", "entity_name": user}],
        "ops": [{"key": k, "value": v or 0.0, "remove": v is None} for k, v in ops],
    }


async def alter(
    api: Api, *entries: dict[str, Any], version: int = 1, only_try: bool = False
) -> Any:
    answer = await api.ask(
        "AlterClientQuotas", version, entries=list(entries), validate_only=only_try
    )
    return [(one.error_code, one.error_message) for one in answer.entries]


def kept(api: Api) -> dict[str | None, dict[str, float]]:
    return {entity[0][1]: dict(values) for entity, values in api.broker.image.client_quotas.items()}


@pytest.mark.parametrize("version", [0, 1])
async def test_values_are_set_and_removed(api: Api, version: int) -> None:
    assert await alter(api, entry((RATE, 5.0)), version=version) == [(E.none, None)]
    assert await alter(api, entry((RATE, 6.0)), version=version, only_try=True) == [(E.none, None)]
    assert await alter(api, entry((RATE, 7.0), user=None), version=version) == [(E.none, None)]
    assert kept(api) == {"u": {RATE: 5.0}, None: {RATE: 7.0}}
    offset = api.broker.image.offset
    assert await alter(api, entry((RATE, None)), version=version) == [(E.none, None)]
    assert await alter(api, entry((RATE, None)), version=version) == [(E.none, None)]
    assert kept(api) == {None: {RATE: 7.0}}
    assert api.broker.image.offset == offset + 1, "what changes nothing is no change"


async def test_what_can_not_be_changes_nothing(api: Api) -> None:
    (refused,) = await alter(api, entry((RATE, 1.0), ("no_such_rate", 1.0)))
    assert refused == (E.invalid_request, "Invalid configuration key no_such_rate")
    assert kept(api) == {}
