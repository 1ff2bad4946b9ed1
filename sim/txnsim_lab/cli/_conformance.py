"""``txnsim conformance``: plays the casebook to a running broker."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import msgspec

from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import MISUSE_STATUS, new_file
from txnsim.cli.progress import Progress
from txnsim.errors import ConfigError
from txnsim.files import write_whole
from txnsim.releases import REFERENCE
from txnsim.text import read_host_and_port

if TYPE_CHECKING:
    from txnsim_lab.conformance.results import CaseResult, Conformance
    from txnsim_lab.conformance.run import ConformanceOptions

DIFFERS_STATUS: Final = 1
"""Exit status if an answer differs from Kafka's."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``conformance``."""
    parser.epilog = (
        "It wants a cluster of one broker, best an empty one. Exit status: 0 nothing differs,"
        " 1 something does, 2 a wrong argument, a cluster that is not meant for this, or no case"
        " that applies. Ctrl-C ends it, cleans up and prints what is known so far."
    )
    parser.add_argument("address", nargs="?", metavar="HOST:PORT", help="of the broker")
    parser.add_argument("--release", default=REFERENCE.name, metavar="RELEASE",
                        help="the Apache Kafka that the broker claims to be"
                        f" ({REFERENCE.name} unless given)")  # fmt: skip
    parser.add_argument("--only", action="append", default=[], metavar="FILE[/NAME]",
                        help="cases of that file, or with that name; may be repeated")  # fmt: skip
    parser.add_argument("--command-config", type=Path, metavar="FILE",
                        help="client properties, as Kafka's tools read them")  # fmt: skip
    parser.add_argument("--beside-others", action="store_true",
                        help="play although the cluster has topics of others")  # fmt: skip
    parser.add_argument("--patience", type=float, metavar="SECONDS",
                        help="until an answer is given up")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="results as JSON")
    parser.add_argument("--junit", type=new_file, metavar="FILE", help="write results as JUnit XML")
    parser.add_argument("--needs", action="store_true",
                        help="print the settings that a broker needs, and end")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status.

    Raises:
        ConfigError: An argument is wrong, or the cluster may not be used.
    """
    from txnsim_lab.conformance.results import CaseOutcome, junit, lines
    from txnsim_lab.conformance.run import needs, run_conformance

    if args.needs:
        TERMINAL.tell(
            args,
            dict(sorted(needs().items())),
            lambda settings: [f"{name}={value}" for name, value in settings.items()],
        )
        return 0
    progress: Progress | None = None
    differing = 0

    def tell(result: CaseResult, total: int) -> None:
        nonlocal progress, differing
        progress = progress or Progress("cases", total)
        played_count = progress.done_count + 1
        differing += result.outcome is CaseOutcome.DIFFERS
        progress.advance(played_count, f"{result.case}: {result.outcome}", f"{differing} differ")

    conformance = run_conformance(_options_from(args), tell, stops=(KeyboardInterrupt,))
    if progress is not None:
        progress.end()
    if args.junit is not None:
        write_whole(args.junit, junit(conformance))
    if args.json:
        TERMINAL.json(msgspec.to_builtins(conformance))
    else:
        for case_result in conformance.results:
            if case_result.outcome is CaseOutcome.DIFFERS:
                for line in lines(case_result):
                    TERMINAL.line(line)
        _sum_up(conformance)
    if conformance.is_stopped:
        _end_stopped(args, conformance)
    if conformance.count(CaseOutcome.DIFFERS):
        return DIFFERS_STATUS
    if not conformance.count(CaseOutcome.PASSED):
        TERMINAL.complain("no case applied, so nothing was compared")
        return MISUSE_STATUS
    return 0


def _end_stopped(args: argparse.Namespace, run: Conformance) -> NoReturn:
    """Print how to continue, and exits without waiting for pending answers."""
    from txnsim.cli.main import INTERRUPTED_STATUS

    words = " ".join(f"--only {file}" for file in run.files_left())
    TERMINAL.warn(
        f"stopped after {len(run.results)} of {len(run.cases)} cases; its topics and groups are"
        f" deleted. The other cases: txnsim conformance {args.address} {words}"
    )
    sys.stdout.flush()
    sys.stderr.flush()
    # A thread may wait for a broker's answer for as long as --patience says, and Python joins it.
    os._exit(INTERRUPTED_STATUS)


def _options_from(args: argparse.Namespace) -> ConformanceOptions:
    from txnsim.cli.client_properties import read_client_properties
    from txnsim_lab.conformance.run import PATIENCE_S, ConformanceOptions

    if args.address is None:
        raise ConfigError("name the broker: txnsim conformance HOST:PORT")
    read_host_and_port(args.address)
    options = ConformanceOptions(
        bootstrap=args.address,
        release=args.release,
        only=tuple(args.only),
        beside_others=args.beside_others,
        patience_s=args.patience or PATIENCE_S,
    )
    if args.command_config is None:
        return options
    settings, _, ignored = read_client_properties(args.command_config)
    for name in ignored:
        TERMINAL.warn(f"{args.command_config}: {name} has no effect here")
    return msgspec.structs.replace(options, security=settings.security)


def _sum_up(run: Conformance) -> None:
    from txnsim_lab.conformance.results import CaseOutcome, by_file

    rows = by_file(run.results)
    TERMINAL.table(
        ("Cases", *(str(outcome) for outcome in CaseOutcome)),
        [(file, *(str(row[outcome]) for outcome in CaseOutcome)) for file, row in rows.items()],
    )
    if run.lacks:
        TERMINAL.line(f"Kafka {run.release} offers, and this broker does not:")
        TERMINAL.line(f"  {', '.join(run.lacks)}")
    for leftover in run.left_behind:
        TERMINAL.warn(f"left behind: {leftover}")
    kept_rules, broken_rules = run.rules()
    counts = ", ".join(f"{run.count(outcome)} {outcome}" for outcome in CaseOutcome)
    TERMINAL.line(
        f"{run.bootstrap} as Kafka {run.release} (answers of {run.answered_by}),"
        f" transaction.version {run.transaction_version}: {counts};"
        f" {len(kept_rules)} rules kept, {len(broken_rules)} broken"
    )
