"""What a picture says of applications, coordinators, markers and groups."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.small_trace import small
from tests.support.traces import recording_of_run
from txnsim.verdict.judge import judge_cluster
from txnsim_lab.trace.followed_trace import FollowedTrace
from txnsim_lab.trace.picture_words import PictureWords, picture_words

NODES = ("broker/1", "broker/1/log/t-0", "broker/1/txn/0", "broker/2", "broker/2/group/0")
SHARE = {"group": "jobs", "tp": "t-0", "start": 1, "next": 3, "held": ["1-2:m"]}
MEMBER = {"group": "app", "member": "m", "epoch": 1, "state": "STABLE", "active": ["0_0", "0_1"]}


def words_of(followed_trace: FollowedTrace) -> PictureWords:
    facts = followed_trace.facts()
    return picture_words(followed_trace, facts, judge_cluster(facts).partitions)


def words(*events: tuple[object, ...]) -> PictureWords:
    return words_of(FollowedTrace.of_recording(small(NODES, *events)))


def row(node_name: str, kind: str, payload: dict[str, Any]) -> tuple[object, ...]:
    return (node_name, kind, (), "", payload)


@pytest.mark.parametrize(
    ("name", "run_name", "coordinator", "application"),
    [
        ("z01", "V-", "app is over: aborted; no marker is owed", "aborted ✓"),
        ("z05", "V+", "app is over: aborted; no marker is owed", "aborted ✓"),
    ],
)
def test_application_and_coordinator_are_told_in_words(
    name: str, run_name: str, coordinator: str, application: str
) -> None:
    picture_words = words_of(FollowedTrace.of_recording(recording_of_run(name, run_name, "armed")))
    assert picture_words.coordinators["app"] == coordinator
    assert picture_words.applications["app"].status == application


def test_a_marker_that_is_given_up_is_not_on_its_way() -> None:
    """Kafka 2.4 does not send it again (lesson L4)."""
    recording = recording_of_run("z11", "V-/before", "armed")
    abandoned_at = next(event.i for event in recording.events if event.k == "marker.abandoned")
    picture_words = words_of(FollowedTrace.of_recording(recording, at=abandoned_at))
    assert (picture_words.markers["app t-1"].how, picture_words.markers["app t-1"].text) == (
        "refused", "not sent again",
    )  # fmt: skip


def test_a_marker_that_is_written_again_says_why() -> None:
    picture_words = words_of(
        FollowedTrace.of_recording(recording_of_run("z12", "V-/before", "armed"))
    )
    assert any("was loaded anew" in reason for reason in picture_words.repeated_markers.values())


def test_only_an_operators_marker_is_said_to_be_one() -> None:
    """The coordinator's marker at 0 comes from a broker, the one at 4 from a client."""
    picture_words = words_of(FollowedTrace.of_recording(recording_of_run("z01", "V-", "armed")))
    assert {
        marker_key: marker.label for marker_key, marker in picture_words.operator_markers.items()
    } == {"payments-0 4": "ABORT by an operator"}
    assert picture_words.operator_markers["payments-0 4"].sentence == (
        "An operator has written the ABORT marker of app on payments-0."
        " Readers discard its records."
    )


def test_an_operators_marker_that_a_fault_held_is_still_the_operators() -> None:
    request = {"api": "WriteTxnMarkers", "peer": "client/operator", "response": False}
    fault_hit: dict[str, Any] = {"rule": "r", "point": "client.request", "action": "hold"}
    marker = {"tp": "t-0", "offset": 3, "pid": 7, "epoch": 0, "committed": True}
    followed_trace = FollowedTrace.of_recording(
        small(
            NODES,
            row("broker/1", "msg.recv", request),
            ("broker/1", "fault.hit", (0,), "", fault_hit),
            ("broker/1/log/t-0", "marker.written", (1,), "", {**marker, "coordinator_epoch": 0}),
        )
    )
    assert words_of(followed_trace).operator_markers["t-0 3"].sentence == (
        "An operator has written the COMMIT marker of a transaction of producer 7 on t-0."
        " Readers get its records."
    )


def test_a_deleted_partition_is_named_until_it_is_made_again() -> None:
    leads = row("broker/1/log/t-0", "node.role", {"role": "leader", "tp": "t-0", "epoch": 0})
    deleted = row("broker/1", "topic.deleted", {"topic": "t", "partitions": 1})
    assert words(leads).deleted_partitions == ()
    assert words(leads, deleted).deleted_partitions == ("t-0",)
    assert words(leads, deleted, leads).deleted_partitions == ()


def test_a_share_group_keeps_its_place_while_its_broker_is_down() -> None:
    share = row("broker/1", "share.load", {**SHARE, "isolation": "read_committed"})
    sentence = "share group jobs: start offset 1, next 3 · held: 1-2 by m"
    assert words(share).share_groups == {"t-0": (sentence,)}
    picture_words = words(share, row("broker/1", "node.down", {"role": "broker"}))
    last_known = sentence.replace("jobs:", "jobs (last known: no broker serves it):")
    assert picture_words.share_groups == {"t-0": (last_known,)}


def test_members_of_streams_groups_say_what_they_run_and_wait_for() -> None:
    lists: dict[str, list[str]] = {"standby": [], "warmup": ["1_0"], "revoked": []}
    member = row("broker/2/group/0", "streams.member", {**MEMBER, **lists})
    sentence = "m runs 0_0, 0_1; warms up 1_0"
    assert words(member).streams_groups == {"app": (sentence,)}
    pending = row("broker/2", "group.offset_pending", {"group": "app", "tp": "in-0", "offset": 5})
    assert words(member, pending).streams_groups["app"][-1] == (
        "position 5 of in-0 is in a transaction that is not over"
    )
    picture_words = words(member, row("broker/2", "node.down", {"role": "broker"}))
    assert picture_words.streams_groups["app"][0].endswith("(last known: no broker serves it)")
    waits = row(
        "broker/2/group/0",
        "streams.member",
        {**MEMBER, **lists, "active": [], "warmup": [], "state": "UNRELEASED_TASKS"},
    )
    assert words(waits).streams_groups["app"] == (
        "m waits for tasks that another member has to give up",
    )
