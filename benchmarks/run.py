"""``python -m benchmarks.run``: measures the servers in turn, prints medians and ratios."""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks import build, report
from benchmarks.measure import FULL_PLAN, QUICK_PLAN, MeasuringRound, RoundPart, RoundPlan
from benchmarks.process import ServerError
from benchmarks.servers import BROKERS, ApacheKafka, Kfake, Server, Txnsim
from tests.support.apache_kafka import ApacheKafkaError

_SERVERS: Final = ("apache", "apache-3", "txnsim", "kfake")
_DEFAULT_SERVERS: Final = ("apache", "txnsim")


class BenchmarkResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a benchmark run; ``--json`` prints it."""

    machine: dict[str, str | int | float]
    servers: dict[str, str]
    plan: RoundPlan
    rows: list[report.ComparedFigure]
    failures: list[str]
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Returns:
        0 when everything was measured, met or missed; 1 when a server or a part failed.
    """
    options = _make_parser().parse_args(arguments)
    # SIGTERM becomes an exception like SIGINT, so that the server that runs is stopped either way.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    plan = _choose_plan(options)
    servers = [
        _make_server(name, options.wheel, options.brokers)
        for name in options.server or _DEFAULT_SERVERS
    ]
    began_s = time.monotonic()
    report_progress = _make_progress_report(began_s)
    machine_facts = _read_machine_facts()
    try:
        report_progress("compiling the load generator")
        load_program = build.build_go_program("load")
        for server in servers:
            report_progress(f"preparing {server.label}")
            server.prepare()
    except (build.BuildError, ApacheKafkaError) as setup_error:
        print(setup_error, file=sys.stderr)
        return 1
    samples_by_server, failures = _measure_servers(servers, load_program, plan, report_progress)
    benchmark_result = BenchmarkResult(
        machine=machine_facts,
        servers={server.name: server.label for server in servers},
        plan=plan,
        rows=report.compare_figures(samples_by_server),
        failures=failures,
        seconds=round(time.monotonic() - began_s, 1),
    )
    print(_to_json(benchmark_result) if options.json else _to_text(benchmark_result))
    return 1 if failures else 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run",
        description="Measure Apache Kafka and this simulator in turn (see benchmarks/README.md).",
    )
    parser.add_argument("--quick", action="store_true", help="one round of short windows")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--only",
        metavar="PART,…",
        help="of " + ", ".join(part.value for part in RoundPart),
    )
    parser.add_argument(
        "--server",
        action="append",
        choices=_SERVERS,
        help=f"may be repeated; default: {' and '.join(_DEFAULT_SERVERS)}",
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="repetitions of everything")
    parser.add_argument(
        "--brokers",
        type=int,
        default=BROKERS,
        metavar="N",
        help="of txnsim (default %(default)s, which replicate); 1: without replication, as Kafka",
    )
    parser.add_argument("--wheel", type=Path, help="a wheel of txnsim that is built already")
    return parser


def _choose_plan(options: argparse.Namespace) -> RoundPlan:
    plan = QUICK_PLAN if options.quick else FULL_PLAN
    if options.rounds is not None:
        plan = msgspec.structs.replace(plan, rounds=max(1, options.rounds))
    if options.only is not None:
        try:
            round_parts = frozenset(RoundPart(name.strip()) for name in options.only.split(","))
        except ValueError as unknown_part_error:
            raise SystemExit(f"--only: {unknown_part_error}") from unknown_part_error
        plan = msgspec.structs.replace(plan, parts=round_parts)
    return plan


def _make_server(server_name: str, wheel_file: Path | None, broker_count: int) -> Server:
    match server_name:
        case "apache":
            return ApacheKafka()
        case "apache-3":
            return ApacheKafka(node_count=3)
        case "txnsim":
            return Txnsim(wheel_file, broker_count=broker_count)
        case _:
            return Kfake()


def _measure_servers(
    servers: Sequence[Server],
    load_program: Path,
    plan: RoundPlan,
    report_progress: Callable[[str], None],
) -> tuple[dict[str, dict[str, list[float]]], list[str]]:
    samples_by_server: dict[str, dict[str, list[float]]] = {server.name: {} for server in servers}
    failures: list[str] = []
    for round_number in range(plan.rounds):
        # Each round starts with another server: none always meets a machine that has just worked.
        first_index = round_number % len(servers)
        for server in [*servers[first_index:], *servers[:first_index]]:
            line_prefix = f"round {round_number + 1}/{plan.rounds} {server.name}: "
            server_round = MeasuringRound(
                server=server,
                load_program=load_program,
                round_plan=plan,
                report_progress=_add_prefix(report_progress, line_prefix),
            )
            try:
                server_round.run()
            except ServerError as server_error:
                failures.append(f"{server.name}: {server_error}")
                report_progress(line_prefix + f"FAILED {server_error}")
            failures.extend(server_round.failures)
            for figure_key, value in server_round.samples:
                samples_by_server[server.name].setdefault(figure_key, []).append(value)
    return samples_by_server, failures


def _make_progress_report(began_s: float) -> Callable[[str], None]:
    def report_progress(progress_line: str) -> None:
        print(f"[{time.monotonic() - began_s:6.1f} s] {progress_line}", file=sys.stderr, flush=True)

    return report_progress


def _add_prefix(report_progress: Callable[[str], None], prefix: str) -> Callable[[str], None]:
    return lambda line: report_progress(prefix + line)


def _read_machine_facts() -> dict[str, str | int | float]:
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpus": os.cpu_count() or 0,
        "memory_mb": memory_bytes // 1_000_000,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 1),
    }


def _to_json(benchmark_result: BenchmarkResult) -> str:
    return msgspec.json.format(msgspec.json.encode(benchmark_result), indent=2).decode()


def _to_text(benchmark_result: BenchmarkResult) -> str:
    machine_facts = benchmark_result.machine
    text_lines = [
        f"{' and '.join(benchmark_result.servers.values())} on {machine_facts['cpus']} CPUs, "
        f"{machine_facts['system']}, Python {machine_facts['python']}: "
        f"{benchmark_result.plan.rounds} round(s) in {benchmark_result.seconds:.0f} s, "
        f"load average {machine_facts['load_average']} before",
        "Medians (least–most). × says how many times better than Apache Kafka.",
        "",
        report.format_table(benchmark_result.rows, list(benchmark_result.servers)),
    ]
    text_lines += [f"FAILED {failure}" for failure in benchmark_result.failures]
    return "\n".join(text_lines)


if __name__ == "__main__":
    sys.exit(main())
