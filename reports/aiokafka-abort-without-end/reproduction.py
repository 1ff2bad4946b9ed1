"""An abort of aiokafka after GROUP_AUTHORIZATION_FAILED sends no EndTxn.

python reproduction.py BOOTSTRAP: a cluster that lets no client read the group "forbidden".
"""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import GroupAuthorizationFailedError

TOPIC = "t"


async def main(bootstrap):
    """Abort one transaction, commit the next one, and read."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="app")
    await producer.start()
    await producer.begin_transaction()
    await producer.send_and_wait(TOPIC, b"in the transaction that is aborted", partition=0)
    try:
        await producer.send_offsets_to_transaction({TopicPartition("inputs", 0): 1}, "forbidden")
    except GroupAuthorizationFailedError as error:
        print(f"send_offsets_to_transaction: {type(error).__name__}")
    await producer.abort_transaction()
    print("abort_transaction returns")

    await producer.begin_transaction()
    await producer.send_and_wait(TOPIC, b"in the transaction that is committed", partition=0)
    await producer.commit_transaction()
    print("the next transaction is committed")
    await producer.stop()

    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    await consumer.start()
    consumer.assign([TopicPartition(TOPIC, 0)])
    await consumer.seek_to_beginning()
    found = []
    for _ in range(10):
        for records in (await consumer.getmany(timeout_ms=500)).values():
            found += [record.value.decode() for record in records]
    await consumer.stop()
    print("a read_committed consumer gets:", *found, sep="\n  ")
    is_reproduced = len(found) == 2
    print("REPRODUCED" if is_reproduced else "NOT REPRODUCED")
    return 0 if is_reproduced else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
