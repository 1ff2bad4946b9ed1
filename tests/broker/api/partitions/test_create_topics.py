"""CreateTopics v2 to v7: defaults of the settings, a refusal; the casebook has the rest."""

from __future__ import annotations

from typing import Any

from tests.support.handlers import Api, handlers
from txnsim.errors import ErrorCode


def topic(name: str = "new", **changes: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": 2, "replication_factor": 1, **changes}


async def test_defaults_come_from_the_settings() -> None:
    async with handlers(brokers=3, num_partitions=4, default_replication_factor=2) as api:
        wanted = topic(num_partitions=-1, replication_factor=-1)
        (made,) = (await api.ask("CreateTopics", 7, topics=[wanted])).topics
        assert (made.num_partitions, made.replication_factor) == (4, 2)


async def test_refusing_names_every_topic(api: Api) -> None:
    error = ErrorCode.request_timed_out
    answer = api.refuse("CreateTopics", 7, error, topics=[topic("a"), topic("b")])
    assert [(one.name, one.error_code) for one in answer.topics] == [("a", error), ("b", error)]
