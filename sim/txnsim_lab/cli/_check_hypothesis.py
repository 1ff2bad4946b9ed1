"""``txnsim check-hypothesis``: is a story true, is it false, or is it impossible?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from txnsim.cli.output import TERMINAL
from txnsim.errors import ConfigError
from txnsim.files import problem_of, read_given

if TYPE_CHECKING:
    from txnsim_lab.scenario.hypothesis import FileVerdict

NOT_REPRODUCED_STATUS = 1
MISUSE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``check-hypothesis``."""
    parser.epilog = (
        "Reproduced: the story came to its end, and judges and readers saw what it claims. Not"
        " reproduced: they saw something else, or a state did not come about; 'because' has the"
        " first difference. Impossible: a broker refused a step; 'answered' has the error,"
        " 'nearest' what happens where that refusal is expected. Exit status: 0 reproduced, 1 not"
        " reproduced or impossible, 2 the file is wrong. The form of the file: txnsim schema"
        " scenario, docs/hypotheses.md."
    )
    parser.add_argument("file", metavar="FILE", help="a scenario file; - is standard input")
    parser.add_argument("--seeds", type=int, default=1, metavar="N",
                        help="try the seeds 1 to N; one that reproduces it is enough")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="the verdict as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status.

    Raises:
        ConfigError: The file is wrong, and ``--json`` is not given.
    """
    from txnsim_lab.scenario.hypothesis import HypothesisVerdict, check
    from txnsim_lab.scenario.scenario_reader import read
    from txnsim_lab.simulation.play import quieten

    quieten()
    if args.seeds < 1:
        raise ConfigError("--seeds needs a number from 1 on")
    try:
        scenario = read(*_read_scenario_text(args.file))
        file_verdict = check(scenario, seeds=range(1, args.seeds + 1))
    except ConfigError as error:
        if not args.json:
            raise
        TERMINAL.json({"verdict": "wrong file", "errors": str(error).splitlines()})
        return MISUSE
    if args.json:
        TERMINAL.json(msgspec.to_builtins(file_verdict))
    else:
        _print_judged(file_verdict)
    return 0 if file_verdict.verdict is HypothesisVerdict.REPRODUCED else NOT_REPRODUCED_STATUS


def _read_scenario_text(file_name: str) -> tuple[str, str]:
    if file_name == "-":
        return "standard input", sys.stdin.read()
    try:
        return file_name, read_given(Path(file_name)).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file_name}: {problem_of(error)}") from None


def _print_judged(file_verdict: FileVerdict) -> None:
    TERMINAL.line(f"{file_verdict.hypothesis}: {file_verdict.verdict}")
    for judged_run in file_verdict.runs:
        TERMINAL.line(f"  {judged_run.run} (seed {judged_run.seed}): {judged_run.verdict}")
        for reason in judged_run.because:
            TERMINAL.line(f"    {reason}")
        if judged_run.verdict != "reproduced":
            claimed_kinds = ", ".join(judged_run.claimed) or "healthy"
            TERMINAL.line(
                f"    claimed: {claimed_kinds}; seen: {', '.join(judged_run.seen) or 'nothing'}"
            )
        if judged_run.nearest is not None:
            observed_kinds = ", ".join(judged_run.nearest.seen) or "healthy"
            TERMINAL.line(
                f"    nearest: {'; '.join(judged_run.nearest.expects)}; then: {observed_kinds}"
            )
        for event in judged_run.decisive:
            TERMINAL.line(f"    {event.at_ms:6} ms  {event.who}: {event.text}")
