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
from txnsim.types import CONSUMER_OFFSETS_TOPIC, TopicPartition, partition_for

TIMEOUT_MS: Final = 30_000
POLL_MS: Final = 100
ONGOING: Final = "Ongoing"
SETTLED: Final = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
CONFIG_OF_OPERATOR: Final = "admin.properties"
"""Placeholder in commands for the client properties of an authorized operator."""

_E = ErrorCode
_RIGHTS: Final = {
    _E.topic_authorization_failed: "DELETE on the topic",
    _E.group_authorization_failed: "DELETE on the group",
    _E.transactional_id_authorization_failed: "WRITE on the transactional id",
    _E.cluster_authorization_failed: "ALTER on the cluster",
}
_UNSEEN: Final = {
    _E.topic_authorization_failed: "READ on the topic",
    _E.group_authorization_failed: "DESCRIBE on the group",
    _E.transactional_id_authorization_failed: "DESCRIBE on the transactional id",
}

Kind = Literal["topic", "group", "transaction", "hanging transaction"]
Described = Mapping[str, TransactionDescription | ClientError]


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """A remainder of a story that could not be cleaned up."""

    kind: Kind
    name: str
    """Topic, group or transactional id; for a hanging transaction, its partition."""
    why: str
    command: str
    """The command with which an operator can remove it, or find out what keeps it."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.why}"


class Belongings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a story may have created."""

    topics: Mapping[str, int]
    """Topic -> number of partitions."""
    groups: Collection[str]
    transactional_ids: Collection[str]
    position_partitions: int
    """Number of partitions of ``__consumer_offsets``."""


