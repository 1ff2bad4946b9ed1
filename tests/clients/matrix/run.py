"""The client matrix: every client library × every check × every level of ``transaction.version``.

``python -m tests.clients.matrix.run`` runs each client's program once per level, two side by side,
against servers of its own, and tells one line per check as it comes. Last line: ``N passed, M
failed``; exit status 1 if anything failed or a toolchain is missing. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.clients.matrix import results as stored_results
from tests.clients.matrix.bench import ApacheBench, Bench, ForeignBench, TxnsimBench
from tests.clients.matrix.client import Client
from tests.clients.matrix.matrix import Matrix, say
from tests.clients.matrix.questions import LEVELS, questions
from tests.clients.matrix.rosters import clients
from tests.clients.matrix.verdicts import CheckVerdict
from tests.support.apache_kafka import REPOSITORY, ApacheKafkaError
from tests.support.foreign_clients import ForeignClientError

LANES: Final = 2
PYTHON: Final = REPOSITORY / ".venv" / "bin" / "python"


def main(argv: Sequence[str] | None = None) -> int:
    # SIGTERM becomes an exception like SIGINT, so that servers and programs are stopped either way.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = _parser()
    options = parser.parse_args(argv)
    roster = {client.name: client for client in clients()}
    unknown_names = sorted(set(options.client) - set(roster))
    if unknown_names:
        parser.error(f"no client {', '.join(unknown_names)}; there are: {', '.join(roster)}")
    if options.write and (options.check or options.level or options.bootstrap):
        parser.error("--write keeps whole clients: every check, every level, against txnsim")
    if options.write and options.target != "txnsim":
        parser.error("--write keeps what is found of txnsim")
    if options.program and options.write:
        parser.error("--write keeps the clients of the roster")
    chosen_clients = [roster[name] for name in options.client or roster]
    if options.program:
        command_line = shlex.split(options.program)
        chosen_clients = [Client("yours", "as it is", "yours", lambda: command_line)]
    if options.build:
        return _build(chosen_clients)
    bench = _bench(options)
    with bench:
        selected, limits = questions(
            chosen_clients,
            transaction_versions=options.level or LEVELS,
            only=options.check,
            excluded=bench.unsupported_checks,
        )
        matrix = Matrix(bench)
        results = matrix.ask(selected, lane_count=options.lanes)
        bugs = bench.complaints()
    for limit in limits:
        say(f"LIMIT {limit.client.name}@{limit.level} {limit.check}: {limit.reason}")
    for bug_name, log_text in bugs.items():
        say(f"FAIL {bug_name}: printed what it must never print\n{log_text}")
    for detail in matrix.details:
        say(detail)
    if options.json:
        options.json.write_text(
            json.dumps([result._asdict() for result in results], indent=1) + "\n"
        )
    if options.write:
        stored_results.save(
            stored_results.merge_results(stored_results.load(), chosen_clients, results)
        )
        _make_page()
    failed_count = sum(result.is_failure for result in results) + len(bugs)
    missing = sum(result.verdict is CheckVerdict.MISSING for result in results)
    if missing:
        say(f"{missing} of the failed ones could not be asked: no toolchain")
    passed_count = sum(result.verdict is CheckVerdict.PASSED for result in results)
    say(f"{passed_count} passed, {failed_count} failed")
    return 0 if passed_count and not failed_count else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.matrix.run")
    parser.add_argument(
        "--client", nargs="+", action="extend", default=[], metavar="NAME", help="these alone"
    )
    parser.add_argument(
        "--program", metavar="COMMAND", help="a program of yours, in place of the roster's"
    )
    parser.add_argument(
        "--check", nargs="+", action="extend", default=[], metavar="C", help="these alone"
    )
    parser.add_argument(
        "--level", nargs="+", action="extend", default=[], type=int, choices=LEVELS,
        metavar="N", help="of transaction.version",
    )  # fmt: skip
    parser.add_argument(
        "--target", choices=("txnsim", "apache"), default="txnsim", help="who is asked"
    )
    parser.add_argument(
        "--bootstrap", metavar="ADDRESSES", help="a cluster that runs already; with one --level"
    )
    parser.add_argument(
        "--write", action="store_true", help="keep the results and make docs/clients.md"
    )
    parser.add_argument("--build", action="store_true", help="make the programs, ask nothing")
    parser.add_argument("--lanes", type=int, default=LANES, help="programs side by side")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every result there")
    return parser


def _build(chosen_clients: Sequence[Client]) -> int:
    """Make every program, so that no check's time is spent on it; languages side by side."""
    by_language: dict[str, list[Client]] = {}
    for client in chosen_clients:
        by_language.setdefault(client.language, []).append(client)
    with ThreadPoolExecutor(len(by_language)) as builder_pool:
        outcomes = builder_pool.map(
            lambda group: [_builds(client) for client in group], by_language.values()
        )
        failed_count = sum(not is_made for group in outcomes for is_made in group)
    say(f"{len(chosen_clients) - failed_count} passed, {failed_count} failed")
    return 1 if failed_count else 0


def _builds(client: Client) -> bool:
    start_s = time.monotonic()
    try:
        client.command()
    except (ApacheKafkaError, ForeignClientError, OSError) as error:
        say(f"FAIL {client.name}: {error}")
        return False
    say(f"PASS {client.name} ({time.monotonic() - start_s:.1f} s)")
    return True


def _make_page() -> None:
    """Write docs/clients.md and docs/README.md anew from the stored results."""
    pages = ("--page", "docs/clients.md", "--page", "docs/README.md")
    subprocess.run([str(PYTHON), "-m", "tests.docs", "--write", *pages], cwd=REPOSITORY, check=True)


def _bench(options: argparse.Namespace) -> Bench:
    if options.bootstrap:
        return ForeignBench(options.bootstrap)
    return ApacheBench() if options.target == "apache" else TxnsimBench()


if __name__ == "__main__":
    sys.exit(main())
