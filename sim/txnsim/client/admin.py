"""An operator's requests about topics, configs, features, groups and the cluster; ``_txn_admin``
adds those about transactions.

Kafka's counterpart is ``KafkaAdminClient``. Requests that change something go to any broker, which
forwards them to the controller (KRaft).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from txnsim.client import _positions as positions
from txnsim.client import offsets, requests
from txnsim.client._txn_admin import TransactionAdmin
from txnsim.client.backoff import Deadline
from txnsim.client.cluster import LOST_ANSWER_ERRORS
from txnsim.client.errors import (
    ClientError,
    NotSupportedError,
    RetriableError,
    code_name,
    only_row,
    or_raised,
)
from txnsim.client.group_requests import GroupMetadata, delete_groups, list_groups
from txnsim.client.inspection.txn_views import ProducerState, TransactionDescription
from txnsim.client.inspection.txn_wording import message_of
from txnsim.client.members.requests import offset_commit
from txnsim.client.metadata import (
    BrokerAddress,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
    parse_metadata,
)
from txnsim.client.offsets import FoundOffset
from txnsim.client.requests import ConfigChange, NewTopic
from txnsim.client.versions import VersionedRequest
from txnsim.errors import ErrorCode
from txnsim.types import IsolationLevel, TopicPartition

TIMEOUT_MS: Final = 30_000
"""Timeout in ms that a broker gets for a change."""
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
GROUP_RESOURCE = 32
ALL_BROKERS = ""
"""Resource name of the default that applies to all brokers."""


class ClusterDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers of the cluster, its id and its controller."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerAddress, ...]


class CreatedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A created topic; -1 and None for fields that the broker's version does not have."""

    name: str
    topic_id: UUID | None = None
    partitions: int = -1
    replication_factor: int = -1


