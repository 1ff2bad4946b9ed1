"""What the actions of ``txnsim logs`` have in common that read something and print it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

from txnsim.cli.logs.spark import misused
from txnsim.cli.output import print_json
from txnsim.cli.parsing import MISUSE_STATUS

T = TypeVar("T")


def answered(
    args: argparse.Namespace,
    read: Callable[[argparse.Namespace], T],
    show: Callable[[T], None],
    status: Callable[[T], int],
) -> int:
    """Read what is asked for, and print it.

    Args:
        args: With ``json``.
        read: May import what it needs.
        show: Prints it for people.
        status: The exit status that it means.

    Returns:
        That exit status; ``MISUSE_STATUS`` where the arguments were wrong or something is missing,
        which is said.
    """
    from txnsim.errors import BadInputError, MissingExtraError

    try:
        found = read(args)
    except (BadInputError, MissingExtraError, OSError) as error:
        misused(error)
        return MISUSE_STATUS
    if args.json:
        print_json(found)
    else:
        show(found)
    return status(found)


def always_ok(_found: object) -> int:
    """Exit status 0, whatever was found."""
    return 0
