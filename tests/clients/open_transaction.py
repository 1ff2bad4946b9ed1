"""A client that opens a transaction and waits to be killed.

``python -m tests.clients.open_transaction LIBRARY BOOTSTRAP NAME TIMEOUT_MS`` writes into partition
0 of the topic NAME under the transactional id NAME.
"""

from __future__ import annotations

import importlib
import sys

from tests.clients.drivers.base import Driver, Record


def main(library_name: str, bootstrap: str, name: str, timeout_ms: str) -> None:
    """Open a transaction, print ``open``, and wait."""
    driver: Driver = importlib.import_module(f"tests.clients.drivers.{library_name}").Driver(
        bootstrap
    )
    with driver.producer(name, timeout_ms=int(timeout_ms)) as producer:
        producer.init()
        producer.begin()
        producer.send(name, [Record(b"orphan")])
        sys.stdout.write("open\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
