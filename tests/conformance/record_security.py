"""Ask a real Apache Kafka about security and keep what it answers.

::

    python -m tests.conformance.record_security                   # about a minute
    python -m tests.conformance.record_security --kind let_in     # a part of it
    python -m tests.conformance.record_security --check           # compares, changes nothing

Needs Java 17 and Maven.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.conformance.security import KINDS, differences, kafka, write


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.record_security")
    parser.add_argument("--check", action="store_true", help="compare and change nothing")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this, or these")
    options = parser.parse_args(arguments)
    has_differences = False
    with kafka() as addresses:
        for kind in options.kind or KINDS:
            answers = KINDS[kind](addresses)
            if options.check:
                differences_found = differences(kind, answers)
                has_differences |= bool(differences_found)
                for name, (kept_answer, answer_now) in differences_found.items():
                    sys.stdout.write(f"{kind}: {name}\n  kept {kept_answer}\n  now  {answer_now}\n")
            else:
                write(kind, answers)
            sys.stdout.write(f"{kind}: {len(answers)} answers\n")
    return int(has_differences)


if __name__ == "__main__":
    sys.exit(main())
