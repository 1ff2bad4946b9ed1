from __future__ import annotations

from tests.support.stories import call, failure, seen, sentences, told, transaction
from txnsim_lab.check.observations import (
    Aborted,
    Described,
    Initialised,
    Listed,
    Producers,
    Searched,
)

GHOST = [
    call("init-producer-id"),
    *transaction("r1", end="commit"),
    call("produce", partition="t-0", value="ghost"),
]
"""In V- a record behind the end opens a transaction that nobody knows of."""


def do(verb: str, **fields: object) -> dict[str, object]:
    return call(verb, "operator", **fields)


def test_a_hanging_transaction_is_found_and_aborted() -> None:
    cure = [do("find-hanging", names="t-0"), do("abort-found"), do("find-hanging", names=[])]
    runs = {"V-": {"mode": "V-", "verdict": "healthy"}}
    result = told(GHOST, runs=runs, cure=cure)
    assert "stuck-last-stable-offset" in result.verdict.observed
    assert result.cured is not None
    assert "stuck-last-stable-offset" not in result.cured.observed
    assert [len(one.findings) for one in seen(result, Searched)] == [1, 0]
    (aborted,) = seen(result, Aborted)
    assert (aborted.start_offset, aborted.outcome) == (2, "ok")
    assert "find-hanging names t-0: producer 0, epoch 0, open since offset 2" in sentences(result)


def test_it_must_name_what_the_story_says() -> None:
    result = told([*GHOST, do("find-hanging", names="t-1")])
    assert failure(result) == "find-hanging names [], expected ['t-1']"


def test_a_transaction_is_aborted_by_its_start() -> None:
    steps = [*GHOST, do("producers", partition="t-0"), do("abort", partition="t-0", start_offset=2)]
    assert "stuck-last-stable-offset" not in told(steps).verdict.observed
    wrong = told([*GHOST, do("abort", partition="t-0", start_offset=1)])
    assert failure(wrong) == "no transaction is open on t-0 since 1"


def test_an_operator_describes_fences_and_deletes() -> None:
    steps = [
        call("init-producer-id"),
        call("begin"),
        call("add-partitions", partitions="t-0"),
        call("produce", partition="t-0", value="r1"),
        do("describe", transactional_id="app", state="Ongoing"),
        do("describe", transactional_id="nobody", error="TRANSACTIONAL_ID_NOT_FOUND"),
        do("fence", transactional_id="app"),
        call("commit", error="PRODUCER_FENCED"),
        do("delete-records", partition="t-0", before=1),
        do("delete-records", partition="t-0", before=99, error="OFFSET_OUT_OF_RANGE"),
    ]
    result = told(steps)
    assert result.as_declared, result.verdict
    assert "app is Ongoing with t-0" in sentences(result)
    assert [one.who for one in seen(result, Initialised)] == ["P", "operator"]
    for kind in (Described, Listed, Producers):
        assert seen(result, kind)
    wrong = told([call("init-producer-id"), do("describe", transactional_id="app", state="Dead")])
    assert failure(wrong) == "app is Empty, expected Dead"


def test_a_fence_without_an_answer_is_noted() -> None:
    """Whoever is fenced by it has a reason to be (seed 16054 of ``txnsim simulate``)."""
    lose = {"point": "client.request", "api": "InitProducerId", "client_id": "operator"}
    steps = [
        call("init-producer-id"),
        call("begin"),
        {"arm": {"id": "lost", **lose, "action": {"do": "drop-answer"}}},
        do("fence", transactional_id="app", error="any"),
        call("add-partitions", partitions="t-0", error="any"),
        call("produce", partition="t-0", value="r1", error="INVALID_PRODUCER_EPOCH"),
    ]
    result = told(steps, run="TV2+")
    assert result.verdict.observed == (), result.verdict
    assert [one.outcome for one in seen(result, Initialised)] == ["ok", "unknown"]


def test_an_abort_may_name_each_field_of_the_identity() -> None:
    runs = {"V-": {"mode": "V-", "verdict": "healthy"}}
    wrong = do("abort", partition="t-0", start_offset=2, epoch=-1, error="UNKNOWN_SERVER_ERROR")
    stale = do("abort", partition="t-0", start_offset=2, coordinator_epoch=0, error="any")
    other = do("abort", partition="t-0", producer_id=99, epoch=0, coordinator_epoch=0)
    held = {"wait-until": {"open": "t-0"}}
    right = do("abort", partition="t-0", start_offset=2, coordinator_epoch=3)
    result = told([*GHOST, wrong, held, stale, other, held, right], runs=runs)
    assert "stuck-last-stable-offset" not in result.verdict.observed, result.verdict
    assert "ABORT of producer 99, epoch 0, for t-0 is answered NONE" in sentences(result)


