"""Names of topics are learned, and it is known which are not known."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

from txnsim_lab.proxy._topic_names import TopicNames

ID = UUID(int=7)


def topic(topic_id: UUID | None, name: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(topic_id=topic_id, name=name)


def test_a_name_is_known_once_it_was_learned() -> None:
    names = TopicNames()
    produce = SimpleNamespace(topic_data=[topic(ID)])
    fetch = SimpleNamespace(topics=[topic(ID)])
    assert names.unknown(produce)
    assert names.unknown(fetch)
    names.learn(SimpleNamespace(topics=[topic(ID, "orders"), topic(UUID(int=8), None)]))
    assert names.names == {ID: "orders"}
    assert not names.unknown(produce)
    assert not names.unknown(fetch)


def test_topics_that_are_named_need_no_names() -> None:
    names = TopicNames()
    named = SimpleNamespace(name="orders")
    assert not names.unknown(SimpleNamespace(topic_data=[named]))
    assert not names.unknown(SimpleNamespace(topics=None))
    assert not names.unknown(SimpleNamespace())
    names.learn(SimpleNamespace(topics=[named]))
    assert names.names == {}
