"""Configs of groups and a broker's settings for them, as Kafka's own classes judge them."""

from __future__ import annotations

from tests.support.group_config_draws import (
    RECORDED_DRAWS,
    agree,
    draw_questions,
    our_answers,
    recorded_answers,
)
from txnsim.metadata.group_configs import (
    dead_letter_configs,
    group_refusal,
    share_isolation,
    share_reset,
    share_settings,
)
from txnsim.settings import Settings
from txnsim.types import IsolationLevel


def test_drawn_configs_are_judged_as_in_kafka() -> None:
    book = recorded_answers()
    assert [question for question, _ in book] == list(draw_questions(range(RECORDED_DRAWS)))
    answers = our_answers([question for question, _ in book])
    misjudged_configs = [
        question
        for question, answer in zip(book, answers, strict=True)
        if not agree(answer, question[1])
    ]
    assert misjudged_configs == []


def test_blanks_around_a_word_count_for_nothing() -> None:
    own_configs = {
        "share.isolation.level": " read_committed ",
        "share.auto.offset.reset": " earliest ",
        "share.renew.acknowledge.enable": " FALSE ",
        "errors.deadletterqueue.topic.name": " dlq.d ",
        "errors.deadletterqueue.copy.record.enable": " true ",
    }
    assert group_refusal("g", own_configs, Settings()) is None
    assert share_isolation(own_configs) is IsolationLevel.READ_COMMITTED
    assert share_reset(own_configs, 0) == share_reset({"share.auto.offset.reset": "earliest"}, 0)
    assert not share_settings(own_configs, Settings()).is_renew_enabled
    assert share_settings(own_configs, Settings()).has_dead_letter_topic
    assert dead_letter_configs(own_configs) == ("dlq.d", True)
    assert dead_letter_configs(None) == ("", False)
