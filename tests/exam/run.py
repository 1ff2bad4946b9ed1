"""The instrument's own exam: is each known bug found from seeds that know nothing of it?

``python -m tests.exam.run`` asks about every switch of the releases that is on in 4.3, turned off,
and about every mutation, up to some CPU seconds each. A bug is found at the first seed whose run
has a finding that the same seed has not without the bug. What came of it stands in a small file per
bug below ``results/``, so a run can be stopped at any time. A bug that was found is not asked about
again; the search for another goes on behind its last seed where it has time left (``--cpu``).
``--table`` prints them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from tests.exam.mutations import MUTATIONS
from txnsim.releases.rules import LATEST, Rules
from txnsim.runtime.wall_clock import cpu_ms
from txnsim.simulation.drawing import draw
from txnsim.simulation.plan import Plan
from txnsim.simulation.play import OVER_LIMIT, play, quieten
from txnsim.simulation.shrinking import shrink, with_switch

RESULTS: Final = Path(__file__).with_name("results")
SHRINK_TRIES: Final = 150
BECAUSE_MAX: Final = 300
SEED_S: Final = 30.0
"""Processor time of one run: a bug may have it go on for ever."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the exam of one bug came to."""

    bug: str
    found: bool
    seeds: int
    """How many were played, the one that found it included."""
    cpu_s: float
    kinds: tuple[str, ...] = ()
    because: str = ""
    """The first of these findings, in words."""
    shrunk: int | None = None
    """Acts of the smallest run; None where it was not shrunk."""


def bugs() -> tuple[str, ...]:
    """All of them, by name."""
    switches = [name for name in Rules.__struct_fields__ if getattr(LATEST, name)]
    return (*MUTATIONS, *switches)


@contextmanager
def bug_in(name: str) -> Iterator[None]:
    """The code with a mutation; as it is for a switch, which is in the plan."""
    mutation = MUTATIONS.get(name)
    if mutation is None:
        yield
        return
    sound = vars(mutation.owner)[mutation.name]
    setattr(mutation.owner, mutation.name, mutation.patch(sound))
    try:
        yield
    finally:
        setattr(mutation.owner, mutation.name, sound)


def with_bug(plan: Plan, name: str) -> Plan:
    """The plan in whose cluster the bug is."""
    return plan if name in MUTATIONS else with_switch(plan, name, False)


def examine(name: str, *, cpu_s: float, before: Answer | None = None) -> Answer:
    """Play seeds until one finds the bug or the time is used up.

    Args:
        name: The bug.
        cpu_s: All the processor time that it gets.
        before: What an earlier search, without a find, has come to.
    """
    seeds = 0 if before is None else before.seeds
    began_ms = cpu_ms() - (0 if before is None else round(before.cpu_s * 1_000))
    while not seeds or cpu_ms() - began_ms < cpu_s * 1_000:
        plan = draw(seeds)
        seeds += 1
        bad = with_bug(plan, name)
        with bug_in(name):
            played = play(bad, cpu_s=SEED_S)
        found = played.kinds
        kinds = tuple(sorted(set(found) - set(play(plan, cpu_s=SEED_S).kinds))) if found else ()
        if not kinds:
            continue
        spent = (cpu_ms() - began_ms) / 1_000
        because = next(one.because for one in played.findings if one.kind in kinds)
        return Answer(
            bug=name,
            found=True,
            seeds=seeds,
            cpu_s=spent,
            kinds=kinds,
            because=because[:BECAUSE_MAX],
        )
    return Answer(bug=name, found=False, seeds=seeds, cpu_s=(cpu_ms() - began_ms) / 1_000)


def shrunk(answer: Answer) -> Answer:
    """The answer with the size of the smallest run; a run without an end is left as it is."""
    if OVER_LIMIT in answer.kinds:
        return answer
    bad = with_bug(draw(answer.seeds - 1), answer.bug)
    switch = None if answer.bug in MUTATIONS else (answer.bug, True)
    with bug_in(answer.bug):
        small = shrink(bad, play(bad).kinds, switch=switch, tries_max=SHRINK_TRIES)
    return msgspec.structs.replace(answer, shrunk=small.plan.size)


def answers() -> list[Answer]:
    """What has been asked."""
    paths = sorted(RESULTS.glob("*.json"))
    return [msgspec.json.decode(path.read_bytes(), type=Answer) for path in paths]


def main() -> None:
    """Ask what was not asked yet; or print what was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", type=float, default=600, help="seconds of processor time per bug")
    parser.add_argument("--only", action="append", default=[], help="this bug; may be repeated")
    parser.add_argument("--no-shrink", action="store_true", help="leave that for another time")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    quieten()
    known = {one.bug: one for one in answers()}
    for name in () if args.table else args.only or bugs():
        before = known.get(name)
        answer = before
        if before is None or not (before.found or before.cpu_s >= args.cpu):
            answer = examine(name, cpu_s=args.cpu, before=before)
        if answer is not None and answer.found and answer.shrunk is None and not args.no_shrink:
            answer = shrunk(answer)
        if answer is not None and answer != before:
            RESULTS.mkdir(exist_ok=True)
            path = RESULTS / f"{name}.json"
            path.write_bytes(msgspec.json.format(msgspec.json.encode(answer)) + b"\n")
    for one in answers():
        acts = "" if one.shrunk is None else f"{one.shrunk} acts"
        kinds = ", ".join(one.kinds) or "not found"
        print(f"| {one.bug} | {one.seeds} | {one.cpu_s:.0f} s | {acts} | {kinds} |")


if __name__ == "__main__":
    main()
