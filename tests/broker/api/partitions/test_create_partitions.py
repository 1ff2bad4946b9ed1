"""CreatePartitions v0 to v3: what is new works; refusals are in the transcripts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api, batch, fetch, produce
from txnsim.errors import ErrorCode


def grow(count: int, name: str = "orders", *, dry: bool = False, **more: Any) -> dict[str, Any]:
    topic = {"name": name, "count": count, "assignments": None, **more}
    return {"topics": [topic], "timeout": 1_000, "validate_only": dry}


@pytest.mark.parametrize("version", range(4))
async def test_every_version_grows_a_topic_that_can_be_used_at_once(api: Api, version: int) -> None:
    answer = await api.ask("CreatePartitions", version, **grow(4))
    (result,) = answer.results
    assert (result.name, result.error_code, result.error_message) == (
        "orders",
        ErrorCode.none,
        None,
    )
    written = await api.ask("Produce", 8, **produce("orders", batch(), partition=3))
    assert written.responses[0].partition_responses[0].error_code is ErrorCode.none
    read = await api.ask("Fetch", 12, **fetch("orders", partition=3))
    assert read.responses[0].partitions[0].records
