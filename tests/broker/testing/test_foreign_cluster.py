"""Tests on a cluster that somebody else has started; here another simulator plays it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from txnsim.errors import ConfigError
from txnsim.testing import SimulatedKafka
from txnsim.testing._foreign_cluster import SIMULATED_ONLY, ForeignKafka, check
from txnsim.testing.event_loop import LoopThread
from txnsim.testing.options import wanted


@pytest.fixture(scope="module")
def other() -> Iterator[SimulatedKafka]:
    with SimulatedKafka(topics=["taken"]) as kafka:
        yield kafka


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.stop()


def test_topics_are_made_before_and_deleted_after(
    other: SimulatedKafka, thread: LoopThread
) -> None:
    with ForeignKafka.at(other.bootstrap, wanted(topics={"mine": 2}), thread) as kafka:
        kafka.topics.create("more")
        assert {"mine", "more", "taken"} <= set(kafka.topics.names())
        kafka.assert_exactly_once([], "mine")
        kafka.assert_no_hanging_transactions()
        assert kafka.topics.offsets("mine", 1).high_watermark == 0
    assert set(other.topics.names()) == {"taken"}


def test_a_topic_that_is_there_is_left_alone(other: SimulatedKafka, thread: LoopThread) -> None:
    foreign = ForeignKafka.at(other.bootstrap, wanted(topics=["taken"]), thread)
    with pytest.raises(ConfigError, match="choose another name, or delete what is there"):
        foreign.start()
    assert "taken" in other.topics.names()


@pytest.mark.parametrize("name", SIMULATED_ONLY)
def test_what_only_a_simulator_has_skips_with_the_reason(
    name: str, other: SimulatedKafka, thread: LoopThread
) -> None:
    with (
        ForeignKafka.at(other.bootstrap, wanted(), thread) as kafka,
        pytest.raises(pytest.skip.Exception, match=r"which only a simulated cluster has"),
    ):
        call(getattr(kafka, name))


def call(reached: Callable[[], object]) -> None:
    """What is a method is skipped when it is called, anything else when it is looked at."""
    reached()


def test_what_is_not_there_at_all_is_an_error(other: SimulatedKafka, thread: LoopThread) -> None:
    with ForeignKafka.at(other.bootstrap, wanted(), thread) as kafka, pytest.raises(AttributeError):
        _ = kafka.fault


def test_a_wait_in_vain_fails_and_does_not_skip(other: SimulatedKafka, thread: LoopThread) -> None:
    with (
        ForeignKafka.at(other.bootstrap, wanted(), thread) as kafka,
        pytest.raises(TimeoutError, match="nobody is not Ongoing within 10 ms"),
    ):
        kafka.transactions.wait_for_state("nobody", "Ongoing", timeout_ms=10)


def test_an_address_where_nobody_is_is_named(thread: LoopThread) -> None:
    with pytest.raises(ConfigError, match=r"--txnsim-bootstrap 127\.0\.0\.1:1"):
        ForeignKafka.at("127.0.0.1:1", wanted(), thread).start()


def test_a_marker_that_asks_for_what_can_not_be_given_skips() -> None:
    check({"topics": ["orders"], "faults_may_miss": True})
    with pytest.raises(pytest.skip.Exception, match=r"needs brokers=1, as_version='3.6'"):
        check({"brokers": 1, "as_version": "3.6"})
