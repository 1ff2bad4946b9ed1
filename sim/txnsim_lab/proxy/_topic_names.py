"""Names of topics that requests identify by id (Produce and Fetch from version 13 on). They are
learned from Metadata answers. If a rule needs a name that is still unknown, the proxy asks the
cluster.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID


class TopicNames:
    """Topic id -> name, for known topics."""

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
        """Whether a Produce or Fetch has a topic id that is unknown."""
        topics = getattr(message, "topic_data", None) or getattr(message, "topics", None) or ()
        return any(
            topic_id is not None and topic_id not in self.names
            for topic_id in (getattr(topic, "topic_id", None) for topic in topics)
        )
