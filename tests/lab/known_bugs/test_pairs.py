"""What met in a run is told from its acts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.lab.known_bugs.mutations import MUTATIONS
from tests.lab.known_bugs.pairs import UNABLE, Cast, Table, lasting, met, reason
from tests.lab.known_bugs.run import answers
from txnsim_lab.simulation.play import PlayedAct, quieten

CAST = Cast(groups={"m": "g"}, ids={"w": "x", "p": "y"}, places=("t-0", "u-0"))


def played_act(at_us: int, step: dict[str, Any], error: str = "NONE") -> PlayedAct:
    actor = step.get("call", {}).get("who", "")
    return PlayedAct(
        at_us=at_us, took_us=1, who=actor, step=step, error=error, leaders={}, states={}
    )


def call(at_us: int, actor: str, do: str, *, error: str = "NONE", **call_fields: Any) -> PlayedAct:
    return played_act(at_us, {"call": {"who": actor, "do": do, **call_fields}}, error)


def test_an_act_meets_the_open_transaction_of_somebody_else() -> None:
    all_played_acts = (
        call(0, "w", "produce", partition="t-0"),
        call(10, "p", "produce", partition="t-0"),
        call(20, "w", "produce", partition="u-0", plain=True),
        call(30, "bystander", "append", partition="u-0"),
        call(40, "bystander", "append", partition="t-0", error="NOT_LEADER_OR_FOLLOWER"),
        played_act(50, {"cluster": {"do": "delete-topic", "topic": "t"}}),
        call(60, "w", "commit"),
        call(70, "bystander", "append", partition="t-0"),
        call(80, "p", "abort"),
    )
    assert met(all_played_acts, CAST) == {
        ("open produce", "produce"),
        ("open produce", "cluster delete-topic"),
        ("open produce", "append"),
    }
    without_last = (*all_played_acts[:7], all_played_acts[8])
    assert ("open produce", "append") not in met(without_last, CAST)


def test_a_plain_commit_meets_positions_of_a_transaction() -> None:
    all_played_acts = (
        call(0, "p", "commit-offsets", member="m"),
        call(10, "m", "commit-offsets"),
        call(20, "reader", "read-positions", group="other"),
        call(30, "p", "commit"),
        call(40, "m", "poll"),
    )
    assert met(all_played_acts, CAST) == {("open commit-offsets", "commit-offsets plain")}


def test_a_transaction_is_open_at_its_coordinator_as_well() -> None:
    all_played_acts = (
        call(0, "w", "produce", partition="t-0"),
        call(10, "operator", "fence", **{"transactional-id": "x"}),
        call(20, "operator", "fence", **{"transactional-id": "y"}),
        played_act(30, {"cluster": {"do": "roll", "partition": "__transaction_state@x"}}),
        call(40, "w", "produce", partition="u-0", plain=True),
    )
    assert met(all_played_acts, CAST) == {
        ("open transaction", "fence"),
        ("open transaction", "cluster roll"),
    }


def test_what_a_program_does_for_its_member_is_the_member_s() -> None:
    all_played_acts = (
        call(0, "p", "commit-offsets", member="m"),
        msgspec.structs.replace(call(10, "m", "leave"), who="p"),
    )
    assert met(all_played_acts, CAST) == {("open commit-offsets", "leave")}


def test_a_pair_that_cannot_be_has_its_reason() -> None:
    assert all(reason for *_, reason in UNABLE)
    assert reason("open commit-offsets", "delete-records")
    assert not reason("open commit-offsets", "cluster roll")
    assert not reason("open produce", "delete-records")


def test_what_is_done_to_the_cluster_meets_a_fault_and_a_broker_that_is_away() -> None:
    fault_rule = {"id": "r", "point": "peer.request", "api": "Fetch", "action": {"do": "hold"}}
    all_played_acts = (
        played_act(0, {"arm": fault_rule}),
        played_act(10, {"cluster": {"do": "kill", "broker": 1}}),
        played_act(20, {"disarm": "r"}),
        played_act(30, {"cluster": {"do": "start", "broker": 1}}),
        played_act(40, {"advance": "2s"}),
    )
    assert [
        (condition.what, condition.from_us, condition.until_us)
        for condition in lasting(all_played_acts, CAST)
    ] == [
        ("hold Fetch", 1, 20),
        ("cluster kill", 11, 30),
    ]
    assert met(all_played_acts, CAST) == {("hold Fetch", "cluster kill")}


@pytest.mark.slow
def test_the_table_has_what_met_and_what_did_not() -> None:
    quieten()
    lines = list(Table(range(7, 9)).lines())
    assert any(line.startswith("open ") for line in lines)
    rows = lines[: -len(UNABLE)]
    assert all(line.startswith("    never: ") for line in rows[1::2])
    assert all(line.startswith("can't be: ") for line in lines[len(rows) :])


@pytest.mark.parametrize("bug", ["older-position-wins", "joins-before-the-epoch-s-start"])
def test_what_needs_two_acts_at_once_is_found(bug: str) -> None:
    """A thousand seeds are enough to find each of the bugs."""
    assert bug in MUTATIONS
    (answer,) = (answer for answer in answers() if answer.bug == bug)
    assert answer.found
    assert answer.seeds <= 1_000
