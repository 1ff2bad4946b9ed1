"""Share sessions: their epochs, what an answer names, what a closed connection gives back."""

from __future__ import annotations

import pytest

from txnsim.errors import ErrorCode, Rejection
from txnsim.share.sessions import (
    PartitionNews,
    SessionDeparture,
    SessionKey,
    SharedPartition,
    ShareSession,
    ShareSessions,
    next_session_epoch,
)

A = SessionKey("group", "a")
B = SessionKey("group", "b")
P0, P1, P2 = (SharedPartition("topic-id", partition) for partition in range(3))
NONE: dict[SharedPartition, str | None] = {}
SILENT = PartitionNews(has_records=False)
RECORDS = PartitionNews(has_records=True)
FAILED = PartitionNews(has_records=False, error=3)


def open_session(
    sessions: ShareSessions,
    key: SessionKey = A,
    connection: str = "c",
    *partitions: SharedPartition,
    limit: int = 2,
) -> ShareSession | Rejection:
    return sessions.open(
        key,
        connection,
        dict.fromkeys(partitions or (P0, P1), "orders"),
        session_limit=limit,
        has_acknowledgements=False,
    )


def error(answer: object) -> ErrorCode | None:
    return answer.error if isinstance(answer, Rejection) else None


def session_of(answer: ShareSession | Rejection) -> ShareSession:
    assert isinstance(answer, ShareSession)
    return answer


@pytest.mark.parametrize(("epoch", "next_epoch"), [(0, 1), (1, 2), (2**31 - 1, 1)])
def test_epochs_wrap_around(epoch: int, next_epoch: int) -> None:
    assert next_session_epoch(epoch) == next_epoch


@pytest.mark.parametrize(
    ("epoch", "fetch_error", "acknowledge_error"),
    [
        (-1, ErrorCode.invalid_share_session_epoch, None),
        (0, ErrorCode.invalid_share_session_epoch, ErrorCode.invalid_share_session_epoch),
        (1, None, None),
        (2, ErrorCode.invalid_share_session_epoch, ErrorCode.invalid_share_session_epoch),
    ],
)
def test_epochs_of_a_session(
    epoch: int, fetch_error: ErrorCode | None, acknowledge_error: ErrorCode | None
) -> None:
    sessions = ShareSessions()
    session = session_of(open_session(sessions))
    assert error(sessions.acknowledge(A, epoch)) is acknowledge_error
    session.epoch = 1
    assert error(sessions.resume(A, epoch, NONE, ())) is fetch_error
    assert session.epoch == (1 if fetch_error else 2)


@pytest.mark.parametrize("epoch", [-1, 1, 5])
def test_no_session(epoch: int) -> None:
    sessions = ShareSessions()
    assert error(sessions.acknowledge(A, epoch)) is ErrorCode.share_session_not_found
    assert error(sessions.resume(A, epoch, NONE, ())) is ErrorCode.share_session_not_found
    assert error(sessions.find(A)) is ErrorCode.share_session_not_found
    assert error(sessions.end(A)) is ErrorCode.share_session_not_found


def test_a_session_is_not_opened_with_acknowledgements() -> None:
    sessions = ShareSessions()
    rejection = sessions.open(A, "c", NONE, session_limit=1, has_acknowledgements=True)
    assert error(rejection) is ErrorCode.invalid_request


def test_the_limit_of_sessions() -> None:
    sessions = ShareSessions()
    open_session(sessions, A, "1", limit=1)
    assert error(open_session(sessions, B, "2", limit=1)) is ErrorCode.share_session_limit_reached
    session_of(open_session(sessions, A, "1", limit=1))  # its own place
    assert len(sessions) == 1
    assert error(open_session(sessions, A, "1", limit=0)) is ErrorCode.share_session_limit_reached
    assert len(sessions) == 0


def test_a_session_is_ended_once() -> None:
    sessions = ShareSessions()
    session = session_of(open_session(sessions))
    assert sessions.find(A) is session
    assert sessions.partition_count == 2
    assert sessions.end(A) == (P0, P1)
    assert sessions.partition_count == 0
    assert error(sessions.end(A)) is ErrorCode.share_session_not_found


