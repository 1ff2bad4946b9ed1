"""Directories in a store, at hand for any action: Spark is started first, as the store is read with
its settings, and what is printed has the store's names.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Final

from txnsim.cli.logs.spark import session
from txnsim.cli.output import renamed

OWN_MASTER: Final = "the master of the session that runs"
"""The master of an action that reads by Spark, however little there is."""


def at_hand(args: argparse.Namespace, stack: ExitStack) -> None:
    """Have ``args.directory`` name folders of this machine that stand for those of stores.

    Args:
        args: Of the action; what has no store among its directories is left as it is.
        stack: Until it ends, Spark's session runs and what is printed has the store's names.

    Raises:
        BadInputError: A store does not have what is named.
        MissingExtraError: PySpark or Java is missing.
        OSError: What Spark needs can't be read or written.
    """
    named = getattr(args, "directory", None)
    elsewhere = [one for one in named if isinstance(one, str)] if isinstance(named, list) else []
    if not elsewhere:
        return
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
