"""Metadata v0 to v13: what is created on the way, refusals; the casebook has the rest."""

from __future__ import annotations

import pytest

from tests.support.handlers import Api, handlers
from txnsim.errors import ErrorCode


async def test_names_that_look_internal_are_created_as_any_other(api: Api) -> None:
    await api.ask("Metadata", 9, topics=[{"name": "__mine"}], allow_auto_topic_creation=True)
    assert not api.broker.image.topics["__mine"].is_internal


@pytest.mark.parametrize("name", ["__transaction_state", "__consumer_offsets"])
async def test_logs_of_coordinators_are_created_with_their_own_settings(
    api: Api, name: str
) -> None:
    await api.ask("Metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=True)
    assert api.broker.image.topics[name].is_internal
    assert api.broker.image.topics[name].configs["cleanup.policy"] == "compact"


async def test_nothing_is_created_where_the_setting_or_the_name_forbids_it(api: Api) -> None:
    async with handlers(auto_create_topics_enable=False) as other:
        await other.ask("Metadata", 9, topics=[{"name": "new"}], allow_auto_topic_creation=True)
        assert "new" not in other.broker.image.topics


async def test_a_topic_that_is_named_twice_is_answered_once(api: Api) -> None:
    assert len((await api.ask("Metadata", 5, topics=[{"name": "orders"}] * 2)).topics) == 1
    twice = [{"name": None, "topic_id": api.topic_id("orders")}] * 2
    assert len((await api.ask("Metadata", 12, topics=twice)).topics) == 1


async def test_internal_topics_are_marked(api: Api) -> None:
    await api.producer("id")
    answer = await api.ask("Metadata", 9, topics=[{"name": "__transaction_state"}])
    assert answer.topics[0].is_internal


@pytest.mark.parametrize("version", [1, 12, 13])
async def test_refusing_names_every_topic_and_nothing_of_the_cluster(
    api: Api, version: int
) -> None:
    error = ErrorCode.kafka_storage_error
    answer = api.refuse("Metadata", version, error, topics=[{"name": "orders"}, {"name": "b"}])
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("orders", error),
        ("b", error),
    ]
    assert answer.brokers == ()
