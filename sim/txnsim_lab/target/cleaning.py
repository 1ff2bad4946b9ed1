"""Removes what a story has left on a cluster that belongs to others, and lists what could not be
removed. Each thing is removed by its own request, so one refusal does not hide another. What
remains is listed with the Kafka command by which an operator can remove it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, Literal

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.backoff import Deadline, pause
from txnsim.client.cluster import Cluster
from txnsim.client.errors import code_name
from txnsim.client.inspection.txn_views import AbortSpec, ProducerState, TransactionDescription
from txnsim.errors import ClientError, ErrorCode
from txnsim.runtime.environment import Clock
from txnsim.shell_text import ShellText, command_line, option
from txnsim.txn.open_txn_verdict import partition_options
from txnsim.types import CONSUMER_OFFSETS_TOPIC, TopicPartition, partition_for

TIMEOUT_MS: Final = 30_000
POLL_MS: Final = 100
ONGOING_STATE: Final = "Ongoing"
SETTLED_STATES: Final = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
CONFIG_OF_OPERATOR: Final = "admin.properties"
"""Placeholder in commands for the client properties of an authorized operator."""

_E = ErrorCode
_REMOVAL_RIGHTS: Final = {
    _E.topic_authorization_failed: "DELETE on the topic",
    _E.group_authorization_failed: "DELETE on the group",
    _E.transactional_id_authorization_failed: "WRITE on the transactional id",
    _E.cluster_authorization_failed: "ALTER on the cluster",
}
_VIEW_RIGHTS: Final = {
    _E.topic_authorization_failed: "READ on the topic",
    _E.group_authorization_failed: "DESCRIBE on the group",
    _E.transactional_id_authorization_failed: "DESCRIBE on the transactional id",
}

LeftoverKind = Literal["topic", "group", "transaction", "hanging transaction"]
DescribedTransactions = Mapping[str, TransactionDescription | ClientError]


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """A remainder of a story that could not be cleaned up."""

    kind: LeftoverKind
    name: str
    """Topic, group or transactional id; for a hanging transaction, its partition."""
    why: str
    command: str
    """The command with which an operator can remove it, or find out what keeps it."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.why}"


