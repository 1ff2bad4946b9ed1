"""An operator's requests about transactions: list, describe, find hanging ones, abort, fence.

Every method sends ordinary requests. The coordinator does not learn of an abort by marker, exactly
as with Kafka's own tools. The wording of refusals is that of the Java ``Admin``, because ``txnsim
txns`` prints it as Kafka's tool does. Kafka's counterparts are ``ListTransactionsHandler``,
``DescribeTransactionsHandler``, ``DescribeProducersHandler``, ``AbortTransactionHandler`` and
``FenceProducersHandler``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from txnsim.client import requests
from txnsim.client._requests_by_key import (
    AskBroker,
    K,
    KeyedResponse,
    KeyLookup,
    LookUp,
    V,
    fixed_broker,
    look_up_coordinators,
    look_up_leaders,
    run_by_key,
)
from txnsim.client.backoff import Deadline
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError, ConnectionLostError, check_unrepeated, or_raised
from txnsim.client.inspection.coordinators_asked import ask_while_all_serve, check_sight
from txnsim.client.inspection.hanging import (
    MAX_TRANSACTION_TIMEOUT_MS,
    OpenTransaction,
    producer_ids,
)
from txnsim.client.inspection.txn_views import (
    AbortSpec,
    OpenSince,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    parse_description,
    parse_listing,
    parse_producer,
)
from txnsim.client.inspection.txn_wording import (
    describe_failure,
    fence_failure,
    marker_failure,
    message_of,
    producers_failure,
)
from txnsim.client.metadata import TopicMetadata
from txnsim.client.requests import Marker
from txnsim.client.session import identity_in
from txnsim.client.txn_requests import TxnRequests
from txnsim.errors import ErrorCode
from txnsim.types import ProducerIdAndEpoch, TopicPartition
from txnsim.wire.filters import TransactionFilters

BATCH_MAX: Final = 500
"""Topics or partitions asked about in one request of a search (TransactionsCommand.MAX_BATCH_SIZE).
"""
PRODUCER_IDS_MAX: Final = 10_000
"""Producer ids asked about in one ListTransactions. Kafka's tool asks about all of them in one; our
brokers refuse a request with more than 20,000 elements.
"""

OPERATOR: Final = -1
"""Coordinator epoch of a marker that an operator sends (text of KIP-664)."""

_E = ErrorCode
_RELOCATE: Final = frozenset(
    {
        _E.not_leader_or_follower,
        _E.replica_not_available,
        _E.broker_not_available,
        _E.unknown_topic_or_partition,
    }
)
_COORDINATOR_MOVED: Final = frozenset({_E.not_coordinator, _E.coordinator_not_available})

T = TypeVar("T")
Producers = tuple[ProducerState, ...]


class SearchTargets(msgspec.Struct, frozen=True, kw_only=True):
    """What a search is about to look at, and what it can't."""

    partitions: tuple[TopicPartition, ...]
    unread_topics: Mapping[str, ClientError] = {}
    """Topics whose partitions are not known."""


