"""What all runs on this machine have come to, run by run: ``.cache/fuzz/totals.json``."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Total(msgspec.Struct, kw_only=True):
    """The sums over all runs of one target."""

    inputs: int = 0
    seconds: float = 0.0
    finds: int = 0


def add_run(
    path: Path, name: str, *, input_count: int, seconds: float, find_count: int
) -> dict[str, Total]:
    """Note another run of a target; the totals of all targets."""
    totals = read(path)
    total = totals.setdefault(name, Total())
    total.inputs += input_count
    total.seconds += seconds
    total.finds += find_count
    path.parent.mkdir(parents=True, exist_ok=True)
    new_file = path.with_suffix(".new")
    new_file.write_bytes(msgspec.json.format(msgspec.json.encode(totals)))
    new_file.replace(path)
    return totals


def read(path: Path) -> dict[str, Total]:
    """The totals so far; none where nothing has run yet."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Total]) if path.exists() else {}


def total_lines(totals: dict[str, Total]) -> list[str]:
    """A line for each target, and one for all of them."""
    rows = [*sorted(totals.items()), ("all targets", _sum(totals))]
    return [
        f"{name:<18} {total.inputs:>12,} inputs"
        f" {total.seconds / 60:>8.1f} min {total.finds:>5} finds"
        for name, total in rows
    ]


def _sum(totals: dict[str, Total]) -> Total:
    return Total(
        inputs=sum(total.inputs for total in totals.values()),
        seconds=sum(total.seconds for total in totals.values()),
        finds=sum(total.finds for total in totals.values()),
    )
