"""Tasks of a Kafka Streams application, and the tasks of a member.

A task is one partition of a subtopology. One member runs it as active task. Others may keep a copy
of its state: a standby for a takeover, a warm-up in order to become active.

Counterpart in Kafka: TasksTuple, TasksTupleWithEpochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from itertools import groupby
from typing import Final

import msgspec

from txnsim.group.streams._java_order import java_order

Task = tuple[str, int]
"""(subtopology, partition)."""


class Tasks(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks by role: a target, or a member's report."""

    active: frozenset[Task] = frozenset()
    standby: frozenset[Task] = frozenset()
    warmup: frozenset[Task] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether there are neither active tasks nor copies."""
        return not (self.active or self.standby or self.warmup)

    def has_some_of(self, held_tasks: MemberTasks) -> bool:
        """Whether both share a task in the same role."""
        return bool(
            self.active & held_tasks.active.keys()
            or self.standby & held_tasks.standby
            or self.warmup & held_tasks.warmup
        )


class MemberTasks(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of a member. ``active`` is never changed in place."""

    active: Mapping[Task, int] = {}
    """Task -> epoch at which the member got it."""
    standby: frozenset[Task] = frozenset()
    warmup: frozenset[Task] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether there are neither active tasks nor copies."""
        return not (self.active or self.standby or self.warmup)

    @property
    def tasks(self) -> Tasks:
        """Tasks without assignment epochs."""
        return Tasks(active=frozenset(self.active), standby=self.standby, warmup=self.warmup)


NO_TASKS: Final = Tasks()
NOTHING_HELD: Final = MemberTasks()


class StreamsMemberState(IntEnum):
    """A member's progress towards its target; the value is the number in the log."""

    STABLE = 1
    """The member has all tasks of its epoch."""
    UNREVOKED_TASKS = 2
    """The member has not confirmed a requested revocation yet."""
    UNRELEASED_TASKS = 3
    """The member waits for tasks that others have not released yet."""
    UNKNOWN = 127
    """A state of a later release."""


def by_subtopology(tasks: Iterable[Task]) -> list[tuple[str, tuple[int, ...]]]:
    """Subtopologies with their partitions, in the iteration order of Kafka's map."""
    indexes_by_name = {
        subtopology_id: tuple(index for _, index in subtopology_tasks)
        for subtopology_id, subtopology_tasks in groupby(sorted(tasks), key=lambda task: task[0])
    }
    return [
        (subtopology_id, indexes_by_name[subtopology_id])
        for subtopology_id in java_order(indexes_by_name)
    ]
