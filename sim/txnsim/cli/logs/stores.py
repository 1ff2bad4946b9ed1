"""Directories in a store, at hand for any action: Spark is started first, as the store is read with
its settings, and what is printed has the store's names.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from txnsim.cli.logs.spark import misused, session
from txnsim.cli.output import renamed
from txnsim.cli.parsing import MISUSE_STATUS

OWN_MASTER: Final = "the master of the session that runs"
"""The master of an action that reads by Spark, however little there is."""


@contextmanager
def at_hand(args: argparse.Namespace) -> Iterator[int | None]:
    """Have ``args.directory`` name folders of this machine that stand for those of stores.

    Args:
        args: Of the action; what has no store among its directories is left as it is.

    Yields:
        None, or the exit status of a misuse, which was said.
    """
    named = getattr(args, "directory", None)
    elsewhere = [one for one in named if isinstance(one, str)] if isinstance(named, list) else []
    if not elsewhere:
        yield None
        return
    from txnsim.errors import BadInputError, MissingExtraError

    with ExitStack() as stack:
        status = None
        try:
            _locate(args, elsewhere, stack)
        except (BadInputError, MissingExtraError, OSError) as error:
            misused(error)
            status = MISUSE_STATUS
        yield status


def _locate(args: argparse.Namespace, elsewhere: list[str], stack: ExitStack) -> None:
    from txnsim.pipeline.hadoop.mirror import mounted, shown
    from txnsim.pipeline.hadoop.settings import settings_in

    config = dict(getattr(args, "spark_conf", ()))
    spark = stack.enter_context(
        session(getattr(args, "master", None), is_short=True, config=config)
    )
    settings = settings_in(spark)
    stack.enter_context(renamed(shown))
    found = {uri: mounted(settings).located([uri]) for uri in elsewhere}
    args.directory = [
        folder
        for one in args.directory
        for folder in (found[one] if isinstance(one, str) else [one])
    ]
    args.master = getattr(args, "master", None) or OWN_MASTER
