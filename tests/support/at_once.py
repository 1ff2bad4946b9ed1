"""Work that is done in steps, done at once."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Protocol, TypeVar

from txnsim.types import CoordinatorEpoch

T = TypeVar("T")


def read_whole(steps: Generator[int, None, T]) -> T:
    """What comes of all steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


class Loaded(Protocol):
    """A coordinator of either kind."""

    def begin_load(self, partition: int, coordinator_epoch: CoordinatorEpoch) -> None:
        """Its broker leads the partition now."""

    def read(
        self, partition: int, coordinator_epoch: CoordinatorEpoch, batches: Iterable[bytes]
    ) -> Generator[int, None, bool]:
        """This is the log."""


def load_whole(
    coordinator: Loaded, partition: int, epoch: CoordinatorEpoch, batches: Iterable[bytes]
) -> None:
    """Make it the coordinator of a partition at once."""
    coordinator.begin_load(partition, epoch)
    read_whole(coordinator.read(partition, epoch, batches))
