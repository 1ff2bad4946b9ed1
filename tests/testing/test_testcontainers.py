"""The Testcontainers helper is compiled against the published jar and does what can be tried
without containers. That a container really runs is not tried here: see docs/testing.md.
"""

from __future__ import annotations

import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.support.apache_kafka import CACHE, REPOSITORY, locked

pytestmark = pytest.mark.real

MODULE = REPOSITORY / "helpers" / "testcontainers-java"


def test_the_java_module_compiles_and_its_tests_pass() -> None:
    maven = shutil.which("mvn")
    assert maven, "mvn not found: the helper for Testcontainers is a Maven module"
    build = CACHE / "testcontainers-java"
    with locked(CACHE / "testcontainers-java.lock"):
        shutil.rmtree(build, ignore_errors=True)
        build.mkdir(parents=True)
        done = subprocess.run(
            [maven, "-q", "-B", "-f", str(MODULE / "pom.xml"), f"-Dtxnsim.build={build}", "test"],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert _passed(build / "surefire-reports") >= 6


def _passed(reports: Path) -> int:
    suites = [ElementTree.parse(file).getroot() for file in sorted(reports.glob("TEST-*.xml"))]
    for suite in suites:
        assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (*("0",) * 3,)
    return sum(int(suite.get("tests", "0")) for suite in suites)
