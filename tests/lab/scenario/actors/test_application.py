from __future__ import annotations

from typing import Any

import pytest

from tests.support.stories import call, observations_of, play_steps
from txnsim.errors import ConfigError
from txnsim_lab.check.observations import Began, Ended, Wrote

ACTORS = {"A": {"plays": "application", "transactional-id": "app", "client-id": "shop"}}
HOLD = {"hold": {"id": "late", "point": "client.request", "api": "Produce", "client_id": "shop"}}


def application_step(verb: str, **step_fields: Any) -> dict[str, Any]:
    return call(verb, "A", **step_fields)


def test_an_application_commits_and_aborts() -> None:
    steps: list[dict[str, Any]] = [
        application_step("begin", transaction="first"),
        application_step("send", partition="t-0", value="r1"),
        application_step("send", partition="t-1", value="r2", item="x"),
        application_step("await-ack"),
        application_step("commit"),
        application_step("begin"),
        application_step("send", partition="t-0", value="r3"),
        application_step("await-ack"),
        application_step("abort"),
    ]
    for run_name in ("V-", "TV2+"):
        result = play_steps(steps, run_name=run_name, actors=ACTORS)
        assert result.as_declared, result.verdict
        assert result.players == ("own client",)
        assert [observation.transaction for observation in observations_of(result, Began)] == [
            "first",
            "A.T2",
        ]
        assert [observation.item for observation in observations_of(result, Wrote)] == [
            "r1",
            "x",
            "r3",
        ]
        assert [observation.commit for observation in observations_of(result, Ended)] == [
            True,
            False,
        ]


def test_who_gives_up_on_a_record_does_not_know_what_became_of_it() -> None:
    steps: list[dict[str, Any]] = [
        application_step("begin"),
        HOLD,
        application_step("send", partition="t-0", value="r1"),
        {"wait-until": {"struck": "late"}},
        application_step("give-up"),
        application_step("commit", error="any"),
        application_step("abort"),
    ]
    result = play_steps(steps, run_name="V+", actors=ACTORS)
    assert result.verdict.observed == ()
    assert [observation.outcome for observation in observations_of(result, Wrote)] == ["unknown"]
    assert [observation.outcome for observation in observations_of(result, Ended)] == [
        "failed",
        "ok",
    ]


@pytest.mark.parametrize("run_name", ["V+", "TV2+"])
def test_a_commit_whose_answer_is_lost_is_no_abort_because_the_next_one_is_refused(
    run_name: str,
) -> None:
    """The coordinator has it, and its markers are late: CONCURRENT_TRANSACTIONS until time is up.
    Readers see the record afterwards, as they should (seed 8717 of ``txnsim simulate``).
    """
    markers = {"id": "markers", "point": "peer.request", "api": "WriteTxnMarkers", "topic": "t"}
    lose = {"point": "client.request", "api": "EndTxn", "action": {"do": "drop-answer"}}
    steps: list[dict[str, Any]] = [
        application_step("begin"),
        application_step("send", partition="t-0", value="r1"),
        application_step("await-ack"),
        {"hold": markers},
        {"arm": {"id": "lost", "limit": 1, **lose}},
        application_step("commit", error="CONCURRENT_TRANSACTIONS"),
        {"release": "markers"},
        {"wait-until": {"transaction": {"id": "app", "is": "CompleteCommit"}}},
    ]
    result = play_steps(steps, run_name=run_name, actors=ACTORS)
    assert result.verdict.observed == (), result.verdict
    assert [observation.outcome for observation in observations_of(result, Ended)] == ["unknown"]


def test_what_was_never_asked_about_is_unknown_and_a_prompt_answer_is_no_delay() -> None:
    open_end = [application_step("begin"), application_step("send", partition="t-0", value="r1")]
    result = play_steps(open_end, run_name="V+", actors=ACTORS)
    assert [observation.outcome for observation in observations_of(result, Wrote)] == ["unknown"]
    prompt_result = play_steps(
        [*open_end, application_step("give-up")], run_name="V+", actors=ACTORS
    )
    assert "acknowledged though its request is held" in prompt_result.verdict.because[0]


def test_an_answer_to_nothing_can_t_be_waited_for() -> None:
    """A story that was cut down once had such a step (seed 396 of ``txnsim simulate``)."""
    with pytest.raises(ConfigError, match="A: await-ack, but nothing was sent"):
        play_steps(
            [application_step("begin"), application_step("await-ack")], run_name="V+", actors=ACTORS
        )
