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
from tests.support.told import Told
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
        state, found = self.seed, []
        for _ in range(self.length):
            state = (state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
            found.append(state >> 33)
        return found


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
@given(chance=CHANCES, cut=st.integers(0, 400))
def test_nor_is_any_beginning_of_it(chance: Chance, cut: int) -> None:
    history = HealthyCluster(chance.numbers()).run()
    assert str(judge(history.until(cut))) == "healthy"


def test_healthy_histories_are_not_empty_talk() -> None:
    """What the random ones contain, on the whole: else they would prove nothing."""
    kinds: set[str] = set()
    outcomes: set[tuple[type[Seen], Outcome]] = set()

    @settings(max_examples=60, database=None, derandomize=True)
    @given(chance=CHANCES)
    def gather(chance: Chance) -> None:
        for seen in HealthyCluster(chance.numbers()).run():
            kinds.add(type(seen).__name__)
            outcomes.add((type(seen), getattr(seen, "outcome", Outcome.OK)))

    gather()
    assert kinds == {
        *["Added", "Began", "Cleaned", "Deleted", "Described", "Ended", "Initialised", "Listed"],
        *["PositionsRead", "Producers", "Read", "SentOffsets", "Wrote"],
    }
    assert {(Ended, outcome) for outcome in Outcome} <= outcomes
    assert {(Wrote, Outcome.OK), (Wrote, Outcome.UNKNOWN)} <= outcomes


# Lies


def told(*, commit: bool) -> list[Seen]:
    """A transaction of two records in a topic of its own, and a reader that has read it all."""
    told = Told(LATER_MS)
    told.initialised("z", "z", producer_id=99)
    told.began("Z", "z", "z")
    for partition in (0, 1):
        where = {"topic": "z", "partition": partition}
        whose = {"producer_id": 99, "producer_epoch": 0, "sequence": 0}
        told.wrote("Z", f"z{partition}", 0, who="z", item=f"item {partition}", **where, **whose)
    told.sent("Z", 5, who="z", group="z")
    (told.committed if commit else told.aborted)("Z", "z")
    for partition in (0, 1):
        records: dict[int, str | None] = {0: f"z{partition}"} if commit else {}
        told.read(0, records, 2, who="last", topic="z", partition=partition)
    return list(told.history)


def read_of(seen: list[Seen], partition: int) -> tuple[int, Read]:
    return next(
        (index, one)
        for index, one in enumerate(seen)
        if isinstance(one, Read) and one.partition == partition
    )


def without_a_record(seen: list[Seen]) -> None:
    index, read = read_of(seen, 1)
    seen[index] = msgspec.structs.replace(read, records=())


def without_any_record(seen: list[Seen]) -> None:
    without_a_record(seen)
    index, read = read_of(seen, 0)
    seen[index] = msgspec.structs.replace(read, records=())


def with_an_aborted_record(seen: list[Seen]) -> None:
    index, read = read_of(seen, 0)
    seen[index] = msgspec.structs.replace(read, records=(Record(offset=0, value="z0"),))


def with_a_record_twice(seen: list[Seen]) -> None:
    index, read = read_of(seen, 0)
    records = (*read.records, Record(offset=1, value="z0"))
    seen[index] = msgspec.structs.replace(read, records=records)


def with_a_lower_stable_offset(seen: list[Seen]) -> None:
    _, read = read_of(seen, 0)
    seen.append(msgspec.structs.replace(read, asked=2, records=(), last_stable_offset=1))


def with_positions_of_an_abort(seen: list[Seen]) -> None:
    position = Position(topic="in", partition=0, offset=5)
    seen.append(PositionsRead(at_ms=LATER_MS + 9_000, who="y", group="z", positions=(position,)))


def with_a_ghost(seen: list[Seen]) -> None:
    open_there = Producers(
        at_ms=LATER_MS + 9_000,
        who="o",
        topic="z",
        partition=0,
        producers=(ProducerSeen(producer_id=99, producer_epoch=0, start_offset=2),),
    )
    seen.append(open_there)
    seen.append(
        Described(
            at_ms=LATER_MS + 10_000,
            who="o",
            transactional_id="z",
            state="CompleteCommit",
            producer_id=99,
        )
    )
    seen.append(open_there)
    _, read = read_of(seen, 0)
    seen.append(
        msgspec.structs.replace(read, asked=2, records=(), last_stable_offset=2, high_watermark=4)
    )


def with_a_decision_that_lasts(seen: list[Seen]) -> None:
    for at_ms in (LATER_MS + 10_000, LATER_MS + 110_000):
        seen.append(
            Described(
                at_ms=at_ms,
                who="o",
                transactional_id="z",
                state="PrepareCommit",
                producer_id=99,
                timeout_ms=60_000,
            )
        )


def with_an_end_that_was_not_its_own(seen: list[Seen]) -> None:
    index = next(index for index, one in enumerate(seen) if isinstance(one, Ended))
    end = seen[index]
    assert isinstance(end, Ended)
    seen[index] = msgspec.structs.replace(
        end, outcome=Outcome.FAILED, error="INVALID_TXN_STATE", commit=True
    )


def with_a_record_that_was_overtaken(seen: list[Seen]) -> None:
    index = next(index for index, one in enumerate(seen) if isinstance(one, Wrote))
    first = seen[index]
    assert isinstance(first, Wrote)
    seen.insert(index, msgspec.structs.replace(first, value="z9", item=None, offset=1, sequence=-1))
    index, read = read_of(seen, 0)
    records = (*read.records, Record(offset=1, value="z9"))
    seen[index] = msgspec.structs.replace(read, records=records)


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


@pytest.mark.parametrize(("lie", "commit", "kinds"), LIES, ids=[lie[0].__name__ for lie in LIES])
@settings(max_examples=10)
@given(chance=CHANCES)
def test_one_lie_always_convicts(
    chance: Chance, *, lie: Callable[[list[Seen]], None], commit: bool, kinds: set[str]
) -> None:
    cluster = HealthyCluster(chance.numbers())
    cluster.run()
    cluster.settle()
    truth = told(commit=commit)
    assert str(judge(History([*cluster.history, *truth]))) == "healthy"
    lie(truth)
    assert set(judge(History([*cluster.history, *truth])).kinds) == kinds
