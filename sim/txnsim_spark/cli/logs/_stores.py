"""Makes directories in an object store available to any action. If the environment configures
Spark, the settings of the store come from Spark's session. Output names the store's paths.
"""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack
from typing import Final

from txnsim.cli.output import TERMINAL
from txnsim_spark.cli.logs.spark import GIVEN, session

OWN_MASTER: Final = "the master of the session that runs"
"""Stands for a master if the arguments name none: the running session has its own."""
_HADOOP: Final = "spark.hadoop."
_CONFIGURED: Final = ("HADOOP_CONF_DIR", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR", "SPARK_HOME")
"""Environment variables that configure Spark: then a session knows more settings than the
arguments.
"""


def with_local_copies(args: argparse.Namespace, stack: ExitStack) -> None:
    """Replace directories in stores by local folders that mirror them.

    Args:
        args: Arguments of the action; not changed if no directory is in a store.
        stack: Until it is closed, output has the store's names, and Spark's session runs if its
            settings are needed.

    Raises:
        BadInputError: A directory does not exist in the store.
        MissingExtraError: A library of the extra, or Java, is missing.
        OSError: Files that Spark needs can't be read or written.
    """
    spark_conf = dict(getattr(args, "spark_conf", ()))
    GIVEN.set(spark_conf)
    named = getattr(args, "directory", None)
    elsewhere = (
        [directory for directory in named if isinstance(directory, str)]
        if isinstance(named, list)
        else []
    )
    if not elsewhere:
        return
    from txnsim_spark.libraries import require_libraries
    from txnsim_spark.stores.mirror import mount, with_store_names
    from txnsim_spark.stores.settings import StoreSettings, own_root, settings_of

    require_libraries()
    alone = StoreSettings(root=own_root())
    if os.environ.keys().isdisjoint(_CONFIGURED):
        hadoop = {
            name.removeprefix(_HADOOP): value
            for name, value in spark_conf.items()
            if name.startswith(_HADOOP)
        }
        settings = alone.with_conf(hadoop)
    else:
        master = getattr(args, "master", None)
        settings = settings_of(stack.enter_context(session(master, is_short=True))) or alone
        args.master = master or OWN_MASTER
    stack.enter_context(TERMINAL.renaming(with_store_names))
    local_folders = {uri: mount(settings).local_folders([uri]) for uri in elsewhere}
    args.directory = [
        folder
        for directory in args.directory
        for folder in (local_folders[directory] if isinstance(directory, str) else [directory])
    ]
