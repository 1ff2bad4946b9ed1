"""The metadata of a cluster, in one object that publishes each change to its subscribers.

The shell around ``controller.controller``: it holds the current image, draws topic ids, and
publishes every change to all brokers before the requester gets its answer. A broker whose link to
the controller is cut keeps its image, and gets the latest one when the link is healed. The requests
of brokers to the controller are in ``node.controller_node``. Kafka's counterparts:
QuorumController's log and MetadataLoader.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from txnsim.controller import controller
from txnsim.controller.controller import TopicToCreate
from txnsim.errors import ErrorCode, Rejection
from txnsim.loggers import FailureLog, Logger
from txnsim.metadata.config_keys import ConfigKey, topic_configs
from txnsim.metadata.configs import NO_BROKER
from txnsim.metadata.image import ClusterImage, TopicImage
from txnsim.releases import Fleet
from txnsim.runtime.loop_turns import Pace
from txnsim.settings import Settings
from txnsim.types import BrokerId

_log: Final = Logger("txnsim.cluster")

DEVIATIONS: Final = (
    "The controller is one object without a quorum: a change is visible on every broker that "
    "reaches it before it is answered.",
)

Subscriber = Callable[[ClusterImage], None]


class _Subscription(msgspec.Struct, eq=False):
    """A subscriber and the last image that it was sent."""

    subscriber: Subscriber
    broker_id: BrokerId | None
    image: ClusterImage


class Metadata(msgspec.Struct, kw_only=True, eq=False):
    """The cluster's metadata: one image, many subscribers."""

    image: ClusterImage
    settings: Settings
    random_bits: Callable[[int], int]
    """Draws random bits for topic ids."""
    fleet: Fleet = msgspec.field(default_factory=Fleet)
    """The release of each broker; the newest for all unless given."""
    reaches: Callable[[BrokerId], bool] = lambda _: True
    """Whether the link from the controller to a broker is up."""
    _subscriptions: list[_Subscription] = []
    _failed_creations: FailureLog = msgspec.field(
        default_factory=lambda: FailureLog(_log, "topic.creation.refused", "topic")
    )

    # Images

    def subscribe(
        self, subscriber: Subscriber, *, broker_id: BrokerId | None = None
    ) -> Callable[[], None]:
        """Call ``subscriber`` with every image from now on.

        Args:
            subscriber: Called with each new image.
            broker_id: The subscriber's broker: it gets no image while its link is cut.

        Returns:
            A function that ends the subscription.
        """
        subscription = _Subscription(subscriber, broker_id, self.image)
        self._subscriptions.append(subscription)

        def unsubscribe() -> None:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)

        return unsubscribe

    def publish(self, image: ClusterImage) -> None:
        """Make ``image`` the current one and send it to the subscribers, in order of
        subscription.
        """
        if image is self.image:
            return
        self.image = image
        for subscription in list(self._subscriptions):
            self._publish_to(subscription)

    def catch_up(self, broker_id: BrokerId) -> None:
        """Send the latest image to a broker whose link is up again."""
        for subscription in list(self._subscriptions):
            if subscription.broker_id == broker_id:
                self._publish_to(subscription)

    def _publish_to(self, subscription: _Subscription) -> None:
        broker_id = subscription.broker_id
        if subscription.image is self.image or subscription not in self._subscriptions:
            return
        if broker_id is None or self.reaches(broker_id):
            # Always the latest: a subscriber may publish while others still wait for it.
            subscription.image = self.image
            subscription.subscriber(self.image)

    # Topics

    def new_topic_id(self) -> uuid.UUID:
        """Draw a random (version 4) topic id from the cluster's random stream."""
        return uuid.UUID(int=self.random_bits(128), version=4)

    def create_topics(
        self, topics: Sequence[TopicToCreate], *, validate_only: bool = False
    ) -> list[TopicImage | Rejection]:
        """Create those topics of a request that can be created, and publish them together."""
        creation_outcomes = controller.create_topics(
            self.image,
            topics,
            settings=self.settings,
            new_topic_id=self.new_topic_id,
            key_by_name=self._topic_configs(),
        )
        return self._publish_created(creation_outcomes, validate_only=validate_only)

    async def create_topics_in_slices(
        self, topics: Sequence[TopicToCreate], pace: Pace | None, *, validate_only: bool = False
    ) -> list[TopicImage | Rejection]:
        """Do the same as ``create_topics`` in slices, for many topics. If the metadata change
        meanwhile in a way that matters, it decides again. Without a pace it is one step.
        """
        if pace is None:
            return self.create_topics(topics, validate_only=validate_only)
        while True:
            image = self.image
            creation_outcomes = await pace.run(
                controller.create_topics_in_steps(
                    image,
                    topics,
                    settings=self.settings,
                    new_topic_id=self.new_topic_id,
                    key_by_name=self._topic_configs(),
                )
            )
            if self.image is image or controller.is_decision_valid(
                creation_outcomes, image, self.image
            ):
                return self._publish_created(creation_outcomes, validate_only=validate_only)

    def _topic_configs(self) -> Mapping[str, ConfigKey]:
        """The topic configs that the controller's release knows; the controller is the first
        broker's node.
        """
        return topic_configs(
            self.fleet.release_of(min(self.image.brokers, default=NO_BROKER)).rules
        )

    def _publish_created(
        self, creation_outcomes: list[TopicImage | Rejection], *, validate_only: bool
    ) -> list[TopicImage | Rejection]:
        if not validate_only:
            self.publish(
                self.image.with_topics(
                    [outcome for outcome in creation_outcomes if isinstance(outcome, TopicImage)]
                )
            )
        return creation_outcomes

    def create_topic(self, topic: TopicToCreate) -> TopicImage | Rejection:
        """Create one topic and publish it."""
        return self.create_topics((topic,))[0]

    def auto_create(self, topic_name: str) -> TopicImage | Rejection:
        """Create a coordinator's topic, because a client needs it. If that fails, the next client
        that needs it causes another try.
        """
        outcome = self.create_topic(self.automatic(topic_name))
        self._note_creation(topic_name, outcome)
        return outcome

    async def auto_create_all(self, topics: Sequence[TopicToCreate], pace: Pace | None) -> None:
        """Create those topics that clients have named and that can be created."""
        for topic, outcome in zip(
            topics, await self.create_topics_in_slices(topics, pace), strict=True
        ):
            self._note_creation(topic.name, outcome)

    def _note_creation(self, topic_name: str, creation_outcome: TopicImage | Rejection) -> None:
        if not isinstance(creation_outcome, Rejection):
            if self._failed_creations.tried:
                self._failed_creations.forget_failures(topic_name)
        elif creation_outcome.error is ErrorCode.invalid_replication_factor:
            self._failed_creations.note_failure(
                topic_name, creation_outcome.error.name.upper(), creation_outcome.reason
            )

    def automatic(self, topic_name: str) -> TopicToCreate:
        """The topic to create for a name; internal topics have their own settings
        (AutoTopicCreationManager).
        """
        return controller.internal_topic(topic_name, image=self.image, settings=self.settings)
