"""Applies new metadata at a broker, unless a fault keeps it from the broker.

An image has all metadata, so of several waiting images only the newest is applied. They are applied
one after the other, as in Kafka, where one thread hands images to the parts of a broker. An image
that changes many replicas is applied in slices, because all brokers share one event loop. Kafka's
counterparts: MetadataLoader, BrokerMetadataPublisher.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from txnsim.faults.interception import FaultEffect
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.metadata.image import ClusterImage
from txnsim.node.broker_fault_points import BrokerFaultPoints, is_lost
from txnsim.replica.replicas import changed_roles
from txnsim.runtime.environment import Clock
from txnsim.runtime.loop_turns import Pace
from txnsim.runtime.tasks import Pending
from txnsim.types import BrokerId

AT_ONCE_MAX: Final = 500
"""Most changed partitions of an image that is applied without a break."""


class ImageIntake(msgspec.Struct, kw_only=True, eq=False):
    """The metadata images that one broker receives."""

    broker_id: BrokerId
    fault_points: BrokerFaultPoints
    current_image: Callable[[], ClusterImage]
    """Gives the image that was applied last."""
    take_up: Callable[[ClusterImage], Iterable[int]]
    """Applies an image; yields the amount of work of each step."""
    clock: Clock
    _held_image: ClusterImage | None = None
    _next_image: ClusterImage | None = None
    _pending_intake: Pending[None] | None = None
    """Pending while an image is being applied in slices."""

    def receive(self, image: ClusterImage) -> None:
        """Apply a new image, at once or after the images before it."""
        if self._held_image is not None:
            self._next_image = image
        elif self.fault_points.is_armed:
            self._held_image = image
            roles = changed_roles(self.current_image(), image, self.broker_id)
            self.fault_points.go_on(
                lambda verdict: self._on_fault_verdict(image, verdict),
                FaultPoint.METADATA_APPLY,
                Subject(partitions=roles),
            )
        else:
            self._take_up(image)

    async def wait_until_up_to_date(self) -> None:
        """Wait for images that are being applied in slices, but not for those that a
        fault holds.
        """
        while self._pending_intake is not None:
            await self._pending_intake

    def _on_fault_verdict(self, image: ClusterImage, fault_effect: FaultEffect | None) -> None:
        self._held_image = None
        if not is_lost(fault_effect):
            self._take_up(image)
        self._receive_next()

    def _receive_next(self) -> None:
        if self._held_image is None and self._next_image is not None:
            next_image, self._next_image = self._next_image, None
            self.receive(next_image)

    def _take_up(self, image: ClusterImage) -> None:
        if not _is_large(self.current_image(), image):
            for _ in self.take_up(image):
                pass
            return
        self._held_image, self._pending_intake = image, Pending(self.fault_points.tasks)
        self.fault_points.tasks.drive(
            self._take_up_in_slices(image), self._on_taken_up, name="taking up metadata"
        )

    async def _take_up_in_slices(self, image: ClusterImage) -> None:
        pace = Pace(self.fault_points.tasks.turns, self.clock.stopwatch_ns)
        for step in self.take_up(image):
            if pace.has_done(step):
                await pace.yield_turn()
                if self.fault_points.is_stopped:
                    return

    def _on_taken_up(self, _: object, error: BaseException | None) -> None:
        pending_intake, self._pending_intake, self._held_image = self._pending_intake, None, None
        if pending_intake is not None:
            pending_intake.resolve(None)
        if error is not None and not isinstance(error, asyncio.CancelledError):
            raise error
        if not self.fault_points.is_stopped:
            self._receive_next()


def _is_large(old_image: ClusterImage, new_image: ClusterImage) -> bool:
    """Whether the new image changes too many partitions for one slice."""
    names = new_image.changed_topics(old_image)
    if new_image.broker_configs is not old_image.broker_configs:
        names = tuple(dict.fromkeys((*names, *new_image.topics)))
    topics = (new_image.topics.get(name) or old_image.topics[name] for name in names)
    return sum(len(topic.partitions) for topic in topics) > AT_ONCE_MAX
