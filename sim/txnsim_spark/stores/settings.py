"""What a process needs to read a store as a Spark session does: the session's Hadoop configuration
and jars, and a folder with a local file for each file of the store.

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
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import fromstring
from xml.sax.saxutils import escape

import msgspec

from txnsim.errors import BadInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY: Final = "/dev/shm"
JAR_SETTINGS: Final = {
    "spark.jars": ",",
    "spark.driver.extraClassPath": os.pathsep,
    "spark.executor.extraClassPath": os.pathsep,
}
"""Setting -> what stands between its entries."""


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Of one driver's process; its workers have the same."""

    root: str
    """The folder: the same path on every machine, made where it is needed."""
    xml: bytes = b""
    """Hadoop's configuration, packed; empty for that of the files on the class path."""
    jars: tuple[str, ...] = ()
    """Entries of a class path, such as those of ``--packages``. Those that are not on this machine
    count as nothing: Spark brings them to its workers itself.
    """
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
    conf = spark.sparkContext.getConf()
    return StoreSettings(
        root=own_root(),
        xml=zlib.compress(writer.toString().encode(), level=1),
        jars=tuple(
            _path_of(entry)
            for name, separator in JAR_SETTINGS.items()
            for entry in (conf.get(name) or "").split(separator)
            if entry.strip()
        ),
    )


def settings_in(spark: SparkSession) -> StoreSettings:
    """The same of a session that has to have a JVM at hand.

    Raises:
        BadInputError: It is Spark Connect's.
    """
    settings = settings_of(spark)
    if settings is None:
        raise BadInputError("Hadoop's file system needs a session that is not Spark Connect's")
    return settings


def class_path(settings: StoreSettings) -> list[str]:
    """Of a JVM on this machine: the session's jars, what Spark has brought along, Spark's own."""
    import pyspark
    from pyspark import SparkFiles

    home = os.environ.get("SPARK_HOME") or pyspark.__path__[0]
    # Where Spark puts the jars of the session on a worker. On the driver nothing is set there.
    brought = [SparkFiles._root_directory] if SparkFiles._is_running_on_worker else []
    return [
        *(one for one in settings.jars if one.endswith("*") or Path(one).exists()),
        *(str(jar) for folder in brought for jar in sorted(Path(str(folder)).glob("*.jar"))),
        *(os.environ[name] for name in ("HADOOP_CONF_DIR", "SPARK_CONF_DIR") if name in os.environ),
        f"{home}/jars/*",
    ]


def _path_of(entry: str) -> str:
    url = urlsplit(entry.strip())
    return unquote(url.path) if url.scheme in ("file", "local") else entry.strip()


def _remove(root: str, process: int) -> None:
    if os.getpid() == process:  # a forked worker's end is not ours
        shutil.rmtree(root, ignore_errors=True)
