"""Makes directories in an object store available to any action. If the environment configures
Spark, the settings of the store come from Spark's session. Output names the store's paths.
"""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack
from typing import Final

from txnsim.cli.output import TERMINAL
from txnsim_spark.cli.logs.spark import SESSION_SETTINGS, session

OWN_MASTER: Final = "the master of the session that runs"
"""Stands for a master if the arguments name none: the running session has its own."""
_HADOOP_PREFIX: Final = "spark.hadoop."
_SPARK_VARIABLES: Final = (
    "HADOOP_CONF_DIR",
    "PYSPARK_GATEWAY_PORT",
    "SPARK_CONF_DIR",
    "SPARK_HOME",
)
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
    SESSION_SETTINGS.set(spark_conf)
    directories = getattr(args, "directory", None)
    store_uris = (
        [directory for directory in directories if isinstance(directory, str)]
        if isinstance(directories, list)
        else []
    )
    if not store_uris:
        return
    from txnsim_spark.libraries import require_libraries
    from txnsim_spark.stores.mirror import mount, with_store_names
    from txnsim_spark.stores.settings import StoreSettings, own_root, settings_of

    require_libraries()
    own_settings = StoreSettings(root=own_root())
    if os.environ.keys().isdisjoint(_SPARK_VARIABLES):
        hadoop_settings = {
            setting_name.removeprefix(_HADOOP_PREFIX): setting_value
            for setting_name, setting_value in spark_conf.items()
            if setting_name.startswith(_HADOOP_PREFIX)
        }
        store_settings = own_settings.with_conf(hadoop_settings)
    else:
        master = getattr(args, "master", None)
        store_settings = (
            settings_of(stack.enter_context(session(master, is_short=True))) or own_settings
        )
        args.master = master or OWN_MASTER
    stack.enter_context(TERMINAL.renaming(with_store_names))
    local_folders = {uri: mount(store_settings).local_folders([uri]) for uri in store_uris}
    args.directory = [
        local_folder
        for directory in args.directory
        for local_folder in (
            local_folders[directory] if isinstance(directory, str) else [directory]
        )
    ]
