"""Kafka Streams, ``exactly_once_v2``, killed again and again at named points; counts stay exact.

Two instances count words on three simulated brokers. Each kill is an instance's (SIGKILL) or a
broker's, at a point that a fault rule makes exact (``points``). What was killed is started again,
and before the next kill every input must have come out, once. As a command::

    python -m tests.clients.streams.kills --level 2 --seed 1 --kills 20

The same seed gives the same plan. Exit status 1 where a point was not struck or a count is wrong.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from tests.clients.streams.application import ApplicationError
from tests.clients.streams.control import ControlError
from tests.clients.streams.kept import KillRun, load, save
from tests.clients.streams.lab import ROUNDS, Lab, LabError
from tests.clients.streams.plan import Kill, plan_of, select_kills
from tests.clients.streams.points import POINTS, points_at
from tests.clients.streams.strike import Strike, StrikeOutcome
from tests.support.apache_kafka import ApacheKafkaError
from tests.support.console import say
from tests.support.foreign_clients import ForeignClientError
from tests.support.txnsim_server import TxnsimServerError

KILLS: Final = 20
LEVELS: Final = (0, 1, 2)

_FAILURES: Final = (
    ApacheKafkaError,
    ApplicationError,
    ControlError,
    ForeignClientError,
    LabError,
    TxnsimServerError,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out a plan and print the results."""
    parser = _parser()
    options = parser.parse_args(argv)
    is_real = options.target == "apache"
    if options.write and (is_real or options.point is not None):
        parser.error("--write keeps a whole plan, against txnsim")
    kills = 0 if is_real else options.kills
    plan = plan_of(options.level, seed=options.seed, kill_count=kills)
    if options.point is not None:
        plan = select_kills(plan, options.point)
        if not plan:
            parser.error(f"the plan has no point with these words: {options.point}")
    if options.plan:
        for kill_number, kill in enumerate(plan, start=1):
            say(f"{kill_number:3} {kill.instance} {kill.point.name}")
        return 0
    # Whoever ends this ends its programs, too: the lab is closed on the way out.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(128 + signal.SIGTERM))
    start_s = time.monotonic()
    strikes: list[tuple[Kill, StrikeOutcome]] = []
    problems = _without_kills(options) if is_real else _carry_out(plan, strikes, options)
    if options.write and not problems:
        _store_run(options, strikes)
    if options.json:
        say(json.dumps(_report(options, strikes, problems)))
    else:
        for problem_text in problems:
            say("FAIL " + " ⏎ ".join(problem_text.splitlines()))
        minutes = (time.monotonic() - start_s) / 60
        say(
            f"transaction.version {options.level}, seed {options.seed}: {len(strikes)} kills in "
            f"{minutes:.1f} min; {'not exact' if problems else 'counts are exact'}"
        )
        say(f"{len(strikes) + (not problems)} passed, {len(problems)} failed")
    return 1 if problems else 0


def _carry_out(
    plan: Sequence[Kill], strikes: list[tuple[Kill, StrikeOutcome]], options: argparse.Namespace
) -> list[str]:
    """Carry out every kill of the plan; return the complaints."""
    try:
        with Lab(
            transaction_version=options.level, seed=options.seed, protocol=options.protocol
        ) as lab:
            for kill_number, kill in enumerate(plan, start=1):
                name = f"kill {kill_number} of {len(plan)}, {kill.instance}: {kill.point.name}"
                try:
                    outcome = Strike(lab, kill).carry_out()
                except (ControlError, LabError, ApplicationError) as failure:
                    return [f"{name}: {failure}"]
                strikes.append((kill, outcome))
                if not options.json:
                    say(_line(name, kill, outcome))
            return lab.judge()
    except _FAILURES as failure:
        return [f"{type(failure).__name__}: {failure}"]


def _without_kills(options: argparse.Namespace) -> list[str]:
    """Run the application on a real Kafka without kills; return the complaints."""
    try:
        with Lab(
            transaction_version=options.level,
            seed=options.seed,
            is_real=True,
            protocol=options.protocol,
        ) as lab:
            for _ in range(options.kills):
                lab.feed(ROUNDS)
                lab.settle()
            return lab.judge()
    except _FAILURES as failure:
        return [f"{type(failure).__name__}: {failure}"]


def _store_run(options: argparse.Namespace, strikes: Sequence[tuple[Kill, StrikeOutcome]]) -> None:
    """Store the number of kills at each point, for docs/clients.md."""
    kills_by_point = Counter(kill.point.name for kill, _ in strikes)
    save({**load(), options.level: KillRun(options.seed, kills_by_point)})


def _line(name: str, kill: Kill, outcome: StrikeOutcome) -> str:
    state = f"{outcome.state}, " if outcome.state else ""
    recovery = "stays dead" if kill.stays_dead else f"all counted {outcome.recovered_s:.1f} s later"
    return f"PASS {name} ({state}{outcome.victim}; {recovery})"


def _report(
    options: argparse.Namespace,
    strikes: Sequence[tuple[Kill, StrikeOutcome]],
    problems: Sequence[str],
) -> dict[str, object]:
    return {
        "level": options.level,
        "seed": options.seed,
        "kills": [
            {
                "point": kill.point.name,
                "stage": kill.point.stage,
                "instance": kill.instance,
                "victim": outcome.victim,
                "state": outcome.state,
                "struck_s": round(outcome.struck_s, 2),
                "recovered_s": round(outcome.recovered_s, 2),
                "healed_s": round(outcome.healed_s, 2),
            }
            for kill, outcome in strikes
        ],
        "wrong": list(problems),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.clients.streams.kills",
        description=f"Kill Kafka Streams at named points; there are {len(POINTS)}.",
    )
    parser.add_argument("--level", type=int, choices=LEVELS, default=2)
    parser.add_argument("--seed", type=int, default=1)
    point_counts = {
        transaction_version: len(points_at(transaction_version)) for transaction_version in LEVELS
    }
    parser.add_argument(
        "--kills", type=int, default=KILLS, help=f"how many; one per point takes {point_counts[2]}"
    )
    parser.add_argument("--point", metavar="WORDS", help="only points with these words")
    parser.add_argument(
        "--target",
        choices=("txnsim", "apache"),
        default="txnsim",
        help="a real Kafka counts the same words, and nothing is killed",
    )
    parser.add_argument(
        "--protocol",
        choices=("classic", "streams"),
        default="classic",
        help="of the application's group (KIP-1071)",
    )
    parser.add_argument("--write", action="store_true", help="keep the result, if it is exact")
    parser.add_argument("--plan", action="store_true", help="print the plan and do nothing")
    parser.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
