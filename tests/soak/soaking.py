"""Runs a soak: a server, the programs that use it, trouble, a reader, and the judgement."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.build import build_go_program as load_program
from tests.clients.streams.control import ControlPort
from tests.soak.ledger import Judgement, SoakLedger, differences
from tests.soak.producing import STUCK, STUCK_AFTER_S, TransactionOutcome
from tests.soak.reading import SoakReader
from tests.soak.samples import RestSamples, Sample, grown_figures, has_come_to_rest, sample
from tests.soak.trouble import PAUSE_S, Trouble
from tests.support.apache_kafka import REPOSITORY
from tests.support.foreign_clients import go_program, java_program
from tests.support.lifetime import ManagedResource
from tests.support.txnsim_server import TxnsimServer

BULK: Final = "bulk"
"""What the raw generator writes to."""
ORDERS: Final = "orders"
"""The topic to which the clients write, and from which the chain reads."""
COPIES: Final = "copies"
"""The topic to which the chain writes."""
PARTITIONS: Final = 12
TOPIC_CONFIGS: Final = {
    "min.insync.replicas": "2",
    "segment.bytes": "1048576",
    "retention.ms": "-1",
}
SETTINGS: Final = """\
settings:
  broker.session.timeout.ms: 3000
  broker.heartbeat.interval.ms: 500
  log.retention.check.interval.ms: 5000
  log.initial.task.delay.ms: 5000
  replica.lag.time.max.ms: 5000
"""
"""Settings by which a broker's death is noticed in seconds, and deleted segments go soon."""
CHAIN: Final = "soak-chain"
END_S: Final = STUCK_AFTER_S + 30.0
"""Time for programs to end, from the end of their input."""
DRAIN_S: Final = STUCK_AFTER_S + 60.0
OVERDUE_MS: Final = 660_000
"""Longer than the timeout of any transaction: the raw generator has ten minutes."""
EVERY_S: Final = 1.0
COUNTED_S: Final = 1.5
"""The greatest age of the server's own counts."""
REST_S: Final = 15.0
"""Time for the server to notice that its clients are gone."""
SAY_EVERY_S: Final = 15.0
SEARCH_EVERY_S: Final = 60.0
TRACED: Final = "  trace_ring_bytes: 1073741824\n"
"""The trace of a server that keeps evidence: about 500,000 transactions."""
HANGS: Final = 3
"""Exit status of ``find-hanging``."""


class SoakPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run."""

    minutes: float
    transactions: int = 0
    """The run goes on after its minutes until this many transactions have ended."""
    seed: int
    raw_per_second: float
    client_per_second: float
    """Of each client library."""
    pause_s: tuple[float, float] = PAUSE_S
    evidence: Path | None = None
    """The folder for the server's disks, trace and log if a transaction hangs."""


class SoakReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run."""

    seconds: float
    seed: int
    judgement: Judgement
    by_client: dict[str, dict[str, int]]
    copied: int
    chain_differences: tuple[str, ...]
    trouble: dict[str, int]
    trouble_refused: dict[str, int]
    samples: tuple[Sample, ...]
    rest_samples: RestSamples = msgspec.field(name="rest")
    grown: tuple[str, ...]
    stuck: tuple[str, ...]
    """Programs whose library did not return from a call. They were ended, and the chain was started
    again. This is no verdict about the server.
    """
    logged_errors: tuple[str, ...]
    failures: tuple[str, ...]
    """What failed besides."""

    @property
    def is_good(self) -> bool:
        complaint = self.judgement.wrong_count or self.chain_differences or self.grown
        return not (complaint or self.logged_errors or self.failures)


class Program:
    """A client program: its lines go into the ledger."""

    def __init__(self, name: str, command: Sequence[str], on_line: Callable[[str], None]) -> None:
        self.name = name
        self._on_line = on_line
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed in end
        self._process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.failure = ""
        self._listener = threading.Thread(target=self._read_lines, daemon=True)
        self._listener.start()

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        try:
            for printed_line in self._process.stdout:
                self._on_line(printed_line)
        except ValueError as error:
            self.failure = f"{self.name}: {error}"

    def is_running(self) -> bool:
        return self._process.poll() is None

    def is_stuck(self) -> bool:
        """Whether the program has ended because its library did not return from a call."""
        return self._process.poll() == STUCK

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def await_end(self, within_s: float) -> None:
        """Wait for the program's end, and kill it if it does not end."""
        try:
            code = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self.failure = self.failure or f"{self.name}: no end within {within_s:.0f} s"
        else:
            if code not in (0, STUCK):
                self._errors.seek(0)
                errors_text = self._errors.read()[-2000:]
                self.failure = self.failure or f"{self.name}: exit status {code}\n{errors_text}"
        self._listener.join(10.0)
        self._errors.close()


