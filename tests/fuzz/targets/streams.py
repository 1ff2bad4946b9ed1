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
    build_topology,
    configure,
)

TOPIC_NAMES: Final = ("a", "b", "in", "log", "gone")
_MEMBERS: Final = 4
_SUBTOPOLOGIES: Final = 3
_ASSIGNORS: Final = ("0", "1", "2")


class _Steps:
    """Bytes that choices are taken from; zeros once they are used up."""

    def __init__(self, fuzz_bytes: bytes) -> None:
        self._data = fuzz_bytes
        self._position = 0

    @property
    def is_spent(self) -> bool:
        return self._position >= len(self._data)

    def below(self, bound: int) -> int:
        """The next drawn number below a bound."""
        self._position += 1
        return self._data[self._position - 1] % bound if self._position <= len(self._data) else 0

    def choose(self, *names: str) -> tuple[str, ...]:
        bits = self.below(256)
        return tuple(name for bit, name in enumerate(names) if bits >> bit & 1)


def _topics(steps: _Steps, *, have_partitions: bool) -> tuple[TopicInfo, ...]:
    names = steps.choose("in", "log", "a")
    return tuple(
        TopicInfo(name=name, partitions=steps.below(4) * have_partitions) for name in names
    )


def _subtopology(steps: _Steps) -> Subtopology:
    choice = steps.below(8)
    groups = () if choice < 4 else (_copartition(steps),) * (choice - 3)
    return Subtopology(
        subtopology_id=str(steps.below(_SUBTOPOLOGIES + 1)),
        source_topics=steps.choose("a", "b", "gone"),
        source_topic_regex=("a.*",) * (steps.below(32) == 31),
        state_changelog_topics=_topics(steps, have_partitions=steps.below(16) == 15),
        repartition_sink_topics=steps.choose("in", "out"),
        repartition_source_topics=_topics(steps, have_partitions=True),
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


def _play_topology(fuzz_bytes: bytes) -> None:
    steps = _Steps(fuzz_bytes)
    topics = image(**{name: 1 + steps.below(4) for name in steps.choose(*TOPIC_NAMES)})
    topology = build_topology(steps.below(3) - 1, _topology(steps))
    if isinstance(topology, Rejection):
        return
    configured = configure(topology, topics)
    if isinstance(configured, Rejection) or configured.subtopologies is None:
        return
    if (
        list(configured.tasks) != sorted(configured.tasks)
        or configured.tasks.keys() != topology.subtopologies.keys()
    ):
        raise Violation("tasks are those of other subtopologies")
    if any(task_number < 1 for task_number in configured.tasks.values()):
        raise Violation("a subtopology has no task")
    if any(topic.partitions < 1 for topic in configured.missing.values()):
        raise Violation("a topic is to be made without partitions")
    if configured.is_ready is bool(configured.missing):
        raise Violation("a topology is ready though topics are missing, or the other way round")


# Members


def _play_members(fuzz_bytes: bytes) -> None:
    steps = _Steps(fuzz_bytes)
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
    options: dict[str, Any] = {}
    if steps.below(4) == 3:
        options["instance_id"] = f"i{steps.below(2)}"
    match steps.below(8):
        case 0 | 1:
            if steps.below(8) == 7:
                topology = _topology(steps)
            process = f"p{steps.below(2)}"
            driver.send(
                member_id, 0, topology=(steps.below(2), topology), process_id=process, **options
            )
        case 2 | 3 if member is not None:
            owned_tasks = Tasks() if steps.below(4) == 3 else member.assigned.tasks
            driver.send(member_id, epoch - steps.below(8) // 7, owned=owned_tasks, **options)
        case 4 if member is not None:
            offsets = tuple((task, steps.below(9)) for task in sorted(member.assigned.active))
            if epoch > 0:
                driver.send(
                    member_id, epoch, task_offsets=offsets, task_end_offsets=offsets, **options
                )
        case 5:
            driver.send(member_id, -1 - steps.below(2), **options)
        case 6:
            timer_kind = TimerKind.HEARTBEAT if steps.below(2) else TimerKind.REVOCATION
            _fire(driver, timer_kind, member_id)
        case _:
            driver.now_ms += steps.below(256) * 1_000
            _change_topics(driver, steps)


def _fire(driver: StreamsDriver, timer_kind: TimerKind, member_id: str) -> None:
    armed_timers = {
        (effect.kind, effect.member_id) for effect in driver.effects if isinstance(effect, TimerSet)
    }
    if (timer_kind, member_id) in armed_timers:
        driver.fire(timer_kind, member_id)


def _change_topics(driver: StreamsDriver, steps: _Steps) -> None:
    """Create, enlarge or delete a topic."""
    sizes = {topic.name: len(topic.partitions) for topic in driver.image.topics.values()}
    name = TOPIC_NAMES[steps.below(len(TOPIC_NAMES))]
    if steps.below(3) == 2:
        sizes.pop(name, None)
    else:
        sizes[name] = sizes.get(name, 0) + 1
    driver.image = image(driver.image.offset + 1, **sizes)


def _check(driver: StreamsDriver) -> None:
    group = driver.group
    if len(group.members) >= _MEMBERS + 1:
        raise Violation("the group has more members than it may have")
    holders = [task for member in group.members.values() for task in member.assigned.active]
    if len(holders) != len(set(holders)):
        raise Violation("two members run a task")
    target_tasks = [
        task for assigned_tasks in group.target.values() for task in assigned_tasks.active
    ]
    if len(target_tasks) != len(set(target_tasks)):
        raise Violation("two members are to run a task")


def _seeds() -> Iterator[bytes]:
    for number in range(8):
        yield random.Random(number).randbytes(60)


def _member_seeds() -> Iterator[bytes]:
    topology = bytes((0, 0, 0, 0, 1, 0, 2, 0, 0, 0))
    yield bytes((1, *topology)) + bytes(
        (0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 1, 0, 2, 0, 0)
    )
    for number in range(8):
        yield random.Random(number).randbytes(150)


TARGETS: Final = {
    "topologies": Target(play=_play_topology, seeds=_seeds, length_max=256),
    "streams-groups": Target(play=_play_members, seeds=_member_seeds, length_max=160),
}