class TransactionAdmin:
    """An operator's requests about the transactions of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    # Ask

    async def list_transactions(
        self,
        filters: TransactionFilters | None = None,
        *,
        broker_ids: Collection[int] | None = None,
        timeout_ms: float | None = None,
        **filter_fields: Any,
    ) -> dict[int, tuple[TransactionListing, ...] | ClientError]:
        """Ask every broker for the transactions it coordinates.

        Args:
            filters: Only transactions that match; all if None.
            broker_ids: Ask only these brokers (text of KIP-664).
            timeout_ms: ``api_timeout_ms`` unless given.
            filter_fields: Fields of ``TransactionFilters`` instead of ``filters``, such as
                ``pattern="sh.*"``.

        Returns:
            Broker id -> listings, or why that broker could not answer.
        """
        cluster_view = await self.cluster.refresh(deadline=self.cluster.deadline(timeout_ms))
        live_broker_ids = [broker.broker_id for broker in cluster_view.brokers]
        requested_broker_ids = (
            live_broker_ids if broker_ids is None else list(dict.fromkeys(broker_ids))
        )
        unknown_brokers = [
            broker_id for broker_id in requested_broker_ids if broker_id not in live_broker_ids
        ]
        request = requests.list_transactions(filters or TransactionFilters(**filter_fields))

        async def ask(
            broker_id: int, broker_ids_asked: Sequence[int]
        ) -> KeyedResponse[int, tuple[TransactionListing, ...]]:
            message = await self.cluster.ask(broker_id, request)
            error = _E(message.error_code)
            message_start = f"ListTransactions request sent to broker {broker_id} failed"
            match error:
                case _E.none:
                    listings = tuple(
                        parse_listing(broker_id, state_row)
                        for state_row in message.transaction_states
                    )
                    listed_ids = (listing.transactional_id for listing in listings)
                    check_unrepeated(listed_ids, f"broker {broker_id} listed transactions")
                    return KeyedResponse(completed=dict.fromkeys(broker_ids_asked, listings))
                case _E.coordinator_load_in_progress:
                    return KeyedResponse(waiting=dict.fromkeys(broker_ids_asked, error))
                case _E.coordinator_not_available:
                    failure = f"{message_start} because the coordinator is shutting down"
                case _:
                    failure = f"{message_start} with an unexpected exception"
            return KeyedResponse(
                error_by_key=dict.fromkeys(broker_ids_asked, ClientError(failure, error=error))
            )

        async def look_up(_cluster: Cluster, keys: Sequence[int], _: Deadline) -> KeyLookup[int]:
            return KeyLookup(mapped={key: key for key in keys})  # AllBrokersStrategy

        listing_by_broker = await run_by_key(
            self.cluster,
            tuple(broker_id for broker_id in requested_broker_ids if broker_id in live_broker_ids),
            request_name="ListTransactions",
            look_up=look_up,
            ask_broker=ask,
            timeout_ms=timeout_ms,
        )
        return listing_by_broker | {
            broker_id: _stranger(broker_id, live_broker_ids) for broker_id in unknown_brokers
        }

    async def describe_transactions(
        self,
        transactional_ids: Collection[str],
        *,
        broker_id: int | None = None,
    ) -> dict[str, TransactionDescription | ClientError]:
        """Ask coordinators for the state of transactions; unknown ids have
        TRANSACTIONAL_ID_NOT_FOUND.

        Args:
            transactional_ids: The ids to describe.
            broker_id: Ask this broker instead of their coordinators; then NOT_COORDINATOR is final.
        """

        async def ask(
            asked_id: int, keys: Sequence[str]
        ) -> KeyedResponse[str, TransactionDescription]:
            message = await self.cluster.ask(asked_id, requests.describe_transactions(keys))
            response: KeyedResponse[str, TransactionDescription] = KeyedResponse()
            for state_row in message.transaction_states:
                key, error = state_row.transactional_id, _E(state_row.error_code)
                if error == _E.none:
                    response.complete(key, parse_description(asked_id, state_row))
                elif error == _E.coordinator_load_in_progress:
                    response.wait(key, error)
                elif error in _COORDINATOR_MOVED and broker_id is None:
                    response.send_elsewhere(key, error)
                else:
                    response.refuse(key, ClientError(describe_failure(key, error), error=error))
            return response

        return await self._by_key(
            "DescribeTransactions", transactional_ids, look_up_coordinators, ask, broker_id
        )

    async def describe_producers(
        self,
        partitions: Collection[TopicPartition],
        *,
        broker_id: int | None = None,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, Producers | ClientError]:
        """Ask leaders, or the replicas on one broker, for the active producers of partitions.

        Args:
            partitions: The partitions to describe.
            broker_id: A replica to ask instead of the leaders; then NOT_LEADER_OR_FOLLOWER is
                final.
            timeout_ms: ``api_timeout_ms`` unless given.
        """

        async def ask(
            asked_id: int, keys: Sequence[TopicPartition]
        ) -> KeyedResponse[TopicPartition, Producers]:
            message = await self.cluster.ask(asked_id, requests.describe_producers(keys))
            return _parse_producers(message, fixed_id=broker_id)

        return await self._by_key(
            "DescribeProducers", partitions, look_up_leaders, ask, broker_id, timeout_ms
        )

    async def _by_key(
        self,
        request_name: str,
        keys: Collection[K],
        look_up: LookUp[K],
        ask_broker: AskBroker[K, V],
        broker_id: int | None = None,
        timeout_ms: float | None = None,
    ) -> dict[K, V | ClientError]:
        """Ask the broker of each key, or ``broker_id`` for all keys; it must be in the cluster."""
        if broker_id is not None:
            look_up = fixed_broker(broker_id)
            if self.cluster.view.broker(broker_id) is None:
                cluster_view = await self.cluster.refresh(
                    deadline=self.cluster.deadline(timeout_ms)
                )
                if cluster_view.broker(broker_id) is None:
                    live_broker_ids = [broker.broker_id for broker in cluster_view.brokers]
                    return dict.fromkeys(keys, _stranger(broker_id, live_broker_ids))
        return await run_by_key(
            self.cluster,
            tuple(dict.fromkeys(keys)),
            request_name=request_name,
            look_up=look_up,
            ask_broker=ask_broker,
            timeout_ms=timeout_ms,
        )

    # Search

    async def find_hanging(
        self,
        *,
        now_ms: int,
        topic: str | None = None,
        partition: int | None = None,
        broker_id: int | None = None,
        max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
    ) -> tuple[OpenTransaction, ...]:
        """Search for transactions that no coordinator will end.

        Args:
            now_ms: The wall clock to measure ages by.
            topic: Only this topic; all, including internal ones, if None.
            partition: Only this partition of ``topic``.
            broker_id: Only partitions with a replica on this broker, which is asked instead of the
                leader.
            max_transaction_timeout_ms: Younger transactions are ignored.

        Raises:
            ClientError: A step failed; the message says which.
        """
        searched_partitions = await self.search_targets(topic, partition, broker_id)
        if searched_partitions.unread_topics:
            raise next(iter(searched_partitions.unread_topics.values()))
        candidates: list[OpenTransaction] = []
        for partition_slice in batches(searched_partitions.partitions):
            producers_by_partition = await self.describe_producers(
                partition_slice, broker_id=broker_id
            )
            replica = "Optional.empty" if broker_id is None else f"Optional[{broker_id}]"
            failure = (
                f"Failed to describe producers for {len(partition_slice)} partitions on broker"
                f" {replica}"
            )
            candidates += OpenTransaction.candidates(
                dict(_all_or_raise(producers_by_partition.items(), failure)),
                now_ms=now_ms,
                max_transaction_timeout_ms=max_transaction_timeout_ms,
            )
        if not candidates:
            return ()
        hanging_candidates = OpenTransaction.hanging(
            candidates, *await self.known_to_coordinators(producer_ids(candidates))
        )
        if hanging_candidates:
            await check_sight(self.cluster)
            hanging_candidates = OpenTransaction.hanging(
                hanging_candidates,
                *await ask_while_all_serve(self, producer_ids(hanging_candidates)),
            )
        return hanging_candidates

    async def known_to_coordinators(
        self, producer_ids: set[int]
    ) -> tuple[dict[int, str], dict[str, TransactionDescription | None]]:
        """What all coordinators know about these producers.

        Returns:
            Producer id -> transactional id, without unknown producers; transactional id ->
            description, None if the coordinator has forgotten it meanwhile.

        Raises:
            ClientError: A coordinator did not answer, so the result would be incomplete.
        """
        transactional_id_by_producer = await self._transactional_ids(producer_ids)
        descriptions: dict[str, TransactionDescription | None] = {}
        for id_slice in batches(tuple(transactional_id_by_producer.values())):
            for transactional_id, outcome in (await self.describe_transactions(id_slice)).items():
                if not isinstance(outcome, ClientError):
                    descriptions[transactional_id] = outcome
                elif outcome.error == _E.transactional_id_not_found:
                    descriptions[transactional_id] = None
                else:
                    raise ClientError(
                        f"Failed to describe {len(transactional_id_by_producer)} transactions:"
                        f" {outcome}",
                        error=outcome.error,
                    )
        return transactional_id_by_producer, descriptions

    async def search_targets(
        self, topic: str | None = None, partition: int | None = None, broker_id: int | None = None
    ) -> SearchTargets:
        """The partitions of all topics or of one topic, or one partition; with ``broker_id`` only
        those that have a replica on that broker.

        A topic that is listed with an error, or without partitions, is not passed over: it is
        among ``unread_topics``.

        Raises:
            ClientError: Topics can't be listed, or a listed one can't be described a moment later.
        """
        if topic is not None and partition is not None:
            return SearchTargets(partitions=(TopicPartition(topic, partition),))
        unread_topics: dict[str, ClientError] = {}
        if topic is not None:
            topic_names = [topic]
        else:
            topic_names = []
            topics_metadata = await self.cluster.refresh(None)
            if topics_metadata.error:
                raise ClientError(
                    f"Failed to list topics: {message_of(topics_metadata.error)}",
                    error=_E(topics_metadata.error),
                )
            for topic_view in topics_metadata.topics:
                failure = _listing_failure(topic_view)
                if failure is None:
                    topic_names.append(topic_view.name)
                else:
                    unread_topics[topic_view.name] = failure
        target_partitions: list[TopicPartition] = []
        for id_slice in batches(topic_names):
            failure_start = f"Failed to describe {len(id_slice)} topics"
            cluster_view = await self.cluster.refresh(id_slice)
            for view in cluster_view.topics:
                if view.error:
                    raise ClientError(
                        f"{failure_start}: {message_of(view.error)}", error=_E(view.error)
                    )
                if (lack := _lack_of_partitions(view)) is not None:
                    raise ClientError(f"{failure_start}: {view.name!r} is listed without {lack}")
                target_partitions += [
                    TopicPartition(view.name, partition_view.partition)
                    for partition_view in view.partitions
                    if broker_id is None or broker_id in partition_view.replicas
                ]
            unanswered = set(id_slice) - {view.name for view in cluster_view.topics}
            if unanswered:
                raise ClientError(f"{failure_start}: no answer about {min(unanswered)!r}")
        return SearchTargets(
            partitions=tuple(dict.fromkeys(target_partitions)), unread_topics=unread_topics
        )

    async def _transactional_ids(self, producer_ids: set[int]) -> dict[int, str]:
        """Producer id -> transactional id; the last answer wins, as in Kafka's tool."""
        failure = f"Failed to list transactions for {len(producer_ids)} producers"
        transactional_id_by_producer: dict[int, str] = {}
        for id_slice in batches(sorted(producer_ids), PRODUCER_IDS_MAX):
            listing_by_broker = await self.list_transactions(producer_ids=id_slice)
            transactional_id_by_producer |= {
                listing.producer_id: listing.transactional_id
                for _, listings in _all_or_raise(listing_by_broker.items(), failure)
                for listing in listings
                if listing.producer_id in producer_ids
            }
        return transactional_id_by_producer

    # Repair

    async def identify(self, which: OpenSince, *, timeout_ms: float | None = None) -> AbortSpec:
        """The identity of the open transaction that starts at the given offset, from the leader.

        Raises:
            ClientError: The leader could not say, or has no such transaction
                (INVALID_TXN_STATE).
        """
        producers = await self.describe_producers((which.partition,), timeout_ms=timeout_ms)
        for producer in or_raised(producers[which.partition]):
            if producer.txn_start_offset == which.start_offset:
                return AbortSpec.of(which.partition, producer)
        raise ClientError(
            f"Could not find any open transactions starting at offset {which.start_offset}"
            f" on partition {which.partition}",
            error=_E.invalid_txn_state,
        )

    async def abort_transaction(
        self, which: AbortSpec | OpenSince, *, timeout_ms: float | None = None
    ) -> None:
        """Write an abort marker to the partition's leader. The coordinator does not take part and
        does not learn of it.

        Args:
            which: The transaction, by its identity or by its start offset, never by both.
            timeout_ms: Timeout of each of the requests; ``api_timeout_ms`` unless given.

        Raises:
            ClientError: No such transaction, or refused: not authorized, fenced, or an epoch older
                than the partition's.
            RetriableError: No leader accepted it in time.
        """
        match which:
            case OpenSince():
                spec = await self.identify(which, timeout_ms=timeout_ms)
            case AbortSpec():
                spec = which
        await self.end(spec.marker(committed=False), timeout_ms=timeout_ms, what=str(spec))

    async def abort_named_transaction(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        start_offset: int,
    ) -> None:
        """Abort the producer's open transaction only if it starts at ``start_offset`` (text of
        KIP-664); for the listener of ``--kip-text``.

        Raises:
            ClientError: There is no such transaction, or the producer is at another epoch.
            RetriableError: No leader accepted it in time.
        """
        marker = Marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=False,
            coordinator_epoch=OPERATOR,
            partitions=(partition,),
            start_offset=start_offset,
        )
        await self.end(marker)

    async def end(self, marker: Marker, *, timeout_ms: float | None = None, what: str = "") -> None:
        """Send a marker to the leaders of its partitions.

        Raises:
            ClientError: A leader refused it.
        """
        error_by_partition = await self.write_txn_marker(marker, timeout_ms=timeout_ms, what=what)
        for partition_error in error_by_partition.values():
            or_raised(partition_error)

    async def write_txn_marker(
        self, marker: Marker, *, timeout_ms: float | None = None, what: str = ""
    ) -> dict[TopicPartition, ClientError | None]:
        """Send a marker to the leaders of its partitions; None is success."""

        async def ask(
            broker_id: int, keys: Sequence[TopicPartition]
        ) -> KeyedResponse[TopicPartition, None]:
            marker_part = msgspec.structs.replace(marker, partitions=tuple(keys))
            request = (
                requests.write_txn_markers((marker_part,))
                if marker_part.start_offset is None
                else requests.named_txn_markers((marker_part,))
            )
            message = await self.cluster.ask(broker_id, request)
            return _parse_markers(message, what or str(marker), marker.coordinator_epoch)

        return await self._by_key(
            "WriteTxnMarkers", marker.partitions, look_up_leaders, ask, timeout_ms=timeout_ms
        )

    async def fence_producers(
        self, transactional_ids: Collection[str], *, timeout_ms: float | None = None
    ) -> dict[str, ProducerIdAndEpoch | ClientError]:
        """Fence the producers that use these ids, and abort their open transactions, by
        InitProducerId without an expected identity.
        """
        txn_timeout_ms = self.cluster.settings.request_timeout_ms

        async def ask(
            broker_id: int, keys: Sequence[str]
        ) -> KeyedResponse[str, ProducerIdAndEpoch]:
            response: KeyedResponse[str, ProducerIdAndEpoch] = KeyedResponse()
            for transactional_id in keys:
                request = TxnRequests(transactional_id).init(timeout_ms=txn_timeout_ms)
                message = await self.cluster.ask(broker_id, request)
                match _E(message.error_code):
                    case _E.none:
                        response.complete(transactional_id, identity_in(message))
                    case _E.coordinator_load_in_progress | _E.concurrent_transactions as error:
                        response.wait(transactional_id, error)
                    case _E.not_coordinator | _E.coordinator_not_available as error:
                        response.send_elsewhere(transactional_id, error)
                    case error:
                        failure = fence_failure(transactional_id, error)
                        response.refuse(transactional_id, ClientError(failure, error=error))
            return response

        return await self._by_key(
            "InitProducerId", transactional_ids, look_up_coordinators, ask, timeout_ms=timeout_ms
        )

    async def force_terminate_transaction(self, transactional_id: str) -> None:
        """Abort the open transaction of the transactional id, and fence its producer (KIP-939).

        Raises:
            ClientError: Refused, or not achieved in time.
        """
        or_raised((await self.fence_producers((transactional_id,)))[transactional_id])


