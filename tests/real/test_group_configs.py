"""GroupConfig and KafkaConfig of Apache Kafka's jars and our code, asked the same."""

from __future__ import annotations

import pytest

from tests.support.group_config_draws import agree, ask_kafka, draw_questions, our_answers

pytestmark = pytest.mark.real


def test_configs_of_groups_are_judged_as_the_classes_of_the_jars_do() -> None:
    questions = list(draw_questions(range(1_000, 5_000)))
    theirs = ask_kafka(questions)
    complaints = [
        (question, our_answer, their_answer)
        for question, our_answer, their_answer in zip(
            questions, our_answers(questions), theirs, strict=True
        )
        if not agree(our_answer, their_answer)
    ]
    assert complaints == []
    assert any(start is not None for start, _ in theirs)
    assert any(refused is not None for _, refused in theirs)
