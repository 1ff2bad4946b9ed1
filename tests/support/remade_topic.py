"""Directories of two brokers: the topic ``orders`` was deleted and made again while broker 2 was
down, and ``gone`` was deleted. A real Kafka 4.3.1 leaves the same files.

Broker 2 has the old logs, of a greater leader epoch, with what was alive when it went. Broker 1 has
the new log of ``orders``, in which producer 8 hangs, the coordinators' log, and a newer copy of the
metadata log.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from pathlib import Path
from typing import Final

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import LogDriver, plain
from tests.support.metadata_logs import partition, remove_topic, topic, write_metadata_log
from txnsim.storage.metadata_log import StoredMetadata
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition, uuid_text

OLD: Final = uuid.UUID(int=1)
NEW: Final = uuid.UUID(int=2)
GONE: Final = uuid.UUID(int=3)
STATE: Final = uuid.UUID(int=4)
OLD_ID: Final = uuid_text(OLD)
NEW_ID: Final = uuid_text(NEW)
GONE_ID: Final = uuid_text(GONE)
ORDERS: Final = TopicPartition("orders", 0)
_BEFORE: Final = (
    *(topic(TRANSACTION_STATE_TOPIC, STATE), partition(STATE)),
    *(topic("orders", OLD), partition(OLD, replicas=(2,))),
    *(topic("gone", GONE), partition(GONE, replicas=(2,))),
)


def remade_topic(
    path: Path,
    *,
    copies: Collection[int] = (1, 2),
    old_epoch: int = 7,
    has_lost_records: bool = False,
    is_clean: bool = True,
) -> Path:
    """Write the two directories below a folder.

    Args:
        path: The folder.
        copies: Brokers with a copy of the metadata log.
        old_epoch: Leader epoch of the old logs; that of the new one is 0.
        has_lost_records: The newer copy no longer has the records of what was deleted, as behind
            a snapshot.
        is_clean: Both brokers stopped in order; without, they were killed.
    """
    old_log = LogDriver(leader_epoch=old_epoch)
    old_log.append(plain(count=5))
    old_log.txn(0)
    second_broker_dir = BrokerDir(path / "broker-2", 2)
    second_broker_dir.replica(old_log, topic_id=OLD)
    second_broker_dir.replica(old_log, "gone", topic_id=GONE)
    new_log = LogDriver()
    new_log.append(plain())
    new_log.txn(0, producer_id=8)
    new_log.append(plain())
    first_broker_dir = BrokerDir(path / "broker-1", 1)
    first_broker_dir.replica(new_log, topic_id=NEW)
    first_broker_dir.coordinator(
        move("Ongoing", ORDERS, TopicPartition("gone", 0), name="report"),
        move("Empty", name="billing", producer_id=8),
    )
    records_after = (topic("orders", NEW), partition(NEW))
    newer_records: tuple[bytes, ...]
    if has_lost_records:
        newer_records = (*_BEFORE[:2], *records_after, *(partition(NEW),) * 4)
    else:
        newer_records = (*_BEFORE, remove_topic(OLD), remove_topic(GONE), *records_after)
    for broker, records in ((first_broker_dir, newer_records), (second_broker_dir, _BEFORE)):
        copy_number = 1 if broker is first_broker_dir else 2
        if copy_number in copies:
            write_metadata_log(broker.path / StoredMetadata.FOLDER, records)
        if is_clean:
            broker.stop()
        else:
            broker.kill()
    return path
