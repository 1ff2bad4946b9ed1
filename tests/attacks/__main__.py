"""The command: plays attacks and prints their figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.attacks.figures import HEAD, Figures, line
from tests.attacks.rig import measure_attack
from tests.attacks.roster import ATTACKS


def main(argv: Sequence[str] | None = None) -> int:
    """Play the chosen attacks. Returns 1 if a limit was broken and ``--strict`` is given."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which attacks")
    parser.add_argument("--all", action="store_true", help="every attack")
    parser.add_argument("--list", action="store_true", help="say what the attacks are")
    parser.add_argument("--json", action="store_true", help="figures as JSON, an object a line")
    parser.add_argument("--strict", action="store_true", help="fail where a limit is broken")
    parser.add_argument(
        "--checkout", type=Path, metavar="DIR", help="attack the server of this checkout"
    )
    options = parser.parse_args(argv)
    if options.list:
        for attack in ATTACKS.values():
            print(f"{attack.name:<34} {attack.about}")
        return 0
    unknown_names = sorted(set(options.names) - set(ATTACKS))
    if unknown_names or not (options.names or options.all):
        parser.error(
            f"no attack {', '.join(unknown_names)}" if unknown_names else "name an attack, or --all"
        )
    all_figures: list[Figures] = []
    if not options.json:
        print(HEAD)
    for attack_name in list(ATTACKS) if options.all else options.names:
        all_figures.append(measure_attack(ATTACKS[attack_name], checkout=options.checkout))
        print(
            msgspec.json.encode(all_figures[-1]).decode()
            if options.json
            else line(all_figures[-1]),
            flush=True,
        )
    return 1 if options.strict and any(figures.broken_limits() for figures in all_figures) else 0


if __name__ == "__main__":
    sys.exit(main())
