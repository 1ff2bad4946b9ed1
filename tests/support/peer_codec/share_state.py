"""Requests and responses about share partitions, which Kafka groups by topic within a group.

An answer does not name the group, so that of a read key is empty.
"""

from __future__ import annotations

from typing import Any

import msgspec

from txnsim.errors import ErrorCode
from txnsim.interbroker.share_state import ShareKey, StateBatch
from txnsim.types import uuid_from, uuid_text
from txnsim.wire import codec


class Rows(msgspec.Struct, frozen=True):
    """A tuple of commands, or of answers."""

    ours: Any
    message_class: str
    """Kafka's class of the message."""
    topic: str
    part: str
    topics: str = "topics"
    """The message's field that lists the topics."""

    def to_message(self, schema: Any, value: Any) -> Any:
        """The message, without fields that its version lacks."""
        by_topic: dict[str, list[Any]] = {}
        for struct in value:
            by_topic.setdefault(struct.key.topic_id, []).append(self._write_struct(schema, struct))
        topics = tuple(
            getattr(schema, self.topic)(topic_id=uuid_from(topic_id), partitions=tuple(parts))
            for topic_id, parts in by_topic.items()
        )
        group_fields = {"group_id": value[0].key.group_id} if self.topics == "topics" else {}
        return getattr(schema, self.message_class)(**group_fields, **{self.topics: topics})

    def from_message(self, message: Any) -> Any:
        """The commands or answers in a message."""
        group_id = getattr(message, "group_id", "")
        return tuple(
            self._read_struct(ShareKey(group_id, uuid_text(topic.topic_id), part.partition), part)
            for topic in getattr(message, self.topics)
            for part in topic.partitions
        )

    def _write_struct(self, schema: Any, struct: Any) -> Any:
        values: dict[str, Any] = {"partition": struct.key.partition}
        for field_name in struct.__struct_fields__[1:]:
            field_value = getattr(struct, field_name)
            match field_name:
                case "batches":
                    values["state_batches"] = tuple(
                        schema.StateBatch(**msgspec.structs.asdict(batch)) for batch in field_value
                    )
                case "error":
                    values["error_code"] = ErrorCode(field_value)
                case "message":
                    values["error_message"] = field_value
                case _:
                    values[field_name] = field_value
        return codec.build(getattr(schema, self.part), **values)

    def _read_struct(self, key: ShareKey, part: Any) -> Any:
        values: dict[str, Any] = {}
        for field_name in self.ours.__struct_fields__[1:]:
            match field_name:
                case "batches":
                    values[field_name] = tuple(
                        StateBatch(
                            *(batch.first_offset, batch.last_offset),
                            *(batch.delivery_state, batch.delivery_count),
                        )
                        for batch in part.state_batches
                    )
                case "error":
                    values[field_name] = part.error_code
                case "message":
                    values[field_name] = part.error_message
                case _ if hasattr(part, field_name):
                    values[field_name] = getattr(part, field_name)
        return self.ours(key=key, **values)


def request_and_response(name: str, command: Any, answer: Any) -> tuple[Rows, Rows]:
    """The codecs of request and response of an API such as ``Write``."""
    api, _, suffix = name.partition(" ")
    state = f"{api}State{suffix}"
    message_name = f"{api}ShareGroupState{suffix}"
    return (
        Rows(command, f"{message_name}Request", f"{state}Data", "PartitionData"),
        Rows(answer, f"{message_name}Response", f"{state}Result", "PartitionResult", "results"),
    )
