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


def commit_all(history_builder: HistoryBuilder, *labels: str) -> None:
    for label in labels:
        history_builder.commit(label)


def test_two_that_overwrote_one_another_wrote_dirtily() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("A", "a1", 0, key="x")
    history_builder.write("B", "b1", 1, key="x")
    history_builder.write("B", "b2", 2, key="y")
    history_builder.write("A", "a2", 3, key="y")
    history_builder.write("C", "c1", 4, key="z")
    commit_all(history_builder, "A", "B", "C")
    (anomaly,) = dirty_writes(history_builder.history)
    assert anomaly.because == ("B overwrote A's 'x' at t-0@1, and A overwrote B's 'y' at t-0@3")
    assert anomaly.evidence == (0, 1, 2, 3, 5, 6)


def test_a_circle_without_reads_is_no_flow_of_information() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("A", "a1", 0, key="x")
    history_builder.write("B", "b1", 1, key="x")
    history_builder.write("B", "b2", 2, key="y")
    history_builder.write("A", "a2", 3, key="y")
    commit_all(history_builder, "A", "B")
    assert circular_information_flow(history_builder.history) == ()


def test_a_read_closes_the_circle() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("B", "b1", 0, key="x")
    history_builder.write("A", "a1", 1, key="x")
    read = history_builder.read(1, {1: "a1"}, 2, transaction="B")
    commit_all(history_builder, "A", "B")
    (anomaly,) = circular_information_flow(history_builder.history)
    assert read in anomaly.evidence
    assert dirty_writes(history_builder.history) == ()


# Lost updates


def test_two_that_replaced_the_same_version_lost_an_update() -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, "v0", 0, key="x")
    history_builder.write(None, "v1", 1, key="x")
    for transaction_label in "AB":
        history_builder.read(
            0, {0: "v0", 1: "v1"}, 2, keys={0: "x", 1: "x"}, transaction=transaction_label
        )
    history_builder.write("A", "by A", 2, key="x")
    history_builder.write("B", "by B", 3, key="x")
    commit_all(history_builder, "A", "B")
    (anomaly,) = lost_updates(history_builder.history)
    assert anomaly.because == "A and B each replaced key 'x' as it stood at t-0@1"
    assert anomaly.evidence == (2, 3, 4, 5)


@pytest.mark.parametrize(
    "second_fields",
    [
        pytest.param({"keys": {0: "y"}}, id="another key"),
        pytest.param({"isolation": Isolation.READ_UNCOMMITTED}, id="not isolated"),
        pytest.param({"error": "NOT_LEADER_OR_FOLLOWER"}, id="no answer"),
        pytest.param({"partition": 1}, id="another partition"),
        pytest.param({"transaction": None}, id="outside of the transaction"),
    ],
)
def test_who_did_not_read_the_same_replaced_something_else(second_fields: dict[str, Any]) -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, "v0", 0, key="x")
    for transaction_label in "AB":
        fields: dict[str, Any] = {"keys": {0: "x"}, "transaction": transaction_label}
        history_builder.read(
            0, {0: "v0"}, 1, **(fields | (second_fields if transaction_label == "B" else {}))
        )
        history_builder.write(transaction_label, f"by {transaction_label}", 1, key="x")
        history_builder.write(transaction_label, f"{transaction_label} without a key")
    commit_all(history_builder, "A", "B")
    assert lost_updates(history_builder.history) == ()


def test_what_was_read_after_it_was_replaced_is_no_version_of_it() -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, "v0", 0, key="x")
    for transaction_label in "AB":
        history_builder.write(transaction_label, f"by {transaction_label}", 1, key="x")
        history_builder.read(0, {0: "v0"}, 1, keys={0: "x"}, transaction=transaction_label)
    commit_all(history_builder, "A", "B")
    assert lost_updates(history_builder.history) == ()


def test_two_that_started_from_one_position_lost_an_update() -> None:
    history_builder = HistoryBuilder()
    history_builder.send_offsets(None, 10)
    for transaction_label in "AB":
        history_builder.positions(10, transaction=transaction_label)
    for transaction_label in "AB":
        history_builder.send_offsets(transaction_label, 20)
    commit_all(history_builder, "A", "B")
    (anomaly,) = lost_updates(history_builder.history)
    assert anomaly.because == "A and B each replaced the position of g as it stood at in-0@10"


def test_a_position_that_was_set_back_is_another_version() -> None:
    history_builder = HistoryBuilder()
    for transaction_label in "AB":
        history_builder.send_offsets(None, 10, outcome=FAILED)
        history_builder.send_offsets(None, 10)
        history_builder.positions(10, transaction=transaction_label)
        history_builder.send_offsets(transaction_label, 20)
        history_builder.commit(transaction_label)
    assert lost_updates(history_builder.history) == ()


