"""What ``txnsim logs sql`` costs over a log of some hundred megabytes: seconds by the clock and the
largest memory of its process.

``python -m benchmarks.log_queries [--before CHECKOUT] [--bytes N] [--query FILE]``

With ``--before``, another checkout of txnsim answers the same queries, in alternation.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Final

from benchmarks import read_checks
from txnsim.wire.batch import NONE

ROUNDS: Final = 3
RECORDS: Final = 20
"""Of a batch: one of about two kilobytes."""
QUERIES: Final = {
    "count of records": "SELECT count(*) AS n FROM kafka_records",
    "records of a partition": "SELECT max(timestamp_ms) AS newest FROM kafka_records"
    " WHERE topic = 'orders' AND partition = 0",
    "another topic": "SELECT count(*) AS n FROM kafka_records WHERE topic = 'none'",
    "batches by codec": "SELECT codec, sum(records) AS n FROM kafka_batches GROUP BY codec",
    "leader": "SELECT count(*) AS n FROM leader",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log_queries")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="measure this one, too")
    parser.add_argument("--bytes", type=int, default=300_000_000, help="of the log")
    parser.add_argument("--query", type=Path, metavar="FILE", help="a query more")
    options = parser.parse_args()
    checkout_by_name = {"after": Path(__file__).resolve().parent.parent}
    if options.before is not None:
        checkout_by_name["before"] = options.before
    query_by_title = dict(QUERIES)
    if options.query is not None:
        query_by_title[options.query.name] = options.query.read_text("utf-8")
    with tempfile.TemporaryDirectory(prefix="txnsim-queries-") as scratch:
        byte_count = read_checks.write_log(Path(scratch) / "logs", NONE, RECORDS, options.bytes)
        for query_title, query in query_by_title.items():
            costs_by_checkout: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
            for _ in range(ROUNDS):
                for checkout_name, checkout in checkout_by_name.items():
                    costs_by_checkout[checkout_name].append(
                        _run_query(checkout, query, f"{scratch}/logs")
                    )
            costs_text = "  ".join(
                f"{checkout_name} {statistics.median(seconds for seconds, _ in costs):.1f} s"
                f" {max(megabytes for _, megabytes in costs):,.0f} MB"
                for checkout_name, costs in costs_by_checkout.items()
            )
            sys.stdout.write(f"{byte_count / 1e6:.0f} MB, {query_title}: {costs_text}\n")
            sys.stdout.flush()


def _run_query(checkout: Path, query: str, log_directory: str) -> tuple[float, float]:
    """Run the query in a process of its own; return its (seconds, megabytes)."""
    began_s = time.perf_counter()
    python_program = "import sys; from txnsim.cli.main import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", python_program, "logs", "sql", query, log_directory],
        env={**os.environ, "PYTHONPATH": f"{checkout / 'sim'}:{checkout}"},
        stdout=subprocess.DEVNULL,
    )
    _, status, resource_usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, query)
    return time.perf_counter() - began_s, resource_usage.ru_maxrss / 1e3


if __name__ == "__main__":
    main()
