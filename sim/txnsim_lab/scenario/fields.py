"""Parses values of a scenario file: durations, partitions, fault rules, bytes, and values that
differ between runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Final

import msgspec
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from txnsim.faults.rule import FaultRule
from txnsim.settings import Settings
from txnsim.text import read_ms
from txnsim.types import TopicPartition
from txnsim.value_errors import convert_value
from txnsim_lab.check.observations import Position
from txnsim_lab.scenario._notation.internal_partitions import (
    by_name,
    partition_text,
    with_partition_number,
)

DURATION_DAYS_MAX: Final = 366
DURATION_MS_MAX: Final = DURATION_DAYS_MAX * 86_400_000


class Model(BaseModel):
    """Base of all parts of a file: names have hyphens, unknown fields are errors, values are
    immutable.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=False,
        arbitrary_types_allowed=True,
    )

    former_names: ClassVar[Mapping[str, str]] = {}
    """Former name of a field, which files may still use -> its present name."""

    @model_validator(mode="before")
    @classmethod
    def _other_spellings(cls, value: Any) -> Any:
        """Accept ``transactional_id`` for ``transactional-id``, since fault rules are written with
        underscores.
        """
        if not isinstance(value, dict):
            return value
        field_names = {field.alias or name for name, field in cls.model_fields.items()}
        fields: dict[Any, Any] = {}
        for name, field_value in value.items():
            hyphened = name.replace("_", "-") if isinstance(name, str) else name
            field = cls.former_names.get(name, hyphened if hyphened in field_names else name)
            if field in fields:
                raise ValueError(f"{field} is given twice")
            fields[field] = field_value
        return fields


ChangeValue = Callable[[Model | None, str, Any], Any]
"""(part of a step, its field, a single value in it) -> the value to put in its place."""


def map_values(
    value: Any, change: ChangeValue, model: Model | None = None, field_name: str = ""
) -> Any:
    """Apply a change to each single value in a step, or in a part of it, including the keys of
    mappings; returns the same object if nothing changes.
    """
    if isinstance(value, Model):
        changed_fields = {}
        for inner_name in value.model_fields_set:
            old_value = getattr(value, inner_name)
            new_value = map_values(old_value, change, value, inner_name)
            if new_value is not old_value:
                changed_fields[inner_name] = new_value
        return value.model_copy(update=changed_fields) if changed_fields else value
    if type(value) is tuple:
        new_values = tuple(
            map_values(inner_value, change, model, field_name) for inner_value in value
        )
        return (
            value
            if all(
                new_element is old_element
                for new_element, old_element in zip(new_values, value, strict=True)
            )
            else new_values
        )
    if isinstance(value, dict):
        new_mapping = {
            map_values(key, change, model, field_name): inner_value
            for key, inner_value in value.items()
        }
        return (
            value
            if all(
                new_element is old_element
                for new_element, old_element in zip(new_mapping, value, strict=True)
            )
            else new_mapping
        )
    return change(model, field_name, value)


def with_numbers(value: Any, settings: Settings) -> Any:
    def change(_model: Model | None, _field: str, value: Any) -> Any:
        return (
            with_partition_number(value, settings) if isinstance(value, TopicPartition) else value
        )

    return map_values(value, change)


def duration_ms(value: Any) -> Any:
    """Parse ``21m``, ``500ms`` or ``-10s`` into milliseconds."""
    if not isinstance(value, str):
        raise ValueError("expected a duration such as 500ms, 30s, 21m, 2h or 7d")
    milliseconds = read_ms(value)
    if abs(milliseconds) > DURATION_MS_MAX:
        raise ValueError(f"{value} is more than {DURATION_DAYS_MAX}d, the longest duration")
    return milliseconds


def partition(value: Any) -> Any:
    """Parse ``t-0`` into a partition."""
    if not isinstance(value, str):
        raise ValueError("expected a partition such as orders-0")
    internal_partition = by_name(value)
    if internal_partition is not None:
        return internal_partition
    topic, hyphen, index = value.rpartition("-")
    if not (topic and hyphen and index.isdigit()):
        raise ValueError(f"{value!r} is no partition such as orders-0")
    return TopicPartition(topic, int(index))


def offsets(value: Any) -> Any:
    """Parse ``{t-0: 10}`` into offsets by partition."""
    return _by_partition(value, "offsets, such as {orders-0: 10}")


