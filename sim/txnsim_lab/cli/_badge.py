"""``txnsim badge``: a badge from the results of an exam or of the conformance cases."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import new_file
from txnsim.errors import ConfigError
from txnsim.files import problem_of, read_given, write_whole

STANDARD_INPUT = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Exit status: 0 the badge is made, 2 the file holds no results, or results of nothing."
        " What the run came to is the status of exam run and conformance."
    )
    parser.add_argument(
        "results",
        metavar="RESULTS",
        help="what exam run --json or conformance --json has printed; - reads standard input",
    )
    parser.add_argument(
        "--svg", type=new_file, metavar="FILE", help="write a picture (the extra badge)"
    )
    parser.add_argument(
        "--shields", type=new_file, metavar="FILE", help="write the JSON that shields.io draws"
    )
    parser.add_argument("--json", action="store_true", help="print the badge as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status.

    Raises:
        ConfigError: The file can't be read, or holds no results of anything.
        MissingExtraError: A picture is wanted, and the extra ``badge`` is not installed.
    """
    from txnsim_lab.badge import ResultsError, badge_of, read_results

    path = None if args.results == STANDARD_INPUT else Path(args.results)
    try:
        badge = badge_of(read_results(read_given(path)))
    except OSError as error:
        raise ConfigError(f"{args.results}: {problem_of(error)}") from None
    except ResultsError as error:
        raise ConfigError(f"{args.results}: {error}") from None
    if args.svg is not None:
        write_whole(args.svg, badge.svg())
    if args.shields is not None:
        write_whole(args.shields, badge.shields_json())
    TERMINAL.tell(args, msgspec.to_builtins(badge), lambda _: (f"{badge.label}: {badge.message}",))
    return 0
