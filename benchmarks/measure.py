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
from benchmarks.librdkafka import measure_sequential_transactions
from benchmarks.process import StartedServer, read_resident_mb, run_server
from benchmarks.servers import Server

FigureSample = tuple[str, float]
"""Key of a figure, and one value of it."""

_OPEN_TRANSACTIONS = 5_000
_OPEN_TXN_FLOW = "old"


class RoundPart(enum.Enum):
    """A part of a round that ``--only`` can choose."""

    START = "start"
    MEMORY = "memory"
    TXN = "txn"
    LIBRDKAFKA = "librdkafka"
    OPEN = "open"
    BULK = "bulk"


class RoundPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of rounds and repetitions, and durations, of a benchmark run."""

    rounds: int
    starts: int
    """Process starts per round, the measured server's own included."""
    settle_s: float
    """Between the first commit and the reading of idle memory."""
    warm_up_s: float
    """Once per process, half of it in each flow, 32 producers."""
    step_warm_up_s: float
    step_s: float
    """Each measured window."""
    warm_up_mb: int
    measured_mb: int
    parts: frozenset[RoundPart]


FULL_PLAN = RoundPlan(
    rounds=3,
    starts=3,
    settle_s=3.0,
    warm_up_s=20.0,
    step_warm_up_s=1.0,
    step_s=5.0,
    warm_up_mb=150,
    measured_mb=250,
    parts=frozenset(RoundPart),
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
        self,
        *,
        server: Server,
        load_program: Path,
        round_plan: RoundPlan,
        report_progress: Callable[[str], None],
    ) -> None:
        self._server = server
        self._load_program = load_program
        self._round_plan = round_plan
        self._report_progress = report_progress
        self._is_warm = False
        self.samples: list[FigureSample] = []
        self.failures: list[str] = []

    def run(self) -> None:
        """Measure all parts of the plan; a part that fails leaves the others their chance.

        Raises:
            ServerError: The server did not start.
        """
        if RoundPart.START in self._round_plan.parts:
            for _ in range(self._round_plan.starts - 1):
                with run_server(self._server, self._load_program) as running_server:
                    self._record_sample(
                        (figures.START_KEY, running_server.first_commit.committed_ms)
                    )
        with run_server(self._server, self._load_program) as running_server:
            if RoundPart.START in self._round_plan.parts:
                self._record_sample((figures.START_KEY, running_server.first_commit.committed_ms))
            for round_part, measure in (
                (RoundPart.MEMORY, self._measure_memory),
                (RoundPart.LIBRDKAFKA, self._measure_librdkafka),
                (RoundPart.TXN, self._measure_transactions),
                (RoundPart.OPEN, self._measure_open_transactions),
                (RoundPart.BULK, self._measure_bulk),
            ):
                if round_part in self._round_plan.parts:
                    self._measure_part(round_part, measure, running_server)

    def _measure_part(
        self,
        round_part: RoundPart,
        measure: Callable[[StartedServer], Iterator[FigureSample]],
        running_server: StartedServer,
    ) -> None:
        try:
            if round_part is not RoundPart.MEMORY:
                self._warm_up(running_server)
            for sample in measure(running_server):
                self._record_sample(sample)
        except LoadError as load_error:
            self.failures.append(f"{self._server.name}, {round_part.value}: {load_error}")
            self._report_progress(f"FAILED {round_part.value}: {load_error}")

    def _record_sample(self, sample: FigureSample) -> None:
        self.samples.append(sample)
        self._report_progress(f"{sample[0]} = {sample[1]:.4g}")

    # Parts

    def _warm_up(self, running_server: StartedServer) -> None:
        if self._is_warm or self._round_plan.warm_up_s <= 0:
            return
        self._is_warm = True
        self._report_progress(f"warming up for {self._round_plan.warm_up_s:g} s")
        for txn_flow in figures.TXN_FLOWS:
            self._make_generator(running_server).run_transactions(
                txn_flow=txn_flow,
                producer_count=32,
                warm_up_s=0.0,
                measured_s=self._round_plan.warm_up_s / len(figures.TXN_FLOWS),
            )

    def _measure_memory(self, running_server: StartedServer) -> Iterator[FigureSample]:
        time.sleep(self._round_plan.settle_s)
        yield figures.IDLE_MEMORY_KEY, read_resident_mb(running_server.pid)

    def _measure_transactions(self, running_server: StartedServer) -> Iterator[FigureSample]:
        for txn_flow in figures.TXN_FLOWS:
            for producer_count in figures.PRODUCERS:
                transaction_figures = self._make_generator(running_server).run_transactions(
                    txn_flow=txn_flow,
                    producer_count=producer_count,
                    warm_up_s=self._round_plan.step_warm_up_s,
                    measured_s=self._round_plan.step_s,
                )
                yield (
                    figures.per_second_key(txn_flow, producer_count),
                    transaction_figures.per_second,
                )
                yield figures.p50_key(txn_flow, producer_count), transaction_figures.p50_ms
                cpu_ms = (
                    1000 * transaction_figures.server_cpu_seconds / transaction_figures.transactions
                )
                yield figures.cpu_key(txn_flow, producer_count), cpu_ms
                yield (
                    figures.retries_key(txn_flow, producer_count),
                    transaction_figures.retries_per_transaction,
                )

    def _measure_librdkafka(self, running_server: StartedServer) -> Iterator[FigureSample]:
        per_second = measure_sequential_transactions(
            running_server.bootstrap,
            warm_up_s=self._round_plan.step_warm_up_s,
            measured_s=self._round_plan.step_s,
        )
        yield figures.LIBRDKAFKA_KEY, per_second

    def _measure_open_transactions(self, running_server: StartedServer) -> Iterator[FigureSample]:
        open_figures = self._make_generator(running_server).open_transactions(
            txn_flow=_OPEN_TXN_FLOW, transaction_count=_OPEN_TRANSACTIONS
        )
        yield figures.OPEN_KEY, open_figures.open_seconds
        yield figures.COMMIT_KEY, open_figures.commit_seconds
        yield (
            figures.OPEN_CPU_KEY,
            1000 * open_figures.server_cpu_seconds / open_figures.transactions,
        )

    def _measure_bulk(self, running_server: StartedServer) -> Iterator[FigureSample]:
        generator = self._make_generator(running_server)
        produce_figures = generator.produce(
            warm_up_mb=self._round_plan.warm_up_mb, measured_mb=self._round_plan.measured_mb
        )
        yield figures.PRODUCE_KEY, produce_figures.megabytes_per_second
        yield (
            figures.PRODUCE_CPU_KEY,
            1000 * produce_figures.server_cpu_seconds / produce_figures.megabytes,
        )
        fetch_figures = generator.fetch(
            topic=produce_figures.topic,
            warm_up_s=self._round_plan.step_warm_up_s,
            measured_s=self._round_plan.step_s,
        )
        yield figures.FETCH_KEY, fetch_figures.megabytes_per_second
        yield (
            figures.FETCH_CPU_KEY,
            1000 * fetch_figures.server_cpu_seconds / fetch_figures.megabytes,
        )

    def _make_generator(self, running_server: StartedServer) -> Generator:
        return Generator(
            load_program=self._load_program,
            bootstrap=running_server.bootstrap,
            server_pid=running_server.pid,
        )
