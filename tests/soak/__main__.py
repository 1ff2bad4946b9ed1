"""``python -m tests.soak [--minutes 10] [--seed N]``."""

from __future__ import annotations

import argparse
import faulthandler
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.soak.samples import BOUNDS, growth, per_thousand, plot
from tests.soak.soaking import Soak, SoakPlan, SoakReport


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument(
        "--transactions", type=int, default=0, help="go on until so many have ended"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the trouble (default 1)")
    parser.add_argument(
        "--rate", type=float, default=700.0, help="raw transactions per second, at most"
    )
    parser.add_argument(
        "--client-rate", type=float, default=15.0, help="of each client library, at most"
    )
    parser.add_argument(
        "--evidence",
        type=Path,
        metavar="DIR",
        help="record the trace; when a transaction hangs, put it and the disks there",
    )
    parser.add_argument("--json", action="store_true", help="the whole report, samples included")
    options = parser.parse_args(argv)
    plan = SoakPlan(
        minutes=options.minutes,
        transactions=options.transactions,
        seed=options.seed,
        raw_per_second=options.rate,
        client_per_second=options.client_rate,
        evidence=options.evidence,
    )
    faulthandler.enable()  # a crash of a library says where
    with Soak(
        plan, say=lambda printed_line: print(printed_line, file=sys.stderr, flush=True)
    ) as soak:
        report = soak.run()
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        print("\n".join(report_lines(report)))
    return 0 if report.is_good else 1


def report_lines(report: SoakReport) -> list[str]:
    """The report for people; its last line is what CI counts."""
    judgement = report.judgement
    lines = [
        f"{report.seconds:.0f} s, seed {report.seed}: {judgement.transaction_count:,} transactions"
        f" ({judgement.transaction_count / report.seconds:.0f} per second),"
        f" {judgement.committed:,} committed, {judgement.aborted:,} aborted,"
        f" {judgement.unknown:,} unknown ({judgement.seen_unknown_count:,} of them took place);"
        f" {judgement.records_read:,} records read, {report.copied:,} copied by the chain",
        "clients: "
        + "; ".join(
            f"{name} "
            + ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(counts.items()))
            for name, counts in report.by_client.items()
        ),
        "trouble: " + ", ".join(f"{name} {n}x" for name, n in sorted(report.trouble.items())),
        *(f"  refused {n}x {refusal}" for refusal, n in report.trouble_refused.items()),
        *(f"stuck in a call of its library, and ended: {name}" for name in report.stuck),
        "",
    ]
    for figure_name in ("memory_mib", "held_mib", *(bound.figure for bound in BOUNDS)):
        lines += [*plot(report.samples, figure_name), ""]
    for bound in BOUNDS:
        early_value, late_value, allowed = growth(report.samples, bound)
        lines.append(
            f"{bound.figure}: {early_value:.0f} early, {late_value:.0f} late, allowed {allowed:.0f}"
        )
    for bound in BOUNDS:
        if bound.at_rest is not None:
            figure_before = getattr(report.rest_samples.sample_before, bound.figure)
            figure_after = getattr(report.rest_samples.sample_after, bound.figure)
            lines.append(
                f"{bound.figure} without clients: {figure_before} before they came,"
                f" {figure_after} when they had gone, allowed {figure_before + bound.at_rest:.0f}"
            )
    lines += [
        f"{label}: "
        f"{per_thousand(report.samples, figure_name, judgement.transaction_count) * 1024:+.0f}"
        " KiB for 1,000 transactions"
        for figure_name, label in (
            ("memory_mib", "memory"),
            ("held_mib", "of it logs and trace, by design"),
            ("own_mib", "of it the rest"),
        )
    ]
    worst = max(sample.gap_ms for sample in report.samples)
    busiest = max(sample.busy_ms for sample in report.samples)
    lines += [
        f"longest gap of the loop: {worst:.0f} ms, most CPU time in one: {busiest:.0f} ms",
        "",
    ]
    complaints_by_question = _complaints_by_question(report)
    for question, complaints in complaints_by_question.items():
        # CI shows such a line alone: it says the first reason, too.
        lines.append(f"FAIL {question}: {complaints[0]}" if complaints else f"PASS {question}")
        lines += [f"  {reason}" for reason in complaints[1:]]
    failed_count = sum(1 for complaints in complaints_by_question.values() if complaints)
    return [*lines, f"{len(complaints_by_question) - failed_count} passed, {failed_count} failed"]


def _complaints_by_question(report: SoakReport) -> dict[str, list[str]]:
    """What the soak asks, and the reasons against a yes."""
    return {
        "each record of a committed transaction once, of an aborted one never": [
            f"{finding.transaction} ({finding.outcome}): wanted {finding.expected},"
            f" {finding.observed}"
            for finding in report.judgement.findings
        ],
        "the chain copied each record once": list(report.chain_differences),
        "memory, tasks and files are flat": list(report.grown),
        "the server logged no bug": list(report.logged_errors),
        "every program came to its end": list(report.failures),
        "every client committed": [
            name for name, counts in report.by_client.items() if not counts.get("committed")
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
