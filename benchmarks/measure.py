"""What happens to a server in one round, and which samples come out.

A round is one process: started, left idle, warmed up, then loaded with small transactions first
and with megabytes last, so that no figure is taken on top of another's 400 MB. A JVM needs the
warm-up (CPU per transaction falls to a third within 20 s of load); every server gets the same
one.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from benchmarks import figures
from benchmarks.generator import Generator, LoadError
from benchmarks.librdkafka import sequential_transactions
from benchmarks.process import StartedServer, resident_mb, started_server
from benchmarks.servers import Server

Sample = tuple[str, float]
"""Key of a figure, and one value of it."""

_OPEN_TRANSACTIONS = 5_000
_OPEN_PROTOCOL = "old"


class Part(enum.Enum):
    """A part of a round that ``--only`` can choose."""

    START = "start"
    MEMORY = "memory"
    TXN = "txn"
    LIBRDKAFKA = "librdkafka"
    OPEN = "open"
    BULK = "bulk"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of rounds and repetitions, and durations, of a benchmark run."""

    rounds: int
    starts: int
    """Process starts per round, the measured server's own included."""
    settle_s: float
    """Between the first commit and the reading of idle memory."""
    warm_up_s: float
    """Once per process, half of it in each protocol, 32 producers."""
    step_warm_up_s: float
    step_s: float
    """Each measured window."""
    warm_up_mb: int
    measured_mb: int
    parts: frozenset[Part]


FULL_PLAN = Plan(
    rounds=3,
    starts=3,
    settle_s=3.0,
    warm_up_s=20.0,
    step_warm_up_s=1.0,
    step_s=5.0,
    warm_up_mb=150,
    measured_mb=250,
    parts=frozenset(Part),
)
QUICK_PLAN = msgspec.structs.replace(
    FULL_PLAN, rounds=1, warm_up_s=6.0, step_warm_up_s=0.5, step_s=2.0, settle_s=2.0
)


class MeasuringRound:
    """One server in one round.

    Args:
        server: A prepared server.
        load: The compiled load generator.
        plan: What is measured, and for how long.
        report: Hears of each sample, and of each failure, in words.
    """

    def __init__(
        self, *, server: Server, load: Path, plan: Plan, report: Callable[[str], None]
    ) -> None:
        self._server = server
        self._load = load
        self._plan = plan
        self._report = report
        self._is_warm = False
        self.samples: list[Sample] = []
        self.failures: list[str] = []

    def run(self) -> None:
        """Measure all parts of the plan; a part that fails leaves the others their chance.

        Raises:
            ServerError: The server did not start.
        """
        if Part.START in self._plan.parts:
            for _ in range(self._plan.starts - 1):
                with started_server(self._server, self._load) as running_server:
                    self._record_sample(
                        (figures.START_KEY, running_server.first_commit.committed_ms)
                    )
        with started_server(self._server, self._load) as running_server:
            if Part.START in self._plan.parts:
                self._record_sample((figures.START_KEY, running_server.first_commit.committed_ms))
            for part, measure in (
                (Part.MEMORY, self._memory),
                (Part.LIBRDKAFKA, self._librdkafka),
                (Part.TXN, self._transactions),
                (Part.OPEN, self._open),
                (Part.BULK, self._bulk),
            ):
                if part in self._plan.parts:
                    self._attempt(part, measure, running_server)

    def _attempt(
        self,
        part: Part,
        measure: Callable[[StartedServer], Iterator[Sample]],
        running_server: StartedServer,
    ) -> None:
        try:
            if part is not Part.MEMORY:
                self._warm_up(running_server)
            for sample in measure(running_server):
                self._record_sample(sample)
        except LoadError as failure:
            self.failures.append(f"{self._server.name}, {part.value}: {failure}")
            self._report(f"FAILED {part.value}: {failure}")

    def _record_sample(self, sample: Sample) -> None:
        self.samples.append(sample)
        self._report(f"{sample[0]} = {sample[1]:.4g}")

    # Parts

    def _warm_up(self, running_server: StartedServer) -> None:
        if self._is_warm or self._plan.warm_up_s <= 0:
            return
        self._is_warm = True
        self._report(f"warming up for {self._plan.warm_up_s:g} s")
        for protocol in figures.PROTOCOLS:
            self._generator(running_server).transactions(
                protocol=protocol,
                producer_count=32,
                warm_up_s=0.0,
                measured_s=self._plan.warm_up_s / len(figures.PROTOCOLS),
            )

    def _memory(self, running_server: StartedServer) -> Iterator[Sample]:
        time.sleep(self._plan.settle_s)
        yield figures.IDLE_MEMORY_KEY, resident_mb(running_server.pid)

    def _transactions(self, running_server: StartedServer) -> Iterator[Sample]:
        for protocol in figures.PROTOCOLS:
            for producer_count in figures.PRODUCERS:
                load_figures = self._generator(running_server).transactions(
                    protocol=protocol,
                    producer_count=producer_count,
                    warm_up_s=self._plan.step_warm_up_s,
                    measured_s=self._plan.step_s,
                )
                yield figures.per_second_key(protocol, producer_count), load_figures.per_second
                yield figures.p50_key(protocol, producer_count), load_figures.p50_ms
                cpu_ms = 1000 * load_figures.server_cpu_seconds / load_figures.transactions
                yield figures.cpu_key(protocol, producer_count), cpu_ms
                yield (
                    figures.retries_key(protocol, producer_count),
                    load_figures.retries_per_transaction,
                )

    def _librdkafka(self, running_server: StartedServer) -> Iterator[Sample]:
        per_second = sequential_transactions(
            running_server.bootstrap,
            warm_up_s=self._plan.step_warm_up_s,
            measured_s=self._plan.step_s,
        )
        yield figures.LIBRDKAFKA_KEY, per_second

    def _open(self, running_server: StartedServer) -> Iterator[Sample]:
        load_figures = self._generator(running_server).open_transactions(
            protocol=_OPEN_PROTOCOL, transaction_count=_OPEN_TRANSACTIONS
        )
        yield figures.OPEN_KEY, load_figures.open_seconds
        yield figures.COMMIT_KEY, load_figures.commit_seconds
        yield (
            figures.OPEN_CPU_KEY,
            1000 * load_figures.server_cpu_seconds / load_figures.transactions,
        )

    def _bulk(self, running_server: StartedServer) -> Iterator[Sample]:
        generator = self._generator(running_server)
        produce_figures = generator.produce(
            warm_up_mb=self._plan.warm_up_mb, measured_mb=self._plan.measured_mb
        )
        yield figures.PRODUCE_KEY, produce_figures.megabytes_per_second
        yield (
            figures.PRODUCE_CPU_KEY,
            1000 * produce_figures.server_cpu_seconds / produce_figures.megabytes,
        )
        fetch_figures = generator.fetch(
            topic=produce_figures.topic,
            warm_up_s=self._plan.step_warm_up_s,
            measured_s=self._plan.step_s,
        )
        yield figures.FETCH_KEY, fetch_figures.megabytes_per_second
        yield (
            figures.FETCH_CPU_KEY,
            1000 * fetch_figures.server_cpu_seconds / fetch_figures.megabytes,
        )

    def _generator(self, running_server: StartedServer) -> Generator:
        return Generator(
            binary=self._load, bootstrap=running_server.bootstrap, server_pid=running_server.pid
        )
