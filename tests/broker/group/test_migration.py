"""Groups that change their protocol: what becomes of members, generations and assignments."""

from __future__ import annotations

import pytest

from tests.broker.group.test_subscription import subscription
from tests.support.consumer_groups import ConsumerDriver, image, parts
from tests.support.group_api import SUBSCRIPTION
from tests.support.groups import GROUP, NOW, ClassicDriver
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.consumer_group import ConsumerGroup
from txnsim.group.migration import assignment_for, downgrade, may_downgrade, upgrade
from txnsim.group.subscription import ELEMENTS_MAX, NAMES_MAX, read_assignment, write_assignment

IMAGE = image(orders=3)
PROTOCOLS = (("range", SUBSCRIPTION),)


def classic(*assigned: int, **join: object) -> ClassicGroup:
    """A stable classic group with one member that has these partitions of ``orders``."""
    driver = ClassicDriver()
    values = {"protocols": PROTOCOLS, "instance_id": "i", **join}
    waiter = driver.join(**values)  # type: ignore[arg-type]
    driver.fire(next(kind for kind, member in driver.timers if not member))
    member = driver.join_reply(waiter).member_id
    assignment = write_assignment(0, {"orders": assigned}) if assigned else b""
    driver.sync(member, assignments={member: assignment})
    driver.write()
    return driver.group


def upgrade_group(group: ClassicGroup) -> ConsumerGroup:
    records = upgrade(group, max_size=10, image=IMAGE)
    assert not isinstance(records, Rejection), records
    return ConsumerGroup(GROUP).with_records(records)


def test_members_go_on_with_what_they_were_assigned() -> None:
    group = classic(0, 2)
    upgraded_group = upgrade_group(group)
    (member,) = upgraded_group.members.values()
    assert (upgraded_group.epoch, upgraded_group.assignment_epoch, upgraded_group.state_name) == (
        1,
        1,
        "Stable",
    )
    assert (member.member_epoch, member.previous_member_epoch, member.instance_id) == (1, 1, "i")
    assert set(member.assigned) == parts("orders", 0, 2)
    assert upgraded_group.target[member.member_id] == parts("orders", 0, 2)
    assert member.topic_names == {"orders"}
    assert member.classic is not None
    assert member.classic.protocols == PROTOCOLS
    assert upgraded_group.static_members == {"i": member.member_id}


def test_who_was_assigned_nothing_has_nothing() -> None:
    (member,) = upgrade_group(classic()).members.values()
    assert member.assigned == {}


def test_before_its_first_generation_a_member_s_first_protocol_counts() -> None:
    driver = ClassicDriver()
    driver.join(protocols=PROTOCOLS)
    (member,) = upgrade_group(driver.group).members.values()
    assert member.topic_names == {"orders"}


@pytest.mark.parametrize(
    ("group", "max_size"),
    [
        (classic(protocol_type="connect"), 10),
        (classic(0), 0),
        (classic(0, protocols=(("range", b""),)), 10),
    ],
)
def test_not_every_group_can_be_upgraded(group: ClassicGroup, max_size: int) -> None:
    rejection = upgrade(group, max_size=max_size, image=IMAGE)
    assert isinstance(rejection, Rejection)
    assert rejection.error is ErrorCode.group_id_not_found


def test_members_with_very_many_topics_are_not_read_again_for_each_heartbeat() -> None:
    driver = ClassicDriver()
    for number in range(NAMES_MAX // ELEMENTS_MAX + 1):
        names = [b"%d-%d" % (number, element_index) for element_index in range(ELEMENTS_MAX)]
        joined_subscription = subscription(*names, version=0)
        driver.join(protocols=(("range", joined_subscription),), instance_id=f"i{number}")
    group = driver.group
    rejection = upgrade(group, max_size=100, image=IMAGE)
    assert isinstance(rejection, Rejection)
    assert "more topics and partitions than is read" in rejection.reason
    assert rejection is group.not_upgradable
    assert upgrade(group, max_size=100, image=IMAGE) is rejection


@pytest.mark.parametrize(
    "assignment", [b"\x00", write_assignment(0, {"orders": [0]})[:-4] + b"\x00\x00\x00\x01x"]
)
def test_unknown_forms_of_assignments_stay_as_they_are(
    assignment: bytes,
) -> None:
    group = classic(0)
    for member in group.members.values():
        group.assign(member, assignment)
    assert isinstance(upgrade(group, max_size=10, image=IMAGE), Rejection)


def test_only_classic_members_make_a_classic_group() -> None:
    driver = ConsumerDriver(IMAGE)
    driver.group = upgrade_group(classic(0))
    assert may_downgrade(driver.group, (), max_size=10)
    assert not may_downgrade(driver.group, (), max_size=0)
    driver.join("b", "orders")
    assert not may_downgrade(driver.group, (), max_size=10)
    assert may_downgrade(driver.group, ("b",), max_size=10)
    assert not may_downgrade(driver.group, tuple(driver.group.members), max_size=10)


def test_and_have_what_they_were_to_have() -> None:
    driver = ConsumerDriver(IMAGE)
    driver.group = upgrade_group(classic(0, 2))
    driver.join("b", "orders")
    downgraded_group = downgrade(driver.group, ("b",), image=IMAGE, now_ms=NOW)
    (member,) = downgraded_group.members.values()
    assert (downgraded_group.generation, downgraded_group.state.value) == (
        driver.group.epoch,
        "Stable",
    )
    assert (downgraded_group.protocol_type, downgraded_group.protocol, downgraded_group.leader) == (
        "consumer",
        "range",
        member.member_id,
    )
    assert downgraded_group.has_subscriber("orders")
    assignment = read_assignment(member.assignment)
    assert assignment is not None
    target = driver.group.target[member.member_id]
    assert {index for _, index in assignment.partitions} == {index for _, index in target}


def test_topics_that_are_gone_are_left_out() -> None:
    assignment = read_assignment(assignment_for(b"", parts("gone", 0), IMAGE))
    assert assignment is not None
    assert assignment.partitions == frozenset()
