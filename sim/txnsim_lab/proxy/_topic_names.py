"""Names of topics that requests tell by id (Produce from version 13 on, Fetch from 13 on).

They are learned from every Metadata answer that passes, and asked for upstream where a rule wants
to know one that has not passed yet.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID


class TopicNames:
    """Id -> name, as far as it is known."""

    __slots__ = ("names",)

    def __init__(self) -> None:
        self.names: dict[UUID, str] = {}

    def learn(self, message: Any) -> None:
        """Take the topic names and ids from a Metadata answer."""
        for topic in message.topics:
            topic_id = getattr(topic, "topic_id", None)
            if topic_id is not None and topic.name:
                self.names[topic_id] = topic.name

    def has_unknown_topic(self, message: Any) -> bool:
        """Whether a Produce or Fetch names a topic by an id that is not known."""
        topics = getattr(message, "topic_data", None) or getattr(message, "topics", None) or ()
        return any(
            topic_id is not None and topic_id not in self.names
            for topic_id in (getattr(topic, "topic_id", None) for topic in topics)
        )
