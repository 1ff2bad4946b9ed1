"""What comes after a finding: its cause, a shorter plan, a report."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time  # noqa: TID251 - measures CPU time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.hand_made_plans import leaderless_plan, overwriting_plan
from txnsim.errors import ConfigError
from txnsim_lab.simulation import _defaults as defaults
from txnsim_lab.simulation import seed_batch
from txnsim_lab.simulation._causes import causes_of
from txnsim_lab.simulation._shrinking import shrink, with_own_keys, with_switch
from txnsim_lab.simulation.differential import difference, other_plan
from txnsim_lab.simulation.drawing import SimulationOptions, draw
from txnsim_lab.simulation.plan import Act, Plan, Track, World
from txnsim_lab.simulation.play import OVER_LIMIT_KIND, OverLimitError, play, processor_limit
from txnsim_lab.simulation.seed_batch import RowFile, SeedRow, SeedTally, in_pool, row_of, rows


def test_a_known_anomaly_is_known_by_the_rule_that_heals_it() -> None:
    (cause,) = causes_of(leaderless_plan())
    assert cause.switch == "leaderless_partitions_keep_markers"
    assert cause.healthy
    assert cause.anomalies == ("z27",)
    assert str(cause).startswith("z27 (KAFKA-20734): healthy with")


@pytest.mark.costly
def test_a_share_group_whose_locks_lie_on_aborted_records_is_z36() -> None:
    (cause,) = causes_of(draw(10461))
    assert cause.anomalies == ("z36",)
    assert str(cause).endswith("healthy without few record locks")


@pytest.mark.costly
def test_where_nothing_heals_there_is_no_name() -> None:
    plan = leaderless_plan()
    world_with_switch = msgspec.structs.replace(
        plan.world, rules={"leaderless_partitions_keep_markers": True}
    )
    healthy_plan = msgspec.structs.replace(plan, world=world_with_switch)
    assert causes_of(msgspec.structs.replace(healthy_plan, workload=f"{__name__}:fails")) == ()


async def fails(_guest: object) -> None:
    raise AssertionError("whatever the rules are")


@pytest.mark.costly
def test_what_is_left_out_has_a_name_too() -> None:
    """Seed 287: a program adds no partition, and its record joins the transaction before."""
    (cause,) = causes_of(draw(287))
    assert (cause.habit, cause.anomalies) == ("no-adds", ("z04",))


@pytest.mark.costly
@pytest.mark.slow
def test_a_switch_that_moves_things_in_time_is_no_cause() -> None:
    """Seed 287 as 4.3: a coordinator that waits for replicas only makes the same program later."""
    (cause,) = causes_of(draw(287, SimulationOptions(as_version="4.3")))
    assert cause.name == "z04"


@pytest.mark.costly
@pytest.mark.slow
def test_a_hang_that_has_no_ticket_has_the_name_of_its_story() -> None:
    """Seed 2084 as 4.3: a coordinator answers from records that its next leader never had."""
    (cause,) = causes_of(draw(2084, SimulationOptions(as_version="4.3")))
    assert (cause.switch, cause.anomalies) == ("loads_wait_for_replication", ("z34",))


@pytest.mark.costly
@pytest.mark.slow
def test_a_fence_that_no_copy_learns_is_known() -> None:
    """Seed 17498: the cleaner has emptied the marker that a producer was known by."""
    (cause,) = causes_of(draw(17498))
    assert (cause.switch, cause.healthy) == ("last_markers_stay_whole", True)


@pytest.mark.costly
def test_a_partition_without_a_leader_after_it_was_given_one_replica_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 617, as it was before it had members of streams groups: brokers that a reassignment has
    taken it from stay eligible, as on a real 4.4.0.
    """
    monkeypatch.setattr(defaults, "STREAMS_GROUPS_SHARE", 0)
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
    monkeypatch.setattr(defaults, "REPLACED_MEMBERS_SHARE", 0)
    assert {cause.name for cause in causes_of(draw(1639))} == {"z23", "z27"}