class StoryResources(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a story may have created."""

    topics: Mapping[str, int]
    """Topic -> number of partitions."""
    groups: Collection[str]
    transactional_ids: Collection[str]
    offsets_partition_count: int
    """Number of partitions of ``__consumer_offsets``."""


class Cleaner:
    """Removes everything that one story has created."""

    def __init__(
        self, cluster: Cluster, clock: Clock, *, prefix: str, bootstrap: str, is_secured: bool
    ) -> None:
        self._cluster = cluster
        self._admin = Admin(cluster)
        self._clock = clock
        self._prefix = prefix
        config_option = option("--command-config", CONFIG_OF_OPERATOR) if is_secured else ()
        self._cluster_options = (*option("--bootstrap-server", bootstrap), *config_option)

    async def clean(self, story_resources: StoryResources) -> list[Leftover]:
        """Ends open transactions, deletes topics and groups, and aborts hanging transactions in the
        remaining partitions: those of topics that may not be deleted, and of
        ``__consumer_offsets``.

        Returns:
            What could not be removed.
        """
        leftovers: list[Leftover] = []
        try:
            await self._cluster.refresh(deadline=self._cluster.deadline(TIMEOUT_MS))
        except ClientError as error:
            return list(
                self._list_leftovers(
                    story_resources, reason=f"the cluster does not answer: {error}"
                )
            )
        descriptions = await self._end_transactions(story_resources.transactional_ids, leftovers)
        kept_topics = await self._delete_topics(story_resources.topics, leftovers)
        await self._delete_groups(story_resources.groups, leftovers)
        await self._abort_hanging(story_resources, kept_topics, descriptions, leftovers)
        return leftovers

    def _list_leftovers(
        self, story_resources: StoryResources, *, reason: str
    ) -> Iterator[Leftover]:
        for name in sorted(story_resources.transactional_ids):
            yield Leftover(
                kind="transaction", name=name, why=reason, command=self._describe_command(name)
            )
        for name in story_resources.topics:
            yield Leftover(
                kind="topic", name=name, why=reason, command=self._delete_topic_command(name)
            )
        for name in sorted(story_resources.groups):
            yield Leftover(
                kind="group", name=name, why=reason, command=self._delete_group_command(name)
            )

    # Transactions

    async def _end_transactions(
        self, known_ids: Collection[str], leftovers: list[Leftover]
    ) -> DescribedTransactions:
        """Fence each producer with an open transaction, so that its coordinator aborts it."""
        transactional_ids = sorted({*known_ids, *await self._ids_of_prefix()})
        descriptions = await self._admin.describe_transactions(transactional_ids)
        first_descriptions = dict(descriptions)
        open_ids = [
            transactional_id
            for transactional_id, description in descriptions.items()
            if _is_open(description)
        ]
        refusal_by_id: dict[str, ClientError] = {}
        if open_ids:
            outcome_by_id = await self._admin.fence_producers(open_ids, timeout_ms=TIMEOUT_MS)
            refusal_by_id = {
                transactional_id: identity_or_error
                for transactional_id, identity_or_error in outcome_by_id.items()
                if isinstance(identity_or_error, ClientError)
                and not _is_retriable(identity_or_error)
            }
        deadline = Deadline(self._clock, TIMEOUT_MS)
        while open_ids:
            descriptions |= await self._admin.describe_transactions(open_ids)
            open_ids = [
                transactional_id
                for transactional_id in open_ids
                if _is_open(descriptions[transactional_id])
            ]
            # What may not be ended is not waited for: that would be its whole timeout.
            if deadline.has_passed or refusal_by_id.keys() >= set(open_ids):
                break
            await pause(self._clock, POLL_MS)
        leftovers += self._open_leftovers(first_descriptions, descriptions, refusal_by_id)
        return descriptions

    def _open_leftovers(
        self,
        first_description_by_id: DescribedTransactions,
        descriptions: DescribedTransactions,
        refusal_by_id: Mapping[str, ClientError],
    ) -> Iterator[Leftover]:
        for transactional_id, latest_description in descriptions.items():
            if isinstance(latest_description, ClientError):
                if latest_description.error == _E.transactional_id_not_found:
                    continue  # the story did not come so far
                reason = (
                    "whether it is open can't be seen: "
                    f"{_refusal_reason(latest_description, _VIEW_RIGHTS)}"
                )
                first_description = first_description_by_id[transactional_id]
                if not isinstance(first_description, ClientError) and not _is_open(
                    first_description
                ):
                    continue
                yield Leftover(
                    kind="transaction",
                    name=transactional_id,
                    why=reason,
                    command=self._describe_command(transactional_id),
                )
            elif _is_open(latest_description):
                if transactional_id in refusal_by_id:
                    reason = (
                        f"{latest_description.state}, and may not be ended: "
                        f"{_refusal_reason(refusal_by_id[transactional_id], _REMOVAL_RIGHTS)}"
                    )
                else:
                    reason = (
                        f"still {latest_description.state} {TIMEOUT_MS // 1000} s "
                        "after its producer was fenced"
                    )
                command = self._describe_command(transactional_id)
                if latest_description.state == ONGOING_STATE:
                    reason += (
                        "; its coordinator aborts it "
                        f"{latest_description.timeout_ms // 1000} s after it began"
                    )
                    command = self._terminate_command(transactional_id)
                yield Leftover(
                    kind="transaction", name=transactional_id, why=reason, command=command
                )

    async def _ids_of_prefix(self) -> set[str]:
        """Transactional ids of the story that its file does not name, because a program chose them.
        Brokers that can't list them are skipped, as ids from the file are requested by name.
        """
        ids: set[str] = set()
        try:
            listings_by_broker = await self._admin.list_transactions()
        except ClientError:
            return ids
        for broker_listings in listings_by_broker.values():
            if not isinstance(broker_listings, ClientError):
                transactional_ids = (listing.transactional_id for listing in broker_listings)
                ids.update(
                    transactional_id
                    for transactional_id in transactional_ids
                    if transactional_id.startswith(self._prefix)
                )
        return ids

    # Topics and groups

    async def _delete_topics(
        self, topics: Mapping[str, int], leftovers: list[Leftover]
    ) -> dict[str, int]:
        """Delete topics; returns those that could not be deleted."""
        if not topics:
            return {}
        error_by_topic: Mapping[str, ClientError | None]
        try:
            error_by_topic = await self._admin.delete_topics(tuple(topics))
        except ClientError as error:
            error_by_topic = dict.fromkeys(topics, error)
        kept_topics: dict[str, int] = {}
        for topic_name, refusal in error_by_topic.items():
            if refusal is None or refusal.error == _E.unknown_topic_or_partition:
                continue
            kept_topics[topic_name] = topics[topic_name]
            reason, command = (
                _refusal_reason(refusal, _REMOVAL_RIGHTS),
                self._delete_topic_command(topic_name),
            )
            leftovers.append(Leftover(kind="topic", name=topic_name, why=reason, command=command))
        deleted_topics = set(topics) - set(kept_topics)
        await self._admin.wait_without_topics(deleted_topics, timeout_ms=TIMEOUT_MS)
        return kept_topics

    async def _delete_groups(self, groups: Collection[str], leftovers: list[Leftover]) -> None:
        for group in sorted(groups):
            try:
                error = await self._admin.delete_group(group)
                if error in (_E.none, _E.group_id_not_found):
                    continue
                if error == _E.group_authorization_failed and not await self._admin.shows_group(
                    group
                ):
                    continue
                reason = _refusal_reason(
                    ClientError(code_name(error), error=error), _REMOVAL_RIGHTS
                )
            except ClientError as failure:
                reason = (
                    f"whether it is there can't be seen: {_refusal_reason(failure, _VIEW_RIGHTS)}"
                )
            command = self._delete_group_command(group)
            leftovers.append(Leftover(kind="group", name=group, why=reason, command=command))

    # What hangs

    async def _abort_hanging(
        self,
        story_resources: StoryResources,
        kept_topics: Mapping[str, int],
        description_by_id: DescribedTransactions,
        leftovers: list[Leftover],
    ) -> None:
        """Abort hanging transactions, which no coordinator ends; those in deleted
        topics are gone.
        """
        known_descriptions = [
            description
            for description in description_by_id.values()
            if not isinstance(description, ClientError)
        ]
        open_producer_ids = {
            description.producer_id for description in known_descriptions if _is_open(description)
        }
        ended_producer_ids = {
            description.producer_id for description in known_descriptions
        } - open_producer_ids
        offsets_partitions = {
            TopicPartition(
                CONSUMER_OFFSETS_TOPIC,
                partition_for(group, story_resources.offsets_partition_count),
            )
            for group in story_resources.groups
            if ended_producer_ids
        }
        kept_partitions = {
            TopicPartition(topic_name, partition_index)
            for topic_name, partition_count in kept_topics.items()
            for partition_index in range(partition_count)
        }
        searched_partitions = sorted(offsets_partitions | kept_partitions)
        for partition, producers in (
            await self._admin.describe_producers(searched_partitions)
        ).items():
            if isinstance(producers, ClientError):
                if partition in offsets_partitions:  # of a topic that stays it is said already
                    reason = (
                        "whether one is there can't be seen: "
                        f"{_refusal_reason(producers, _VIEW_RIGHTS)}"
                    )
                    leftovers.append(
                        self._hanging_leftover(partition, reason, self._find_command(partition))
                    )
                continue
            for producer in producers:
                # In a topic of the story's everything is its own, also of an id that is used up.
                is_ours = producer.producer_id in ended_producer_ids or (
                    partition in kept_partitions and producer.producer_id not in open_producer_ids
                )
                if is_ours and producer.txn_start_offset is not None:
                    await self._abort_transaction(partition, producer, leftovers)

    async def _abort_transaction(
        self, partition: TopicPartition, producer: ProducerState, leftovers: list[Leftover]
    ) -> None:
        try:
            await self._admin.abort_transaction(AbortSpec.of(partition, producer))
        except ClientError as error:
            start_offset = producer.txn_start_offset
            reason = (
                f"open since offset {start_offset}, may not be aborted: "
                f"{_refusal_reason(error, _REMOVAL_RIGHTS)}"
            )
            command = self._transactions_command(
                "abort", *partition_options(partition), *option("--start-offset", start_offset)
            )
            leftovers.append(self._hanging_leftover(partition, reason, command))

    # Words

    def _hanging_leftover(self, partition: TopicPartition, reason: str, command: str) -> Leftover:
        return Leftover(
            kind="hanging transaction", name=str(partition), why=reason, command=command
        )

    def _delete_topic_command(self, topic_name: str) -> ShellText:
        command_arguments = ("--delete", *option("--topic", topic_name))
        return command_line("kafka-topics.sh", *self._cluster_options, *command_arguments)

    def _delete_group_command(self, group: str) -> ShellText:
        command_arguments = ("--delete", *option("--group", group))
        return command_line("kafka-consumer-groups.sh", *self._cluster_options, *command_arguments)

    def _describe_command(self, transactional_id: str) -> ShellText:
        id_option = option("--transactional-id", transactional_id)
        return self._transactions_command("describe", *id_option)

    def _terminate_command(self, transactional_id: str) -> ShellText:
        id_option = option("--transactionalId", transactional_id)
        return self._transactions_command("forceTerminateTransaction", *id_option)

    def _find_command(self, partition: TopicPartition) -> ShellText:
        return self._transactions_command("find-hanging", *partition_options(partition))

    def _transactions_command(self, *command_arguments: str) -> ShellText:
        return command_line("kafka-transactions.sh", *self._cluster_options, *command_arguments)


def _is_open(description: TransactionDescription | ClientError) -> bool:
    return not isinstance(description, ClientError) and description.state not in SETTLED_STATES


def _is_retriable(error: ClientError) -> bool:
    """Whether a coordinator may still end the transaction despite the error."""
    return error.error is None or error.error.retriable


def _refusal_reason(error: ClientError, right_by_error: Mapping[ErrorCode, str]) -> str:
    """Why a request was refused: Kafka's name of the error and the missing right; other errors in
    their own words.
    """
    if error.error is None:
        return str(error)
    missing_right = right_by_error.get(error.error)
    return (
        str(error)
        if missing_right is None
        else f"{code_name(error.error)}, it takes {missing_right}"
    )