@pytest.mark.parametrize(
    "fields",
    [{"offset": 10}, {"outcome": FAILED, "offset": 20}, {"transaction_label": "C", "offset": 20}],
)
def test_who_did_not_move_it_has_not_replaced_it(fields: dict[str, Any]) -> None:
    history_builder = HistoryBuilder()
    for transaction_label in "AB":
        history_builder.positions(10, transaction=transaction_label)
    history_builder.send_offsets("A", 20)
    history_builder.send_offsets(**({"transaction_label": "B"} | fields))
    commit_all(history_builder, "A", "B", "C")
    assert kinds(lost_updates(history_builder.history)) == []


def test_an_error_tells_no_position_that_could_be_replaced() -> None:
    history_builder = HistoryBuilder()
    for transaction_label in "AB":
        history_builder.positions(
            10,
            transaction=transaction_label,
            error="NOT_COORDINATOR" if transaction_label == "A" else "",
        )
    for transaction_label in "AB":
        history_builder.send_offsets(transaction_label, 20)
        history_builder.commit(transaction_label)
    assert lost_updates(history_builder.history) == ()


# Read skew


def test_who_read_a_list_without_a_record_and_depends_on_it_read_skewed() -> None:
    history_builder = HistoryBuilder()
    missed_number = history_builder.read(0, {}, 0, transaction="A", whole=True)
    write_number = history_builder.write("B", "b0", 0)
    history_builder.write("B", "b1", 0, partition=1)
    commit_all(history_builder, "B")
    read = history_builder.read(0, {0: "b1"}, 2, transaction="A", partition=1)
    assert read_skews(history_builder.history) == (), "A may still abort"
    commit_all(history_builder, "A")
    (anomaly,) = read_skews(history_builder.history)
    assert {missed_number, write_number, read} <= set(anomaly.evidence)
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
    history_builder = HistoryBuilder()
    history_builder.read(0, {}, 0, **({"transaction": "A"} | first_fields))
    history_builder.write("B", "b0", 0)
    history_builder.write("B", "b1", 0, partition=1)
    history_builder.read(0, {0: "b1"}, 2, transaction="A", partition=1)
    commit_all(history_builder, "A", "B")
    assert read_skews(history_builder.history) == ()


def test_a_circle_of_two_that_did_not_see_one_another_is_no_read_skew() -> None:
    history_builder = HistoryBuilder()
    for transaction_label in "AB":
        history_builder.read(0, {}, 0, transaction=transaction_label, whole=True)
    for offset, transaction_label in enumerate("AB"):
        history_builder.write(transaction_label, f"of {transaction_label}", offset)
        history_builder.write(transaction_label, f"of {transaction_label}", offset, partition=1)
    commit_all(history_builder, "A", "B")
    assert read_skews(history_builder.history) == ()


def test_what_was_acknowledged_outside_of_a_transaction_must_come() -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, "r0", outcome=UNKNOWN)
    write_number = history_builder.write(None, "r1", 1)
    history_builder.write(None, "r2", 2)
    read = history_builder.read(0, {2: "r2"}, 3)
    (anomaly,) = losses(history_builder.history)
    assert (anomaly.kind, anomaly.evidence) == ("lost-write", (write_number, read))
    assert anomaly.because.startswith("'r1' on t-0 was acknowledged")


def test_one_record_of_a_commit_is_a_lost_write_and_several_a_lost_commit() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", 0)
    history_builder.commit("T1")
    history_builder.write("T2", "r2", 2)
    history_builder.write("T2", "r3", 3)
    history_builder.write("T2", "r4", outcome=UNKNOWN)
    history_builder.commit("T2")
    history_builder.read(0, {}, 5)
    anomaly_by_kind = {str(anomaly.kind): anomaly for anomaly in losses(history_builder.history)}
    assert set(anomaly_by_kind) == {"lost-write", "lost-commit"}
    assert "'r1' on t-0 of T1" in anomaly_by_kind["lost-write"].because
    assert anomaly_by_kind["lost-commit"].because.startswith("T2 was acknowledged")
    assert anomaly_by_kind["lost-commit"].evidence == (2, 3, 5, 6)


def test_a_part_is_torn_off_whatever_the_end() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", 0)
    history_builder.write("T1", "r2", 1)
    history_builder.read(0, {0: "r1"}, 3)
    assert kinds(losses(history_builder.history)) == ["torn-transaction"]
    history_builder.commit("T1", outcome=UNKNOWN)
    assert kinds(losses(history_builder.history)) == ["torn-transaction"]
    history_builder.commit("T1")
    assert kinds(losses(history_builder.history)) == ["lost-write", "torn-transaction"]


