"""``make bench-quick``: what a transaction costs under load, in two minutes, without Java.

Three loads, each of 32 producers over real sockets: three brokers with the old flow, three with
transactions v2, one broker with the old flow. Three kinds of figures:

- Calls of our functions and retries per transaction. They hardly depend on the machine, so they
  have bounds, and the exit status is 1 where one is broken.
- CPU of the server per transaction, beside kfake's in the same run. The ratio is compared with the
  one that is kept in ``quick.json``.
- The same beside another revision (``--against REV``), in alternation.

``--write`` keeps the figures of this run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from benchmarks import build
from benchmarks.calls import count_over_tcp
from benchmarks.generator import Generator, TransactionFigures
from benchmarks.process import run_server
from benchmarks.servers import READY_FILE, Kfake, Server, ServerLaunch, Txnsim

BASELINE_FILE: Final = Path(__file__).with_name("quick.json")
PRODUCERS: Final = 32
WARM_UP_S: Final = 1.5
MEASURED_S: Final = 3.0
RETRIES_MAX: Final = 0.1
"""Per transaction: a coordinator whose markers come in time refuses hardly any request."""


class QuickLoad(msgspec.Struct, frozen=True):
    """One of the loads, and the most calls of our functions that a transaction of it may take."""

    brokers: int
    txn_flow: str
    calls_max: int

    @property
    def title(self) -> str:
        """Name the load in the table and in the kept figures."""
        return f"{self.brokers} broker{'s' if self.brokers > 1 else ''}, {self.txn_flow} flow"


LOADS: Final = (QuickLoad(3, "old", 350), QuickLoad(3, "v2", 350), QuickLoad(1, "old", 200))


class QuickLoadFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What one load has shown, each the median of the rounds."""

    calls: float
    """Of our functions, per transaction, counted in a run of its own."""
    retries: float
    """Per transaction; of that run too, as a count of calls holds only for what was counted."""
    cpu_ms: dict[str, float]
    """Name of the server -> CPU per transaction."""
    per_second: dict[str, float]
    """Name of the server -> transactions per second."""

    def cpu_ratio(self, peer_name: str) -> float:
        """Return the CPU of this tree's server per that of a peer."""
        return self.cpu_ms[OURS] / self.cpu_ms[peer_name]


OURS: Final = Txnsim.name
KFAKE: Final = Kfake.name


class Checkout:
    """The server of a source tree, run by this interpreter.

    Args:
        name: Of the server in the table.
        tree: The repository's root.
        broker_count: How many.
    """

    def __init__(self, name: str, checkout_directory: Path, broker_count: int) -> None:
        self.name = name
        self.label = f"{name} with {broker_count} broker(s)"
        self._checkout_directory = checkout_directory
        self._broker_count = broker_count

    def prepare(self) -> None:
        """Do nothing: the checkout needs no build."""

    def launch(self, home_directory: Path) -> ServerLaunch:
        """Make the command that starts the checkout's brokers on free ports."""
        serve_options = ("--port", "0", "--brokers", str(self._broker_count))
        source_directory = self._checkout_directory / "sim"
        return ServerLaunch(
            command=(
                *("env", f"PYTHONPATH={source_directory}", sys.executable, "-m", "txnsim", "serve"),
                *serve_options,
                *("--ready-file", str(home_directory / READY_FILE)),
            ),
            bootstrap=None,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the figures; return 1 if a bound is broken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quick")
    parser.add_argument("--against", metavar="REV", help="also a revision of git, in alternation")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--write", action="store_true", help="keep the figures in quick.json")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        other_checkout_directory = (
            stack.enter_context(_check_out_revision(options.against)) if options.against else None
        )
        figures_by_title = {
            load.title: _measure_load(load, options.rounds, other_checkout_directory)
            for load in LOADS
        }
    kept_figures_by_title = msgspec.json.decode(
        BASELINE_FILE.read_bytes(), type=dict[str, dict[str, float]]
    )
    broken_bound_texts = [
        f"{load.title}: {broken_bound_text}"
        for load in LOADS
        for broken_bound_text in describe_broken_bounds(load, figures_by_title[load.title])
    ]
    if options.json:
        print(msgspec.json.encode(figures_by_title).decode())
    else:
        _print_table(figures_by_title, kept_figures_by_title)
    for broken_bound_text in broken_bound_texts:
        print(f"over its bound: {broken_bound_text}", file=sys.stderr)
    if options.write:
        new_figures_by_title = {
            title: {
                "calls": round(load_figures.calls, 1),
                "retries": round(load_figures.retries, 2),
                "cpu_per_kfake": round(load_figures.cpu_ratio(KFAKE), 2),
            }
            for title, load_figures in figures_by_title.items()
        }
        BASELINE_FILE.write_bytes(
            msgspec.json.format(msgspec.json.encode(new_figures_by_title), indent=1)
        )
    return 1 if broken_bound_texts else 0