class Admin(TransactionAdmin):
    """Everything an operator or a test does to a cluster."""

    # Topics

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = 30_000
    ) -> dict[str, CreatedTopic | ClientError]:
        """Create topics; each has its own outcome. Brokers may need a moment to know them (see
        ``wait_for_topic``).
        """
        request = requests.create_topics(topics, timeout_ms=timeout_ms, validate_only=validate_only)
        message = await self._ask_controller(
            request, lambda answer: [topic_row.error_code for topic_row in answer.topics]
        )
        created_by_name: dict[str, CreatedTopic | ClientError] = {}
        for topic_row in message.topics:
            failure = _failure(topic_row, f"topic {topic_row.name!r} was not created")
            created_by_name[topic_row.name] = failure or CreatedTopic(
                name=topic_row.name,
                topic_id=getattr(topic_row, "topic_id", None),
                partitions=getattr(topic_row, "num_partitions", -1),
                replication_factor=getattr(topic_row, "replication_factor", -1),
            )
        return created_by_name

    async def create_topic(
        self, name: str, *, partitions: int = -1, replication_factor: int = -1
    ) -> TopicMetadata:
        """Create one topic and wait until every partition has a leader.

        Raises:
            ClientError: It was not created; TOPIC_ALREADY_EXISTS for instance.
            RetriableError: It has no leaders in time.
        """
        topic = NewTopic(name=name, partitions=partitions, replication_factor=replication_factor)
        or_raised((await self.create_topics((topic,)))[name])
        return await self.wait_for_topic(name)

    async def wait_for_topic(self, name: str, *, timeout_ms: float | None = None) -> TopicMetadata:
        """Wait until the topic is known and every partition has a leader.

        Raises:
            RetriableError: Not in time.
        """
        deadline = self.cluster.deadline(timeout_ms)
        backoff = self.cluster.backoff()
        while True:
            topic = (await self.cluster.refresh((name,), deadline=deadline)).topic(name)
            if topic is not None and topic.is_led:
                return topic
            if deadline.has_passed:
                raise RetriableError(f"topic {name!r} has no leaders in time")
            await backoff.wait(deadline)

    async def wait_without_topics(self, names: Collection[str], *, timeout_ms: float) -> None:
        """Wait until brokers no longer list deleted topics: KRaft's controller answers a deletion
        before brokers learn of it. A broker that lists them at the deadline is no failure, because
        an accepted deletion will happen.
        """
        if names:
            await self._each_says(
                names, lambda view: all(topic.error for topic in view.topics), timeout_ms
            )

    async def wait_for_leader(
        self, partition: TopicPartition, broker_id: int, *, timeout_ms: float
    ) -> bool:
        """Wait until every broker that answers names this leader; False if one does not in time. A
        broker that still knows the old leader asks the wrong coordinator, and answers producers
        with NOT_ENOUGH_REPLICAS.
        """

        def is_named(cluster_view: ClusterMetadata) -> bool:
            leader = cluster_view.leader(partition)
            return leader is not None and leader.leader_id == broker_id

        return await self._each_says([partition.topic], is_named, timeout_ms)

    async def _each_says(
        self,
        topic_names: Collection[str],
        is_reached: Callable[[ClusterMetadata], bool],
        timeout_ms: float,
    ) -> bool:
        deadline = self.cluster.deadline(timeout_ms)
        request = requests.metadata(sorted(topic_names))
        for broker in self.cluster.view.brokers:
            backoff = self.cluster.backoff()
            while True:
                try:
                    cluster_view = parse_metadata(await self.cluster.ask(broker.broker_id, request))
                except ClientError:
                    break
                if is_reached(cluster_view):
                    break
                if deadline.has_passed:
                    return False
                await backoff.wait(deadline)
        return True

    async def delete_topics(
        self, names: Sequence[str], *, timeout_ms: int = 30_000
    ) -> dict[str, ClientError | None]:
        """Delete topics by name; None is success."""
        request = requests.delete_topics(names, timeout_ms=timeout_ms)
        message = await self._ask_controller(
            request, lambda answer: [topic_row.error_code for topic_row in answer.responses]
        )
        return {
            topic_row.name: _failure(topic_row, f"topic {topic_row.name!r} was not deleted")
            for topic_row in message.responses
        }

    async def describe_topics(self, names: Sequence[str] | None) -> tuple[TopicMetadata, ...]:
        """Topics with leaders and replicas, or each with its error; all topics if ``names`` is
        None.
        """
        return (await self.cluster.refresh(names)).topics

    async def describe_partition(self, partition: TopicPartition) -> PartitionMetadata:
        """Leader and replicas of a partition.

        Raises:
            ClientError: There is no such partition, or it may not be described.
        """
        topics = await self.describe_topics((partition.topic,))
        topic = only_row(topics, f"about topic {partition.topic!r}")
        partition_view = topic.partition(partition.partition)
        error = ErrorCode(topic.error)
        if partition_view is not None:
            return partition_view
        if error in (ErrorCode.none, ErrorCode.unknown_topic_or_partition):
            raise ClientError(f"there is no partition {partition}", error=error or None)
        raise ClientError(f"{partition}: {message_of(error)}", error=error)

    async def leader_of(self, partition: TopicPartition) -> int:
        """The id of its leader.

        Raises:
            ClientError: As above, or it has no leader.
        """
        partition_view = await self.describe_partition(partition)
        if partition_view.leader_id < 0:
            raise ClientError(
                f"{partition} has no leader: start one of the brokers"
                f" {list(partition_view.isr or partition_view.replicas)}",
                error=ErrorCode.leader_not_available,
            )
        return partition_view.leader_id

    async def list_offsets(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, FoundOffset | ClientError]:
        """Offsets by timestamp; see ``offsets.list_offsets``."""
        return await offsets.list_offsets(self.cluster, timestamps, isolation=isolation)

    async def offset_of(
        self,
        partition: TopicPartition,
        timestamp_ms: int,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> int:
        """One partition's offset by timestamp; see ``offsets.offset_of``."""
        return await offsets.offset_of(self.cluster, partition, timestamp_ms, isolation)

    async def delete_records(self, partition: TopicPartition, before: int) -> ErrorCode:
        """Delete the records below an offset, at the leader."""
        leader = await self.cluster.leader(partition)
        request = requests.delete_records({partition: before}, timeout_ms=TIMEOUT_MS)
        message = await self.cluster.ask(leader.leader_id, request)
        topic = only_row(message.topics, f"about {partition}")
        return ErrorCode(only_row(topic.partitions, f"about {partition}").error_code)

    async def earliest_offset(self, partition: TopicPartition) -> int:
        """The log start offset of a partition, as its leader tells it."""
        return await self.offset_of(partition, offsets.EARLIEST_TIMESTAMP)

    # Replicas and leaders

    async def alter_partition_reassignment(
        self, partition: TopicPartition, replicas: tuple[int, ...]
    ) -> ErrorCode:
        """Reassign a partition; the first replica named is the preferred leader."""
        request = requests.alter_partition_reassignments(
            {partition: replicas}, timeout_ms=TIMEOUT_MS
        )
        message = await self.cluster.ask_any(request)
        errors = [
            partition_row.error_code
            for topic in message.responses
            for partition_row in topic.partitions
        ]
        return ErrorCode(next(filter(None, errors), 0))

    async def elect_preferred_leader(self, partition: TopicPartition) -> None:
        """Ask for the preferred leader; it may lead already, or not be alive."""
        await self.cluster.ask_any(
            requests.elect_preferred_leaders([partition], timeout_ms=TIMEOUT_MS)
        )

    # One transaction, one partition

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """The state of a transactional id.

        Raises:
            ClientError: The coordinator refused; ``error`` says why.
        """
        return or_raised((await self.describe_transactions([transactional_id]))[transactional_id])

    async def producers_of(
        self, partition: TopicPartition, *, broker_id: int | None = None
    ) -> tuple[ProducerState, ...]:
        """The producers of a partition, from its leader or from one broker.

        Raises:
            ClientError: The broker refused; ``error`` says why.
        """
        producers_by_partition = await self.describe_producers([partition], broker_id=broker_id)
        return or_raised(producers_by_partition[partition])

    # Groups

    async def delete_group(self, group_id: str) -> ErrorCode:
        """Delete a group without members, and its positions."""
        message = await self.cluster.ask_group_coordinator(group_id, delete_groups([group_id]))
        return ErrorCode(only_row(message.results, f"about group {group_id!r}").error_code)

    async def shows_group(self, group_id: str) -> bool:
        """Whether a group's coordinator lists it for us, which it does only if we may describe it.

        Raises:
            ClientError: The coordinator did not list its groups.
        """
        message = await self.cluster.ask_group_coordinator(group_id, list_groups())
        error = ErrorCode(message.error_code)
        if error != ErrorCode.none:
            raise ClientError(code_name(error), error=error)
        return any(group_row.group_id == group_id for group_row in message.groups)

    async def committed_positions(
        self,
        group_id: str,
        partitions: Collection[TopicPartition] | None,
        *,
        stable: bool = False,
    ) -> dict[TopicPartition, int]:
        """A group's positions; see ``positions.committed_positions``."""
        return await positions.committed_positions(
            self.cluster, group_id, partitions, needs_stable=stable
        )

    async def commit_positions(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the positions of a group without members."""
        request = offset_commit(group_id, GroupMetadata(), offsets)
        await self.cluster.ask_group_coordinator(group_id, request)

    # Cluster

    async def describe_cluster(self) -> ClusterDescription:
        """Brokers, cluster id, controller; by Metadata if the broker does not know DescribeCluster
        (before Kafka 2.8), as Java's clients do.

        Raises:
            ClientError: Refused.
        """
        try:
            message = await self.cluster.ask_any(requests.describe_cluster())
        except NotSupportedError:
            cluster_view = await self.cluster.refresh()
            return ClusterDescription(
                cluster_id=cluster_view.cluster_id or "",
                controller_id=cluster_view.controller_id,
                brokers=cluster_view.brokers,
            )
        or_raised(_failure(message, "the cluster was not described"))
        return ClusterDescription(
            cluster_id=message.cluster_id,
            controller_id=message.controller_id,
            brokers=tuple(
                BrokerAddress(
                    broker_id=broker_row.broker_id, host=broker_row.host, port=broker_row.port
                )
                for broker_row in message.brokers
            ),
        )

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: int = 1,
        validate_only: bool = False,
        timeout_ms: int = 60_000,
    ) -> None:
        """Change finalized feature levels, all or none.

        Args:
            levels: Feature -> level; 0 removes the feature.
            upgrade_type: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade.
            validate_only: Only check whether the change is possible.
            timeout_ms: The broker's timeout for the change.

        Raises:
            ClientError: Refused; INVALID_UPDATE_VERSION for an impossible level.
        """
        request = requests.update_features(
            levels,
            upgrade_type=upgrade_type,
            validate_only=validate_only,
            timeout_ms=timeout_ms,
        )
        message = await self._ask_controller(request, lambda answer: [answer.error_code])
        failures = [_failure(message, "features were not changed")]
        failures += [
            _failure(feature_row, f"feature {feature_row.feature!r} was not changed")
            for feature_row in getattr(message, "results", ())
        ]
        for failure in failures:
            or_raised(failure)

    async def incremental_alter_configs(
        self, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> dict[tuple[int, str], ClientError | None]:
        """Set or delete configuration entries; (resource type, name) -> None on success.

        Entries of one broker are sent to that broker, others to any broker.
        """
        error_by_resource: dict[tuple[int, str], ClientError | None] = {}
        changes_by_broker: dict[int, list[ConfigChange]] = {}
        for change in changes:
            names_one_broker = (
                change.resource_type == BROKER_RESOURCE and change.resource_name != ALL_BROKERS
            )
            changes_by_broker.setdefault(
                int(change.resource_name) if names_one_broker else -1, []
            ).append(change)
        for broker_id, broker_changes in changes_by_broker.items():
            request = requests.incremental_alter_configs(
                broker_changes, validate_only=validate_only
            )
            if broker_id >= 0:
                message = await self.cluster.ask(broker_id, request)
            else:
                message = await self._ask_controller(
                    request,
                    lambda answer: [resource_row.error_code for resource_row in answer.responses],
                )
            for resource_row in message.responses:
                failure = f"configuration of {resource_row.resource_name!r} was not changed"
                error_by_resource[resource_row.resource_type, resource_row.resource_name] = (
                    _failure(resource_row, failure)
                )
        return error_by_resource

    async def set_topic_config(
        self, topic: str, name: str, value: str | None
    ) -> ClientError | None:
        """Set (or with None unset) a configuration of a topic; returns why it is refused."""
        change = ConfigChange(
            resource_type=TOPIC_RESOURCE, resource_name=topic, name=name, value=value
        )
        failure_by_resource = await self.incremental_alter_configs([change])
        return only_row(tuple(failure_by_resource.values()), f"about topic {topic!r}")

    async def config_at(self, broker_id: int, name: str, *, topic: str | None = None) -> str | None:
        """A config of a broker, or of a topic as that broker knows it; None if there is no such
        config.

        Raises:
            ClientError: Refused.
        """
        resource_type, resource_name = (
            (BROKER_RESOURCE, str(broker_id)) if topic is None else (TOPIC_RESOURCE, topic)
        )
        message = await self.cluster.ask(
            broker_id, requests.describe_configs(resource_type, resource_name, [name])
        )
        resource = only_row(message.results, f"about {resource_name!r}")
        or_raised(_failure(resource, f"configuration of {resource_name!r} is not told"))
        return next((str(config.value) for config in resource.configs), None)

    async def set_group_config(self, group: str, name: str, value: str | None) -> None:
        """Set (or with None unset) a configuration of a group (KIP-848, KIP-932).

        Raises:
            ClientError: Refused.
        """
        change = ConfigChange(
            resource_type=GROUP_RESOURCE, resource_name=group, name=name, value=value
        )
        for failure in (await self.incremental_alter_configs((change,))).values():
            or_raised(failure)

    async def group_configs(self, group: str, names: Sequence[str]) -> dict[str, str]:
        """The values of these configs of a group; configs that it does not have are left out.

        Raises:
            ClientError: Refused.
        """
        request = requests.describe_configs(GROUP_RESOURCE, group, names)
        message = await self.cluster.ask_any(request)
        resource = only_row(message.results, f"about group {group!r}")
        or_raised(_failure(resource, f"configuration of {group!r} is not told"))
        return {config.name: str(config.value) for config in resource.configs}

    async def set_broker_default(self, name: str, value: str | None) -> None:
        """Set (or with None unset) a dynamic configuration of all brokers.

        Raises:
            ClientError: Refused.
        """
        change = ConfigChange(
            resource_type=BROKER_RESOURCE, resource_name=ALL_BROKERS, name=name, value=value
        )
        for failure in (await self.incremental_alter_configs((change,))).values():
            or_raised(failure)

    async def _ask_controller(
        self, request: VersionedRequest, errors_of: Callable[[Any], list[int]]
    ) -> Any:
        """Send a request to any broker; repeat it while there is no controller to process it
        (NOT_CONTROLLER).
        """
        deadline: Deadline = self.cluster.deadline()
        backoff = self.cluster.backoff()
        while True:
            try:
                connection = await self.cluster.any_connection()
            except LOST_ANSWER_ERRORS:
                if deadline.has_passed:
                    raise
            else:
                # Not repeated after a lost connection: the change may have happened.
                message = await connection.request(request)
                if ErrorCode.not_controller not in errors_of(message) or deadline.has_passed:
                    return message
            await backoff.wait(deadline)


def _failure(answer_row: Any, failure: str) -> ClientError | None:
    error = ErrorCode(answer_row.error_code)
    if error == ErrorCode.none:
        return None
    error_message = getattr(answer_row, "error_message", None)
    return ClientError(
        f"{failure}: {error.name.upper()}" + (f" ({error_message})" if error_message else ""),
        error=error,
    )