def _stranger(broker_id: int, live_broker_ids: Collection[int]) -> ClientError:
    """The outcome if the broker that should answer is not in the cluster."""
    brokers = ", ".join(str(live_id) for live_id in live_broker_ids)
    return ConnectionLostError(
        f"broker {broker_id} is not in the cluster, whose brokers are {brokers}",
        error=_E.broker_not_available,
    )


# Answers


def _parse_producers(
    message: Any, *, fixed_id: int | None
) -> KeyedResponse[TopicPartition, Producers]:
    response: KeyedResponse[TopicPartition, Producers] = KeyedResponse()
    for topic in message.topics:
        for partition_row in topic.partitions:
            key, error = (
                TopicPartition(topic.name, partition_row.partition_index),
                _E(partition_row.error_code),
            )
            match error:
                case _E.none:
                    producers = tuple(map(parse_producer, partition_row.active_producers))
                    response.complete(key, producers)
                case _E.not_leader_or_follower if fixed_id is None:
                    response.send_elsewhere(key, error)
                case _E.unknown_topic_or_partition:
                    response.wait(key, error)
                case _:
                    failure_text = producers_failure(
                        key, error, partition_row.error_message, fixed_id
                    )
                    response.refuse(key, ClientError(failure_text, error=error))
    return response


