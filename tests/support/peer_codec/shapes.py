"""The wire form of commands and replies, as data: our fields, and those of Kafka for them.

A ``Shape`` is declared once and works in both directions. Kafka groups partitions by topic, in
order of appearance, so that only grouped ones come back in the order in which they were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec

from txnsim.errors import ErrorCode
from txnsim.types import TopicPartition
from txnsim.wire import codec

UNNAMED: Final = ""
"""The topic's name where topics travel by id: the receiver knows the topic by its id."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_REQUIRED: Final = object()


class WireField(Protocol):
    """The translation of one field of our structs."""

    def write(self, schema: Any, value: Any, message: dict[str, Any]) -> None:
        """Write the value into the fields of a message."""

    def read(self, message: Any, topic: Any) -> Any:
        """Read the value from a message; ``topic`` is the topic that contains the
        message, if any.
        """


class Shape:
    """The translation between one of our structs and its message on the wire."""

    def __init__(
        self,
        ours: Any,
        theirs: str,
        *shared_names: str,
        says: Mapping[str, Any] = _NOTHING,
        **fields: WireField | str,
    ) -> None:
        """A shape.

        Args:
            ours: The struct; None for a tuple of the fields.
            theirs: Kafka's class, found in the schema of its API and version.
            shared_names: Fields that both call alike.
            says: Constant fields, which are written and never read.
            fields: The others, by our names; of a tuple in order.
        """
        self._ours = ours
        self._theirs = theirs
        self._says = says
        field_by_name = {**dict.fromkeys(shared_names), **fields}
        self._fields: dict[str, WireField] = {
            name: PlainField(field or name) if field is None or isinstance(field, str) else field
            for name, field in field_by_name.items()
        }

    def to_message(self, schema: Any, value: Any) -> Any:
        """The message in the schema's version, without values for which that version has
        no field.
        """
        message = dict(self._says)
        for index, (field_name, field) in enumerate(self._fields.items()):
            field.write(
                schema, value[index] if self._ours is None else getattr(value, field_name), message
            )
        return codec.build(getattr(schema, self._theirs), **message)

    def from_message(self, message: Any, topic: Any = None) -> Any:
        """The struct that a message stands for."""
        values = {name: field.read(message, topic) for name, field in self._fields.items()}
        return tuple(values.values()) if self._ours is None else self._ours(**values)


class PlainField(msgspec.Struct, frozen=True):
    """A field that corresponds to one field of Kafka's, copied or converted."""

    theirs: str
    to_wire: Callable[[Any], Any] | None = None
    from_wire: Callable[[Any], Any] | None = None
    default: Any = _REQUIRED
    """The value to read where the version has no such field."""

    def write(self, _schema: Any, value: Any, message: dict[str, Any]) -> None:
        """See ``WireField.write``."""
        message[self.theirs] = value if self.to_wire is None else self.to_wire(value)

    def read(self, message: Any, _topic: Any) -> Any:
        """See ``WireField.read``."""
        if self.default is _REQUIRED:
            field_value = getattr(message, self.theirs)
        else:
            field_value = getattr(message, self.theirs, self.default)
        return field_value if self.from_wire is None else self.from_wire(field_value)


class StructTuple(msgspec.Struct, frozen=True):
    """A field with a tuple of structs, written element by element."""

    theirs: str
    shape: Shape

    def write(self, schema: Any, value: Any, message: dict[str, Any]) -> None:
        """See ``WireField.write``."""
        message[self.theirs] = tuple([self.shape.to_message(schema, struct) for struct in value])

    def read(self, message: Any, _topic: Any) -> Any:
        """See ``WireField.read``."""
        return tuple([self.shape.from_message(entry) for entry in getattr(message, self.theirs)])


class OptionalTuple(msgspec.Struct, frozen=True):
    """An optional tuple that begins with a number. For None the message keeps its defaults."""

    theirs: str
    shape: Shape

    def write(self, schema: Any, value: Any, message: dict[str, Any]) -> None:
        """See ``WireField.write``."""
        if value is not None:
            message[self.theirs] = self.shape.to_message(schema, value)

    def read(self, message: Any, _topic: Any) -> Any:
        """See ``WireField.read``."""
        values = self.shape.from_message(getattr(message, self.theirs))
        return None if values[0] < 0 else values


class Index(msgspec.Struct, frozen=True):
    """The partition index of an element inside its topic."""

    theirs: str = "partition_index"

    def write(self, _schema: Any, value: TopicPartition, message: dict[str, Any]) -> None:
        """See ``WireField.write``."""
        message[self.theirs] = value.partition

    def read(self, message: Any, topic: Any) -> TopicPartition:
        """See ``WireField.read``."""
        return _partition(topic, getattr(message, self.theirs))


class TopicIdField(msgspec.Struct, frozen=True):
    """The id of the topic that contains an element."""

    def write(self, _schema: Any, value: Any, message: dict[str, Any]) -> None:
        """See ``WireField.write``; the enclosing topic already has the id."""

    def read(self, _message: Any, topic: Any) -> Any:
        """See ``WireField.read``."""
        return topic.topic_id


class TopicGrouping(msgspec.Struct, frozen=True):
    """A tuple of elements with partitions, which Kafka groups by topic."""

    theirs: str
    topic: str
    """Kafka's class of a topic."""
    shape: Shape | None = None
    """The shape of one element; None where an element is only a partition number."""
    partitions: str = "partitions"
    """The field of a topic that lists the partitions."""
    by_id: bool = False

    def write(self, schema: Any, value: Any, message: dict[str, Any]) -> None:
        """See ``WireField.write``."""
        key = "topic_id" if self.by_id else "name"
        topics: dict[Any, list[Any]] = {}
        for struct in value:
            topics.setdefault(self._topic_of(struct), []).append(self._entry(schema, struct))
        make = getattr(schema, self.topic)
        message[self.theirs] = tuple(
            [
                make(**{key: topic, self.partitions: tuple(entries)})
                for topic, entries in topics.items()
            ]
        )

    def read(self, message: Any, _topic: Any) -> Any:
        """See ``WireField.read``."""
        return tuple(
            [
                self._read_entry(entry, topic)
                for topic in getattr(message, self.theirs)
                for entry in getattr(topic, self.partitions)
            ]
        )

    def _topic_of(self, value: Any) -> Any:
        if self.by_id:
            return value[0] if self.shape is None else value.topic_id
        topic_partition: TopicPartition = value if self.shape is None else value[0]
        return topic_partition.topic

    def _entry(self, schema: Any, value: Any) -> Any:
        if self.shape is not None:
            return self.shape.to_message(schema, value)
        return (value[1] if self.by_id else value).partition

    def _read_entry(self, entry: Any, topic: Any) -> Any:
        if self.shape is not None:
            return self.shape.from_message(entry, topic)
        partition = _partition(topic, entry)
        return (topic.topic_id, partition) if self.by_id else partition


def _partition(topic: Any, partition_index: int) -> TopicPartition:
    return TopicPartition(getattr(topic, "name", UNNAMED), partition_index)


def error(theirs: str = "error_code") -> PlainField:
    """The field of an error code."""
    return PlainField(theirs, to_wire=ErrorCode, from_wire=int)
