"""Stories of Java's share consumer, told to a real Apache Kafka and to the simulator.

``python -m tests.clients.share.stories record [NAME...] [--times N]`` asks a real Kafka and adds
what it answers to ``NAME.tsv``; ``play [NAME...]`` asks txnsim and shows where it answers
otherwise; ``draw`` asks both with drawn stories. A line may have several answers: some hang on
which of two requests came first. So a story that differs is told again, twice at most.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.clients.share.drawing import draw_story
from tests.clients.share.programs import share_program
from tests.support.apache_kafka import ApacheKafka
from tests.support.txnsim_server import TxnsimServer

HERE: Final = Path(__file__).parent
THREADS: Final = 8
"""Stories at a time: they wait for most of theirs."""
TELLINGS: Final = 3
WITHIN_S: Final = 1_200.0
_EVERYWHERE: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "5000",
    "log.cleaner.backoff.ms": "500",
    "log.initial.task.delay.ms": "100",
    "offsets.topic.num.partitions": "4",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "4",
}


class Book(NamedTuple):
    """A file of stories, and the properties of the brokers that play them."""

    file: str
    properties: Mapping[str, str] = {}


BOOKS: Final[Mapping[str, Book]] = {
    "stories": Book("stories.txt"),
    "more": Book("more.txt"),
    "denied": Book(
        "denied.txt",
        {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        },
    ),
    "switched": Book("switched.txt"),
    "bounded": Book(
        "bounded.txt",
        {
            "group.share.delivery.count.limit": "3",
            "group.share.max.delivery.count.limit": "5",
            "group.share.max.heartbeat.interval.ms": "4000",
            "group.share.heartbeat.interval.ms": "3000",
            "group.share.min.heartbeat.interval.ms": "2000",
            "group.share.max.partition.max.record.locks": "2000",
            "group.share.partition.max.record.locks": "200",
            "group.share.min.partition.max.record.locks": "150",
            "group.share.max.record.lock.duration.ms": "30000",
            "group.share.min.record.lock.duration.ms": "2000",
            "group.share.record.lock.duration.ms": "2500",
            "group.share.max.session.timeout.ms": "12000",
            "group.share.min.session.timeout.ms": "10000",
            "group.share.session.timeout.ms": "11000",
            "group.share.min.assignment.interval.ms": "100",
            "group.share.max.size": "2",
        },
    ),
    "dead_letters": Book("dead_letters.txt"),
    "made_letters": Book(
        "dead_letters.txt",
        {
            "errors.deadletterqueue.auto.create.topics.enable": "true",
            "errors.deadletterqueue.topic.name.prefix": "",
        },
    ),
}

StoryAnswers = dict[str, list[tuple[str, str]]]
"""By story: each command and its answer."""
KafkaAnswers = dict[str, list[tuple[str, list[str]]]]
"""By story: each command and the answers that a real Kafka gave."""


def play_stories(bootstrap: str, stories_folder: Path) -> StoryAnswers:
    """The answers of a cluster to the stories of a file."""
    finished_process = subprocess.run(
        [*share_program("ShareStories"), bootstrap, str(stories_folder), str(THREADS)],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=True,
    )
    answers: StoryAnswers = {}
    for printed_line in finished_process.stdout.splitlines():
        story, command, answer_text = printed_line.split("\t", 2)
        answers.setdefault(story, []).append((command, answer_text))
    return dict(sorted(answers.items()))


def stored_answers(name: str) -> KafkaAnswers:
    """The stored answers of real brokers, by story."""
    answers_by_story: KafkaAnswers = {}
    path = HERE / f"{name}.tsv"
    for line in path.read_text().splitlines() if path.exists() else ():
        story, command, *answers = line.split("\t")
        answers_by_story.setdefault(story, []).append((command, answers))
    return answers_by_story


def store_answers(name: str, answers_now: StoryAnswers) -> None:
    """Add answers to those that are kept; a story whose commands have changed begins anew."""
    answers_by_story = stored_answers(name)
    lines = []
    for story, commands in answers_now.items():
        stored_commands = answers_by_story.get(story, [])
        if [command for command, _ in stored_commands] != [command for command, _ in commands]:
            stored_commands = [(command, []) for command, _ in commands]
        for (command, answer_text), (_, answers) in zip(commands, stored_commands, strict=True):
            lines.append("\t".join((story, command, *dict.fromkeys((*answers, answer_text)))))
    (HERE / f"{name}.tsv").write_text("\n".join(lines) + "\n")


def differences(answers_now: StoryAnswers, answers: KafkaAnswers) -> dict[str, list[str]]:
    """By story: the lines that a real Kafka never told."""
    by_story: dict[str, list[str]] = {}
    for story, stored_commands in answers.items():
        lines = [
            f"{command}\n  Kafka {' or '.join(expected)}\n  here  {answer_text}"
            for (command, expected), (_, answer_text) in zip(
                stored_commands, answers_now[story], strict=True
            )
            if answer_text not in expected
        ]
        if lines:
            by_story[story] = lines
    return by_story


@contextmanager
def txnsim(book: Book) -> Iterator[str]:
    """Start the simulator with the book's properties; its bootstrap address."""
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "server.properties"
        properties = {**_EVERYWHERE, **book.properties}
        config.write_text(
            "".join(
                f"{property_name}={property_value}\n"
                for property_name, property_value in properties.items()
            )
        )
        with TxnsimServer(
            brokers=1,
            launcher=(sys.executable, "-m", "txnsim"),
            arguments=("--config", str(config)),
        ) as server:
            yield server.bootstrap