def test_a_part_that_nobody_has_asked_for_may_be_there() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", 0)
    history_builder.write("T1", "r2", 0, partition=1)
    history_builder.commit("T1")
    history_builder.read(0, {}, 2)
    assert kinds(losses(history_builder.history)) == ["lost-write"]


def test_an_aborted_transaction_loses_nothing() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", 0)
    history_builder.abort("T1")
    history_builder.read(0, {}, 2)
    assert losses(history_builder.history) == ()


def test_what_a_hanging_transaction_holds_of_a_commit_is_lost() -> None:
    history_builder = HistoryBuilder()
    write_number = history_builder.write("T2", "r2", 1, producer_id=7)
    other_number = history_builder.write("T2", "r3", 0, producer_id=7, partition=1)
    committed = history_builder.commit("T2")
    hangs(history_builder)
    read = history_builder.read(0, {0: "r3"}, 2, partition=1)
    lost_write, torn_transaction = sorted(
        losses(history_builder.history), key=lambda anomaly: anomaly.kind
    )
    assert (lost_write.kind, torn_transaction.kind) == ("lost-write", "torn-transaction")
    assert {write_number, committed} <= set(lost_write.evidence)
    assert {write_number, read, committed} <= set(torn_transaction.evidence)
    assert other_number not in lost_write.evidence


def test_what_somebody_has_read_before_it_hung_is_not_lost_by_that() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T2", "r2", 1, producer_id=7)
    history_builder.commit("T2")
    history_builder.read(1, {1: "r2"}, 2)
    hangs(history_builder)
    assert losses(history_builder.history) == ()


def test_what_was_committed_after_it_was_seen_hanging_may_have_been_freed() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T2", "r2", 1, producer_id=7)
    hangs(history_builder)
    history_builder.describe("Ongoing", T0, producer_id=9)
    history_builder.commit("T2")
    assert losses(history_builder.history) == ()
    history_builder.list_producers((7, 1))
    assert kinds(losses(history_builder.history)) == ["lost-write"]


def test_what_lies_before_the_hanging_transaction_or_belongs_to_others_is_not_held() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T2", "r2", 2, producer_id=8)
    history_builder.commit("T2")
    hangs(history_builder)
    assert losses(history_builder.history) == ()


def test_a_record_that_one_reader_got_and_another_did_not_is_visible_and_lost() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", 0)
    history_builder.write("T1", "r2", 1)
    history_builder.commit("T1")
    history_builder.read(0, {}, 2)
    assert kinds(losses(history_builder.history)) == ["lost-commit"]
    history_builder.read(0, {0: "r1"}, 1)
    assert kinds(losses(history_builder.history)) == [
        "lost-write",
        "lost-write",
        "torn-transaction",
    ]


def test_a_record_is_not_torn_off_from_itself() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", 0)
    history_builder.commit("T1")
    history_builder.read(0, {0: "r1"}, 1)
    history_builder.read(0, {}, 2)
    assert kinds(losses(history_builder.history)) == ["lost-write"]


def test_a_record_that_was_acknowledged_twice_is_one_record() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", 0)
    history_builder.write("T1", "r1", 0)
    history_builder.commit("T1")
    history_builder.read(0, {}, 2)
    assert set(kinds(losses(history_builder.history))) == {"lost-write"}


def test_a_record_of_an_aborted_transaction_convicts_who_gave_it() -> None:
    history_builder = HistoryBuilder()
    write_number = history_builder.write("T1", "r1", outcome=UNKNOWN)
    end_number = history_builder.abort()
    read = history_builder.read(0, {5: "r1"}, 6)
    history_builder.read(0, {5: "r1"}, 6)
    (anomaly,) = aborted_reads(history_builder.history)
    assert anomaly.evidence == (write_number, end_number, read)
    assert "'r1' at t-0@5" in anomaly.because


@pytest.mark.parametrize("outcome", [UNKNOWN, FAILED])
def test_who_asked_for_an_abort_and_never_for_a_commit_can_not_have_committed(
    outcome: str,
) -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", 0)
    history_builder.abort(outcome=outcome)
    history_builder.read(0, {0: "r1"}, 1)
    assert len(aborted_reads(history_builder.history)) == 1


@pytest.mark.parametrize("other_label", [None, "T2"])
def test_a_value_that_somebody_else_may_have_committed_convicts_nobody(
    other_label: str | None,
) -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", outcome=UNKNOWN)
    history_builder.abort("T1")
    history_builder.write(other_label, "r1", outcome=UNKNOWN)
    history_builder.read(0, {0: "r1", 1: "of nobody we know"}, 2)
    assert aborted_reads(history_builder.history) == ()


def test_an_open_transaction_is_not_aborted() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", 0)
    history_builder.read(0, {0: "r1"}, 1)
    assert aborted_reads(history_builder.history) == ()


