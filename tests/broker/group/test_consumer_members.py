"""What is wrong with a heartbeat whatever the group.

The rules of GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid.
"""

from __future__ import annotations

import pytest

from txnsim.errors import ErrorCode
from txnsim.group._consumer_members import check_heartbeat
from txnsim.group.commands import ConsumerHeartbeat
from txnsim.group.consumer_group import ConsumerGroup

JOIN = {
    "member_epoch": 0,
    "rebalance_timeout_ms": 1,
    "owned": frozenset(),
    "topic_names": (),
}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (JOIN, None),
        ({"member_epoch": 3}, None),
        ({**JOIN, "member_id": ""}, "MemberId can't be empty."),
        ({**JOIN, "member_id": "", "member_id_required": False}, None),
        (
            {"member_epoch": 1, "member_id": "", "member_id_required": False},
            "MemberId can't be empty.",
        ),
        (
            {"member_epoch": -1, "member_id": "", "member_id_required": False},
            "MemberId can't be empty.",
        ),
        ({**JOIN, "group_id": ""}, "GroupId can't be empty."),
        ({**JOIN, "instance_id": ""}, "InstanceId can't be empty."),
        ({**JOIN, "rack_id": ""}, "RackId can't be empty."),
        (
            {**JOIN, "rebalance_timeout_ms": -1},
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        ({**JOIN, "owned": None}, "TopicPartitions must be empty when (re-)joining."),
        (
            {**JOIN, "topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.",
        ),
        ({**JOIN, "topic_names": None, "topic_regex": "t.*"}, None),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -2, "instance_id": "i"}, None),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_a_heartbeat_is_complete(values: dict[str, object], complaint: str | None) -> None:
    command = ConsumerHeartbeat(
        **{  # type: ignore[arg-type]
            "group_id": "g",
            "member_id": "m",
            "client_id": "c",
            "client_host": "/h",
            **values,
        }
    )
    refusal = check_heartbeat(command, assignors=("uniform",))
    if complaint is None:
        assert refusal is None
    else:
        assert refusal is not None
        assert (refusal.error, refusal.reason) == (ErrorCode.invalid_request, complaint)


def test_an_unknown_assignor_is_unsupported() -> None:
    command = ConsumerHeartbeat(
        group_id="g",
        member_id="m",
        member_epoch=1,
        server_assignor="mine",
        client_id="c",
        client_host="/h",
    )
    refusal = check_heartbeat(command, assignors=("uniform", "range"))
    assert refusal is not None
    assert refusal.error is ErrorCode.unsupported_assignor
    assert "Supported assignors: uniform, range." in refusal.reason


def test_who_is_not_there_is_named() -> None:
    assert ConsumerGroup("g").unknown("m").reason == "Member m is not a member of group g."
