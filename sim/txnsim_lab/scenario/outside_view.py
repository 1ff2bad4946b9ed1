"""One look at a partition, as somebody outside has it, written down for the judges.

What a client library does not tell (who has a transaction open, what coordinators list, the last
stable offset) is asked for over the wire here, for tests whose applications are such clients. Open
transactions are looked at before and after their coordinators are asked: one contradiction between
two answers proves nothing.
"""

from __future__ import annotations

from typing import Final

from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.fetching import fetch
from txnsim.errors import ClientError
from txnsim.types import IsolationLevel, TopicPartition
from txnsim_lab.scenario.recorder import Recorder

ONLOOKER: Final = "onlooker"
"""Who looks, in the history."""
NO_WAIT_MS: Final = 0
"""A Fetch that waits could be answered with later things."""


async def look(
    outside: Cluster, partition: TopicPartition, recorder: Recorder, *, offset: int = 0
) -> None:
    """Look at everything that concerns a partition.

    Raises:
        ClientError: Somebody did not answer.
    """
    with recorder.asking():
        await _look(Admin(outside), outside, partition, recorder, offset=offset)


async def _look(
    admin: Admin, outside: Cluster, partition: TopicPartition, recorder: Recorder, *, offset: int
) -> None:
    await _producers(admin, partition, recorder)
    listed = await admin.list_transactions()
    listings = [
        listing
        for broker in listed.values()
        if not isinstance(broker, ClientError)
        for listing in broker
    ]
    recorder.note_listing(ONLOOKER, listings)
    described = await admin.describe_transactions(
        [listing.transactional_id for listing in listings]
    )
    for description in described.values():
        if not isinstance(description, ClientError):
            recorder.note_description(ONLOOKER, description)
    await _producers(admin, partition, recorder)
    for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
        await _read(outside, partition, offset, isolation, recorder)


async def _producers(admin: Admin, partition: TopicPartition, recorder: Recorder) -> None:
    answer = (await admin.describe_producers((partition,)))[partition]
    if isinstance(answer, ClientError):
        raise answer
    recorder.note_producers(ONLOOKER, partition, answer)


async def _read(
    outside: Cluster,
    partition: TopicPartition,
    offset: int,
    isolation: IsolationLevel,
    recorder: Recorder,
) -> None:
    """Read until a fetch makes no progress."""
    while True:
        result = await fetch(
            outside,
            partition.topic,
            partition.partition,
            offset,
            isolation=isolation,
            max_wait_ms=NO_WAIT_MS,
        )
        recorder.note_fetch(ONLOOKER, offset, isolation, result)
        if result.next_offset == offset:
            return
        offset = result.next_offset
