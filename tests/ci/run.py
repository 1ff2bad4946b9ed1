"""CI: ``python3 -m tests.ci.run`` is the gate, with ``--nightly`` all else (``tests.ci.parts``).

For a clean machine with Python, a JDK 17, Maven, Go, Node.js, npm, Rust, a C compiler and cmake.

First the repository's own check, then everything else side by side, as much as fits on the cores.
One line per part with its minutes, its budget, how many cores it has kept busy (programs and what
they waited for; not the servers that CI itself starts) and its first failure. Below it stands the
report of a part that failed, at once: a run of hours may be broken off. At the end come the
failures again, a line for each part, and one closing line with the count. Exit status 1 if anything
failed. Standard library only, as it runs before any environment is made.
"""

from __future__ import annotations

import argparse
import os
import sys
import time  # noqa: TID251 - minutes on the real machine
from collections.abc import Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final

from tests.ci.parts import CORES, GATE, NIGHTLY, Part
from tests.ci.passed import commit, keep, passed_parts
from tests.ci.process import Deadline, PartOutcome
from tests.support.apache_kafka import ApacheKafkaError
from tests.support.chance import CERTAIN
from tests.support.foreign_clients import ForeignClientError
from tests.support.interrupts import take_interrupts
from tests.support.txnsim_server import TxnsimServerError

PARTS_MAX: Final = 4
"""Side by side, however little they do: each has servers and programs in memory."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run every part and print the verdict."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.ci.run")
    parser.add_argument("--nightly", action="store_true", help="what the gate does not ask")
    parser.add_argument("--only", metavar="WORD", help="only parts whose name contains WORD")
    parser.add_argument("--list", action="store_true", help="say what the parts are")
    parser.add_argument(
        "--missing", action="store_true", help="only parts that have not passed at this commit yet"
    )
    options = parser.parse_args(argv)
    take_interrupts()
    plan = NIGHTLY if options.nightly else GATE
    if options.list:
        for part in plan.parts:
            _say(f"{part.minutes:5.1f} min  {part.name}")
        return 0
    if plan is GATE:
        os.environ.update(CERTAIN)
    name_part = options.only or ""
    passed_names = passed_parts(commit()) if options.missing else frozenset()
    for name in sorted(passed_names & {part.name for part in plan.parts}):
        _say(f"ok    passed before at this commit: {name}")
    serial_parts, parallel_parts = (
        [part for part in parts if name_part in part.name and part.name not in passed_names]
        for parts in (plan.serial_parts, plan.parallel_parts)
    )
    if options.missing and not serial_parts and not parallel_parts:
        return 0
    start_s = time.monotonic()
    deadline = Deadline(plan.minutes_max)
    verdicts = [_ask(part, deadline) for part in serial_parts]
    verdicts += _ask_together(parallel_parts, deadline)
    total = sum(verdicts, start=PartOutcome(0, 0))
    for verdict in verdicts:
        if verdict.failed:
            _say(verdict.reason)
    _say(f"{plan.name}: {in_budget(time.monotonic() - start_s, plan.minutes)}")
    _say(f"txnsim: {total.passed} passed, {total.failed} failed")
    return 0 if total.passed and not total.failed else 1


def _ask_together(parts: Sequence[Part], deadline: Deadline) -> list[PartOutcome]:
    waiting_parts = list(parts)
    running_parts: dict[Future[PartOutcome], Part] = {}
    verdicts: list[PartOutcome] = []
    with ThreadPoolExecutor(PARTS_MAX) as lane_pool:
        while waiting_parts or running_parts:
            while (part := next_part(waiting_parts, running_parts.values())) is not None:
                waiting_parts.remove(part)
                running_parts[lane_pool.submit(_ask, part, deadline)] = part
            finished_futures, _ = wait(running_parts, return_when=FIRST_COMPLETED)
            for future in finished_futures:
                del running_parts[future]
                verdicts.append(future.result())
    return verdicts


def next_part(waiting_parts: Sequence[Part], running_parts: Collection[Part]) -> Part | None:
    """The first part that can begin beside the running ones: its programs are built or have failed
    to build, and there are cores for it. If none runs, there always is one.
    """
    if len(running_parts) >= PARTS_MAX:
        return None
    free_cores = CORES - sum(part.cores for part in running_parts)
    are_programs_made = any(part.makes_programs for part in (*waiting_parts, *running_parts))
    for part in waiting_parts:
        if part.needs_programs and are_programs_made:
            continue
        if part.cores <= free_cores or not running_parts:
            return part
    return None


def _ask(part: Part, deadline_of_ci: Deadline) -> PartOutcome:
    start_s = time.monotonic()
    begun_at = commit()
    deadline = deadline_of_ci.of_part()
    try:
        verdict = part.ask(deadline)
    except (ApacheKafkaError, ForeignClientError, TxnsimServerError, OSError) as failure:
        # A missing toolchain or a server that does not start is a failure of its part alone.
        verdict = PartOutcome(0, 1, f"{part.name}: {failure}")
    seconds = time.monotonic() - start_s
    time_in_budget = in_budget(seconds, part.minutes)
    busy_cores = f"{deadline.cpu_s / seconds:.1f} of {part.cores:.1f} cores"
    outcome = "FAIL" if verdict.failed else "ok"
    counts_text = f"{verdict.passed} passed, {verdict.failed} failed"
    reason = f": {verdict.reason}\n\n{verdict.report}\n" if verdict.failed else ""
    _say(f"{outcome:4} {time_in_budget}, {busy_cores}  {part.name}: {counts_text}{reason}")
    if not verdict.failed and commit() == begun_at:  # else it has asked some of both
        keep(part.name, begun_at, minutes=seconds / 60)
    return verdict


def in_budget(seconds: float, budget_minutes: float) -> str:
    """Minutes beside the budget; what is over it is marked, and no failure: machines differ."""
    minutes = seconds / 60
    mark_text = "!" if minutes > budget_minutes else " "
    return f"{minutes:5.1f}{mark_text} of {budget_minutes:4.1f} min"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
