"""A short random play against a real Apache Kafka; and that the comparison can fail at all."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.conformance import cells, changes
from tests.conformance import stage as stages
from tests.conformance.drawing import plain_init, right_add
from tests.conformance.model import STATES, Producer
from tests.conformance.operations import Operation
from tests.conformance.random_play import (
    LONG_PLAY,
    both_brokers,
    complaints,
    has_ended,
    missing_anywhere,
    our_broker,
    play,
    report,
)
from tests.conformance.reachable import UNREACHABLE
from tests.conformance.result import ACCEPTED, Cell, Result
from tests.conformance.session import PLAYS_PER_SEED, Session
from tests.conformance.stage import SHORT_MS, Stage

SEED = 20_261_120
PLAYS = 8
PLAYS_OF_OURS = 2


@pytest.mark.real
@pytest.mark.parametrize("transaction_version", [0, 1, 2])
def test_a_random_play_meets_no_difference(transaction_version: int) -> None:
    with both_brokers(transaction_version) as addresses:
        result = play(
            addresses,
            transaction_version=transaction_version,
            seed=SEED,
            operation_count=1,
            play_count=PLAYS,
            shrink_count=60,
        )
    assert not list(complaints(result)), "\n".join(report(result))
    assert result.succeeded > 0.3 * result.operations
    assert len({(cell.api, cell.state) for cell in result.cells}) > 30, "a play goes to many places"


def played_by_two_of_ours(play_count: int = PLAYS_OF_OURS, **rules_of_one: str) -> Result:
    with our_broker(2) as first_address, our_broker(2, **rules_of_one) as second_address:
        session = Session(
            (first_address, second_address),
            transaction_version=2,
            seed=SEED,
            play_count=play_count,
            shrink_count=30,
        )
        session.play(SEED)
    return session.result


@pytest.mark.thorough
def test_brokers_that_are_alike_do_not_differ_and_a_seed_asks_the_same_again() -> None:
    first_result, second_result = played_by_two_of_ours(), played_by_two_of_ours()
    assert not first_result.differences, "\n".join(report(first_result))
    assert first_result.operations > 100
    assert first_result.modes == second_result.modes
    assert first_result.cells == second_result.cells


@pytest.mark.costly
@pytest.mark.slow
def test_brokers_that_differ_in_one_rule_are_told_apart_by_a_short_play() -> None:
    result = played_by_two_of_ours(
        PLAYS_PER_SEED, transaction_partition_verification_enable="false"
    )
    (difference,) = result.differences
    assert difference.operation is not None
    # Both are verified; which one a play meets first depends on how often it is shrunk.
    assert difference.operation.api in {"Produce", "TxnOffsetCommit"}, (
        "one takes what the other refuses"
    )
    assert len(difference.trail) < 20, "\n".join(report(result))


@pytest.mark.costly
@pytest.mark.slow
def test_a_transaction_that_times_out_is_waited_for_whoever_asked_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stages, "TOO_LATE_S", 60.0)
    result = Result(level=2, seed=1, plays_per_seed=1)
    with our_broker(2) as first_address, our_broker(2) as second_address:
        stage = Stage(
            (first_address, second_address),
            "late",
            transaction_version=2,
            result=result,
            counts_transactions=True,
        )
        producer = Producer("late-id", timeout_ms=SHORT_MS, style="old")
        stage.await_coordinator(producer)
        stage.world.producers.append(producer)
        stage.ask(plain_init(producer))
        topic_partition = stage.world.places[0]
        operation_of_nobody = changes.alter_verification(is_enabled=True)
        assert stage.ask_in_time((right_add(producer, topic_partition), operation_of_nobody))
        stage.close()
    assert producer.state == "CompleteAbort"


# The map


def test_every_place_is_on_the_map_or_there_is_a_reason() -> None:
    assert [map_place for map_place, reason in cells.unreachable().items() if reason is None] == []


def test_every_reason_is_the_reason_of_some_place() -> None:
    reasons_given = Counter(cells.unreachable().values())
    assert [reason for *_, reason in UNREACHABLE if not reasons_given[reason]] == []


def test_the_map_has_every_state_of_every_transactional_request() -> None:
    for api in ("InitProducerId", "AddPartitionsToTxn", "EndTxn", "Produce"):
        map_states = {map_place.state for map_place in cells.demands() if map_place.api == api}
        assert map_states >= set(STATES)


def test_a_visit_that_the_map_does_not_know_is_told() -> None:
    result = Result(level=2, seed=1, plays_per_seed=1)
    end_operation = Operation(api="EndTxn", version=5, flow="new, commit", mode="right", values={})
    result.count(2, end_operation, "Ongoing", {"none"})
    assert not list(cells.cells_off_the_map(result))
    result.count(2, end_operation, "Empty", {"none"})
    (unknown_cell,) = cells.cells_off_the_map(result)
    assert unknown_cell == "EndTxn (new, commit) in Empty: accepted, at level 2 (1 times)"


def test_a_place_that_a_long_play_left_out_is_told() -> None:
    result = Result(level=1, seed=1, plays_per_seed=1)
    unvisited_cells = list(cells.cells_not_visited(result))
    assert len(unvisited_cells) > 100
    visited_cell = Cell(1, "EndTxn", "new, commit", "Ongoing", ACCEPTED)
    result.cells[visited_cell] += 1
    cells_left = list(cells.cells_not_visited(result))
    assert len(cells_left) == len(unvisited_cells) - 1
    assert not any(
        re.match(r"EndTxn \(new, commit\) in Ongoing: accepted", cell_line)
        for cell_line in cells_left
    )


def test_a_long_play_goes_on_until_it_has_been_everywhere_but_not_for_ever() -> None:
    result = Result(level=1, seed=1, plays_per_seed=1)
    for operations, is_everywhere, somewhere_left in (
        (LONG_PLAY - 1, False, False),
        (LONG_PLAY, True, False),
        (2 * LONG_PLAY - 1, True, False),
        (2 * LONG_PLAY, True, True),
    ):
        result.operations = operations
        assert has_ended(result, LONG_PLAY, lambda _: ()) is is_everywhere
        assert has_ended(result, LONG_PLAY, lambda _: ("here",)) is somewhere_left
    result.operations = LONG_PLAY - 1
    assert has_ended(result, LONG_PLAY - 1, cells.cells_not_visited), (
        "a short play goes where it comes to"
    )


def test_the_last_level_goes_where_none_has_been() -> None:
    first_result, last_result = (
        Result(level=transaction_version, seed=1, plays_per_seed=1)
        for transaction_version in (0, 2)
    )
    missing_cells = set(missing_anywhere([first_result], last_result))
    seldom = (map_place for map_place, demand in cells.demands().items() if not demand.required)
    map_place = next(map_place for map_place in seldom if cells.demands()[map_place].somewhere)
    cell_line = f"{map_place.api} ({map_place.flow}) in {map_place.state}: {map_place.outcome}"
    assert cell_line in missing_cells
    first_result.cells[
        Cell(1, map_place.api, map_place.flow, map_place.state, map_place.outcome)
    ] += 1
    assert missing_cells - set(missing_anywhere([first_result], last_result)) == {cell_line}


def test_the_report_tells_the_table_and_the_command() -> None:
    result = Result(level=1, seed=7, plays_per_seed=30)
    end_operation = Operation(api="EndTxn", version=3, flow="old, abort", mode="right", values={})
    result.count(1, end_operation, "Ongoing", {"producer_fenced"})
    text = "\n".join(report(result))
    assert (
        "python -m tests.conformance.random_play --level 1 --operations 1 --seed 7 --plays 30"
        in text
    )
    assert "producer_fenced 1" in text
    report_read = cells.as_json(result)
    assert report_read["operations"] == 1
    assert report_read["cells"][0]["outcome"] == "producer_fenced"
    assert {cell["reason"] for cell in report_read["unreachable"]} == {
        reason for *_, reason in UNREACHABLE
    }
