"""Log directories, looked through and locked before anything is read."""

from __future__ import annotations

import io
import os
import tarfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.support.log_dirs import sound_batches, write_disk, write_partition
from tests.support.logs import NOW, LogDriver, plain
from tests.support.metadata_logs import partition, register_broker, topic, write_metadata_log
from txnsim.errors import ConfigError
from txnsim.log.config import LogConfig
from txnsim.log.partition_log import PartitionLog
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage import checkpoints, names, producer_snapshot, regular_file, txn_index
from txnsim.storage.checkpoints import decode_offsets
from txnsim.storage.disks import Disks, find_disks, newest_timestamp
from txnsim.storage.log_dir import ReplicaCut, log_dir_files_in_steps
from txnsim.storage.metadata_files import MetaProperties, decode_partition_metadata
from txnsim.storage.names import Suffix
from txnsim.storage.regular_file import MOUNTS, RegularFile, size_of_open
from txnsim.storage.stored_file import StoredFile, tar_of
from txnsim.types import TopicPartition
from txnsim.wire.codec import run_to_end

# The log directories of a cluster, looked through before anything is read.


ORDERS = ("orders", 0)
FOLDER = "__cluster_metadata-0"


def filled(count: int = 2) -> LogDriver:
    driver = LogDriver()
    for _ in range(count):
        driver.append(plain())
    return driver


def broker(parent_folder: Path, node_id: int, *partitions: tuple[str, int], name: str = "") -> Path:
    path = parent_folder / (name or f"broker-{node_id}")
    write_disk(
        path, {partition: filled().log for partition in partitions or (ORDERS,)}, node_id=node_id
    )
    return path


def held(disks: Disks) -> list[tuple[int, str]]:
    return [
        (node_id, str(folder.replica.topic_partition)) for node_id, folder in disks.all_folders()
    ]


def refused(*paths: Path) -> str:
    with pytest.raises(ConfigError) as error_info:
        find_disks(paths)
    return str(error_info.value)


def test_each_replica_is_found_with_all_that_stands_beside_it(tmp_path: Path) -> None:
    second_dir = broker(tmp_path, 2, ORDERS, ("a.b", 4))
    disks = find_disks([second_dir, broker(tmp_path, 1)])
    assert disks.cluster_id == "abc"
    assert held(disks) == [(1, "orders-0"), (2, "a.b-4"), (2, "orders-0")]
    folder = next(first_folder for _, first_folder in disks.all_folders())
    assert folder.topic_id is not None
    assert folder.high_watermark == folder.checkpointed.recovery_point == 2
    assert folder.was_clean
    assert disks.size_bytes == sum(path.stat().st_size for path in tmp_path.rglob("*.log"))
    assert disks.metadata is None


def test_only_some_topics_can_be_taken(tmp_path: Path) -> None:
    disks = find_disks([broker(tmp_path, 1, ORDERS, ("other", 0))]).only_topics(
        ["orders", "unknown"]
    )
    assert held(disks) == [(1, "orders-0")]


def test_what_is_not_noted_is_nought(tmp_path: Path) -> None:
    path = broker(tmp_path, 1)
    for file in (*path.glob("*-checkpoint"), path / ".kafka_cleanshutdown"):
        file.unlink()
    (path / "orders-0" / "partition.metadata").unlink()
    ((_, folder),) = find_disks([path]).all_folders()
    assert (folder.high_watermark, folder.checkpointed.recovery_point, folder.was_clean) == (
        0,
        0,
        False,
    )
    assert folder.topic_id is None
    assert folder.checkpointed.cleaned_until is None


def test_a_checkpoint_that_was_made_and_not_filled_notes_nothing(tmp_path: Path) -> None:
    path = broker(tmp_path, 1)
    (path / "cleaner-offset-checkpoint").write_text("")
    ((_, folder),) = find_disks([path]).all_folders()
    assert folder.checkpointed.cleaned_until is None


def test_a_broker_may_have_several_directories(tmp_path: Path) -> None:
    first_log_directory = broker(tmp_path, 1, name="disk-a")
    second_log_directory = broker(tmp_path, 1, ("orders", 1), name="disk-b")
    assert held(find_disks([first_log_directory, second_log_directory])) == [
        (1, "orders-0"),
        (1, "orders-1"),
    ]


# What can't be loaded


def test_a_folder_that_is_no_log_directory_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path).startswith(f"{tmp_path / 'meta.properties'} is missing")
    assert "is missing" in refused(tmp_path / "nowhere")


