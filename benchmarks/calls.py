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
from benchmarks.call_counts import Counts, Walk, Walker, by_package, counter, counts
from benchmarks.generator import Generator
from benchmarks.raw_producer import PARTITIONS, TOPIC, RawProducer, RequestStep
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.server.cluster import SimCluster
from txnsim.server.options import ClusterOptions

COUNTS_FILE: Final = Path(__file__).with_name("calls.json")
PYTHON: Final = (3, 11)
"""The version that the kept counts are of."""
FLOWS: Final = ("v2", "old")
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
    parser.add_argument("--flow", choices=FLOWS, action="append")
    options = parser.parse_args(arguments)
    brokers, flows = options.brokers or BROKERS, options.flow or FLOWS
    if options.walk:
        for count in options.brokers or (BROKERS[-1],):
            for name, walk in walks(count).items():
                print(f"{count} broker(s)  {name:<17} {walk}")
        return 0
    if options.write:
        COUNTS_FILE.write_text(json.dumps(exact_counts(), indent=1, sort_keys=True) + "\n")
        return 0
    for count in brokers:
        for flow in flows:
            by_function = (
                count_over_tcp(count, flow).calls_by_function
                if options.tcp
                else in_virtual_time(count, flow)
            )
            _print(f"{count} broker(s), {flow}", by_function, options.top)
    return 0


# In virtual time


def exact_counts() -> dict[str, dict[str, float]]:
    """The stored counts: calls per transaction by package, and calls per request."""
    by_title = {
        f"transaction {flow}, {brokers} broker(s)": _round_by_package(
            in_virtual_time(brokers, flow)
        )
        for brokers in BROKERS
        for flow in FLOWS
    }
    for brokers in BROKERS:
        by_title[f"requests, {brokers} broker(s)"] = requests(brokers)
    for name, walk in walks(1).items():
        if name.startswith("EndTxn"):
            by_title[f"way of {name}, 1 broker(s)"] = {"files": walk.files, "changes": walk.changes}
    return by_title


def _round_by_package(by_function: dict[str, float]) -> dict[str, float]:
    packages = {name: round(calls, 2) for name, calls in by_package(by_function).items()}
    return {"all": round(sum(by_function.values()), 2), **packages}


def in_virtual_time(brokers: int, flow: str) -> dict[str, float]:
    """Calls per transaction by function, of one producer in virtual time."""

    async def measure(connect: RawProducerMaker) -> dict[str, float]:
        producer = await connect("tx-0", flow)
        await producer.run(producer.transactions(PARTITIONS))
        steps = producer.transactions(_TRANSACTIONS)
        return await _count_calls(producer, steps, _TRANSACTIONS)

    return _run_in_virtual_time(measure, brokers)


def requests(brokers: int) -> dict[str, float]:
    """Calls per request of some APIs."""

    async def measure(connect: RawProducerMaker) -> dict[str, float]:
        producer = await connect("tx-0", "v2")
        per_request = {}
        beat = await producer.join()
        kinds: dict[str, RequestStep] = {
            "Produce": producer.plain_produce(),
            "Fetch": producer.fetch(),
            "TxnOffsetCommit": producer.commit_offset(),
            "Heartbeat": beat,
        }
        for name, step in kinds.items():
            await producer.run([step] * 4)
            calls = await _count_calls(producer, [step] * _REQUESTS, _REQUESTS)
            per_request[name] = round(sum(calls.values()), 2)
        return per_request

    return _run_in_virtual_time(measure, brokers)


def walks(brokers: int) -> dict[str, Walk]:
    """The way of the first Produce of a transaction, of its EndTxn up to the answer and with all
    that follows, and of a TxnOffsetCommit that adds its group to the transaction.
    """

    async def measure(connect: RawProducerMaker) -> dict[str, Walk]:
        producer = await connect("tx-0", "v2")
        group_producer = await connect("tx-1", "v2")
        await producer.run(producer.transactions(PARTITIONS))
        for _ in range(2):  # the second time everything is loaded
            produce, end = producer.transactions(1)
            produce_walk = await _follow_request(producer, produce)
            end_walk = await _follow_request(producer, end)
            commit_walk = await _follow_request(group_producer, group_producer.commit_offset())
            by_request = {
                "Produce": produce_walk.walk(),
                "EndTxn to its answer": end_walk.walk(_RESPONSE_READY),
                "EndTxn": end_walk.walk(),
                "TxnOffsetCommit": commit_walk.walk(),
            }
            await group_producer.run([group_producer.end()])
            await asyncio.sleep(_SETTLE_S)
        return by_request

    return _run_in_virtual_time(measure, brokers)


