"""``txnsim schema``: JSON Schemas, for editors, of the files that users write."""

from __future__ import annotations

import argparse
from typing import Final

from txnsim.cli.output import TERMINAL

KINDS: Final = {
    "scenario": "a story, as `txnsim scenario run` takes it",
    "config": "a cluster's YAML file, as `txnsim serve --config` takes it",
    "fault": "a fault rule, as `txnsim faults arm --file` and the control port take it",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds_text = "\n".join(f"  {kind:<9} {description}" for kind, description in KINDS.items())
    parser.epilog = (
        f"kinds:\n{kinds_text}\n\nThe first line of a YAML file names its schema to an editor:\n"
        "  # yaml-language-server: $schema=scenario.schema.json"
    )
    parser.add_argument("kind", choices=tuple(KINDS), help="of which file")


def run(args: argparse.Namespace) -> int:
    """Print the schema; returns the exit status."""
    # pydantic and the models of one kind only.
    if args.kind == "config":
        from txnsim.config.json_schema import cluster_schema

        TERMINAL.json(cluster_schema())
        return 0
    from txnsim_lab.scenario.json_schema import fault_schema, scenario_schema

    TERMINAL.json(scenario_schema() if args.kind == "scenario" else fault_schema())
    return 0