def _parse_markers(
    message: Any, subject: str, coordinator_epoch: int
) -> KeyedResponse[TopicPartition, None]:
    response: KeyedResponse[TopicPartition, None] = KeyedResponse()
    for marker in message.markers:
        for topic in marker.topics:
            for partition_row in topic.partitions:
                key, error = (
                    TopicPartition(topic.name, partition_row.partition_index),
                    _E(partition_row.error_code),
                )
                if error == _E.none:
                    response.complete(key, None)
                elif error in _RELOCATE:
                    response.send_elsewhere(key, error)
                else:
                    failure_text = marker_failure(subject, error, coordinator_epoch)
                    response.refuse(key, ClientError(failure_text, error=error))
    return response


def batches(items: Sequence[T], batch_max: int = BATCH_MAX) -> Iterator[Sequence[T]]:
    """Slices of at most ``batch_max`` items, the limit of one request."""
    for batch_start in range(0, len(items), batch_max):
        yield items[batch_start : batch_start + batch_max]


def _all_or_raise(
    outcomes: Iterable[tuple[K, T | ClientError]], failure: str
) -> Iterator[tuple[K, T]]:
    for key, outcome in outcomes:
        if isinstance(outcome, ClientError):
            raise ClientError(f"{failure}: {outcome}", error=outcome.error)
        yield key, outcome


def _listing_failure(topic_view: TopicMetadata) -> ClientError | None:
    """Why the partitions of a listed topic are not known; None if they are."""
    if topic_view.error:
        return ClientError(
            f"Failed to describe it: {message_of(topic_view.error)}", error=_E(topic_view.error)
        )
    if (lack := _lack_of_partitions(topic_view)) is not None:
        return ClientError(f"Failed to describe it: it is listed without {lack}")
    return None


def _lack_of_partitions(topic_view: TopicMetadata) -> str | None:
    """What a topic lacks of its partitions, which are numbered from 0 on; None if it has all."""
    indexes = {partition_view.partition for partition_view in topic_view.partitions}
    if not indexes:
        return "a partition"
    missing_index = next((index for index in range(max(indexes)) if index not in indexes), None)
    return None if missing_index is None else f"partition {missing_index}"