def test_an_operator_may_end_it_with_the_marker_that_was_decided() -> None:
    end = do("abort", partition="t-0", start_offset=2, decision="commit")
    look = {"expect": {"partition": "t-0", "committed": ["r1", "ghost"]}}
    assert not failure_of([*GHOST, end, look])


def failure_of(steps: list[dict[str, object]]) -> str:
    result = told(steps)
    return result.verdict.because[0] if "story-failed" in result.verdict.observed else ""


def test_a_named_replica_tells_of_its_producers() -> None:
    lag = {"cluster": {"do": "move-leader", "partition": "t-0", "to": 1}}
    there = do("producers", partition="t-0", broker=2, error="NOT_LEADER_OR_FOLLOWER")
    asked = [
        do("producers", partition="t-0", broker=1, open_since=[2]),
        do("producers", partition="t-0", broker=2, open_since=[2]),
    ]
    assert not failure_of([*GHOST, lag, *asked])
    small = {"t": {"partitions": 1, "replication-factor": 1, "leaders": [1]}}
    one = told([do("producers", partition="t-0", broker=1), there], topics=small)
    assert "story-failed" not in one.verdict.observed, one.verdict
    wrong = told([*GHOST, do("producers", partition="t-0", open_since=[0])])
    assert failure(wrong) == "the leader shows t-0 open since [2], expected [0]"


def test_an_operator_acts_in_the_background() -> None:
    hold = {"hold": {"id": "slow", "point": "client.request", "api": "InitProducerId"}}
    steps = [
        call("init-producer-id"),
        hold,
        do("fence", transactional_id="app", background="fence"),
        {"wait-until": {"struck": "slow"}},
        *transaction("r1"),
        {"release": "slow"},
        {"await": "fence"},
        do("find-hanging", names="t-0", background="search"),
        {"await": "search"},
    ]
    result = told(steps)
    assert failure(result) == "find-hanging names [], expected ['t-0']"


def describe(**fields: object) -> dict[str, object]:
    return do("describe", transactional_id="app", **fields)


def test_a_description_is_held_against_partitions_epoch_and_start() -> None:
    begun = [
        call("init-producer-id"),
        describe(state="Empty", partitions=[], epoch=0, start="none"),
        call("begin"),
        call("add-partitions", partitions=["t-1", "t-0"]),
    ]
    known = describe(state="Ongoing", partitions=["t-0", "t-1"], epoch=0, start="known")
    result = told([*begun, known, call("abort")])
    assert result.as_declared, result.verdict
    for wrong, because in (
        ({"partitions": "t-0"}, "app is with t-0, t-1, expected t-0"),
        ({"epoch": 3}, "app is at epoch 0, expected 3"),
        ({"start": "none"}, "app is begun at a time that is known, expected none"),
    ):
        assert failure(told([*begun, describe(**wrong)])) == because


def test_an_operator_changes_features_and_deletes_groups() -> None:
    version = "transaction.version"
    steps = [
        do("update-feature", name=version, level=0),
        do("update-feature", name=version, level=2),
        do("update-feature", name=version, level=9, error="INVALID_UPDATE_VERSION"),
        call("init-producer-id"),
        call("begin"),
        call("add-offsets", group="g", always=True),
        call("commit-offsets", group="g", offsets={"in-0": 1}),
        call("commit"),
        {"wait-until": {"transaction": {"id": "app", "is": "CompleteCommit"}}},
        {"expect": {"group": "g", "positions": {"in-0": 1}}},
        do("delete-group", group="g"),
        {"expect": {"group": "g", "positions": {"in-0": -1}}},
        do("delete-group", group="g", error="GROUP_ID_NOT_FOUND"),
    ]
    result = told(steps)
    assert result.as_declared, result.verdict
    story = sentences(result)
    assert "operator: feature transaction.version is at level 2, it was at 0" in story
    assert "operator: group g is deleted" in story
    wrong = {"expect": {"group": "g", "positions": {"in-0": 7}}}
    assert failure(told([wrong])) == "the position of group g on in-0 is -1, expected 7"
