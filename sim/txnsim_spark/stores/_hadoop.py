"""A JVM that reads through Hadoop's file system for this process: HDFS, and what else the session
has a file system for. A process with a Spark session uses the session's JVM. Any other process
starts one (py4j's server out of Spark's own jars, no class of ours in it).

Workers of PySpark can't reach the JVM that forked them, so each worker that reads HDFS starts one
JVM, once. Bytes come in ranges, through a scratch file as large as one range, as py4j hands arrays
of bytes over as text. Memory does not grow with a file's size.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from txnsim.errors import BadInputError, MissingExtraError
from txnsim_spark.active import active_session
from txnsim_spark.stores.settings import StoreSettings, class_path
from txnsim_spark.stores.uris import Status

BUFFER_BYTES: Final = 4 << 20
"""Upper bound of one read from Hadoop."""
JAVA_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_STATUS: Final = re.compile(
    r"path=(?P<path>.+?); isDirectory=(?P<folder>true|false);(?: length=(?P<size>\d+);)?"
    r".*?modification_time=(?P<time>-?\d+);"
)
"""Of ``FileStatus.toString``: thousands of them come as one text, as each call of py4j costs a
fraction of a millisecond. Where it says something else, they are asked one by one.
"""


class Gateway:
    """The JVM, with a Hadoop configuration."""

    def __init__(self, jvm: Any, conf: Any) -> None:
        self._jvm = jvm
        self._conf = conf
        self._of_thread = threading.local()

    # Names

    def globbed(self, uri: str) -> tuple[Status, ...]:
        """The folders that a name or a pattern stands for.

        Raises:
            BadInputError: The store can't be asked; the message says why.
        """
        path = self._path(uri)
        try:
            found = path.getFileSystem(self._conf).globStatus(path)
        except Exception as error:
            raise BadInputError(f"{uri}: {reason_of(error)}") from error
        return tuple(one for one in map(_status, found or ()) if one.is_folder)

    def below(self, uri: str) -> tuple[Status, ...]:
        """All files below a folder.

        Raises:
            BadInputError: The store can't be asked.
        """
        path = self._path(uri)
        try:
            return self._all(path.getFileSystem(self._conf).listFiles(path, True))  # noqa: FBT003 - Java's
        except Exception as error:
            raise BadInputError(f"{uri}: {reason_of(error)}") from error

    def listed(self, uri: str) -> tuple[Status, ...]:
        """Files and folders in a folder.

        Raises:
            OSError: It can't be listed.
        """
        path = self._path(uri)
        try:
            return self._all(path.getFileSystem(self._conf).listStatusIterator(path))
        except Exception as error:
            raise os_error(error, uri) from error

    def _all(self, iterator: Any) -> tuple[Status, ...]:
        many = self._jvm.org.apache.hadoop.util.functional.RemoteIterators.toList(iterator)
        count = many.size()
        found = [
            Status(
                uri=one["path"],
                is_folder=one["folder"] == "true",
                size=int(one["size"] or 0),
                modified_ns=int(one["time"]) * 1_000_000,
            )
            for one in _STATUS.finditer(many.toString())
        ]
        return tuple(found) if len(found) == count else tuple(map(_status, many))

    # Bytes

    def open(self, file: Status, *, is_sequential: bool) -> HadoopFile:
        """A file.

        Raises:
            OSError: It can't be opened.
        """
        uri, size = file.uri, file.size
        path = self._path(uri)
        policy = "sequential" if is_sequential else "random"
        try:
            building = path.getFileSystem(self._conf).openFile(path)
            building = building.opt("fs.option.openfile.length", str(size))
            stream = building.opt("fs.option.openfile.read.policy", policy).build().get()
        except Exception as error:
            raise os_error(error, uri) from error
        channel = self._jvm.java.nio.channels.Channels.newChannel(stream)
        return HadoopFile(self, stream, channel, uri=uri, size=size)

    def expect(self, files: Sequence[Status]) -> None:
        """Ignored: Hadoop reads no file ahead."""

    def read(self, stream: Any, channel: Any, view: memoryview, position: int) -> int:
        """Fill a view, or less of it at the end; what the JVM throws comes through.

        py4j hands over arrays of bytes as text, twice, so a file is between.
        """
        descriptor, out = self._scratch
        stream.seek(position)
        count: int = out.transferFrom(channel, 0, len(view))
        filled = 0
        while filled < count:
            filled += os.preadv(descriptor, [view[filled:count]], filled)
        return count

    @property
    def _scratch(self) -> tuple[int, Any]:
        """A file that this thread and the JVM have open, and no folder has."""
        if not hasattr(self._of_thread, "scratch"):
            descriptor, path = tempfile.mkstemp(prefix="txnsim-range-")
            out = self._jvm.java.io.RandomAccessFile(path, "rw").getChannel()
            Path(path).unlink()
            self._of_thread.scratch = descriptor, out
        found: tuple[int, Any] = self._of_thread.scratch
        return found

    def _path(self, uri: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(uri)


class HadoopFile:
    """An open file of a store (``storage.regular_file.RangeFile``)."""

    def __init__(self, gateway: Gateway, stream: Any, channel: Any, *, uri: str, size: int) -> None:
        self._gateway = gateway
        self._stream = stream
        self._channel = channel
        self._uri = uri
        self.size = size

    def read_into(self, view: memoryview, position: int) -> int:
        count = max(0, min(len(view), self.size - position, BUFFER_BYTES))
        if not count:
            return 0
        try:
            return self._gateway.read(self._stream, self._channel, view[:count], position)
        except Exception as error:
            raise os_error(error, self._uri) from error

    def close(self) -> None:
        self._stream.close()


def of_session() -> Gateway | None:
    """The gateway of this process's Spark session; None without a session or a JVM."""
    from pyspark import SparkContext

    spark = active_session()
    gateway = SparkContext._gateway
    if spark is None or gateway is None:
        return None
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    return Gateway(gateway.jvm, conf)


