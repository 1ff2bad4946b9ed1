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
import zlib
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import fromstring
from xml.sax.saxutils import escape

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY: Final = "/dev/shm"


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Of one driver's process; its workers have the same."""

    root: str
    """The folder: the same path on every machine, made where it is needed."""
    xml: bytes = b""
    """Hadoop's configuration, packed; empty where nothing is told."""
    listed_ms: int = 0
    """When the process that planned has asked the store for names."""

    @property
    def conf(self) -> Mapping[str, str]:
        """Hadoop's settings by name; a later property counts, as in Hadoop's files."""
        if not self.xml:
            return {}
        found = fromstring(zlib.decompress(self.xml)).iter("property")
        return {one.findtext("name", ""): one.findtext("value", "") for one in found}

    def reaches_as(self, other: StoreSettings) -> bool:
        """Whether both reach the same stores; the listing time does not count."""
        return msgspec.structs.replace(self, listed_ms=other.listed_ms) == other

    def with_conf(self, given: Mapping[str, str]) -> StoreSettings:
        """A copy with further Hadoop settings, which override the present ones."""
        if not given:
            return self
        properties = "".join(
            f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
            for name, value in sorted(given.items())
        )
        xml = zlib.decompress(self.xml).decode() if self.xml else "<configuration></configuration>"
        changed = xml.replace("</configuration>", f"{properties}</configuration>")
        return msgspec.structs.replace(self, xml=zlib.compress(changed.encode(), level=1))


@cache
def own_root() -> str:
    """The folder of this process, removed at its end."""
    # Files without content, by the thousand: making one in memory takes a quarter of the time.
    memory = MEMORY if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) else None
    root = tempfile.mkdtemp(prefix="txnsim-stores-", dir=memory)
    atexit.register(_remove, root, os.getpid())
    return root


def settings_of(spark: SparkSession) -> StoreSettings | None:
    """The settings of a session as they are now; None of a session that has no JVM at hand."""
    try:
        jvm, java_session = spark._jvm, spark._jsparkSession
    except Exception as error:
        # A session of Spark Connect refuses the attributes themselves.
        if getattr(error, "getCondition", lambda: None)() != "JVM_ATTRIBUTE_NOT_SUPPORTED":
            raise
        return None
    assert jvm is not None
    writer = jvm.java.io.StringWriter()
    java_session.sessionState().newHadoopConf().writeXml(writer)
    return StoreSettings(root=own_root(), xml=zlib.compress(writer.toString().encode(), level=1))


def _remove(root: str, process: int) -> None:
    if os.getpid() == process:  # a forked worker's end is not ours
        shutil.rmtree(root, ignore_errors=True)