def test_what_is_added_and_forgotten() -> None:
    sessions = ShareSessions()
    open_session(sessions)
    session = session_of(sessions.resume(A, 1, {P0: "renamed", P2: None}, (P1,)))
    assert session.topics == {P0: "orders", P2: None}
    session_of(sessions.resume(A, 2, NONE, (P2, P1)))
    assert list(session.topics) == [P0]


@pytest.mark.parametrize("epoch", [0, -1])
def test_the_first_and_the_last_answer_name_all(epoch: int) -> None:
    session = session_of(open_session(ShareSessions()))
    assert session.conclude(epoch, {P0: SILENT, P1: RECORDS}) == [P0, P1]


def test_an_answer_names_what_has_news() -> None:
    sessions = ShareSessions()
    session = session_of(open_session(sessions, A, "c", P0, P1))
    session_of(sessions.resume(A, 1, {P2: "orders"}, ()))
    assert session.conclude(1, {P0: SILENT, P1: RECORDS, P2: SILENT}) == [P1, P2]
    assert list(session.topics) == [P0, P2, P1]  # what had records is fetched last
    sessions.resume(A, 2, NONE, ())
    assert session.conclude(2, {P0: FAILED, P2: SILENT, P1: SILENT}) == [P0]
    sessions.resume(A, 3, NONE, ())
    assert session.conclude(3, {P0: SILENT, P1: SILENT}) == [P0]  # it is well again
    sessions.resume(A, 4, NONE, ())
    assert session.conclude(4, {P0: SILENT, P1: SILENT}) == []


def test_an_answer_of_a_session_that_has_gone_on() -> None:
    sessions = ShareSessions()
    session = session_of(open_session(sessions))
    sessions.resume(A, 1, NONE, ())
    sessions.resume(A, 2, NONE, ())
    answer = session.conclude(1, {P0: RECORDS})
    assert error(answer) is ErrorCode.invalid_share_session_epoch


# Connections


def test_a_closed_connection_ends_its_session() -> None:
    sessions = ShareSessions()
    open_session(sessions, A, "1")
    open_session(sessions, B, "2")
    assert sessions.disconnect("1") == SessionDeparture(member=A, partitions=(P0, P1))
    assert sessions.disconnect("1") == SessionDeparture()
    assert not sessions.is_empty("group")
    assert sessions.disconnect("2") == SessionDeparture(
        member=B, partitions=(P0, P1), empty_group="group"
    )
    assert sessions.is_empty("group")
    assert sessions.disconnect("3") == SessionDeparture()


def test_the_connection_of_a_session_that_was_ended() -> None:
    sessions = ShareSessions()
    open_session(sessions, A, "1")
    sessions.end(A)
    assert sessions.disconnect("1") == SessionDeparture(empty_group="group")


def test_a_session_that_was_opened_again_belongs_to_the_new_connection() -> None:
    sessions = ShareSessions()
    open_session(sessions, A, "1")
    open_session(sessions, A, "2")
    assert sessions.disconnect("1") == SessionDeparture()
    assert sessions.disconnect("2").member == A


def test_of_two_members_on_one_connection_the_last_counts() -> None:
    sessions = ShareSessions()
    open_session(sessions, A, "1")
    open_session(sessions, B, "1")
    assert sessions.disconnect("1").member == B
    assert len(sessions) == 1
    open_session(sessions, B, "2")
    open_session(sessions, A, "2")  # its old session was of connection 1, which is forgotten
    sessions.end(B)
    # as in Kafka: the end of one counts for both
    assert sessions.disconnect("2") == SessionDeparture()


def test_share_groups_are_switched_off() -> None:
    sessions = ShareSessions()
    open_session(sessions, A, "1")
    sessions.clear()
    assert len(sessions) == 0
    assert sessions.disconnect("1") == SessionDeparture(empty_group="group")
