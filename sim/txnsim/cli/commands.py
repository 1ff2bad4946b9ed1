"""The commands, how ``txnsim --help`` groups them, and two examples for each command's ``--help``.
A test parses every example.

Extensions add commands with a ``TABLE`` in their ``cli/commands.py``. It is imported only for a
command that is not here, or for the list of all commands (``txnsim.on_demand_imports``).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, NamedTuple

from txnsim.on_demand_imports import offered

Words = Mapping[str, tuple[str, ...]]


class CommandTable(NamedTuple):
    """The commands of one package."""

    commands: Mapping[str, tuple[str, str]]
    """Command -> its module and its line of help, so that help needs no import."""
    groups: Words
    """Heading in ``txnsim --help`` -> commands."""
    examples: Words
    """Command -> typical calls to start with."""
    words: Callable[[], Words] = dict
    """Command -> choices of its first argument that its parser does not list, for completion."""


GROUPS: Final = (
    "start a cluster",
    "look at a running one and change it, by its control port",
    "any Kafka cluster, this one or a real one",
    "stories, lessons, and judges",
    "traces of a run",
    "your editor and shell",
)
"""Headings, in the order of the help."""

_TXNS: Final = "txnsim txns --bootstrap-server localhost:9092"
_GROUPS: Final = "txnsim groups --bootstrap-server localhost:9092"
_EXAMPLES: Final = {
    "serve": (
        "txnsim serve --topic orders:3 --http",
        "txnsim serve --brokers 1 --port 0 --as-version 3.6 --ready-file ready.json",
        "txnsim serve --ui",
    ),
    "faults": (
        "txnsim faults arm late --point peer.request --api WriteTxnMarkers --do hold",
        "txnsim faults wait late && txnsim faults release late",
    ),
    "faults arm": (
        "txnsim faults arm late --point peer.request --api WriteTxnMarkers --do hold",
        "txnsim faults arm lost --point client.response --api EndTxn --limit 1 --do drop",
    ),
    "faults list": ("txnsim faults list", "txnsim faults list --json"),
    "faults wait": (
        "txnsim faults wait late",
        "txnsim faults wait late --struck 3 --timeout 90s",
    ),
    "faults release": ("txnsim faults release late", "txnsim faults release late --http 9081"),
    "faults disarm": ("txnsim faults disarm late", "txnsim faults disarm --all"),
    "faults verify": ("txnsim faults verify", "txnsim faults verify --json"),
    "clock": ("txnsim clock advance 60s", "txnsim clock set --back 5s --broker 2"),
    "clock show": ("txnsim clock show", "txnsim clock show --json"),
    "clock advance": ("txnsim clock advance 31s", "txnsim clock advance 7d"),
    "clock set": ("txnsim clock set --ahead 1h", "txnsim clock set --back 5s --broker 2"),
    "brokers": ("txnsim brokers kill 2 --lose-unflushed", "txnsim brokers start 2"),
    "brokers list": ("txnsim brokers list", "txnsim brokers list --json"),
    "brokers kill": ("txnsim brokers kill 2", "txnsim brokers kill 2 --lose-unflushed"),
    "brokers stop": ("txnsim brokers stop 2", "txnsim brokers stop 2 --wait 5s"),
    "brokers start": ("txnsim brokers start 2", "txnsim brokers start 2 --as-version 3.9"),
    "brokers isolate": ("txnsim brokers isolate 2", "txnsim brokers isolate 2 --from-clients"),
    "brokers heal": ("txnsim brokers heal 2", "txnsim brokers heal 2 --json"),
    "topics": (
        "txnsim topics create orders:3 --config cleanup.policy=compact",
        "txnsim topics describe orders",
    ),
    "topics list": ("txnsim topics list", "txnsim topics list --internal"),
    "topics create": (
        "txnsim topics create orders:3",
        "txnsim topics create orders --config cleanup.policy=compact",
    ),
    "topics describe": (
        "txnsim topics describe orders",
        "txnsim topics describe orders --json",
    ),
    "topics delete": ("txnsim topics delete orders", "txnsim topics delete orders --json"),
    "topics move-leader": (
        "txnsim topics move-leader orders-0 2",
        "txnsim topics move-leader __transaction_state-7 1",
    ),
    "completion": (
        "source <(txnsim completion bash)",
        "source <(txnsim completion zsh)",
        "txnsim completion fish > ~/.config/fish/completions/txnsim.fish",
    ),
    "txns": (
        f"{_TXNS} list",
        f"{_TXNS} find-hanging --all",
        f"{_TXNS} why orders-0",
    ),
    "txns list": (
        f"{_TXNS} list",
        f"{_TXNS} list --duration-filter 60000 --transactional-id-pattern 'payments-.*'",
    ),
    "txns describe": (
        f"{_TXNS} describe --transactional-id payments-7",
        f"{_TXNS} describe --transactional-id payments-7 --json",
    ),
    "txns describe-producers": (
        f"{_TXNS} describe-producers --topic orders --partition 0",
        f"{_TXNS} describe-producers --topic orders --partition 0 --broker-id 2",
    ),
    "txns abort": (
        f"{_TXNS} abort --topic orders --partition 0 --start-offset 17",
        f"{_TXNS} abort --topic orders --partition 0 --producer-id 3 --producer-epoch 1"
        " --coordinator-epoch -1",
    ),
    "txns commit": (
        f"{_TXNS} commit --transactional-id sink-0 --producer-id 1000 --producer-epoch 3",
        f"{_TXNS} commit --transactional-id sink-0 --producer-id 1000 --producer-epoch 3 --yes",
    ),
    "txns decisions": (
        f"{_TXNS} decisions",
        f"{_TXNS} decisions --topic orders",
    ),
    "txns find-hanging": (
        f"{_TXNS} find-hanging --broker-id 1",
        f"{_TXNS} find-hanging --all --watch 60",
    ),
    "txns forceTerminateTransaction": (
        f"{_TXNS} forceTerminateTransaction --transactionalId payments-7",
        "txnsim txns --command-config admin.properties forceTerminateTransaction"
        " --transactionalId payments-7",
    ),
    "txns repair": (
        f"{_TXNS} repair",
        f"{_TXNS} repair --topic orders --partition 0 --yes",
    ),
    "txns why": (
        f"{_TXNS} why orders-0",
        f"{_TXNS} why orders 0 --watch 5",
    ),
    "groups": (f"{_GROUPS} list --type share", f"{_GROUPS} describe shop"),
    "groups list": (f"{_GROUPS} list", f"{_GROUPS} list --type share --state Empty"),
    "groups describe": (f"{_GROUPS} describe shop", f"{_GROUPS} describe shop --json"),
    "groups offsets": (
        f"{_GROUPS} offsets reset shop --topic orders --to-earliest",
        f"{_GROUPS} offsets delete shop --topic orders",
    ),
    "groups offsets reset": (
        f"{_GROUPS} offsets reset shop --topic orders --to-latest",
        f"{_GROUPS} offsets reset shop --topic orders --to-offset 17",
    ),
    "groups offsets delete": (
        f"{_GROUPS} offsets delete shop --topic orders",
        f"{_GROUPS} offsets delete shop --topic orders --json",
    ),
    "groups delete": (f"{_GROUPS} delete shop", f"{_GROUPS} delete shop --json"),
}

OWN: Final = CommandTable(
    commands={
        "serve": ("txnsim.cli.serve", "start a cluster of brokers in this process"),
        "faults": (
            "txnsim.cli.control._faults",
            "arm faults in a running cluster, watch them, release what they hold",
        ),
        "clock": ("txnsim.cli.control._clock", "let time pass in a running cluster"),
        "brokers": ("txnsim.cli.control._brokers", "kill, stop, start and isolate running brokers"),
        "topics": (
            "txnsim.cli.control._topics",
            "topics of a running cluster, offsets of replicas",
        ),
        "completion": ("txnsim.cli._completion", "completion of this command line for a shell"),
        "txns": (
            "txnsim.cli._txns.command",
            "look at the transactions of any Kafka cluster, and repair them",
        ),
        "groups": (
            "txnsim.cli._groups",
            "look at the groups of any Kafka cluster, move the offsets of share groups",
        ),
    },
    groups={
        "start a cluster": ("serve",),
        "look at a running one and change it, by its control port": (
            "faults",
            "clock",
            "brokers",
            "topics",
        ),
        "any Kafka cluster, this one or a real one": ("txns", "groups"),
        "your editor and shell": ("completion",),
    },
    examples=_EXAMPLES,
)


@cache
def tables() -> tuple[CommandTable, ...]:
    """Our table, then those of the installed extensions."""
    return (OWN, *(module.TABLE for module in offered("cli.commands")))


def table_of(command_name: str) -> CommandTable | None:
    """The table that has a command; extensions are imported only for commands that are not ours."""
    if command_name in OWN.commands:
        return OWN
    return next((table for table in tables() if command_name in table.commands), None)


def commands() -> dict[str, tuple[str, str]]:
    """Every installed command in the order of the help: its module and its line of help."""
    every_command = {
        command_name: command_row
        for table in tables()
        for command_name, command_row in table.commands.items()
    }
    return {
        command_name: every_command[command_name]
        for command_names in groups().values()
        for command_name in command_names
    }


def groups() -> dict[str, tuple[str, ...]]:
    """Every heading that has a command -> its commands."""
    names_by_title = {
        group_title: tuple(
            command_name for table in tables() for command_name in table.groups.get(group_title, ())
        )
        for group_title in GROUPS
    }
    return {
        group_title: command_names
        for group_title, command_names in names_by_title.items()
        if command_names
    }


def examples() -> dict[str, tuple[str, ...]]:
    """Examples of every installed command."""
    return {
        path: example_lines for table in tables() for path, example_lines in table.examples.items()
    }


def add_examples(parser: argparse.ArgumentParser, command_path: str) -> None:
    """Append examples to the help of a command and of its subcommands."""
    examples_by_path = (
        OWN.examples if command_path.partition(" ")[0] in OWN.commands else examples()
    )
    example_lines = "\n".join(
        f"  {example_line}" for example_line in examples_by_path.get(command_path, ())
    )
    if example_lines:
        parser.epilog = "\n\n".join(filter(None, (parser.epilog, f"examples:\n{example_lines}")))
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for branch_name, branch_parser in action.choices.items():
                add_examples(branch_parser, f"{command_path} {branch_name}")