def launched(settings: StoreSettings) -> Gateway:
    """By a JVM that lives as long as this process.

    Raises:
        MissingExtraError: It can't be started.
    """
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
    from py4j.protocol import Py4JError

    entries = class_path(settings)
    try:
        port, token = launch_gateway(
            port=0,
            jarpath=_server_jar(entries[-1]),
            classpath=os.pathsep.join(entries),
            javaopts=list(JAVA_OPTIONS),
            java_path=_java(),
            die_on_exit=True,
            enable_auth=True,
        )
    except (OSError, Py4JError) as error:
        raise MissingExtraError(
            f"a worker that reads through Hadoop's file system starts Java, and could not: {error}"
        ) from error
    made = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    conf = made.jvm.org.apache.hadoop.conf.Configuration(not settings.xml)
    if settings.xml:
        conf.addResource(made.jvm.java.io.ByteArrayInputStream(zlib.decompress(settings.xml)))
    return Gateway(made.jvm, conf)


def reason_of(error: Exception) -> str:
    """First line of a Java exception's message."""
    return _java_text(error).partition("\n")[0]


def os_error(error: Exception, uri: str) -> OSError:
    """What Java threw, as Python's own reading of files has it."""
    text = reason_of(error)
    if "FileNotFoundException" in text:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), uri)
    if "AccessDenied" in text or "AccessControlException" in text:
        return PermissionError(errno.EACCES, os.strerror(errno.EACCES), uri)
    return OSError(errno.EIO, text, uri)


def _java_text(error: Exception) -> str:
    thrown = getattr(error, "java_exception", None)
    if thrown is None:
        return str(error)
    cause = thrown
    while cause.getClass().getName().endswith(("ExecutionException", "CompletionException")):
        if cause.getCause() is None:
            break
        cause = cause.getCause()
    return str(cause.toString())


def _status(status: Any) -> Status:
    return Status(
        uri=status.getPath().toString(),
        is_folder=status.isDirectory(),
        size=status.getLen(),
        modified_ns=status.getModificationTime() * 1_000_000,
    )


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return "java" if not home else str(Path(home) / "bin" / "java")


def _server_jar(jars: str) -> str:
    found: Sequence[Path] = sorted(Path(jars).parent.glob("py4j-*.jar"))
    if not found:
        raise MissingExtraError(f"no py4j in {jars}: SPARK_HOME names no Spark")
    return str(found[0])
