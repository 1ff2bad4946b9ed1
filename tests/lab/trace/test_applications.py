"""What applications believe, against what became of their records."""

from __future__ import annotations

import pytest

from tests.support.small_trace import small
from tests.support.traces import recording_of_run
from txnsim.types import TopicPartition
from txnsim.verdict.judge import VerdictState, judge_cluster
from txnsim_lab.trace._applications import Applications
from txnsim_lab.trace.followed_trace import FollowedTrace

T_0 = TopicPartition("t", 0)
NODES = ("client/app", "broker/1", "broker/1/txn/0", "broker/1/log/t-0")
TX = "app/7:0"


@pytest.mark.parametrize(
    ("name", "run_name", "take_name", "is_by_application"),
    [
        ("z05", "V+", "armed", True),  # lesson L3: a late commit ends the next transaction
        ("z06", "V+", "armed", True),  # lesson L3: a late abort
        ("z21", "TV2", "armed", False),  # a late marker: coordinator and partition contradict
        ("late-produce-joins-next-transaction", "V-", "armed", True),
        ("z05", "V+", "disarmed", None),
        ("z06", "TV2", "armed", None),
        ("z01", "V-", "armed", None),
    ],
)
def test_wrong_data_is_told_of_stories_whose_data_is_wrong(
    name: str, run_name: str, take_name: str, *, is_by_application: bool | None
) -> None:
    facts = FollowedTrace.of_recording(recording_of_run(name, run_name, take_name)).facts()
    assert {wrong_batch.is_by_application for wrong_batch in facts.wrong_data} == (
        set() if is_by_application is None else {is_by_application}
    )
    is_wrong = judge_cluster(facts).state is VerdictState.WRONG_DATA
    assert is_wrong == (is_by_application is not None)


def asked(position: int, end: str, *, error: str = "") -> tuple[object, ...]:
    payload = {"command": "EndTxn", "asked": end, **({"error": error} if error else {})}
    return (NODES[2], "txn.decide", (position,), TX, payload)


def call(name: str) -> tuple[object, ...]:
    return (NODES[0], "client.call", (), "", {"call": name})


def result(position: int, error: str = "NONE") -> tuple[object, ...]:
    return (NODES[0], "client.result", (position,), "", {"call": "x", "error": error})


def appended(position: int, base_offset: int) -> tuple[object, ...]:
    data = {
        "tp": "t-0",
        "pid": 7,
        "epoch": 0,
        "seq": 0,
        "base": base_offset,
        "last": base_offset,
        "txn": True,
    }
    return (NODES[3], "log.append", (position,), TX, data)


def marked(offset: int, *, committed: bool) -> tuple[object, ...]:
    data = {"tp": "t-0", "pid": 7, "epoch": 0, "offset": offset, "committed": committed}
    return (NODES[3], "marker.written", (), TX, data)


def applications(*events: tuple[object, ...]) -> Applications:
    recording = small(NODES, *events)
    followed_applications = Applications()
    for event in recording.events:
        followed_applications.follow(event, recording.nodes[event.n])
    return followed_applications


PRODUCED = (call("produce"), appended(0, 0), call("end"))


def test_what_was_asked_is_what_was_sent_and_not_the_state_that_it_met() -> None:
    """The page once told a commit that met CompleteAbort as "it asked to abort"."""
    followed_applications = applications(
        *PRODUCED,
        asked(2, "commit", error="INVALID_PRODUCER_EPOCH"),
        result(2, "INVALID_TXN_STATE"),
    )
    view = followed_applications.view_of("app")
    assert view is not None
    assert view.sentence == "The application asked to commit, and got INVALID_TXN_STATE."
    unanswered_view = applications(*PRODUCED, asked(2, "commit")).view_of("app")
    assert unanswered_view is not None
    assert unanswered_view.sentence == "The application asked to commit, and has no answer."
    open_view = applications(*PRODUCED).view_of("app")
    assert open_view is not None
    assert open_view.sentence == "The application has not asked to end it."
    assert [(move.at, move.text) for move in open_view.moves] == [(0, "open")]