class Cleaner:
    """Removes everything that one story has created."""

    def __init__(
        self, cluster: Cluster, clock: Clock, *, prefix: str, bootstrap: str, secured: bool
    ) -> None:
        self._cluster = cluster
        self._admin = Admin(cluster)
        self._clock = clock
        self._prefix = prefix
        config = f" --command-config {CONFIG_OF_OPERATOR}" if secured else ""
        self._where = f"--bootstrap-server {bootstrap}{config}"

    async def clean(self, belongings: Belongings) -> list[Left]:
        """Ends open transactions, deletes topics and groups, and aborts hanging transactions in the
        remaining partitions: those of topics that may not be deleted, and of
        ``__consumer_offsets``.

        Returns:
            What could not be removed.
        """
        leftovers: list[Left] = []
        try:
            await self._cluster.refresh(deadline=self._cluster.deadline(TIMEOUT_MS))
        except ClientError as error:
            return list(self._leftovers(belongings, why=f"the cluster does not answer: {error}"))
        described = await self._end_transactions(belongings.transactional_ids, leftovers)
        kept_topics = await self._delete_topics(belongings.topics, leftovers)
        await self._delete_groups(belongings.groups, leftovers)
        await self._abort_hanging(belongings, kept_topics, described, leftovers)
        return leftovers

    def _leftovers(self, belongings: Belongings, *, why: str) -> Iterator[Left]:
        for name in sorted(belongings.transactional_ids):
            yield Left(kind="transaction", name=name, why=why, command=self._describe(name))
        for name in belongings.topics:
            yield Left(kind="topic", name=name, why=why, command=self._delete_topic(name))
        for name in sorted(belongings.groups):
            yield Left(kind="group", name=name, why=why, command=self._delete_group(name))

    # Transactions

    async def _end_transactions(
        self, known_ids: Collection[str], leftovers: list[Left]
    ) -> Described:
        """Fence each producer with an open transaction, so that its coordinator aborts it."""
        names = sorted({*known_ids, *await self._ids_of_prefix()})
        described = await self._admin.describe_transactions(names)
        first_descriptions = dict(described)
        open_ids = [name for name, description in described.items() if _is_open(description)]
        refused: dict[str, ClientError] = {}
        if open_ids:
            fenced = await self._admin.fence_producers(open_ids, timeout_ms=TIMEOUT_MS)
            refused = {
                name: outcome
                for name, outcome in fenced.items()
                if isinstance(outcome, ClientError) and not _is_retriable(outcome)
            }
        deadline = Deadline(self._clock, TIMEOUT_MS)
        while open_ids:
            described |= await self._admin.describe_transactions(open_ids)
            open_ids = [name for name in open_ids if _is_open(described[name])]
            # What may not be ended is not waited for: that would be its whole timeout.
            if deadline.has_passed or refused.keys() >= set(open_ids):
                break
            await pause(self._clock, POLL_MS)
        leftovers += self._still_open(first_descriptions, described, refused)
        return described

    def _still_open(
        self,
        first_descriptions: Described,
        described: Described,
        refused: Mapping[str, ClientError],
    ) -> Iterator[Left]:
        for name, latest in described.items():
            if isinstance(latest, ClientError):
                if latest.error == _E.transactional_id_not_found:
                    continue  # the story did not come so far
                why = f"whether it is open can't be seen: {_because(latest, _UNSEEN)}"
                was = first_descriptions[name]
                if not isinstance(was, ClientError) and not _is_open(was):
                    continue
                yield Left(kind="transaction", name=name, why=why, command=self._describe(name))
            elif _is_open(latest):
                if name in refused:
                    why = (
                        f"{latest.state}, and may not be ended: {_because(refused[name], _RIGHTS)}"
                    )
                else:
                    why = (
                        f"still {latest.state} {TIMEOUT_MS // 1000} s after its producer was fenced"
                    )
                command = self._describe(name)
                if latest.state == ONGOING:
                    why += (
                        f"; its coordinator aborts it {latest.timeout_ms // 1000} s after it began"
                    )
                    command = self._terminate(name)
                yield Left(kind="transaction", name=name, why=why, command=command)

    async def _ids_of_prefix(self) -> set[str]:
        """Transactional ids of the story that its file does not name, because a program chose them.
        Brokers that can't list them are skipped, as ids from the file are requested by name.
        """
        ids: set[str] = set()
        try:
            by_broker = await self._admin.list_transactions()
        except ClientError:
            return ids
        for listed in by_broker.values():
            if not isinstance(listed, ClientError):
                names = (listing.transactional_id for listing in listed)
                ids.update(name for name in names if name.startswith(self._prefix))
        return ids

    # Topics and groups

    async def _delete_topics(
        self, topics: Mapping[str, int], leftovers: list[Left]
    ) -> dict[str, int]:
        """Delete topics; returns those that could not be deleted."""
        if not topics:
            return {}
        outcomes: Mapping[str, ClientError | None]
        try:
            outcomes = await self._admin.delete_topics(tuple(topics))
        except ClientError as error:
            outcomes = dict.fromkeys(topics, error)
        kept_topics: dict[str, int] = {}
        for name, refused in outcomes.items():
            if refused is None or refused.error == _E.unknown_topic_or_partition:
                continue
            kept_topics[name] = topics[name]
            why, command = _because(refused, _RIGHTS), self._delete_topic(name)
            leftovers.append(Left(kind="topic", name=name, why=why, command=command))
        deleted = set(topics) - set(kept_topics)
        await self._admin.wait_without_topics(deleted, timeout_ms=TIMEOUT_MS)
        return kept_topics

    async def _delete_groups(self, groups: Collection[str], leftovers: list[Left]) -> None:
        for group in sorted(groups):
            try:
                error = await self._admin.delete_group(group)
                if error in (_E.none, _E.group_id_not_found):
                    continue
                if error == _E.group_authorization_failed and not await self._admin.shows_group(
                    group
                ):
                    continue
                why = _because(ClientError(code_name(error), error=error), _RIGHTS)
            except ClientError as failure:
                why = f"whether it is there can't be seen: {_because(failure, _UNSEEN)}"
            command = self._delete_group(group)
            leftovers.append(Left(kind="group", name=group, why=why, command=command))

    # What hangs

    async def _abort_hanging(
        self,
        belongings: Belongings,
        kept_topics: Mapping[str, int],
        described: Described,
        leftovers: list[Left],
    ) -> None:
        """Abort hanging transactions, which no coordinator ends; those in deleted
        topics are gone.
        """
        states = [
            description
            for description in described.values()
            if not isinstance(description, ClientError)
        ]
        open_ids = {description.producer_id for description in states if _is_open(description)}
        ended_producer_ids = {description.producer_id for description in states} - open_ids
        positions = {
            TopicPartition(
                CONSUMER_OFFSETS_TOPIC, partition_for(group, belongings.position_partitions)
            )
            for group in belongings.groups
            if ended_producer_ids
        }
        own = {
            TopicPartition(name, index)
            for name, count in kept_topics.items()
            for index in range(count)
        }
        places = sorted(positions | own)
        for partition, producers in (await self._admin.describe_producers(places)).items():
            if isinstance(producers, ClientError):
                if partition in positions:  # of a topic that stays it is said already
                    why = f"whether one is there can't be seen: {_because(producers, _UNSEEN)}"
                    leftovers.append(self._hanging(partition, why, self._find(partition)))
                continue
            for producer in producers:
                # In a topic of the story's everything is its own, also of an id that is used up.
                is_ours = producer.producer_id in ended_producer_ids or (
                    partition in own and producer.producer_id not in open_ids
                )
                if is_ours and producer.txn_start_offset is not None:
                    await self._abort(partition, producer, leftovers)

    async def _abort(
        self, partition: TopicPartition, producer: ProducerState, leftovers: list[Left]
    ) -> None:
        try:
            await self._admin.abort_transaction(AbortSpec.of(partition, producer))
        except ClientError as error:
            since = producer.txn_start_offset
            why = f"open since offset {since}, may not be aborted: {_because(error, _RIGHTS)}"
            command = (
                f"kafka-transactions.sh {self._where} abort --topic {partition.topic} "
                f"--partition {partition.partition} --start-offset {since}"
            )
            leftovers.append(self._hanging(partition, why, command))

    # Words

    def _hanging(self, partition: TopicPartition, why: str, command: str) -> Left:
        return Left(kind="hanging transaction", name=str(partition), why=why, command=command)

    def _delete_topic(self, name: str) -> str:
        return f"kafka-topics.sh {self._where} --delete --topic {name}"

    def _delete_group(self, name: str) -> str:
        return f"kafka-consumer-groups.sh {self._where} --delete --group {name}"

    def _describe(self, name: str) -> str:
        return f"kafka-transactions.sh {self._where} describe --transactional-id {name}"

    def _terminate(self, name: str) -> str:
        return (
            f"kafka-transactions.sh {self._where} forceTerminateTransaction "
            f"--transactionalId {name}"
        )

    def _find(self, partition: TopicPartition) -> str:
        return (
            f"kafka-transactions.sh {self._where} find-hanging --topic {partition.topic} "
            f"--partition {partition.partition}"
        )


def _is_open(description: TransactionDescription | ClientError) -> bool:
    return not isinstance(description, ClientError) and description.state not in SETTLED


def _is_retriable(error: ClientError) -> bool:
    """Whether a coordinator may still end the transaction despite the error."""
    return error.error is None or error.error.retriable


def _because(error: ClientError, rights: Mapping[ErrorCode, str]) -> str:
    """Why a request was refused: Kafka's name of the error and the missing right; other errors in
    their own words.
    """
    if error.error is None:
        return str(error)
    right = rights.get(error.error)
    return str(error) if right is None else f"{code_name(error.error)}, it takes {right}"
