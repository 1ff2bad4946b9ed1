"""Random histories: those of a tiny healthy cluster never convict, and one lie in any of them
always does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.checkers.healthy_cluster import HealthyCluster
from tests.support.hand_made_histories import HistoryBuilder
from txnsim_lab.check.history import History
from txnsim_lab.check.judge import judge
from txnsim_lab.check.observations import (
    Described,
    Ended,
    Outcome,
    Position,
    PositionsRead,
    Producers,
    ProducerSeen,
    Read,
    Record,
    Seen,
    Wrote,
)


class Chance(NamedTuple):
    """Numbers without any order, from a seed: Hypothesis alone likes small and equal ones."""

    seed: int
    length: int

    def numbers(self) -> list[int]:
        state, numbers = self.seed, []
        for _ in range(self.length):
            state = (state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
            numbers.append(state >> 33)
        return numbers


CHANCES: Final = st.builds(Chance, st.integers(0, 2**64 - 1), st.integers(10, 400))
LATER_MS: Final = 10_000_000
"""After everything that a healthy history tells."""


@pytest.mark.slow
@settings(max_examples=100)
@given(chance=CHANCES)
def test_a_healthy_history_is_never_convicted(chance: Chance) -> None:
    cluster = HealthyCluster(chance.numbers())
    assert str(judge(cluster.run())) == "healthy"
    cluster.settle()
    verdict = judge(cluster.history)
    assert str(verdict) == "healthy", verdict.anomalies


@settings(max_examples=100)
@given(chance=CHANCES, length=st.integers(0, 400))
def test_nor_is_any_beginning_of_it(chance: Chance, length: int) -> None:
    history = HealthyCluster(chance.numbers()).run()
    assert str(judge(history.until(length))) == "healthy"


def test_healthy_histories_are_not_empty_talk() -> None:
    """The random histories must contain enough events; otherwise they would prove nothing."""
    kinds: set[str] = set()
    outcomes: set[tuple[type[Seen], Outcome]] = set()

    @settings(max_examples=60, database=None, derandomize=True)
    @given(chance=CHANCES)
    def gather(chance: Chance) -> None:
        for observation in HealthyCluster(chance.numbers()).run():
            kinds.add(type(observation).__name__)
            outcomes.add((type(observation), getattr(observation, "outcome", Outcome.OK)))

    gather()
    assert kinds == {
        *["Added", "Began", "Cleaned", "Deleted", "Described", "Ended", "Initialised", "Listed"],
        *["PositionsRead", "Producers", "Read", "SentOffsets", "Wrote"],
    }
    assert {(Ended, outcome) for outcome in Outcome} <= outcomes
    assert {(Wrote, Outcome.OK), (Wrote, Outcome.UNKNOWN)} <= outcomes


# Lies


def history_of_two_records(*, is_commit: bool) -> list[Seen]:
    """A transaction of two records in a topic of its own, and a reader that has read it all."""
    story = HistoryBuilder(LATER_MS)
    story.initialise("z", "z", producer_id=99)
    story.begin("Z", "z", "z")
    for partition in (0, 1):
        place_fields = {"topic": "z", "partition": partition}
        producer_fields = {"producer_id": 99, "producer_epoch": 0, "sequence": 0}
        story.write(
            "Z",
            f"z{partition}",
            0,
            client_name="z",
            item=f"item {partition}",
            **place_fields,
            **producer_fields,
        )
    story.send_offsets("Z", 5, client_name="z", group="z")
    (story.commit if is_commit else story.abort)("Z", "z")
    for partition in (0, 1):
        records: dict[int, str | None] = {0: f"z{partition}"} if is_commit else {}
        story.read(0, records, 2, client_name="last", topic="z", partition=partition)
    return list(story.history)


def read_of(observations: list[Seen], partition: int) -> tuple[int, Read]:
    return next(
        (index, line)
        for index, line in enumerate(observations)
        if isinstance(line, Read) and line.partition == partition
    )


def without_a_record(observations: list[Seen]) -> None:
    index, read = read_of(observations, 1)
    observations[index] = msgspec.structs.replace(read, records=())


def without_any_record(observations: list[Seen]) -> None:
    without_a_record(observations)
    index, read = read_of(observations, 0)
    observations[index] = msgspec.structs.replace(read, records=())


def with_an_aborted_record(observations: list[Seen]) -> None:
    index, read = read_of(observations, 0)
    observations[index] = msgspec.structs.replace(read, records=(Record(offset=0, value="z0"),))


def with_a_record_twice(observations: list[Seen]) -> None:
    index, read = read_of(observations, 0)
    records = (*read.records, Record(offset=1, value="z0"))
    observations[index] = msgspec.structs.replace(read, records=records)


def with_a_lower_stable_offset(observations: list[Seen]) -> None:
    _, read = read_of(observations, 0)
    observations.append(msgspec.structs.replace(read, asked=2, records=(), last_stable_offset=1))


def with_positions_of_an_abort(observations: list[Seen]) -> None:
    position = Position(topic="in", partition=0, offset=5)
    observations.append(
        PositionsRead(at_ms=LATER_MS + 9_000, who="y", group="z", positions=(position,))
    )


def with_a_ghost(observations: list[Seen]) -> None:
    open_producers = Producers(
        at_ms=LATER_MS + 9_000,
        who="o",
        topic="z",
        partition=0,
        producers=(ProducerSeen(producer_id=99, producer_epoch=0, start_offset=2),),
    )
    observations.append(open_producers)
    observations.append(
        Described(
            at_ms=LATER_MS + 10_000,
            who="o",
            transactional_id="z",
            state="CompleteCommit",
            producer_id=99,
        )
    )
    observations.append(open_producers)
    _, read = read_of(observations, 0)
    observations.append(
        msgspec.structs.replace(read, asked=2, records=(), last_stable_offset=2, high_watermark=4)
    )


def with_a_decision_that_lasts(observations: list[Seen]) -> None:
    for at_ms in (LATER_MS + 10_000, LATER_MS + 110_000):
        observations.append(
            Described(
                at_ms=at_ms,
                who="o",
                transactional_id="z",
                state="PrepareCommit",
                producer_id=99,
                timeout_ms=60_000,
            )
        )


def with_an_end_that_was_not_its_own(observations: list[Seen]) -> None:
    index = next(index for index, line in enumerate(observations) if isinstance(line, Ended))
    end = observations[index]
    assert isinstance(end, Ended)
    observations[index] = msgspec.structs.replace(
        end, outcome=Outcome.FAILED, error="INVALID_TXN_STATE", commit=True
    )


def with_a_record_that_was_overtaken(observations: list[Seen]) -> None:
    index = next(index for index, line in enumerate(observations) if isinstance(line, Wrote))
    first_wrote = observations[index]
    assert isinstance(first_wrote, Wrote)
    observations.insert(
        index, msgspec.structs.replace(first_wrote, value="z9", item=None, offset=1, sequence=-1)
    )
    index, read = read_of(observations, 0)
    records = (*read.records, Record(offset=1, value="z9"))
    observations[index] = msgspec.structs.replace(read, records=records)


LIES: Final[tuple[tuple[Callable[[list[Seen]], None], bool, set[str]], ...]] = (
    (without_a_record, True, {"lost-write", "torn-transaction"}),
    (without_any_record, True, {"lost-commit"}),
    (with_an_aborted_record, False, {"aborted-read", "torn-transaction"}),
    (with_a_record_twice, True, {"duplicate"}),
    (with_a_lower_stable_offset, True, {"reader-went-back"}),
    (with_positions_of_an_abort, False, {"positions-before-decision"}),
    (with_a_ghost, True, {"stuck-last-stable-offset"}),
    (with_a_decision_that_lasts, True, {"stuck-coordinator"}),
    (with_an_end_that_was_not_its_own, False, {"false-fencing"}),
    (with_a_record_that_was_overtaken, True, {"out-of-order"}),
)


@pytest.mark.parametrize(("lie", "is_commit", "kinds"), LIES, ids=[lie[0].__name__ for lie in LIES])
@settings(max_examples=10)
@given(chance=CHANCES)
def test_one_lie_always_convicts(
    chance: Chance, *, lie: Callable[[list[Seen]], None], is_commit: bool, kinds: set[str]
) -> None:
    cluster = HealthyCluster(chance.numbers())
    cluster.run()
    cluster.settle()
    truth = history_of_two_records(is_commit=is_commit)
    assert str(judge(History([*cluster.history, *truth]))) == "healthy"
    lie(truth)
    assert set(judge(History([*cluster.history, *truth])).kinds) == kinds
