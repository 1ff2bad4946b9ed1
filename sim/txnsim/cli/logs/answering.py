"""What the actions of ``txnsim logs`` have in common that read something and print it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

from txnsim.cli.output import print_json

T = TypeVar("T")


def answering(
    read: Callable[[argparse.Namespace], T],
    show: Callable[[T], None],
    status: Callable[[T], int] = lambda _: 0,
) -> Callable[[argparse.Namespace], int]:
    """The ``run`` of an action: read what is asked for, print it, return the exit status.

    Args:
        read: May import what it needs.
        show: Prints it for people; with ``--json`` all of it is printed.
        status: The exit status that it means.
    """

    def run(args: argparse.Namespace) -> int:
        found = read(args)
        if args.json:
            print_json(found)
        else:
            show(found)
        return status(found)

    return run
