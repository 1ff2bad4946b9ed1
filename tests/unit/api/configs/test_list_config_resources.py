"""ListConfigResources v0 and v1: the kinds; the transcripts have the rest."""

from __future__ import annotations

import pytest

from tests.support.handlers import Api
from txnsim.errors import ErrorCode

TOPIC, BROKER, LOGGER = 2, 4, 8


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ([TOPIC], {(TOPIC, "orders")}),
        ([BROKER, BROKER], {(BROKER, "1"), (BROKER, "2"), (BROKER, "3")}),
        ([16, 32], set()),
        (
            [],
            {(TOPIC, "orders")} | {(kind, f"{n}") for kind in (BROKER, LOGGER) for n in (1, 2, 3)},
        ),
    ],
)
async def test_resources_of_each_kind(
    api_of_three: Api, kinds: list[int], found: set[tuple[int, str]]
) -> None:
    answer = await api_of_three.ask("ListConfigResources", 1, resource_types=kinds)
    told = [(one.resource_type, one.resource_name) for one in answer.config_resources]
    told = [one for one in told if not one[1].startswith("__")]
    assert (answer.error_code, len(told), set(told)) == (ErrorCode.none, len(found), found)
