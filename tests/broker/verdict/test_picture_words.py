"""Sentences of pictures and views: who asked for what, what is owed, what groups hold."""

from __future__ import annotations

import pytest

from txnsim.types import TopicPartition
from txnsim.verdict.facts import MarkerSending, OwedMarkerFacts
from txnsim.verdict.words import (
    ShareStanding,
    StreamsMember,
    application_request,
    application_sentence,
    application_status,
    coordinator_sentence,
    marker_status,
    pending_position_sentence,
    repeated_marker_reason,
    share_group_sentence,
    streams_member_sentence,
    unrecorded_sentence,
)


@pytest.mark.parametrize(
    ("asked", "answer_text", "sentence", "status"),
    [
        (None, None, "The application has not asked to end it.", "open"),
        (
            "abort",
            None,
            "The application asked to abort, and has no answer.",
            "asked to abort, no answer",
        ),
        (
            "commit",
            "NONE",
            "The application asked to commit, and knows that it is committed.",
            "committed ✓",
        ),
        (
            "abort",
            "NONE",
            "The application asked to abort, and knows that it is aborted.",
            "aborted ✓",
        ),
        (
            "commit",
            "PRODUCER_FENCED",
            "The application asked to commit, and got PRODUCER_FENCED.",
            "asked to commit, got PRODUCER_FENCED",
        ),
    ],
)
def test_an_application_is_known_by_what_it_asked_and_was_answered(
    asked: str | None, answer_text: str | None, sentence: str, status: str
) -> None:
    assert application_sentence(asked, answer_text) == sentence
    assert application_status(asked, answer_text) == status


def test_what_is_not_recorded_is_said() -> None:
    assert application_request("abort") == "asks to abort"
    assert "began before the recording" in unrecorded_sentence(is_open=True)
    assert unrecorded_sentence(is_open=False) == "Its application has begun no transaction."


@pytest.mark.parametrize(
    ("state", "owed_count", "was_last_committed", "sentence"),
    [
        ("Ongoing", 0, None, "app is open"),
        ("PrepareEpochFence", 0, None, "app is being fenced"),
        ("PrepareCommit", 1, None, "app is decided: commit; its marker is owed"),
        ("PrepareAbort", 3, None, "app is decided: abort; 3 markers are owed"),
        ("CompleteCommit", 0, True, "app is over: committed; no marker is owed"),
        ("CompleteAbort", 0, False, "app is over: aborted; no marker is owed"),
        ("Empty", 0, True, "app is over: committed; no marker is owed"),
        ("Empty", 0, False, "app is over: aborted; no marker is owed"),
        ("Empty", 0, None, "app has begun no transaction"),
    ],
)
def test_a_coordinator_is_told_by_its_state_and_what_it_owes(
    state: str, owed_count: int, was_last_committed: bool | None, sentence: str
) -> None:
    told_sentence = coordinator_sentence(
        "app", state, owed_count=owed_count, is_last_commit=was_last_committed
    )
    assert told_sentence == sentence


def test_each_way_to_owe_a_marker_has_its_own_words() -> None:
    statuses = [
        marker_status(
            OwedMarkerFacts(
                transactional_id="app",
                partition=TopicPartition("orders", 0),
                is_commit=True,
                sending=sending,
                held_by="rule-1",
            )
        )
        for sending in MarkerSending
    ]
    assert len(set(statuses)) == len(MarkerSending)
    assert "held by rule-1" in statuses
    assert repeated_marker_reason(is_of_later_coordinator=True) != repeated_marker_reason(
        is_of_later_coordinator=False
    )


def standing(
    *, held: tuple[str, ...] = (), waits_at: int | None = None, is_served: bool = True
) -> ShareStanding:
    return ShareStanding(
        group_id="g",
        start_offset=2,
        next_offset=9,
        held=held,
        waits_at=waits_at,
        is_served=is_served,
    )


@pytest.mark.parametrize(
    ("group", "sentence"),
    [
        (standing(), "share group g: start offset 2, next 9 · no record is held"),
        (
            standing(held=("2-4:m",), waits_at=5),
            "share group g: start offset 2, waits at 5 · held: 2-4 by m",
        ),
        (
            standing(held=("2-4:m", "5-5:n", "7-7:n"), is_served=False),
            "share group g (last known: no broker serves it): start offset 2, next 9 · held: 2-4 by"
            " m and 2 more",
        ),
    ],
)
def test_a_share_group_holds_and_waits(group: ShareStanding, sentence: str) -> None:
    assert share_group_sentence(group) == sentence


def member(
    *,
    active: tuple[str, ...] = (),
    standby: tuple[str, ...] = (),
    warmup: tuple[str, ...] = (),
    revoked: tuple[str, ...] = (),
    state: str = "STABLE",
) -> StreamsMember:
    return StreamsMember(
        member_id="m", active=active, standby=standby, warmup=warmup, revoked=revoked, state=state
    )


@pytest.mark.parametrize(
    ("streams_member", "is_served", "sentence"),
    [
        (member(), True, "m has no task"),
        (
            member(active=("0_0", "0_1"), standby=("0_2",), warmup=("0_3",)),
            True,
            "m runs 0_0, 0_1; keeps a standby of 0_2; warms up 0_3",
        ),
        (member(active=("0_0",), revoked=("0_1",)), True, "m runs 0_0; has to give up 0_1 first"),
        (
            member(state="UNRELEASED_TASKS"),
            False,
            "m waits for tasks that another member has to give up (last known: no broker serves"
            " it)",
        ),
    ],
)
def test_a_streams_member_holds_and_waits(
    streams_member: StreamsMember, is_served: bool, sentence: str
) -> None:
    assert streams_member_sentence(streams_member, is_served=is_served) == sentence


def test_a_pending_position_is_said_to_be_in_a_transaction() -> None:
    sentence = pending_position_sentence("orders-0", 5)
    assert sentence == "position 5 of orders-0 is in a transaction that is not over"
