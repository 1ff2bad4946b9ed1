"""Records of share groups that a real broker wrote, read by Spark and by ``kafka-dump-log``."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.spark.pipeline import dumped_tables as as_dumped
from tests.spark.pipeline.test_dump_log import RECORD, dump_log
from tests.support.apache_kafka import ApacheKafka
from tests.support.txnsim_server import TxnsimServer
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.inspection.groups import GroupPosition, share_positions
from txnsim.client.members.membership import MemberOptions
from txnsim.client.members.share import ShareMember
from txnsim.client.producer import Producer
from txnsim.errors import ErrorCode
from txnsim.runtime.real_world import run
from txnsim.types import SHARE_STATE_TOPIC, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.real]

ORDERS_0: Final = TopicPartition("orders", 0)
UPDATES_PER_SNAPSHOT: Final = 3
PROPERTIES: Final = {
    "share.coordinator.snapshot.update.records.per.snapshot": str(UPDATES_PER_SNAPSHOT),
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
}
STATES: Final = ("accept", "release", "reject")


def test_spark_reads_what_the_share_coordinators_wrote(spark: SparkSession, tmp_path: Path) -> None:
    with ApacheKafka(directory=tmp_path, properties=PROPERTIES) as kafka:
        positions = run(_share_positions(kafka.bootstrap))
        (home,) = kafka.homes
    with TxnsimServer(brokers=1, arguments=("--load", str(home / "data"))) as server:
        assert run(_positions(server.bootstrap)) == positions, "serve --load goes on with it"
    frame = spark.read.format("kafka_log").option("table", "share_states").load(str(home / "data"))
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    logs = list((home / "data").rglob(f"{SHARE_STATE_TOPIC}*/*.log"))
    dump_by_path = dump_log(logs, "--share-group-state-decoder", "--deep-iteration").files
    printed_values = [
        _printed_fields(line)
        for path in sorted(dump_by_path)
        for line in dump_by_path[path]
        if line.startswith(RECORD) and " key: {" in line
    ]
    assert sorted(map(repr, map(_values, rows))) == sorted(map(repr, printed_values))
    assert all(row["problem"] is None for row in rows)
    kinds = {(row["kind"], row["is_tombstone"]) for row in rows}
    assert kinds == {("snapshot", False), ("update", False), ("snapshot", True)}
    states = {
        state_batch["delivery_state"] for row in rows for state_batch in row["state_batches"] or ()
    }
    assert states == {0, 2, 4}


async def _positions(bootstrap: str) -> tuple[GroupPosition, ...]:
    async with Cluster(bootstrap) as client:
        return await share_positions(Admin(client), "workers")


async def _share_positions(bootstrap: str) -> tuple[GroupPosition, ...]:
    """Two share groups say all that can be said of records; one is deleted, where the other one
    stands is answered.
    """
    async with Cluster(bootstrap) as client:
        admin = Admin(client)
        await admin.create_topic(ORDERS_0.topic, partitions=1)
        for group in ("workers", "gone"):
            await admin.set_group_config(group, "share.auto.offset.reset", "earliest")
            member = ShareMember(client, MemberOptions(group_id=group, member_id=_id(group)))
            await member.subscribe([ORDERS_0.topic], until=frozenset({ORDERS_0}))
            for _ in range(2 * UPDATES_PER_SNAPSHOT):
                async with Producer(client) as producer:
                    for state_value in STATES:
                        await producer.send(
                            ORDERS_0.topic, ORDERS_0.partition, state_value.encode()
                        )
                share_answers = await member.poll(max_wait_ms=2_000)
                for acquired in share_answers.acquired:
                    for record, _ in acquired.records:
                        member.acknowledge(ORDERS_0, [record.offset], STATES[record.offset % 3])
                await member.commit()
            await member.leave()
        assert await admin.delete_group("gone") is ErrorCode.none
        return await share_positions(admin, "workers")


def _id(group: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, group))


def _values(row: dict[str, Any]) -> dict[str, Any]:
    """The values of a row that the tool prints, too."""
    key_fields = {
        "type": row["key_version"],
        "groupId": row["group_id"],
        "topicId": row["shared_topic_id"],
        "partition": row["shared_partition"],
    }
    if row["is_tombstone"]:
        return key_fields
    return {
        **key_fields,
        "version": row["value_version"],
        "snapshotEpoch": row["snapshot_epoch"],
        "stateEpoch": row["state_epoch"],
        "leaderEpoch": row["leader_epoch"],
        "startOffset": _number(row["start_offset"]),
        "deliveryCompleteCount": _number(row["delivery_complete_count"]),
        "createTimestamp": row["create_timestamp_ms"],
        "writeTimestamp": row["write_timestamp_ms"],
        "stateBatches": [tuple(state_batch.values()) for state_batch in row["state_batches"]],
    }


def _number(value: int | None) -> int:
    return -1 if value is None else value


def _printed_fields(line: str) -> dict[str, Any]:
    key, printed_value = as_dumped.decode_line(line)
    key_fields = {"type": int(key["type"]), **key["data"]}
    if printed_value is None:
        return key_fields
    # An update has no such fields; a tagged one with its default is not printed.
    null_fields = dict.fromkeys(("stateEpoch", "createTimestamp", "writeTimestamp"))
    data = {**null_fields, "deliveryCompleteCount": -1, **printed_value["data"]}
    batches = [
        (
            state_batch["firstOffset"],
            state_batch["lastOffset"],
            state_batch["deliveryState"],
            state_batch["deliveryCount"],
        )
        for state_batch in data["stateBatches"]
    ]
    names = ("snapshotEpoch", "stateEpoch", "leaderEpoch", "startOffset", "deliveryCompleteCount")
    return {
        **key_fields,
        "version": int(printed_value["version"]),
        **{name: data[name] for name in (*names, "createTimestamp", "writeTimestamp")},
        "stateBatches": batches,
    }
