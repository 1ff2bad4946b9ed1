"""A cluster as its disks have been left."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import Final

import pytest

from tests.support.log_dirs import write_disk
from tests.support.logs import NOW, LogDriver
from tests.support.metadata_logs import partition, producer_ids, topic, write_metadata_log
from txnsim.errors import ConfigError
from txnsim.log.leader_append import append_coordinator
from txnsim.releases import Fleet
from txnsim.releases.rules import LATEST_RULES
from txnsim.server.disk_loading import LoadedCluster, load_cluster
from txnsim.settings import DEFAULTS
from txnsim.storage.disks import find_disks
from txnsim.txn.log_format import encode_batch
from txnsim.txn.state import TransactionState, TxnTransition
from txnsim.types import ProducerEpoch, ProducerId, TransactionalId, TransactionVersion

ORDERS: Final = uuid.UUID(int=11)
FOLDER: Final = "__cluster_metadata-0"


def log_with_transaction(producer_id: int = 7) -> LogDriver:
    driver = LogDriver()
    driver.txn(0, producer_id=producer_id)
    return driver


def disk(path: Path, *partitions: tuple[str, int], producer_id: int = 7, node_id: int = 1) -> Path:
    write_disk(
        path,
        {topic_partition: log_with_transaction(producer_id).log for topic_partition in partitions},
        topic_ids={"orders": ORDERS},
        node_id=node_id,
    )
    return path


def load(*paths: Path) -> LoadedCluster:
    return load_cluster(find_disks(paths), settings=DEFAULTS, fleet=Fleet(), now_ms=NOW)


def test_logs_come_with_their_topics_configs_and_what_was_noted(tmp_path: Path) -> None:
    path = disk(tmp_path, ("orders", 0))
    write_metadata_log(
        path / FOLDER,
        [topic("orders", ORDERS), partition(ORDERS, replicas=(1,), epoch=4), producer_ids(9_000)],
    )
    loaded_cluster = load(path)
    ((loaded_replica,),) = loaded_cluster.logs.values()
    assert loaded_replica.topic_id == ORDERS
    assert loaded_replica.high_watermark == 1
    assert loaded_replica.log.producers.open_transaction_of(7) == 0
    assert loaded_cluster.first_producer_id == 9_000
    assert loaded_cluster.size == sum(
        file.stat().st_size for file in (path / "orders-0").glob("*.log")
    )
    assert (loaded_cluster.losses, loaded_cluster.left_out) == ((), ())
    (loaded_partition,) = loaded_cluster.image.topics["orders"].partitions
    assert (loaded_partition.leader, loaded_partition.leader_epoch) == (1, 5)


def test_open_transactions_without_any_coordinators_log_are_noticed(tmp_path: Path) -> None:
    assert load(disk(tmp_path / "a", ("orders", 0))).lacks_coordinators
    log_directory_with_coordinators = disk(
        tmp_path / "b", ("orders", 0), ("__transaction_state", 0)
    )
    assert not load(log_directory_with_coordinators).lacks_coordinators
    write_disk(tmp_path / "c", {("orders", 0): LogDriver().log})
    assert not load(tmp_path / "c").lacks_coordinators


def test_what_was_cut_off_is_told(tmp_path: Path) -> None:
    path = disk(tmp_path, ("orders", 0))
    (path / ".kafka_cleanshutdown").unlink()
    (path / "recovery-point-offset-checkpoint").unlink()
    (file,) = (path / "orders-0").glob("*.log")
    with file.open("ab") as log:
        log.write(b"torn")
    assert [(loss.path, loss.size) for loss in load(path).losses] == [(str(file), 4)]


def test_folders_of_no_topic_are_left_out_and_told(tmp_path: Path) -> None:
    path = disk(tmp_path / "a", ("orders", 0), ("orders", 1), ("gone", 0))
    log_directory_of_two = disk(tmp_path / "b", ("orders", 0), node_id=2)
    newer_id = uuid.UUID(int=12)
    write_metadata_log(path / FOLDER, [topic("orders", ORDERS), partition(ORDERS, replicas=(1,))])
    loaded_cluster = load(path, log_directory_of_two)
    assert list(loaded_cluster.left_out) == [
        f"{path / 'gone-0'}: there is no such topic",
        f"{path / 'orders-1'}: the topic has 1 partitions",
        f"{log_directory_of_two / 'orders-0'}: broker 2 has no replica of it any more",
    ]
    write_metadata_log(
        path / FOLDER, [topic("orders", newer_id), partition(newer_id, replicas=(1,))]
    )
    assert f"{path / 'orders-0'}: it is of an older topic of that name, whose id was {ORDERS}" in (
        load(path).left_out
    )


def test_what_holds_a_replica_by_its_name_and_is_passed_by_is_told(tmp_path: Path) -> None:
    path = disk(tmp_path, ("orders", 0), ("orders", 1), ("orders", 2), ("orders", 3))
    topic_id = uuid.UUID(int=11)
    partitions = [partition(topic_id, index) for index in range(4)]
    write_metadata_log(path / FOLDER, [topic("orders", topic_id), *partitions])
    shutil.rmtree(path / "orders-1")
    (path / "orders-1").symlink_to(path / "orders-1")
    leaving_folder = path / f"orders-2.{32 * 'a'}-delete"
    (path / "orders-2").rename(leaving_folder)
    shutil.rmtree(path / "orders-3")
    assert load(path).left_out == (
        f"{path / 'orders-1'}: Too many levels of symbolic links; passed by",
        f"{leaving_folder}: a broker was deleting it; passed by",
        f"{path / 'replication-offset-checkpoint'}: it names orders-3 with records, but its folder"
        " is not here",
    )


@pytest.mark.parametrize(
    ("records", "complaint"),
    [
        ([partition(ORDERS, epoch=2**31 - 1)], "orders-0 has leader epoch 2147483647"),
        (
            [partition(ORDERS), producer_ids(2**63 - 1)],
            "the next producer id is 9223372036854775807",
        ),
    ],
)
def test_metadata_from_which_no_controller_could_go_on_are_refused_by_name(
    tmp_path: Path, records: list[bytes], complaint: str
) -> None:
    path = disk(tmp_path, ("orders", 0))
    write_metadata_log(path / FOLDER, [topic("orders", ORDERS), *records])
    with pytest.raises(ConfigError, match=f"{complaint}, which leaves no room for the next ones"):
        load(path)


def test_a_producer_id_that_no_controller_gave_out_does_not_use_up_the_others(
    tmp_path: Path,
) -> None:
    assert load(disk(tmp_path, ("orders", 0), producer_id=2**63 - 1)).first_producer_id == 0


def test_a_folder_with_which_no_broker_starts_is_refused(tmp_path: Path) -> None:
    path = disk(tmp_path / "a", ("orders", 0))
    (path / "orders-0").rename(path / "orders-0.copy")
    with pytest.raises(ConfigError, match=r"orders-0\.copy: it holds segments, .*rename"):
        load(path)


def test_producer_ids_go_on_behind_all_that_are_seen(tmp_path: Path) -> None:
    path = disk(tmp_path, ("orders", 0), producer_id=1_203)
    assert load(path).first_producer_id == 2_000
    write_metadata_log(
        path / FOLDER, [topic("orders", ORDERS), partition(ORDERS), producer_ids(1_000)]
    )
    assert load(path).first_producer_id == 2_000, "a copy that is older than the logs"


def test_coordinators_know_producers_that_no_partition_does(tmp_path: Path) -> None:
    driver = LogDriver()
    record = TxnTransition(
        transactional_id=TransactionalId("app"),
        producer_id=ProducerId(4_711),
        prev_producer_id=ProducerId(-1),
        next_producer_id=ProducerId(-1),
        producer_epoch=ProducerEpoch(0),
        last_producer_epoch=ProducerEpoch(-1),
        txn_timeout_ms=60_000,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        start_timestamp_ms=-1,
        last_update_timestamp_ms=NOW,
        client_version=TransactionVersion.TV_2,
    )
    batch = encode_batch(
        [record], finalized_version=TransactionVersion.TV_2, now_ms=NOW, release_rules=LATEST_RULES
    )
    append_coordinator(driver.log, batch, now_ms=NOW)
    write_disk(tmp_path, {("__transaction_state", 0): driver.log})
    assert load(tmp_path).first_producer_id == 5_000


def test_an_empty_cluster_begins_with_the_first_id(tmp_path: Path) -> None:
    write_disk(tmp_path, {("orders", 0): LogDriver().log})
    assert load(tmp_path).first_producer_id == 0
