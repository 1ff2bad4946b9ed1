"""Threads of a real broker that stand still, as they do where a machine has no time for them."""

from __future__ import annotations

import subprocess
from typing import Final

from tests.support.apache_kafka import POM, ApacheKafkaError, tool
from tests.support.lived import Lived

HOLDER: Final = POM.with_name("threads") / "ThreadHolder.java"
JVM_OPTION: Final = "-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=127.0.0.1:0"
"""What a JVM is started with whose threads are to be held."""


class Threads(Lived):
    """The threads of one JVM, as a context manager; with its end all go on.

    Args:
        pid: Of the JVM; a process of this user that was started with ``JVM_OPTION``.
    """

    def __init__(self, pid: int) -> None:
        java = tool("java", "threads of a broker are held by a JDK 17")
        self._process = subprocess.Popen(
            [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", str(HOLDER), str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _left(self, exc: BaseException | None) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()  # it ends with its lines

    def hold(self, name: str) -> None:
        """Let all threads stand still whose names begin so.

        Raises:
            ApacheKafkaError: There are none.
        """
        self._say("hold", name)

    def release(self, name: str) -> None:
        """Let them go on.

        Raises:
            ApacheKafkaError: There are none.
        """
        self._say("release", name)

    def _say(self, verb: str, name: str) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{verb} {name}\n")
        stdin.flush()
        found = stdout.readline().strip()
        if found in ("", "0"):
            raise ApacheKafkaError(f"{verb} {name}: there is no such thread")
