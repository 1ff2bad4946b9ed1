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
from tests.clients.streams.kept import Kept, load, save
from tests.clients.streams.lab import ROUNDS, Lab, LabError
from tests.clients.streams.plan import Kill, only, plan_of
from tests.clients.streams.points import POINTS, points_at
from tests.clients.streams.strike import Strike, Struck
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
    """Carry out a plan and tell what came of it."""
    parser = _parser()
    options = parser.parse_args(argv)
    is_real = options.target == "apache"
    if options.write and (is_real or options.point is not None):
        parser.error("--write keeps a whole plan, against txnsim")
    kills = 0 if is_real else options.kills
    plan = plan_of(options.level, seed=options.seed, kills=kills)
    if options.point is not None:
        plan = only(plan, options.point)
        if not plan:
            parser.error(f"the plan has no point with these words: {options.point}")
    if options.plan:
        for number, kill in enumerate(plan, start=1):
            say(f"{number:3} {kill.instance} {kill.point.name}")
        return 0
    # Whoever ends this ends its programs, too: the lab is closed on the way out.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(128 + signal.SIGTERM))
    start_s = time.monotonic()
    done: list[tuple[Kill, Struck]] = []
    wrong = _without_kills(options) if is_real else _carry_out(plan, done, options)
    if options.write and not wrong:
        _keep(options, done)
    if options.json:
        say(json.dumps(_report(options, done, wrong)))
    else:
        for problem in wrong:
            say("FAIL " + " ⏎ ".join(problem.splitlines()))
        minutes = (time.monotonic() - start_s) / 60
        say(
            f"transaction.version {options.level}, seed {options.seed}: {len(done)} kills in "
            f"{minutes:.1f} min; {'not exact' if wrong else 'counts are exact'}"
        )
        say(f"{len(done) + (not wrong)} passed, {len(wrong)} failed")
    return 1 if wrong else 0


def _carry_out(
    plan: Sequence[Kill], done: list[tuple[Kill, Struck]], options: argparse.Namespace
) -> list[str]:
    """Every kill; what is wrong."""
    try:
        with Lab(level=options.level, seed=options.seed, protocol=options.protocol) as lab:
            for number, kill in enumerate(plan, start=1):
                name = f"kill {number} of {len(plan)}, {kill.instance}: {kill.point.name}"
                try:
                    struck = Strike(lab, kill).carry_out()
                except (ControlError, LabError, ApplicationError) as failure:
                    return [f"{name}: {failure}"]
                done.append((kill, struck))
                if not options.json:
                    say(_line(name, kill, struck))
            return lab.judge()
    except _FAILURES as failure:
        return [f"{type(failure).__name__}: {failure}"]


def _without_kills(options: argparse.Namespace) -> list[str]:
    """The same application, feeder, reader and judge on a real Kafka; what is wrong."""
    try:
        with Lab(
            level=options.level, seed=options.seed, is_real=True, protocol=options.protocol
        ) as lab:
            for _ in range(options.kills):
                lab.feed(ROUNDS)
                lab.settle()
            return lab.judge()
    except _FAILURES as failure:
        return [f"{type(failure).__name__}: {failure}"]


def _keep(options: argparse.Namespace, done: Sequence[tuple[Kill, Struck]]) -> None:
    """For docs/clients.md."""
    struck = Counter(kill.point.name for kill, _ in done)
    save({**load(), options.level: Kept(options.seed, struck)})


def _line(name: str, kill: Kill, struck: Struck) -> str:
    state = f"{struck.state}, " if struck.state else ""
    rest = "stays dead" if kill.stays_dead else f"all counted {struck.recovered_s:.1f} s later"
    return f"PASS {name} ({state}{struck.victim}; {rest})"


def _report(
    options: argparse.Namespace, done: Sequence[tuple[Kill, Struck]], wrong: Sequence[str]
) -> dict[str, object]:
    return {
        "level": options.level,
        "seed": options.seed,
        "kills": [
            {
                "point": kill.point.name,
                "stage": kill.point.stage,
                "instance": kill.instance,
                "victim": struck.victim,
                "state": struck.state,
                "struck_s": round(struck.struck_s, 2),
                "recovered_s": round(struck.recovered_s, 2),
                "healed_s": round(struck.healed_s, 2),
            }
            for kill, struck in done
        ],
        "wrong": list(wrong),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.clients.streams.kills",
        description=f"Kill Kafka Streams at named points; there are {len(POINTS)}.",
    )
    parser.add_argument("--level", type=int, choices=LEVELS, default=2)
    parser.add_argument("--seed", type=int, default=1)
    most = {level: len(points_at(level)) for level in LEVELS}
    parser.add_argument(
        "--kills", type=int, default=KILLS, help=f"how many; one per point takes {most[2]}"
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