def with_a_marker(*, plus: int, is_repeated: bool) -> Plan:
    """A plan in which an operator writes a marker by hand, and then commits a transaction."""
    epoch = {"told": "producer_epoch", "of": "own-id"}
    identity_fields = {
        "producer_id": {"told": "producer_id", "of": "own-id"},
        "producer_epoch": epoch,
    }
    marker = {
        **identity_fields,
        "producer_epoch": {**epoch, "plus": plus},
        "transaction_result": True,
        "topics": [{"name": "t", "partition_indexes": [0]}],
        "coordinator_epoch": 0,
    }
    timeout = {"transactional_id": "own-id", "transaction_timeout": 10_000}
    add_fields = {
        "v3_and_below_transactional_id": "own-id",
        "v3_and_below_producer_id": identity_fields["producer_id"],
        "v3_and_below_producer_epoch": epoch,
        "v3_and_below_topics": [{"name": "t", "partitions": [0]}],
    }
    markers = {"markers": {"each": marker, "times": 2} if is_repeated else [marker]}
    end = {"transactional_id": "own-id", **identity_fields, "committed": True}
    requests: list[dict[str, Any]] = [
        {"api": "InitProducerId", "fields": timeout},  # asks for a block of producer ids
        {"api": "InitProducerId", "fields": timeout},
        {"api": "WriteTxnMarkers", "version": 1, "to": {"leader": "t-0"}, "fields": markers},
        {"api": "AddPartitionsToTxn", "fields": add_fields},
        {"api": "EndTxn", "fields": end},
    ]
    ask_fields = {"version": 0, "to": {"id": "own-id"}}
    acts = [Act({"ask": {**ask_fields, **request}}, 2_000, 1) for request in requests]
    topics = {"t": {"partitions": 1, "replication-factor": 1}}
    world = World(mode="V+", brokers=1, settings={}, topics=topics)
    return Plan(seed=1, world=world, tracks=(Track("curious", tuple(acts), on_error="go-on"),))


@pytest.mark.parametrize("is_repeated", [False, True])
def test_a_marker_of_an_epoch_that_nobody_was_given_keeps_out_the_coordinators(
    is_repeated: bool,
) -> None:
    """Seed 5531: the coordinator gives up at INVALID_PRODUCER_EPOCH, and its id stays decided
    (TransactionMarkerRequestCompletionHandler).
    """
    assert play(with_a_marker(plus=0, is_repeated=is_repeated)).kinds == ()
    early_plan = with_a_marker(plus=1, is_repeated=is_repeated)
    assert play(early_plan).kinds == ("stuck-coordinator",)
    (cause,) = causes_of(early_plan)
    assert cause.name == "early-markers"


def test_programs_that_write_the_same_keys_are_known_by_that() -> None:
    (cause,) = causes_of(overwriting_plan())
    assert cause.name == "shared keys"
    assert "Kafka isolates no writers" in str(cause)


TINY_S = 0.02


def endless() -> None:
    while True:
        pass


def endless_to_the_last() -> None:
    try:
        endless()
    finally:
        endless()


def test_what_goes_on_for_ever_ends() -> None:
    with pytest.raises(OverLimitError), processor_limit(TINY_S):
        endless()


def test_cleaning_up_may_not_go_on_for_ever_either() -> None:
    with pytest.raises(OverLimitError), processor_limit(TINY_S, repeat_s=TINY_S):
        endless_to_the_last()


class SlowObject:
    """An object whose deletion takes longer than the limit."""

    def __del__(self) -> None:
        began_s = time.process_time()
        while time.process_time() - began_s < 3 * TINY_S:
            pass


def test_an_exception_that_a_finalizer_would_swallow_comes_behind_it() -> None:
    def busy() -> None:
        SlowObject()
        endless()

    with pytest.raises(OverLimitError), processor_limit(TINY_S, repeat_s=60):
        busy()


def test_other_threads_have_no_limit() -> None:
    end_flags: list[bool] = []

    def work() -> None:
        with processor_limit(TINY_S):
            end_flags.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert end_flags == [True]


async def stubborn(_guest: object) -> None:
    try:
        endless()
    except OverLimitError:
        raise AssertionError("what was cut off is not as it was expected") from None


