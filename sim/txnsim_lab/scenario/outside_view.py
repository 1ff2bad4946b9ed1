"""Observes a partition through the protocol, and writes the observation down for the judges.

Tests whose applications use client libraries need it, since the libraries do not show the open
transactions, the listings of coordinators and the last stable offset. Open transactions are
observed before and after the coordinators are asked, because a single contradiction between two
answers proves nothing.
"""

from __future__ import annotations

from typing import Final

from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.fetching import fetch
from txnsim.errors import ClientError
from txnsim.types import IsolationLevel, TopicPartition
from txnsim_lab.scenario.recorder import Recorder

ONLOOKER_NAME: Final = "onlooker"
"""Name of the observer in the history."""
NO_WAIT_MS: Final = 0
"""A Fetch must not wait: it could be answered with records that are written later."""


async def observe_partition(
    outside_client: Cluster, partition: TopicPartition, recorder: Recorder, *, offset: int = 0
) -> None:
    """Observe everything that concerns a partition.

    Raises:
        ClientError: A broker did not answer.
    """
    with recorder.asking():
        await _observe_once(
            Admin(outside_client), outside_client, partition, recorder, offset=offset
        )


async def _observe_once(
    admin: Admin,
    outside_client: Cluster,
    partition: TopicPartition,
    recorder: Recorder,
    *,
    offset: int,
) -> None:
    await _observe_producers(admin, partition, recorder)
    listings_by_broker = await admin.list_transactions()
    listings = [
        listing
        for broker_listings in listings_by_broker.values()
        if not isinstance(broker_listings, ClientError)
        for listing in broker_listings
    ]
    recorder.note_listing(ONLOOKER_NAME, listings)
    description_by_id = await admin.describe_transactions(
        [listing.transactional_id for listing in listings]
    )
    for description in description_by_id.values():
        if not isinstance(description, ClientError):
            recorder.note_description(ONLOOKER_NAME, description)
    await _observe_producers(admin, partition, recorder)
    for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
        await _observe_reading(outside_client, partition, offset, isolation, recorder)


async def _observe_producers(admin: Admin, partition: TopicPartition, recorder: Recorder) -> None:
    producers_or_error = (await admin.describe_producers((partition,)))[partition]
    if isinstance(producers_or_error, ClientError):
        raise producers_or_error
    recorder.note_producers(ONLOOKER_NAME, partition, producers_or_error)


async def _observe_reading(
    outside_client: Cluster,
    partition: TopicPartition,
    offset: int,
    isolation: IsolationLevel,
    recorder: Recorder,
) -> None:
    """Read until a Fetch makes no progress."""
    while True:
        fetch_result = await fetch(
            outside_client,
            partition.topic,
            partition.partition,
            offset,
            isolation=isolation,
            max_wait_ms=NO_WAIT_MS,
        )
        recorder.note_fetch(ONLOOKER_NAME, offset, isolation, fetch_result)
        if fetch_result.next_offset == offset:
            return
        offset = fetch_result.next_offset
