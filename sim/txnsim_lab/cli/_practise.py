"""``txnsim practise``: a cluster with a hanging transaction to find and repair, by one command; or
one that goes on with copies of production's disks.

It is ``txnsim serve`` with the right options, a situation (``practise_situation``), and the
commands of the exercise, printed with the address that they need.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from txnsim.cli import serve
from txnsim.server.cluster import SimCluster
from txnsim_lab.scenario import practise_situation

EPILOG: Final = (
    "What it starts is `txnsim serve`; with DIR it is `txnsim serve --load DIR --clock-at stopped`,"
    " which has more options."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``practise`` takes."""
    parser.epilog = EPILOG
    parser.add_argument(
        "directory",
        nargs="*",
        type=Path,
        metavar="DIR",
        help="a copy of a real broker's log directory, one per broker; nothing is written there",
    )
    parser.add_argument(
        "--port", metavar="PORT", help="first port (default 9092); 0 picks free ones"
    )
    parser.add_argument(
        "--http",
        default=str(serve.HTTP_PORT_DEFAULT),
        metavar="PORT",
        help=f"the control port (default {serve.HTTP_PORT_DEFAULT}); 0 picks a free one",
    )
    parser.add_argument("--ready-file", metavar="FILE", help="as of `txnsim serve`")
    parser.add_argument("--json", action="store_true", help="say what was started as JSON")


def rewrite(arguments: Sequence[str]) -> list[str]:
    """With the variables of ``txnsim serve`` that it has options for."""
    return serve.with_variables(arguments, only=("--port", "--http", "--ready-file"))


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM; returns the exit status."""
    words = ["--http", args.http, "--ui", "--log-level", "warning"]
    for flag, value in (("--port", args.port), ("--ready-file", args.ready_file)):
        if value is not None:
            words += [flag, value]
    if args.json:
        words.append("--json")
    if args.directory:
        words += ["--clock-at", "stopped", "--load", *map(str, args.directory)]
    else:
        for name, partitions in practise_situation.TOPICS.items():
            words += ["--topic", f"{name}:{partitions}"]
    return serve.serve(words, prepare=_loaded if args.directory else _made)


async def _made(cluster: SimCluster, http: str | None) -> tuple[str, ...]:
    """Make the situation; returns the exercise."""
    await practise_situation.make(cluster)
    release = f"txnsim faults release {practise_situation.MARKER_RULE} --http {http}"
    return (
        "A consumer of orders-0 stands still, and no client sees an error. Find out why:",
        *_commands(cluster, "why orders 0"),
        "What else is open is healthy: a report that takes long (orders-1), and a commit whose",
        f"marker is held (payments-0). To let it go: {release}",
        "All about it: docs/repair.md.",
    )


async def _loaded(cluster: SimCluster, _http: str | None) -> tuple[str, ...]:
    """The exercise on a copy of disks."""
    return (
        "It goes on with your copies, at the time when the brokers were stopped. What hangs there?",
        *_commands(cluster, "why TOPIC PARTITION"),
        "All about it: docs/practise.md.",
    )


def _commands(cluster: SimCluster, why: str) -> tuple[str, ...]:
    ask = f"txnsim txns --bootstrap-server {cluster.bootstrap.split(',')[0]}"
    return (
        f"  {ask} find-hanging --all",
        f"  {ask} {why}",
        f"  {ask} repair          (only tells what it would do)",
        f"  {ask} repair --yes",
    )