class Soak(ManagedResource):
    """A soak: one run against a server of its own."""

    def __init__(self, plan: SoakPlan, *, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._say = say
        self._orders, self._bulk, self._copies = SoakLedger(), SoakLedger(), SoakLedger()
        self._by_client: dict[str, Counter[str]] = {}
        self._copied = 0
        self._copied_up_to = {(ORDERS, partition_index): 0 for partition_index in range(PARTITIONS)}
        self._samples: list[Sample] = []
        self._failures: list[str] = []
        self._programs: list[Program] = []
        self._chain: Program | None = None
        self._chain_command: list[str] = []
        self._stuck: list[str] = []

    def _on_exit(self, exc: BaseException | None) -> None:
        for program in [*self._programs, *([self._chain] if self._chain else [])]:
            if program.is_running():
                program.end()
                program.await_end(10.0)

    def run(self) -> SoakReport:
        """Play the run, from the start of the server to the judgement."""
        with tempfile.TemporaryDirectory(prefix="txnsim-soak-") as name:
            folder = Path(name)
            counts_file, config = folder / "counts.json", folder / "server.yaml"
            is_traced = self._plan.evidence is not None
            config.write_text(SETTINGS + TRACED if is_traced else SETTINGS)
            server = TxnsimServer(
                launcher=(sys.executable, "-m", "tests.soak.counting_server", str(counts_file)),
                working_directory=REPOSITORY,
                arguments=(
                    *("--http", "0", "--log-format", "json", "--config", str(config)),
                    *(("--trace", "brief") if is_traced else ()),
                ),
            )
            with server:
                return self._play_soak(server, counts_file)

    def _play_soak(self, server: TxnsimServer, counts_file: Path) -> SoakReport:
        assert server.http is not None
        control = ControlPort(server.http)
        for topic in (BULK, ORDERS, COPIES):
            control.create_topic(topic, PARTITIONS, TOPIC_CONFIGS)
        ledgers = {BULK: self._bulk, ORDERS: self._orders, COPIES: self._copies}
        time.sleep(COUNTED_S)
        sample_before = sample(server.pid, counts_file, 0.0)
        with SoakReader(
            server.bootstrap,
            control,
            ledgers,
            partitions=PARTITIONS,
            copied_offsets=self._copied_up_to,
        ) as reader:
            self._start_programs(server.bootstrap)
            trouble = Trouble(control, seed=self._plan.seed, pause_s=self._plan.pause_s)
            trouble.start()
            started_s = time.monotonic()
            self._watch(server, counts_file, trouble, reader, started_s)
            trouble.stop()
            seconds = time.monotonic() - started_s
            self._end_programs(control, reader, started_s, server, counts_file)
            self._failures += reader.failures
        if trouble.failure is not None:
            self._failures.append(f"trouble: {trouble.failure!r}")
        rest_samples = self._sample_at_rest(server, counts_file, sample_before, started_s)
        return self._report(server, trouble, seconds, rest_samples)

    def _sample_at_rest(
        self, server: TxnsimServer, counts_file: Path, sample_before: Sample, started_s: float
    ) -> RestSamples:
        """Sample the server once it has noticed that its clients are gone, or once the time for
        that is over.
        """
        deadline_s = time.monotonic() + REST_S
        while True:
            time.sleep(COUNTED_S)
            now_s = time.monotonic()
            rest_samples = RestSamples(
                sample_before=sample_before,
                sample_after=sample(server.pid, counts_file, now_s - started_s),
            )
            if has_come_to_rest(rest_samples) or now_s > deadline_s:
                return rest_samples

    def _start_programs(self, bootstrap: str) -> None:
        plan, python_program = self._plan, sys.executable
        orders = (bootstrap, ORDERS, str(PARTITIONS), "4", str(plan.client_per_second))
        commands = {
            "librdkafka": [python_program, "-m", "tests.soak.librdkafka_producers", *orders],
            "aiokafka": [python_program, "-m", "tests.soak.aiokafka_producers", *orders],
            "java": [*java_program("Soak"), *orders],
            "franz-go": [str(go_program()), "soak", *orders],
        }
        raw_command = [str(load_program("load")), "soak", "--bootstrap", bootstrap, "--topic", BULK]
        for txn_flow, producers, share in (("v2", 24, 0.75), ("old", 8, 0.25)):
            commands[f"raw-{txn_flow}"] = [
                *raw_command,
                *("--partitions", str(PARTITIONS), "--producers", str(producers)),
                *("--rate", str(plan.raw_per_second * share), "--flow", txn_flow),
            ]
        for command_name, command in commands.items():
            ledger = self._bulk if command_name.startswith("raw") else self._orders
            self._programs.append(
                Program(command_name, command, self._listener(command_name, ledger))
            )
        chain = [python_program, "-m", "tests.soak.chain", bootstrap, CHAIN, ORDERS, COPIES, "0"]
        self._chain_command = chain
        self._chain = Program("chain", chain, self._on_copied)

    def _listener(self, name: str, ledger: SoakLedger) -> Callable[[str], None]:
        outcome_counts = self._by_client.setdefault(name, Counter())

        def on_line(line: str) -> None:
            if line.startswith("{"):
                return  # the generator's figures
            producer, number, outcome, records = line.split()
            ledger.tell(producer, int(number), TransactionOutcome(outcome), int(records))
            outcome_counts[TransactionOutcome(outcome).name.lower()] += 1

        return on_line

    def _on_copied(self, line: str) -> None:
        count, *position_texts = line.split()
        self._copied += int(count)
        for position_text in position_texts:
            partition, offset = map(int, position_text.split(":"))
            self._copied_up_to[ORDERS, partition] = offset

    def _watch(
        self,
        server: TxnsimServer,
        counts_file: Path,
        trouble: Trouble,
        reader: SoakReader,
        started_s: float,
    ) -> None:
        said_s = searched_s = 0.0
        while (
            passed_s := time.monotonic() - started_s
        ) < self._plan.minutes * 60 or self._transactions() < self._plan.transactions:
            held_mib = max((moment.held_mib for moment in self._samples), default=0.0)
            self._samples.append(sample(server.pid, counts_file, passed_s, held_mib))
            self._see_to_chain()
            ended_programs = [
                program.name for program in self._everybody() if not program.is_running()
            ]
            ended_programs += [program.failure for program in self._everybody() if program.failure]
            if ended_programs or trouble.failure is not None or reader.failures:
                self._failures += [f"{name} ended before its time" for name in ended_programs]
                return
            if passed_s - searched_s >= SEARCH_EVERY_S:
                searched_s = passed_s
                is_hanging, findings = open_transactions(server.bootstrap)
                if is_hanging:  # the end, while little has happened since
                    last_acts = "; ".join(trouble.last_acts)
                    self._failures.append(
                        f"after {passed_s:.0f} s, behind {last_acts}:\n{findings}"
                    )
                    if self._plan.evidence is not None:
                        self._keep_state(server, trouble, self._plan.evidence)
                    return
            if passed_s - said_s >= SAY_EVERY_S:
                said_s = passed_s
                self._say(self._progress(passed_s, trouble))
            time.sleep(EVERY_S)

    def _keep_state(self, server: TxnsimServer, trouble: Trouble, folder: Path) -> None:
        """Keep the server's current state, from which the cause of a hanging transaction can be
        found later.
        """
        assert server.http is not None
        self._say(f"a transaction hangs: disks, trace and log of the server go to {folder}")
        trouble.stop()  # every broker is up
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "found.txt").write_text("\n".join([*trouble.last_acts, *self._failures]))
        (folder / "server.log").write_text(server.log_text)
        with (
            urllib.request.urlopen(f"{server.http}/api/v1/trace", timeout=600.0) as answer,
            (folder / "trace.jsonl").open("wb") as trace,
        ):
            shutil.copyfileobj(answer, trace)
        write = [sys.executable, "-m", "txnsim.cli.main", "logs", "write", "--http", server.http]
        subprocess.run([*write, str(folder / "disks")], cwd=REPOSITORY, check=True)

    def _see_to_chain(self) -> None:
        """Start a stuck chain again under the same name, which fences the old one."""
        if self._chain is not None and self._chain.is_stuck():
            self._chain.await_end(1.0)
            self._stuck.append("chain")
            self._chain = Program("chain", self._chain_command, self._on_copied)

    def _is_chain_through(self) -> bool:
        self._see_to_chain()
        return self._copies.records_read >= self._orders.records_read

    def _everybody(self) -> list[Program]:
        return [*self._programs, *([self._chain] if self._chain is not None else [])]

    def _transactions(self) -> int:
        return sum((self._orders.outcome_counts + self._bulk.outcome_counts).values())

    def _progress(self, passed_s: float, trouble: Trouble) -> str:
        last_sample = self._samples[-1]
        outcome_counts = self._orders.outcome_counts + self._bulk.outcome_counts
        return (
            f"{passed_s:5.0f} s: {self._transactions():,} transactions"
            f" ({outcome_counts[TransactionOutcome.COMMITTED]:,} committed,"
            f" {outcome_counts[TransactionOutcome.UNKNOWN]:,} unknown),"
            f" {self._copied:,} copied, {sum(trouble.act_counts.values())} troubles,"
            f" {last_sample.memory_mib:.0f} MiB ({last_sample.held_mib:.0f} of logs),"
            f" {last_sample.tasks} tasks, {last_sample.files} files"
        )

    def _end_programs(
        self,
        control: ControlPort,
        reader: SoakReader,
        started_s: float,
        server: TxnsimServer,
        counts_file: Path,
    ) -> None:
        self._say("ending: every client ends its last transaction")
        for program in self._programs:
            program.end()
        for program in self._programs:
            program.await_end(END_S)
        control.advance(OVERDUE_MS)  # what a client has left open is aborted
        self._say("draining: the chain and the reader go to the end")
        missing = reader.drain(DRAIN_S, read_ends=control.ends, is_through=self._is_chain_through)
        self._failures += missing
        if missing:
            self._failures.append(open_transactions(server.bootstrap)[1])
        held_mib = max((moment.held_mib for moment in self._samples), default=0.0)
        self._samples.append(
            sample(server.pid, counts_file, time.monotonic() - started_s, held_mib)
        )
        if self._chain is not None:
            self._chain.end()
            self._chain.await_end(END_S)
        self._failures += [program.failure for program in self._everybody() if program.failure]
        self._stuck += [program.name for program in self._everybody() if program.is_stuck()]

    def _report(
        self, server: TxnsimServer, trouble: Trouble, seconds: float, rest_samples: RestSamples
    ) -> SoakReport:
        orders_judgement, bulk_judgement = self._orders.judge(), self._bulk.judge()
        judgement = Judgement(
            **{
                field_name: getattr(orders_judgement, field_name)
                + getattr(bulk_judgement, field_name)
                for field_name in Judgement.__struct_fields__
            }
        )
        return SoakReport(
            seconds=seconds,
            seed=self._plan.seed,
            judgement=judgement,
            by_client={name: dict(counted) for name, counted in self._by_client.items()},
            copied=self._copies.records_read,
            chain_differences=tuple(differences(self._orders, self._copies)),
            trouble=dict(trouble.act_counts),
            trouble_refused=dict(trouble.refusal_counts),
            samples=tuple(self._samples),
            rest_samples=rest_samples,
            grown=tuple(grown_figures(self._samples, rest_samples)),
            stuck=tuple(self._stuck),
            logged_errors=logged_errors(server.log_text),
            failures=tuple(self._failures),
        )


def open_transactions(bootstrap: str) -> tuple[bool, str]:
    """Whether a transaction hangs, and the output of ``txnsim txns find-hanging`` about long open
    ones.
    """
    command = [sys.executable, "-m", "txnsim.cli.main", "txns", "--bootstrap-server", bootstrap]
    process = subprocess.run(
        [*command, "find-hanging", "--all", "--max-transaction-timeout", "1"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    return process.returncode == HANGS, process.stdout + process.stderr


def logged_errors(log: str) -> tuple[str, ...]:
    """Lines of a server's log that report a bug: one of each kind, with its count."""
    kinds: dict[str, list[str]] = {}
    for line in log.splitlines():
        if line.startswith("{"):
            entry = json.loads(line)
            if entry.get("level") in ("error", "critical"):
                kinds.setdefault(str(entry.get("event")), []).append(line)
        elif line.startswith("Traceback"):
            kinds.setdefault("Traceback", []).append(line)
    return tuple(f"{len(lines)}x {lines[0][:3000]}" for lines in kinds.values())
