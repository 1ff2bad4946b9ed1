"""``python -m benchmarks.calls``: how many Python functions of ours a transaction calls.

A count hardly depends on the machine. In virtual time, with one producer and a fixed seed, it is
exact: ``--write`` keeps it in ``calls.json``, and a test of the gate holds it. ``--tcp`` counts in
the process of a server, with 32 producers of the load generator (Go). ``--walk`` tells the way of
requests through the code, ``--top N`` the functions that are called most.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from benchmarks import build
from benchmarks.call_counts import (
    CallRecorder,
    CallsByFunction,
    WalkCounts,
    count_calls_by_function,
    group_by_package,
    make_call_profile,
)
from benchmarks.generator import Generator
from benchmarks.raw_producer import PARTITIONS, TOPIC, RawProducer, RequestStep
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.server.cluster import SimCluster
from txnsim.server.options import ClusterOptions

COUNTS_FILE: Final = Path(__file__).with_name("calls.json")
PYTHON: Final = (3, 11)
"""The version that the kept counts are of."""
TXN_FLOWS: Final = ("v2", "old")
BROKERS: Final = (1, 3)
_TRANSACTIONS: Final = 2 * PARTITIONS
_REQUESTS: Final = 16
_SEED: Final = 7
_LATENCY_US: Final = (100, 100)
_PRODUCERS: Final = 32
_SETTLE_S: Final = 0.05
_WARM_UP_S: Final = 3.0
_COUNT_S: Final = 4.0
_ONCE_PER_TRANSACTION: Final = "txn/transitions.py:to_complete"
"""Is called once in each transaction: so many of them were counted over TCP."""
_RESPONSE_READY: Final = "server/_connection.py:RequestConnection._send_reply"
"""The answer is ready; the write itself comes at the end of the turn, after markers."""

T = TypeVar("T")


def main(arguments: Sequence[str] | None = None) -> int:
    """Count the calls of each flow, and print the counts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calls")
    parser.add_argument("--write", action="store_true", help="keep the counts in virtual time")
    parser.add_argument("--tcp", action="store_true", help="count in a server, over TCP")
    parser.add_argument("--walk", action="store_true", help="the way of requests through the code")
    parser.add_argument("--top", type=int, default=0, metavar="N", help="most called functions")
    parser.add_argument("--brokers", type=int, choices=BROKERS, action="append")
    parser.add_argument("--flow", dest="txn_flow", choices=TXN_FLOWS, action="append")
    options = parser.parse_args(arguments)
    broker_counts, txn_flows = options.brokers or BROKERS, options.txn_flow or TXN_FLOWS
    if options.walk:
        for broker_count in options.brokers or (BROKERS[-1],):
            for request_name, walk_counts in walk_requests(broker_count).items():
                print(f"{broker_count} broker(s)  {request_name:<17} {walk_counts}")
        return 0
    if options.write:
        COUNTS_FILE.write_text(json.dumps(count_exactly(), indent=1, sort_keys=True) + "\n")
        return 0
    for broker_count in broker_counts:
        for txn_flow in txn_flows:
            calls_by_function = (
                count_over_tcp(broker_count, txn_flow).calls_by_function
                if options.tcp
                else count_in_virtual_time(broker_count, txn_flow)
            )
            _print_counts(f"{broker_count} broker(s), {txn_flow}", calls_by_function, options.top)
    return 0


# In virtual time


def count_exactly() -> dict[str, dict[str, float]]:
    """Count what is kept in a file: calls per transaction by package, and calls per request."""
    counts_by_title = {
        f"transaction {txn_flow}, {broker_count} broker(s)": _round_by_package(
            count_in_virtual_time(broker_count, txn_flow)
        )
        for broker_count in BROKERS
        for txn_flow in TXN_FLOWS
    }
    for broker_count in BROKERS:
        counts_by_title[f"requests, {broker_count} broker(s)"] = count_request_calls(broker_count)
    for request_name, walk_counts in walk_requests(1).items():
        if request_name.startswith("EndTxn"):
            counts_by_title[f"way of {request_name}, 1 broker(s)"] = {
                "files": walk_counts.file_count,
                "changes": walk_counts.file_change_count,
            }
    return counts_by_title