def test_damaged_notes_are_refused_by_file(tmp_path: Path) -> None:
    path = broker(tmp_path, 1)
    (path / "orders-0" / "partition.metadata").write_text("version: 9\n")
    assert refused(path).startswith(f"{path / 'orders-0' / 'partition.metadata'}: ")
    (path / "recovery-point-offset-checkpoint").write_text("0\n1\n")
    assert refused(path).startswith(f"{path / 'recovery-point-offset-checkpoint'}: ")
    (path / "meta.properties").write_text("node.id=x\n")
    assert refused(path).startswith(f"{path / 'meta.properties'}: ")


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    first_log_directory, second_log_directory = broker(tmp_path, 1), broker(tmp_path, 2)
    file_text = (second_log_directory / "meta.properties").read_text()
    (second_log_directory / "meta.properties").write_text(
        file_text.replace("cluster.id=abc", "cluster.id=other")
    )
    complaint = refused(first_log_directory, second_log_directory)
    assert complaint.startswith(
        f"{second_log_directory / 'meta.properties'}: cluster.id is 'other'"
    )
    assert str(first_log_directory) in complaint


def test_two_brokers_of_one_id_are_refused(tmp_path: Path) -> None:
    first_log_directory, second_log_directory = (
        broker(tmp_path, 1, name="a"),
        broker(tmp_path, 1, name="b"),
    )
    assert refused(first_log_directory, second_log_directory).startswith(
        f"{second_log_directory / 'orders-0'}: node 1 has that replica in {first_log_directory}"
    )


def test_one_directory_twice_is_refused(tmp_path: Path) -> None:
    log_directory = broker(tmp_path, 1)
    assert refused(log_directory, log_directory).endswith(
        f"it is the same directory as {log_directory}"
    )


# The metadata log


def test_the_copy_that_knows_most_counts(tmp_path: Path) -> None:
    first_log_directory, second_log_directory, third_log_directory = (
        broker(tmp_path, number) for number in (1, 2, 3)
    )
    topic_id = uuid.UUID(int=1)
    records = [topic("orders", topic_id), partition(topic_id)]
    write_metadata_log(first_log_directory / FOLDER, [*records, *records], epoch=1)
    write_metadata_log(second_log_directory / FOLDER, records, epoch=2)
    write_metadata_log(third_log_directory / FOLDER, records[:1], epoch=2)
    metadata = find_disks([first_log_directory, second_log_directory, third_log_directory]).metadata
    assert metadata is not None
    assert metadata.age == (2, 2)
    assert TopicPartition("__cluster_metadata", 0) not in {
        stored_folder.replica.topic_partition
        for _, stored_folder in find_disks([first_log_directory]).all_folders()
    }


def test_a_metadata_log_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    path = broker(tmp_path, 1)
    file = write_metadata_log(path / FOLDER, [b"\x00\x00\x00"])
    assert refused(path).startswith(f"{file}, offset 0: ")


def test_a_mere_controller_is_no_broker(tmp_path: Path) -> None:
    log_directory = broker(tmp_path, 1)
    write_disk(tmp_path / "controller", {}, node_id=100)
    write_metadata_log(tmp_path / "controller" / FOLDER, [register_broker(1), register_broker(7)])
    disks = find_disks([log_directory, tmp_path / "controller"])
    assert list(disks.folders) == [1]
    assert disks.metadata is not None
    write_disk(tmp_path / "empty", {}, node_id=7)
    assert list(find_disks([tmp_path / "controller", tmp_path / "empty"]).folders) == [7]
    assert "no broker has left anything there" in refused(tmp_path / "controller")


def stamped(*times: int) -> LogDriver:
    driver = LogDriver()
    for time in times:
        driver.append(plain(timestamp=time))
    return driver


def test_coordinators_clocks_are_asked_before_producers(tmp_path: Path) -> None:
    write_disk(
        tmp_path,
        {("orders", 0): stamped(NOW + 900_000).log, ("__transaction_state", 3): stamped(NOW).log},
    )
    assert newest_timestamp(find_disks([tmp_path])) == NOW


def test_records_have_to_do_where_no_coordinator_wrote(tmp_path: Path) -> None:
    write_disk(tmp_path, {("orders", 0): stamped(NOW, NOW - 5).log, ("orders", 1): stamped().log})
    assert newest_timestamp(find_disks([tmp_path])) == NOW


