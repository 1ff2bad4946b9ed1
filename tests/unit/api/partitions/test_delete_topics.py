"""DeleteTopics v1 to v6: by name, by id, by both at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import NO_SUCH_ID, Api, handlers
from txnsim.errors import ErrorCode


def named(name: str) -> dict[str, Any]:
    return {"topic_names": [name], "topics": [{"name": name}]}


@pytest.mark.parametrize("version", range(1, 7))
async def test_every_version_deletes_by_name(api: Api, version: int) -> None:
    topic_id = api.topic_id("orders")
    (deleted,) = (await api.ask("DeleteTopics", version, **named("orders"))).responses
    assert (deleted.name, deleted.error_code) == ("orders", ErrorCode.none)
    assert "orders" not in api.broker.image.topics
    if version == 6:
        assert deleted.topic_id == topic_id
    (again,) = (await api.ask("DeleteTopics", version, **named("orders"))).responses
    assert again.error_code is ErrorCode.unknown_topic_or_partition
    if version >= 5:
        assert again.error_message == "This server does not host this topic-partition."


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (2, ErrorCode.invalid_request),
        (3, ErrorCode.topic_deletion_disabled),
        (6, ErrorCode.topic_deletion_disabled),
    ],
)
async def test_deletion_may_be_switched_off(version: int, error: ErrorCode) -> None:
    async with handlers(delete_topic_enable=False) as api:
        (kept,) = (await api.ask("DeleteTopics", version, **named("orders"))).responses
        assert kept.error_code is error
        assert getattr(kept, "error_message", None) is None
        assert "orders" in api.broker.image.topics


async def test_by_id(api: Api) -> None:
    wanted = {"name": None, "topic_id": api.topic_id("orders")}
    (deleted,) = (await api.ask("DeleteTopics", 6, topics=[wanted])).responses
    assert (deleted.name, deleted.error_code) == ("orders", ErrorCode.none)
    (again,) = (await api.ask("DeleteTopics", 6, topics=[wanted])).responses
    assert (again.name, again.error_code) == (None, ErrorCode.unknown_topic_id)
    assert again.error_message == "This server does not host this topic ID."


@pytest.mark.parametrize(
    ("topics", "words"),
    [
        ([{"name": "orders", "topic_id": NO_SUCH_ID}], "may not specify both"),
        ([{"name": None}], "Neither topic name nor id"),
        ([{"name": "orders"}, {"name": "orders"}], "Duplicate topic name."),
        ([{"name": None, "topic_id": NO_SUCH_ID}] * 2, "Duplicate topic id."),
    ],
)
async def test_what_is_not_clear_is_refused_once(
    api: Api, topics: list[dict[str, Any]], words: str
) -> None:
    (refused,) = (await api.ask("DeleteTopics", 6, topics=topics)).responses
    assert refused.error_code is ErrorCode.invalid_request
    assert words in refused.error_message
    assert "orders" in api.broker.image.topics


async def test_a_topic_by_name_and_by_id_stays(api: Api) -> None:
    topic_id = api.topic_id("orders")
    for topics in (
        [{"name": "orders"}, {"name": None, "topic_id": topic_id}],
        [{"name": None, "topic_id": topic_id}, {"name": "orders"}],
    ):
        (refused,) = (await api.ask("DeleteTopics", 6, topics=topics)).responses
        assert refused.error_code is ErrorCode.invalid_request
        assert "maps to an ID that was already supplied" in refused.error_message
        assert (refused.name, refused.topic_id) == ("orders", topic_id)
    assert "orders" in api.broker.image.topics


async def test_refusing_names_every_topic(api: Api) -> None:
    error = ErrorCode.request_timed_out
    old = api.refuse("DeleteTopics", 3, error, topic_names=["a", "b"])
    assert [(one.name, one.error_code) for one in old.responses] == [("a", error), ("b", error)]
    new = api.refuse("DeleteTopics", 6, error, topics=[{"name": None, "topic_id": NO_SUCH_ID}])
    assert (new.responses[0].topic_id, new.responses[0].error_code) == (NO_SUCH_ID, error)
