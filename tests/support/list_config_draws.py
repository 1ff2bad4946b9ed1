"""APPEND and SUBTRACT on configs that are lists: drawn, and asked of our code and of Kafka's own
ConfigurationControlManager alike.

``python -m tests.support.list_config_draws`` records ``list_config_draws.jsonl`` again (Java 17,
Maven). A question is the kind of a resource, the name of a config, its value or None, and
operations that are applied one after the other. An answer is the value at the end (None: none), and
the refusal (None: none).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import java_classes, kafka_libs, tool
from txnsim.controller.controller import ConfigEntryChange, ConfigOperation, changed_configs
from txnsim.errors import Rejection
from txnsim.metadata.config_keys import TOPIC_CONFIGS, ConfigKey
from txnsim.metadata.configs import broker_configs
from txnsim.releases import LATEST_RULES
from txnsim.runtime.rng import RandomStreams

Question = tuple[str, str, str | None, tuple[tuple[str, str], ...]]
Answer = tuple[str | None, str | None]

RECORDED: Final = Path(__file__).with_name("list_config_draws.jsonl")
RECORDED_DRAWS: Final = 400
_SOURCE: Final = Path(__file__).with_name("java") / "listconfigs" / "ListConfigJudge.java"
_CONFIGS: Final = (
    *[("topic", "cleanup.policy")] * 3,
    ("topic", "leader.replication.throttled.replicas"),
    ("topic", "retention.ms"),
    ("topic", "compression.type"),
    ("broker", "log.cleanup.policy"),
    ("group", "streams.rack.aware.assignment.tags"),
    ("group", "share.isolation.level"),
)
_ITEMS: Final = ("compact", "delete", "delete", "a", "", "", " delete", "0:1", "delete ")
_KEYS: Final[Mapping[str, Mapping[str, ConfigKey]]] = {
    "topic": TOPIC_CONFIGS,
    "broker": broker_configs(LATEST_RULES),
    "group": {},
}
"""Schemas as handlers pass them. The controller has none for the configs of groups."""


class _ListConfigDraw:
    """Draws the question of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = RandomStreams(seed).stream("list-configs")

    def question(self) -> Question:
        random = self._random
        config_kind, name = random.choice(_CONFIGS)
        config_value = None if random.random() < 0.3 else self._list()
        operations = [
            (random.choice(["APPEND", "APPEND", "SUBTRACT"]), self._list())
            for _ in range(random.choice([1, 1, 2, 3]))
        ]
        return config_kind, name, config_value, tuple(operations)

    def _list(self) -> str:
        operands = self._random.choices(_ITEMS, k=self._random.choice([1, 1, 2, 2, 3, 4]))
        return ",".join(operands)


def draw_questions(seeds: Iterable[int]) -> Iterator[Question]:
    return (_ListConfigDraw(seed).question() for seed in seeds)


def our_answer(question: Question) -> Answer:
    """The answer of our code to a question."""
    config_kind, name, config_value, operations = question
    current = {} if config_value is None else {name: config_value}
    for operation, operand in operations:
        change = ConfigEntryChange(name=name, operation=ConfigOperation[operation], value=operand)
        result = changed_configs(current, (change,), _KEYS[config_kind])
        if isinstance(result, Rejection):
            return None, result.reason
        current = result
    return current.get(name), None


def ask_kafka(questions: Sequence[Question]) -> list[Answer]:
    """The answers of Kafka's class to the questions."""
    libs_directory = kafka_libs()
    class_directory = java_classes([_SOURCE], name="listconfigs", libs_directory=libs_directory)
    program = "org.apache.kafka.controller.ListConfigJudge"
    process = subprocess.run(
        [
            tool("java", "the controller needs it"),
            "-cp",
            f"{class_directory}:{libs_directory}/*",
            program,
        ],
        input="".join(f"{json.dumps(question)}\n" for question in questions),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return [
        (config_value, refusal)
        for config_value, refusal in map(json.loads, process.stdout.splitlines())
    ]


def recorded_answers() -> list[tuple[Question, Answer]]:
    """The recorded questions with the answers of Kafka's class."""
    lines = map(json.loads, RECORDED.read_text("utf-8").splitlines())
    return [
        (
            (config_kind, name, config_value, tuple((op, operand) for op, operand in operations)),
            (final_value, refusal),
        )
        for config_kind, name, config_value, operations, final_value, refusal in lines
    ]


if __name__ == "__main__":
    questions = list(draw_questions(range(RECORDED_DRAWS)))
    rows = (
        json.dumps([*question, *answer])
        for question, answer in zip(questions, ask_kafka(questions), strict=True)
    )
    RECORDED.write_text("".join(f"{row}\n" for row in rows), "utf-8")