def values_of(value: Any) -> Any:
    """Parse ``{t-1: r2}`` into values by partition."""
    return _by_partition(value, "values, such as {orders-1: second}")


def _by_partition(value: Any, value_kind: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"expected partitions with {value_kind}")
    return {partition(name): of_partition for name, of_partition in value.items()}


def _by_partition_name(value: dict[TopicPartition, Any]) -> dict[str, Any]:
    return {
        partition_text(topic_partition): of_partition
        for topic_partition, of_partition in value.items()
    }


def fault_rule(value: Any) -> Any:
    """Complete the fields of a fault rule: its action is ``hold`` unless given."""
    if not isinstance(value, dict):
        raise ValueError("expected the fields of a fault rule")
    return convert_value({"action": {"do": "hold"}, **_with_underscores(value)}, FaultRule)


def _with_underscores(value: Any) -> Any:
    """Replace hyphens in field names by underscores, at every depth: fault rules have
    no hyphens.
    """
    if isinstance(value, dict):
        return {_with_underscore(name): _with_underscores(inner) for name, inner in value.items()}
    return [_with_underscores(inner) for inner in value] if isinstance(value, list) else value


def _with_underscore(name: Any) -> Any:
    return name.replace("-", "_") if isinstance(name, str) else name


def content(value: Any) -> Any:
    """Parse the bytes of a key: text, or ``{hex: "0000"}`` for bytes that are no text."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and set(value) == {"hex"} and isinstance(value["hex"], str):
        return bytes.fromhex(value["hex"])
    raise ValueError('expected text, or bytes such as {hex: "00000001"}')


def as_tuple(value: Any) -> Any:
    """A single value as a tuple, where a file may have one or several."""
    return (value,) if isinstance(value, str | int) else value


def groups(value: Any) -> Any:
    """Parse ``only`` into a tuple of groups of words."""
    if isinstance(value, list | tuple) and any(isinstance(word, list | tuple) for word in value):
        return tuple(as_tuple(word) for word in value)
    word_group = as_tuple(value)
    return (word_group,) if word_group else ()


def _shown_content(content_bytes: bytes) -> str | dict[str, str]:
    return (
        content_bytes.decode()
        if content_bytes.isascii() and content_bytes.decode().isprintable()
        else {"hex": content_bytes.hex()}
    )


FAULT_RULE_TITLE: Final = "FaultRule"
"""Placeholder in a JSON Schema for the schema of fault rules (``scenario.json_schema``)."""

# Behind each reader, what an editor is shown: the form that people write.
_DURATION_SCHEMA: Final = {
    "type": "string",
    "pattern": r"^-?[0-9]+(ms|s|m|h|d)$",
    "examples": ["30s"],
}
_PARTITION_SCHEMA: Final = {
    "type": "string",
    "pattern": "^(.+-[0-9]+|__(transaction_state|consumer_offsets)@.+)$",
    "examples": ["orders-0", "__transaction_state@shop", "__consumer_offsets@billing"],
}
_RECORD_SCHEMA: Final = {
    "type": "string",
    "pattern": "^.+-[0-9]+@[0-9]+$",
    "examples": ["orders-0@5"],
}
_NAME_SCHEMA: Final = {"type": ["string", "integer"]}


def _one_or_several(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "array", "items": schema}]}


Milliseconds = Annotated[
    int,
    BeforeValidator(duration_ms),
    PlainSerializer(lambda ms: None if ms is None else f"{ms}ms", when_used="json"),
    WithJsonSchema(_DURATION_SCHEMA, mode="validation"),
]
Partition = Annotated[
    TopicPartition,
    BeforeValidator(partition),
    PlainSerializer(partition_text, when_used="json"),
    WithJsonSchema(_PARTITION_SCHEMA, mode="validation"),
]
Offsets = Annotated[
    dict[TopicPartition, int],
    BeforeValidator(offsets),
    PlainSerializer(_by_partition_name, when_used="json"),
    WithJsonSchema(
        {"type": "object", "additionalProperties": {"type": "integer"}}, mode="validation"
    ),
]
ValuesOf = Annotated[
    dict[TopicPartition, str],
    BeforeValidator(values_of),
    PlainSerializer(_by_partition_name, when_used="json"),
    WithJsonSchema(
        {"type": "object", "additionalProperties": {"type": "string"}}, mode="validation"
    ),
]
FaultRuleField = Annotated[
    FaultRule,
    BeforeValidator(fault_rule),
    PlainSerializer(msgspec.to_builtins, when_used="json"),
    WithJsonSchema({"title": FAULT_RULE_TITLE}, mode="validation"),
]
RecordContent = Annotated[
    bytes,
    BeforeValidator(content),
    PlainSerializer(_shown_content, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"hex": {"type": "string"}},
                    "required": ["hex"],
                    "additionalProperties": False,
                },
            ]
        },
        mode="validation",
    ),
]
Names = Annotated[
    tuple[str, ...], BeforeValidator(as_tuple), WithJsonSchema(_one_or_several(_NAME_SCHEMA))
]
Partitions = Annotated[
    tuple[Partition, ...],
    BeforeValidator(as_tuple),
    WithJsonSchema(_one_or_several(_PARTITION_SCHEMA)),
]


class RecordAt(Model):
    """A record's partition and offset, written as ``in-0@5``."""

    partition: Partition
    offset: int = Field(ge=0)

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        partition_name, separator, offset = (
            value.rpartition("@") if isinstance(value, str) else ("", "", "")
        )
        if not separator or not offset.isdigit():
            raise ValueError("expected a record such as orders-0@5")
        return {"partition": partition_name, "offset": int(offset)}

    @model_serializer
    def _serialize(self) -> str:
        return f"{partition_text(self.partition)}@{self.offset}"

    @property
    def position(self) -> Position:
        """The position in the form that histories use."""
        topic_partition = self.partition
        return Position(
            topic=topic_partition.topic, partition=topic_partition.partition, offset=self.offset
        )


