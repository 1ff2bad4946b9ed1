"""Runs the load generator, a compiled program in a process of its own, and reads its figures."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


class LoadError(Exception):
    """The load generator met an error code or a failure that it does not expect."""


class FirstCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds from the start of the server's process until each step was done."""

    connected_ms: float
    topic_ms: float
    producer_ms: float
    committed_ms: float
    retries: dict[str, int]


class Transactions(msgspec.Struct, frozen=True, kw_only=True):
    """Producers that commit one transaction after the other."""

    transactions: int
    per_second: float
    p50_ms: float
    p99_ms: float
    retries: dict[str, int]
    server_cpu_seconds: float

    @property
    def retries_per_transaction(self) -> float:
        """Answers that made the load generator send a request again."""
        return sum(self.retries.values()) / self.transactions


class OpenTransactions(msgspec.Struct, frozen=True, kw_only=True):
    """Many transactions that are open at the same time."""

    transactions: int
    open_seconds: float
    commit_seconds: float
    server_cpu_seconds: float


class Bulk(msgspec.Struct, frozen=True, kw_only=True):
    """A measured transfer of many megabytes, produced or fetched."""

    topic: str
    megabytes: float
    megabytes_per_second: float
    server_cpu_seconds: float


class Generator:
    """The load generator, pointed at one server.

    Args:
        binary: The compiled ``benchmarks/load``.
        bootstrap: Address of the server.
        server_pid: Whose CPU time is measured over the same window.
    """

    def __init__(self, *, binary: Path, bootstrap: str, server_pid: int) -> None:
        self._binary = binary
        self._target = ["--bootstrap", bootstrap, "--server-pid", str(server_pid)]

    def transactions(
        self, *, protocol: str, producer_count: int, warm_up_s: float, measured_s: float
    ) -> Transactions:
        """Run transactions of ``producer_count`` producers in one protocol; the rate per second."""
        options = ["--flow", protocol, "--producers", str(producer_count)]
        timing = ["--warm-up", str(warm_up_s), "--seconds", str(measured_s)]
        return self._run("txn", Transactions, options + timing, timeout_s=warm_up_s + measured_s)

    def open_transactions(self, *, protocol: str, transaction_count: int) -> OpenTransactions:
        """Open ``transaction_count`` transactions, then commit all of them."""
        options = ["--flow", protocol, "--transactions", str(transaction_count)]
        return self._run("open", OpenTransactions, options)

    def produce(self, *, warm_up_mb: int, measured_mb: int) -> Bulk:
        """Write megabytes into a new topic, which ``fetch`` can read."""
        return self._run(
            "produce", Bulk, ["--warm-up-mb", str(warm_up_mb), "--mb", str(measured_mb)]
        )

    def fetch(self, *, topic: str, warm_up_s: float, measured_s: float) -> Bulk:
        """Read a topic from its start again and again."""
        timing = ["--warm-up", str(warm_up_s), "--seconds", str(measured_s)]
        return self._run("fetch", Bulk, ["--topic", topic, *timing])

    def _run(
        self, mode: str, result_type: type[T], options: list[str], *, timeout_s: float = 0.0
    ) -> T:
        return run_load(
            self._binary, [mode, *self._target, *options], result_type, timeout_s=timeout_s
        )


def first_commit(
    binary: Path, *, address: tuple[str, str], server_pid: int, started_ns: int, limit_s: float
) -> FirstCommit:
    """Wait for a server that is starting and commit its first transaction.

    Args:
        binary: The compiled ``benchmarks/load``.
        address: ``--bootstrap`` or ``--ready-file``, and its value.
        server_pid: Whose end ends the waiting.
        started_ns: When the process was started, on the clock of ``time.time_ns``.
        limit_s: How long the server may take.
    """
    timing = ["--since-ns", str(started_ns), "--limit", str(limit_s)]
    options = [*address, "--server-pid", str(server_pid), *timing]
    return run_load(binary, ["first-commit", *options], FirstCommit, timeout_s=limit_s)


_TIMEOUT_S = 120.0
"""On top of the time a mode takes by its options; the program ends waits of its own after 60 s."""


def run_load(binary: Path, arguments: list[str], result_type: type[T], *, timeout_s: float) -> T:
    """Run one mode to its end.

    Raises:
        LoadError: It failed, or did not end.
    """
    try:
        finished_process = subprocess.run(
            [str(binary), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=timeout_s + _TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as expired:
        raise LoadError(f"load {arguments[0]}: no end in {expired.timeout:.0f} s") from expired
    if finished_process.returncode != 0:
        raise LoadError(finished_process.stderr.decode(errors="replace").strip())
    return msgspec.json.decode(finished_process.stdout, type=result_type)
