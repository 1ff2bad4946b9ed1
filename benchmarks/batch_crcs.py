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
    starts = np.arange(batch_count, dtype=np.int64) * batch_bytes
    sizes = np.full(batch_count, batch_bytes, dtype=np.int64)
    stored_crcs = np.zeros(batch_count, dtype=np.int64)
    are_valid = np.zeros(batch_count, dtype=np.bool_)
    checks_by_name: dict[str, Callable[[], None]] = {
        "tables": lambda: check_by_tables(
            buffer, starts, sizes, stored_crcs, CRC_TABLES, are_valid
        ),
        "instruction" if HAS_INSTRUCTION else "no instruction here": lambda: check_crcs(
            buffer, starts, sizes, stored_crcs, are_valid
        ),
    }
    samples: dict[str, list[float]] = {method_name: [] for method_name in checks_by_name}
    for round_number in range(ROUNDS + 1):
        for method_name, check_batches in checks_by_name.items():
            start_s = process_time()
            check_batches()
            if round_number:  # the first one compiles
                samples[method_name].append(process_time() - start_s)
    for method_name, seconds in samples.items():
        rate = batch_count * batch_bytes / statistics.median(seconds) / 1e6
        sys.stdout.write(f"{method_name}: {rate:,.0f} MB/s, batches of {batch_bytes} bytes\n")


if __name__ == "__main__":
    main()
