"""The command: fuzzes targets, and says what was found."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from tests.fuzz import corpus, totals
from tests.fuzz.roster import TARGETS, load

if TYPE_CHECKING:
    from tests.fuzz.driver import FuzzOutcome

TOTALS: Final = corpus.WORKING / "totals.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Do what is asked for; 1 where something was found, 2 where it can't be done."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="TARGET", help="which targets")
    parser.add_argument("--all", action="store_true", help="every target, one after the other")
    parser.add_argument("--list", action="store_true", help="say what the targets are")
    parser.add_argument(
        "--minutes", type=float, metavar="M", help="how long, all targets together (default 2)"
    )
    parser.add_argument("--inputs", type=int, metavar="N", help="how many inputs for each target")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="play this input once")
    parser.add_argument(
        "--minimise", action="store_true", help="keep in the repository what is needed"
    )
    parser.add_argument(
        "--totals", action="store_true", help="say what all runs on this machine have come to"
    )
    parser.add_argument("--json", action="store_true", help="an object a line")
    options = parser.parse_args(argv)
    if options.totals:
        print("\n".join(totals.total_lines(totals.read(TOTALS))))
        return 0
    if options.list:
        for name, (_, description) in TARGETS.items():
            print(f"{name:<18} {description}")
        return 0
    unknown_names = sorted(set(options.names) - set(TARGETS))
    if unknown_names or not (options.names or options.all):
        parser.error(
            f"no target {', '.join(unknown_names)}" if unknown_names else "name a target, or --all"
        )
    names = list(TARGETS) if options.all else options.names
    if options.replay is not None:
        return _replay(names[0], options.replay)
    if options.minimise:
        for name in names:
            inputs_before, inputs_kept = corpus.minimise(load(name), name)
            print(f"{name:<18} {inputs_before:>6} inputs, {inputs_kept} kept beside the seeds")
        return 0
    if importlib.util.find_spec("atheris") is None:
        print("atheris is missing: pip install --group fuzz", file=sys.stderr)
        return 2
    return _fuzz(names, options)


def _replay(name: str, path: Path) -> int:
    from tests.fuzz.driver import replay

    find = replay(name, path)
    print("no property is broken" if find is None else f"{find.kind}\n\n{find.story}")
    return 0 if find is None else 1


def _fuzz(target_names: Sequence[str], options: argparse.Namespace) -> int:
    from tests.fuzz.driver import Workers, fuzz

    minutes = options.minutes
    if minutes is None and options.inputs is None:
        minutes = 2.0
    seconds = None if minutes is None else minutes * 60 / len(target_names)
    is_shown = sys.stderr.isatty()
    outcomes: list[FuzzOutcome] = []
    if not options.json:
        print(
            f"{'target':<18} {'s':>6} {'inputs':>10} {'a second':>9} {'edges':>6} {'features':>9} "
            f"{'corpus':>7} {'slowest ms':>11} {'MiB':>6} {'finds':>6}"
        )
    with Workers(target_names) as workers:
        for name in target_names:
            outcome = fuzz(
                name,
                workers,
                seconds=seconds,
                input_count=options.inputs,
                on_progress=lambda text: (
                    print(f"\r{text}  ", end="", file=sys.stderr) if is_shown else None
                ),
            )
            outcomes.append(outcome)
            totals.add_run(
                TOTALS,
                name,
                input_count=outcome.inputs,
                seconds=outcome.seconds,
                find_count=len(outcome.finds),
            )
            if options.json:
                print(msgspec.json.encode(outcome).decode(), flush=True)
                continue
            print(
                f"{name:<18} {outcome.seconds:>6.0f} {outcome.inputs:>10} "
                f"{outcome.inputs / outcome.seconds:>9.0f} {outcome.coverage:>6} "
                f"{outcome.features:>9} {outcome.corpus:>7} {outcome.slowest_ms:>11.1f} "
                f"{outcome.most_mib:>6.1f} {len(outcome.finds):>6}",
                flush=True,
            )
            for figure_name, figure_value in outcome.figures.items():
                print(f"    {figure_name}: {figure_value:g}")
            if outcome.trouble:
                print(f"    ended early: {outcome.trouble}")
            for find in outcome.finds:
                print(f"    FOUND {find.kind}\n      {find.replay}", flush=True)
    failures = [failure_line for outcome in outcomes for failure_line in _failures(outcome)]
    if not options.json:
        print(
            f"{sum(outcome.inputs for outcome in outcomes)} inputs in this run; in all runs here:"
        )
        print("\n".join(totals.total_lines(totals.read(TOTALS))))
        print("\n".join(failures), end="\n" * bool(failures))
        passed_count = sum(not (outcome.finds or outcome.trouble) for outcome in outcomes)
        print(f"{passed_count} passed, {len(failures)} failed")
    return 1 if failures else 0


def _failures(outcome: FuzzOutcome) -> Iterator[str]:
    """A line for each thing that is wrong. A find's carries its input as ``finds.jsonl`` has it:
    whoever sees only the output of CI can play it too.
    """
    if outcome.trouble:
        yield f"FAIL {outcome.target} ended early: {outcome.trouble}"
    for find in outcome.finds:
        line = {"target": outcome.target, "was": find.kind, "input": find.input}
        yield f"FAIL {outcome.target}: {find.reason} {msgspec.json.encode(line).decode()}"


if __name__ == "__main__":
    sys.exit(main())
