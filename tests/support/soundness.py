"""Replicas' folders for tests of ``logs verify``, and its findings without Spark."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.log_dirs import write_partition
from tests.support.logs import LogDriver, plain
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_offsets
from txnsim.types import TopicPartition
from txnsim.wire.batch import BatchHeader, crc_of, iter_batches, read_batch_header
from txnsim_spark.soundness._partition import judge_partition
from txnsim_spark.soundness._replica_facts import ReplicaFacts
from txnsim_spark.soundness._segment_parts import SegmentPart
from txnsim_spark.soundness.verify import examine_work, plan_verification
from txnsim_spark.soundness.violations import Violation

CLEAN: Final = '{"version":0,"brokerEpoch":1}'


def busy_log(*, transaction_count: int = 40) -> LogDriver:
    """Several segments of three producers whose transactions lie over one another, under two
    leaders; commits and aborts, the last two open.
    """
    driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=1_200, index_interval_bytes=200))
    sequences: dict[int, int] = defaultdict(int)
    for transaction_number in range(transaction_count):
        producer_id = 7 + transaction_number % 3
        driver.txn(
            sequences[producer_id],
            count=2,
            producer_id=producer_id,
            timestamp=driver.now + transaction_number,
        )
        sequences[producer_id] += 2
        if transaction_number % 5 == 4:
            driver.append(plain(timestamp=driver.now + transaction_number))
        if transaction_number % 2:
            driver.end(committed=transaction_number % 4 == 1, producer_id=producer_id)
        if transaction_number == transaction_count // 2:
            driver.log.become_leader(3)
    return driver


def write_log_dir(log_dir: Path, broker: int, driver_by_name: dict[str, LogDriver]) -> None:
    """A log directory of a broker that stopped in order, with these replicas."""
    log_dir.mkdir(parents=True, exist_ok=True)
    for file_name, driver in driver_by_name.items():
        write_partition(log_dir / file_name, driver.log, topic_id=uuid.UUID(int=1))
    end_by_partition = {
        topic_partition: driver.log.log_end_offset
        for driver_name, driver in driver_by_name.items()
        if (topic_partition := names.topic_partition_of(driver_name)) is not None
    }
    for file_name in (names.FileName.HIGH_WATERMARKS, names.FileName.RECOVERY_POINTS):
        (log_dir / file_name).write_text(encode_offsets(end_by_partition))
    (log_dir / names.FileName.CLEAN_SHUTDOWN).write_text(CLEAN)
    (log_dir / names.FileName.META_PROPERTIES).write_text(
        f"version=1\ncluster.id=here\nnode.id={broker}\n"
    )


def note_offset(log_dir: Path, file_name: str, partition: TopicPartition, offset: int) -> None:
    """Write a checkpoint file with one partition."""
    (log_dir / file_name).write_text(encode_offsets({partition: offset}))


def found_in(*paths: Path, expiration_ms: int = 86_400_000) -> list[Violation]:
    """All findings, as ``logs verify`` has them, one segment after the other in this process."""
    verification_plan = plan_verification(paths, producer_expiration_ms=expiration_ms)
    parts: defaultdict[ReplicaFactsKey, list[SegmentPart]] = defaultdict(list)
    facts: dict[ReplicaFactsKey, ReplicaFacts] = {}
    for task in verification_plan.tasks:
        for work in task:
            replica = work.facts.replica
            key = (replica.topic, replica.partition, replica.path)
            facts[key] = work.facts
            parts[key].append(examine_work(work))
    return [*verification_plan.findings, *_judge_partitions(facts, parts)]


ReplicaFactsKey = tuple[str, int, str]


def _judge_partitions(
    facts: dict[ReplicaFactsKey, ReplicaFacts], parts: dict[ReplicaFactsKey, list[SegmentPart]]
) -> Iterator[Violation]:
    for topic, partition in sorted({key[:2] for key in facts}):
        replicas = [
            (facts[key], parts[key]) for key in sorted(facts) if key[:2] == (topic, partition)
        ]
        yield from judge_partition(replicas)


# Damage


FIELDS: Final = {
    "base_offset": (0, 8),
    "leader_epoch": (12, 4),
    "producer_id": (43, 8),
    "producer_epoch": (51, 2),
    "base_sequence": (53, 4),
}
"""Fields of a batch's header: position and size in bytes."""


def batches_of(path: Path) -> list[bytes]:
    """The batches of a segment."""
    file_bytes = path.read_bytes()
    return [
        file_bytes[position : position + header.size]
        for position, header in iter_batches(file_bytes)
    ]


def headers_of(path: Path) -> list[BatchHeader]:
    """The headers of a segment's batches."""
    return [header for _, header in iter_batches(path.read_bytes())]


def patch(path: Path, batch_number: int, **fields: int) -> BatchHeader:
    """Change fields in the header of one batch of a segment; its CRC is right again."""
    batches = batches_of(path)
    batch = bytearray(batches[batch_number])
    for name, value in fields.items():
        position, size = FIELDS[name]
        batch[position : position + size] = value.to_bytes(size, "big", signed=True)
    batch[17:21] = crc_of(batch).to_bytes(4, "big")
    batches[batch_number] = bytes(batch)
    path.write_bytes(b"".join(batches))
    return read_batch_header(batch)
