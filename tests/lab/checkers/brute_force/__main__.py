"""The command: compares the judges with their definitions on random small histories."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.lab.checkers.brute_force.comparing import DEFINITIONS, REFUSED, compare


def main(argv: Sequence[str] | None = None) -> int:
    """Compare judges with definitions; return 1 if they differ or if a judge is not exercised."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.checkers.brute_force", description=__doc__
    )
    parser.add_argument("--histories", type=int, default=1_000, metavar="N", help="how many")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="that of the first one")
    args = parser.parse_args(argv)
    comparison = compare(range(args.seed, args.seed + args.histories))
    for difference in comparison.shown:
        print(difference)
    for name in (*DEFINITIONS, REFUSED):
        convicted_count = comparison.convicted[name]
        print(
            f"{name:28}{convicted_count:>8} convicted"
            f"{comparison.histories - convicted_count:>8} acquitted"
        )
    print(f"{comparison.histories} histories, {comparison.differences.total()} differences")
    for definition_name, times in comparison.differences.items():
        print(f"FAILED {definition_name}: {times} differences")
    for definition_name in comparison.idle:
        print(f"FAILED {definition_name}: never convicted, or never acquitted")
    return 1 if comparison.differences or comparison.idle else 0


if __name__ == "__main__":
    sys.exit(main())
