from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.plans import leaderless_plan, overwriting_plan
from txnsim_lab.simulation import _defaults as defaults
from txnsim_lab.simulation._causes import causes_of
from txnsim_lab.simulation._plan import Act, Plan, Track, World
from txnsim_lab.simulation.drawing import Wanted, draw
from txnsim_lab.simulation.play import play


def test_a_known_anomaly_is_known_by_the_rule_that_heals_it() -> None:
    (cause,) = causes_of(leaderless_plan())
    assert cause.switch == "leaderless_partitions_keep_markers"
    assert cause.healthy
    assert cause.anomalies == ("z27",)
    assert str(cause).startswith("z27 (KAFKA-20734): healthy with")


def test_where_nothing_heals_there_is_no_name() -> None:
    plan = leaderless_plan()
    kept = msgspec.structs.replace(plan.world, rules={"leaderless_partitions_keep_markers": True})
    healthy = msgspec.structs.replace(plan, world=kept)
    assert causes_of(msgspec.structs.replace(healthy, workload=f"{__name__}:fails")) == ()


async def fails(_guest: object) -> None:
    raise AssertionError("whatever the rules are")


def test_what_is_left_out_has_a_name_too() -> None:
    """Seed 287: a program adds no partition, and its record joins the transaction before."""
    (cause,) = causes_of(draw(287))
    assert (cause.habit, cause.anomalies) == ("no-adds", ("z04",))


@pytest.mark.costly
@pytest.mark.slow
def test_a_switch_that_moves_things_in_time_is_no_cause() -> None:
    """Seed 287 as 4.3: a coordinator that waits for replicas only makes the same program later."""
    (cause,) = causes_of(draw(287, Wanted(as_version="4.3")))
    assert cause.name == "z04"


@pytest.mark.costly
@pytest.mark.slow
def test_a_hang_that_has_no_ticket_has_the_name_of_its_story() -> None:
    """Seed 2084 as 4.3: a coordinator answers from records that its next leader never had."""
    (cause,) = causes_of(draw(2084, Wanted(as_version="4.3")))
    assert (cause.switch, cause.anomalies) == ("loads_wait_for_replication", ("z34",))


@pytest.mark.costly
@pytest.mark.slow
def test_a_fence_that_no_copy_learns_is_known() -> None:
    """Seed 17498: the cleaner has emptied the marker that a producer was known by."""
    (cause,) = causes_of(draw(17498))
    assert (cause.switch, cause.healthy) == ("last_markers_stay_whole", True)


@pytest.mark.costly
def test_a_partition_without_a_leader_after_it_was_given_one_replica_is_known() -> None:
    """Seed 617: brokers that a reassignment has taken it from stay eligible, as on a real 4.4.0."""
    (cause,) = causes_of(draw(617))
    assert cause.name == "one-replica"


@pytest.mark.costly
def test_a_run_may_have_several_causes() -> None:
    """Seed 5713: a late commit is answered wrongly, and another one meets no leader."""
    assert {cause.name for cause in causes_of(draw(5713))} == {"z23", "z27"}


@pytest.mark.costly
def test_what_is_healed_may_uncover_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 1639, as it was before members were replaced in it: healthy markers leave time for a
    late commit.
    """
    monkeypatch.setattr(defaults, "REPLACED_MEMBERS", 0)
    assert {cause.name for cause in causes_of(draw(1639))} == {"z23", "z27"}


def with_a_marker(*, plus: int, often: bool) -> Plan:
    """Somebody writes a marker by hand, in some epoch, and commits a transaction then."""
    epoch = {"told": "producer_epoch", "of": "own-id"}
    who = {"producer_id": {"told": "producer_id", "of": "own-id"}, "producer_epoch": epoch}
    marker = {
        **who,
        "producer_epoch": {**epoch, "plus": plus},
        "transaction_result": True,
        "topics": [{"name": "t", "partition_indexes": [0]}],
        "coordinator_epoch": 0,
    }
    timeout = {"transactional_id": "own-id", "transaction_timeout": 10_000}
    added = {
        "v3_and_below_transactional_id": "own-id",
        "v3_and_below_producer_id": who["producer_id"],
        "v3_and_below_producer_epoch": epoch,
        "v3_and_below_topics": [{"name": "t", "partitions": [0]}],
    }
    markers = {"markers": {"each": marker, "times": 2} if often else [marker]}
    end = {"transactional_id": "own-id", **who, "committed": True}
    asked: list[dict[str, Any]] = [
        {"api": "InitProducerId", "fields": timeout},  # asks for a block of producer ids
        {"api": "InitProducerId", "fields": timeout},
        {"api": "WriteTxnMarkers", "version": 1, "to": {"leader": "t-0"}, "fields": markers},
        {"api": "AddPartitionsToTxn", "fields": added},
        {"api": "EndTxn", "fields": end},
    ]
    there = {"version": 0, "to": {"id": "own-id"}}
    acts = [Act({"ask": {**there, **one}}, 2_000, 1) for one in asked]
    topics = {"t": {"partitions": 1, "replication-factor": 1}}
    world = World(mode="V+", brokers=1, settings={}, topics=topics)
    return Plan(seed=1, world=world, tracks=(Track("curious", tuple(acts), on_error="go-on"),))


@pytest.mark.parametrize("often", [False, True])
def test_a_marker_of_an_epoch_that_nobody_was_given_keeps_out_the_coordinators(
    often: bool,
) -> None:
    """Seed 5531: the coordinator gives up at INVALID_PRODUCER_EPOCH, and its id stays decided
    (TransactionMarkerRequestCompletionHandler).
    """
    assert play(with_a_marker(plus=0, often=often)).kinds == ()
    early = with_a_marker(plus=1, often=often)
    assert play(early).kinds == ("stuck-coordinator",)
    (cause,) = causes_of(early)
    assert cause.name == "early-markers"


def test_programs_that_write_the_same_keys_are_known_by_that() -> None:
    (cause,) = causes_of(overwriting_plan())
    assert cause.name == "shared keys"
    assert "Kafka isolates no writers" in str(cause)
