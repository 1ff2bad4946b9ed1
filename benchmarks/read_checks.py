"""What the CRCs cost that ``kafka_log`` computes by default: CPU time of reading a table in one
process, without Spark.

``python -m benchmarks.read_checks [--before CHECKOUT]``

Each kind of batch is read from a directory whose broker did not stop in order and had flushed
everything, so that no starting broker would go through it: ``checkCrc`` false and auto in
alternation. With ``--before``, another checkout of txnsim reads the same, with its defaults.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from time import process_time
from typing import Final

from benchmarks.log_data import write_meta_properties
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_offsets
from txnsim.types import TopicPartition
from txnsim.wire.batch import GZIP, LZ4, NONE, ZSTD, Record, assign, build_batch
from txnsim_spark.log_query import RowScope
from txnsim_spark.options import KafkaLogOptions
from txnsim_spark.planning import FILES_OF_TABLE, shares_of
from txnsim_spark.schemas import TABLES
from txnsim_spark.tables.row_sources import batches_of
from txnsim_spark.tables.rows import TableJob

LOG_BYTES: Final = 80_000_000
ROUNDS: Final = 3
VALUE_BYTES: Final = 100
SEED: Final = 1
BEGAN_MS: Final = 1_790_000_000_000
CODEC_AND_RECORDS_BY_KIND: Final = {
    "small": (NONE, 1),
    "large": (NONE, 500),
    "gzip": (GZIP, 500),
    "lz4": (LZ4, 500),
    "zstd": (ZSTD, 500),
}
"""Name -> codec, records of a batch."""
TABLES_READ: Final = ("records", "batches", "fragments")
CHECK_CRC_OPTIONS: Final = ("false", "auto")


def main() -> None:
    """Measure the checks and print the figures; or read once, in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.read_checks")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="measure this one, too")
    parser.add_argument("--read", nargs=3, metavar=("DIR", "TABLE", "CHECK"), help="read once")
    options = parser.parse_args()
    if options.read:
        sys.stdout.write(f"{_time_reading(*options.read)}\n")
        return
    this_checkout = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory(prefix="txnsim-checks-") as scratch:
        for batch_kind, (codec, record_count) in CODEC_AND_RECORDS_BY_KIND.items():
            log_directory = Path(scratch) / batch_kind
            byte_count = write_log(log_directory, codec, record_count, LOG_BYTES)
            for table_name in TABLES_READ:
                checkout_and_check_by_reading = {
                    check_crc: (this_checkout, check_crc) for check_crc in CHECK_CRC_OPTIONS
                }
                if options.before is not None:
                    checkout_and_check_by_reading["before"] = (options.before, "auto")
                times_by_reading: defaultdict[str, list[float]] = defaultdict(list)
                for _ in range(ROUNDS):
                    for reading_name, (
                        checkout,
                        check_crc,
                    ) in checkout_and_check_by_reading.items():
                        times_by_reading[reading_name].append(
                            _read_in_process(checkout, log_directory, table_name, check_crc)
                        )
                times_text = "  ".join(
                    f"{reading_name} {statistics.median(times_s):.3f} s"
                    f" ({min(times_s):.3f} to {max(times_s):.3f})"
                    for reading_name, times_s in times_by_reading.items()
                )
                sys.stdout.write(
                    f"{batch_kind} ({byte_count / 1e6:.0f} MB), {table_name}: {times_text}\n"
                )
                sys.stdout.flush()


def write_log(log_directory: Path, codec: int, record_count: int, byte_count_min: int) -> int:
    """Make a log directory with one log of a codec, in batches of so many records.

    Returns:
        Its size in bytes.
    """
    folder = log_directory / "orders-0"
    folder.mkdir(parents=True)
    write_meta_properties(log_directory, node_id=1)
    random_source = random.Random(SEED)
    byte_count = offset = 0
    with (folder / names.Suffix.LOG.file_name(0)).open("wb") as segment_file:
        while byte_count < byte_count_min:
            records = [
                Record(
                    key=b"%d" % record_number,
                    value=random_source.randbytes(VALUE_BYTES // 2).hex().encode(),
                )
                for record_number in range(record_count)
            ]
            batch = build_batch(records, timestamp_ms=BEGAN_MS, compression=codec)
            for _ in range(max(1, 20_000 // record_count)):
                segment_file.write(assign(batch, base_offset=offset, leader_epoch=1))
                offset += record_count
                byte_count += len(batch)
    (folder / names.Suffix.LOG.file_name(offset)).write_bytes(b"")
    recovery_points_text = encode_offsets({TopicPartition("orders", 0): offset})
    (log_directory / names.FileName.RECOVERY_POINTS).write_text(recovery_points_text)
    (log_directory / names.FileName.CLEAN_SHUTDOWN).unlink(missing_ok=True)
    return byte_count


def _read_in_process(checkout: Path, log_directory: Path, table_name: str, check_crc: str) -> float:
    """Measure the CPU seconds of a read in a process of its own."""
    finished_process = subprocess.run(
        [sys.executable, __file__, "--read", str(log_directory), table_name, check_crc],
        env={**os.environ, "PYTHONPATH": f"{checkout / 'sim'}:{checkout}"},
        stdout=subprocess.PIPE,
        check=True,
    )
    return float(finished_process.stdout)


def _time_reading(log_directory: str, table_name: str, check_crc: str) -> float:
    options = KafkaLogOptions.of(
        {"path": log_directory, "table": table_name, "checkCrc": check_crc}
    )
    schema = TABLES[table_name].arrow()
    table_job = TableJob(options=options, columns=tuple(schema.names))
    times_s: list[float] = []
    for _ in range(2):  # the first one loads what is compiled
        began_cpu_s = process_time()
        for task_share in shares_of(options, RowScope(), FILES_OF_TABLE[table_name]):
            for _ in batches_of(task_share, table_job, schema):
                pass
        times_s.append(process_time() - began_cpu_s)
    return times_s[-1]


if __name__ == "__main__":
    main()
