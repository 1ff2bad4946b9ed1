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

BYTES = 60_000_000
ROUNDS = 5


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=90, help="of a batch, in bytes")
    size = parser.parse_args().size
    count = BYTES // size
    buffer = np.random.default_rng(1).integers(0, 256, count * size, dtype=np.uint8)
    starts = np.arange(count, dtype=np.int64) * size
    sizes = np.full(count, size, dtype=np.int64)
    stored_crcs = np.zeros(count, dtype=np.int64)
    valid = np.zeros(count, dtype=np.bool_)
    methods: dict[str, Callable[[], None]] = {
        "tables": lambda: check_by_tables(buffer, starts, sizes, stored_crcs, CRC_TABLES, valid),
        "instruction" if HAS_INSTRUCTION else "no instruction here": lambda: check_crcs(
            buffer, starts, sizes, stored_crcs, valid
        ),
    }
    samples: dict[str, list[float]] = {name: [] for name in methods}
    for number in range(ROUNDS + 1):
        for name, check in methods.items():
            began = process_time()
            check()
            if number:  # the first one compiles
                samples[name].append(process_time() - began)
    for name, seconds in samples.items():
        rate = count * size / statistics.median(seconds) / 1e6
        sys.stdout.write(f"{name}: {rate:,.0f} MB/s, batches of {size} bytes\n")


if __name__ == "__main__":
    main()