@pytest.mark.costly
def test_a_run_that_ends_with_another_error_is_over_its_limit_all_the_same() -> None:
    plan = msgspec.structs.replace(leaderless_plan(), workload=f"{__name__}:stubborn")
    assert OVER_LIMIT_KIND in play(plan, cpu_s=0.5).kinds


def test_a_coroutine_that_was_made_and_not_begun_is_no_warning() -> None:
    async def never() -> None: ...

    def struck() -> object:
        coroutine = never()
        while True:
            sum(range(1_000))
        return coroutine

    with pytest.raises(OverLimitError), processor_limit(0.01):
        struck()


@pytest.mark.costly
def test_a_run_over_its_limit_is_a_finding_and_the_next_run_is_as_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = leaderless_plan()
    lone_digest = play(plan).digest
    assert OVER_LIMIT_KIND in play(plan, cpu_s=0.001).kinds
    assert play(plan, cpu_s=60).digest == lone_digest
    monkeypatch.setattr(seed_batch, "draw", lambda seed, wanted_plan: plan)
    row = row_of(7, SimulationOptions(), cpu_s=0.001)
    assert (row.seed, row.kinds, row.digest, row.mode) == (7, (OVER_LIMIT_KIND,), "", "TV2+")
    assert row.because == ("over-limit: it took more than 0.001 s of processor time",)


SEEDS = range(3)
BEFORE = os.environ.get("PYTHONHASHSEED")


def without_cpu_time(rows_found: list[SeedRow]) -> list[SeedRow]:
    """The rows without processor times, which differ between machines."""
    return sorted(
        (msgspec.structs.replace(row, cpu_ms=0) for row in rows_found), key=lambda row: row.seed
    )


@pytest.mark.costly
def test_several_processes_come_to_the_same() -> None:
    rows_of_one_process = without_cpu_time([*rows(SEEDS, SimulationOptions(), process_count=1)])
    assert rows_of_one_process == without_cpu_time(
        [*rows(SEEDS, SimulationOptions(), process_count=2)]
    )
    assert [row.seed for row in rows_of_one_process] == [*SEEDS]


@pytest.mark.costly
def test_no_more_is_begun_once_it_is_time() -> None:
    rows_found: list[SeedRow] = []
    for row in rows(SEEDS, SimulationOptions(), process_count=1, goes_on=lambda: not rows_found):
        rows_found.append(row)
    assert len(rows_found) == 1


def test_a_file_of_rows_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = row_of(2, SimulationOptions())
    with RowFile(path, SimulationOptions()) as file:
        assert file.rows == {}
        file.add(row)
    with path.open("ab") as cut_file:
        cut_file.write(b'{"seed": 3, "kin')
    with RowFile(path, SimulationOptions()) as file:
        assert file.rows == {2: row}
        file.add(msgspec.structs.replace(row, seed=3))
    assert [*RowFile(path, SimulationOptions()).rows] == [2, 3]


def test_rows_of_other_runs_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with RowFile(path, SimulationOptions()):
        pass
    with pytest.raises(ConfigError, match="rows of other runs"):
        RowFile(path, SimulationOptions(as_version="4.2"))


def test_a_tally_says_what_was_not_exercised() -> None:
    tally = SeedTally()
    assert tally.idle == "no seed was played"
    row = row_of(2, SimulationOptions())
    tally.add(msgspec.structs.replace(row, committed=0, struck=1))
    assert tally.idle == "no transaction was committed"
    tally.add(msgspec.structs.replace(row, committed=1, struck=1))
    assert tally.idle is None
    assert tally.seed_count == 2


@pytest.mark.costly
def test_hashes_of_strings_repeat_in_other_processes() -> None:
    texts: Any = ["orders", "payments"]
    hashes = [*in_pool(hash, texts, process_count=1)]
    program = f"print(*map(hash, {texts}))"
    process = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert hashes == [*map(int, process.stdout.split())]
    assert os.environ.get("PYTHONHASHSEED") == BEFORE


SWITCH = "leaderless_partitions_keep_markers"


