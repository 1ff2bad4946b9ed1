"""ConfigurationControlManager of Apache Kafka's jars and our code, asked the same."""

from __future__ import annotations

import pytest

from tests.support.list_config_draws import ask_kafka, draw_questions, our_answer

pytestmark = pytest.mark.real


def test_lists_change_as_the_class_of_the_jars_has_it() -> None:
    questions = list(draw_questions(range(1_000, 6_000)))
    theirs = ask_kafka(questions)
    complaints = [
        (question, our_answer(question), their_answer)
        for question, their_answer in zip(questions, theirs, strict=True)
        if our_answer(question) != their_answer
    ]
    assert complaints == []
    assert any(refusal is not None for _, refusal in theirs)
    assert len({config_value for config_value, _ in theirs}) > 100, "draws that differ"
