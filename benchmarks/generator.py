"""Runs the load generator, a compiled program in a process of its own, and reads its figures."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


class LoadError(Exception):
    """The load generator met an error code or a failure that it does not expect."""


class FirstCommitTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds from the start of the server's process until each step was done."""

    connected_ms: float
    topic_ms: float
    producer_ms: float
    committed_ms: float
    retries: dict[str, int]


class TransactionFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Producers that commit one transaction after the other."""

    transactions: int
    per_second: float
    p50_ms: float
    p99_ms: float
    retries: dict[str, int]
    server_cpu_seconds: float

    @property
    def retries_per_transaction(self) -> float:
        """Return how many answers made the load generator send a request again."""
        return sum(self.retries.values()) / self.transactions


class OpenTransactionFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Many transactions that are open at the same time."""

    transactions: int
    open_seconds: float
    commit_seconds: float
    server_cpu_seconds: float


class TransferFigures(msgspec.Struct, frozen=True, kw_only=True):
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

    def __init__(self, *, load_program: Path, bootstrap: str, server_pid: int) -> None:
        self._load_program = load_program
        self._server_arguments = ["--bootstrap", bootstrap, "--server-pid", str(server_pid)]

    def run_transactions(
        self, *, txn_flow: str, producer_count: int, warm_up_s: float, measured_s: float
    ) -> TransactionFigures:
        """Run transactions of ``producer_count`` producers in one flow; the rate per second."""
        load_options = ["--flow", txn_flow, "--producers", str(producer_count)]
        timing_arguments = ["--warm-up", str(warm_up_s), "--seconds", str(measured_s)]
        return self._run(
            "txn",
            TransactionFigures,
            load_options + timing_arguments,
            timeout_s=warm_up_s + measured_s,
        )

    def open_transactions(self, *, txn_flow: str, transaction_count: int) -> OpenTransactionFigures:
        """Open ``transaction_count`` transactions, then commit all of them."""
        load_options = ["--flow", txn_flow, "--transactions", str(transaction_count)]
        return self._run("open", OpenTransactionFigures, load_options)

    def produce(self, *, warm_up_mb: int, measured_mb: int) -> TransferFigures:
        """Write megabytes into a new topic, which ``fetch`` can read."""
        return self._run(
            "produce", TransferFigures, ["--warm-up-mb", str(warm_up_mb), "--mb", str(measured_mb)]
        )

    def fetch(self, *, topic: str, warm_up_s: float, measured_s: float) -> TransferFigures:
        """Read a topic from its start again and again."""
        timing_arguments = ["--warm-up", str(warm_up_s), "--seconds", str(measured_s)]
        return self._run("fetch", TransferFigures, ["--topic", topic, *timing_arguments])

    def _run(
        self,
        load_mode: str,
        result_type: type[T],
        load_options: list[str],
        *,
        timeout_s: float = 0.0,
    ) -> T:
        return run_load(
            self._load_program,
            [load_mode, *self._server_arguments, *load_options],
            result_type,
            timeout_s=timeout_s,
        )


def time_first_commit(
    load_program: Path,
    *,
    address_arguments: tuple[str, str],
    server_pid: int,
    started_ns: int,
    limit_s: float,
) -> FirstCommitTimes:
    """Wait for a server that is starting and commit its first transaction.

    Args:
        binary: The compiled ``benchmarks/load``.
        address: ``--bootstrap`` or ``--ready-file``, and its value.
        server_pid: Whose end ends the waiting.
        started_ns: When the process was started, on the clock of ``time.time_ns``.
        limit_s: How long the server may take.
    """
    timing_arguments = ["--since-ns", str(started_ns), "--limit", str(limit_s)]
    load_options = [*address_arguments, "--server-pid", str(server_pid), *timing_arguments]
    return run_load(
        load_program, ["first-commit", *load_options], FirstCommitTimes, timeout_s=limit_s
    )


_TIMEOUT_S = 120.0
"""On top of the time a mode takes by its options; the program ends waits of its own after 60 s."""


def run_load(
    load_program: Path, load_arguments: list[str], result_type: type[T], *, timeout_s: float
) -> T:
    """Run one mode to its end.

    Raises:
        LoadError: It failed, or did not end.
    """
    try:
        finished_process = subprocess.run(
            [str(load_program), *load_arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=timeout_s + _TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as timeout_error:
        raise LoadError(
            f"load {load_arguments[0]}: no end in {timeout_error.timeout:.0f} s"
        ) from timeout_error
    if finished_process.returncode != 0:
        raise LoadError(finished_process.stderr.decode(errors="replace").strip())
    return msgspec.json.decode(finished_process.stdout, type=result_type)