def describe_broken_bounds(load: QuickLoad, figures: QuickLoadFigures) -> Iterator[str]:
    """Describe each bound that the figures of a load break."""
    if figures.calls > load.calls_max:
        yield f"{figures.calls:.0f} calls per transaction, at most {load.calls_max}"
    if figures.retries > RETRIES_MAX:
        yield f"{figures.retries:.2f} retries per transaction, at most {RETRIES_MAX}"


def _measure_load(
    load: QuickLoad, round_count: int, other_checkout_directory: Path | None
) -> QuickLoadFigures:
    load_program = build.build_go_program("load")
    servers: list[Server] = [Checkout(OURS, build.REPOSITORY, load.brokers), Kfake()]
    if other_checkout_directory is not None:
        servers.append(
            Checkout(other_checkout_directory.name, other_checkout_directory, load.brokers)
        )
    for server in servers:
        server.prepare()
    _say(f"{load.title}: counting calls")
    counted_load = count_over_tcp(load.brokers, load.txn_flow)
    runs_by_server: dict[str, list[TransactionFigures]] = {server.name: [] for server in servers}
    for round_number in range(round_count):
        first_index = round_number % len(servers)  # every round begins with another server
        for server in servers[first_index:] + servers[:first_index]:
            _say(f"{load.title}: round {round_number + 1} of {round_count}, {server.name}")
            runs_by_server[server.name].append(_run_load(server, load_program, load.txn_flow))
    return QuickLoadFigures(
        calls=sum(counted_load.calls_by_function.values()),
        retries=max(
            counted_load.retries,
            median(load_run.retries_per_transaction for load_run in runs_by_server[OURS]),
        ),
        cpu_ms={
            server_name: median(
                1000 * load_run.server_cpu_seconds / load_run.transactions
                for load_run in server_runs
            )
            for server_name, server_runs in runs_by_server.items()
        },
        per_second={
            server_name: median(load_run.per_second for load_run in server_runs)
            for server_name, server_runs in runs_by_server.items()
        },
    )


def _run_load(server: Server, load_program: Path, txn_flow: str) -> TransactionFigures:
    with run_server(server, load_program) as running_server:
        generator = Generator(
            load_program=load_program,
            bootstrap=running_server.bootstrap,
            server_pid=running_server.pid,
        )
        return generator.run_transactions(
            txn_flow=txn_flow, producer_count=PRODUCERS, warm_up_s=WARM_UP_S, measured_s=MEASURED_S
        )


@contextmanager
def _check_out_revision(revision: str) -> Iterator[Path]:
    """Another revision of this repository, in a directory that is taken away afterwards."""
    git_command = ("git", "-C", str(build.REPOSITORY))
    commit_hash = subprocess.run(
        [*git_command, "rev-parse", "--short", f"{revision}^{{commit}}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="txnsim-revision-") as scratch_directory:
        checkout_directory = Path(scratch_directory) / commit_hash
        archive_process = subprocess.Popen(
            [*git_command, "archive", commit_hash, "sim"], stdout=subprocess.PIPE
        )
        checkout_directory.mkdir()
        subprocess.run(
            ["tar", "-x", "-C", str(checkout_directory)], stdin=archive_process.stdout, check=True
        )
        if archive_process.wait() != 0:
            raise build.BuildError(f"git archive {commit_hash} failed")
        yield checkout_directory


def _print_table(
    figures_by_title: dict[str, QuickLoadFigures],
    kept_figures_by_title: dict[str, dict[str, float]],
) -> None:
    load_average = os.getloadavg()[0]
    print(f"medians; load average {load_average:.1f} at the end; kept figures in brackets")
    for title, load_figures in figures_by_title.items():
        kept_text_by_name = {
            figure_name: f"({kept_value})"
            for figure_name, kept_value in kept_figures_by_title.get(title, {}).items()
        }
        kept_calls_text, kept_retries_text = (
            kept_text_by_name.get("calls", ""),
            kept_text_by_name.get("retries", ""),
        )
        print(f"\n{title}, {PRODUCERS} producers")
        print(f"  calls per transaction    {load_figures.calls:8.1f}  {kept_calls_text}")
        print(f"  retries per transaction  {load_figures.retries:8.2f}  {kept_retries_text}")
        for server_name, cpu_ms in load_figures.cpu_ms.items():
            ratio_text = (
                f"  x{load_figures.cpu_ratio(server_name):.2f}" if server_name != OURS else ""
            )
            kept_ratio_text = (
                f" {kept_text_by_name.get('cpu_per_kfake', '')}" if server_name == KFAKE else ""
            )
            print(
                f"  {server_name:<12} {cpu_ms:7.3f} ms of CPU per transaction,"
                f" {load_figures.per_second[server_name]:7,.0f} per second"
                f"{ratio_text}{kept_ratio_text}"
            )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
