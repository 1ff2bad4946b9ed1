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

from tests.clients.share.drawing import drawn
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
    """Stories, and the brokers that they are told to."""

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

Told = dict[str, list[tuple[str, str]]]
"""By story: each command and its answer."""
Answers = dict[str, list[tuple[str, list[str]]]]
"""By story: each command and the answers that a real Kafka gave."""


def told(bootstrap: str, stories: Path) -> Told:
    """What a cluster answers."""
    done = subprocess.run(
        [*share_program("ShareStories"), bootstrap, str(stories), str(THREADS)],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=True,
    )
    found: Told = {}
    for line in done.stdout.splitlines():
        story, command, answer = line.split("\t", 2)
        found.setdefault(story, []).append((command, answer))
    return dict(sorted(found.items()))


def kept(name: str) -> Answers:
    """What a real Kafka answered."""
    found: Answers = {}
    path = HERE / f"{name}.tsv"
    for line in path.read_text().splitlines() if path.exists() else ():
        story, command, *answers = line.split("\t")
        found.setdefault(story, []).append((command, answers))
    return found


def keep(name: str, told_now: Told) -> None:
    """Add answers to those that are kept; a story whose commands have changed begins anew."""
    before = kept(name)
    lines = []
    for story, answered in told_now.items():
        known = before.get(story, [])
        if [command for command, _ in known] != [command for command, _ in answered]:
            known = [(command, []) for command, _ in answered]
        for (command, answer), (_, answers) in zip(answered, known, strict=True):
            lines.append("\t".join((story, command, *dict.fromkeys((*answers, answer)))))
    (HERE / f"{name}.tsv").write_text("\n".join(lines) + "\n")


def differences(told_now: Told, answers: Answers) -> dict[str, list[str]]:
    """By story: the lines that a real Kafka never told."""
    found: dict[str, list[str]] = {}
    for story, known in answers.items():
        lines = [
            f"{command}\n  Kafka {' or '.join(wanted)}\n  here  {answer}"
            for (command, wanted), (_, answer) in zip(known, told_now[story], strict=True)
            if answer not in wanted
        ]
        if lines:
            found[story] = lines
    return found


@contextmanager
def txnsim(book: Book) -> Iterator[str]:
    """The simulator's address."""
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "server.properties"
        properties = {**_EVERYWHERE, **book.properties}
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        with TxnsimServer(
            brokers=1,
            launcher=(sys.executable, "-m", "txnsim"),
            arguments=("--config", str(config)),
        ) as server:
            yield server.bootstrap


def play(name: str, only: Sequence[str] = ()) -> dict[str, list[str]]:
    """Tell the stories of a book to the simulator: where it answers otherwise, by story."""
    book = BOOKS[name]
    answers = {story: known for story, known in kept(name).items() if not only or story in only}
    assert answers
    left: dict[str, list[str]] = {story: [] for story in answers}
    for _ in range(TELLINGS):
        with txnsim(book) as bootstrap, tempfile.TemporaryDirectory() as directory:
            part = Path(directory) / "part.txt"
            part.write_text(
                "\n".join(
                    "\n".join((f"story {story}", *(command for command, _ in answers[story])))
                    for story in left
                )
            )
            left = differences(told(bootstrap, part), {story: answers[story] for story in left})
        if not left:
            break
    return left


def record(name: str, times: int) -> None:
    """Ask a real Kafka, each time a fresh one."""
    book = BOOKS[name]
    for _ in range(times):
        with ApacheKafka(
            properties={**_EVERYWHERE, **book.properties}, jvm_options=("-Xmx700m",)
        ) as kafka:
            keep(name, told(kafka.bootstrap, HERE / book.file))


def draw(seeds: Sequence[int]) -> dict[str, list[str]]:
    """Tell drawn stories to both; where they answer otherwise."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "drawn.txt"
        file.write_text("\n".join(line for seed in seeds for line in drawn(seed)))
        with ApacheKafka(properties=_EVERYWHERE, jvm_options=("-Xmx700m",)) as kafka:
            real = told(kafka.bootstrap, file)
        with txnsim(BOOKS["stories"]) as bootstrap:
            ours = told(bootstrap, file)
    answers = {
        name: [(command, [answer]) for command, answer in lines] for name, lines in real.items()
    }
    print(len(real), "stories,", sum(map(len, real.values())), "lines")
    return differences(ours, answers)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("record", "play", "draw"))
    parser.add_argument("names", nargs="*", default=list(BOOKS))
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--seeds", default="0..40", help="of drawn stories, FIRST..LAST")
    parser.add_argument("--only", action="append", default=[], help="a story")
    given = parser.parse_args()
    is_wrong = False
    if given.what == "draw":
        first, last = map(int, given.seeds.split(".."))
        for name, lines in draw(range(first, last)).items():
            is_wrong = True
            print(f"{name}:", *lines, sep="\n")
        return int(is_wrong)
    for name in given.names:
        if given.what == "record":
            record(name, given.times)
            continue
        for story, lines in play(name, given.only).items():
            is_wrong = True
            print(f"{name}, {story}:", *lines, sep="\n")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
