"""Whether coordinators have said enough for an operator to say that a transaction hangs.

A live transaction looks like one without a coordinator in two cases. The client may not describe
its id, so coordinators leave it out (ListTransactions). Or its coordinator has just died or moved:
the new one has not heard of it yet, or has not begun to read its partition of
``__transaction_state``, and lists nothing of it without an error. Kafka's own ``find-hanging``
looks for neither.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from txnsim.client import requests
from txnsim.client.errors import ClientError, ClientTooOldError, NotSupportedError, RetriableError
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
"""An authorizer judges the name, whether or not there is such an id, or such a topic. No right for
a prefix that somebody uses should cover it.
"""

Known = tuple[dict[int, str], dict[str, TransactionDescription | None]]


class Asking(Protocol):
    """The two questions of ``TransactionAdmin``."""

    cluster: Cluster

    async def describe_transactions(
        self, transactional_ids: Collection[str], /
    ) -> Mapping[str, TransactionDescription | ClientError]:
        """It asks until a coordinator answers that has read its partition, or time is up."""

    async def known_to_coordinators(self, producer_ids: set[int], /) -> Known:
        """Ids and descriptions."""


async def check_sight(cluster: Cluster) -> None:
    """Make sure that every transactional id may be described. So this asks for one that does not
    exist: a client that may not describe that one lacks the right for all ids.

    Raises:
        ClientError: Not every one may, or no broker answered.
    """
    message = await cluster.ask_any(requests.describe_transactions((UNUSED_ID,)))
    (row,) = message.transaction_states
    if ErrorCode(row.error_code) is ErrorCode.transactional_id_authorization_failed:
        raise ClientError(
            "Nothing can be said of transactions that seem to hang: this user may not describe"
            " every transactional id, and what it does not see looks the same",
            error=ErrorCode.transactional_id_authorization_failed,
        )


async def unseen(cluster: Cluster, *, every_topic: bool) -> tuple[ClientError, ...]:
    """What a search of this user may have missed, for want of a right: brokers leave it out of
    their answers without an error.

    Raises:
        ClientError: No broker answered.
    """
    missing: list[ClientError] = []
    if every_topic:
        view = (await cluster.refresh((UNUSED_ID,))).topic(UNUSED_ID)
        if view is not None and view.error == ErrorCode.topic_authorization_failed:
            missing.append(
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
        missing.append(failure)
    return tuple(missing)


async def asked_while_all_serve(admin: Asking, producer_ids: set[int]) -> Known:
    """What coordinators know of these producers, asked while each partition of
    ``__transaction_state`` has a coordinator that has read it, and none of them moves. A user who
    may not describe that topic gets the answer as it is.

    Raises:
        RetriableError: Coordinators moved all the time.
        ClientError: One did not serve in time.
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


async def _all_serve(admin: Asking, unused_ids: Collection[str]) -> None:
    """Wait until the coordinator of each id has read its partition."""
    for description in (await admin.describe_transactions(unused_ids)).values():
        if (
            isinstance(description, ClientError)
            and description.error != ErrorCode.transactional_id_not_found
        ):
            raise description


async def _leaders(cluster: Cluster) -> list[tuple[int, int]]:
    """Leader and its epoch of each partition of ``__transaction_state``; none where the topic is
    not there or may not be described.
    """
    topic = (await cluster.refresh((TRANSACTION_STATE_TOPIC,))).topic(TRANSACTION_STATE_TOPIC)
    rows = () if topic is None else sorted(topic.partitions, key=lambda row: row.partition)
    return [(row.leader_id, row.leader_epoch) for row in rows]


def _id_of_each(partitions: int) -> list[str]:
    """An unused id for each partition."""
    id_by_partition: dict[int, str] = {}
    number = 0
    while len(id_by_partition) < partitions:
        name = f"{UNUSED_ID}-{number}"
        id_by_partition.setdefault(partition_for(name, partitions), name)
        number += 1
    return list(id_by_partition.values())
