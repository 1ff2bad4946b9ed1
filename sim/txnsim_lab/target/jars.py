"""Apache Kafka's jars, fetched by Maven once per release.

They are kept below ``$XDG_CACHE_HOME/txnsim/kafka`` (``~/.cache`` unless set).
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from txnsim.errors import ConfigError
from txnsim.files import place_when_whole
from txnsim.releases import REFERENCE, Release

OLDEST_VERSION: Final = (3, 1)
"""The oldest release that can be started: its brokers run on Java 17 and without ZooKeeper. KRaft
is a preview up to 3.2, but has all that stories need.
"""
_RELEASE_RE: Final = re.compile(r"apache-(\d+\.\d+\.\d+)")
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>txnsim</groupId>
  <artifactId>apache-kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>VERSION</version>
      <exclusions>
        <exclusion>
          <groupId>org.apache.kafka</groupId>
          <artifactId>kafka-tools-api</artifactId>
        </exclusion>
      </exclusions>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin>
        <groupId>org.apache.maven.plugins</groupId>
        <artifactId>maven-dependency-plugin</artifactId>
        <version>3.8.1</version>
      </plugin>
    </plugins>
  </build>
</project>
"""
"""A Maven project for a broker's class path, and a logger that writes to standard error. It
excludes the tools API, which was not published for every release.
"""


def version_of(release_name: str) -> str:
    """Parse ``apache-4.0.2`` into a release.

    Raises:
        ConfigError: The text names no release, or one that can't be started.
    """
    match = _RELEASE_RE.fullmatch(release_name)
    if match is None:
        raise ConfigError(
            f"{release_name}: expected a release of Apache Kafka such as "
            f"apache-{REFERENCE.patch_release}"
        )
    version = match[1]
    if Release.line_of(version) < OLDEST_VERSION:
        raise ConfigError(
            f"{release_name}: too old: brokers are started on Java 17 and without "
            "ZooKeeper, which can be "
            "done since 3.1"
        )
    return version


def directory_of(version: str) -> Path:
    """Directory of a release's jars; it need not exist yet."""
    cache_home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache_home) / "txnsim" / "kafka" / version / "libs"


def fetch(version: str, *, say: Callable[[str], object]) -> Path:
    """The directory with the jars of a release; if it is missing, Maven copies them there.

    Raises:
        ConfigError: There is no Maven, or it failed; the message has its error.
    """
    libs = directory_of(version)
    libs.parent.mkdir(parents=True, exist_ok=True)
    with (libs.parent / "lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)  # one process fetches, others wait for it
        if not libs.is_dir():
            say(f"fetching Apache Kafka {version} by Maven into {libs} …")
            _copy_jars(version, libs)
    return libs


def java() -> str:
    """Path of the ``java`` command.

    Raises:
        ConfigError: Java is not installed.
    """
    java_path = shutil.which("java")
    if java_path is None:
        raise ConfigError("java: not found; Apache Kafka needs a JDK 17 or newer on the PATH")
    return java_path


def _copy_jars(version: str, libs: Path) -> None:
    maven_program = shutil.which("mvn")
    if maven_program is None:
        raise ConfigError(
            "mvn: not found; Apache Kafka's jars are fetched by Maven: install a JDK 17 and Maven "
            "(Debian: apt-get install openjdk-17-jdk-headless maven)"
        )
    with place_when_whole(libs) as partial_libs, tempfile.TemporaryDirectory() as project_directory:
        pom_file = Path(project_directory) / "pom.xml"
        pom_file.write_text(_POM.replace("VERSION", version), encoding="utf-8")
        maven_goal = ("dependency:copy-dependencies", f"-DoutputDirectory={partial_libs}")
        maven_run = subprocess.run(
            (maven_program, "-q", "-B", "-f", str(pom_file), *maven_goal),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if maven_run.returncode != 0:
            error_lines = (maven_run.stdout + maven_run.stderr).strip().splitlines()[:12]
            raise ConfigError(
                "\n".join([f"Maven can't fetch Apache Kafka {version}:", *error_lines])
            )
