"""What a story leaves behind as a user who may not do everything, on a simulated cluster."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.security import acl
from tests.support.stories import call, small, transaction
from tests.support.told_over_wire import PREFIX, Told, told
from txnsim.faults.actions import Delay
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from txnsim.security.options import SecurityOptions
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.model import Scenario

WHO: Final = "User:ANONYMOUS"
EVERYTHING: Final = tuple(
    acl(kind, name, operation, principal=WHO)
    for kind, name, operation in (
        (ResourceType.TOPIC, "*", Operation.ALL),
        (ResourceType.GROUP, "*", Operation.ALL),
        (ResourceType.TRANSACTIONAL_ID, "*", Operation.ALL),
        # Not DELETE, which would be good for every topic.
        (ResourceType.CLUSTER, CLUSTER_NAME, Operation.ALTER),
    )
)
INIT: Final = call("init-producer-id")
POSITIONS: Final = (
    INIT,
    call("begin"),
    call("commit-offsets", group="g", offsets={"in-0": 3}, generation=-1),
)
"""Without verification they hang: the coordinator was not told of the group."""
GROUP_GHOST: Final = (*POSITIONS, {"expect": {"partition": "t-0", "stable": 7}})
WHERE: Final = "--bootstrap-server"


def deny(kind: ResourceType, name: str, *operations: Operation) -> tuple[AclBinding, ...]:
    """What somebody who may do everything else may not."""
    pattern = PatternType.LITERAL if kind is ResourceType.CLUSTER else PatternType.PREFIXED
    return tuple(
        acl(kind, name, one, principal=WHO, pattern=pattern, permission=Permission.DENY)
        for one in operations
    )


def told_as(scenario: Scenario, *denied: AclBinding, **cluster: Any) -> Told:
    """Tell a story in V- as somebody who may do everything but that."""
    security = SecurityOptions(has_authorizer=True, acls=(*EVERYTHING, *denied))
    return told(
        scenario,
        security=security,
        level=0,
        transaction_partition_verification_enable=False,
        **cluster,
    )


def left_of(found: Told) -> list[tuple[str, str, str]]:
    """Kind, name and reason of what is left."""
    assert found.left is not None
    return [(one.kind, one.name, one.why) for one in found.left]


def test_a_topic_that_may_not_be_deleted_is_left_without_what_hangs_in_it() -> None:
    denied = deny(ResourceType.TOPIC, PREFIX, Operation.DELETE)
    steps = [INIT, call("begin"), call("produce", partition="t-0", value="ghost"),
             {"expect": {"partition": "t-0", "stable": 7}}]  # fmt: skip
    found = told_as(small(steps), *denied)
    why = "TOPIC_AUTHORIZATION_FAILED, it takes DELETE on the topic"
    assert left_of(found) == [("topic", f"{PREFIX}{name}", why) for name in ("t", "in")]
    assert found.left is not None
    assert found.left[0].command.startswith(f"kafka-topics.sh {WHERE} ")
    assert found.left[0].command.endswith(f" --delete --topic {PREFIX}t")
    assert found.open == set()


def test_what_hangs_and_may_not_be_aborted_is_left_with_its_offset() -> None:
    found = told_as(
        find("partition-never-added")[1],
        *deny(ResourceType.TOPIC, PREFIX, Operation.DELETE),
        *deny(ResourceType.CLUSTER, CLUSTER_NAME, Operation.ALTER),
    )
    why = "CLUSTER_AUTHORIZATION_FAILED, it takes ALTER on the cluster"
    assert left_of(found)[1:] == [
        ("hanging transaction", f"{PREFIX}t-1", f"open since offset 0, may not be aborted: {why}")
    ]
    assert found.left is not None
    assert found.left[1].command.endswith(
        f" abort --topic {PREFIX}t --partition 1 --start-offset 0"
    )
    assert found.open == {f"{PREFIX}t"}


def test_what_hangs_among_positions_is_aborted() -> None:
    found = told_as(small(GROUP_GHOST))
    assert (found.left, found.open) == ([], set())


@pytest.mark.parametrize(
    ("denied", "why"),
    [
        (
            deny(ResourceType.CLUSTER, CLUSTER_NAME, Operation.ALTER),
            "open since offset 0, may not be aborted: CLUSTER_AUTHORIZATION_FAILED, it takes ALTER"
            " on the cluster",
        ),
        (
            deny(ResourceType.TOPIC, "__consumer_offsets", Operation.READ),
            "whether one is there can't be seen: TOPIC_AUTHORIZATION_FAILED, it takes READ on the"
            " topic",
        ),
    ],
)
def test_what_hangs_among_positions_is_left_where_it_may_not_be_aborted_or_seen(
    denied: tuple[AclBinding, ...], why: str
) -> None:
    found = told_as(small(GROUP_GHOST), *denied, looks=False)
    ((kind, name, because),) = left_of(found)
    assert (kind, because) == ("hanging transaction", why)
    assert name.startswith("__consumer_offsets-")


@pytest.mark.parametrize(("steps", "is_left"), [(GROUP_GHOST, True), (GROUP_GHOST[-1:], False)])
def test_a_group_that_may_not_be_deleted_is_left_if_it_was_made(
    steps: tuple[dict[str, Any], ...], *, is_left: bool
) -> None:
    cure = [] if is_left else [call("read-positions", "reader", group="g", partitions="in-0")]
    found = told_as(small(steps, cure=cure), *deny(ResourceType.GROUP, PREFIX, Operation.DELETE))
    why = "GROUP_AUTHORIZATION_FAILED, it takes DELETE on the group"
    assert left_of(found) == [("group", f"{PREFIX}g", why)] * is_left


def test_what_can_not_be_seen_is_said_so() -> None:
    scenario = small(GROUP_GHOST)
    unseen = (Operation.DESCRIBE, Operation.WRITE, Operation.READ, Operation.DELETE)
    found = told_as(
        scenario,
        *deny(ResourceType.TRANSACTIONAL_ID, f"{PREFIX}app", Operation.DESCRIBE, Operation.WRITE),
        *deny(ResourceType.GROUP, f"{PREFIX}g", *unseen),
    )
    assert left_of(found) == [
        (
            "transaction",
            f"{PREFIX}app",
            "whether it is open can't be seen: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, it takes"
            " DESCRIBE on the transactional id",
        ),
        (
            "group",
            f"{PREFIX}g",
            "whether it is there can't be seen: GROUP_AUTHORIZATION_FAILED, it takes DESCRIBE on"
            " the group",
        ),
    ]


def test_an_id_that_was_never_used_is_not_left() -> None:
    found = told_as(small([{"expect": {"partition": "t-0", "stable": 7}}]))
    assert (found.left, found.states) == ([], {})


def test_brokers_that_hear_late_of_a_deletion_are_waited_for() -> None:
    late = FaultRule(id="late", point=FaultPoint.METADATA_APPLY, action=Delay(delay_ms=700))
    found = told_as(small([INIT, *transaction("r1")]), faults=(late,))
    assert found.left == []
    assert not [name for name in found.topics if name.startswith(PREFIX)]


def test_a_cluster_that_is_gone_leaves_everything() -> None:
    kills = [{"cluster": {"do": "kill", "broker": number}} for number in (1, 2, 3)]
    found = told_as(small([INIT, *transaction("r1"), *kills, INIT]), looks=False)
    names = [(kind, name) for kind, name, _ in left_of(found)]
    assert names == [
        ("transaction", f"{PREFIX}app"),
        ("topic", f"{PREFIX}t"),
        ("topic", f"{PREFIX}in"),
    ]
    assert all("the cluster does not answer: " in why for _, _, why in left_of(found))
