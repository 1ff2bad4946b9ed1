"""Log directories of stopped brokers, made by hand: replicas from logs of tests, coordinators' logs
from records.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.support.log_dirs import write_partition
from tests.support.logs import NOW, LogDriver
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_offsets
from txnsim.storage.metadata_files import MetaProperties, encode_meta_properties
from txnsim.txn.log_format import encode_batch
from txnsim.txn.state import TransactionState, TxnRecord, TxnTransition
from txnsim.types import (
    TRANSACTION_STATE_TOPIC,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)
from txnsim.wire.batch import assign, read_batch_header

STATES: Final = {state.wire_name: state for state in TransactionState}
CLUSTER_ID: Final = "jZBrwHxmQ1OLy3yW0kLkTA"
TOPIC_ID: Final = uuid.UUID(int=1)


class BrokerDir:
    """A broker's log directory, as it grows."""

    def __init__(self, path: Path, broker: int = 1, *, cluster_id: str = CLUSTER_ID) -> None:
        self.path = path
        self._offsets: dict[TopicPartition, int] = {}
        path.mkdir(parents=True)
        meta = MetaProperties(cluster_id=cluster_id, node_id=broker)
        (path / names.FileName.META_PROPERTIES).write_text(encode_meta_properties(meta))

    def replica(
        self,
        driver: LogDriver,
        topic: str = "orders",
        partition: int = 0,
        *,
        topic_id: uuid.UUID = TOPIC_ID,
    ) -> Path:
        """Write a replica's folder from the current log."""
        topic_partition = TopicPartition(topic, partition)
        folder = self.path / names.directory_name(topic_partition)
        write_partition(folder, driver.log, topic_id=topic_id)
        self._offsets[topic_partition] = driver.log.high_watermark
        return folder

    def coordinator(self, *records: TxnRecord, partition: int = 0) -> Path:
        """A partition of ``__transaction_state``."""
        topic_partition = TopicPartition(TRANSACTION_STATE_TOPIC, partition)
        folder = self.path / names.directory_name(topic_partition)
        folder.mkdir()
        (folder / names.Suffix.LOG.file_name(0)).write_bytes(b"".join(_batches(records)))
        (folder / names.FileName.LEADER_EPOCHS).write_text("0\n1\n0 0\n")
        self._offsets[topic_partition] = len(records)
        return folder

    def stop(self) -> Path:
        """Write what a broker leaves after a clean shutdown: checkpoints and the clean-shutdown
        file.
        """
        self.kill()
        (self.path / names.FileName.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":1}')
        return self.path

    def kill(self) -> Path:
        """Write what a killed broker leaves: checkpoints, and no clean-shutdown file."""
        checkpoint_file = self.path / names.FileName.HIGH_WATERMARKS
        checkpoint_file.write_text(encode_offsets(self._offsets))
        return self.path


def remove_end_snapshot(replica: Path) -> None:
    """Take away the snapshot at the log's end: a broker that is killed writes none."""
    snapshots = names.Suffix.SNAPSHOT.files_in(replica)
    segments = names.Suffix.LOG.files_in(replica)
    for offset, path in snapshots:
        if offset > segments[-1][0]:
            path.unlink()


def move(
    state: str,
    *partitions: TopicPartition,
    name: str = "app",
    producer_id: int = 7,
    epoch: int = 0,
    previous_id: int = -1,
    next_id: int = -1,
    at_ms: int = NOW,
    timeout_ms: int = 60_000,
) -> TxnTransition:
    """The transition that a coordinator writes when a transaction enters a state."""
    return TxnTransition(
        transactional_id=TransactionalId(name),
        producer_id=ProducerId(producer_id),
        prev_producer_id=ProducerId(previous_id),
        next_producer_id=ProducerId(next_id),
        producer_epoch=ProducerEpoch(epoch),
        last_producer_epoch=ProducerEpoch(-1),
        txn_timeout_ms=timeout_ms,
        state=STATES[state],
        partitions=frozenset(partitions),
        start_timestamp_ms=-1 if state == "Empty" else at_ms,
        last_update_timestamp_ms=at_ms,
        client_version=TransactionVersion.TV_0,
    )


def _batches(records: Iterable[TxnRecord]) -> Iterable[bytes]:
    offset = 0
    for record in records:
        batch = encode_batch(
            [record],
            finalized_version=TransactionVersion.TV_2,
            now_ms=NOW,
            release_rules=LATEST_RULES,
        )
        yield assign(batch, base_offset=offset, leader_epoch=0)
        offset += read_batch_header(batch).last_offset + 1