def test_the_first_answer_that_differs_is_told() -> None:
    plan = leaderless_plan(as_version="4.2")
    comparison = difference(plan, other_plan(plan, ["transaction.max.timeout.ms=1000"]))
    words_of_a, _, words_of_b = comparison.sentence.partition(
        " s, when p asks for an identity: A answers NONE "
    )
    assert words_of_a.startswith("They part at 0.")
    assert ", B answers INVALID_TRANSACTION_TIMEOUT after " in words_of_b
    assert not comparison.is_none
    assert comparison.inside is not None


@pytest.mark.costly
def test_a_bug_that_no_client_hears_of_is_told_by_the_judges() -> None:
    plan = leaderless_plan(as_version="4.3")
    for against in (["4.2"], [f"{SWITCH}=on"]):
        comparison = difference(plan, other_plan(plan, against))
        assert not comparison.is_none
        assert "stuck-last-stable-offset" in comparison.left_run.kinds
        assert comparison.right_run.kinds == ()
        assert comparison.inside is not None


@pytest.mark.costly
def test_the_same_cluster_makes_no_difference() -> None:
    plan = leaderless_plan(as_version="4.2")
    comparison = difference(plan, other_plan(plan, [f"{SWITCH}=on"]))
    assert comparison.is_none
    assert comparison.sentence == "All clients are answered alike, and the judges say the same."


def test_only_the_cluster_is_another() -> None:
    plan = draw(3, SimulationOptions(as_version="4.3", rules={SWITCH: False}))
    changed_plan = other_plan(plan, ["3.9", "log.segment.ms=9000", f"{SWITCH}=on"])
    assert changed_plan.tracks == plan.tracks
    assert changed_plan.seed == plan.seed
    assert changed_plan.world.as_version == "3.9"
    assert changed_plan.world.mode in ("V+", "V-")
    assert changed_plan.world.rules == {SWITCH: True}
    assert changed_plan.world.settings == {**plan.world.settings, "log.segment.ms": 9_000}


@pytest.mark.parametrize(
    ("against", "complaint"),
    [
        ("9.9", "there is no release"),
        (f"{SWITCH}=maybe", "=on or"),
        ("leaderless=on", "leaderless"),
    ],
)
def test_what_makes_no_sense_is_refused(against: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        other_plan(leaderless_plan(), [against])


SHRINKING_SWITCH = ("leaderless_partitions_keep_markers", True)
KINDS = ("lost-write", "stuck-last-stable-offset", "torn-transaction")


def done_in(plan: Plan) -> list[str]:
    bodies = [act.step for track in plan.tracks for act in track.acts]
    return [next(iter(step.values()))["do"] for step in bodies]


@pytest.mark.costly
def test_what_a_finding_does_not_need_is_left_out() -> None:
    shrunk_plan = shrink(leaderless_plan(), KINDS, switch=SHRINKING_SWITCH)
    assert set(shrunk_plan.run.kinds) <= set(KINDS)
    assert done_in(shrunk_plan.plan) == ["init-producer-id", "produce", "commit", "kill"]
    assert shrunk_plan.plan.world.settings == {}
    assert [*shrunk_plan.plan.world.topics] == ["t"]


def test_it_stops_after_so_many_tries() -> None:
    shrunk_plan = shrink(leaderless_plan(), KINDS, tries_max=1)
    assert shrunk_plan.try_count == 1
    assert shrunk_plan.plan.size >= 9


def test_a_healthy_run_can_t_be_shrunk() -> None:
    with pytest.raises(ConfigError, match="nothing to shrink"):
        shrink(leaderless_plan(as_version="4.2"), KINDS)


def test_a_switch_is_one_more_of_the_plan() -> None:
    assert with_switch(leaderless_plan(), *SHRINKING_SWITCH).world.rules == {
        SHRINKING_SWITCH[0]: True
    }


def test_with_own_keys_a_circle_within_one_program_stays() -> None:
    plan_with_own_keys = with_own_keys(overwriting_plan())
    keys = [act.step["call"]["key"] for act in plan_with_own_keys.acts if "key" in act.step["call"]]
    assert keys == ["p.k1", "p.k2", "q.k2", "q.k1"]
    assert with_own_keys(leaderless_plan()) == leaderless_plan()
