"""Describes an act of a run in a sentence, for readers of a shrunk run."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any, Final

from txnsim_lab.simulation.plan import StepBody

_CALL_SENTENCES: Final[Mapping[str, str]] = {
    "init-producer-id": "{who} asks for an identity",
    "begin": "{who} begins a transaction",
    "add-partitions": "{who} adds {partitions}",
    "add-offsets": "{who} adds group {group}",
    "produce": "{who} writes {value} to {partition}",
    "send": "{who} writes {value} to {partition}",
    "append": "{who} writes {value} to {partition}, outside of transactions",
    "await-ack": "{who} waits for what it has sent",
    "commit-offsets": "{who} commits positions",
    "commit": "{who} commits",
    "abort": "{who} aborts",
    "subscribe": "{who} subscribes to {topics}",
    "poll": "{who} polls",
    "acknowledge": "{who} acknowledges records as {as}",
    "configure-group": "{who} sets {name} of {group} to {value}",
    "die": "{who} dies",
    "leave": "{who} leaves its group",
    "stand-still": "{who} stands still",
    "read": "{who} reads {partition}",
    "read-positions": "{who} asks where {group} stands",
    "find-hanging": "{who} looks for hanging transactions",
    "abort-found": "{who} aborts what was found",
    "delete-records": "{who} deletes the records of {partition} before {before}",
    "fence": "{who} fences {transactional-id}",
    "update-feature": "{who} sets {name} to level {level}",
    "producers": "{who} asks who writes to {partition}",
}
_CLUSTER_SENTENCES: Final[Mapping[str, str]] = {
    "stop": "broker {broker} is stopped",
    "kill": "broker {broker} is killed",
    "start": "broker {broker} is started",
    "isolate": "broker {broker} is cut off from the other brokers",
    "heal": "broker {broker} is reached again",
    "move-leader": "broker {to} becomes the leader of {partition}",
    "reassign": "{partition} is given replicas {replicas}",
    "create-topic": "topic {topic} is made",
    "delete-topic": "topic {topic} is deleted",
    "grow-topic": "topic {topic} grows to {partitions} partitions",
    "roll": "a new segment of {partition} begins",
    "clean": "{partition} is cleaned",
    "delete-old": "what is old in {partition} is deleted",
}
_OTHER_SENTENCES: Final[Mapping[str, str]] = {
    "give-up": "{give-up} is not waited for any longer",
    "release": "{release} is released",
    "hold": "{api} is held at {point}",
    "arm": "{api} meets {action} at {point}",
    "observe": "{observe} is looked at",
    "ask": "a curious client asks for {api}",
}
_FILE_ONLY_FIELDS: Final = frozenset({"who", "do", "error", "background", "id"})
"""Fields that only a file needs."""


def sentence_of(step: StepBody) -> str:
    """The beginning of a sentence that describes an act; its remaining fields follow it."""
    ((step_kind, step_fields),) = step.items()
    text_by_field = (
        {field_name: _text_of(field_value) for field_name, field_value in step_fields.items()}
        if isinstance(step_fields, dict)
        else {}
    )
    text_by_field.setdefault(step_kind, _text_of(step_fields))
    act_name = text_by_field.get("do", "")
    if step_kind == "cluster" and "coordinator-of" in text_by_field:
        sentence_template = "broker {to} becomes the coordinator of {coordinator-of}"
    else:
        templates = {"call": _CALL_SENTENCES, "cluster": _CLUSTER_SENTENCES}.get(
            step_kind, _OTHER_SENTENCES
        )
        sentence_template = templates.get(
            act_name if step_kind in ("call", "cluster") else step_kind, ""
        )
    placeholders = [
        field_name for _, field_name, _, _ in Formatter().parse(sentence_template) if field_name
    ]
    if not sentence_template or not text_by_field.keys() >= set(placeholders):
        actor_name, placeholders = text_by_field.get("who", ""), []
        sentence_template = (
            f"{actor_name} {act_name or step_kind}".strip().replace("{", "{{").replace("}", "}}")
        )
    sentence = sentence_template.format_map(text_by_field)
    further_field_texts = [
        f"{field_name} {text_of_value}"
        for field_name, text_of_value in text_by_field.items()
        if field_name not in (*placeholders, step_kind) and field_name not in _FILE_ONLY_FIELDS
    ]
    return f"{sentence} ({', '.join(further_field_texts)})" if further_field_texts else sentence


def _text_of(field_value: Any) -> str:
    if isinstance(field_value, dict):
        return " ".join(map(_text_of, field_value.values()))
    if isinstance(field_value, list | tuple):
        return ", ".join(map(_text_of, field_value))
    return (
        {True: "yes", False: "no"}[field_value]
        if isinstance(field_value, bool)
        else str(field_value)
    )
