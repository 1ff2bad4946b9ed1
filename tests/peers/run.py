"""Ask the test suites of other projects: ``python -m tests.peers.run [ECOSYSTEM]``.

One line per test, with what it said and the reason if it did not pass, then one line per suite.
Exit status 1 if a test failed for which no reason stands in the suite's module, and which did not
fail on a real Apache Kafka, too (``results/``).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.peers.record import load, merge_outcomes, save, unexplained_failures
from tests.peers.suite import PeerError, PeerOutcome, PeerResult, PeerTarget, Suite
from tests.peers.suites import ecosystems, suites
from tests.support.apache_kafka import ApacheKafkaError
from tests.support.console import say
from tests.support.foreign_clients import ForeignClientError
from tests.support.txnsim_server import TxnsimServerError


def main(argv: Sequence[str] | None = None) -> int:
    """Run suites, print the outcomes, and keep them if that is requested."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.run", description=__doc__)
    parser.add_argument("ecosystem", nargs="?", choices=ecosystems(), help="all unless given")
    parser.add_argument("--suite", help="this one alone")
    parser.add_argument("--test", nargs="+", default=[], help="these tests alone")
    parser.add_argument(
        "--target",
        type=PeerTarget,
        choices=tuple(PeerTarget),
        default=PeerTarget.TXNSIM,
        help="whose brokers",
    )
    parser.add_argument("--write", action="store_true", help="keep the results (results/)")
    parser.add_argument("--list", action="store_true", help="name the suites")
    options = parser.parse_args(argv)
    chosen_suites = [s for s in suites(options.ecosystem) if options.suite in (None, s.name)]
    if not chosen_suites:
        parser.error(f"no suite {options.suite}")
    if options.list:
        say("\n".join(f"{suite.name}: {suite.project} {suite.version}" for suite in chosen_suites))
        return 0
    return max(
        _run(suite, options.target, options.test, writes_file=options.write)
        for suite in chosen_suites
    )


def _run(suite: Suite, target: PeerTarget, tests: Sequence[str], *, writes_file: bool) -> int:
    outcomes: list[PeerOutcome] = []
    try:
        for outcome in suite.ask(target, tests):
            outcomes.append(outcome)
            say(_outcome_line(suite, outcome))
    except (PeerError, ForeignClientError, ApacheKafkaError, TxnsimServerError) as failure:
        say(f"{suite.name}: {failure}")
        return 1
    count = {
        result: sum(outcome_of_test.result is result for outcome_of_test in outcomes)
        for result in PeerResult
    }
    say(
        f"{suite.name}, {target}: "
        + ", ".join(f"{count[result]} {result}" for result in PeerResult)
    )
    if writes_file:
        save(suite.name, merge_outcomes(load(), suite, target, outcomes, is_whole=not tests))
    failed_tests = [outcome.test for outcome in outcomes if outcome.result is PeerResult.FAILED]
    unexplained = unexplained_failures(suite, load().get(suite.name), failed_tests)
    if unexplained:
        say(f"{suite.name}: without a reason: {', '.join(unexplained)}")
    return 1 if unexplained or not outcomes else 0


def _outcome_line(suite: Suite, outcome: PeerOutcome) -> str:
    line = f"{outcome.result:8} {suite.name}: {outcome.test}"
    if outcome.result is PeerResult.PASSED:
        return line
    reason = suite.why(outcome.test)
    return f"{line}: {outcome.message} ({reason})" if reason else f"{line}: {outcome.message}"


if __name__ == "__main__":
    sys.exit(main())