Inputs = Annotated[
    tuple[RecordAt, ...], BeforeValidator(as_tuple), WithJsonSchema(_one_or_several(_RECORD_SCHEMA))
]
Only = Annotated[
    tuple[Names, ...],
    BeforeValidator(groups),
    PlainSerializer(lambda value: value[0] if len(value) == 1 else value, when_used="json"),
    WithJsonSchema(_one_or_several(_NAME_SCHEMA)),
]
"""Groups of words; a run is meant if it has a word of each group (``Scenario.meant_for``)."""
ByRun = str | dict[str, str | dict[str, str]]
"""An expected value: the same for all runs, or by run, mode or take, with ``else`` for the others.
A mapping in the mapping selects by two words.
"""
OffsetByRun = int | dict[str, int | dict[str, int]]
Values = tuple[str | None, ...]
ValuesByRun = Values | dict[str, Values | dict[str, Values]]
ELSE_KEY: Final = "else"
HARMLESS_TAKES: Final = ("disarmed", "control")
"""Takes without the fault: the values that are expected of an armed run do not apply."""


class RunSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies the run that is played; ``only`` and expectations by run are looked up with it."""

    run: str
    mode: str
    take: str
    """``armed``, ``disarmed`` or ``control``."""
    program: bool = False
    """Whether a program plays the producer from start to end, without stopping at steps."""

    @property
    def words(self) -> tuple[str, ...]:
        """All words that select this run, the most specific first."""
        player = "program" if self.program else "step-by-step"
        if self.take == "armed":
            return (self.run, self.mode, self.take, player)
        return (self.take, self.run, self.mode, player)


def by_run(
    value_by_word: Mapping[str, Any],
    run_selection: RunSelection,
    *,
    is_take_selected: bool | None = None,
) -> Any:
    """Looks up the expected value for a run: the value of the first of the run's words that the
    file has. For a disarmed or control take, only values count that the file gives for these takes.
    None if the file says nothing.

    Args:
        value_by_word: Expected values by word; a mapping as a value selects by a second word.
        run_selection: The run.
        is_take_selected: Whether an outer word already selected the take; None at the
            outermost level.
    """
    takes_allowed = (
        is_take_selected
        if is_take_selected is not None
        else run_selection.take not in HARMLESS_TAKES
    )
    for word in (*run_selection.words, ELSE_KEY):
        if word not in value_by_word:
            continue
        is_allowed, expected_value = takes_allowed or word in HARMLESS_TAKES, value_by_word[word]
        if isinstance(expected_value, dict):
            expected_value = by_run(expected_value, run_selection, is_take_selected=is_allowed)
        elif not is_allowed:
            expected_value = None
        if expected_value is not None:
            return expected_value
    return None


def expected_values(values: ValuesByRun | None, run_selection: RunSelection) -> Any:
    """The values that a run expects to read; None if any are accepted."""
    return by_run(values, run_selection) if isinstance(values, dict) else values
