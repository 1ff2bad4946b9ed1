"""Drawn plays: the same seed asks two brokers the same, and their answers are compared."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from tests.conformance.streams_plays import Plays
from tests.support.console import say

REAL_PAUSE_S: Final = 0.3
OUR_PAUSE_S: Final = 0.05

Play = Callable[[Plays, int], None]
"""Plays one seed at a broker."""


def recorded(transcript: Path) -> dict[int, list[Any]]:
    """By seed, what a real broker answered."""
    found: dict[int, list[Any]] = {}
    for line in transcript.read_text("utf-8").splitlines():
        row = json.loads(line)
        found.setdefault(int(row[0][1:]), []).append(row)
    return found


def answers(
    plays: Plays, seeds: Iterable[int], play: Play
) -> Iterator[tuple[int, list[list[Any]]]]:
    """The rows of each seed."""
    for seed in seeds:
        begun = len(plays.rows)
        play(plays, seed)
        yield seed, _without_nulls(json.loads(json.dumps(plays.rows[begun:], default=str)))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return list(map(_without_nulls, value)) if isinstance(value, list) else value


def unlike(real: list[Any], ours: list[Any]) -> str | None:
    """The first row in which they part."""
    for number, (one, other) in enumerate(zip_longest(real, ours)):
        if one != other:
            api = one[1] if one else other[1]
            return f"row {number} ({api}): " + "; ".join(_parts(one, other, ""))
    return None


def _parts(one: Any, other: Any, where: str) -> Iterator[str]:
    """Where they part, and how."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from _parts(one.get(key), other.get(key), f"{where}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _parts(left, right, f"{where}[{index}]")
    elif one != other:
        yield f"{where} real {json.dumps(one)} ours {json.dumps(other)}"


def compared(program: str, play: Play, transcript: Path, argv: list[str] | None) -> int:
    """Ask both brokers that the arguments name; the status of the program."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.conformance.{program}")
    parser.add_argument("real")
    parser.add_argument("ours")
    parser.add_argument("--seeds", default="1-20")
    parser.add_argument("--before-4-4", action="store_true", help="both are of 4.2 or 4.3")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(argv)
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    newest = 0 if options.before_4_4 else 1
    real = Plays(options.real, pause_s=REAL_PAUSE_S, newest=newest)
    ours = Plays(options.ours, pause_s=OUR_PAUSE_S, newest=newest)
    with real.connected(), ours.connected():
        other = 0
        rows: list[Any] = []
        pairs = zip(answers(real, seeds, play), answers(ours, seeds, play), strict=True)
        for (seed, theirs), (_, own) in pairs:
            rows += theirs
            found = unlike(theirs, own)
            if found is not None:
                other += 1
                say(f"seed {seed}: {found}")
        say(f"{len(seeds)} seeds, {len(rows)} answers, {other} seeds differ")
    if options.write and not other:
        lines = [json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n" for row in rows]
        transcript.write_text("".join(lines), "utf-8")
    return 1 if other else 0
