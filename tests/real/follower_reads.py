"""What consumers get that name their rack, and what followers answer them (KIP-392): asked of real
brokers, whose answers are kept in ``follower_reads.jsonl``, and of the simulator.

::

    python -m tests.real.follower_reads 4.4.0 3.9.2

Three brokers in the racks a, b and c; a partition with replicas in a and b, which has a committed,
an aborted and an open transaction. It needs Java 17 and Maven.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.support.apache_kafka import ApacheKafka
from txnsim.client.admin import Admin
from txnsim.client.backoff import pause
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.producer import Producer
from txnsim.client.requests import ClientApi, MessageRow, NewTopic, per_topic, versioned_request
from txnsim.client.versions import VersionRange
from txnsim.errors import ErrorCode
from txnsim.replica.read_replicas import RACK_SELECTOR
from txnsim.runtime import real_world
from txnsim.types import BrokerId, IsolationLevel, TopicPartition

RACKS: Final = ("a", "b", "c")
BROKERS: Final = tuple(map(BrokerId, (1, 2, 3)))
PROPERTIES: Final[Mapping[str, str | int]] = {
    "replica.selector.class": RACK_SELECTOR,
    "replica.lag.time.max.ms": 3_000,
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 500,
}
RECORDED: Final = Path(__file__).with_name("follower_reads.jsonl")
PARTITION: Final = TopicPartition("near", 0)
VERSIONS: Final = (10, 11, 12, 17)
FULL: Final = (0, 0)
"""Session id and epoch of a Fetch that asks for a session."""
NONE: Final = (0, -1)
SETTINGS: Final = ClientSettings(request_timeout_ms=10_000)

Answers = dict[str, Any]


async def story(cluster: Cluster, *, kill: Callable[[BrokerId], Awaitable[None]]) -> Answers:
    """The answers, by question.

    Args:
        cluster: Client of a cluster of three brokers in ``RACKS``.
        kill: Kills a broker.
    """
    admin = Admin(cluster)
    await admin.create_topics([NewTopic(name=PARTITION.topic, assignments=((1, 2),))])
    topic_id = (await admin.wait_for_topic(PARTITION.topic)).topic_id
    end = await _write(cluster)
    await wait_for_followers(cluster, topic_id, end)
    answers: Answers = {}
    for version, rack, isolation in itertools.product(
        VERSIONS, ("", *RACKS, "elsewhere"), IsolationLevel
    ):
        for broker in BROKERS:
            question = f"v{version}, broker {broker}, rack {rack or 'none'}, {isolation.name}"
            answers[question] = await read_partition(
                cluster, broker, topic_id, version=version, rack=rack, isolation=isolation
            )
    for offset in (end - 1, end, end + 1, 1_000):
        answers[f"from {offset} of {end}"] = await read_partition(
            cluster, BROKERS[0], topic_id, rack="b", offset=offset
        )
    answers["an epoch of the future"] = await read_partition(
        cluster, BROKERS[0], topic_id, rack="b", leader_epoch=1_000
    )
    answers["at the end, with time to wait"] = await read_partition(
        cluster, BROKERS[0], topic_id, rack="b", offset=end, max_wait_ms=60_000
    )
    answers |= await _session(cluster, topic_id, end)
    # Behind what needs the follower: a real leader takes it for word of where that stands.
    answers["as a follower"] = await read_partition(
        cluster, BROKERS[0], topic_id, rack="b", replica_id=2, version=12
    )
    await kill(BROKERS[1])
    while len((await admin.describe_partition(PARTITION)).isr) > 1:
        await pause(cluster.clock, 50)
    answers["once the follower is out of the ISR"] = await read_partition(
        cluster, BROKERS[0], topic_id, rack="b"
    )
    return answers


async def _write(cluster: Cluster) -> int:
    """A committed, an aborted and an open transaction; returns the end of the log."""
    for transactional_id, commits in (("committed", True), ("aborted", False)):
        async with Producer(cluster, transactional_id=transactional_id) as producer:
            await producer.init_transactions()
            producer.begin()
            await producer.send(PARTITION.topic, PARTITION.partition, b"value")
            await (producer.commit() if commits else producer.abort())
    producer = Producer(cluster, transactional_id="open")
    await producer.init_transactions()
    producer.begin()
    await producer.send(PARTITION.topic, PARTITION.partition, b"value")
    return 5


async def wait_for_followers(cluster: Cluster, topic_id: Any, end: int) -> None:
    """Wait until leader and follower both know that everything is replicated."""
    for broker in BROKERS[:2]:
        while (await read_partition(cluster, broker, topic_id))["high watermark"] < end:
            await pause(cluster.clock, 50)


async def _session(cluster: Cluster, topic_id: Any, end: int) -> Answers:
    """In a fetch session, each of the leader's answers names the replica in the reader's rack."""
    answers: Answers = {}
    for rack in ("b", "a"):
        offset = end
        first_answer = await _ask(
            cluster, BROKERS[0], topic_id, rack=rack, session=FULL, offset=offset
        )
        answers[f"rack {rack}: a session begins"] = _told(first_answer)
        session_id = first_answer.session_id
        for epoch in (1, 2):
            answer = await _ask(
                cluster, BROKERS[0], None, rack=rack, session=(session_id, epoch), offset=offset
            )
            answers[f"rack {rack}: epoch {epoch} of it"] = _told(answer)
    return answers


async def read_partition(
    cluster: Cluster, broker: BrokerId, topic_id: Any, **options: Any
) -> Answers:
    answer = _told(await _ask(cluster, broker, topic_id, **options))
    assert isinstance(answer, dict)
    return answer


async def _ask(
    cluster: Cluster,
    broker: BrokerId,
    topic_id: Any,
    *,
    version: int = 17,
    rack: str = "",
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    offset: int = 0,
    leader_epoch: int = -1,
    replica_id: int = -1,
    max_wait_ms: int = 0,
    session: tuple[int, int] = NONE,
) -> Any:
    """The response to a Fetch of the partition; of a session's partitions without a topic id."""
    partitions = [] if topic_id is None else [PARTITION]
    row = MessageRow(
        "FetchPartition",
        partition=PARTITION.partition,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
    )
    ids = {PARTITION.topic: topic_id}
    request = versioned_request(
        ClientApi.FETCH,
        VersionRange(version, version),
        request_timeout_ms=SETTINGS.request_timeout_ms,
        max_wait=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=isolation,
        topics=per_topic(
            "FetchTopic", partitions, lambda _: row, name_field="topic", id_by_topic=ids
        ),
        forgotten_topics_data=(),
        session_id=session[0],
        session_epoch=session[1],
        rack_id=rack,
        replica_id=replica_id,
    )
    return await cluster.ask(broker, request)


