"""What a process needs to read a store as a Spark session does: the session's Hadoop configuration,
and a folder with a local file for each file of the store.

The configuration holds credentials if the session's configuration does. It goes to workers with a
task, as Spark sends its own configuration.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY_FOLDER: Final = "/dev/shm"
_OPTION_PREFIX: Final = "fs."


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings by which a driver's process and its workers read object stores."""

    root: str
    """The mirror's folder: the same path on every machine; created when it is needed."""
    conf: Mapping[str, str] = {}
    """Hadoop's settings of file systems (``fs.…``)."""
    listed_ms: int = 0
    """Time when the planning process last listed the store, in milliseconds."""

    def reaches_as(self, other_settings: StoreSettings) -> bool:
        """Whether other settings reach the same stores; the listing time does not matter."""
        return msgspec.structs.replace(self, listed_ms=other_settings.listed_ms) == other_settings

    def with_conf(self, further_settings: Mapping[str, str]) -> StoreSettings:
        """A copy with further Hadoop settings, which override the present ones."""
        return msgspec.structs.replace(self, conf={**self.conf, **further_settings})


@cache
def own_root() -> str:
    """This process's mirror folder; it is removed at the end of the process."""
    # Files without content, by the thousand: making one in memory takes a quarter of the time.
    memory_folder = (
        MEMORY_FOLDER if "TMPDIR" not in os.environ and os.access(MEMORY_FOLDER, os.W_OK) else None
    )
    root = tempfile.mkdtemp(prefix="txnsim-stores-", dir=memory_folder)
    atexit.register(_remove_root, root, os.getpid())
    return root


def settings_of(spark: SparkSession) -> StoreSettings | None:
    """The present settings of a session; None for a session without a JVM in this process."""
    try:
        jvm, java_session = spark._jvm, spark._jsparkSession
    except Exception as error:
        # A session of Spark Connect refuses the attributes themselves.
        if getattr(error, "getCondition", lambda: None)() != "JVM_ATTRIBUTE_NOT_SUPPORTED":
            raise
        return None
    assert jvm is not None
    hadoop_settings = java_session.sessionState().newHadoopConf().getPropsWithPrefix(_OPTION_PREFIX)
    # As text: an entry of a map of Java's costs three calls.
    settings_json = jvm.com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(
        hadoop_settings
    )
    hadoop_options = msgspec.json.decode(settings_json, type=dict[str, str])
    return StoreSettings(
        root=own_root(),
        conf={
            f"{_OPTION_PREFIX}{option_name}": option_value
            for option_name, option_value in hadoop_options.items()
        },
    )


def _remove_root(root: str, process_id: int) -> None:
    if os.getpid() == process_id:  # a forked worker's end is not ours
        shutil.rmtree(root, ignore_errors=True)
