"""The class of Apache Kafka's jars and our share partition, asked the same."""

from __future__ import annotations

import pytest

from tests.support.share_walks import ask_kafka, play_walks

pytestmark = pytest.mark.real


def test_a_share_partition_answers_as_the_class_of_the_jars() -> None:
    ours = play_walks(range(1_000, 1_500))
    theirs = ask_kafka([line for line, _ in ours])
    for (line, answer_text), their_answer in zip(ours, theirs, strict=True):
        assert answer_text == their_answer, line