def test_a_record_read_before_its_transaction_has_finished_writing_is_intermediate() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r0", 0, partition=1)
    early_number = history_builder.write("T1", "r1", 1)
    read = history_builder.read(0, {1: "r1"}, 2)
    history_builder.write("T1", "r2", outcome=UNKNOWN)
    late_number = history_builder.write("T1", "r3")
    history_builder.commit()
    (anomaly,) = intermediate_reads(history_builder.history)
    assert anomaly.evidence == (early_number, read, late_number)


@pytest.mark.parametrize(
    ("asked_ms", "is_intermediate"), [(2000, False), (1999, False), (2001, True)]
)
def test_an_end_that_was_asked_for_in_time_excuses_even_what_follows(
    asked_ms: int, *, is_intermediate: bool
) -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", 0)
    history_builder.read(0, {0: "r1"}, 2)
    history_builder.commit(asked_ms=asked_ms)
    history_builder.write("T1", "r2", 2)
    assert bool(intermediate_reads(history_builder.history)) is is_intermediate


def test_an_end_that_was_answered_before_the_rest_was_may_have_come_first() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", 0)
    history_builder.read(0, {0: "r1"}, 2)
    history_builder.commit()
    history_builder.write("T1", "r2", 2)
    assert intermediate_reads(history_builder.history) == ()


def test_a_last_stable_offset_between_two_records_may_be_the_start_of_another() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", 0)
    history_builder.write("T2", "other", 1)
    history_builder.write("T1", "r2", 2)
    history_builder.commit("T1")
    history_builder.read(0, {0: "r1"}, 1, high_watermark=4)
    assert intermediate_reads(history_builder.history) == ()


def test_two_partitions_are_two_logs() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", 0)
    history_builder.read(0, {0: "r1"}, 2)
    history_builder.write("T1", "r2", 5, partition=1)
    assert intermediate_reads(history_builder.history) == ()


def test_a_record_is_not_that_of_a_transaction_in_which_it_was_refused() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", outcome=FAILED)
    history_builder.write("T2", "r1", 0)
    history_builder.read(0, {0: "r1"}, 1)
    history_builder.write("T1", "r2", 2)
    assert intermediate_reads(history_builder.history) == ()
    history_builder.commit("T1")
    history_builder.abort("T2")
    assert len(aborted_reads(history_builder.history)) == 1


def test_a_refused_record_that_is_read_all_the_same_is_of_its_transaction() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", outcome=FAILED)
    history_builder.abort("T1")
    history_builder.read(0, {0: "r1"}, 1)
    assert len(aborted_reads(history_builder.history)) == 1


def test_an_item_at_two_places_of_a_topic_is_a_duplicate() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", 0, item="order 1")
    history_builder.write("T2", "r1'", 0, item="order 1", partition=1)
    first_read_index = history_builder.read(0, {0: "r1"}, 1)
    second_read_index = history_builder.read(0, {0: "r1'"}, 1, partition=1)
    (anomaly,) = duplicates(history_builder.history)
    assert anomaly.evidence == (first_read_index, second_read_index)
    assert anomaly.because == (
        'item \'order 1\' on t is visible 2 times: "r1" at t-0@0, "r1\'" at t-1@0'.replace(
            '"r1"', "'r1'"
        )
    )


def test_an_item_is_one_record_of_each_topic() -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, "order 1", 0, item="order 1", topic="in")
    history_builder.write("T1", "bill 1", 0, item="order 1")
    history_builder.read(0, {0: "order 1"}, 1, topic="in")
    history_builder.read(0, {0: "bill 1"}, 1)
    assert duplicates(history_builder.history) == ()


def test_a_record_without_an_item_stands_for_itself() -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, "r1", outcome=UNKNOWN)
    history_builder.write(None, "r1", outcome=UNKNOWN)
    history_builder.write(None, "r2", 2)
    history_builder.read(0, {0: "r1", 1: "r1", 2: "r2"}, 3)
    (anomaly,) = duplicates(history_builder.history)
    assert "'r1' on t-0 is visible 2 times" in anomaly.because


def test_the_same_place_read_twice_is_one_record() -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, "r1", 0)
    history_builder.read(0, {0: "r1"}, 1)
    history_builder.read(0, {0: "r1"}, 1, client_name="another")
    assert duplicates(history_builder.history) == ()


def test_a_value_of_two_programs_or_of_none_tells_nothing() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", outcome=UNKNOWN)
    history_builder.write("T2", "r1", outcome=UNKNOWN)
    history_builder.read(0, {0: "r1", 1: "r1", 2: "strange", 3: "strange"}, 4)
    assert duplicates(history_builder.history) == ()