async def _follow_request(producer: RawProducer, step: RequestStep) -> Walker:
    await asyncio.sleep(_SETTLE_S)
    walker = Walker()
    walker.start()
    await producer.run([step])
    await asyncio.sleep(_SETTLE_S)
    walker.stop()
    return walker


async def _count_calls(
    producer: RawProducer, steps: list[RequestStep], count: int
) -> dict[str, float]:
    await asyncio.sleep(_SETTLE_S)
    profile = counter()
    profile.enable()
    await producer.run(steps)
    await asyncio.sleep(_SETTLE_S)
    profile.disable()
    return _calls_per(counts(profile), count)


RawProducerMaker = Callable[[str, str], Awaitable[RawProducer]]


def _run_in_virtual_time(measure: Callable[[RawProducerMaker], Awaitable[T]], brokers: int) -> T:
    async def run(env: VirtualEnvironment) -> T:
        options = ClusterOptions(brokers=brokers, port=0, topics=((TOPIC, PARTITIONS),))
        sim = SimCluster(env, options)
        await sim.start()

        async def connect(name: str, flow: str) -> RawProducer:
            producer = RawProducer(env.network.connect, sim.bootstrap, name, flow)
            await producer.open()
            return producer

        try:
            return await measure(connect)
        finally:
            await sim.stop()

    return run_virtual(
        run,
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


def count_over_tcp(brokers: int, flow: str) -> CountedLoad:
    """Count calls by function and retries in a server, with the benchmark's load generator."""
    load = build.go_program("load")
    with tempfile.TemporaryDirectory(prefix="txnsim-calls-") as directory:
        ready_file, counts_file = Path(directory) / "ready.json", Path(directory) / "counts.json"
        command = [sys.executable, "-m", "benchmarks.calls_server", str(counts_file), "serve"]
        command += ["--port", "0", "--brokers", str(brokers), "--ready-file", str(ready_file)]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            _await_file(ready_file)
            bootstrap = json.loads(ready_file.read_text())["bootstrap"]
            generator = Generator(binary=load, bootstrap=bootstrap, server_pid=server.pid)
            with ThreadPoolExecutor(1) as thread:
                load_run = thread.submit(
                    generator.transactions,
                    flow=flow,
                    producer_count=_PRODUCERS,
                    warm_up_s=_WARM_UP_S,
                    measured_s=_COUNT_S + 1,
                )
                time.sleep(_WARM_UP_S)
                server.send_signal(signal.SIGUSR1)
                time.sleep(_COUNT_S)
                server.send_signal(signal.SIGUSR2)
                _await_file(counts_file)
                transactions = load_run.result()
            by_function = json.loads(counts_file.read_text())
            return CountedLoad(
                calls_by_function=_calls_per(by_function, by_function[_ONCE_PER_TRANSACTION]),
                retries=transactions.retries_per_transaction,
            )
        finally:
            server.terminate()
            server.wait()


def _await_file(path: Path, limit_s: float = 60.0) -> None:
    ends_s = time.monotonic() + limit_s
    while not path.exists():
        assert time.monotonic() < ends_s, f"{path.name} has not come"
        time.sleep(0.02)


# Printing


def _calls_per(by_function: Counts, count: int) -> dict[str, float]:
    return {name: calls / count for name, calls in sorted(by_function.items())}


def _print(title: str, by_function: dict[str, float], top: int) -> None:
    print(f"{title}: {sum(by_function.values()):.1f} calls per transaction")
    packages = sorted(by_package(by_function).items(), key=lambda entry: -entry[1])
    print("   " + ", ".join(f"{name} {calls:.1f}" for name, calls in packages))
    for name, calls in sorted(by_function.items(), key=lambda entry: -entry[1])[:top]:
        print(f"   {calls:8.2f}  {name}")


if __name__ == "__main__":
    sys.exit(main())
