"""The laws of the exam, each broken once."""

from __future__ import annotations

import pytest

from txnsim_lab.exam._ledger import Ledger, Told


def ledger(told: Told) -> Ledger:
    """One transaction with two values and a position."""
    made = Ledger([])
    made.begin("a", "b", group="g", position=3).told = told
    return made


def misses(told: Told, committed: list[str], position: int) -> list[str]:
    """What the ledger says."""
    return list(ledger(told).misses(committed, {"g": position}))


@pytest.mark.parametrize(
    ("told", "committed", "position"),
    [
        (Told.COMMITTED, ["a", "b"], 3),
        (Told.ABORTED, [], -1),
        (Told.UNKNOWN, ["b", "a"], 3),
        (Told.UNKNOWN, [], -1),
    ],
)
def test_what_agrees_is_no_miss(told: Told, committed: list[str], position: int) -> None:
    assert misses(told, committed, position) == []


@pytest.mark.parametrize(
    ("told", "committed", "position", "said"),
    [
        (Told.COMMITTED, ["a"], 3, 'the library says "committed", but readers do not get b'),
        (
            Told.ABORTED,
            ["a", "b"],
            3,
            'the library says "aborted" or was never asked to commit, but readers get a, b',
        ),
        (Told.UNKNOWN, ["a"], -1, "half of a transaction is committed: a without b"),
        (Told.COMMITTED, ["a", "b", "b"], 3, "b is in the log 2 times"),
        (Told.COMMITTED, ["a", "b", "c"], 3, "c is in the log, and was never sent"),
        (
            Told.UNKNOWN,
            ["a", "b"],
            -1,
            "the position of group g is -1; by its transactions it has to be 3",
        ),
    ],
)
def test_a_broken_law_is_named(told: Told, committed: list[str], position: int, said: str) -> None:
    assert misses(told, committed, position) == [said]


def test_positions_are_those_of_the_last_transaction_that_counts() -> None:
    made = ledger(Told.COMMITTED)
    made.begin("c", group="g", position=5).told = Told.ABORTED
    assert list(made.misses(["a", "b"], {"g": 3})) == []