def _round_by_package(calls_by_function: dict[str, float]) -> dict[str, float]:
    calls_by_package = {
        name: round(call_count, 2)
        for name, call_count in group_by_package(calls_by_function).items()
    }
    return {"all": round(sum(calls_by_function.values()), 2), **calls_by_package}


def count_in_virtual_time(broker_count: int, txn_flow: str) -> dict[str, float]:
    """Count calls per transaction by function, of one producer in virtual time."""

    async def count_calls(open_producer: OpenProducerFunction) -> dict[str, float]:
        producer = await open_producer("tx-0", txn_flow)
        await producer.run_steps(producer.make_transaction_steps(PARTITIONS))
        request_steps = producer.make_transaction_steps(_TRANSACTIONS)
        return await _count_calls(producer, request_steps, _TRANSACTIONS)

    return _run_in_virtual_time(count_calls, broker_count)


def count_request_calls(broker_count: int) -> dict[str, float]:
    """Count calls per request of some APIs."""

    async def count_calls(open_producer: OpenProducerFunction) -> dict[str, float]:
        producer = await open_producer("tx-0", "v2")
        calls_by_request = {}
        heartbeat_step = await producer.join_group_and_make_heartbeat_step()
        step_by_request: dict[str, RequestStep] = {
            "Produce": producer.make_plain_produce_step(),
            "Fetch": producer.make_fetch_step(),
            "TxnOffsetCommit": producer.make_offset_commit_step(),
            "Heartbeat": heartbeat_step,
        }
        for request_name, request_step in step_by_request.items():
            await producer.run_steps([request_step] * 4)
            calls_by_function = await _count_calls(producer, [request_step] * _REQUESTS, _REQUESTS)
            calls_by_request[request_name] = round(sum(calls_by_function.values()), 2)
        return calls_by_request

    return _run_in_virtual_time(count_calls, broker_count)


def walk_requests(broker_count: int) -> dict[str, WalkCounts]:
    """Record the way of the first Produce of a transaction, of its EndTxn up to the answer and with
    all that follows, and of a TxnOffsetCommit that adds its group to the transaction.
    """

    async def record_walks(open_producer: OpenProducerFunction) -> dict[str, WalkCounts]:
        producer = await open_producer("tx-0", "v2")
        group_producer = await open_producer("tx-1", "v2")
        await producer.run_steps(producer.make_transaction_steps(PARTITIONS))
        for _ in range(2):  # the second time everything is loaded
            produce_step, end_step = producer.make_transaction_steps(1)
            produce_calls = await _record_request_calls(producer, produce_step)
            end_calls = await _record_request_calls(producer, end_step)
            commit_calls = await _record_request_calls(
                group_producer, group_producer.make_offset_commit_step()
            )
            walk_counts_by_request = {
                "Produce": produce_calls.counts_until(),
                "EndTxn to its answer": end_calls.counts_until(_RESPONSE_READY),
                "EndTxn": end_calls.counts_until(),
                "TxnOffsetCommit": commit_calls.counts_until(),
            }
            await group_producer.run_steps([group_producer.make_end_step()])
            await asyncio.sleep(_SETTLE_S)
        return walk_counts_by_request

    return _run_in_virtual_time(record_walks, broker_count)


async def _record_request_calls(producer: RawProducer, request_step: RequestStep) -> CallRecorder:
    await asyncio.sleep(_SETTLE_S)
    call_recorder = CallRecorder()
    call_recorder.start()
    await producer.run_steps([request_step])
    await asyncio.sleep(_SETTLE_S)
    call_recorder.stop()
    return call_recorder


async def _count_calls(
    producer: RawProducer, request_steps: list[RequestStep], transaction_count: int
) -> dict[str, float]:
    await asyncio.sleep(_SETTLE_S)
    profile = make_call_profile()
    profile.enable()
    await producer.run_steps(request_steps)
    await asyncio.sleep(_SETTLE_S)
    profile.disable()
    return _divide_calls(count_calls_by_function(profile), transaction_count)


OpenProducerFunction = Callable[[str, str], Awaitable[RawProducer]]


