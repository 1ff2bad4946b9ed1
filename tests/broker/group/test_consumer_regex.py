"""Subscriptions by regular expression.

The rules of GroupMetadataManager.maybeUpdateRegularExpressions and handleRegularExpressionsResult.
A member whose expression has never been looked up is at the group's first epoch, with nothing.
"""

from __future__ import annotations

import pytest

from tests.support.consumer_groups import ConsumerDriver, image, parts
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.commands import ResolveRegexes
from txnsim.group.consumer_records import RegexDeleted
from txnsim.group.consumer_regex import REFRESH_MIN_MS, matching_topics, resolve
from txnsim.metadata.group_configs import GroupIntervals
from txnsim.wire.codec import at_once


@pytest.mark.parametrize("regex", ["(", "a{1000}{1000}"])
def test_an_expression_that_another_program_has_written_matches_nothing(regex: str) -> None:
    found = at_once(matching_topics([regex, "ord.*"], image=image(orders=1)))
    assert found == {regex: (), "ord.*": ("orders",)}


def lookups(driver: ConsumerDriver) -> list[tuple[str, ...]]:
    return [each.regexes for each in driver.effects if isinstance(each, ResolveRegexes)]


def test_an_expression_is_looked_up_after_the_heartbeat_and_raises_the_epoch() -> None:
    driver = ConsumerDriver(image(orders=1, other=1))
    reply = driver.told(driver.join("a", topic_regex="ord.*"))
    assert (reply.member_epoch, reply.assignment) == (1, ())
    assert lookups(driver) == [("ord.*",)]
    driver.look_up()
    assert driver.group.resolved["ord.*"].topics == {"orders"}
    told = driver.told(driver.join("a", topic_regex="ord.*"))
    assert frozenset(told.assignment or ()) == parts("orders", 0)
    assert driver.group.is_subscribed("orders")
    assert not driver.group.is_subscribed("other")


def test_what_was_looked_up_is_assigned_without_waiting_for_the_interval() -> None:
    driver = ConsumerDriver(image(orders=1))
    driver.intervals = GroupIntervals(45_000, 5_000, 1_000)
    driver.join("a", topic_regex="ord.*")
    assert driver.group.assigned_at_ms == 0  # a new group is assigned to its first epoch
    driver.look_up()
    told = driver.told(driver.join("a", topic_regex="ord.*"))
    assert frozenset(told.assignment or ()) == parts("orders", 0)


def test_an_expression_for_nothing_raises_no_epoch() -> None:
    driver = ConsumerDriver(image(other=1))
    driver.join("a", topic_regex="ord.*")
    driver.look_up()
    assert driver.group.resolved["ord.*"].topics == frozenset()
    assert driver.group.epoch == 1


def test_names_and_an_expression_add_up() -> None:
    driver = ConsumerDriver(image(orders=1, other=1))
    epoch = driver.told(driver.join("a", "other", topic_regex="ord.*")).member_epoch
    driver.look_up()
    told = driver.told(driver.beat("a", epoch))
    assert frozenset(told.assignment or ()) == parts("orders", 0) | parts("other", 0)


def test_an_expression_that_is_none_is_refused() -> None:
    driver = ConsumerDriver()
    refusal = driver.join("a", topic_regex="(")
    assert isinstance(refusal, Rejection)
    assert refusal.error is ErrorCode.invalid_regular_expression
    assert "SubscribedTopicRegex `(` is not a valid regular expression" in refusal.reason


def test_an_expression_that_is_known_already_counts_at_once() -> None:
    driver = ConsumerDriver(image(orders=2))
    driver.join("a", topic_regex="ord.*")
    driver.look_up()
    driver.join("a", topic_regex="ord.*")
    before = driver.group.epoch
    driver.join("b", topic_regex="ord.*")
    assert driver.group.epoch == before + 1
    assert lookups(driver) == []


def test_leaving_an_expression_deletes_it_with_its_last_user() -> None:
    driver = ConsumerDriver(image(orders=2))
    driver.join("a", topic_regex="ord.*")
    driver.look_up()
    epoch = driver.told(driver.join("a", topic_regex="ord.*")).member_epoch
    driver.beat("a", epoch, topic_regex="")
    assert driver.group.resolved == {}
    assert RegexDeleted(group_id="g", regex="ord.*") in driver.log
    driver.now_ms += REFRESH_MIN_MS + 1
    driver.beat("a", driver.group.members["a"].member_epoch, topic_regex="o.*")
    driver.look_up()
    assert list(driver.group.resolved) == ["o.*"]
    driver.beat("a", -1)
    assert driver.group.resolved == {}


def test_an_expression_of_two_members_outlives_one_of_them() -> None:
    driver = ConsumerDriver(image(orders=2))
    driver.join("a", topic_regex="ord.*")
    driver.look_up()
    driver.join("b", topic_regex="ord.*")
    driver.beat("a", -1)
    assert list(driver.group.resolved) == ["ord.*"]


def test_new_topics_are_looked_for_but_not_too_often() -> None:
    driver = ConsumerDriver(image(orders=1))
    driver.join("a", topic_regex="ord.*")
    driver.look_up()
    epoch = driver.told(driver.join("a", topic_regex="ord.*")).member_epoch
    driver.image = image(offset=2, orders=1, ordeals=1)
    driver.beat("a", epoch)
    assert lookups(driver) == []
    driver.now_ms += REFRESH_MIN_MS + 1
    driver.beat("a", epoch)
    driver.look_up()
    told = driver.told(driver.beat("a", driver.group.members["a"].member_epoch))
    assert len(told.assignment or ()) == 2
    driver.now_ms += REFRESH_MIN_MS + 1
    driver.beat("a", told.member_epoch)
    assert lookups(driver) == []
    driver.now_ms += 600_001
    driver.beat("a", told.member_epoch)
    assert lookups(driver) == [("ord.*",)]


def test_a_lookup_without_members_is_dropped_and_one_without_news_raises_nothing() -> None:
    driver = ConsumerDriver(image(orders=1))
    assert resolve(driver.group, {"x": ()}, image=driver.image, now_ms=1) == ()
    driver.join("a", topic_regex="ord.*")
    driver.look_up()
    again = resolve(driver.group, {"ord.*": ("orders",)}, image=driver.image, now_ms=2)
    assert [type(each).__name__ for each in again] == ["RegexStored"]


@pytest.mark.parametrize(
    ("regex", "told"),
    [
        ("(", "missing closing )"),
        ("[a", "missing closing ]"),
        ("*a", "missing argument to repetition operator"),
        ("[z-a]", "invalid character class range"),
    ],
)
def test_what_is_no_expression_is_refused_in_kafka_s_words(regex: str, told: str) -> None:
    refused = ConsumerDriver(image(orders=1)).join("a", topic_regex=regex)
    assert isinstance(refused, Rejection)
    assert refused.error is ErrorCode.invalid_regular_expression
    assert refused.reason == (
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {told}."
    )


def test_topics_that_the_member_may_not_describe_are_left_out() -> None:
    driver = ConsumerDriver(image(orders=1, ordinary=1))
    seen: list[str] = []

    def may_describe(name: str) -> bool:
        seen.append(name)
        return name == "ordinary"

    driver.join("a", topic_regex="ord.*", may_describe=may_describe)
    driver.look_up()
    assert sorted(seen) == ["orders", "ordinary"]
    assert driver.group.resolved["ord.*"].topics == {"ordinary"}
