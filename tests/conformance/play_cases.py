"""Play cases to the simulator in virtual time and print what it answers, for whoever writes one.

::

    python -m tests.conformance.play_cases coordinator/end_txn         # a file
    python -m tests.conformance.play_cases coordinator/end_txn/retry --level 2 --tell

Tells which steps were not answered as their rules say, and with ``--tell`` every answer.
"""

from __future__ import annotations

import argparse
import sys
import time  # noqa: TID251 - seconds on the real machine
from collections.abc import Iterator, Sequence

from tests.conformance.cluster_setups import setup_of, virtual_on
from txnsim_lab.conformance._book.case_player import finalize_level, play
from txnsim_lab.conformance._book.casebook_reader import Case, broker_configs, choose_cases, rules
from txnsim_lab.conformance._book.model import TXN_LEVELS, BrokerConfig
from txnsim_lab.conformance._book.values import CaseError


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.play_cases")
    parser.add_argument("case", nargs="*", metavar="FILE[/NAME]")
    parser.add_argument("--level", action="append", type=int, choices=TXN_LEVELS)
    parser.add_argument("--tell", action="store_true", help="print every answer")
    options = parser.parse_args(arguments)
    rules()  # a mistake there is told once
    cases_chosen = choose_cases(options.case)
    wrong_count = 0
    for broker_name, config in broker_configs().items():
        cases_of_broker = [case for case in cases_chosen if case.broker == broker_name]
        if not cases_of_broker:
            continue
        for transaction_version in options.level or TXN_LEVELS:
            begun_s = time.monotonic()
            for case in cases_of_broker:
                if transaction_version in case.text.levels:
                    for line in _play_case(
                        case, config, transaction_version, prints_answers=options.tell
                    ):
                        wrong_count += not line.startswith(" ")
                        sys.stdout.write(f"{line}\n")
            seconds = time.monotonic() - begun_s
            sys.stdout.write(f"{seconds:6.2f} s  {broker_name} at {transaction_version}\n")
    return 1 if wrong_count else 0


def _play_case(
    case: Case, config: BrokerConfig, transaction_version: int, *, prints_answers: bool
) -> Iterator[str]:
    try:
        with virtual_on(setup_of(config), TXN_LEVELS[0]) as virtual_world:
            finalize_level(virtual_world.bootstrap, transaction_version)
            play_result = play(case, virtual_world, transaction_version)
    except CaseError as failure:
        yield f"{failure}"
        return
    yield from (f"{case.id} at {transaction_version}: {line}" for line in play_result.unshown_rules)
    for question, answer in play_result.transcript.entries if prints_answers else ():
        yield f"  {case.name} at {transaction_version}: {question}: {answer}"


if __name__ == "__main__":
    sys.exit(main())
