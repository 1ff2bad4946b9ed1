"""Whether coordinators have answered completely enough to conclude that a transaction hangs.

In two cases a live transaction looks as if it had no coordinator. The client may not describe its
id, so coordinators leave it out (ListTransactions). Or its coordinator has just died or moved: the
new one has not heard of it yet, or has not begun to read its partition of ``__transaction_state``,
and lists nothing of it without an error. Kafka's own ``find-hanging`` checks neither.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from txnsim.client import requests
from txnsim.client.errors import (
    ClientError,
    ClientTooOldError,
    NotSupportedError,
    RetriableError,
    only_row,
)
from txnsim.client.inspection.txn_views import TransactionDescription
from txnsim.errors import ErrorCode
from txnsim.types import TRANSACTION_STATE_TOPIC, partition_for

if TYPE_CHECKING:
    from txnsim.client.cluster import Cluster

DEVIATIONS: Final = (
    "Before a search names a transaction it makes sure that the user may describe every"
    " transactional id, and that each coordinator has read its log; where coordinators move, it"
    " asks again. Apache Kafka's tool takes a live transaction for hanging then.",
)

UNUSED_ID: Final = "7f3kq-sees-all-transactional-ids"
"""A transactional id that does not exist: an authorizer only looks at the name. No prefix right in
use should cover it.
"""

CoordinatorsKnowledge = tuple[dict[int, str], dict[str, TransactionDescription | None]]


class CoordinatorQueries(Protocol):
    """The two queries of ``TransactionAdmin`` by which this module asks coordinators."""

    cluster: Cluster

    async def describe_transactions(
        self, transactional_ids: Collection[str], /
    ) -> Mapping[str, TransactionDescription | ClientError]:
        """Retry until a coordinator answers that has loaded its partition, or time is up."""

    async def known_to_coordinators(self, producer_ids: set[int], /) -> CoordinatorsKnowledge:
        """The transactional ids of producers, and what coordinators tell of them."""


async def check_sight(cluster: Cluster) -> None:
    """Make sure that we may describe every transactional id. This describes an id that does not
    exist: a client that may not do so lacks the right for all ids.

    Raises:
        ClientError: We may not describe every id, or no broker answered.
    """
    message = await cluster.ask_any(requests.describe_transactions((UNUSED_ID,)))
    state_row = only_row(message.transaction_states, "about a transactional id")
    if ErrorCode(state_row.error_code) is ErrorCode.transactional_id_authorization_failed:
        raise ClientError(
            "Nothing can be said of transactions that seem to hang: this user may not describe"
            " every transactional id, and what it does not see looks the same",
            error=ErrorCode.transactional_id_authorization_failed,
        )


async def sight_failures(cluster: Cluster, *, covers_every_topic: bool) -> tuple[ClientError, ...]:
    """The missing rights because of which a search by this user may be incomplete: brokers leave
    hidden resources out of their answers without an error.

    Raises:
        ClientError: No broker answered.
    """
    failures: list[ClientError] = []
    if covers_every_topic:
        topic_view = (await cluster.refresh((UNUSED_ID,))).topic(UNUSED_ID)
        if topic_view is not None and topic_view.error == ErrorCode.topic_authorization_failed:
            failures.append(
                ClientError(
                    "Not every topic was searched: this user may not describe all of them",
                    error=ErrorCode.topic_authorization_failed,
                )
            )
    try:
        await check_sight(cluster)
    except ClientTooOldError:
        raise
    except NotSupportedError:
        pass  # before Kafka 3.0; no partition could be searched either
    except ClientError as failure:
        if failure.error != ErrorCode.transactional_id_authorization_failed:
            raise
        failures.append(failure)
    return tuple(failures)


async def ask_while_all_serve(
    admin: CoordinatorQueries, producer_ids: set[int]
) -> CoordinatorsKnowledge:
    """What coordinators know about these producers, asked while each partition of
    ``__transaction_state`` has a coordinator that has read it, and none of them moves. A user who
    may not describe that topic gets the answer as it is.

    Raises:
        RetriableError: Coordinators kept moving.
        ClientError: A coordinator was not ready in time.
    """
    cluster = admin.cluster
    deadline, backoff = cluster.deadline(), cluster.backoff()
    while True:
        leaders_before = await _leaders(cluster)
        await _all_serve(admin, _id_of_each(len(leaders_before)))
        coordinators_view = await admin.known_to_coordinators(producer_ids)
        if await _leaders(cluster) == leaders_before:
            return coordinators_view
        if deadline.has_passed:
            raise RetriableError(
                "Nothing can be said of transactions that seem to hang: coordinators move all the"
                " time, and one that has just moved lists nothing. Ask again later"
            )
        await backoff.wait(deadline)


async def _all_serve(admin: CoordinatorQueries, unused_ids: Collection[str]) -> None:
    """Wait until the coordinator of each id has loaded its partition."""
    for description in (await admin.describe_transactions(unused_ids)).values():
        if (
            isinstance(description, ClientError)
            and description.error != ErrorCode.transactional_id_not_found
        ):
            raise description


async def _leaders(cluster: Cluster) -> list[tuple[int, int]]:
    """(leader, leader epoch) of each partition of ``__transaction_state``; empty if the topic does
    not exist or may not be described.
    """
    topic = (await cluster.refresh((TRANSACTION_STATE_TOPIC,))).topic(TRANSACTION_STATE_TOPIC)
    partition_views = (
        ()
        if topic is None
        else sorted(topic.partitions, key=lambda partition_view: partition_view.partition)
    )
    return [
        (partition_view.leader_id, partition_view.leader_epoch)
        for partition_view in partition_views
    ]


def _id_of_each(partition_count: int) -> list[str]:
    """For each partition, an unused id that maps to it."""
    id_by_partition: dict[int, str] = {}
    suffix_number = 0
    while len(id_by_partition) < partition_count:
        candidate_id = f"{UNUSED_ID}-{suffix_number}"
        id_by_partition.setdefault(partition_for(candidate_id, partition_count), candidate_id)
        suffix_number += 1
    return list(id_by_partition.values())