def test_without_a_record_nothing_is_known(tmp_path: Path) -> None:
    write_disk(tmp_path, {("orders", 0): stamped().log})
    assert newest_timestamp(find_disks([tmp_path])) is None


# A broker's log directory.


META = MetaProperties(cluster_id="abc", node_id=2, directory_id=uuid.UUID(int=5))


def file_texts(*logs: LogDriver) -> dict[str, str]:
    """The files that lie directly in the log directory, by name."""
    replicas = [ReplicaCut.of_log(log.log, topic_id=uuid.UUID(int=9)) for log in logs]
    return {
        file.path: b"".join(file.parts).decode()
        for file in run_to_end(log_dir_files_in_steps(replicas, META, broker_epoch=41))
        if "/" not in file.path
    }


def test_each_replica_has_a_folder() -> None:
    driver = LogDriver()
    replica = ReplicaCut.of_log(driver.log, topic_id=uuid.UUID(int=9))
    files = run_to_end(log_dir_files_in_steps([replica], META, broker_epoch=0))
    folder_path = f"{driver.log.topic_partition.topic}-{driver.log.topic_partition.partition}"
    assert f"{folder_path}/{0:020d}.log" in {file.path for file in files}


def test_offsets_are_noted_of_every_replica() -> None:
    driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=1 << 20), follows=False)
    for _ in range(3):
        driver.append(plain(2))
    driver.log.advance_high_watermark(4)
    driver.log.raise_log_start(3)
    driver.log.local.cleaned_until = 2
    topic_partition = driver.log.topic_partition
    offsets_by_file = {
        name: decode_offsets(text, error_prefix=name)
        for name, text in file_texts(driver).items()
        if name.endswith("checkpoint")
    }
    assert offsets_by_file == {
        "replication-offset-checkpoint": {topic_partition: 4},
        "recovery-point-offset-checkpoint": {topic_partition: 6},
        "log-start-offset-checkpoint": {topic_partition: 3},
        "cleaner-offset-checkpoint": {topic_partition: 2},
    }


def test_a_start_that_the_oldest_segment_tells_is_not_noted() -> None:
    text_by_file = file_texts(LogDriver())
    assert decode_offsets(text_by_file["log-start-offset-checkpoint"], error_prefix="") == {}
    assert decode_offsets(text_by_file["cleaner-offset-checkpoint"], error_prefix="") == {}


def test_the_directory_tells_whose_it_is_and_that_it_was_left_in_order() -> None:
    text_by_file = file_texts()
    assert MetaProperties.decode(text_by_file["meta.properties"], error_prefix="") == META
    assert text_by_file[".kafka_cleanshutdown"] == '{"version":0,"brokerEpoch":41}'


def test_replicas_are_written_by_topic_and_partition() -> None:
    first_driver, second_driver = LogDriver(), LogDriver()
    first_driver.log.topic_partition, second_driver.log.topic_partition = (
        TopicPartition("b", 0),
        TopicPartition("a", 1),
    )
    assert (
        file_texts(first_driver, second_driver)["recovery-point-offset-checkpoint"]
        == "0\n2\na 1 0\nb 0 0\n"
    )


TOPIC_ID = uuid.UUID(int=7)


@pytest.fixture
def log() -> PartitionLog:
    """A log of several segments whose last transaction is open."""
    driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=400, index_interval_bytes=100))
    for number in range(8):
        driver.txn(2 * number, count=2)
        driver.end(committed=number % 2 == 0)
    driver.txn(16)
    return driver.log


def test_all_that_a_log_has_is_in_its_folder(tmp_path: Path, log: PartitionLog) -> None:
    directory = tmp_path / "t-0"
    write_partition(directory, log, topic_id=TOPIC_ID)
    segments = Suffix.LOG.files_in(directory)
    assert len(segments) == len(log.local.segments) > 2
    stored_batches = [batch for _, path in segments for batch in sound_batches(path)[0]]
    assert stored_batches == list(log.batches())

    state = log.snapshot()
    aborted = [
        aborted_txn
        for _, path in Suffix.TXN_INDEX.files_in(directory)
        for aborted_txn in txn_index.decode(path.read_bytes(), error_prefix=path.name)
    ]
    assert tuple(aborted) == state.aborted
    epochs = (directory / "leader-epoch-checkpoint").read_text()
    assert checkpoints.decode_leader_epochs(epochs, error_prefix="") == state.leader_epochs
    metadata = (directory / "partition.metadata").read_text()
    assert decode_partition_metadata(metadata, error_prefix="") == TOPIC_ID


