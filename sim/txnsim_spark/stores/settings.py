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

MEMORY: Final = "/dev/shm"
_PREFIX: Final = "fs."


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a driver's process; its workers have the same."""

    root: str
    """The mirror's folder: the same path on every machine; created when it is needed."""
    conf: Mapping[str, str] = {}
    """Hadoop's settings of file systems (``fs.…``)."""
    listed_ms: int = 0
    """Time when the planning process last listed the store, in milliseconds."""

    def reaches_as(self, other: StoreSettings) -> bool:
        """Whether other settings reach the same stores; the listing time does not matter."""
        return msgspec.structs.replace(self, listed_ms=other.listed_ms) == other

    def with_conf(self, further_settings: Mapping[str, str]) -> StoreSettings:
        """A copy with further Hadoop settings, which override the present ones."""
        return msgspec.structs.replace(self, conf={**self.conf, **further_settings})


@cache
def own_root() -> str:
    """This process's mirror folder; it is removed at the end of the process."""
    # Files without content, by the thousand: making one in memory takes a quarter of the time.
    memory = MEMORY if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) else None
    root = tempfile.mkdtemp(prefix="txnsim-stores-", dir=memory)
    atexit.register(_remove, root, os.getpid())
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
    hadoop_settings = java_session.sessionState().newHadoopConf().getPropsWithPrefix(_PREFIX)
    # As text: an entry of a map of Java's costs three calls.
    text = jvm.com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(hadoop_settings)
    named = msgspec.json.decode(text, type=dict[str, str])
    return StoreSettings(
        root=own_root(), conf={f"{_PREFIX}{name}": value for name, value in named.items()}
    )


def _remove(root: str, process: int) -> None:
    if os.getpid() == process:  # a forked worker's end is not ours
        shutil.rmtree(root, ignore_errors=True)
