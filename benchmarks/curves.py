"""``python -m benchmarks.curves``: what one more costs beside few and beside many.

CPU of the server's process for each transaction, partition or connection, as their number grows:
a line that stays level is a cost that grows with the number and no faster. CPU tells this where
other programs use the machine, too. ``--write`` puts table and plot into benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks import build, curves_plot
from benchmarks.curves_plot import CostPoint
from benchmarks.generator import Generator
from benchmarks.log_growth import RESULTS_PAGE, ROOT, replace_section
from benchmarks.raw_producer import TOPIC, RawConnection, RawProducer

POINTS_FILE: Final = build.CACHE / "curves.json"
PLOT_FILE: Final = ROOT / "docs" / "plots" / "cost-curves.svg"
BEGIN_MARK: Final = "<!-- measured: python -m benchmarks.curves --write -->\n"
END_MARK: Final = "<!-- end of the curves -->\n"
API_VERSIONS, CREATE_TOPICS = 18, 19
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_TOPIC_PARTITIONS: Final = 1_000
"""Of each topic, where many partitions are made."""
_RECORDS: Final = 3_000
"""Written in all, where transactions are wide."""


class CurveServer(msgspec.Struct, frozen=True):
    """A running ``txnsim serve`` of one broker."""

    pid: int
    bootstrap: str

    def cpu_ms(self) -> float:
        """Read the CPU time in ms that the server's process has used."""
        stat_fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat_fields[11]) + int(stat_fields[12])) * 1_000 / _TICKS

    async def connect(self) -> RawConnection:
        """Open a connection to the server."""
        host, port = self.bootstrap.rsplit(":", 1)
        connection = RawConnection()
        await asyncio.get_running_loop().create_connection(lambda: connection, host, int(port))
        return connection


@contextmanager
def serve_one_broker() -> Iterator[CurveServer]:
    """Start ``txnsim serve`` with one broker, and stop it."""
    with tempfile.TemporaryDirectory(prefix="txnsim-curves-") as scratch_folder:
        ready_file = Path(scratch_folder, "ready.json")
        command = [sys.executable, "-m", "txnsim", "serve", "--port", "0", "--brokers", "1"]
        process = subprocess.Popen(
            [*command, "--ready-file", str(ready_file)], stdout=subprocess.DEVNULL
        )
        try:
            while not ready_file.exists():
                assert process.poll() is None, "the server did not start"
                time.sleep(0.01)
            yield CurveServer(process.pid, json.loads(ready_file.read_text())["bootstrap"])
        finally:
            process.terminate()
            process.wait()


# What grows: each gives the CPU's milliseconds for one


def measure_producers(server: CurveServer, producer_count: int) -> float:
    """Cost of a transaction of one record, with ``count`` producers at a time."""
    transaction_figures = _make_generator(server).run_transactions(
        txn_flow="v2", producer_count=producer_count, warm_up_s=5.0, measured_s=10.0
    )
    return transaction_figures.server_cpu_seconds * 1_000 / transaction_figures.transactions


def measure_open_transactions(server: CurveServer, transaction_count: int) -> float:
    """Cost of opening and committing a transaction, with ``count`` open at the same time."""
    open_figures = _make_generator(server).open_transactions(
        txn_flow="v2", transaction_count=transaction_count
    )
    return open_figures.server_cpu_seconds * 1_000 / transaction_count