def test_the_last_snapshot_names_the_open_transaction(tmp_path: Path, log: PartitionLog) -> None:
    write_partition(tmp_path / "t-0", log, topic_id=TOPIC_ID)
    *older_files, (offset, path) = Suffix.SNAPSHOT.files_in(tmp_path / "t-0")
    assert offset == log.log_end_offset
    (entry,) = producer_snapshot.decode(path.read_bytes())
    assert entry.txn_first_offset == log.last_stable_offset
    assert [number for number, _ in older_files] == [
        snapshot[0] for snapshot in log.producers.snapshots.all_snapshots()
    ]


def test_each_segment_has_its_indexes(tmp_path: Path, log: PartitionLog) -> None:
    write_partition(tmp_path / "t-0", log, topic_id=TOPIC_ID)
    numbers = {
        suffix: [offset for offset, _ in suffix.files_in(tmp_path / "t-0")]
        for suffix in (Suffix.LOG, Suffix.INDEX, Suffix.TIME_INDEX)
    }
    assert numbers[Suffix.LOG] == numbers[Suffix.INDEX] == numbers[Suffix.TIME_INDEX]


def test_a_segment_without_aborted_transactions_has_no_file_of_them(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0)
    driver.end(committed=True)
    write_partition(tmp_path / "t-0", driver.log, topic_id=TOPIC_ID)
    assert Suffix.TXN_INDEX.files_in(tmp_path / "t-0") == ()


# Files that may be anything.


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    assert RegularFile(path).read() == b"abc"
    assert RegularFile(path).why_unreadable() == ""


def test_what_should_be_small_is_not_read_where_it_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    monkeypatch.setattr(regular_file, "SMALL_BYTES_MAX", 2)
    with pytest.raises(OSError, match="3 bytes, no more than 2 are read"):
        RegularFile(path).read(is_small=True)


def test_a_sparse_file_of_any_size_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match=f"{1 << 40} bytes, no more than {256 << 20} are read"):
        RegularFile(path).read()


def test_what_is_appended_while_a_file_is_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    size_then = regular_file.size_of_open

    def size_before_an_append(file: BinaryIO) -> int:
        size = size_then(file)
        path.write_bytes(b"abcdef")
        return size

    monkeypatch.setattr(regular_file, "size_of_open", size_before_an_append)
    assert RegularFile(path).read() == b"abc"
    path.write_bytes(b"abc")
    assert RegularFile(path).read(is_small=True) == b"abc"


def test_a_named_pipe_does_not_keep_anybody_waiting(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match="a named pipe, not a file"):
        RegularFile(path).open()
    assert RegularFile(path).why_unreadable() == "a named pipe, not a file"


def test_a_folder_a_link_to_itself_and_nothing_have_their_reasons(tmp_path: Path) -> None:
    link_path = tmp_path / "link"
    link_path.symlink_to("link")
    assert RegularFile(tmp_path).why_unreadable() == "a folder, not a file"
    assert RegularFile(link_path).why_unreadable() == "Too many levels of symbolic links"
    assert RegularFile(tmp_path / "nothing").why_unreadable() == "No such file or directory"


def test_a_device_is_no_file() -> None:
    assert RegularFile(Path("/dev/null")).why_unreadable() == "a device or socket, not a file"


class MemoryFile:
    """Bytes that lie in no file, handed over two at a time."""

    def __init__(self, file_bytes: bytes) -> None:
        self._data = file_bytes
        self.size = len(file_bytes)
        self.is_closed = False

    def read_into(self, view: memoryview, position: int) -> int:
        """Read two bytes at most."""
        part = self._data[position : position + min(len(view), 2)]
        view[: len(part)] = part
        return len(part)

    def close(self) -> None:
        """Note that the file was closed."""
        self.is_closed = True


