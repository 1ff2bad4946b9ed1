"""Streams groups: topologies that members bring, and members in any order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

from tests.fuzz.target import Target, Violation
from tests.support.consumer_groups import image
from tests.support.streams_groups import StreamsDriver, configs, have_same_log
from txnsim.errors import Rejection
from txnsim.group.commands import TimerKind, TimerSet
from txnsim.group.streams.tasks import Tasks
from txnsim.group.streams.topology import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    configure,
    made_topology,
)

NAMES: Final = ("a", "b", "in", "log", "gone")
_MEMBERS: Final = 4
_SUBTOPOLOGIES: Final = 3
_ASSIGNORS: Final = ("0", "1", "2")


class _Steps:
    """Bytes that choices are taken from; zeros once they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_spent(self) -> bool:
        return self._at >= len(self._data)

    def below(self, bound: int) -> int:
        """A number below a bound."""
        self._at += 1
        return self._data[self._at - 1] % bound if self._at <= len(self._data) else 0

    def some(self, *of: str) -> tuple[str, ...]:
        bits = self.below(256)
        return tuple(one for bit, one in enumerate(of) if bits >> bit & 1)


def _topics(steps: _Steps, *, sized: bool) -> tuple[TopicInfo, ...]:
    found = steps.some("in", "log", "a")
    return tuple(TopicInfo(name=one, partitions=steps.below(4) * sized) for one in found)


def _subtopology(steps: _Steps) -> Subtopology:
    places = steps.below(8)
    groups = () if places < 4 else (_copartition(steps),) * (places - 3)
    return Subtopology(
        subtopology_id=str(steps.below(_SUBTOPOLOGIES + 1)),
        source_topics=steps.some("a", "b", "gone"),
        source_topic_regex=("a.*",) * (steps.below(32) == 31),
        state_changelog_topics=_topics(steps, sized=steps.below(16) == 15),
        repartition_sink_topics=steps.some("in", "out"),
        repartition_source_topics=_topics(steps, sized=True),
        copartition_groups=groups,
    )


def _copartition(steps: _Steps) -> CopartitionGroup:
    return CopartitionGroup(
        source_topics=tuple(range(steps.below(4))),
        repartition_source_topics=tuple(range(steps.below(4) - 1)),
    )


def _topology(steps: _Steps) -> tuple[Subtopology, ...]:
    return tuple(_subtopology(steps) for _ in range(1 + steps.below(_SUBTOPOLOGIES)))


# Topologies


def _play_topology(data: bytes) -> None:
    steps = _Steps(data)
    topics = image(**{name: 1 + steps.below(4) for name in steps.some(*NAMES)})
    made = made_topology(steps.below(3) - 1, _topology(steps))
    if isinstance(made, Rejection):
        return
    found = configure(made, topics)
    if isinstance(found, Rejection) or found.subtopologies is None:
        return
    if list(found.tasks) != sorted(found.tasks) or found.tasks.keys() != made.subtopologies.keys():
        raise Violation("tasks are those of other subtopologies")
    if any(number < 1 for number in found.tasks.values()):
        raise Violation("a subtopology has no task")
    if any(each.partitions < 1 for each in found.missing.values()):
        raise Violation("a topic is to be made without partitions")
    if found.is_ready is bool(found.missing):
        raise Violation("a topology is ready though topics are missing, or the other way round")


# Members


def _play_members(data: bytes) -> None:
    steps = _Steps(data)
    driver = StreamsDriver(image(a=3, b=2, log=3), max_size=_MEMBERS - 1)
    driver.configs = configs(assignor=(("num.standby.replicas", _ASSIGNORS[steps.below(3)]),))
    topology = _topology(steps)
    while not steps.is_spent:
        _act(driver, steps, topology)
        _check(driver)
    if not have_same_log(driver.reload_group(), driver.group):
        raise Violation("the log makes another group")


def _act(driver: StreamsDriver, steps: _Steps, topology: tuple[Subtopology, ...]) -> None:
    member_id = f"m{steps.below(_MEMBERS)}"
    member = driver.group.members.get(member_id)
    epoch = 0 if member is None else member.member_epoch
    more: dict[str, Any] = {}
    if steps.below(4) == 3:
        more["instance_id"] = f"i{steps.below(2)}"
    match steps.below(8):
        case 0 | 1:
            if steps.below(8) == 7:
                topology = _topology(steps)
            process = f"p{steps.below(2)}"
            driver.send(
                member_id, 0, topology=(steps.below(2), topology), process_id=process, **more
            )
        case 2 | 3 if member is not None:
            owned = Tasks() if steps.below(4) == 3 else member.assigned.tasks
            driver.send(member_id, epoch - steps.below(8) // 7, owned=owned, **more)
        case 4 if member is not None:
            told = tuple((task, steps.below(9)) for task in sorted(member.assigned.active))
            if epoch > 0:
                driver.send(member_id, epoch, task_offsets=told, task_end_offsets=told, **more)
        case 5:
            driver.send(member_id, -1 - steps.below(2), **more)
        case 6:
            kind = TimerKind.HEARTBEAT if steps.below(2) else TimerKind.REVOCATION
            _fire(driver, kind, member_id)
        case _:
            driver.now_ms += steps.below(256) * 1_000
            _change_topics(driver, steps)


def _fire(driver: StreamsDriver, kind: TimerKind, member_id: str) -> None:
    armed = {(one.kind, one.member_id) for one in driver.effects if isinstance(one, TimerSet)}
    if (kind, member_id) in armed:
        driver.fire(kind, member_id)


def _change_topics(driver: StreamsDriver, steps: _Steps) -> None:
    """One grows or comes, or one is deleted."""
    sizes = {each.name: len(each.partitions) for each in driver.image.topics.values()}
    name = NAMES[steps.below(len(NAMES))]
    if steps.below(3) == 2:
        sizes.pop(name, None)
    else:
        sizes[name] = sizes.get(name, 0) + 1
    driver.image = image(driver.image.offset + 1, **sizes)


def _check(driver: StreamsDriver) -> None:
    group = driver.group
    if len(group.members) >= _MEMBERS + 1:
        raise Violation("the group has more members than it may have")
    holders = [task for each in group.members.values() for task in each.assigned.active]
    if len(holders) != len(set(holders)):
        raise Violation("two members run a task")
    wanted = [task for each in group.target.values() for task in each.active]
    if len(wanted) != len(set(wanted)):
        raise Violation("two members are to run a task")


def _seeds() -> Iterator[bytes]:
    for number in range(8):
        yield random.Random(number).randbytes(60)


def _member_seeds() -> Iterator[bytes]:
    one = bytes((0, 0, 0, 0, 1, 0, 2, 0, 0, 0))
    yield bytes((1, *one)) + bytes(
        (0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 1, 0, 2, 0, 0)
    )
    for number in range(8):
        yield random.Random(number).randbytes(150)


TARGETS: Final = {
    "topologies": Target(play=_play_topology, seeds=_seeds, length_max=256),
    "streams-groups": Target(play=_play_members, seeds=_member_seeds, length_max=160),
}