def play(book_name: str, only: Sequence[str] = ()) -> dict[str, list[str]]:
    """Play the stories of a book on the simulator; the differences by story."""
    book = BOOKS[book_name]
    answers = {
        story: commands
        for story, commands in stored_answers(book_name).items()
        if not only or story in only
    }
    assert answers
    remaining_answers: dict[str, list[str]] = {story: [] for story in answers}
    for _ in range(TELLINGS):
        with txnsim(book) as bootstrap, tempfile.TemporaryDirectory() as directory:
            part_file = Path(directory) / "part.txt"
            part_file.write_text(
                "\n".join(
                    "\n".join((f"story {story}", *(command for command, _ in answers[story])))
                    for story in remaining_answers
                )
            )
            remaining_answers = differences(
                play_stories(bootstrap, part_file),
                {story: answers[story] for story in remaining_answers},
            )
        if not remaining_answers:
            break
    return remaining_answers


def record(book_name: str, repeat_count: int) -> None:
    """Play a book ``times`` times, each time on a fresh real broker, and store the answers."""
    book = BOOKS[book_name]
    for _ in range(repeat_count):
        with ApacheKafka(
            properties={**_EVERYWHERE, **book.properties}, jvm_options=("-Xmx700m",)
        ) as kafka:
            store_answers(book_name, play_stories(kafka.bootstrap, HERE / book.file))


def draw(seeds: Sequence[int]) -> dict[str, list[str]]:
    """Play drawn stories on a real broker and on ours; the differences by story."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "drawn.txt"
        file.write_text("\n".join(line for seed in seeds for line in draw_story(seed)))
        with ApacheKafka(properties=_EVERYWHERE, jvm_options=("-Xmx700m",)) as kafka:
            real_answers = play_stories(kafka.bootstrap, file)
        with txnsim(BOOKS["stories"]) as bootstrap:
            our_answers = play_stories(bootstrap, file)
    answers = {
        real_answer_name: [(command, [answer_text]) for command, answer_text in lines]
        for real_answer_name, lines in real_answers.items()
    }
    print(len(real_answers), "stories,", sum(map(len, real_answers.values())), "lines")
    return differences(our_answers, answers)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("record", "play", "draw"))
    parser.add_argument("names", nargs="*", default=list(BOOKS))
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--seeds", default="0..40", help="of drawn stories, FIRST..LAST")
    parser.add_argument("--only", action="append", default=[], help="a story")
    options = parser.parse_args()
    is_wrong = False
    if options.what == "draw":
        first_seed, last_seed = map(int, options.seeds.split(".."))
        for name, lines in draw(range(first_seed, last_seed)).items():
            is_wrong = True
            print(f"{name}:", *lines, sep="\n")
        return int(is_wrong)
    for name in options.names:
        if options.what == "record":
            record(name, options.times)
            continue
        for story, lines in play(name, options.only).items():
            is_wrong = True
            print(f"{name}, {story}:", *lines, sep="\n")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
