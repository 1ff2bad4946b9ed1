from __future__ import annotations

from tests.support.stories import call, seen, sentences, told, transaction
from txnsim.check.observations import (
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
    assert result.verdict.because == ("find-hanging names [], expected ['t-1']",)


def test_a_transaction_is_aborted_by_its_start() -> None:
    steps = [*GHOST, do("producers", partition="t-0"), do("abort", partition="t-0", start_offset=2)]
    assert "stuck-last-stable-offset" not in told(steps).verdict.observed
    wrong = told([*GHOST, do("abort", partition="t-0", start_offset=1)])
    assert wrong.verdict.because == ("no transaction is open on t-0 since 1",)


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
    assert wrong.verdict.because == ("app is Empty, expected Dead",)