def test_a_mounted_folder_is_read_from_elsewhere(tmp_path: Path) -> None:
    opened_files: list[tuple[str, bool, MemoryFile]] = []

    class Store:
        def open(self, path: Path, is_sequential: bool) -> MemoryFile:
            if path.name == "none":
                raise FileNotFoundError(2, "No such file or directory", str(path))
            opened_files.append((path.name, is_sequential, MemoryFile(b"abcdefg")))
            return opened_files[-1][2]

        def expect(self, paths: Sequence[Path]) -> None:
            expected.extend(paths)

    expected: list[Path] = []

    (tmp_path / "mounted-too").write_bytes(b"here")
    MOUNTS.mount(tmp_path / "mounted", Store())
    mounted_file = tmp_path / "mounted" / "file"
    assert RegularFile(mounted_file).read() == b"abcdefg"
    with RegularFile(mounted_file).open() as file:
        assert size_of_open(file) == 7
        file.seek(3)
        assert (file.read(2), file.tell(), file.read()) == (b"de", 5, b"fg")
    RegularFile(mounted_file).ranges(is_sequential=True).close()
    assert [is_sequential for _, is_sequential, _ in opened_files] == [False, False, True]
    assert all(elsewhere_file.is_closed for _, _, elsewhere_file in opened_files)
    assert (
        RegularFile(tmp_path / "mounted" / "none").why_unreadable() == "No such file or directory"
    )
    assert RegularFile(tmp_path / "mounted-too").read() == b"here"
    MOUNTS.expect([str(mounted_file), str(tmp_path / "mounted-too")])
    assert expected == [mounted_file]


# Names in a log directory.


def test_a_file_is_named_for_its_offset_in_twenty_digits() -> None:
    assert names.Suffix.LOG.file_name(42) == "00000000000000000042.log"
    assert names.Suffix.LOG.offset_of("00000000000000000042.log") == 42


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000042.index",
        "42.log",
        "00000000000000000042.log.deleted",
        "leader-epoch-checkpoint",
    ],
)
def test_other_files_are_no_segments(name: str) -> None:
    assert names.Suffix.LOG.offset_of(name) is None


def test_a_topic_may_have_hyphens_and_numbers_in_its_name() -> None:
    topic_partition = TopicPartition("a-1-b", 12)
    assert names.directory_name(topic_partition) == "a-1-b-12"
    assert names.topic_partition_of("a-1-b-12") == topic_partition


@pytest.mark.parametrize(
    "folder_name",
    [
        "meta.properties",
        "orders-0.0123456789abcdef0123456789abcdef-delete",
        "orders-0.0123456789abcdef0123456789abcdef-future",
        "orders-0.0123456789abcdef0123456789abcdef-stray",
        "orders",
        "orders-2147483648",
        "orders-\u0661",
    ],
)
def test_what_is_no_replica_or_is_going_is_left_out(folder_name: str) -> None:
    assert names.topic_partition_of(folder_name) is None


def test_the_number_of_a_partition_is_an_int32() -> None:
    assert names.topic_partition_of("orders-2147483647") == TopicPartition("orders", 2**31 - 1)
    tiered_name = "orders-2147483648-LWgrMmVrT0a__7a4SasuPA"
    assert names.PartitionDirectory.parse(Path(tiered_name)) is None


def test_replicas_are_listed_by_topic_and_partition(tmp_path: Path) -> None:
    for file_name in ("b-0", "a-10", "a-2", "not a partition"):
        (tmp_path / file_name).mkdir()
    (tmp_path / "a-3").write_bytes(b"a file")
    directories = names.PartitionDirectory.all_in(tmp_path)
    assert [str(directory.topic_partition) for directory in directories] == ["a-2", "a-10", "b-0"]
    assert directories[0].path == tmp_path / "a-2"


def test_files_of_a_kind_are_listed_by_offset(tmp_path: Path) -> None:
    for offset in (30, 4, 0):
        (tmp_path / names.Suffix.LOG.file_name(offset)).touch()
    (tmp_path / names.Suffix.INDEX.file_name(4)).touch()
    assert [offset for offset, _ in names.Suffix.LOG.files_in(tmp_path)] == [0, 4, 30]


# Files before they are written.


FILES = (
    StoredFile.of("a", b"12345"),
    StoredFile(path="b", parts=(b"x" * 512, b"y" * 512)).in_folder("folder"),
    StoredFile.of("empty", b""),
)


def test_the_archive_holds_the_same_files() -> None:
    data = b"".join(tar_of(FILES, modified_ms=1_700_000_000_123))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        bytes_by_path = {
            member.name: (archive.extractfile(member) or io.BytesIO()).read() for member in archive
        }
        assert {member.mtime for member in archive} == {1_700_000_000}
    assert bytes_by_path == {file.path: b"".join(file.parts) for file in FILES}