def test_a_transaction_of_an_application_begins_with_its_first_request_after_the_last_end() -> None:
    ended_events = (*PRODUCED, asked(2, "commit"), result(2))
    view = applications(*ended_events).view_of("app")
    assert view is not None
    assert [(move.at, move.text) for move in view.moves] == [
        (0, "open"), (2, "asks to commit"), (4, "committed ✓"),
    ]  # fmt: skip
    next_view = applications(*ended_events, call("produce"), appended(5, 2), call("x")).view_of(
        "app"
    )
    assert next_view is not None
    assert [(move.at, move.text) for move in next_view.moves] == [(5, "open")]
    init = (NODES[2], "txn.decide", (5,), TX, {"command": "InitProducerId"})
    refused_events = (*PRODUCED, asked(2, "commit"), result(2, "INVALID_PRODUCER_EPOCH"))
    new_applications = applications(
        *refused_events, call("init"), init, call("produce"), appended(7, 2)
    )
    new_view = new_applications.view_of("app")
    assert new_view is not None
    assert [(move.at, move.text) for move in new_view.moves] == [(7, "open")]


def test_an_answer_that_contradicts_the_marker_is_wrong_data() -> None:
    followed_applications = applications(
        *PRODUCED, asked(2, "commit"), result(2), marked(1, committed=False)
    )
    (wrong_batch,) = followed_applications.wrong_data()
    assert (wrong_batch.partition, wrong_batch.offset, wrong_batch.is_commit) == (T_0, 1, True)
    followed_applications.forget_partition("t-0")
    assert list(followed_applications.wrong_data()) == []


@pytest.mark.parametrize(
    "events",
    [
        pytest.param((asked(2, "commit"), marked(1, committed=False)), id="no-answer"),
        pytest.param(
            (asked(2, "commit"), result(2, "ERROR"), marked(1, committed=False)), id="an-error"
        ),
        pytest.param(
            (asked(2, "abort"), result(2), marked(1, committed=False)), id="as-it-was-answered"
        ),
        pytest.param(
            (
                asked(2, "commit"),
                call("init"),
                (NODES[2], "txn.decide", (4,), TX, {"command": "InitProducerId"}),
                call("end"),
                asked(6, "abort"),
                result(6),
                marked(1, committed=True),
            ),
            id="it-began-anew",
        ),
        pytest.param(
            (
                asked(2, "commit"),
                call("produce"),
                appended(4, 1),
                call("end"),
                asked(6, "abort"),
                result(6),
                marked(2, committed=False),
            ),
            id="it-went-on-without-an-answer",
        ),
    ],
)
def test_what_it_does_not_know_is_no_contradiction(events: tuple[tuple[object, ...], ...]) -> None:
    assert list(applications(*PRODUCED, *events).wrong_data()) == []


def test_a_record_that_comes_late_belongs_to_the_transaction_that_sent_it() -> None:
    late_events = (
        *PRODUCED,
        call("late"),
        call("end"),
        asked(4, "abort"),
        result(4),
        marked(1, committed=False),
        appended(3, 2),
        marked(3, committed=True),
    )
    (wrong_batch,) = applications(*late_events).wrong_data()
    assert (wrong_batch.offset, wrong_batch.is_commit) == (3, False)


def test_a_foreign_client_is_known_by_its_requests() -> None:
    request = (NODES[1], "msg.recv", (), "", {"api": "EndTxn", "peer": "client/x"})
    answer = (NODES[1], "msg.send", (2,), "", {"api": "EndTxn", "response": True})
    produce_event = (NODES[1], "msg.recv", (), "", {"api": "Produce", "peer": "client/x"})
    followed_applications = applications(
        produce_event,
        appended(0, 0),
        request,
        asked(2, "commit"),
        answer,
        marked(1, committed=False),
    )
    (wrong_batch,) = followed_applications.wrong_data()
    assert wrong_batch.is_commit
    followed_applications.forget_all()
    assert followed_applications.view_of("app") is None


def test_what_is_forgotten_is_not_settled() -> None:
    followed_applications = applications(*PRODUCED, asked(2, "commit"))
    followed_applications.forget(3)
    assert followed_applications.asked_end_by_request == {}
    assert all(
        not application.records for application in followed_applications.applications.values()
    )