def measure_partitions_of_transaction(server: CurveServer, partition_count: int) -> float:
    """Cost per partition of a transaction with a record on each of ``count`` partitions."""

    async def measure_cost_ms() -> float:
        await _create_topics(await server.connect(), [(TOPIC, partition_count)])
        producer = RawProducer(_open_connection, server.bootstrap, "tx-curve", "v2")
        await producer.open()
        round_count = max(20, _RECORDS // partition_count)
        request_steps = [
            request_step
            for _ in range(round_count + 5)
            for request_step in producer.make_wide_transaction_steps(partition_count)
        ]
        await producer.run_steps(request_steps[:10])
        cpu_ms_before = server.cpu_ms()
        await producer.run_steps(request_steps[10:])
        producer.close()
        return (server.cpu_ms() - cpu_ms_before) / round_count / partition_count

    return asyncio.run(measure_cost_ms())


def measure_topics(server: CurveServer, topic_count: int) -> float:
    """Cost of a topic, created by a request of its own, up to ``count`` topics."""

    async def measure_cost_ms() -> float:
        connection = await server.connect()
        cpu_ms_before = server.cpu_ms()
        for topic_number in range(topic_count):
            await _create_topics(connection, [(f"t{topic_number}", 1)])
        return (server.cpu_ms() - cpu_ms_before) / topic_count

    return asyncio.run(measure_cost_ms())


def measure_partitions(server: CurveServer, partition_count: int) -> float:
    """Cost of a partition, created in topics of 1,000 partitions, up to ``count``."""

    async def measure_cost_ms() -> float:
        connection = await server.connect()
        cpu_ms_before = server.cpu_ms()
        for topic_number in range(max(1, partition_count // _TOPIC_PARTITIONS)):
            await _create_topics(
                connection, [(f"t{topic_number}", min(partition_count, _TOPIC_PARTITIONS))]
            )
        return (server.cpu_ms() - cpu_ms_before) / partition_count

    return asyncio.run(measure_cost_ms())


def measure_connections(server: CurveServer, connection_count: int) -> float:
    """Cost of a connection that sends ApiVersions and stays open, up to ``count``."""

    async def measure_cost_ms() -> float:
        cpu_ms_before = server.cpu_ms()
        open_connections = []
        for _ in range(connection_count):
            open_connections.append(await server.connect())
            await open_connections[-1].call(API_VERSIONS, 3)
        cpu_ms_each = (server.cpu_ms() - cpu_ms_before) / connection_count
        for connection in open_connections:
            connection.close()
        return cpu_ms_each

    return asyncio.run(measure_cost_ms())


CURVE_BY_NAME: Final[dict[str, tuple[Callable[[CurveServer, int], float], tuple[int, ...]]]] = {
    "producers": (measure_producers, (1, 4, 16, 64, 256, 1_000)),
    "partitions of a transaction": (measure_partitions_of_transaction, (1, 3, 10, 30, 100)),
    "open transactions": (measure_open_transactions, (100, 1_000, 10_000, 100_000)),
    "topics": (measure_topics, (100, 1_000, 10_000)),
    "partitions": (measure_partitions, (1_000, 5_000, 20_000, 50_000)),
    "connections": (measure_connections, (10, 100, 1_000, 5_000)),
}


async def _open_connection(host: str, port: int, make_protocol: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().create_connection(make_protocol, host, port)


async def _create_topics(
    connection: RawConnection, partition_count_by_topic: Sequence[tuple[str, int]]
) -> None:
    topic_fields = tuple(
        {
            "name": topic_name,
            "num_partitions": partition_count,
            "replication_factor": 1,
            "assignments": (),
            "configs": (),
        }
        for topic_name, partition_count in partition_count_by_topic
    )
    response = await connection.call(
        CREATE_TOPICS, 5, topics=topic_fields, timeout=60_000, validate_only=False
    )
    assert not any(topic.error_code for topic in response.topics), response


def _make_generator(server: CurveServer) -> Generator:
    return Generator(
        load_program=build.build_go_program("load"),
        bootstrap=server.bootstrap,
        server_pid=server.pid,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the curves; with ``--write``, put table and plot into the docs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curves")
    parser.add_argument("--only", action="append", choices=CURVE_BY_NAME)
    parser.add_argument("--most", type=int, default=1 << 30, help="of what grows")
    parser.add_argument("--write", action="store_true", help="put table and plot into the docs")
    options = parser.parse_args(arguments)
    for curve_name in options.only or CURVE_BY_NAME:
        measure_cost_ms, curve_counts = CURVE_BY_NAME[curve_name]
        for count in curve_counts:
            if count > options.most:
                continue
            with serve_one_broker() as server:
                point = CostPoint(
                    series=curve_name, count=count, cpu_ms=measure_cost_ms(server, count)
                )
            _save_point(point)
            print(f"{curve_name:<28} {count:>8,} {point.cpu_ms:9.4f} ms of CPU each", flush=True)
    if options.write:
        points = _load_points()
        PLOT_FILE.write_bytes(curves_plot.draw_curves_svg(points))
        new_page = replace_section(
            RESULTS_PAGE.read_text("utf-8"), curves_plot.curves_table(points), BEGIN_MARK, END_MARK
        )
        RESULTS_PAGE.write_text(new_page, "utf-8")
    return 0


def _load_points() -> list[CostPoint]:
    """Read the points that were measured last, in the order of the curves."""
    points = (
        msgspec.json.decode(POINTS_FILE.read_bytes(), type=list[CostPoint])
        if POINTS_FILE.exists()
        else []
    )
    curve_names = list(CURVE_BY_NAME)
    return sorted(points, key=lambda point: (curve_names.index(point.series), point.count))


def _save_point(point: CostPoint) -> None:
    other_points = [
        stored_point
        for stored_point in _load_points()
        if (stored_point.series, stored_point.count) != (point.series, point.count)
    ]
    POINTS_FILE.write_bytes(msgspec.json.encode([*other_points, point]))


if __name__ == "__main__":
    sys.exit(main())
