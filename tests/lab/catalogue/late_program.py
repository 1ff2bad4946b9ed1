"""A program that plays the producer of the late produce, as those in other languages do: one record
in a transaction, acknowledged or given up, then an abort. One JSON object a line tells of it.
"""

from __future__ import annotations

import asyncio
import json
import sys

from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer


async def main(
    bootstrap: str, transactional_id: str, topic: str, partition: str, timestamp_ms: str
) -> None:
    """Play the part of a program whose transaction comes late."""
    async with Cluster(bootstrap) as cluster:
        producer = Producer(
            cluster,
            transactional_id=transactional_id,
            # Of a process that has just begun: its first record takes a while on a busy machine.
            delivery_timeout_ms=1_600,
            request_timeout_ms=1_200,
        )
        await producer.init_transactions()
        print_event("initialized")
        producer.begin()
        try:
            await producer.send(topic, int(partition), b"late", timestamp_ms=int(timestamp_ms))
            print_event("produced")
        except ClientError:
            print_event("produce-failed")
        await producer.abort()
        print_event("aborted")
        await producer.close()


def print_event(event: str) -> None:
    """Print an event that the application sees, as JSON."""
    sys.stdout.write(json.dumps({"client": "a program", "event": event}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