def _run_in_virtual_time(
    use_producers: Callable[[OpenProducerFunction], Awaitable[T]], broker_count: int
) -> T:
    async def run_cluster(env: VirtualEnvironment) -> T:
        options = ClusterOptions(brokers=broker_count, port=0, topics=((TOPIC, PARTITIONS),))
        sim_cluster = SimCluster(env, options)
        await sim_cluster.start()

        async def open_producer(transactional_id: str, txn_flow: str) -> RawProducer:
            producer = RawProducer(
                env.network.connect, sim_cluster.bootstrap, transactional_id, txn_flow
            )
            await producer.open()
            return producer

        try:
            return await use_producers(open_producer)
        finally:
            await sim_cluster.stop()

    return run_virtual(
        run_cluster,
        seed=_SEED,
        latency_us=_LATENCY_US,
        peer_latency_us=None,
        trace_level=TraceLevel.OFF,
    )


# Over TCP


class CountedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that a server under load makes per transaction."""

    calls_by_function: dict[str, float]
    retries: float
    """Answers that made the load generator send a request again, as CONCURRENT_TRANSACTIONS."""


def count_over_tcp(broker_count: int, txn_flow: str) -> CountedLoad:
    """Count calls by function and retries in a server, with the benchmark's load generator."""
    load_program = build.build_go_program("load")
    with tempfile.TemporaryDirectory(prefix="txnsim-calls-") as scratch_directory:
        ready_file, counts_file = (
            Path(scratch_directory) / "ready.json",
            Path(scratch_directory) / "counts.json",
        )
        server_command = [
            sys.executable,
            "-m",
            "benchmarks.calls_server",
            str(counts_file),
            "serve",
        ]
        server_command += [
            "--port",
            "0",
            "--brokers",
            str(broker_count),
            "--ready-file",
            str(ready_file),
        ]
        server_process = subprocess.Popen(server_command, stdout=subprocess.DEVNULL)
        try:
            _await_file(ready_file)
            bootstrap = json.loads(ready_file.read_text())["bootstrap"]
            generator = Generator(
                load_program=load_program, bootstrap=bootstrap, server_pid=server_process.pid
            )
            with ThreadPoolExecutor(1) as executor:
                load_future = executor.submit(
                    generator.run_transactions,
                    txn_flow=txn_flow,
                    producer_count=_PRODUCERS,
                    warm_up_s=_WARM_UP_S,
                    measured_s=_COUNT_S + 1,
                )
                time.sleep(_WARM_UP_S)
                server_process.send_signal(signal.SIGUSR1)
                time.sleep(_COUNT_S)
                server_process.send_signal(signal.SIGUSR2)
                _await_file(counts_file)
                transaction_figures = load_future.result()
            calls_by_function = json.loads(counts_file.read_text())
            return CountedLoad(
                calls_by_function=_divide_calls(
                    calls_by_function, calls_by_function[_ONCE_PER_TRANSACTION]
                ),
                retries=transaction_figures.retries_per_transaction,
            )
        finally:
            server_process.terminate()
            server_process.wait()


def _await_file(path: Path, limit_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + limit_s
    while not path.exists():
        assert time.monotonic() < deadline_s, f"{path.name} has not come"
        time.sleep(0.02)


# Printing


def _divide_calls(calls_by_function: CallsByFunction, transaction_count: int) -> dict[str, float]:
    return {
        function_name: call_count / transaction_count
        for function_name, call_count in sorted(calls_by_function.items())
    }


def _print_counts(title: str, calls_by_function: dict[str, float], shown_count: int) -> None:
    print(f"{title}: {sum(calls_by_function.values()):.1f} calls per transaction")
    calls_by_package = sorted(
        group_by_package(calls_by_function).items(), key=lambda entry: -entry[1]
    )
    print("   " + ", ".join(f"{name} {call_count:.1f}" for name, call_count in calls_by_package))
    for name, call_count in sorted(calls_by_function.items(), key=lambda entry: -entry[1])[
        :shown_count
    ]:
        print(f"   {call_count:8.2f}  {name}")


if __name__ == "__main__":
    sys.exit(main())
