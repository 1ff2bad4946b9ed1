"""The judge of the kills can say no."""

from __future__ import annotations

from collections import Counter

from tests.clients.streams.ledger import Ledger


def _fed(**words: int) -> Ledger:
    ledger = Ledger()
    for word, count in words.items():
        for _ in range(count):
            ledger.feed(word)
    return ledger


def test_counts_without_gap_or_repetition_are_exact() -> None:
    ledger = _fed(one=2, two=1)
    ledger.see("one", 1, "0 at 0")
    ledger.see("two", 1, "1 at 0")
    assert ledger.missing() == Counter(one=1)
    ledger.see("one", 2, "0 at 1")
    assert not ledger.missing()
    assert ledger.problems == ()
    assert ledger.fed == 3


def test_a_count_that_comes_twice_is_told() -> None:
    ledger = _fed(one=3)
    for count in (1, 2, 2, 3):
        ledger.see("one", count, "0 at 7")
    assert ledger.problems == ("0 at 7: one is 2 again, after 2",)


def test_a_count_that_is_left_out_is_told() -> None:
    ledger = _fed(one=3)
    for count in (1, 3):
        ledger.see("one", count, "0 at 7")
    assert ledger.problems == ("0 at 7: one is 3, but 2 is missing",)


def test_more_counts_than_inputs_are_told() -> None:
    ledger = _fed(one=1)
    ledger.see("one", 1, "0 at 0")
    ledger.see("one", 2, "0 at 1")
    assert ledger.problems == ("one was counted 2 times, fed 1 times",)


def test_another_reader_starts_with_the_same_inputs_and_no_outputs() -> None:
    ledger = _fed(one=1)
    ledger.see("one", 1, "0 at 0")
    assert ledger.without_outputs().missing() == Counter(one=1)
