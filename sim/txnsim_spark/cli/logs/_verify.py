"""``txnsim logs verify``: are log directories sound?"""

from __future__ import annotations

import argparse
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL
from txnsim_spark.cli.logs._find_hanging import INCOMPLETE_STATUS
from txnsim_spark.cli.logs._searching import show_progress
from txnsim_spark.cli.logs.spark import add_directory_arguments, add_master_argument, session

if TYPE_CHECKING:
    from txnsim_spark.soundness.verify import VerificationPlan
    from txnsim_spark.soundness.violations import Violation

DESCRIPTION: Final = (
    "Check every batch and every file beside it in log directories of stopped brokers, or in copies"
    " of them: CRCs, offsets, producers' sequences and epochs, markers, aborted transactions and"
    " last stable offsets, snapshots, leader epochs, and replicas against one another."
    " Exit status 0: sound; 1: not; 2: a misuse; 4: no error, but there is no replica, one has no"
    " batch to read, or a folder with segments has another name than a replica's."
)
UNSOUND_STATUS: Final = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_directory_arguments(parser)
    parser.add_argument(
        "--producer-expiration-ms",
        type=int,
        default=86_400_000,
        metavar="MS",
        help="the brokers' producer.id.expiration.ms: a producer that was silent for so long may"
        " begin anew (default %(default)s)",
    )
    parser.add_argument(
        "--strict", action="store_true", help="a notice is reason enough for exit status 1"
    )
    add_master_argument(parser)
    parser.add_argument("--json", action="store_true", help="as JSON: docs/logs-reference.md")


def run(args: argparse.Namespace) -> int:
    """Verify log directories; returns the exit status."""
    from txnsim_spark.libraries import require_libraries

    require_libraries()
    from txnsim_spark.engine import Engine
    from txnsim_spark.soundness.verify import cost_of_verification, plan_verification, verify
    from txnsim_spark.soundness.violations import Invariant

    verification_plan = plan_verification(
        args.directory,
        frozenset(args.topic),
        producer_expiration_ms=args.producer_expiration_ms,
    )
    violations: list[Violation] = []
    with ExitStack() as stack:
        engine = Engine(
            lambda: stack.enter_context(session(args.master)),
            show_progress,
            with_spark=args.master is not None,
        )
        for finding in verify(
            engine, verification_plan, engine.kind_for(cost_of_verification(verification_plan))
        ):
            violations.append(finding)
            if not args.json:
                TERMINAL.line(_violation_line(finding))
    severity_counts = Counter(finding.severity.value for finding in violations)
    if args.json:
        TERMINAL.json(_as_json(verification_plan, violations))
    else:
        TERMINAL.warn(_summary_line(verification_plan, severity_counts))
    if severity_counts["error"] or (args.strict and violations):
        return UNSOUND_STATUS
    has_unjudged = any(
        finding.rule in (Invariant.NO_BATCH, Invariant.FOREIGN_FOLDER, Invariant.ABSENT_REPLICA)
        for finding in violations
    )
    return INCOMPLETE_STATUS if has_unjudged or not verification_plan.replica_count else 0


def _violation_line(finding: Violation) -> str:
    location_text = f"{finding.topic}-{finding.partition}/{finding.file}"
    if finding.partition < 0:
        location_text = finding.file
    broker_text = f"broker {finding.broker}" if finding.broker >= 0 else finding.log_dir
    if finding.position is not None:
        location_text += f", byte {finding.position}"
    if finding.offset is not None:
        location_text += f", offset {finding.offset}"
    return (
        f"{finding.severity} {finding.rule}: {broker_text}, {location_text}: {finding.found};"
        " expected:"
        f" {finding.expected}"
    )


def _summary_line(verification_plan: VerificationPlan, severity_counts: Counter[str]) -> str:
    counts_text = ", ".join(
        f"{count} {severity_name}{'' if count == 1 else 's'}"
        for severity_name, count in sorted(severity_counts.items())
    )
    sound_text = "sound" if verification_plan.replica_count else "there is nothing to judge"
    return (
        f"replicas: {verification_plan.replica_count}, segments: {verification_plan.segment_count},"
        f" bytes: {verification_plan.total_bytes}: "
        f"{counts_text or sound_text}"
    )


def _as_json(verification_plan: VerificationPlan, violations: list[Violation]) -> dict[str, object]:
    """The result in the JSON form of docs/logs-reference.md."""
    return {
        "replicas": verification_plan.replica_count,
        "segments": verification_plan.segment_count,
        "bytes": verification_plan.total_bytes,
        "findings": violations,
    }
