"""A member of a share group by librdkafka that accepts all it gets, until its input ends.

``python -m tests.clients.share.worker BOOTSTRAP GROUP TOPIC``; its lines are those of
``java/ShareWorker.java``.
"""

from __future__ import annotations

import select
import sys
import time

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer

WORK_S = 0.1
"""On what it gets; kills meet records that are held."""


def say(text: str) -> None:
    print(time.time_ns(), text, flush=True)


def work(member: ShareConsumer) -> None:
    offsets_by_partition: dict[int, list[int]] = {}
    for message in member.poll(0.2):
        if message.error() is not None:
            say(f"error {message.error()}")
            continue
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        say(f"got {partition} {offset} -1")
        member.acknowledge(message, AcknowledgeType.ACCEPT)
        offsets_by_partition.setdefault(partition, []).append(offset)
    if offsets_by_partition:
        time.sleep(WORK_S)
    for topic_partition, kafka_error in member.commit_sync(15.0).items():
        if kafka_error is not None:
            say(f"failed {topic_partition.partition} {kafka_error}")
            continue
        for offset in offsets_by_partition.get(topic_partition.partition, ()):
            say(f"acked {topic_partition.partition} {offset}")


def main() -> None:
    bootstrap, group, topic = sys.argv[1:]
    member = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "librdkafka",
            "share.acknowledgement.mode": "explicit",
            "topic.metadata.refresh.interval.ms": 1_000,
            "log_level": 0,
        }
    )
    member.subscribe([topic])
    while not select.select([sys.stdin], [], [], 0)[0]:
        try:
            work(member)
        except KafkaException as failure:
            say(f"error {failure}")
    member.close()


if __name__ == "__main__":
    main()
