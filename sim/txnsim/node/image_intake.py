"""A broker hears of new metadata and takes it up, unless a fault keeps the news from it.

An image says all there is, so of several that wait only the newest is needed. They wait in a row,
as in Kafka, where one thread hands images to the parts of a broker. Kafka's counterparts:
MetadataLoader, BrokerMetadataPublisher.
"""

from __future__ import annotations

from collections.abc import Callable

from txnsim.faults.points import FaultPoint
from txnsim.metadata.image import ClusterImage
from txnsim.node.crossings import Crossings, is_lost
from txnsim.replica.replicas import changed_roles
from txnsim.types import BrokerId, Subject, Verdict


class ImageIntake:
    """The images of one broker."""

    __slots__ = ("_broker_id", "_crossings", "_current", "_held", "_next", "_take_up")

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        crossings: Crossings,
        current: Callable[[], ClusterImage],
        take_up: Callable[[ClusterImage], object],
    ) -> None:
        """Nothing waits yet.

        Args:
            broker_id: Whose.
            crossings: Its fault points.
            current: What was taken up last.
            take_up: Lets an image take effect.
        """
        self._broker_id = broker_id
        self._crossings = crossings
        self._current = current
        self._take_up = take_up
        self._held: ClusterImage | None = None
        self._next: ClusterImage | None = None

    def told(self, image: ClusterImage) -> None:
        """There is a new image: take it up, now or once those before it have been."""
        if self._held is not None:
            self._next = image
        elif self._crossings.armed:
            self._held = image
            roles = changed_roles(self._current(), image, self._broker_id)
            self._crossings.go_on(
                lambda verdict: self._decided(image, verdict),
                FaultPoint.METADATA_APPLY,
                Subject(partitions=roles),
            )
        else:
            self._take_up(image)

    def _decided(self, image: ClusterImage, verdict: Verdict | None) -> None:
        self._held = None
        if not is_lost(verdict):
            self._take_up(image)
        newer, self._next = self._next, None
        if newer is not None:
            self.told(newer)
