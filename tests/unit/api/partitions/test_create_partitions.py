"""CreatePartitions v0 to v3: total counts, dry runs, refusals, and that what is new works."""

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


async def test_a_dry_run_changes_nothing(api: Api) -> None:
    answer = await api.ask("CreatePartitions", 3, **grow(4, dry=True))
    assert answer.results[0].error_code is ErrorCode.none
    assert len(api.broker.image.topics["orders"].partitions) == 3


async def test_replicas_may_be_chosen(api_of_three: Api) -> None:
    chosen = [{"broker_ids": [2]}]
    answer = await api_of_three.ask("CreatePartitions", 3, **grow(4, assignments=chosen))
    factor = len(api_of_three.broker.image.topics["orders"].partitions[0].replicas)
    if factor == 1:
        assert answer.results[0].error_code is ErrorCode.none
        assert api_of_three.broker.image.topics["orders"].partitions[3].leader == 2
    else:
        assert answer.results[0].error_code is ErrorCode.invalid_replica_assignment


@pytest.mark.parametrize(
    ("values", "error"),
    [
        (grow(3), ErrorCode.invalid_partitions),
        (grow(9, "nope"), ErrorCode.unknown_topic_or_partition),
        (grow(4, assignments=[]), ErrorCode.invalid_replica_assignment),
    ],
)
async def test_refusals(api: Api, values: dict[str, Any], error: ErrorCode) -> None:
    (result,) = (await api.ask("CreatePartitions", 3, **values)).results
    assert result.error_code is error
    assert bool(result.error_message) == (error is not ErrorCode.unknown_topic_or_partition)


async def test_a_topic_that_is_named_twice_is_refused_first(api: Api) -> None:
    values = grow(4)
    values["topics"] = [*grow(9, "nope")["topics"], *grow(4)["topics"], *grow(5)["topics"]]
    answer = await api.ask("CreatePartitions", 3, **values)
    assert [(one.name, one.error_code) for one in answer.results] == [
        ("orders", ErrorCode.invalid_request),
        ("nope", ErrorCode.unknown_topic_or_partition),
    ]


async def test_refuse(api: Api) -> None:
    answer = api.refuse("CreatePartitions", 3, ErrorCode.not_controller, **grow(4))
    assert [one.error_code for one in answer.results] == [ErrorCode.not_controller]
