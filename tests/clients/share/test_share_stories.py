"""Java's share consumer sees of the simulator what it sees of a real Apache Kafka 4.4.0."""

from __future__ import annotations

import pytest

from tests.clients.share.kills import Event, judge
from tests.clients.share.stories import BOOKS, HERE, differences, play, stored_answers


@pytest.mark.real
@pytest.mark.parametrize("name", BOOKS)
def test_a_share_consumer_is_told_what_a_real_kafka_tells(name: str) -> None:
    assert play(name) == {}


def test_each_book_has_answers() -> None:
    for book_name, book in BOOKS.items():
        answers = stored_answers(book_name)
        file_text = (HERE / book.file).read_text()
        stories = {
            part.split("\n")[0]: [
                line.strip()
                for line in part.split("\n")[1:]
                if line.strip() and not line.startswith("#")
            ]
            for part in file_text.split("story ")[1:]
        }
        assert {
            story: [command for command, _ in commands] for story, commands in answers.items()
        } == {story: stories[story] for story in answers}
        assert len(answers) == len(stories)


def test_a_line_that_kafka_never_told_is_found() -> None:
    answers = {"one": [("poll a", ["nothing", "t-0[0x1]"]), ("commit a", ["{}"])]}
    assert differences({"one": [("poll a", "t-0[0x1]"), ("commit a", "{}")]}, answers) == {}
    assert list(differences({"one": [("poll a", "x"), ("commit a", "{}")]}, answers)) == ["one"]


# The judge of kills


def events_of(*lines: str) -> list[Event]:
    """Events as ``LIBRARY WHAT PARTITION OFFSET``, one after the other."""
    return [
        Event(at_ns, library_name, kind, int(partition), int(offset))
        for at_ns, (library_name, kind, partition, offset) in enumerate(
            line.split() for line in lines
        )
    ]


DELIVERIES = ("java got 0 0", "librdkafka got 0 1", "franz-go got 0 2")
ACCEPTANCES = ("java acked 0 0", "librdkafka acked 0 1", "franz-go acked 0 2")
PRODUCED = {(0, 0), (0, 1), (0, 2)}


def test_all_accepted_once_is_good() -> None:
    assert judge(PRODUCED, events_of(*DELIVERIES, *ACCEPTANCES)).is_good


def test_again_before_it_was_taken_is_good() -> None:
    verdict = judge(PRODUCED, events_of(*DELIVERIES, "java got 0 1", *ACCEPTANCES))
    assert verdict.is_good
    assert verdict.again == 1


def test_again_after_it_was_taken_is_without_leave() -> None:
    verdict = judge(PRODUCED, events_of(*DELIVERIES, *ACCEPTANCES, "java got 0 1"))
    assert verdict.without_leave == [(0, 1)]
    assert not verdict.is_good


def test_what_nobody_accepted_is_lost() -> None:
    verdict = judge(PRODUCED, events_of(*DELIVERIES, *ACCEPTANCES[:2]))
    assert verdict.lost == [(0, 2)]
    assert not verdict.is_good


def test_a_library_without_work_makes_no_proof() -> None:
    assert not judge({(0, 0)}, events_of("java got 0 0", "java acked 0 0")).is_good
