"""``txnsim conformance``: plays the casebook to a running broker."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import msgspec

from txnsim.cli.output import TERMINAL, format_json
from txnsim.cli.parsing import MISUSE_STATUS, new_file
from txnsim.cli.progress import Progress
from txnsim.errors import ConfigError
from txnsim.files import write_whole
from txnsim.releases import REFERENCE
from txnsim.shell_text import arguments, command_line, option

if TYPE_CHECKING:
    from txnsim_lab.conformance.results import CaseResult, ConformanceResults
    from txnsim_lab.conformance.run import ConformanceOptions

DIFFERS_STATUS: Final = 1
"""Exit status if an answer differs from Kafka's."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument("--results", type=new_file, metavar="FILE",
                        help="write results as JSON, beside what is printed; txnsim badge reads"
                        " it")  # fmt: skip
    parser.add_argument("--needs", action="store_true",
                        help="print the settings that a broker needs, and end")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status.

    Raises:
        ConfigError: An argument is wrong, or the cluster may not be used.
    """
    from txnsim_lab.conformance.results import CaseOutcome, junit_xml, result_lines
    from txnsim_lab.conformance.run import needed_settings, run_conformance

    if args.needs:
        TERMINAL.tell(
            args,
            dict(sorted(needed_settings(args.release).items())),
            lambda settings: [
                f"{setting_name}={value}" for setting_name, value in settings.items()
            ],
        )
        return 0
    progress: Progress | None = None
    differing_count = 0

    def report_result(result: CaseResult, case_count: int) -> None:
        nonlocal progress, differing_count
        progress = progress or Progress("cases", case_count)
        played_count = progress.done_count + 1
        differing_count += result.outcome is CaseOutcome.DIFFERS
        progress.advance(
            played_count, f"{result.case}: {result.outcome}", f"{differing_count} differ"
        )

    conformance = run_conformance(_options_from(args), report_result, stops=(KeyboardInterrupt,))
    if progress is not None:
        progress.end()
    if args.junit is not None:
        write_whole(args.junit, junit_xml(conformance))
    if args.results is not None:
        write_whole(args.results, format_json(conformance))
    if args.json:
        TERMINAL.json(msgspec.to_builtins(conformance))
    else:
        for case_result in conformance.results:
            if case_result.outcome is CaseOutcome.DIFFERS:
                for line in result_lines(case_result):
                    TERMINAL.line(line)
        _sum_up(conformance)
    if conformance.is_stopped:
        _exit_stopped_run(args, conformance)
    if conformance.outcome_count(CaseOutcome.DIFFERS):
        return DIFFERS_STATUS
    if not conformance.outcome_count(CaseOutcome.PASSED):
        TERMINAL.complain("no case applied, so nothing was compared")
        return MISUSE_STATUS
    return 0


def _exit_stopped_run(args: argparse.Namespace, conformance: ConformanceResults) -> NoReturn:
    """Print how to continue, and exits without waiting for pending answers."""
    from txnsim.cli.main import INTERRUPTED_STATUS

    only_options = [
        argument for file in conformance.files_left() for argument in option("--only", file)
    ]
    rest_command = command_line(
        "txnsim", "conformance", *arguments(args.address, options=only_options)
    )
    TERMINAL.warn(
        f"stopped after {len(conformance.results)} of {len(conformance.cases)} cases;"
        " its topics and groups are deleted."
        + (f" The other cases: {rest_command}" if only_options else "")
    )
    sys.stdout.flush()
    sys.stderr.flush()
    # A thread may wait for a broker's answer for as long as --patience says, and Python joins it.
    os._exit(INTERRUPTED_STATUS)


def _options_from(args: argparse.Namespace) -> ConformanceOptions:
    from txnsim.cli.client_properties import read_client_properties
    from txnsim.client.cluster import parse_bootstrap
    from txnsim_lab.conformance.run import PATIENCE_S, ConformanceOptions

    if args.address is None:
        raise ConfigError("name the broker: txnsim conformance HOST:PORT")
    parse_bootstrap(args.address)
    options = ConformanceOptions(
        bootstrap=args.address,
        release=args.release,
        only=tuple(args.only),
        beside_others=args.beside_others,
        patience_s=args.patience or PATIENCE_S,
    )
    if args.command_config is None:
        return options
    settings, _, ignored_settings = read_client_properties(args.command_config)
    for setting_name in ignored_settings:
        TERMINAL.warn(f"{args.command_config}: {setting_name} has no effect here")
    return msgspec.structs.replace(options, security=settings.security)


def _sum_up(conformance: ConformanceResults) -> None:
    from txnsim_lab.conformance.results import CaseOutcome, outcome_counts_by_file

    counts_by_file = outcome_counts_by_file(conformance.results)
    TERMINAL.table(
        ("Cases", *(str(outcome) for outcome in CaseOutcome)),
        [
            (case_file, *(str(outcome_counts[outcome]) for outcome in CaseOutcome))
            for case_file, outcome_counts in counts_by_file.items()
        ],
    )
    if conformance.lacks:
        TERMINAL.line(f"Kafka {conformance.release} offers, and this broker does not:")
        TERMINAL.line(f"  {', '.join(conformance.lacks)}")
    for leftover in conformance.left_behind:
        TERMINAL.warn(f"left behind: {leftover}")
    kept_rules, broken_rules = conformance.rules()
    counts_text = ", ".join(
        f"{conformance.outcome_count(outcome)} {outcome}" for outcome in CaseOutcome
    )
    TERMINAL.line(
        f"{conformance.bootstrap} as Kafka {conformance.release}"
        f" (answers of {conformance.answered_by}),"
        f" transaction.version {conformance.transaction_version}: {counts_text};"
        f" {len(kept_rules)} rules kept, {len(broken_rules)} broken"
    )
