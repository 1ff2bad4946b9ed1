"""``python -m benchmarks.find_hanging``: how long a whole cluster is searched for hanging
transactions, by ``txnsim txns find-hanging --all`` and by Kafka's own tool, broker by broker.

Both search the same cluster in the same run, and both must name exactly the transactions that were
made to hang. Kafka's tool has no search of a whole cluster: what an operator does instead is
``find-hanging --broker-id N`` for each broker.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from benchmarks.crowd import Crowd, make_crowd
from tests.support.apache_kafka import ApacheKafka, java_command, kafka_libs
from tests.support.txnsim_server import TxnsimServer, installed_txnsim
from txnsim.types import TopicPartition

TARGET_S: Final = 10.0
"""Of a search by ``txnsim`` at the default size, on the simulator."""
BROKERS: Final = 3

_TOOL: Final = "org.apache.kafka.tools.TransactionsCommand"
_QUIET: Final = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=off",)
_LIMIT_S: Final = 600.0


class WrongAnswerError(Exception):
    """A search did not find exactly the transactions that hang."""


class SearchTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time and CPU of one search of the whole cluster."""

    seconds: float
    cpu_seconds: float
    """Of the processes that searched, not of the servers."""


class SearchTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The times of the searches; ``--json`` prints it."""

    server: str
    partitions: int
    open_transactions: int
    hanging: int
    made_in_seconds: float
    load_average: float
    txnsim: tuple[SearchTime, ...]
    kafka: tuple[SearchTime, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the searches; return 1 if one of them gave a wrong answer."""
    options = _make_parser().parse_args(arguments)
    load_average = os.getloadavg()[0]
    with _run_cluster(options.server) as (bootstrap, broker_ids):
        began_s = time.monotonic()
        crowd = asyncio.run(
            make_crowd(
                bootstrap,
                partition_count=options.partitions,
                alive_count=options.open,
                hanging_count=options.hanging,
            )
        )
        made_in_s = time.monotonic() - began_s
        print(f"made {crowd.partition_count} partitions in {made_in_s:.0f} s", file=sys.stderr)
        txnsim_times: list[SearchTime] = []
        kafka_times: list[SearchTime] = []
        try:
            for _ in range(options.rounds):
                txnsim_times.append(_time_search(lambda: _search_all(bootstrap), crowd))
                kafka_times.append(
                    _time_search(lambda: _search_by_broker(bootstrap, broker_ids), crowd)
                )
        except WrongAnswerError as wrong_answer:
            print(wrong_answer, file=sys.stderr)
            return 1
    search_times = SearchTimes(
        server=options.server,
        partitions=crowd.partition_count,
        open_transactions=crowd.open_transaction_count,
        hanging=len(crowd.hanging_partitions),
        made_in_seconds=round(made_in_s, 1),
        load_average=round(load_average, 1),
        txnsim=tuple(txnsim_times),
        kafka=tuple(kafka_times),
    )
    print(msgspec.json.encode(search_times).decode() if options.json else _to_text(search_times))
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.find_hanging",
        description="Time a search for hanging transactions (see benchmarks/README.md).",
    )
    parser.add_argument("--server", choices=("txnsim", "apache"), default="txnsim")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--open", type=int, default=5_000, help="open transactions that live")
    parser.add_argument("--hanging", type=int, default=25, help="and those that do not")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    return parser


