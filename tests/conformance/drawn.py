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


def recorded_rows(transcript_file: Path) -> dict[int, list[Any]]:
    """The recorded answers of a real broker, by seed."""
    rows_by_seed: dict[int, list[Any]] = {}
    for line in transcript_file.read_text("utf-8").splitlines():
        row = json.loads(line)
        rows_by_seed.setdefault(int(row[0][1:]), []).append(row)
    return rows_by_seed


def answers(
    plays: Plays, seeds: Iterable[int], play: Play
) -> Iterator[tuple[int, list[list[Any]]]]:
    """Play each seed; yield the seed with the rows of answers."""
    for seed in seeds:
        row_count_before = len(plays.rows)
        play(plays, seed)
        yield (
            seed,
            _without_nulls(json.loads(json.dumps(plays.rows[row_count_before:], default=str))),
        )


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_nulls(element) for key, element in value.items() if element is not None
        }
    return list(map(_without_nulls, value)) if isinstance(value, list) else value


def unlike(real_rows: list[Any], ours: list[Any]) -> str | None:
    """The first row in which the answers differ, in words; None if all are equal."""
    for number, (real_row, our_row) in enumerate(zip_longest(real_rows, ours)):
        if real_row != our_row:
            api = real_row[1] if real_row else our_row[1]
            return f"row {number} ({api}): " + "; ".join(_parts(real_row, our_row, ""))
    return None


def _parts(real_value: Any, our_value: Any, field_path: str) -> Iterator[str]:
    """The places in which two values differ, with both values."""
    if isinstance(real_value, dict) and isinstance(our_value, dict):
        for key in sorted({*real_value, *our_value}):
            yield from _parts(real_value.get(key), our_value.get(key), f"{field_path}.{key}")
    elif (
        isinstance(real_value, list)
        and isinstance(our_value, list)
        and len(real_value) == len(our_value)
    ):
        for index, (real_element, our_element) in enumerate(
            zip(real_value, our_value, strict=True)
        ):
            yield from _parts(real_element, our_element, f"{field_path}[{index}]")
    elif real_value != our_value:
        yield f"{field_path} real {json.dumps(real_value)} ours {json.dumps(our_value)}"


def compare_play(program: str, play: Play, transcript_file: Path, argv: list[str] | None) -> int:
    """Ask both brokers that the arguments name; the status of the program."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.conformance.{program}")
    parser.add_argument("real")
    parser.add_argument("ours")
    parser.add_argument("--seeds", default="1-20")
    parser.add_argument("--before-4-4", action="store_true", help="both are of 4.2 or 4.3")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(argv)
    first_seed, _, last_seed = options.seeds.partition("-")
    seeds = range(int(first_seed), int(last_seed or first_seed) + 1)
    newest = 0 if options.before_4_4 else 1
    real_plays = Plays(options.real, pause_s=REAL_PAUSE_S, newest=newest)
    our_plays = Plays(options.ours, pause_s=OUR_PAUSE_S, newest=newest)
    with real_plays.connected(), our_plays.connected():
        seeds_that_differ = 0
        rows: list[Any] = []
        pairs = zip(answers(real_plays, seeds, play), answers(our_plays, seeds, play), strict=True)
        for (seed, real_rows), (_, own_rows) in pairs:
            rows += real_rows
            complaint = unlike(real_rows, own_rows)
            if complaint is not None:
                seeds_that_differ += 1
                say(f"seed {seed}: {complaint}")
        say(f"{len(seeds)} seeds, {len(rows)} answers, {seeds_that_differ} seeds differ")
    if options.write and not seeds_that_differ:
        lines = [json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n" for row in rows]
        transcript_file.write_text("".join(lines), "utf-8")
    return 1 if seeds_that_differ else 0
