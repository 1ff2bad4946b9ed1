"""Run to its end work that is otherwise done in steps."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Protocol, TypeVar

from txnsim.types import CoordinatorEpoch

T = TypeVar("T")


def read_whole(steps: Generator[int, None, T]) -> T:
    """Run all steps and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


class LoadableCoordinator(Protocol):
    """A coordinator of transactions or groups that loads its partitions in steps."""

    def begin_load(self, partition: int, coordinator_epoch: CoordinatorEpoch) -> None:
        """Begin to load a partition that the broker now leads."""

    def read(
        self, partition: int, coordinator_epoch: CoordinatorEpoch, batches: Iterable[bytes]
    ) -> Generator[int, None, bool]:
        """Read the partition's log, step by step."""


def load_whole(
    coordinator: LoadableCoordinator,
    partition: int,
    epoch: CoordinatorEpoch,
    batches: Iterable[bytes],
) -> None:
    """Load a partition to its end."""
    coordinator.begin_load(partition, epoch)
    read_whole(coordinator.read(partition, epoch, batches))
