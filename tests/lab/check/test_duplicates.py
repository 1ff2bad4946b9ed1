from __future__ import annotations

from tests.support.told import UNKNOWN, Told
from txnsim_lab.check._duplicates import duplicates


def test_an_item_at_two_places_of_a_topic_is_a_duplicate() -> None:
    told = Told()
    told.wrote("T1", "r1", 0, item="order 1")
    told.wrote("T2", "r1'", 0, item="order 1", partition=1)
    first = told.read(0, {0: "r1"}, 1)
    second = told.read(0, {0: "r1'"}, 1, partition=1)
    (anomaly,) = duplicates(told.history)
    assert anomaly.evidence == (first, second)
    assert anomaly.because == (
        'item \'order 1\' on t is visible 2 times: "r1" at t-0@0, "r1\'" at t-1@0'.replace(
            '"r1"', "'r1'"
        )
    )


def test_an_item_is_one_record_of_each_topic() -> None:
    told = Told()
    told.wrote(None, "order 1", 0, item="order 1", topic="in")
    told.wrote("T1", "bill 1", 0, item="order 1")
    told.read(0, {0: "order 1"}, 1, topic="in")
    told.read(0, {0: "bill 1"}, 1)
    assert duplicates(told.history) == ()


def test_a_record_without_an_item_stands_for_itself() -> None:
    told = Told()
    told.wrote(None, "r1", outcome=UNKNOWN)
    told.wrote(None, "r1", outcome=UNKNOWN)
    told.wrote(None, "r2", 2)
    told.read(0, {0: "r1", 1: "r1", 2: "r2"}, 3)
    (anomaly,) = duplicates(told.history)
    assert "'r1' on t-0 is visible 2 times" in anomaly.because


def test_the_same_place_read_twice_is_one_record() -> None:
    told = Told()
    told.wrote(None, "r1", 0)
    told.read(0, {0: "r1"}, 1)
    told.read(0, {0: "r1"}, 1, who="another")
    assert duplicates(told.history) == ()


def test_a_value_of_two_programs_or_of_none_tells_nothing() -> None:
    told = Told()
    told.wrote("T1", "r1", outcome=UNKNOWN)
    told.wrote("T2", "r1", outcome=UNKNOWN)
    told.read(0, {0: "r1", 1: "r1", 2: "strange", 3: "strange"}, 4)
    assert duplicates(told.history) == ()
