"""APPEND and SUBTRACT on configs that are lists, as Kafka's own controller does them."""

from __future__ import annotations

import pytest

from tests.support.list_config_draws import (
    RECORDED_DRAWS,
    draw_questions,
    our_answer,
    recorded_answers,
)
from txnsim.controller.controller import split_list


def test_drawn_operations_end_as_in_kafka() -> None:
    """The expected results are recorded from ConfigurationControlManager of 4.4.0."""
    book = recorded_answers()
    assert [question for question, _ in book] == list(draw_questions(range(RECORDED_DRAWS)))
    assert [page for page in book if our_answer(page[0]) != page[1]] == []


@pytest.mark.parametrize(
    ("operation", "operand", "config_value", "expected_value"),
    [
        ("APPEND", "delete,delete", "compact", "compact,delete"),
        ("APPEND", "compact", "compact,delete", "compact,delete"),
        ("SUBTRACT", "delete", "delete,compact,delete", "compact,delete"),
        ("SUBTRACT", "delete,delete", "delete,compact,delete", "compact"),
        ("APPEND", "", "compact", "compact,"),
        ("APPEND", "delete", None, "delete"),  # the default
    ],
)
def test_each_value_is_appended_once_and_the_first_is_subtracted(
    operation: str, operand: str, config_value: str | None, expected_value: str
) -> None:
    question = ("topic", "cleanup.policy", config_value, ((operation, operand),))
    assert our_answer(question) == (expected_value, None)


@pytest.mark.parametrize(
    ("list_text", "items"),
    [
        ("", [""]),
        ("a", ["a"]),
        ("a,,", ["a"]),
        (",", []),
        (",a", ["", "a"]),
        ("a,,b", ["a", "", "b"]),
    ],
)
def test_lists_are_split_as_java_does_it(list_text: str, items: list[str]) -> None:
    assert split_list(list_text) == items
