"""The command: compares the judges with their definitions on random small histories."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.lab.checkers.brute_force.comparing import DEFINITIONS, REFUSED, compare


def main(argv: Sequence[str] | None = None) -> int:
    """Compare; 1 where they differ, or where a judge has convicted or acquitted nothing."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.checkers.brute_force", description=__doc__
    )
    parser.add_argument("--histories", type=int, default=1_000, metavar="N", help="how many")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="that of the first one")
    asked = parser.parse_args(argv)
    found = compare(range(asked.seed, asked.seed + asked.histories))
    for one in found.shown:
        print(one)
    for kind in (*DEFINITIONS, REFUSED):
        convicted = found.convicted[kind]
        print(f"{kind:28}{convicted:>8} convicted{found.histories - convicted:>8} acquitted")
    print(f"{found.histories} histories, {found.differences.total()} differences")
    for kind, times in found.differences.items():
        print(f"FAILED {kind}: {times} differences")
    for kind in found.idle:
        print(f"FAILED {kind}: never convicted, or never acquitted")
    return 1 if found.differences or found.idle else 0


if __name__ == "__main__":
    sys.exit(main())
