"""Judges of records that are lost, doubled, or read before their time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.hand_made_histories import FAILED, T0, UNKNOWN, HistoryBuilder, hangs, kinds
from txnsim_lab.check._dependencies import (
    circular_information_flow,
    dirty_writes,
    lost_updates,
    read_skews,
)
from txnsim_lab.check._dirty_reads import aborted_reads, intermediate_reads
from txnsim_lab.check._duplicates import duplicates
from txnsim_lab.check._losses import losses
from txnsim_lab.check.observations import Isolation


def commit_all(story: HistoryBuilder, *labels: str) -> None:
    for label in labels:
        story.commit(label)


def test_two_that_overwrote_one_another_wrote_dirtily() -> None:
    story = HistoryBuilder()
    story.write("A", "a1", 0, key="x")
    story.write("B", "b1", 1, key="x")
    story.write("B", "b2", 2, key="y")
    story.write("A", "a2", 3, key="y")
    story.write("C", "c1", 4, key="z")
    commit_all(story, "A", "B", "C")
    (anomaly,) = dirty_writes(story.history)
    assert anomaly.because == ("B overwrote A's 'x' at t-0@1, and A overwrote B's 'y' at t-0@3")
    assert anomaly.evidence == (0, 1, 2, 3, 5, 6)


def test_a_circle_without_reads_is_no_flow_of_information() -> None:
    story = HistoryBuilder()
    story.write("A", "a1", 0, key="x")
    story.write("B", "b1", 1, key="x")
    story.write("B", "b2", 2, key="y")
    story.write("A", "a2", 3, key="y")
    commit_all(story, "A", "B")
    assert circular_information_flow(story.history) == ()


def test_a_read_closes_the_circle() -> None:
    story = HistoryBuilder()
    story.write("B", "b1", 0, key="x")
    story.write("A", "a1", 1, key="x")
    read = story.read(1, {1: "a1"}, 2, transaction="B")
    commit_all(story, "A", "B")
    (anomaly,) = circular_information_flow(story.history)
    assert read in anomaly.evidence
    assert dirty_writes(story.history) == ()


# Lost updates


def test_two_that_replaced_the_same_version_lost_an_update() -> None:
    story = HistoryBuilder()
    story.write(None, "v0", 0, key="x")
    story.write(None, "v1", 1, key="x")
    for transaction_label in "AB":
        story.read(0, {0: "v0", 1: "v1"}, 2, keys={0: "x", 1: "x"}, transaction=transaction_label)
    story.write("A", "by A", 2, key="x")
    story.write("B", "by B", 3, key="x")
    commit_all(story, "A", "B")
    (anomaly,) = lost_updates(story.history)
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
    story = HistoryBuilder()
    story.write(None, "v0", 0, key="x")
    for transaction_label in "AB":
        fields: dict[str, Any] = {"keys": {0: "x"}, "transaction": transaction_label}
        story.read(0, {0: "v0"}, 1, **(fields | (second if transaction_label == "B" else {})))
        story.write(transaction_label, f"by {transaction_label}", 1, key="x")
        story.write(transaction_label, f"{transaction_label} without a key")
    commit_all(story, "A", "B")
    assert lost_updates(story.history) == ()


def test_what_was_read_after_it_was_replaced_is_no_version_of_it() -> None:
    story = HistoryBuilder()
    story.write(None, "v0", 0, key="x")
    for transaction_label in "AB":
        story.write(transaction_label, f"by {transaction_label}", 1, key="x")
        story.read(0, {0: "v0"}, 1, keys={0: "x"}, transaction=transaction_label)
    commit_all(story, "A", "B")
    assert lost_updates(story.history) == ()


def test_two_that_started_from_one_position_lost_an_update() -> None:
    story = HistoryBuilder()
    story.send_offsets(None, 10)
    for transaction_label in "AB":
        story.positions(10, transaction=transaction_label)
    for transaction_label in "AB":
        story.send_offsets(transaction_label, 20)
    commit_all(story, "A", "B")
    (anomaly,) = lost_updates(story.history)
    assert anomaly.because == "A and B each replaced the position of g as it stood at in-0@10"


def test_a_position_that_was_set_back_is_another_version() -> None:
    story = HistoryBuilder()
    for transaction_label in "AB":
        story.send_offsets(None, 10, outcome=FAILED)
        story.send_offsets(None, 10)
        story.positions(10, transaction=transaction_label)
        story.send_offsets(transaction_label, 20)
        story.commit(transaction_label)
    assert lost_updates(story.history) == ()


@pytest.mark.parametrize(
    "fields", [{"offset": 10}, {"outcome": FAILED, "offset": 20}, {"label": "C", "offset": 20}]
)
def test_who_did_not_move_it_has_not_replaced_it(fields: dict[str, Any]) -> None:
    story = HistoryBuilder()
    for transaction_label in "AB":
        story.positions(10, transaction=transaction_label)
    story.send_offsets("A", 20)
    story.send_offsets(**({"label": "B"} | fields))
    commit_all(story, "A", "B", "C")
    assert kinds(lost_updates(story.history)) == []


def test_an_error_tells_no_position_that_could_be_replaced() -> None:
    story = HistoryBuilder()
    for transaction_label in "AB":
        story.positions(
            10,
            transaction=transaction_label,
            error="NOT_COORDINATOR" if transaction_label == "A" else "",
        )
    for transaction_label in "AB":
        story.send_offsets(transaction_label, 20)
        story.commit(transaction_label)
    assert lost_updates(story.history) == ()


# Read skew


def test_who_read_a_list_without_a_record_and_depends_on_it_read_skewed() -> None:
    story = HistoryBuilder()
    missed = story.read(0, {}, 0, transaction="A", whole=True)
    wrote = story.write("B", "b0", 0)
    story.write("B", "b1", 0, partition=1)
    commit_all(story, "B")
    read = story.read(0, {0: "b1"}, 2, transaction="A", partition=1)
    assert read_skews(story.history) == (), "A may still abort"
    commit_all(story, "A")
    (anomaly,) = read_skews(story.history)
    assert {missed, wrote, read} <= set(anomaly.evidence)
    assert anomaly.because == "A read t-0 before B wrote 'b0' there, and A read B's 'b1' at t-1"


@pytest.mark.parametrize(
    "first_fields",
    [
        pytest.param({}, id="a poll"),
        pytest.param({"whole": True, "isolation": Isolation.READ_UNCOMMITTED}, id="uncommitted"),
        pytest.param({"whole": True, "error": "NOT_LEADER_OR_FOLLOWER"}, id="an error"),
        pytest.param({"whole": True, "transaction": None}, id="outside of the transaction"),
    ],
)
def test_only_whole_reads_show_what_was_not_there(first_fields: dict[str, Any]) -> None:
    story = HistoryBuilder()
    story.read(0, {}, 0, **({"transaction": "A"} | first_fields))
    story.write("B", "b0", 0)
    story.write("B", "b1", 0, partition=1)
    story.read(0, {0: "b1"}, 2, transaction="A", partition=1)
    commit_all(story, "A", "B")
    assert read_skews(story.history) == ()


def test_a_circle_of_two_that_did_not_see_one_another_is_no_read_skew() -> None:
    story = HistoryBuilder()
    for transaction_label in "AB":
        story.read(0, {}, 0, transaction=transaction_label, whole=True)
    for offset, transaction_label in enumerate("AB"):
        story.write(transaction_label, f"of {transaction_label}", offset)
        story.write(transaction_label, f"of {transaction_label}", offset, partition=1)
    commit_all(story, "A", "B")
    assert read_skews(story.history) == ()


def test_what_was_acknowledged_outside_of_a_transaction_must_come() -> None:
    story = HistoryBuilder()
    story.write(None, "r0", outcome=UNKNOWN)
    wrote = story.write(None, "r1", 1)
    story.write(None, "r2", 2)
    read = story.read(0, {2: "r2"}, 3)
    (anomaly,) = losses(story.history)
    assert (anomaly.kind, anomaly.evidence) == ("lost-write", (wrote, read))
    assert anomaly.because.startswith("'r1' on t-0 was acknowledged")


def test_one_record_of_a_commit_is_a_lost_write_and_several_a_lost_commit() -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", 0)
    story.commit("T1")
    story.write("T2", "r2", 2)
    story.write("T2", "r3", 3)
    story.write("T2", "r4", outcome=UNKNOWN)
    story.commit("T2")
    story.read(0, {}, 5)
    anomaly_by_kind = {str(anomaly.kind): anomaly for anomaly in losses(story.history)}
    assert set(anomaly_by_kind) == {"lost-write", "lost-commit"}
    assert "'r1' on t-0 of T1" in anomaly_by_kind["lost-write"].because
    assert anomaly_by_kind["lost-commit"].because.startswith("T2 was acknowledged")
    assert anomaly_by_kind["lost-commit"].evidence == (2, 3, 5, 6)


def test_a_part_is_torn_off_whatever_the_end() -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", 0)
    story.write("T1", "r2", 1)
    story.read(0, {0: "r1"}, 3)
    assert kinds(losses(story.history)) == ["torn-transaction"]
    story.commit("T1", outcome=UNKNOWN)
    assert kinds(losses(story.history)) == ["torn-transaction"]
    story.commit("T1")
    assert kinds(losses(story.history)) == ["lost-write", "torn-transaction"]


def test_a_part_that_nobody_has_asked_for_may_be_there() -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", 0)
    story.write("T1", "r2", 0, partition=1)
    story.commit("T1")
    story.read(0, {}, 2)
    assert kinds(losses(story.history)) == ["lost-write"]


def test_an_aborted_transaction_loses_nothing() -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", 0)
    story.abort("T1")
    story.read(0, {}, 2)
    assert losses(story.history) == ()


def test_what_a_hanging_transaction_holds_of_a_commit_is_lost() -> None:
    story = HistoryBuilder()
    wrote = story.write("T2", "r2", 1, producer_id=7)
    elsewhere = story.write("T2", "r3", 0, producer_id=7, partition=1)
    committed = story.commit("T2")
    hangs(story)
    read = story.read(0, {0: "r3"}, 2, partition=1)
    lost, torn = sorted(losses(story.history), key=lambda anomaly: anomaly.kind)
    assert (lost.kind, torn.kind) == ("lost-write", "torn-transaction")
    assert {wrote, committed} <= set(lost.evidence)
    assert {wrote, read, committed} <= set(torn.evidence)
    assert elsewhere not in lost.evidence


def test_what_somebody_has_read_before_it_hung_is_not_lost_by_that() -> None:
    story = HistoryBuilder()
    story.write("T2", "r2", 1, producer_id=7)
    story.commit("T2")
    story.read(1, {1: "r2"}, 2)
    hangs(story)
    assert losses(story.history) == ()


def test_what_was_committed_after_it_was_seen_hanging_may_have_been_freed() -> None:
    story = HistoryBuilder()
    story.write("T2", "r2", 1, producer_id=7)
    hangs(story)
    story.describe("Ongoing", T0, producer_id=9)
    story.commit("T2")
    assert losses(story.history) == ()
    story.list_producers((7, 1))
    assert kinds(losses(story.history)) == ["lost-write"]


def test_what_lies_before_the_hanging_transaction_or_belongs_to_others_is_not_held() -> None:
    story = HistoryBuilder()
    story.write("T2", "r2", 2, producer_id=8)
    story.commit("T2")
    hangs(story)
    assert losses(story.history) == ()


def test_a_record_that_one_reader_got_and_another_did_not_is_visible_and_lost() -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", 0)
    story.write("T1", "r2", 1)
    story.commit("T1")
    story.read(0, {}, 2)
    assert kinds(losses(story.history)) == ["lost-commit"]
    story.read(0, {0: "r1"}, 1)
    assert kinds(losses(story.history)) == ["lost-write", "lost-write", "torn-transaction"]


def test_a_record_is_not_torn_off_from_itself() -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", 0)
    story.commit("T1")
    story.read(0, {0: "r1"}, 1)
    story.read(0, {}, 2)
    assert kinds(losses(story.history)) == ["lost-write"]


def test_a_record_that_was_acknowledged_twice_is_one_record() -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", 0)
    story.write("T1", "r1", 0)
    story.commit("T1")
    story.read(0, {}, 2)
    assert set(kinds(losses(story.history))) == {"lost-write"}


def test_a_record_of_an_aborted_transaction_convicts_who_gave_it() -> None:
    story = HistoryBuilder()
    wrote = story.write("T1", "r1", outcome=UNKNOWN)
    ended = story.abort()
    read = story.read(0, {5: "r1"}, 6)
    story.read(0, {5: "r1"}, 6)
    (anomaly,) = aborted_reads(story.history)
    assert anomaly.evidence == (wrote, ended, read)
    assert "'r1' at t-0@5" in anomaly.because


@pytest.mark.parametrize("outcome", [UNKNOWN, FAILED])
def test_who_asked_for_an_abort_and_never_for_a_commit_can_not_have_committed(
    outcome: str,
) -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", 0)
    story.abort(outcome=outcome)
    story.read(0, {0: "r1"}, 1)
    assert len(aborted_reads(story.history)) == 1


@pytest.mark.parametrize("other_label", [None, "T2"])
def test_a_value_that_somebody_else_may_have_committed_convicts_nobody(
    other_label: str | None,
) -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", outcome=UNKNOWN)
    story.abort("T1")
    story.write(other_label, "r1", outcome=UNKNOWN)
    story.read(0, {0: "r1", 1: "of nobody we know"}, 2)
    assert aborted_reads(story.history) == ()


def test_an_open_transaction_is_not_aborted() -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", 0)
    story.read(0, {0: "r1"}, 1)
    assert aborted_reads(story.history) == ()


def test_a_record_read_before_its_transaction_has_finished_writing_is_intermediate() -> None:
    story = HistoryBuilder()
    story.write("T1", "r0", 0, partition=1)
    early = story.write("T1", "r1", 1)
    read = story.read(0, {1: "r1"}, 2)
    story.write("T1", "r2", outcome=UNKNOWN)
    late = story.write("T1", "r3")
    story.commit()
    (anomaly,) = intermediate_reads(story.history)
    assert anomaly.evidence == (early, read, late)


@pytest.mark.parametrize(("asked_ms", "intermediate"), [(2000, False), (1999, False), (2001, True)])
def test_an_end_that_was_asked_for_in_time_excuses_even_what_follows(
    asked_ms: int, *, intermediate: bool
) -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", 0)
    story.read(0, {0: "r1"}, 2)
    story.commit(asked_ms=asked_ms)
    story.write("T1", "r2", 2)
    assert bool(intermediate_reads(story.history)) is intermediate


def test_an_end_that_was_answered_before_the_rest_was_may_have_come_first() -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", 0)
    story.read(0, {0: "r1"}, 2)
    story.commit()
    story.write("T1", "r2", 2)
    assert intermediate_reads(story.history) == ()


def test_a_last_stable_offset_between_two_records_may_be_the_start_of_another() -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", 0)
    story.write("T2", "other", 1)
    story.write("T1", "r2", 2)
    story.commit("T1")
    story.read(0, {0: "r1"}, 1, high_watermark=4)
    assert intermediate_reads(story.history) == ()


def test_two_partitions_are_two_logs() -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", 0)
    story.read(0, {0: "r1"}, 2)
    story.write("T1", "r2", 5, partition=1)
    assert intermediate_reads(story.history) == ()


def test_a_record_is_not_that_of_a_transaction_in_which_it_was_refused() -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", outcome=FAILED)
    story.write("T2", "r1", 0)
    story.read(0, {0: "r1"}, 1)
    story.write("T1", "r2", 2)
    assert intermediate_reads(story.history) == ()
    story.commit("T1")
    story.abort("T2")
    assert len(aborted_reads(story.history)) == 1


def test_a_refused_record_that_is_read_all_the_same_is_of_its_transaction() -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", outcome=FAILED)
    story.abort("T1")
    story.read(0, {0: "r1"}, 1)
    assert len(aborted_reads(story.history)) == 1


def test_an_item_at_two_places_of_a_topic_is_a_duplicate() -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", 0, item="order 1")
    story.write("T2", "r1'", 0, item="order 1", partition=1)
    first_read = story.read(0, {0: "r1"}, 1)
    second = story.read(0, {0: "r1'"}, 1, partition=1)
    (anomaly,) = duplicates(story.history)
    assert anomaly.evidence == (first_read, second)
    assert anomaly.because == (
        'item \'order 1\' on t is visible 2 times: "r1" at t-0@0, "r1\'" at t-1@0'.replace(
            '"r1"', "'r1'"
        )
    )


def test_an_item_is_one_record_of_each_topic() -> None:
    story = HistoryBuilder()
    story.write(None, "order 1", 0, item="order 1", topic="in")
    story.write("T1", "bill 1", 0, item="order 1")
    story.read(0, {0: "order 1"}, 1, topic="in")
    story.read(0, {0: "bill 1"}, 1)
    assert duplicates(story.history) == ()


def test_a_record_without_an_item_stands_for_itself() -> None:
    story = HistoryBuilder()
    story.write(None, "r1", outcome=UNKNOWN)
    story.write(None, "r1", outcome=UNKNOWN)
    story.write(None, "r2", 2)
    story.read(0, {0: "r1", 1: "r1", 2: "r2"}, 3)
    (anomaly,) = duplicates(story.history)
    assert "'r1' on t-0 is visible 2 times" in anomaly.because


def test_the_same_place_read_twice_is_one_record() -> None:
    story = HistoryBuilder()
    story.write(None, "r1", 0)
    story.read(0, {0: "r1"}, 1)
    story.read(0, {0: "r1"}, 1, who="another")
    assert duplicates(story.history) == ()


def test_a_value_of_two_programs_or_of_none_tells_nothing() -> None:
    story = HistoryBuilder()
    story.write("T1", "r1", outcome=UNKNOWN)
    story.write("T2", "r1", outcome=UNKNOWN)
    story.read(0, {0: "r1", 1: "r1", 2: "strange", 3: "strange"}, 4)
    assert duplicates(story.history) == ()
