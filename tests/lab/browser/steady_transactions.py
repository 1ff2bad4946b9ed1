"""Stock clients that commit and abort transactions at a steady rate, until their input ends.

``python -m tests.lab.browser.steady_transactions BOOTSTRAP TOPIC PARTITIONS RATE``
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Producer

PRODUCERS: Final = 8
ABORTS: Final = 5
"""Every so many transactions one is aborted."""


@contextmanager
def steady_transactions(
    bootstrap: str, topic: str, partitions: int, *, rate: int
) -> Iterator[subprocess.Popen[str]]:
    """Run a process that commits so many transactions per second."""
    command = [sys.executable, "-m", __spec__.name, bootstrap, topic, str(partitions), str(rate)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "all have begun\n"
        yield process
        assert process.poll() is None, "the clients have ended"
    finally:
        process.communicate()  # the end of its input ends it


def commit_at(bootstrap: str, topic: str, partitions: int, number: int, pause_s: float) -> None:
    """Commit transactions of one producer until the process ends."""
    client = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"steady-{number}"})
    client.init_transactions()
    BEGUN.wait()
    due_s = time.monotonic()
    turn = number
    while True:
        client.begin_transaction()
        client.produce(topic, b"value", partition=turn % partitions)
        if turn % ABORTS:
            client.commit_transaction()
        else:
            client.flush()
            client.abort_transaction()
        turn += 1
        due_s = max(
            due_s + pause_s, time.monotonic() - pause_s
        )  # what can't be kept up is not made up
        time.sleep(max(0.0, due_s - time.monotonic()))


BEGUN: Final = threading.Barrier(PRODUCERS + 1)


def main() -> None:
    """Commit transactions until standard input ends."""
    bootstrap, topic, partitions, rate = sys.argv[1:]
    for producer_number in range(PRODUCERS):
        arguments = (bootstrap, topic, int(partitions), producer_number, PRODUCERS / int(rate))
        threading.Thread(target=commit_at, args=arguments, daemon=True).start()
    BEGUN.wait()
    print("all have begun", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
