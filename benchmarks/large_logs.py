"""``python -m benchmarks.large_logs``: into how many tasks ``kafka_log`` divides a large log for
two cores, and what it leaves out: tasks, segments, and megabytes of them. Nothing is read.

The first log is half a gigabyte in batches of 90 bytes, the second one a day of ``orders`` in
segments of an hour.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.log_data import Scale, small_batches
from benchmarks.store_data import BEGAN_MS, HOUR_MS, Hours, make
from txnsim.pipeline.log_query import Wanted
from txnsim.pipeline.options import Division, KafkaLogOptions
from txnsim.pipeline.planning import READS, shares_of

SPARKS: Final = Division(max_partition_bytes=128 << 20, open_cost_bytes=4 << 20, parallelism=2)
"""What a session says of itself on two cores."""
HALF_GIGABYTE: Final = Scale(transactions=25_000)
DAY: Final = Hours(brokers=1, partitions=20, transactions=100)
ASKED: Final = {
    "everything": Wanted(),
    "the last hour": Wanted(time_min_ms=BEGAN_MS + 23 * HOUR_MS),
    "another topic": Wanted(topic_patterns=frozenset({"pay*"})),
    "one producer": Wanted(producer_ids=frozenset({1201})),
}


def main() -> int:
    """Plan, and print a line for each."""
    half = small_batches(HALF_GIGABYTE).directory
    for table in ("fragments", "batches", "records"):
        print(_planned(f"500 MB, {table}", half, table, Wanted()))
    with tempfile.TemporaryDirectory(prefix="txnsim-large-") as scratch:
        make(Path(scratch) / "day", DAY)
        for name, wanted in ASKED.items():
            print(_planned(f"a day, {name}", f"{scratch}/day", "batches", wanted))
    return 0


def _planned(title: str, directory: str, table: str, wanted: Wanted) -> str:
    options = KafkaLogOptions.of({"path": directory, "table": table})
    options = msgspec.structs.replace(options, division=SPARKS)
    shares = shares_of(options, wanted, READS[table])
    sizes = {one.path: one.size for share in shares for one in share.segments}
    megabytes = sum(sizes.values()) / 1e6
    return f"{title:24} {len(shares):3} tasks, {len(sizes):3} segments, {megabytes:6.1f} MB"


if __name__ == "__main__":
    sys.exit(main())
