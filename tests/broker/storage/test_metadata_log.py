"""The metadata log as it lies on disk, in bytes of Apache Kafka 4.3.1."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, Final

import crc32c
import msgspec
import pytest

from tests.support.logs import NOW
from tests.support.metadata_logs import (
    config,
    encode_value,
    feature,
    partition,
    producer_ids,
    register_broker,
    topic,
    unregister_broker,
    write_metadata_log,
)
from txnsim.errors import CorruptLogRecordError
from txnsim.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from txnsim.storage.log_file import read_log_file
from txnsim.storage.metadata_files import (
    MetaProperties,
    decode_partition_metadata,
    encode_meta_properties,
    encode_partition_metadata,
    uuid_text,
)
from txnsim.storage.metadata_log import StoredMetadata
from txnsim.storage.metadata_snapshot import RECORDS_PER_BATCH, metadata_files_in_steps
from txnsim.types import BrokerId, LeaderEpoch
from txnsim.wire.batch import control_batch, read_control_record
from txnsim.wire.messages import metadata_records as schema

# The metadata log as it lies on disk. The golden values were written by a controller of Apache
# Kafka 4.3.1.


ORDERS: Final = uuid.UUID("6b1937bf-b390-4f19-be13-d779da0edf85")
GOLDEN: Final = (
    "01170001001212426f6f747374726170207265636f726473",  # BeginTransaction
    "010c00116d657461646174612e76657273696f6e001e00",
    "0104000401146d696e2e696e73796e632e7265706c69636173023100",  # a default of all brokers
    "01180000",  # EndTransaction
    "01140000",  # NoOp
    "01000400000001002d230f53eaab4d4cb8019711d9273e8a000000000000000d020a504c41494e54455854"
    "0a3132372e302e302e31df7b000000080e6b726166742e76657273696f6e00000001000e67726f75702e7665"
    "7273696f6e00000001001073747265616d732e76657273696f6e0000000100147472616e73616374696f6e2e"
    "76657273696f6e000000020021656c696769626c652e6c65616465722e7265706c696361732e76657273696f"
    "6e0000000100116d657461646174612e76657273696f6e0007001e000e73686172652e76657273696f6e0000"
    "00010000010001001102d4296068d0627ae75cdaf0d92c542520",
    "01110300000001000000000000000d01030101",  # its registration changes
    "010200076f72646572736b1937bfb3904f19be13d779da0edf8500",
    "01040002076f7264657273146d696e2e696e73796e632e7265706c69636173023100",
    "011c00076f726465727300",  # ClearElr
    "010302000000006b1937bfb3904f19be13d779da0edf850300000002000000010300000002000000010101000000"
    "020000000000000000036bcf9323ed7913a31c1f061e4efc40afd4296068d0627ae75cdaf0d92c54252000",
    "010f0000000001000000000000000d00000000000003e800",
    # There is no leader any more, and the last one is remembered.
    "01050200000000" + ORDERS.hex + "040001010104ffffffff0605020000000207050200000002",
)
BEHIND_THE_END: Final = len(GOLDEN)


def read_metadata(folder: Path) -> StoredMetadata:
    stored_metadata = StoredMetadata.read(folder, cluster_id="abc")
    assert stored_metadata is not None
    return stored_metadata


def told(folder: Path, *records: bytes) -> StoredMetadata:
    write_metadata_log(folder, records)
    return read_metadata(folder)


def only_partition(stored_metadata: StoredMetadata) -> PartitionImage:
    ((partition,),) = (topic.partitions for topic in stored_metadata.image.topics.values())
    return partition


def test_what_a_controller_wrote_is_read(tmp_path: Path) -> None:
    stored_metadata = told(tmp_path, *map(bytes.fromhex, GOLDEN))
    image = stored_metadata.image
    assert (image.cluster_id, image.offset) == ("abc", BEHIND_THE_END)
    assert image.features == {"metadata.version": 30}
    assert image.broker_configs == {"": {"min.insync.replicas": "1"}}
    assert image.topic_names == {ORDERS: "orders"}
    assert image.topics["orders"].configs == {"min.insync.replicas": "1"}
    assert not image.topics["orders"].is_internal
    assert stored_metadata.broker_ids == {1}
    assert stored_metadata.next_producer_id == 1_000
    assert stored_metadata.age == (1, BEHIND_THE_END)
    first_broker, second_broker = BrokerId(1), BrokerId(2)
    assert only_partition(stored_metadata) == PartitionImage(
        leader=BrokerId(-1),
        leader_epoch=LeaderEpoch(1),
        partition_epoch=1,
        replicas=(second_broker, first_broker),
        isr=(),
        elr=(second_broker,),
        last_known_elr=(second_broker,),
    )


def test_where_nothing_is_there_is_no_metadata(tmp_path: Path) -> None:
    assert StoredMetadata.read(tmp_path / "missing", cluster_id="abc") is None
    assert StoredMetadata.read(tmp_path, cluster_id="abc") is None


def test_a_snapshot_stands_for_all_below_it(tmp_path: Path) -> None:
    write_metadata_log(tmp_path, [topic("gone", uuid.UUID(int=1)), feature("a.version", 1)])
    write_metadata_log(tmp_path, [feature("a.version", 2)], base_offset=2, epoch=4)
    old_name, new_name = "0" * 20 + "-" + "0" * 10, "0" * 19 + "2-" + "0" * 9 + "3"
    write_metadata_log(tmp_path, [topic("old", ORDERS)], name=f"{old_name}.checkpoint")
    write_metadata_log(
        tmp_path, [topic("kept", ORDERS), partition(ORDERS)], name=f"{new_name}.checkpoint"
    )
    stored_metadata = read_metadata(tmp_path)
    assert list(stored_metadata.image.topics) == ["kept"]
    assert stored_metadata.image.features == {"a.version": 2}
    assert stored_metadata.age == (4, 3)


def test_control_batches_are_passed_over(tmp_path: Path) -> None:
    path = write_metadata_log(tmp_path, [feature("a.version", 1)])
    marker = control_batch(
        producer_id=1,
        producer_epoch=0,
        is_commit=True,
        coordinator_epoch=0,
        base_offset=1,
        leader_epoch=2,
        timestamp_ms=0,
        has_log_append_time=False,
    )
    path.write_bytes(path.read_bytes() + marker)
    assert read_metadata(tmp_path).age == (2, 2)


def test_a_torn_tail_does_not_count(tmp_path: Path) -> None:
    path = write_metadata_log(tmp_path, [feature("a.version", 1), feature("a.version", 2)])
    path.write_bytes(path.read_bytes()[:-1])
    assert read_metadata(tmp_path).image.features == {"a.version": 1}


def test_deleted_topics_are_gone_with_their_configs(tmp_path: Path) -> None:
    stored_metadata = told(
        tmp_path,
        topic("t", ORDERS),
        config("retention.ms", "1", resource_name="t"),
        encode_value(9, schema.RemoveTopicRecord(topic_id=ORDERS)),
        topic("t", uuid.UUID(int=2)),
        partition(uuid.UUID(int=2)),
    )
    assert stored_metadata.image.topics["t"].topic_id == uuid.UUID(int=2)
    assert stored_metadata.image.topics["t"].configs == {}


def test_configs_are_kept_by_resource_and_taken_back(tmp_path: Path) -> None:
    stored_metadata = told(
        tmp_path,
        config("log.retention.ms", "5", resource_name="1", resource_type=4),
        config("log.retention.ms", "7", resource_name="2", resource_type=4),
        config("log.retention.ms", None, resource_name="2", resource_type=4),
        config("consumer.session.timeout.ms", "50000", resource_name="g", resource_type=32),
        config("interval.ms", "1000", resource_name="m", resource_type=16),
        config(
            "level", "DEBUG", resource_name="1", resource_type=8
        ),  # of a logger: nobody writes that
    )
    assert stored_metadata.image.broker_configs == {"1": {"log.retention.ms": "5"}}
    assert stored_metadata.image.group_configs == {"g": {"consumer.session.timeout.ms": "50000"}}
    assert stored_metadata.image.client_metrics == {"m": {"interval.ms": "1000"}}


def test_brokers_that_were_unregistered_are_none(tmp_path: Path) -> None:
    stored_metadata = told(
        tmp_path, register_broker(1), register_broker(2), unregister_broker(1), producer_ids(5_000)
    )
    assert stored_metadata.broker_ids == {2}
    assert stored_metadata.next_producer_id == 5_000


def test_a_change_of_a_partition_leaves_what_it_does_not_name(tmp_path: Path) -> None:
    change = schema.PartitionChangeRecord(partition_id=0, topic_id=ORDERS)
    start = (topic("t", ORDERS), partition(ORDERS, replicas=(1, 2, 3), epoch=4, elr=(3,)))
    image_before = only_partition(told(tmp_path, *start))
    assert (image_before.elr, image_before.leader_epoch) == ((3,), 4)
    unchanged_image = only_partition(told(tmp_path, *start, encode_value(5, change)))
    assert unchanged_image == msgspec.structs.replace(image_before, partition_epoch=5)
    full_change = schema.PartitionChangeRecord(
        partition_id=0,
        topic_id=ORDERS,
        isr=(2,),
        leader=2,
        replicas=(2, 1),
        removing_replicas=(3,),
        adding_replicas=(1,),
        leader_recovery_state=1,
        eligible_leader_replicas=(1,),
        last_known_elr=(3,),
    )
    changed_partition = only_partition(
        told(tmp_path, *start, encode_value(5, full_change, version=2))
    )
    assert changed_partition == PartitionImage(
        leader=BrokerId(2),
        leader_epoch=LeaderEpoch(5),
        partition_epoch=5,
        replicas=(BrokerId(2), BrokerId(1)),
        isr=(BrokerId(2),),
        elr=(BrokerId(1),),
        last_known_elr=(BrokerId(3),),
        is_recovering=True,
        removing=(BrokerId(3),),
        adding=(BrokerId(1),),
    )


@pytest.mark.parametrize(("topic_name", "expected_elr"), [("", ()), ("t", ()), ("other", (2,))])
def test_eligible_leaders_are_cleared_by_name_or_all(
    tmp_path: Path, topic_name: str, expected_elr: tuple[int, ...]
) -> None:
    stored_metadata = told(
        tmp_path,
        topic("t", ORDERS),
        partition(ORDERS, replicas=(1, 2), isr=(1,), elr=(2,)),
        encode_value(28, schema.ClearElrRecord(topic_name=topic_name)),
    )
    assert only_partition(stored_metadata).elr == expected_elr


def test_older_partition_records_are_read(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "topic_id": ORDERS,
        "replicas": (1,),
        "isr": (1,),
        "removing_replicas": (),
        "adding_replicas": (),
        "leader": 1,
        "leader_epoch": 3,
        "partition_epoch": 7,
    }
    old_record = schema.PARTITION_RECORDS[0](partition_id=0, **fields)
    newer_record = schema.PARTITION_RECORDS[1](partition_id=1, directories=(ORDERS,), **fields)
    stored_metadata = told(
        tmp_path,
        topic("t", ORDERS),
        encode_value(3, old_record),
        encode_value(3, newer_record, version=1),
    )
    first_partition, second_partition = stored_metadata.image.topics["t"].partitions
    assert first_partition == second_partition
    assert (first_partition.leader_epoch, first_partition.partition_epoch, first_partition.elr) == (
        3,
        7,
        (),
    )


BEGIN, END, ABORT = b"\x01\x17\x00\x00", b"\x01\x18\x00\x00", b"\x01\x19\x00\x00"


@pytest.mark.parametrize(("end", "transaction_version"), [((END,), 2), ((ABORT,), 1), ((), 1)])
def test_a_metadata_transaction_counts_once_it_has_ended(
    tmp_path: Path, end: tuple[bytes, ...], transaction_version: int
) -> None:
    stored_metadata = told(tmp_path, feature("a", 1), BEGIN, feature("a", 2), *end)
    assert stored_metadata.image.features == {"a": transaction_version}


def test_an_end_without_a_beginning_ends_nothing(tmp_path: Path) -> None:
    assert told(tmp_path, END, feature("a", 1)).image.features == {"a": 1}


@pytest.mark.parametrize(
    ("record_value", "problem_text"),
    [
        (b"\x00\x02\x00", "frame version 0"),
        (b"\x01\x03\x09", "a PartitionRecordV0 of version 9, known up to 2"),
        (b"\x01\x02\x00\x05a", "bytes|end|short"),
        (b"", "index|range"),
        (b"\xff\xff\xff\xff\xff\xff", "varint"),
    ],
)
def test_a_record_that_makes_no_sense_names_its_file(
    tmp_path: Path, record_value: bytes, problem_text: str
) -> None:
    path = write_metadata_log(tmp_path, [feature("a", 1), record_value])
    with pytest.raises(CorruptLogRecordError, match=problem_text) as error_info:
        read_metadata(tmp_path)
    assert str(error_info.value).startswith(f"{path}, offset 1: ")


def test_a_batch_that_cannot_be_unpacked_names_its_file(tmp_path: Path) -> None:
    path = write_metadata_log(tmp_path, [feature("a", 1)])
    file_bytes = bytearray(path.read_bytes())
    file_bytes[57:61] = (9).to_bytes(4, "big")  # more records than there are
    file_bytes[17:21] = crc32c.crc32c(bytes(file_bytes[21:])).to_bytes(4, "big")
    path.write_bytes(file_bytes)
    with pytest.raises(CorruptLogRecordError, match="offset 0"):
        read_metadata(tmp_path)


@pytest.mark.parametrize(
    "record",
    [
        partition(ORDERS),
        encode_value(5, schema.PartitionChangeRecord(partition_id=0, topic_id=ORDERS)),
        encode_value(9, schema.RemoveTopicRecord(topic_id=ORDERS)),
    ],
)
def test_a_record_about_a_topic_that_is_not_there_names_its_file(
    tmp_path: Path, record: bytes
) -> None:
    path = write_metadata_log(tmp_path, [record])
    with pytest.raises(
        CorruptLogRecordError, match="which no record before it has made"
    ) as error_info:
        read_metadata(tmp_path)
    assert str(error_info.value).startswith(f"{path}, offset 0")


# A snapshot of the metadata log, which is read back as it was.


B1, B2 = BrokerId(1), BrokerId(2)
BROKERS = {
    broker_id: BrokerImage(
        broker_id=broker_id, epoch=int(broker_id), host="h", port=9092, alive=broker_id == B1
    )
    for broker_id in (B1, B2)
}


def image(partitions: int = 1) -> ClusterImage:
    image_without_topic = ClusterImage(
        cluster_id="abc",
        offset=700,
        brokers=BROKERS,
        features={"kraft.version": 0, "transaction.version": 2, "metadata.version": 30},
        broker_configs={"": {"min.insync.replicas": "2"}, "1": {"log.cleaner.threads": "3"}},
        group_configs={"g": {"consumer.session.timeout.ms": "50000"}},
        client_metrics={"m": {"interval.ms": "1000"}},
    )
    return image_without_topic.with_topic(
        TopicImage(
            name="orders",
            topic_id=uuid.UUID(int=5),
            partitions=(
                PartitionImage(
                    leader=B2,
                    leader_epoch=LeaderEpoch(6),
                    partition_epoch=9,
                    replicas=(B1, B2),
                    isr=(B2,),
                    elr=(B1,),
                    last_known_elr=(B1,),
                    is_recovering=True,
                    removing=(B1,),
                    adding=(B2,),
                ),
            )
            * partitions,
            configs={"retention.ms": "7"},
        )
    )


def written(directory: Path, image_written: ClusterImage) -> Path:
    steps = metadata_files_in_steps(
        image_written, features={"metadata.version": (7, 30)}, next_producer_id=4_000, now_ms=NOW
    )
    files = None
    while files is None:
        try:
            next(steps)
        except StopIteration as end:
            files = end.value
    for file in files:
        path = directory / file.path
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"".join(file.parts))
    return directory / "__cluster_metadata-0"


def test_it_says_all_that_the_image_says(tmp_path: Path) -> None:
    image_before = image()
    stored_metadata = read_metadata(written(tmp_path, image_before))
    assert stored_metadata.image.topics == image_before.topics
    assert stored_metadata.image.topic_names == image_before.topic_names
    assert stored_metadata.image.features == {"transaction.version": 2, "metadata.version": 30}
    assert stored_metadata.image.broker_configs == image_before.broker_configs
    assert stored_metadata.image.group_configs == image_before.group_configs
    assert stored_metadata.image.client_metrics == image_before.client_metrics
    assert (stored_metadata.image.offset, stored_metadata.next_producer_id) == (701, 4_000)
    assert stored_metadata.broker_ids == {1, 2}


def test_the_level_that_is_needed_to_read_the_rest_comes_first(tmp_path: Path) -> None:
    (path,) = written(tmp_path, image()).glob("*.checkpoint")
    assert path.name == "00000000000000000701-0000000001.checkpoint"
    header, first_batch, footer_batch = list(read_log_file(path, on_torn=print))
    assert b"metadata.version" in first_batch.batch_bytes[:100]
    kinds = [
        read_control_record(control_batch.batch_bytes) for control_batch in (header, footer_batch)
    ]
    assert [control_record and control_record.type for control_record in kinds] == [3, 4]
    assert [
        stored_batch.header.base_offset for stored_batch in (header, first_batch, footer_batch)
    ] == [*(0, 1, footer_batch.header.base_offset)]


@pytest.mark.costly
def test_many_records_are_several_batches(tmp_path: Path) -> None:
    folder = written(tmp_path, image(RECORDS_PER_BATCH + 1))
    (path,) = folder.glob("*.checkpoint")
    offsets = [
        stored_batch.header.base_offset for stored_batch in read_log_file(path, on_torn=print)
    ]
    assert offsets[:3] == [0, 1, 1 + RECORDS_PER_BATCH]
    assert len(read_metadata(folder).image.topics["orders"].partitions) == RECORDS_PER_BATCH + 1


# Small files of properties.


TOPIC_ID = uuid.UUID(int=0xFB1234567890ABCDEF0011223344556F)


def test_the_id_of_a_topic_is_written_as_kafka_writes_it_and_read_back() -> None:
    text = encode_partition_metadata(TOPIC_ID)
    assert text == f"version: 0\ntopic_id: {uuid_text(TOPIC_ID)}\n"
    assert len(uuid_text(TOPIC_ID)) == 22
    assert decode_partition_metadata(text, error_prefix="f") == TOPIC_ID


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "f: version None, expected 0"),
        ("version: 1\ntopic_id: x\n", "f: version '1', expected 0"),
        ("version: 0\n", "f: '' is no id of 22 characters"),
        (f"version: 0\ntopic_id: {'é' * 22}\n", "is no id of 22 characters"),
    ],
)
def test_partition_metadata_that_can_not_be_read_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(CorruptLogRecordError, match=complaint):
        decode_partition_metadata(text, error_prefix="f")


@pytest.mark.parametrize("directory", [None, TOPIC_ID])
def test_meta_properties_are_read_back(directory: uuid.UUID | None) -> None:
    meta = MetaProperties(cluster_id="abc", node_id=3, directory_id=directory)
    assert MetaProperties.decode(encode_meta_properties(meta), error_prefix="f") == meta


def test_meta_properties_of_a_broker_with_zookeeper_are_read() -> None:
    text = "#\n#Fri Nov 20\nbroker.id=2\nversion=0\ncluster.id=abc\n"
    assert MetaProperties.decode(text, error_prefix="f") == MetaProperties(
        cluster_id="abc", node_id=2
    )


@pytest.mark.parametrize("text", ["", "node.id=x\n", "node.id=-1\n", f"node.id={'9' * 5_000}\n"])
def test_meta_properties_without_a_node_are_refused(text: str) -> None:
    with pytest.raises(CorruptLogRecordError, match=r"f: node.id is .*, expected a number"):
        MetaProperties.decode(text, error_prefix="f")
