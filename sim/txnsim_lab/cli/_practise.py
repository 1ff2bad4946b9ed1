"""``txnsim practise``: starts a cluster with a hanging transaction to find and repair; or one that
continues from copies of production's disks. ``practise upgrade`` rehearses a rolling upgrade;
``practise incident`` writes the disks of a cluster after an incident, for ``txnsim logs``.

It is ``txnsim serve`` with the right options, a situation (``practise_situation``), and prints the
commands of the exercise with the right address.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from txnsim.cli import serve
from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import MISUSE_STATUS
from txnsim.errors import ConfigError
from txnsim.releases import REFERENCE, release_named
from txnsim.server.cluster import SimCluster
from txnsim.shell_text import command_line, option
from txnsim.txn.open_txn_verdict import program_at
from txnsim_lab.cli import _incident as incident
from txnsim_lab.scenario import practise_situation

UPGRADE_WORD: Final = Path("upgrade")
INCIDENT_WORD: Final = Path("incident")
EPILOG: Final = (
    "What it starts is `txnsim serve`; with DIR it is `txnsim serve --load DIR --clock-at stopped`,"
    " which has more options."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "directory",
        nargs="*",
        type=Path,
        metavar="DIR",
        help="a copy of a real broker's log directory, one per broker; nothing is written there;"
        " or the word upgrade; or incident, then a name and a new folder",
    )
    upgrade_options = parser.add_argument_group("a rolling upgrade: txnsim practise upgrade")
    upgrade_options.add_argument(
        "--from", dest="old", metavar="RELEASE", help="that the brokers run, such as 3.9"
    )
    upgrade_options.add_argument(
        "--to", dest="new", metavar="RELEASE", help=f"that they go to (default {REFERENCE.name})"
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
    parser.add_argument("--json", action="store_true",
                        help="what was started, or what the upgrade came to, as JSON")  # fmt: skip


def rewrite(arguments: Sequence[str]) -> list[str]:
    """Add the environment variables of ``txnsim serve`` for which ``practise`` has options."""
    return serve.with_variables(arguments, variable_names=("--port", "--http", "--ready-file"))


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM, or rehearse an upgrade; returns the exit status."""
    if args.directory == [UPGRADE_WORD]:
        return _rehearse_upgrade(args)
    if args.directory[:1] == [INCIDENT_WORD]:
        return incident.run([*map(str, args.directory[1:])], as_json=args.json)
    if args.old or args.new:
        TERMINAL.complain("--from and --to: only with `txnsim practise upgrade`")
        return MISUSE_STATUS
    serve_arguments = ["--http", args.http, "--ui", "--log-level", "warning"]
    for flag_argument, value in (("--port", args.port), ("--ready-file", args.ready_file)):
        if value is not None:
            serve_arguments += [flag_argument, value]
    if args.json:
        serve_arguments.append("--json")
    if args.directory:
        serve_arguments += ["--clock-at", "stopped", "--load", *map(str, args.directory)]
    else:
        for topic_name, partitions in practise_situation.TOPICS.items():
            serve_arguments += ["--topic", f"{topic_name}:{partitions}"]
    return serve.serve(
        serve_arguments, prepare=_exercise_on_copies if args.directory else _make_exercise
    )


def _rehearse_upgrade(args: argparse.Namespace) -> int:
    """Rehearse an upgrade; returns 1 if a record was lost or a transaction hangs."""
    from txnsim.cli.event_log import set_up_logs
    from txnsim_lab.cli._upgrade import rehearse

    set_up_logs(level="critical")
    try:
        if args.old is None:
            raise ConfigError("--from is missing: the release that the brokers run, such as 3.9")
        old_release, new_release = (
            release_named(args.old),
            release_named(args.new or REFERENCE.name),
        )
        risk_texts: list[str] = []
        rehearsal = rehearse(
            old_release, new_release, risk_texts.append if args.json else TERMINAL.text
        )
    except ConfigError as error:
        TERMINAL.complain(error)
        return MISUSE_STATUS
    if args.json:
        TERMINAL.json(
            {
                "from": old_release.name,
                "to": new_release.name,
                **msgspec.to_builtins(rehearsal),
                "is_well": rehearsal.is_well,
                "text": [line for text in risk_texts for line in text.splitlines()],
            }
        )
    return 0 if rehearsal.is_well else 1


async def _make_exercise(cluster: SimCluster, http_url: str | None) -> tuple[str, ...]:
    """Make the situation on the cluster; returns the text of the exercise."""
    await practise_situation.make(cluster)
    http_option = option("--http", http_url)
    release_command = command_line(
        "txnsim", "faults", "release", practise_situation.MARKER_RULE, *http_option
    )
    return (
        "A consumer of orders-0 stands still, and no client sees an error. Find out why:",
        *_exercise_commands(cluster, "why orders 0"),
        "What else is open is healthy: a report that takes long (orders-1), and a commit whose",
        f"marker is held (payments-0). To let it go: {release_command}",
        "All about it: docs/repair.md.",
    )


async def _exercise_on_copies(cluster: SimCluster, _http: str | None) -> tuple[str, ...]:
    """The text of the exercise on copies of disks."""
    return (
        "It goes on with your copies, at the time when the brokers were stopped. What hangs there?",
        *_exercise_commands(cluster, "why TOPIC PARTITION"),
        "All about it: docs/practise.md.",
    )


def _exercise_commands(cluster: SimCluster, why_subcommand: str) -> tuple[str, ...]:
    txns_command = program_at(cluster.bootstrap.split(",")[0])
    return (
        f"  {txns_command} find-hanging --all",
        f"  {txns_command} {why_subcommand}",
        f"  {txns_command} repair          (only tells what it would do)",
        f"  {txns_command} repair --yes",
    )
