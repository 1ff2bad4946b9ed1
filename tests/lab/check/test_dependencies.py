from __future__ import annotations

from typing import Any

import pytest

from tests.support.told import FAILED, Told, kinds
from txnsim_lab.check._dependencies import (
    circular_information_flow,
    dirty_writes,
    lost_updates,
    read_skews,
)
from txnsim_lab.check.observations import Isolation


def committed(told: Told, *labels: str) -> None:
    for label in labels:
        told.committed(label)


def test_two_that_overwrote_one_another_wrote_dirtily() -> None:
    told = Told()
    told.wrote("A", "a1", 0, key="x")
    told.wrote("B", "b1", 1, key="x")
    told.wrote("B", "b2", 2, key="y")
    told.wrote("A", "a2", 3, key="y")
    told.wrote("C", "c1", 4, key="z")
    committed(told, "A", "B", "C")
    (anomaly,) = dirty_writes(told.history)
    assert anomaly.because == ("B overwrote A's 'x' at t-0@1, and A overwrote B's 'y' at t-0@3")
    assert anomaly.evidence == (0, 1, 2, 3, 5, 6)


def test_a_circle_without_reads_is_no_flow_of_information() -> None:
    told = Told()
    told.wrote("A", "a1", 0, key="x")
    told.wrote("B", "b1", 1, key="x")
    told.wrote("B", "b2", 2, key="y")
    told.wrote("A", "a2", 3, key="y")
    committed(told, "A", "B")
    assert circular_information_flow(told.history) == ()


def test_a_read_closes_the_circle() -> None:
    told = Told()
    told.wrote("B", "b1", 0, key="x")
    told.wrote("A", "a1", 1, key="x")
    read = told.read(1, {1: "a1"}, 2, transaction="B")
    committed(told, "A", "B")
    (anomaly,) = circular_information_flow(told.history)
    assert read in anomaly.evidence
    assert dirty_writes(told.history) == ()


# Lost updates


def test_two_that_replaced_the_same_version_lost_an_update() -> None:
    told = Told()
    told.wrote(None, "v0", 0, key="x")
    told.wrote(None, "v1", 1, key="x")
    for label in "AB":
        told.read(0, {0: "v0", 1: "v1"}, 2, keys={0: "x", 1: "x"}, transaction=label)
    told.wrote("A", "by A", 2, key="x")
    told.wrote("B", "by B", 3, key="x")
    committed(told, "A", "B")
    (anomaly,) = lost_updates(told.history)
    assert anomaly.because == "A and B each replaced key 'x' as it stood at t-0@1"
    assert anomaly.evidence == (2, 3, 4, 5)


@pytest.mark.parametrize(
    "second",
    [
        pytest.param({"keys": {0: "y"}}, id="another key"),
        pytest.param({"isolation": Isolation.READ_UNCOMMITTED}, id="not isolated"),
        pytest.param({"error": "NOT_LEADER_OR_FOLLOWER"}, id="no answer"),
        pytest.param({"partition": 1}, id="another partition"),
        pytest.param({"transaction": None}, id="outside of the transaction"),
    ],
)
def test_who_did_not_read_the_same_replaced_something_else(second: dict[str, Any]) -> None:
    told = Told()
    told.wrote(None, "v0", 0, key="x")
    for label in "AB":
        given: dict[str, Any] = {"keys": {0: "x"}, "transaction": label}
        told.read(0, {0: "v0"}, 1, **(given | (second if label == "B" else {})))
        told.wrote(label, f"by {label}", 1, key="x")
        told.wrote(label, f"{label} without a key")
    committed(told, "A", "B")
    assert lost_updates(told.history) == ()


def test_what_was_read_after_it_was_replaced_is_no_version_of_it() -> None:
    told = Told()
    told.wrote(None, "v0", 0, key="x")
    for label in "AB":
        told.wrote(label, f"by {label}", 1, key="x")
        told.read(0, {0: "v0"}, 1, keys={0: "x"}, transaction=label)
    committed(told, "A", "B")
    assert lost_updates(told.history) == ()


def test_two_that_started_from_one_position_lost_an_update() -> None:
    told = Told()
    told.sent(None, 10)
    for label in "AB":
        told.positions(10, transaction=label)
    for label in "AB":
        told.sent(label, 20)
    committed(told, "A", "B")
    (anomaly,) = lost_updates(told.history)
    assert anomaly.because == "A and B each replaced the position of g as it stood at in-0@10"


def test_a_position_that_was_set_back_is_another_version() -> None:
    told = Told()
    for label in "AB":
        told.sent(None, 10, outcome=FAILED)
        told.sent(None, 10)
        told.positions(10, transaction=label)
        told.sent(label, 20)
        told.committed(label)
    assert lost_updates(told.history) == ()


@pytest.mark.parametrize(
    "more", [{"offset": 10}, {"outcome": FAILED, "offset": 20}, {"label": "C", "offset": 20}]
)
def test_who_did_not_move_it_has_not_replaced_it(more: dict[str, Any]) -> None:
    told = Told()
    for label in "AB":
        told.positions(10, transaction=label)
    told.sent("A", 20)
    told.sent(**({"label": "B"} | more))
    committed(told, "A", "B", "C")
    assert kinds(lost_updates(told.history)) == []


def test_an_error_tells_no_position_that_could_be_replaced() -> None:
    told = Told()
    for label in "AB":
        told.positions(10, transaction=label, error="NOT_COORDINATOR" if label == "A" else "")
    for label in "AB":
        told.sent(label, 20)
        told.committed(label)
    assert lost_updates(told.history) == ()


# Read skew


def test_who_read_a_list_without_a_record_and_depends_on_it_read_skewed() -> None:
    told = Told()
    missed = told.read(0, {}, 0, transaction="A", whole=True)
    wrote = told.wrote("B", "b0", 0)
    told.wrote("B", "b1", 0, partition=1)
    committed(told, "B")
    read = told.read(0, {0: "b1"}, 2, transaction="A", partition=1)
    assert read_skews(told.history) == (), "A may still abort"
    committed(told, "A")
    (anomaly,) = read_skews(told.history)
    assert {missed, wrote, read} <= set(anomaly.evidence)
    assert anomaly.because == "A read t-0 before B wrote 'b0' there, and A read B's 'b1' at t-1"


@pytest.mark.parametrize(
    "first",
    [
        pytest.param({}, id="a poll"),
        pytest.param({"whole": True, "isolation": Isolation.READ_UNCOMMITTED}, id="uncommitted"),
        pytest.param({"whole": True, "error": "NOT_LEADER_OR_FOLLOWER"}, id="an error"),
        pytest.param({"whole": True, "transaction": None}, id="outside of the transaction"),
    ],
)
def test_only_whole_reads_show_what_was_not_there(first: dict[str, Any]) -> None:
    told = Told()
    told.read(0, {}, 0, **({"transaction": "A"} | first))
    told.wrote("B", "b0", 0)
    told.wrote("B", "b1", 0, partition=1)
    told.read(0, {0: "b1"}, 2, transaction="A", partition=1)
    committed(told, "A", "B")
    assert read_skews(told.history) == ()


def test_a_circle_of_two_that_did_not_see_one_another_is_no_read_skew() -> None:
    told = Told()
    for label in "AB":
        told.read(0, {}, 0, transaction=label, whole=True)
    for offset, label in enumerate("AB"):
        told.wrote(label, f"of {label}", offset)
        told.wrote(label, f"of {label}", offset, partition=1)
    committed(told, "A", "B")
    assert read_skews(told.history) == ()
