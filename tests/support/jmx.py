"""The metrics of a real broker, read over JMX from its process, without a port."""

from __future__ import annotations

import re
import subprocess
from typing import Final

import msgspec

from tests.support.apache_kafka import POM, ApacheKafkaError, tool
from tests.support.lived import Lived

READER: Final = POM.with_name("jmx") / "JmxReader.java"
_PROPERTY: Final = re.compile(r'(\w+)=("[^"]*"|[^,]*)')


class Bean(msgspec.Struct, frozen=True, kw_only=True):
    """One attribute of one bean."""

    name: str
    attribute: str
    value: float

    @property
    def properties(self) -> dict[str, str]:
        """The key properties of its name, such as ``request`` and ``version``."""
        _, _, rest = self.name.partition(":")
        return {key: value.strip('"') for key, value in _PROPERTY.findall(rest)}


class Jmx(Lived):
    """A reader of one JVM's beans, as a context manager.

    Args:
        pid: Whose; a process of this user.
    """

    def __init__(self, pid: int) -> None:
        java = tool("java", "JMX needs a JDK 17")
        self._process = subprocess.Popen(
            [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", str(READER), str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _left(self, exc: BaseException | None) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()  # it ends with its questions

    def read(self, pattern: str, *attributes: str) -> list[Bean]:
        """These attributes of the beans whose names match, as far as they have them."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write("\t".join((pattern, *attributes)) + "\n")
        stdin.flush()
        found: list[Bean] = []
        while True:
            line = stdout.readline()
            if not line:
                raise ApacheKafkaError(f"JMX: no answer to {pattern}")
            if line == "\n":
                return found
            name, attribute, value = line.rstrip("\n").split("\t")
            found.append(Bean(name=name, attribute=attribute, value=float(value)))