def _told(response: Any) -> Answers | str:
    """The fields of a partition in the answer, with the number of bytes of its records."""
    if not response.responses:
        return "nothing"
    (topic,) = response.responses
    (row,) = topic.partitions
    aborted = row.aborted_transactions
    return {
        "error": ErrorCode(row.error_code).name,
        "high watermark": row.high_watermark,
        "last stable offset": row.last_stable_offset,
        "log start": row.log_start_offset,
        "preferred replica": getattr(row, "preferred_read_replica", -1),
        "aborted": None if aborted is None else [entry.first_offset for entry in aborted],
        "has records": bool(row.records),
    }


# The real cluster


def play(release: str) -> Answers:
    """Play on real brokers of a release; return their answers."""
    with ApacheKafka(
        brokers=3,
        version=release,
        racks=RACKS,
        properties={name: str(value) for name, value in PROPERTIES.items()},
        jvm_options=("-Xmx512m",),
    ) as kafka:

        async def kill(broker: BrokerId) -> None:
            kafka.kill(broker)

        async def main() -> Answers:
            async with Cluster(kafka.bootstrap, settings=SETTINGS) as cluster:
                return await story(cluster, kill=kill)

        return {"release": release, "answers": real_world.run(main())}


def recorded_answers() -> dict[str, Answers]:
    """Release -> the answers of its brokers."""
    rows = map(json.loads, RECORDED.read_text("utf-8").splitlines())
    return {row["release"]: row["answers"] for row in rows}


def main(releases: Sequence[str]) -> None:
    rows = [json.dumps(play(release)) for release in releases]
    RECORDED.write_text("".join(f"{row}\n" for row in rows), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
