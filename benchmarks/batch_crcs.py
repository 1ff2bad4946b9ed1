"""How many bytes a second the compiled CRC of small batches goes over, by the processor's
instruction and by tables: CPU time of one core, in alternation.

``python -m benchmarks.batch_crcs [--size BYTES]``
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from time import process_time

import numpy as np

from txnsim_spark.scan.kernel_crc import CRC_TABLES, HAS_INSTRUCTION, check_by_tables, check_crcs

MEASURED_BYTES = 60_000_000
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=90, help="of a batch, in bytes")
    batch_bytes = parser.parse_args().size
    batch_count = MEASURED_BYTES // batch_bytes
    buffer = np.random.default_rng(1).integers(0, 256, batch_count * batch_bytes, dtype=np.uint8)
    batch_positions = np.arange(batch_count, dtype=np.int64) * batch_bytes
    batch_sizes = np.full(batch_count, batch_bytes, dtype=np.int64)
    stored_crcs = np.zeros(batch_count, dtype=np.int64)
    crc_is_right = np.zeros(batch_count, dtype=np.bool_)
    check_by_method: dict[str, Callable[[], None]] = {
        "tables": lambda: check_by_tables(
            buffer, batch_positions, batch_sizes, stored_crcs, CRC_TABLES, crc_is_right
        ),
        "instruction" if HAS_INSTRUCTION else "no instruction here": lambda: check_crcs(
            buffer, batch_positions, batch_sizes, stored_crcs, crc_is_right
        ),
    }
    times_by_method: dict[str, list[float]] = {method_name: [] for method_name in check_by_method}
    for round_number in range(ROUNDS + 1):
        for method_name, check_batches in check_by_method.items():
            began_cpu_s = process_time()
            check_batches()
            if round_number:  # the first one compiles
                times_by_method[method_name].append(process_time() - began_cpu_s)
    for method_name, times_s in times_by_method.items():
        mb_per_s = batch_count * batch_bytes / statistics.median(times_s) / 1e6
        sys.stdout.write(f"{method_name}: {mb_per_s:,.0f} MB/s, batches of {batch_bytes} bytes\n")


if __name__ == "__main__":
    main()
