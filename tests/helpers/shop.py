"""A program under test: commits one record to the topic ``orders`` of the cluster it is given."""

from __future__ import annotations

import asyncio
import sys

from txnsim.client import Cluster, Producer


async def main(bootstrap: str) -> None:
    async with Cluster(bootstrap) as cluster:
        producer = Producer(cluster, transactional_id="shop")
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 0, b"one order")
        await producer.commit()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
