"""What a file says of groups, and configs of one group: drawn, and asked of our code and of Kafka's
own classes alike.

``python -m tests.support.group_config_draws`` records ``group_config_draws.jsonl`` again (Java 17,
Maven). A question is settings of a server.properties and configs of a group; an answer is why the
broker does not start and why the configs are refused, each None where it is not so.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import java_classes, kafka_libs, tool
from txnsim.config import load
from txnsim.errors import ConfigError
from txnsim.metadata.config_keys import config_keys
from txnsim.metadata.group_configs import GROUP_CONFIGS, group_refusal
from txnsim.releases import LATEST_RULES
from txnsim.runtime.rng import RandomStreams
from txnsim.settings import Settings, documentation

Question = tuple[dict[str, str], dict[str, str]]
Answer = tuple[str | None, str | None]

_SOURCE: Final = Path(__file__).with_name("java") / "groups" / "GroupConfigJudge.java"
RECORDED: Final = Path(__file__).with_name("group_config_draws.jsonl")
RECORDED_DRAWS: Final = 400
_INT_MAX: Final = 2**31 - 1
_RECORDED_SETTINGS: Final = config_keys("broker", LATEST_RULES)
"""Settings of the reference, whose classes were asked; a newer release may have more."""
_DEFAULTS: Final[dict[str, str]] = {
    setting.kafka: str(getattr(Settings(), field_name))
    for field_name, setting in documentation().items()
    if setting.kafka is not None
    and setting.kafka in _RECORDED_SETTINGS
    and setting.kafka.startswith(("group.consumer.", "group.share.", "group.streams."))
}
_BOUNDARY_NUMBERS: Final = (0, 1, 2, 5, 10, 99, 100, 1_000, 2_000, 5_000, 15_000, 45_000, 60_000)
"""Numbers near the bounds of settings."""
_NO_NUMBERS: Final = (
    *("", " ", "x", "1.0", "1e3", "0x10", "1_000", "--1", "+", "-", "5 5", "null", "true", "1L"),
    *(str(_INT_MAX), str(_INT_MAX + 1), str(-_INT_MAX - 1), str(-_INT_MAX - 2), str(2**63)),
)
_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "share.auto.offset.reset": (
        *("earliest", "latest", "EARLIEST", "", " latest ", "none", "by_duration", "by_duration:"),
        *("by_duration:PT1H", "by_duration:-PT1H", "by_duration:P1D", "by_duration: PT1H"),
        *("by_duration:pt1h", "by_duration:PT0.1S", "by_duration:PT1H ", "BY_DURATION:PT1H"),
        *("by_duration:P1Y", "by_duration:PT99999999999999999999S", "by_duration:PT-0.5S"),
    ),
    "share.isolation.level": (
        *("read_committed", "read_uncommitted", "READ_COMMITTED", "", " read_committed "),
        *("committed", "read_committed,read_uncommitted"),
    ),
    "errors.deadletterqueue.topic.name": (
        *("", "d", "dlq.d", "__d", "_d", " __d", "__", "a b", "x" * 250, " "),
    ),
    "streams.assignor.name": ("sticky", "", "Sticky", " sticky ", "none"),
    "streams.rack.aware.assignment.tags": (
        *("", "a", "a,b", "a,a", " a , a ", ",", "a,,b", "a,", " ", "A,a", "a,b,"),
    ),
}
_TRUTHS: Final = ("true", "false", "TRUE", " true ", "", "yes", "1", "truth")


class _GroupConfigDraw:
    """Draws the question of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = RandomStreams(seed).stream("group-configs")

    def question(self) -> Question:
        random = self.random
        names = random.sample(sorted(_DEFAULTS), random.choice([0, 0, 1, 1, 2, 3]))
        numbers = [name for name in names if _DEFAULTS[name].isdecimal()]
        broker = {name: self._near(_DEFAULTS[name]) for name in numbers}
        if random.random() < 0.05:
            tags = "streams.rack.aware.assignment.tags"
            broker[f"group.{tags}"] = random.choice(_WORDS[tags])
        names = random.sample(sorted(GROUP_CONFIGS), random.choice([1, 1, 1, 2, 3]))
        group = {name: self._of_group(name) for name in names}
        if random.random() < 0.03:
            group[random.choice(["share.heartbeat.interval", "x", "group.share.max.size"])] = "1"
        return broker, group

    def _of_group(self, group_config_name: str) -> str:
        default_text = GROUP_CONFIGS[group_config_name].default_text
        allowed_values = _WORDS.get(group_config_name) or (
            _TRUTHS if default_text in ("true", "false") else ()
        )
        return self.random.choice(allowed_values) if allowed_values else self._near(default_text)

    def _near(self, default_text: str) -> str:
        random = self.random
        if random.random() < 0.12:
            return random.choice(_NO_NUMBERS)
        number = random.choice([int(default_text), *_BOUNDARY_NUMBERS]) + random.choice(
            [-1, 0, 0, 0, 1]
        )
        return random.choice(["{}", "{}", "{}", "{}", " {} ", "+{}"]).format(number)


def draw_questions(seeds: Iterable[int]) -> Iterator[Question]:
    return (_GroupConfigDraw(seed).question() for seed in seeds)


def our_answers(questions: Iterable[Question]) -> list[Answer]:
    """The answers of our code to the questions."""
    with tempfile.TemporaryDirectory() as folder_path:
        file = Path(folder_path) / "server.properties"
        return [_answer(broker, group, file) for broker, group in questions]


def _answer(broker: dict[str, str], group: dict[str, str], file: Path) -> Answer:
    file.write_text(
        "".join(f"{name}={config_value}\n" for name, config_value in broker.items()), "latin-1"
    )
    try:
        settings = load(file).settings
    except ConfigError as error:
        return str(error), None
    rejection = group_refusal("g", group, settings)
    return None, None if rejection is None else rejection.reason


def ask_kafka(questions: Sequence[Question]) -> list[Answer]:
    """The answers of Kafka's classes to the questions."""
    libs_directory = kafka_libs()
    class_directory = java_classes([_SOURCE], name="groups", libs_directory=libs_directory)
    process = subprocess.run(
        [
            tool("java", "GroupConfig needs it"),
            "-cp",
            f"{class_directory}:{libs_directory}/*",
            "GroupConfigJudge",
        ],
        input="".join(f"{json.dumps(question)}\n" for question in questions),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return [(answer[0], answer[1]) for answer in map(json.loads, process.stdout.splitlines())]


def recorded_answers() -> list[tuple[Question, Answer]]:
    """The recorded questions with the answers of Kafka's classes."""
    return [
        ((broker, group), (start, refusal))
        for broker, group, start, refusal in map(
            json.loads, RECORDED.read_text("utf-8").splitlines()
        )
    ]


def agree(ours: Answer, theirs: Answer) -> bool:
    """Whether two answers agree. The refusal of a group must be the same word for word. For a
    broker that does not start the words may differ, as ours name the line and every fault of the
    file.
    """
    return (ours[0] is None) == (theirs[0] is None) and (ours[0] is not None or ours == theirs)


if __name__ == "__main__":
    questions = list(draw_questions(range(RECORDED_DRAWS)))
    lines = (
        json.dumps([*question, *answer])
        for question, answer in zip(questions, ask_kafka(questions), strict=True)
    )
    RECORDED.write_text("".join(f"{line}\n" for line in lines), "utf-8")
