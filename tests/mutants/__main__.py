"""The command: breaks lines, and lists the broken ones that no test notices."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

OF_THE_DAY: Final = "of the day"


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 where mutants survive that should not, 2 where it can't be done."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "what", choices=("rules", "rooms", "both"), help="what is broken: tests/mutants/README.md"
    )
    parser.add_argument(
        "--rules", action="append", default=[], metavar="WORD", help="only rules with this word"
    )
    parser.add_argument(
        "--text", default="", metavar="TEXT", help="in rooms, only mutations that read so"
    )
    parser.add_argument(
        "--rooms", action="append", default=[], metavar="ROOM", help="only this one"
    )
    parser.add_argument(
        "--seed", type=_seed, default=0, help="a number, or `of the day`: draws what is broken"
    )
    parser.add_argument("--count", type=int, default=100, help="how many mutants in rooms")
    parser.add_argument(
        "--minutes", type=float, default=120.0, help="after so many no further mutant begins"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args(arguments)
    status = 0
    if options.what in ("rules", "both"):
        from tests.mutants.rule_mutants import break_rules

        status = break_rules(
            options.rules, seed=options.seed, minutes=options.minutes, worker_count=options.workers
        )
    if options.what in ("rooms", "both"):
        from tests.mutants.room_mutants import break_rooms

        rooms_status = break_rooms(
            options.rooms,
            text=options.text,
            seed=options.seed,
            count=options.count,
            minutes=options.minutes,
            worker_count=options.workers,
        )
        status = max(status, rooms_status)
    return status


def _seed(text: str) -> int:
    return datetime.now(UTC).toordinal() if text == OF_THE_DAY else int(text)


if __name__ == "__main__":
    sys.exit(main())
