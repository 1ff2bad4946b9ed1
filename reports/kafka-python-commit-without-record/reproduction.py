"""A commit of kafka-python succeeds whose record was never written.

python reproduction.py BOOTSTRAP: a cluster of two brokers, and a topic "t" of one partition and one
replica, on a broker that does not coordinate. The program asks for its end and its start; answer
with Enter.
"""

import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

TOPIC = "t"


def please(do):
    """Have somebody do it."""
    print(f"please {do}", flush=True)
    sys.stdin.readline()


def read(bootstrap):
    """What a reader gets, once it gets something."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition(TOPIC, 0)])
    found, left = [], 120
    while left:
        left = min(left - 1, 10) if found else left - 1
        for records in consumer.poll(timeout_ms=500).values():
            found += [record.value.decode() for record in records]
    consumer.close()
    return found


def main(bootstrap):
    """Commit a record while its partition has no leader."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        transactional_id="app",
        request_timeout_ms=3_000,
        delivery_timeout_ms=8_000,
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(TOPIC, b"first", partition=0)
    producer.commit_transaction()
    read(bootstrap)  # its marker is written: else KAFKA-20734 would strike this commit

    producer.begin_transaction()
    please("kill the leader of t-0")
    future = producer.send(TOPIC, b"second", partition=0)
    producer.commit_transaction()
    print("commit_transaction returns, without an error")
    print(f"the record: {future.exception!r}")
    producer.close(timeout=10)

    please("start it again")
    found = read(bootstrap)
    print("a read_committed consumer gets:", *found)
    is_reproduced = found == ["first"]
    print("REPRODUCED" if is_reproduced else "NOT REPRODUCED")
    return 0 if is_reproduced else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