@contextlib.contextmanager
def _run_cluster(server_name: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Run an empty cluster; yield its address and the ids of its brokers."""
    if server_name == "txnsim":
        with TxnsimServer(brokers=BROKERS) as server:
            yield server.bootstrap, tuple(range(1, BROKERS + 1))
    else:
        # Two indexes of each partition are mapped: as small as Kafka lets them be.
        small_index_properties = {"log.index.size.max.bytes": "4096"}
        with ApacheKafka(properties=small_index_properties, jvm_options=("-Xmx1g",)) as kafka:
            yield kafka.bootstrap, (1,)


def _time_search(search: Callable[[], set[TopicPartition]], crowd: Crowd) -> SearchTime:
    began_cpu_s = _read_children_cpu_s()
    began_s = time.monotonic()
    reported_partitions = search()
    seconds = time.monotonic() - began_s
    if reported_partitions != crowd.hanging_partitions:
        missed_partitions, invented_partitions = (
            sorted(crowd.hanging_partitions - reported_partitions),
            sorted(reported_partitions - crowd.hanging_partitions),
        )
        raise WrongAnswerError(
            f"not named: {missed_partitions}; named, and does not hang: {invented_partitions}"
        )
    return SearchTime(
        seconds=round(seconds, 2), cpu_seconds=round(_read_children_cpu_s() - began_cpu_s, 2)
    )


def _read_children_cpu_s() -> float:
    """Read the CPU time of the processes that were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _search_all(bootstrap: str) -> set[TopicPartition]:
    command = [str(installed_txnsim()), "txns", "--bootstrap-server", bootstrap]
    json_report = _run_and_read(
        [*command, "find-hanging", "--all", "--json"], accepted_statuses=(0, 3)
    )
    search_report = json.loads(json_report)
    assert not search_report["unread"], search_report["unread"]
    return {
        TopicPartition(*finding_entry["finding"]["transaction"]["partition"].values())
        for finding_entry in search_report["findings"]
        if finding_entry["finding"]["verdict"] == "hanging"
    }


def _search_by_broker(bootstrap: str, broker_ids: Sequence[int]) -> set[TopicPartition]:
    reported_partitions: set[TopicPartition] = set()
    java_command_line = [
        *java_command(kafka_libs(), options=_QUIET),
        _TOOL,
        "--bootstrap-server",
        bootstrap,
    ]
    for broker_id in broker_ids:
        tool_output = _run_and_read(
            [*java_command_line, "find-hanging", "--broker-id", str(broker_id)],
            accepted_statuses=(0,),
        )
        for table_line in tool_output.splitlines()[1:]:
            topic, partition, *_ = (line_cell.strip() for line_cell in table_line.split("\t"))
            reported_partitions.add(TopicPartition(topic, int(partition)))
    return reported_partitions


def _run_and_read(command: Sequence[str], *, accepted_statuses: Sequence[int]) -> str:
    finished_process = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )
    if finished_process.returncode not in accepted_statuses:
        raise WrongAnswerError(
            f"{' '.join(command)}: {finished_process.returncode}\n{finished_process.stderr}"
        )
    return finished_process.stdout


def _to_text(search_times: SearchTimes) -> str:
    txnsim_median_s = statistics.median(search.seconds for search in search_times.txnsim)
    kafka_median_s = statistics.median(search.seconds for search in search_times.kafka)
    text_lines = [
        f"{search_times.partitions} partitions, {search_times.open_transactions} open transactions,"
        f" {search_times.hanging} of them hanging, on {search_times.server}"
        f" (load average before: {search_times.load_average})",
        *(
            f"{command_title:44} {statistics.median(search.seconds for search in searches):6.2f} s"
            f"  ({min(search.seconds for search in searches):.2f} to"
            f" {max(search.seconds for search in searches):.2f} s,"
            f" CPU {statistics.median(search.cpu_seconds for search in searches):.2f} s)"
            for command_title, searches in (
                ("txnsim txns find-hanging --all", search_times.txnsim),
                ("Kafka's find-hanging --broker-id, each broker", search_times.kafka),
            )
        ),
        f"{kafka_median_s / txnsim_median_s:.1f} times as fast as Kafka's tool",
    ]
    if search_times.server == "txnsim":
        text_lines.append(
            f"target: under {TARGET_S:.0f} s, {'met' if txnsim_median_s < TARGET_S else 'MISSED'}"
        )
    return "\n".join(text_lines)


if __name__ == "__main__":
    sys.exit(main())
