from __future__ import annotations

from collections.abc import Sequence

from txnsim.types import TopicPartition
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import Began, Ended, Read, Record, Seen, Wrote
from txnsim_lab.scenario.teaching.outside_facts import (
    OUTSIDE_FACTS,
    is_outside_fact,
    judge_topic,
    places_of_facts,
    seen_fact,
)

T1, T2 = "order-1 by shop 1", "order-1 by shop 2"


def transaction_of_one(record_value: str, offset: int, *, is_answered: bool = True) -> list[Seen]:
    """A transaction with one record of order-1."""
    common_fields = {"at_ms": offset, "who": record_value}
    observations: list[Seen] = [
        Began(transaction=record_value, transactional_id="shop", **common_fields),
        Wrote(
            transaction=record_value,
            topic="t",
            partition=0,
            value=record_value,
            item="order-1",
            **common_fields,
        ),
    ]
    return (
        [*observations, Ended(transaction=record_value, commit=True, **common_fields)]
        if is_answered
        else observations
    )


def read_of(*values: str, topic: str = "t") -> Read:
    """A reading of the whole partition by one reader from the start."""
    records = tuple(Record(offset=2 * n, value=value) for n, value in enumerate(values))
    end = 2 * len(values)
    return Read(
        at_ms=9, who="onlooker", topic=topic, partition=0, asked=0, records=records, next_offset=end
    )


def seen_facts(*observations: Seen) -> dict[str, str]:
    history = History(observations)
    return {name: seen_fact(history, f"{name} t-0") for name in OUTSIDE_FACTS}


def test_a_program_that_repeats_its_work_is_told_by_the_judges() -> None:
    repeated_observations: Sequence[Seen] = (
        *transaction_of_one(T1, 0, is_answered=False),
        *transaction_of_one(T2, 2),
    )
    assert seen_facts(*repeated_observations, read_of(T1, T2)) == {
        "verdict": "duplicate",
        "reads": "order-1, order-1",
        "unanswered": "1",
    }


def test_once_is_healthy() -> None:
    fact_by_name = seen_facts(*transaction_of_one(T1, 0), read_of(T1))
    assert fact_by_name == {"verdict": "healthy", "reads": "order-1", "unanswered": "0"}
    read_twice = seen_facts(*transaction_of_one(T1, 0), read_of(T1), read_of(T1))
    assert read_twice["reads"] == "order-1"


def test_what_was_not_noted_is_read_by_its_value_and_nothing_is_said_so() -> None:
    assert seen_facts(read_of("a"))["reads"] == "a"
    assert seen_facts(read_of()) == {"verdict": "healthy", "reads": "nothing", "unanswered": "0"}


def test_another_topic_is_judged_apart() -> None:
    observations = (
        *transaction_of_one(T1, 0, is_answered=False),
        *transaction_of_one(T2, 2),
        read_of(T1, T2),
    )
    assert judge_topic(History(observations), "t").kinds == ("duplicate",)
    assert judge_topic(History((*observations, read_of(topic="u"))), "u").kinds == ()


def test_the_words_of_such_a_fact_name_a_partition() -> None:
    assert is_outside_fact("reads my-topic-0")
    assert not is_outside_fact("reads my-topic")
    assert not is_outside_fact("lso t-0")
    assert places_of_facts(["reads b-1", "lso a-0", "verdict b-1"]) == [TopicPartition("b", 1)]
